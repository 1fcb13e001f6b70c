"""Learning without playing and playing without learning: what an iteration of either does.

Both are said as tasks, which several learners are told alike: rank 0 gives its own to the others in each iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rookery.core.batch import Rollout
from rookery.core.errors import ConfigError
from rookery.training.compute import threads_for
from rookery.training.pace import CHUNK, ITERATION, with_replay
from rookery.training.run import Progress, Run


@dataclass
class LearnAlone:
    """Gradient steps on replay alone.

    Attributes:
        names: The policies that make them.
        wanted: How many each of them is to make.
        left: How many are still to be made.
    """

    names: Sequence[str]
    wanted: int
    left: int

    def __call__(self, run: Run, progress: Progress) -> None:
        """Makes those of an iteration, unless somebody asks to stop."""
        for name in self.names:
            run.learners[name].horizon = run.horizon
        number = min(ITERATION, self.left)
        while number and not run.ranks.asked(run.interrupt):
            chunk = min(CHUNK, number)
            for name in self.names:
                learner = run.learners[name]
                with run.timers["learn"], threads_for(learner, run.threads[name]):
                    learner.learn(chunk)
                progress.learned.setdefault(name, [])
            number, self.left = number - chunk, self.left - chunk
        for name in self.names:
            run.learners[name].explore()
        run.pool.set_weights({name: run.learners[name].behaviour for name in self.names})

    def criteria(self, run: Run) -> dict[str, float]:
        """What ends it, to be shown."""
        return {"gradient_steps": max(run.replays[name].gradient_steps for name in self.names) + self.left}

    def reason(self, run: Run) -> str:
        """Says why it ends, with the steps that were made before; nothing if it goes on."""
        if self.left:
            return ""
        made = max(run.replays[name].gradient_steps for name in self.names)
        new = f", {self.wanted:,} of them new" if made > self.wanted else ""
        return f"{made:,} gradient steps are made{new}"


@dataclass
class PlayAlone:
    """Playing that only fills replay.

    Attributes:
        wanted: Env steps, at least.
        until: Env steps of the run at which it ends.
    """

    wanted: int
    until: int

    def __call__(self, run: Run, progress: Progress) -> None:
        """Plays those of an iteration, unless somebody asks to stop."""
        end = min(run.env_steps + ITERATION, self.until)
        try:
            while run.env_steps < end and not run.ranks.asked(run.interrupt):
                with run.timers["sample"]:
                    sample = run.pool.sample(end - run.env_steps)
                run.count_played(sample)
                if sample.newcomers:
                    run.introduce(sample.newcomers)
                for name in run.replays:
                    if name in sample.rollouts:
                        _store(run, name, sample.rollouts[name], progress)
                run.pool.set_weights({name: run.learners[name].behaviour for name in sample.rollouts})
        finally:
            if run.progress is not None:  # an iteration that was stopped has not come further by this
                run.progress.pass_over(run.env_steps - progress.env_steps, run.lane_steps - progress.lane_steps)

    def criteria(self, run: Run) -> dict[str, float]:
        """What ends it, to be shown."""
        return {"env_steps": self.until}

    def reason(self, run: Run) -> str:
        """Says why it ends; nothing if it goes on."""
        return "" if run.env_steps < self.until else f"{self.wanted:,} env steps are played"


def _store(run: Run, name: str, rollout: Rollout, progress: Progress) -> None:
    """Keeps what a policy has played, without learning from it."""
    learner, rollout = run.learners[name], run.staging.send_rollout(rollout)
    run.tell_time(name, rollout)
    run.replays[name].store(rollout)
    learner.explore()
    run.count_learned(name, rollout)
    progress.note(name, {}, rollout)


def to_learn(run: Run, gradient_steps: int, policies: Sequence[str] | None) -> LearnAlone:
    """Returns the task of learning alone.

    Raises:
        ConfigError: If a policy does not learn from replay, or nothing is in it.
    """
    names = with_replay(run, "learn", policies)
    if gradient_steps < 1:
        raise ConfigError(f"learn: gradient_steps = {gradient_steps}: must be at least 1")
    for name in names:
        run.replays[name].check_not_empty()
    return LearnAlone(names, gradient_steps, gradient_steps)


def to_play(run: Run, env_steps: int) -> PlayAlone:
    """Returns the task of playing alone.

    Raises:
        ConfigError: If no policy learns from replay.
    """
    names = with_replay(run, "collect", None)
    if env_steps < 1:
        raise ConfigError(f"collect: env_steps = {env_steps}: must be at least 1")
    for name in run.learners:
        if name not in names:
            run.note(f"policy {name} has no replay: what it plays while collecting is not kept")
    return PlayAlone(env_steps, run.env_steps + env_steps)
