"""`limit_before_reward`: finds time limits that end every episode before anything has been rewarded, by play beyond."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from statistics import median
from typing import Any

import numpy as np
from gymnasium.wrappers import TimeLimit

from rookery.core.seeding import Role, Streams
from rookery.doctor.play_rules import EPISODES
from rookery.doctor.probe import COPIES, PlayMeasurements, reward_of
from rookery.envs.base import VectorEnv
from rookery.envs.make import make_env
from rookery.envs.random_play import random_play
from rookery.report.finding import Finding
from rookery.run.findings.catalog import finding

STEPS = 20_000
"""Most steps of play without the limit, of all environments."""

SHORT = 50
"""Steps up to which a limit that cannot be left out is worth a warning."""


@dataclass
class BeyondLimit:
    """Random play without the time limit.

    Attributes:
        rewarded: Steps until the first reward unlike all others, of each episode that had one.
        terminated: Steps until the end of each episode that ended by itself.
        episodes: Number of episodes, those that had not ended included.
        limit: The limit in steps.
    """

    limit: int
    rewarded: list[int] = field(default_factory=list)
    terminated: list[int] = field(default_factory=list)
    episodes: int = 0


def limit_of_play(play: PlayMeasurements) -> int | None:
    """Returns the steps after which each episode was cut, if all of their rewards were equal; else None."""
    is_cut = len(play.lengths) >= EPISODES and all(play.truncated) and len(set(play.lengths)) == 1
    return play.lengths[0] if is_cut and len(set(play.rewards)) == 1 else None


def limit_before_reward(make: Callable[[], Any] | None, play: PlayMeasurements, until: float) -> list[Finding]:
    """Finds time limits that cut off every episode before the first reward.

    A `TimeLimit` is found if random play without it is rewarded, or ends, later than the limit. Of another limit it is
    unknown what happens later.

    Args:
        make: Makes a single throwaway environment of Gymnasium, wrapped; None if there are no single ones.
        play: Random play with the limit.
        until: Time of `time.monotonic` at which it ends.
    """
    limit = limit_of_play(play)
    if limit is None:
        return []
    before = f"while every reward is {play.rewards[0]:.3g}" if any(play.rewards) else "before the first reward"
    line = f"all {len(play.lengths):,} episodes are cut off after {limit:,} steps, {before}"
    below = None if make is None or without_limit(make()) is None else lambda: without_limit(make())
    if below is None:
        if any(play.rewards):
            return []
        unknown = "the limit is part of the environment: whether a longer one helps was not tried"
        return [finding("limit-before-reward", line, unknown, severity="warning" if limit <= SHORT else "note")]
    with closing(make_env(below, None, (), COPIES, "serial")) as env:
        seen = play_beyond(env, limit, play.rewards[0], until)
    first = min((*seen.rewarded, *seen.terminated), default=0)
    if not first or max(seen.rewarded + seen.terminated) <= limit:
        return []
    facts = [
        f"{what} {len(steps)} of {seen.episodes} episodes without the limit, after {min(steps):,} to {max(steps):,} "
        f"steps, median {median(steps):,.0f}"
        for what, steps in (("a first reward in", seen.rewarded), ("an end of its own in", seen.terminated))
        if steps
    ]
    return [finding("limit-before-reward", line, *(f"random play: {fact}" for fact in facts))]


def without_limit(env: Any) -> Any:
    """Returns the environment below the outermost `TimeLimit`; None without one."""
    while env is not None:
        if isinstance(env, TimeLimit):
            return env.env
        env = vars(env).get("env") if hasattr(env, "__dict__") else None
    return None


def play_beyond(env: VectorEnv, limit: int, usual: float, until: float) -> BeyondLimit:
    """Plays environments at random, without a time limit.

    Args:
        env: The environments.
        limit: The limit, in steps.
        usual: The reward of all steps within the limit.
        until: Time of `time.monotonic` at which it ends.
    """
    seen, lanes, streams = BeyondLimit(limit, episodes=env.num_lanes), env.num_lanes, Streams(0)
    lengths, is_rewarded = np.zeros(lanes, int), np.zeros(lanes, bool)
    play = random_play(env, streams.episodes(Role.ENV), streams.generator(Role.WARMUP, "doctor"))
    for shown in islice(play, 1, 1 + STEPS // lanes):
        lengths += 1
        is_new = ~np.isclose(reward_of(shown.rows[0], lanes).sum(axis=1), usual)
        seen.rewarded += lengths[is_new & ~is_rewarded].tolist()
        is_rewarded |= is_new
        seen.terminated += lengths[shown.rows[0].terminated.reshape(lanes, -1).any(axis=1)].tolist()
        seen.episodes += int(shown.ended.sum())
        lengths[shown.ended], is_rewarded[shown.ended] = 0, False
        if time.monotonic() > until:
            break
    return seen
