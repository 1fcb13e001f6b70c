"""Wrappers of Atari games one by one, in the old API: smaller images, frame skip and frame stack, lives as episodes.

`rookery.envs.adapters.atari:Atari` does all of it at once and faster; these are for scripts that use single
wrappers. The preprocessing is that of Mnih et al., "Human-level control through deep reinforcement
learning" (2015).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box

from rookery_rllib.gym.core import ObservationWrapper, RewardWrapper, Wrapper
from rookery_rllib.gym.wrappers import StackedObservations

Shown = tuple[Any, Any, Any, Any]


def is_atari(env: Any) -> bool:
    """Returns whether an environment is an Atari game with image observations."""
    shape = getattr(env.observation_space, "shape", None)
    return (shape is None or len(shape) > 2) and hasattr(getattr(env, "unwrapped", env), "ale")


def get_wrapper_by_cls(env: Any, cls: type) -> Any:
    while env is not None:
        if isinstance(env, cls):
            return env
        env = vars(env).get("env")
    return None


class MonitorEnv(Wrapper):
    """Records returns and lengths of episodes."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._rewards: list[float] = []
        self._lengths: list[int] = []
        self._now: list[float] | None = None
        self._steps = 0
        self._num_reported = 0

    def reset(self, **kwargs: Any) -> Any:
        if self._now is not None:
            self._rewards.append(float(sum(self._now)))
            self._lengths.append(len(self._now))
        self._now = []
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> Shown:
        obs, reward, done, info = self.env.step(action)
        if self._now is not None:
            self._now.append(float(reward))
        self._steps += 1
        return obs, reward, done, info

    def get_episode_rewards(self) -> list[float]:
        return self._rewards

    def get_episode_lengths(self) -> list[int]:
        return self._lengths

    def get_total_steps(self) -> int:
        return self._steps

    def next_episode_results(self) -> Iterator[tuple[float, int]]:
        new = list(zip(self._rewards[self._num_reported :], self._lengths[self._num_reported :], strict=True))
        self._num_reported = len(self._rewards)
        yield from new


class NoopResetEnv(Wrapper):
    """Performs a random number of no-op actions, 1 to `noop_max`, at the start of an episode; action 0 must be the
    no-op.
    """

    def __init__(self, env: Any, noop_max: int = 30) -> None:
        super().__init__(env)
        self.noop_max = noop_max
        self.override_num_noops: int | None = None
        self.noop_action = 0
        if self.unwrapped.get_action_meanings()[0] != "NOOP":
            raise ValueError("NoopResetEnv: action 0 of this environment does something")

    def reset(self, **kwargs: Any) -> Any:
        obs = self.env.reset(**kwargs)
        frames = self.override_num_noops or int(np.random.randint(1, self.noop_max + 1))
        for _ in range(frames):
            obs, _, done, _ = self.env.step(self.noop_action)
            if done:
                obs = self.env.reset(**kwargs)
        return obs


class ClipRewardEnv(RewardWrapper):
    """Replaces rewards by their sign."""

    def reward(self, reward: Any) -> Any:
        return np.sign(reward)


class FireResetEnv(Wrapper):
    """Presses fire at the start of an episode, in games that wait for it."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        meanings = self.unwrapped.get_action_meanings()
        if len(meanings) < 3 or meanings[1] != "FIRE":
            raise ValueError("FireResetEnv: this environment has no action FIRE")

    def reset(self, **kwargs: Any) -> Any:
        """Starts an episode and presses fire, and then the next action, which some games wait for."""
        obs = self.env.reset(**kwargs)
        for action in (1, 2):
            obs, _, done, _ = self.env.step(action)
            if done:
                obs = self.env.reset(**kwargs)
        return obs


class EpisodicLifeEnv(Wrapper):
    """Ends an episode with every life; the next one continues the same game."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.lives = 0
        self.was_real_done = True

    def step(self, action: Any) -> Shown:
        obs, reward, done, info = self.env.step(action)
        self.was_real_done = bool(done)
        lives = self.unwrapped.ale.lives()
        lost = 0 < lives < self.lives
        self.lives = lives
        return obs, reward, bool(done or lost), info

    def reset(self, **kwargs: Any) -> Any:
        obs = self.env.reset(**kwargs) if self.was_real_done else self.env.step(0)[0]
        self.lives = self.unwrapped.ale.lives()
        return obs


class MaxAndSkipEnv(Wrapper):
    """Repeats each action, and returns the pixelwise maximum of the last two frames."""

    def __init__(self, env: Any, skip: int = 4) -> None:
        super().__init__(env)
        self._skip = skip

    def step(self, action: Any) -> Shown:
        total, frames = 0.0, deque[Any](maxlen=2)
        done: Any = False
        info: Any = {}
        for _ in range(self._skip):
            obs, reward, done, info = self.env.step(action)
            frames.append(np.asarray(obs))
            total += float(reward)
            if done:
                break
        return np.max(np.stack(frames), axis=0), total, done, info


class WarpFrame(ObservationWrapper):
    """Turns images ``[height, width, 3]`` uint8 into small grey ones, ``[dim, dim, 1]`` uint8."""

    def __init__(self, env: Any, dim: int = 84) -> None:
        super().__init__(env)
        self.width = self.height = dim
        self.observation_space = Box(0, 255, (dim, dim, 1), np.uint8)

    def observation(self, observation: Any) -> Any:
        """Returns the small image: grey by ITU-R BT.601, each pixel the mean of the area it covers."""
        picture = torch.from_numpy(np.asarray(observation)).float()
        grey = (picture @ torch.tensor([0.299, 0.587, 0.114], dtype=torch.float32, device="cpu")).round()
        rows = _shares(grey.shape[0], self.height) @ grey
        small = rows @ _shares(grey.shape[1], self.width).T
        return small.round().clamp(0, 255).to(torch.uint8).numpy()[:, :, None]


def _shares(length: int, size: int) -> torch.Tensor:
    """Returns the weights of the pixels of a side of `length` in each of `size` pixels, ``[size, length]``."""
    edges = torch.arange(size + 1, dtype=torch.float32, device="cpu") * (length / size)
    low, high = edges[:-1, None], edges[1:, None]
    place = torch.arange(length, dtype=torch.int64, device="cpu")
    covered = torch.minimum(place + 1, high) - torch.maximum(place, low)
    return covered.clamp(min=0.0) * (size / length)


class FrameStack(StackedObservations):
    """Stacks images along their last axis."""

    def __init__(self, env: Any, k: int = 4) -> None:
        super().__init__(env, k, np.concatenate, -1)
        self.k = k


class FrameStackTrajectoryView(ObservationWrapper):
    """Returns images without their last axis, for models that stack them themselves."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        one = env.observation_space
        self.observation_space = Box(one.low[..., 0], one.high[..., 0], dtype=one.dtype)

    def observation(self, observation: Any) -> Any:
        return np.squeeze(observation, axis=-1)


class ScaledFloatFrame(ObservationWrapper):
    """Returns images as floats from 0 to 1."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.observation_space = Box(0.0, 1.0, env.observation_space.shape, np.float32)

    def observation(self, observation: Any) -> Any:
        return np.asarray(observation).astype(np.float32) / 255.0


def wrap_deepmind(env: Any, dim: int = 84, framestack: bool = True, framestack_via_traj_view_api: bool = False) -> Any:
    """Wraps a game with all Atari preprocessing; the trainer clips rewards."""
    env = NoopResetEnv(MonitorEnv(env), noop_max=30)
    spec = getattr(env.unwrapped, "spec", None)
    if spec is not None and ("NoFrameskip" in spec.id or dict(spec.kwargs).get("frameskip") == 1):
        env = MaxAndSkipEnv(env, skip=4)
    env = EpisodicLifeEnv(env)
    if "FIRE" in env.unwrapped.get_action_meanings():
        env = FireResetEnv(env)
    env = WarpFrame(env, dim)
    if framestack_via_traj_view_api:
        return FrameStackTrajectoryView(env)
    return FrameStack(env, 4) if framestack else env
