"""Time limits that cut off every episode before the first reward: found by play beyond them, and no other limit."""

from __future__ import annotations

import time

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit, TransformReward

from rookery.core.seeding import Streams
from rookery.doctor.probe import watch_random
from rookery.doctor.time_limits import limit_before_reward
from rookery.envs.make import make_env


class Path(gymnasium.Env):
    """A walk to the end of a path, which has the only reward; each step may cost something."""

    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, length=8, cost=0.0, own_limit=None):
        self.length, self.cost, self.own_limit = length, cost, own_limit

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        self.place = max(self.place + (1 if action else -1), 0)
        at_end = self.place == self.length
        reward = float(at_end) - self.cost
        return np.array([self.place / self.length], np.float32), reward, at_end, self.steps == self.own_limit, {}


def path(limit=6, **config):
    return TransformReward(TimeLimit(Path(**config), limit), lambda reward: reward)


def found(maker, **config):
    play = watch_random(lambda lanes: make_env(maker, config, (), lanes, "serial"), 60.0, Streams(0), 300)
    return limit_before_reward(lambda: maker(**config), play, time.monotonic() + 60.0)


@pytest.mark.parametrize("cost", [0.0, 0.1])
def test_a_limit_below_the_way_to_the_reward_is_found_below_other_wrappers(cost):
    (one,) = found(path, cost=cost)
    before = "while every reward is -0.1" if cost else "before the first reward"
    assert one.counts and one.message.endswith(f"are cut off after 6 steps, {before}")
    reward, end = one.evidence
    assert "a first reward in" in reward and "episodes without the limit, after " in reward
    assert "an end of its own in" in end


@pytest.mark.parametrize(
    "config",
    [
        {"limit": 200},  # some episodes arrive
        {"limit": 6, "length": 10_000},  # nothing comes later either
    ],
)
def test_other_limits_are_not_blamed(config):
    assert not found(path, **config)


@pytest.mark.parametrize(("limit", "severity"), [(6, "warning"), (60, "note")])
def test_a_limit_that_is_part_of_the_environment_is_only_likely(limit, severity):
    (one,) = found(Path, own_limit=limit, length=1000)
    assert one.severity == severity and "was not tried" in one.evidence[0]
    assert not found(Path, own_limit=limit, length=1000, cost=0.1)
