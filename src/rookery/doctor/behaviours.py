"""`EpisodeReturns`: what the trained policies, random play and constant actions earn, and the rules that compare them.

Each behaviour is played for some episodes, whose returns are also discounted with the gamma of the run, and whose last
info may have a flag of success.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from rookery.core.seeding import Role, Streams
from rookery.core.spaces.arrays import MASK, Tree
from rookery.doctor.probe import ConstantAction, constant_actions
from rookery.policies.policy import Policy
from rookery.policies.scripted import ScriptedPolicy
from rookery.report.finding import Finding
from rookery.report.statistics import mean_interval
from rookery.rollout.hooks import Episode, EpisodeListener, EpisodeResult
from rookery.run.findings.catalog import finding
from rookery.run.findings.history import is_negligible

FEWEST = 8
"""Fewest episodes that are compared."""

MOST_CONSTANTS = 8
"""Largest number of constant actions that are tried."""

FLAGS = ("is_success", "success")
"""Names of the flag of success in the last info of an episode."""

RARE = 0.5
"""Share of successful episodes below which success is rare."""

STAYS = "to stay in the episode earns more than success"
LEAVES = "steps cost, and an end without success costs less, so the policy ends episodes early"
PAID = "the reward pays for something else"

DISCOUNTED, SUCCESS = "discounted", "success"
"""Metrics of an episode that is played here."""


@dataclass(frozen=True)
class EpisodeReturns:
    """Returns of the episodes of a behaviour.

    Attributes:
        values: Return of each episode.
        discounted: Its discounted return; empty if gamma is unknown.
        successes: Whether each episode with a flag of success had it set at its end.
        lengths: Environment steps of each episode.
    """

    values: tuple[float, ...]
    discounted: tuple[float, ...] = ()
    successes: tuple[bool, ...] = ()
    lengths: tuple[int, ...] = ()

    @classmethod
    def of(cls, finished: Sequence[EpisodeResult]) -> EpisodeReturns | None:
        """Returns those of finished episodes that an `EpisodeMeter` has listened to; None if there are none."""
        if not finished:
            return None
        discounted = tuple(one.metrics[DISCOUNTED] for one in finished if DISCOUNTED in one.metrics)
        return cls(
            tuple(one.total for one in finished),
            discounted if len(discounted) == len(finished) else (),
            tuple(one.metrics[SUCCESS] > 0.0 for one in finished if SUCCESS in one.metrics),
            tuple(one.length for one in finished),
        )

    @property
    def mean(self) -> float:
        """Mean return."""
        return math.fsum(self.values) / len(self.values)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the mean return."""
        return mean_interval(self.values)

    @property
    def width(self) -> float:
        """Range of the returns."""
        return max(self.values) - min(self.values)

    def is_no_better(self, other: EpisodeReturns) -> bool:
        """Returns whether these are no better than others: not for certain, or by a negligible amount."""
        certain = self.interval[0] > other.interval[1]
        return not certain or is_negligible(self.mean - other.mean, other.mean, other.width)

    def text(self) -> str:
        """Returns mean and interval in words."""
        low, high = self.interval
        return f"{self.mean:.4g} [{low:.4g}, {high:.4g}] in {len(self.values)} episodes"


class EpisodeMeter(EpisodeListener):
    """Measures discounted returns and flags of success.

    Args:
        gamma: The discount; None = discounted returns are left out.
    """

    def __init__(self, gamma: float | None) -> None:
        self._gamma = gamma

    def on_episode_step(self, episode: Episode) -> None:
        """Adds the rewards of a step to the discounted return."""
        if self._gamma is not None:
            reward = math.fsum(episode.reward.values()) * self._gamma ** (episode.length - 1)
            episode.metrics[DISCOUNTED] = episode.metrics.get(DISCOUNTED, 0.0) + reward

    def on_episode_end(self, episode: Episode) -> None:
        """Keeps the flag of success of an episode that has one."""
        if (success := _flag_in(episode.info)) is not None:
            episode.metrics[SUCCESS] = float(success)


def _flag_in(infos: Mapping[str, Any]) -> bool | None:
    """Returns the flag of success in the infos of agents, whether all that have one have it set; None without one."""
    each = [info for info in infos.values() if isinstance(info, Mapping)]
    found = [info[name] for info in each for name in FLAGS if isinstance(info.get(name), bool | int | float | np.bool_)]
    return all(map(bool, found)) if found else None


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


Constants = Sequence[tuple[str, EpisodeReturns]]
"""Returns of constant actions, with their names."""


def no_better_than_constant(
    own: EpisodeReturns, chance: EpisodeReturns | None, constants: Constants, learns: bool
) -> list[Finding]:
    """Finds policies that are no better than the best constant action.

    Args:
        own: Returns of the policy.
        chance: Returns of random play; None if unknown.
        constants: Returns of constant actions.
        learns: Whether the return of the training has risen.
    """
    if not constants or min(len(one.values) for one in (own, *(one for _, one in constants))) < FEWEST:
        return []
    text, best = max(constants, key=lambda pair: pair[1].mean)
    if not own.is_no_better(best):
        return []
    has_learned = learns or (chance is not None and not own.is_no_better(chance))
    hardly = "hardly" if own.interval[0] > best.interval[1] else "no"
    line = f"the policy is {hardly} better than always {text}: {own.mean:.4g} and {best.mean:.4g}"
    if own.interval[1] < best.interval[0]:
        line = f"always {text} earns more than the policy: {best.mean:.4g} and {own.mean:.4g}"
    return [
        finding(
            "no-better-than-constant",
            line,
            f"evaluation {own.text()}",
            f"always {text} {best.text()}",
            severity="note" if has_learned else None,
        )
    ]


def gamma_short(own: EpisodeReturns, rivals: Constants, gamma: float, policy: str) -> list[Finding]:
    """Finds discounts with which another behaviour is worse than the policy, although it earns clearly more.

    Args:
        own: Returns of the policy.
        rivals: Returns of other behaviours, with their names.
        gamma: The discount.
        policy: Name of the policy; empty if there are several.
    """
    better = [
        (text, one)
        for text, one in rivals
        if min(len(own.discounted), len(one.discounted)) >= FEWEST
        and not one.is_no_better(own)
        and mean_interval(own.discounted)[0] > mean_interval(one.discounted)[1]
    ]
    if not better:
        return []
    text, best = max(better, key=lambda pair: pair[1].mean)
    length = median(own.lengths)
    discounted = [float(np.mean(one.discounted)) for one in (best, own)]
    more = f"{{at}}.gamma={max(1.0 - 1.0 / max(length, 2.0), gamma):.4g}"
    return [
        finding(
            "gamma-short",
            f"{text} earns more than the policy, {best.mean:.4g} and {own.mean:.4g}, but less of it counts with gamma "
            f"= {gamma:g}: {discounted[0]:.4g} and {discounted[1]:.4g}",
            f"gamma sees about {1.0 / (1.0 - gamma):,.0f} steps ahead, and episodes have {length:,.0f}",
            f"evaluation {own.text()}",
            f"{text} {best.text()}",
            policy=policy,
            remedies=(more, "{at}.gamma=0.99"),
        )
    ]


def return_without_success(own: EpisodeReturns, chance: EpisodeReturns) -> list[Finding]:
    """Finds returns that are clearly above those of random play, while success is rare and no more frequent.

    Args:
        own: Returns of the policy.
        chance: Returns of random play.
    """
    if min(len(own.successes), len(chance.successes)) < FEWEST or own.is_no_better(chance):
        return []
    mine, others = np.mean(own.successes), np.mean(chance.successes)
    if mine >= RARE or mean_interval(tuple(map(float, own.successes)))[0] > others:
        return []
    steps, of_chance = np.mean(own.lengths), np.mean(chance.lengths)
    by_success = [[value for value, one in zip(own.values, own.successes, strict=False) if one is is_success]
                  for is_success in (False, True)]  # fmt: skip
    failed, succeeded = (math.fsum(each) / len(each) if each else math.nan for each in by_success)
    stays = failed > succeeded or (not mine and steps > of_chance)
    more = f"episodes without success earn {failed:.4g} on average, and those with it {succeeded:.4g}"
    return [
        finding(
            "return-without-success",
            f"{100 * mine:.0f} % of the episodes of the policy are a success, and {100 * others:.0f} % of those of "
            "random play, although its return is far higher: "
            + (STAYS if stays else LEAVES if own.mean < 0.0 and steps < of_chance else PAID),
            *([more] if mine else []),
            f"evaluation {own.text()}, of {steps:,.0f} steps",
            f"random play {chance.text()}, of {of_chance:,.0f} steps",
        )
    ]
