"""An environment with a sensor of each sort, whose numbers are known, for what goes over the line to a player."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from rookery import EntitySet

LENGTH = 4
"""Steps of an episode; every second one is cut off there, the others end."""

CHANNELS, HEIGHT, WIDTH = 5, 6, 7

ACTIONS = {
    "choice": spaces.Discrete(3),
    "choices": spaces.MultiDiscrete([3, 2]),
    "numbers": spaces.Box(-1.0, 1.0, (2,), np.float32),
    "both": spaces.Dict({"move": spaces.Discrete(3), "turn": spaces.Box(-2.0, 2.0, (1,), np.float32)}),
}


def picture(time: int, channels: int = CHANNELS) -> np.ndarray:
    """The image of a step, ``[height, width, channels]``."""
    cells = np.arange(HEIGHT * WIDTH * channels).reshape(HEIGHT, WIDTH, channels)
    return ((cells * 3 + 11 * time) % 256).astype(np.uint8)


def things(time: int) -> np.ndarray:
    """The entities of a step, as many as the step's number."""
    return np.arange(1, 2 * time + 1, dtype=np.float32).reshape(time, 2)


def mask(time: int, width: int) -> np.ndarray:
    """Returns the mask of a step: all but one of the first three actions are allowed."""
    allowed = np.ones(width, dtype=np.int8)
    allowed[time % 3] = 0
    return allowed


class AllSenses(gymnasium.Env):
    """Shows the number of the step in every way; pays the number of the action's first element, and 10 for a step."""

    def __init__(self, actions: str = "choice", channels: int = CHANNELS, senses: str = "all") -> None:
        self.action_space = ACTIONS[actions]
        self.width = 5 if actions == "choices" else 3
        self.channels, self.senses = channels, senses
        parts: dict[str, spaces.Space] = {
            "camera": spaces.Box(0, 255, (HEIGHT, WIDTH, channels), np.uint8),
            "goal": spaces.Discrete(3),
            "speed": spaces.Box(-np.inf, np.inf, (2,), np.float32),
            "things": EntitySet(spaces.Box(-np.inf, np.inf, (2,), np.float32), LENGTH + 1, stack=True),
        }
        if senses != "all":
            parts = {"speed": parts["speed"]}
        if actions != "numbers":
            parts["action_mask"] = spaces.MultiBinary(self.width)
        self.observation_space = spaces.Dict(parts)
        self.episode = -1

    def _obs(self) -> dict[str, Any]:
        parts = {
            "camera": picture(self.time, self.channels),
            "goal": self.time % 3,
            "speed": np.array([self.time, -0.5 * self.time], np.float32),
            "things": things(self.time),
            "action_mask": mask(self.time, self.width),
        }
        return {name: parts[name] for name in self.observation_space.spaces}

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[dict[str, Any], dict]:
        super().reset(seed=seed)
        self.time, self.episode = 0, self.episode + 1
        return self._obs(), {}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict]:
        self.time += 1
        first = action["move"] if isinstance(action, dict) else np.ravel(action)[0]
        over = self.time == LENGTH
        cut = over and self.episode % 2 == 1
        return self._obs(), 10.0 + float(first), over and not cut, cut, {}
