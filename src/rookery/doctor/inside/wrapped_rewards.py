"""Compares the rewards that an environment returns with those that its wrappers pass on, in the same episodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from rookery.doctor.own_statistics import own_statistics
from rookery.envs.random_play import single_episode
from rookery.policies.policy import Policy
from rookery.report.finding import Finding
from rookery.report.statistics import mean_interval
from rookery.run.findings.catalog import finding

EPISODES, FEWEST = 16, 8
"""Episodes of each behaviour, and fewest that are compared."""

MOST_STEPS = 4_000
"""Most steps of a behaviour."""

MOST_CONSTANTS = 8
"""Largest number of discrete actions that are played as behaviours."""

CLEAR, RATIO = 0.05, 2.0
"""Difference of rewards that is clear, in units of their range, and factor between them."""

FEWEST_MERGED = 3
"""Fewest steps with each of two rewards that become equal."""

MOST_LEVELS = 64
"""Largest number of wrappers that are looked at."""

Choose = Callable[[Any, Mapping[str, Any]], Any]
"""Returns the action for an observation and an info."""


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


class RewardRecorder:
    """A wrapped environment whose innermost rewards are recorded.

    Args:
        env: An environment of Gymnasium; wrappers have the one below as ``env``.

    Attributes:
        wrappers: Names of the wrappers, the outermost first.
        raw: Sum of the rewards that the innermost environment has returned since `take`.
    """

    def __init__(self, env: Any) -> None:
        self.env, self.wrappers, self.raw = env, list[str](), 0.0
        inner = env
        for _ in range(MOST_LEVELS):
            below = vars(inner).get("env") if hasattr(inner, "__dict__") else None
            if below is None:
                break
            self.wrappers.append(type(inner).__name__)
            inner = below
        step = inner.step

        def recorded(*given: Any, **named: Any) -> Any:
            result = step(*given, **named)
            self.raw += float(result[1])
            return result

        inner.step = recorded

    def take(self) -> float:
        """Returns the sum since the last call."""
        taken, self.raw = self.raw, 0.0
        return taken


def play_rewards(make: Callable[[], Any], name: str, choose: Choose | None, until: float) -> RewardPairs:
    """Returns the rewards of a behaviour, inside and outside of the wrappers, in equal episodes for all behaviours.

    Args:
        make: Makes a single throwaway environment, wrapped.
        name: The behaviour in words.
        choose: Chooses its actions; None = random ones.
        until: Time of `time.monotonic` at which it ends.
    """
    found, made = RewardPairs(name), make()
    try:
        recorder, steps = RewardRecorder(made), 0
        made.action_space.seed(0)

        def answer(obs: Any, info: Any) -> Any:
            return made.action_space.sample(_allowed(info)) if choose is None else choose(obs, info)

        for episode in range(EPISODES):
            play, raw, passed = single_episode(made, episode, answer), list[float](), list[float]()
            next(play)
            recorder.take()
            for _, reward, *_ in play:
                raw.append(recorder.take())
                passed.append(float(reward))
                steps += 1
                if steps >= MOST_STEPS or time.monotonic() > until:
                    return found
            found.raw.append(raw)
            found.passed.append(passed)
        return found
    finally:
        made.close()


def _allowed(info: Mapping[str, Any]) -> Any:
    """Returns the mask of discrete actions in an info, as `sample` takes it; None without one."""
    mask = info.get("action_mask")
    return None if mask is None or np.ndim(mask) != 1 or not np.any(mask) else np.asarray(mask, np.int8)


def wrapped_rewards(make: Callable[[], Any] | None, policies: Mapping[str, Policy], until: float) -> list[Finding]:
    """Returns the findings of the rewards that wrappers pass on, of environments with one agent.

    Args:
        make: Makes a single throwaway environment, wrapped; None if there are no single ones.
        policies: The policies of the run.
        until: Time of `time.monotonic` at which it ends.
    """
    if make is None or len(policies) != 1 or time.monotonic() > until:
        return []
    (policy,) = policies.values()
    with suppress(Exception):  # environments of another style, and those that fail, have findings of their own
        env = make()
        known, space = own_statistics(env), env.action_space
        wrappers = RewardRecorder(env).wrappers
        env.close()
        if not wrappers or known:  # statistics begin anew for each behaviour, so returns cannot be compared
            return []
        chance = play_rewards(make, "random play", None, until)
        if chance.raw == chance.passed or len(chance.raw) < FEWEST:
            return []
        plays = [chance]
        behaviours: list[tuple[str, Choose]] = []
        if not policy.memory_size:
            behaviours.append(("the policy", lambda obs, info: policy.predict(obs, action_mask=_allowed(info))))
        if hasattr(space, "n") and policy.obs_spec.has_mask is False:
            start = int(getattr(space, "start", 0))
            numbers = range(start, start + min(int(space.n), MOST_CONSTANTS))
            behaviours += [(f"always action {number}", _always(number)) for number in numbers]
        for place, (name, choose) in enumerate(behaviours):
            now = time.monotonic()
            plays.append(play_rewards(make, name, choose, now + (until - now) / (len(behaviours) - place)))
        return reward_findings(plays, wrappers)
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


USUAL = ("OrderEnforcing", "PassiveEnvChecker", "TimeLimit")
"""Wrappers that leave rewards as they are."""


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
