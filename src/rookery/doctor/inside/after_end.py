"""`reward_after_end`: finds environments whose reward for the end comes a step too late, so that it is never paid.

Such a reward is computed from the state before the step. So an environment is played at random until it terminates, and
once more without a reset, which no training does. What follows an end is not defined, and may be anything: a finding
needs a reward far above those of all steps before, in several episodes, with each of several last actions.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from rookery.doctor.wrappers.record import random_choice
from rookery.envs.random_play import beyond_end
from rookery.report.finding import Finding
from rookery.run.findings.catalog import finding

EPISODES, MOST_STEPS = 100, 10_000
"""Most episodes and steps of random play."""

FEWEST, SHARE = 3, 0.2
"""Fewest terminated episodes with such a reward, and smallest share of them."""

ACTIONS, DRAWS = 3, 20
"""Different last actions that are tried, and number of random ones among which they are looked for."""

Ended = tuple[int, list[Any], list[Any], float]
"""Seed and actions of a terminated episode, actions to try after its end, and reward of the first of these."""


def reward_after_end(make: Callable[[], Any] | None, until: float) -> list[Finding]:
    """Finds environments of one agent that pay far more in the step after their end than in all steps before.

    Args:
        make: Makes a single throwaway environment, wrapped; None if there are no single ones.
        until: Time of `time.monotonic` at which it ends.
    """
    if make is None:
        return []
    with warnings.catch_warnings(), suppress(Exception):  # a step after the end may warn of it, and raise anything
        warnings.simplefilter("ignore")
        env = make()
        try:
            return _played(env, until)
        finally:
            env.close()
    return []


def _played(env: Any, until: float) -> list[Finding]:
    """Returns the finding of an environment."""
    choose = random_choice(env)
    ended: list[Ended] = []
    before: list[float] = []
    for seed in range(EPISODES):
        actions: list[Any] = []

        def chosen(obs: Any, info: Any, actions: list[Any] = actions) -> Any:
            actions.append(choose(obs, info))
            return actions[-1]

        play = beyond_end(env, seed, chosen)
        obs, _, _, _, info = next(play)
        over = False
        while not over:
            if time.monotonic() > until or len(before) > MOST_STEPS:
                return _finding(env, ended, before, until)
            obs, reward, terminated, truncated, info = next(play)
            before.append(float(reward))
            over = bool(terminated) or bool(truncated)
        if terminated and not truncated:
            after = float(next(play)[1])
            last = actions.pop()
            ended.append((seed, actions, [last, *(choose(obs, info) for _ in range(DRAWS))], after))
    return _finding(env, ended, before, until)


def _finding(env: Any, ended: Sequence[Ended], before: Sequence[float], until: float) -> list[Finding]:
    """Returns the finding of random play.

    Args:
        env: The environment, whose episodes are played again with other actions after their end.
        ended: The terminated episodes.
        before: Rewards of all steps up to an end.
        until: Time of `time.monotonic` at which it ends.
    """
    if len(ended) < FEWEST:
        return []
    low, high = min(before), max(before)
    limit = high + (high - low) + 1e-6 * max(abs(low), abs(high))
    if sum(after > limit for *_, after in ended) < max(FEWEST, SHARE * len(ended)):
        return []
    paid = []
    for seed, actions, others, after in ended:
        if after > limit and time.monotonic() < until and _is_paid(env, seed, actions, others, limit):
            paid.append(after)
    if len(paid) < max(FEWEST, SHARE * len(ended)):
        return []
    return [
        finding(
            "reward-after-end",
            f"the step after the end would pay {np.mean(paid):.4g}, and no step up to an end paid more than {high:.3g}",
            f"in {len(paid)} of {len(ended)} terminated episodes of random play, with each of several last actions",
            f"rewards up to the end are {low:.3g} to {high:.3g}, in {len(before):,} steps",
        )
    ]


def _is_paid(env: Any, seed: int, actions: Sequence[Any], others: Sequence[Any], limit: float) -> bool:
    """Returns whether a step after an episode pays more than a limit with each of several different actions."""
    different = list({np.asarray(one).tobytes(): one for one in others}.values())[1:ACTIONS]
    for action in different:
        given = iter([*actions, action])

        def replayed(obs: Any, info: Any, given: Iterator[Any] = given) -> Any:
            return next(given)

        *_, end, after = beyond_end(env, seed, replayed)
        if not end[2] or float(after[1]) <= limit:
            return False
    return bool(different)
