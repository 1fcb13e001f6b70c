"""Compares behaviours by the rewards that an environment returns, and by those that its wrappers pass on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from rookery.doctor.wrappers.record import USUAL, Choose, LevelCall, Recorder, play_recorded
from rookery.policies.policy import Policy
from rookery.report.finding import Finding
from rookery.report.statistics import mean_interval
from rookery.run.findings.catalog import finding

EPISODES, FEWEST = 16, 8
"""Episodes of each behaviour, and fewest that are compared."""

MOST_CONSTANTS = 8
"""Largest number of discrete actions that are played as behaviours."""

CLEAR, RATIO = 0.05, 2.0
"""Difference of rewards that is clear, in units of their range, and factor between them."""

FEWEST_STEPS = 200
"""Fewest steps of random play in which all rewards are equal."""

FEWEST_MERGED = 3
"""Fewest steps with each of two rewards that become equal."""


@dataclass
class RewardPairs:
    """Rewards of a behaviour.

    Attributes:
        name: The behaviour in words.
        raw: Reward of the innermost environment in each step of each ended episode.
        passed: Reward that the outermost wrapper passed on.
    """

    name: str
    raw: list[list[float]] = field(default_factory=list)
    passed: list[list[float]] = field(default_factory=list)

    def returns(self, is_raw: bool) -> tuple[float, ...]:
        """Returns the return of each episode."""
        return tuple(sum(rewards) for rewards in (self.raw if is_raw else self.passed))


def pairs_of(name: str, recorder: Recorder) -> RewardPairs:
    """Returns the rewards of a behaviour, inside and outside of the wrappers, of its ended episodes.

    Args:
        name: The behaviour in words.
        recorder: Its play.
    """
    found, raw, passed = RewardPairs(name), list[float](), list[float]()
    for call in recorder.levels[0]:
        if call.is_reset:
            raw, passed = [], []
            continue
        raw.append(_innermost(call, len(recorder.levels) - 1))
        passed.append(sum(call.reward.values()))
        if call.over:
            found.raw.append(raw)
            found.passed.append(passed)
    return found


def _innermost(call: LevelCall, levels: int) -> float:
    """Returns the sum of the rewards of the innermost environment within a step, some levels below it."""
    if not levels:
        return sum(call.reward.values())
    return sum(_innermost(one, levels - 1) for one in call.steps_below)


def reordered_rewards(make: Callable[[], Any], chance: Recorder, policy: Policy, until: float) -> list[Finding]:
    """Returns the findings of the rewards that wrappers pass on, of an environment with one agent.

    Args:
        make: Makes a single throwaway environment, wrapped.
        chance: Random play.
        policy: The policy of the run.
        until: Time of `time.monotonic` at which it ends.
    """
    by_chance = pairs_of("random play", chance)
    if by_chance.raw == by_chance.passed or len(by_chance.raw) < FEWEST:
        return []
    plays, space = [by_chance], chance.env.action_space
    behaviours: list[tuple[str, Choose]] = []
    if not policy.memory_size:
        behaviours.append(("the policy", lambda obs, info: policy.predict(obs, action_mask=info.get("action_mask"))))
    if hasattr(space, "n") and policy.obs_spec.has_mask is False:
        start = int(getattr(space, "start", 0))
        numbers = range(start, start + min(int(space.n), MOST_CONSTANTS))
        behaviours += [(f"always action {number}", _always(number)) for number in numbers]
    for place, (name, choose) in enumerate(behaviours):
        now = time.monotonic()
        recorder = play_recorded(make, choose, now + (until - now) / (len(behaviours) - place), EPISODES)
        plays.append(pairs_of(name, recorder))
    passed = {value for play in plays for episode in play.passed for value in episode}
    return (all_equal(chance) if len(passed) == 1 else []) or reward_findings(plays, chance.names[:-1])


def all_equal(chance: Recorder) -> list[Finding]:
    """Finds the wrapper above which all rewards are equal, and below which they differ.

    It is a warning where no episode was terminated: then nothing that is earned depends on what the policy does. Where
    episodes end, their length still counts.

    Args:
        chance: Random play; the rewards of other behaviours are all equal, too.
    """
    for name, calls in zip(chance.names[:-1], chance.levels, strict=False):
        steps = [call for call in calls if call.reward and call.steps_below]
        above, below = (
            np.array([sum(value for one in part for value in one.reward.values()) for part in parts])
            for parts in ([[call] for call in steps], [call.steps_below for call in steps])
        )
        if name in USUAL or len(steps) < FEWEST_STEPS or np.ptp(above) or np.ptp(below) <= 1e-6 * np.abs(below).max():
            continue
        ends = any(call.terminated for call in chance.levels[0])
        apart = f"rewards below it are {below.min():.4g} to {below.max():.4g}, {len(np.unique(below)):,} different ones"
        line = f"all rewards become {above[0]:.4g} in {name}, so no behaviour earns more than another"
        if ends:
            line = f"all rewards become {above[0]:.4g} in {name}, so only the length of episodes counts"
        seen = f"{len(steps):,} steps of random play, in which {'some' if ends else 'no'} episodes were terminated"
        return [finding("rewards-merged", line, apart, seen, severity="note" if ends else None)]
    return []


def _always(number: int) -> Choose:
    """Returns a choice of one action in every step."""
    return lambda obs, info: number


def reward_findings(plays: Sequence[RewardPairs], wrappers: Sequence[str]) -> list[Finding]:
    """Finds different rewards that become equal, and behaviours that have another order.

    Args:
        plays: Rewards of behaviours, random play first.
        wrappers: Names of the wrappers, the outermost first.
    """
    merged, order = merged_rewards(plays), changed_order(plays)
    names = " and ".join(name for name in wrappers if name not in USUAL) or "a wrapper"
    if merged is not None:
        low, high, value = merged
        line = f"rewards of {low:.4g} and of {high:.4g} both become {value:.4g} in {names}"
        kept = ["all behaviours that were played have the same order by both returns"]
        return [finding("rewards-merged", line, *(order or kept), severity="warning" if order else "note")]
    return [finding("rewards-reordered", f"{names} changes which behaviour earns more", *order)] if order else []


def merged_rewards(plays: Sequence[RewardPairs]) -> tuple[float, float, float] | None:
    """Returns two clearly different rewards of the environment that become equal, and what they become; None if there
    are none. Values near 0 are compared by their distance, others by their ratio, too.

    Args:
        plays: Rewards of behaviours.
    """
    raw = np.array([value for play in plays for episode in play.raw for value in episode])
    passed = np.array([value for play in plays for episode in play.passed for value in episode])
    if not len(raw) or not np.ptp(raw):
        return None
    best: tuple[float, float, float] | None = None
    for value in np.unique(passed):
        own, counts = np.unique(raw[passed == value], return_counts=True)
        own = own[counts >= FEWEST_MERGED]
        if len(own) < 2:
            continue
        low, high = float(own[0]), float(own[-1])
        is_clear = high - low > CLEAR * np.ptp(raw)
        is_far = low * high <= 0.0 or max(abs(low), abs(high)) >= RATIO * min(abs(low), abs(high))
        if is_clear and is_far and (best is None or high - low > best[1] - best[0]):
            best = low, high, float(value)
    return best


def changed_order(plays: Sequence[RewardPairs]) -> list[str]:
    """Returns in words the pairs of behaviours whose returns have opposite orders, both for certain.

    Args:
        plays: Rewards of behaviours.
    """
    lines = []
    for pair in combinations([one for one in plays if len(one.raw) >= FEWEST], 2):
        for first, second in (pair, pair[::-1]):
            if _is_above(first, second, is_raw=False) and _is_above(second, first, is_raw=True):
                (raw, passed), (other_raw, other_passed) = (
                    [float(np.mean(one.returns(is_raw))) for is_raw in (True, False)] for one in (first, second)
                )
                lines.append(
                    f"{first.name} earns more than {second.name} by the rewards passed on, {passed:.4g} and "
                    f"{other_passed:.4g}, and less by those of the environment, {raw:.4g} and {other_raw:.4g}"
                )
    return lines[:3]


def _is_above(one: RewardPairs, other: RewardPairs, *, is_raw: bool) -> bool:
    """Returns whether a behaviour earns more than another for certain."""
    return mean_interval(one.returns(is_raw))[0] > mean_interval(other.returns(is_raw))[1]
