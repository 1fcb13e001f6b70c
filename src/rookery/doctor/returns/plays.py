"""`Plays`: the episodes of a run's policies, of random play and of constant actions."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.core.seeding import Role, Streams
from rookery.core.spaces.arrays import MASK, Tree
from rookery.doctor.probe import ConstantAction, constant_actions
from rookery.doctor.returns.episode_returns import FEWEST, EpisodeMeter, EpisodeReturns
from rookery.envs.base import VectorEnv
from rookery.envs.groups import groups_of
from rookery.policies.policy import Policy
from rookery.policies.scripted import ScriptedPolicy
from rookery.run.evaluate.episode_limit import BoundedEpisodes
from rookery.run.evaluate.evaluation import lessons_of, limit_of
from rookery.run.findings.history import History
from rookery.run.findings.run_rules import is_below
from rookery.run.trainer import Trainer

EPISODES, OF_CONSTANT = 40, 16
"""Most episodes of an evaluation and of random play, and of each constant action."""

MOST_CONSTANTS = 8
"""Largest number of constant actions that are tried."""

LANES = 8

CHUNK = 64
"""Vector steps between two looks at the clock."""

Constants = Sequence[tuple[str, EpisodeReturns]]
"""Returns of constant actions, with their names."""


@dataclass(frozen=True)
class Plays:
    """Returns of the behaviours that are compared; None where no episode has ended in time.

    Attributes:
        own: The policies, as an evaluation plays them.
        chance: Random play.
        drawn: The policies with drawn actions, where an evaluation plays the most likely ones and these earn no more
            than random play, or far less than training; else None.
        constants: Constant actions; they are left out for returns that say nothing on a policy.
        gamma: The discount of all policies; None if they differ, or rewards are those of groups.
    """

    own: EpisodeReturns | None
    chance: EpisodeReturns | None = None
    drawn: EpisodeReturns | None = None
    constants: Constants = ()
    gamma: float | None = None

    @property
    def is_enough(self) -> bool:
        """Whether the policies have played enough episodes for a comparison."""
        return self.own is not None and len(self.own.values) >= FEWEST

    @property
    def texts(self) -> list[str]:
        """The returns in words."""
        named = (("evaluation", self.own), ("random play", self.chance), ("drawn actions", self.drawn))
        return [f"{name} {one.text()}" for name, one in named if one is not None]


def play_behaviours(trainer: Trainer, history: History | None, until: float) -> Plays:
    """Plays the policies of a run, random actions, and constant actions.

    Args:
        trainer: The run.
        history: Its rows; None without rows.
        until: Time of `time.monotonic` up to which an examination lasts; about two thirds of it are used.
    """
    left, gamma = until - time.monotonic(), _gamma_of(trainer, history)
    is_deterministic = trainer.config.evaluation.deterministic
    own = _returns(trainer, trainer.policies, until - 0.65 * left, is_deterministic, gamma)
    chance = _returns(trainer, _random_policies(trainer), until - 0.5 * left, False, gamma)
    found = Plays(own, chance, gamma=gamma)
    if own is None or not found.is_enough or (history is not None and not history.is_judged):
        return found
    is_poor = is_far_below(own, history) or (chance is not None and own.is_no_better(chance))
    drawn = None
    if is_deterministic and is_poor:
        drawn = _returns(trainer, trainer.policies, until - 0.4 * left, False, gamma)
    return Plays(own, chance, drawn, constant_returns(trainer, until - 0.3 * left, gamma), gamma)


def is_far_below(own: EpisodeReturns, history: History | None) -> bool:
    """Returns whether returns are far below those of training."""
    if history is None or history.latest is None:
        return False
    entry = {"return_mean": history.latest, "evaluation": [own.mean, *own.interval]}
    return is_below(entry, history.scatter)


def _gamma_of(trainer: Trainer, history: History | None) -> float | None:
    """Returns the discount of all policies; None if they differ, or rewards are those of groups."""
    found = {history.number("gamma", name) for name in trainer.policies} if history is not None else set()
    return found.pop() if len(found) == 1 and not groups_of(trainer.env) else None


def _random_policies(trainer: Trainer) -> dict[str, Policy]:
    """Returns a policy of random actions in place of each policy."""
    return {
        name: ScriptedPolicy(policy.obs_spec, policy.action_spec, name=name)
        for name, policy in trainer.policies.items()
    }


def _returns(
    trainer: Trainer, policies: Mapping[str, Policy], until: float, deterministic: bool, gamma: float | None
) -> EpisodeReturns | None:
    """Returns the returns of up to `EPISODES` episodes; None if none has ended in time."""
    with trainer._copies(LANES) as env:
        return _played_in(env, trainer, policies, until, deterministic, gamma, EPISODES)


def _played_in(
    env: VectorEnv,
    trainer: Trainer,
    policies: Mapping[str, Policy],
    until: float,
    deterministic: bool,
    gamma: float | None,
    episodes: int,
) -> EpisodeReturns | None:
    """Returns the returns of episodes in some environments; None if none has ended in time."""
    meter = EpisodeMeter(gamma)
    played = BoundedEpisodes(
        env,
        policies,
        trainer._mapping,
        trainer._streams,
        deterministic=deterministic,
        episodes=episodes,
        limit=limit_of(trainer),
        listeners=[meter],
        draws=trainer._draws,
        lessons=lessons_of(trainer),
    )
    while not played.over and time.monotonic() < until:
        played.play(CHUNK)
    finished = sorted(played.finished, key=lambda one: one.index * LANES + one.lane)
    return EpisodeReturns.of(finished, meter.paths)


def constant_returns(trainer: Trainer, until: float, gamma: float | None) -> Constants:
    """Returns the returns of constant actions, of those for which there is time.

    Args:
        trainer: The run.
        until: Time of `time.monotonic` at which it ends.
        gamma: The discount; None = discounted returns are left out.
    """
    found: list[tuple[str, EpisodeReturns]] = []
    behaviours = constant_policies(trainer.policies)
    if not behaviours or time.monotonic() > until:
        return found
    with trainer._copies(LANES) as env:
        for place, (text, policies) in enumerate(behaviours):
            now = time.monotonic()
            ends = now + (until - now) / (len(behaviours) - place)
            played = _played_in(env, trainer, policies, ends, False, gamma, min(EPISODES, OF_CONSTANT))
            if played is not None:
                found.append((text, played))
    return found


class ConstantPolicy(ScriptedPolicy):
    """Policy that always plays one action, and a random one where that is not allowed.

    Args:
        policy: The policy in whose place it plays.
        constant: The action.
    """

    def __init__(self, policy: Policy, constant: ConstantAction) -> None:
        super().__init__(policy.obs_spec, policy.action_spec, name=policy.name)
        self._constant = constant

    def __deepcopy__(self, memo: dict[int, Any]) -> ConstantPolicy:
        """Returns a policy with the same action."""
        return ConstantPolicy(self, self._constant)

    def _uniform(self, tree: Tree, numbers: np.ndarray) -> np.ndarray:
        """Returns stored actions ``[N, ...]``."""
        action, stored = super()._uniform(tree, numbers), self._constant.stored
        allowed = tree[MASK][:, int(stored)] if self._masked else np.ones(len(action), bool)
        action[allowed] = stored
        return action


def constant_policies(policies: Mapping[str, Policy]) -> list[tuple[str, dict[str, Policy]]]:
    """Returns constant behaviours with their names: the same number of action for all policies.

    Args:
        policies: The policies in whose place they play; none is returned where masks are not of one discrete action.
    """
    if any(one.obs_spec.has_mask and one.action_spec.kind != "discrete" for one in policies.values()):
        return []
    rng = Streams(0).generator(Role.ACTION, "doctor")
    each = {
        name: constant_actions(one.action_spec, rng, elements=False, most=MOST_CONSTANTS)
        for name, one in policies.items()
    }
    return [
        (actions[0].text, {name: ConstantPolicy(policies[name], one) for name, one in zip(each, actions, strict=True)})
        for actions in zip(*each.values(), strict=False)
    ]
