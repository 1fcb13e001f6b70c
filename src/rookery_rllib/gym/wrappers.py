"""`gym.wrappers` of 2021: wrappers around environments whose `step` gives four values."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery_rllib.base.notices import say_once
from rookery_rllib.gym.core import ActionWrapper, ObservationWrapper, RewardWrapper, Wrapper
from rookery_rllib.gym.spaces import Box


class Monitor(Wrapper):
    """Forwards all calls and records nothing; prints a note once."""

    def __init__(self, env: Any, directory: Any = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(env)
        say_once("gym.wrappers.Monitor records nothing here; `rookery record RUN` makes a video of a run")


class ClipAction(ActionWrapper):
    """Clips actions to the bounds of the action space."""

    def action(self, action: Any) -> Any:
        return np.clip(action, self.action_space.low, self.action_space.high)


class RescaleAction(ActionWrapper):
    """Rescales actions from [a, b] to the range of the action space."""

    def __init__(self, env: Any, a: Any, b: Any) -> None:
        super().__init__(env)
        inner = env.action_space
        self.a, self.b = np.broadcast_to(a, inner.shape), np.broadcast_to(b, inner.shape)
        self.action_space = Box(self.a.astype(inner.dtype), self.b.astype(inner.dtype), dtype=inner.dtype)

    def action(self, action: Any) -> Any:
        inner = self.env.action_space
        share = (np.asarray(action) - self.a) / (self.b - self.a)
        return np.clip(inner.low + (inner.high - inner.low) * share, inner.low, inner.high)


class FlattenObservation(ObservationWrapper):
    """Flattens observations."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.observation_space = spaces.flatten_space(env.observation_space)

    def observation(self, observation: Any) -> Any:
        return spaces.flatten(self.env.observation_space, observation)


class FilterObservation(ObservationWrapper):
    """Keeps some entries of dict observations."""

    def __init__(self, env: Any, filter_keys: Sequence[str] | None = None) -> None:
        super().__init__(env)
        inner = env.observation_space.spaces
        self.keys = tuple(inner) if filter_keys is None else tuple(filter_keys)
        if unknown := [key for key in self.keys if key not in inner]:
            raise ValueError(f"observations have no {', '.join(unknown)}; they have {', '.join(inner)}")
        self.observation_space = spaces.Dict({key: inner[key] for key in self.keys})

    def observation(self, observation: Any) -> Any:
        return {key: observation[key] for key in self.keys}


class TransformObservation(ObservationWrapper):
    """Transforms observations by a function; the space is unchanged."""

    def __init__(self, env: Any, f: Callable[[Any], Any]) -> None:
        super().__init__(env)
        self.f = f

    def observation(self, observation: Any) -> Any:
        return self.f(observation)


class TransformReward(RewardWrapper):
    """Changes rewards by a function."""

    def __init__(self, env: Any, f: Callable[[Any], Any]) -> None:
        super().__init__(env)
        self.f = f

    def reward(self, reward: Any) -> Any:
        return self.f(reward)


class GrayScaleObservation(ObservationWrapper):
    """Converts colour images [height, width, 3] uint8 to grey images [height, width] uint8."""

    WEIGHTS = np.array([0.299, 0.587, 0.114], np.float32)

    def __init__(self, env: Any, keep_dim: bool = False) -> None:
        super().__init__(env)
        self.keep_dim = keep_dim
        size = env.observation_space.shape[:2]
        self.observation_space = Box(0, 255, (*size, 1) if keep_dim else size, np.uint8)

    def observation(self, observation: Any) -> Any:
        grey = (np.asarray(observation, np.float32) @ self.WEIGHTS).round().astype(np.uint8)
        return grey[..., None] if self.keep_dim else grey


class ResizeObservation(ObservationWrapper):
    """Changes the size of images ``[height, width]`` or ``[height, width, 3]``, by area means."""

    def __init__(self, env: Any, shape: int | Sequence[int]) -> None:
        super().__init__(env)
        self.shape = (shape, shape) if isinstance(shape, int) else tuple(shape)
        self.observation_space = Box(0, 255, (*self.shape, *env.observation_space.shape[2:]), np.uint8)

    def observation(self, observation: Any) -> Any:
        from PIL import Image

        height, width = self.shape
        picture = Image.fromarray(np.squeeze(np.asarray(observation, np.uint8)))
        return np.asarray(picture.resize((width, height), Image.Resampling.BOX)).reshape(self.observation_space.shape)


class StackedObservations(Wrapper):
    """Returns the last observations together, the oldest first; the first of an episode is repeated.

    Args:
        env: The environment.
        number: Number of observations.
        join: Joins arrays: `numpy.stack`, or `numpy.concatenate`.
        axis: Axis along which arrays are joined.
    """

    def __init__(self, env: Any, number: int, join: Callable[..., Any], axis: int) -> None:
        super().__init__(env)
        self.frames: deque[Any] = deque(maxlen=number)
        self._join, self._axis = join, axis
        inner = env.observation_space
        low, high = (join([bound] * number, axis=axis) for bound in (inner.low, inner.high))
        self.observation_space = Box(low, high, dtype=inner.dtype)

    def _joined(self) -> Any:
        return self._join(self.frames, axis=self._axis)

    def reset(self, **kwargs: Any) -> Any:
        obs = self.env.reset(**kwargs)
        self.frames.extend([obs] * (self.frames.maxlen or 0))
        return self._joined()

    def step(self, action: Any) -> tuple[Any, Any, Any, Any]:
        obs, reward, done, info = self.env.step(action)
        self.frames.append(obs)
        return self._joined(), reward, done, info


class FrameStack(StackedObservations):
    """Stacks observations along a new first axis."""

    def __init__(self, env: Any, num_stack: int, lz4_compress: bool = False) -> None:
        super().__init__(env, num_stack, np.stack, 0)
        self.num_stack = num_stack


class RecordEpisodeStatistics(Wrapper):
    """Puts return and length of an episode into its last info, as ``info["episode"] = {"r": ..., "l": ...}``."""

    def __init__(self, env: Any, deque_size: int = 100) -> None:
        super().__init__(env)
        self.episode_return, self.episode_length = 0.0, 0
        self.return_queue: deque[float] = deque(maxlen=deque_size)
        self.length_queue: deque[int] = deque(maxlen=deque_size)

    def reset(self, **kwargs: Any) -> Any:
        self.episode_return, self.episode_length = 0.0, 0
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> tuple[Any, Any, Any, Any]:
        obs, reward, done, info = self.env.step(action)
        self.episode_return += float(reward)
        self.episode_length += 1
        if done:
            info = {**info, "episode": {"r": self.episode_return, "l": self.episode_length}}
            self.return_queue.append(self.episode_return)
            self.length_queue.append(self.episode_length)
        return obs, reward, done, info
