"""Environments made to be measured: one whose step costs what one asks for, and a trivial one written in two styles."""

from __future__ import annotations

import os
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

NUM_AGENTS = 8
EPISODE = 200
"""Steps of an episode of all three."""

LOOPS = "ROOKERY_BENCH_LOOPS"
"""Environment variable: loops of `busy` a microsecond."""


def busy(loops: int) -> None:
    """Python's own work, the same amount on every call; unlike waiting for a clock, it takes longer on a busy core."""
    for _ in range(loops):
        pass


def loops_for(microseconds: float) -> int:
    """Returns the number of `loops` for which `busy` takes this many microseconds on this machine.

    The runner measures the rate once for all its processes and passes it in the environment variable `LOOPS`.
    """
    rate = float(os.environ.get(LOOPS) or loops_per_microsecond())
    return max(1, round(microseconds * rate))


def loops_per_microsecond() -> float:
    """Returns the number of loops per microsecond, by the fastest of several timings."""
    best = float("inf")
    for _ in range(50):
        began = time.perf_counter()
        busy(100_000)
        best = min(best, time.perf_counter() - began)
    return 100_000 / (best * 1e6)


class Single(gymnasium.Env[np.ndarray, int]):
    """One agent with hardly anything to do."""

    observation_space = spaces.Box(-1.0, 1.0, (4,))
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.obs = np.zeros(self.observation_space.shape, np.float32)
        self.time = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins an episode."""
        super().reset(seed=seed)
        self.time = 0
        return self.obs, {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Rewards action 0."""
        self.time += 1
        return self.obs, float(action == 0), False, self.time == EPISODE, {}


class Busy(Single):
    """An environment in plain Python: 32 numbers to see, 4 actions, and `loops` of work a step."""

    observation_space = spaces.Box(-1.0, 1.0, (32,))
    action_space = spaces.Discrete(4)

    def __init__(self, loops: int = 0) -> None:
        super().__init__()
        self.loops = loops

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Works, and rewards action 0."""
        busy(self.loops)
        return super().step(action)


class Crowd:
    """Eight agents that each live in a `Single`, keyed by name in one environment."""

    def __init__(self) -> None:
        self.possible_agents = [f"agent{number}" for number in range(NUM_AGENTS)]
        self.agents = list(self.possible_agents)
        self.observation_spaces = dict.fromkeys(self.possible_agents, Single.observation_space)
        self.action_spaces = dict.fromkeys(self.possible_agents, Single.action_space)
        self.obs = np.zeros(4, np.float32)
        self.time = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Begins an episode."""
        self.time = 0
        return dict.fromkeys(self.agents, self.obs), {}

    def step(self, actions: dict[str, int]) -> tuple[dict[str, Any], ...]:
        """Rewards every agent's action 0."""
        self.time += 1
        over = self.time == EPISODE
        return (
            dict.fromkeys(actions, self.obs),
            {agent: float(action == 0) for agent, action in actions.items()},
            {**dict.fromkeys(actions, False), "__all__": False},
            {**dict.fromkeys(actions, over), "__all__": over},
            {},
        )
