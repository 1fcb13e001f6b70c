"""Base of contextual bandits: an episode is one pull of an arm for one context.

``info`` of a pull holds

- ``regret``: the mean reward of the best arm less that of the pulled one;
- ``cumulative_regret``: the sum over all pulls of this environment so far;
- ``relative_regret``: this sum over the one that uniform play is expected to have for the same contexts.

What an agent has to learn belongs to the task, not to an episode: it is drawn from `task_seed`, so that all
environments of a run have the same. Contexts and noise are drawn from the seed of the episode.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from rookery.core.errors import EnvError
from rookery.envs.adapters.batched import check_least, check_render_mode


class BanditTask(gymnasium.Env[np.ndarray, int], ABC):
    """Base of contextual bandits; a subclass draws contexts and defines the mean rewards.

    Attributes:
        pulls: Pulls so far.
        context: The present context, as observed.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 4}  # as gymnasium.Env
    context: np.ndarray

    def __init__(
        self, context_space: spaces.Box, num_arms: int, noise: float, task_seed: int, render_mode: str | None
    ) -> None:
        """Creates the task; subclasses call this constructor.

        Raises:
            ValueError: If a setting is out of range.
        """
        owner = type(self).__name__
        check_render_mode(owner, render_mode)
        check_least(owner, 2, num_arms=num_arms)
        check_least(owner, 0, task_seed=task_seed)
        if not noise >= 0.0:
            raise ValueError(f"{owner}: noise is {noise!r}, it must be at least 0")
        self.observation_space: Any = context_space
        self.action_space: Any = spaces.Discrete(int(num_arms))
        self.num_arms, self.noise, self.task_seed = int(num_arms), float(noise), int(task_seed)
        self.render_mode = render_mode
        self.pulls = 0
        self._regret = self._uniform_regret = 0.0
        self._waiting = False
        self._last: int | None = None

    @abstractmethod
    def draw_context(self, rng: np.random.Generator) -> np.ndarray:
        """Draws a context, float32."""

    @abstractmethod
    def mean_rewards(self, context: np.ndarray) -> np.ndarray:
        """Returns the mean reward of each arm for a context, ``[num_arms]`` float64."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Draws the next context."""
        super().reset(seed=seed)
        self.context, self._waiting = self.draw_context(self.np_random), True
        return self.context.copy(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Pulls an arm, which ends the episode; raises an EnvError if there is no such arm, or no context."""
        if not self._waiting:
            raise EnvError(f"{type(self).__name__}: the arm of this context is pulled; call reset() first")
        if not self.action_space.contains(action):
            raise EnvError(f"{type(self).__name__}: action {action!r} is not in {self.action_space}")
        means = self.mean_rewards(self.context)
        regret = float(means.max() - means[action])
        self._regret += regret
        self._uniform_regret += float(means.max() - means.mean())
        self.pulls += 1
        self._waiting, self._last = False, int(action)
        info = {"regret": regret, "cumulative_regret": self._regret}
        if self._uniform_regret:
            info["relative_regret"] = self._regret / self._uniform_regret
        reward = float(means[action] + self.noise * self.np_random.standard_normal())
        return self.context.copy(), reward, True, False, info

    def get_state(self) -> dict[str, Any]:
        """Returns everything that changes."""
        return {
            "pulls": self.pulls,
            "context": self.context.copy(),
            "regret": self._regret,
            "uniform_regret": self._uniform_regret,
            "waiting": self._waiting,
            "last": self._last,
            "rng": copy.deepcopy(self.np_random.bit_generator.state),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores a state from `get_state`, of this environment or another."""
        self.pulls, self.context = state["pulls"], state["context"].copy()
        self._regret, self._uniform_regret = state["regret"], state["uniform_regret"]
        self._waiting, self._last = state["waiting"], state["last"]
        self.np_random.bit_generator.state = copy.deepcopy(state["rng"])

    def render(self) -> Any:
        """Returns an image ``[height, width, 3]`` uint8 of the mean reward of each arm, with the last pull marked; None
        before the first context.
        """
        from rookery.tasks import drawing

        if not hasattr(self, "context"):
            return None
        return drawing.draw_arms(self.mean_rewards(self.context), None if self._waiting else self._last)
