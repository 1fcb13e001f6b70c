"""Episodes that are the same for all seeds: found where they were meant to differ, and not in fixed tasks."""

from __future__ import annotations

import random
import time

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rookery.doctor.env_play import single_env
from rookery.doctor.inside.starts import starts_alike
from rookery.envs.make import make_env


class Search(gymnasium.Env):
    """A place that is drawn in `reset`, or elsewhere."""

    observation_space, action_space = Box(0, 1, (2,), np.float32), Discrete(2)

    def __init__(self, kind="healthy"):
        self.kind, self.drawn = kind, np.random.uniform()

    def draw(self, seed):
        if self.kind == "global":
            random.seed(3)
            return random.random()
        if self.kind in ("generator", "state"):
            return (np.random.default_rng(1) if self.kind == "generator" else np.random.RandomState(1)).uniform()
        return {"made": self.drawn, "fixed": 0.25}.get(self.kind) or self.np_random.uniform()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=5 if self.kind == "seed" else seed)
        self.place, self.time = self.draw(seed), 0
        return np.array([self.place, 0], np.float32), {}

    def step(self, action):
        self.time += 1
        return np.array([self.place, self.time / 10], np.float32), float(action), False, self.time == 10, {}


def found_in(env, **config):
    def make(lanes):
        return make_env(env, config, (), lanes, "serial")

    return starts_alike(make, single_env(env, config, (), "auto"), time.monotonic() + 20.0)


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("generator", "default_rng(1)"),
        ("state", "RandomState(1)"),
        ("global", "random.seed(3)"),
        ("seed", "np_random with 5"),
        ("made", "new environments"),
    ],
)
def test_episodes_that_were_meant_to_differ_are_found(kind, line):
    (found,) = found_in(Search, kind=kind)
    assert found.rule == "starts-alike" and any(line in one for one in found.evidence)


def test_a_task_that_always_starts_in_the_same_state_is_no_fault():
    assert not found_in(Search, kind="fixed")
    assert not found_in(Search)
    for name, config in (("CliffWalking-v1", {}), ("FrozenLake-v1", {"is_slippery": False}), ("CartPole-v1", {})):
        assert not found_in(name, **config)
