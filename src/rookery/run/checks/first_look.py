"""Notes on an environment from the first samples of a run, like those of ``rookery envs check``: observations that are
all the same, and no reward.
"""

from __future__ import annotations

from torch import Tensor

from rookery.core.batch import Rollout, flat
from rookery.core.spaces.arrays import MASK
from rookery.rollout.worker import Sample
from rookery.run.run import Run

STEPS = 2_000
"""Decisions of a policy, and environment steps of the run, after which a note is shown."""

EPISODES = 10
"""Finished episodes after which a note on rewards is shown."""

FEW = 64
"""Rows of a rollout that are compared before all others, because those of nearly every environment differ."""


class FirstLook:
    """Looks at the first samples of a run: until each policy has seen two different observations, or `STEPS`, and until
    there was a reward, or `EPISODES` and `STEPS` without any.

    Attributes:
        begun: Whether it has seen the first sample; a resumed run is not looked at.
        over: Whether no further samples are needed.
    """

    def __init__(self) -> None:
        self.begun = self.over = False
        self._first: dict[str, dict[str, Tensor]] = {}
        """First observation of each policy."""
        self._same: dict[str, int] = {}
        """Decisions of each policy that has not seen another one."""
        self._rewarded = False
        self._episodes = self._steps = 0

    def take(self, sample: Sample) -> None:
        """Looks at a sample."""
        self.begun, self._steps = True, sample.env_steps
        self._episodes += len(sample.finished)
        self._rewarded |= any(one.total or any(one.agents.values()) for one in sample.finished)
        for name, rollout in sample.rollouts.items():
            if not self._rewarded:
                self._rewarded = bool(flat(rollout.reward, rollout.valid_rows()).any())
            if name not in self._first or name in self._same:
                self._compare(name, rollout)
        enough = self._steps >= STEPS and self._episodes >= EPISODES
        seen = bool(self._first) and all(count >= STEPS for count in self._same.values())
        self.over = seen and (self._rewarded or enough)

    def _compare(self, name: str, rollout: Rollout) -> None:
        """Compares the observations of a rollout with the first one of its policy."""
        rows, count = rollout.valid_rows(), rollout.num_decisions
        if not count:
            return
        leaves = {path: flat(leaf, rows) for path, leaf in rollout.obs.items() if path != MASK}
        first = self._first.setdefault(name, {path: leaf[:1].clone() for path, leaf in leaves.items()})
        parts = (max(1, count // FEW), 1)
        if any(bool((leaves[path][::step] != one).any()) for step in parts for path, one in first.items()):
            self._same.pop(name, None)
        else:
            self._same[name] = self._same.get(name, 0) + count

    def lines(self, run: Run) -> list[str]:
        """Returns the notes once, when it is over."""
        if not self.over:
            return []
        lines = [
            f"policy {name} has made {count:,} decisions, and all its observations were the same: they do not show "
            "what its actions change; check what reset and step return (rookery envs check ENV)"
            for name, count in self._same.items()
        ]
        signals = [getattr(one.cfg, "signals", None) for one in run.learners.values()]
        if not self._rewarded and not any(one and one.others for one in signals):
            lines.append(
                f"no reward in the first {self._steps:,} environment steps ({self._episodes:,} episodes); if it lasts, "
                "try an exploration signal ('algorithm.signals.rnd={}'), or a reward for progress (env.wrappers)"
            )
        self._same, self._rewarded = {}, True
        return lines
