"""Tasks with goals and sparse rewards, by the interface of Gymnasium-Robotics: `BitFlip` and `PointReach`.

An observation is a Dict of ``observation``, ``achieved_goal`` and ``desired_goal``. A step pays 0 where the goal is
reached and -1 elsewhere; ``compute_reward`` and ``compute_terminated`` judge any goals, one or ``[N, ...]``. Start and
goal are drawn for each episode. ``info["is_success"]`` says whether the goal is reached.

============  =======================================  ============================  ======================
task          end of an episode                        mean return, best             random actions reach a
                                                                                     goal once in
============  =======================================  ============================  ======================
`BitFlip`     terminated at the goal, or truncated     -6.5 (1 less than bits that   2,352 episodes (exact)
              after as many steps as bits (15)         differ, each -1)
`PointReach`  truncated after 50 steps                 -9.4 (straight to the goal)   101 episodes (40,000
                                                                                     simulated)
============  =======================================  ============================  ======================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from rookery.core.settings.reach import Count, FewFromZero
from rookery.core.spaces.arrays import SMALLEST_IMAGE
from rookery.envs.adapters.batched import check_least, check_render_mode

SPOT = 2.4
"""Standard deviation of a spot in an image, in pixels."""


class GoalTask(gymnasium.Env[Any, Any], ABC):
    """Base of tasks with goals.

    Attributes:
        max_steps: Number of steps after which an episode is truncated.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 8}  # as gymnasium.Env
    state: np.ndarray
    goal: np.ndarray

    def __init__(self, goal_space: spaces.Space[Any], max_steps: int, render_mode: str | None) -> None:
        """Creates the task; subclasses call this constructor.

        Raises:
            ValueError: If the render mode is not ``"rgb_array"`` or None.
        """
        check_render_mode(type(self).__name__, render_mode)
        names = ("observation", "achieved_goal", "desired_goal")
        self.observation_space: Any = spaces.Dict(dict.fromkeys(names, goal_space))
        self.max_steps, self.render_mode = int(max_steps), render_mode
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode: draws a start and a goal that is not reached there."""
        super().reset(seed=seed)
        self._steps = 0
        while True:
            self.state, self.goal = self._draw(), self._draw()
            if not self.reached(self.state, self.goal):
                return self._observed(), {"is_success": False}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Plays a step; returns the observation, -1 or 0, two ends, and whether the goal is reached."""
        self._move(action)
        self._steps += 1
        obs = self._observed()
        info = {"is_success": bool(self.reached(self.state, self.goal))}
        reward = float(self.compute_reward(self.state, self.goal, info))
        terminated = bool(self.compute_terminated(self.state, self.goal, info))
        return obs, reward, terminated, self._steps >= self.max_steps, info

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> np.ndarray:
        """Returns 0 where a goal is reached and -1 elsewhere, for goals ``[..., n]``, without the last axis."""
        return np.where(self.reached(achieved_goal, desired_goal), 0.0, -1.0)

    def compute_terminated(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> np.ndarray:
        """Returns whether an episode ends there, for goals ``[..., n]``, without the last axis."""
        return np.zeros(np.shape(achieved_goal)[:-1], bool)

    @abstractmethod
    def reached(self, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        """Returns whether goals ``[..., n]`` are reached, without the last axis."""

    @abstractmethod
    def _draw(self) -> np.ndarray:
        """Draws a start or a goal."""

    @abstractmethod
    def _move(self, action: Any) -> None:
        """Changes the state by an action."""

    def _observed(self) -> Any:
        return {"observation": self.state.copy(), "achieved_goal": self.state.copy(), "desired_goal": self.goal.copy()}


class BitFlip(GoalTask):
    """The example of the paper (Andrychowicz et al. 2017, section 3.1): an action flips one of `num_bits` bits; the
    episode ends when all equal the goal.

    Attributes:
        num_bits: Number of bits, and of actions.
    """

    def __init__(self, num_bits: FewFromZero = 15, render_mode: str | None = None) -> None:
        """Creates the task.

        Args:
            num_bits: Number of bits, at least 1; an episode has as many steps.
            render_mode: ``"rgb_array"`` or None.

        Raises:
            ValueError: If a setting is out of range.
        """
        check_least("BitFlip", 1, num_bits=num_bits)
        super().__init__(spaces.MultiBinary(int(num_bits)), num_bits, render_mode)
        self.num_bits = int(num_bits)
        self.action_space: Any = spaces.Discrete(self.num_bits)

    def reached(self, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        """Returns whether all bits are equal."""
        return np.asarray(np.equal(achieved, desired).all(axis=-1))

    def compute_terminated(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> np.ndarray:
        """Returns whether all bits are equal."""
        return self.reached(achieved_goal, desired_goal)

    def render(self) -> np.ndarray:
        """Returns an image ``[height, width, 3]`` uint8: the bits above those of the goal."""
        from rookery.tasks import drawing

        return drawing.draw_bits(np.stack((self.state, self.goal)), self._steps, self.max_steps)

    def _draw(self) -> np.ndarray:
        return self.np_random.integers(0, 2, self.num_bits, dtype=np.int8)

    def _move(self, action: Any) -> None:
        self.state[int(action)] ^= 1


class PointReach(GoalTask):
    """A point in a cube from -1 to 1 moves to a goal, by up to `speed` along each axis in a step, and stays there.

    Attributes:
        dimensions: Number of axes.
        speed: Largest move along an axis.
        radius: Distance from the goal at which it is reached.
        dense: Whether a step pays minus the distance from the goal.
        pixels: Side of the image that is observed; 0 = numbers are.
    """

    def __init__(
        self,
        dimensions: FewFromZero = 3,
        speed: float = 0.1,
        radius: float = 0.1,
        max_steps: Count = 50,
        dense: bool = False,
        pixels: FewFromZero = 0,
        render_mode: str | None = None,
    ) -> None:
        """Creates the task.

        Args:
            dimensions: Number of axes, at least 1.
            speed: Largest move along an axis in a step, above 0.
            radius: Distance at which the goal is reached, above 0.
            max_steps: Number of steps after which an episode is truncated.
            dense: Whether a step pays minus the distance from the goal, instead of -1 or 0.
            pixels: Side of the image that is observed instead of numbers, for two dimensions; 0 = none. An image
                ``[pixels, pixels, 2]`` uint8 has a channel each for the point and the goal, both soft spots.
            render_mode: ``"rgb_array"`` or None.

        Raises:
            ValueError: If a setting is out of range.
        """
        check_least("PointReach", 1, dimensions=dimensions, max_steps=max_steps)
        for name, value in (("speed", speed), ("radius", radius)):
            if not 0.0 < value < 1.0:
                raise ValueError(f"PointReach: {name} is {value!r}, it must be above 0 and below 1")
        super().__init__(spaces.Box(-1.0, 1.0, (int(dimensions),), np.float32), max_steps, render_mode)
        self.dimensions, self.speed, self.radius = int(dimensions), float(speed), float(radius)
        self.action_space: Any = spaces.Box(-1.0, 1.0, (self.dimensions,), np.float32)
        self.dense, self.pixels = bool(dense), int(pixels)
        if self.pixels:
            if self.dimensions != 2 or self.pixels < SMALLEST_IMAGE:
                raise ValueError(
                    f"PointReach: images of {self.pixels} pixels show {self.dimensions} dimensions; pass dimensions=2 "
                    f"and at least {SMALLEST_IMAGE} pixels"
                )
            self.observation_space = spaces.Box(0, 255, (self.pixels, self.pixels, 2), np.uint8)

    def reached(self, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        """Returns whether points are closer than the radius."""
        return np.asarray(np.linalg.norm(achieved - desired, axis=-1) < self.radius)

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> np.ndarray:
        """Returns minus the distances if `dense`, else as `GoalTask.compute_reward`."""
        if not self.dense:
            return super().compute_reward(achieved_goal, desired_goal, info)
        return np.asarray(-np.linalg.norm(achieved_goal - desired_goal, axis=-1))

    def render(self) -> np.ndarray:
        """Returns an image ``[height, width, 3]`` uint8: point and goal, seen along the last axes."""
        from rookery.tasks import drawing

        return drawing.draw_points(np.stack((self.state, self.goal)), self.radius, self._steps, self.max_steps)

    def _observed(self) -> Any:
        if not self.pixels:
            return super()._observed()
        axis = np.arange(self.pixels, dtype=np.float32) - (self.pixels - 1) / 2
        centre = np.stack((self.state, self.goal)) * (self.pixels / 2)  # [2, 2] x and y, in pixels from the middle
        row, column = (np.exp(-(((axis - middle) / SPOT) ** 2) / 2) for middle in (-centre[:, 1:], centre[:, :1]))
        return np.rint(255 * np.einsum("sr,sc->rcs", row, column)).astype(np.uint8)

    def _draw(self) -> np.ndarray:
        return self.np_random.uniform(-1.0, 1.0, self.dimensions).astype(np.float32)

    def _move(self, action: Any) -> None:
        moved = self.state + self.speed * np.clip(action, -1.0, 1.0)
        self.state = np.clip(moved, -1.0, 1.0).astype(np.float32)
