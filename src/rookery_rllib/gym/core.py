"""`gym` of 2021 (0.18): environments whose `reset` returns an observation and whose `step` returns four values.

`FromToday` converts today's environments to that form, `registry` makes them by name. `old_envs` converts environments
that scripts define with these classes to today's form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
from gymnasium import error

from rookery_rllib.base.notices import say_once

VERSION = "0.18.3"
"""Value of ``gym.__version__``."""

TRUNCATED = "TimeLimit.truncated"
"""Key of `info`: true at a truncation."""

# -- environments ------------------------------------------------------------------------------------------------------


class Env:
    """An environment of Gym before 0.26.

    `reset` returns an observation, `step` (observation, reward, done, info), `seed` the seeds used.
    """

    metadata: Mapping[str, Any] = {"render.modes": []}
    reward_range = (-float("inf"), float("inf"))
    spec: Any = None
    action_space: Any = None
    observation_space: Any = None

    def step(self, action: Any) -> tuple[Any, Any, Any, Any]:
        raise NotImplementedError

    def reset(self) -> Any:
        raise NotImplementedError

    def render(self, mode: str = "human") -> Any:
        """Draws the environment; an array [height, width, 3] uint8 for ``rgb_array``."""
        raise NotImplementedError

    def close(self) -> Any:
        """Releases the resources of the environment."""

    def seed(self, seed: int | None = None) -> Any:
        """Seeds the environment's generators and returns their seeds."""

    @property
    def unwrapped(self) -> Any:
        return self

    def __str__(self) -> str:
        return f"<{type(self).__name__}{f'<{self.spec.id}>' if self.spec is not None else ' instance'}>"

    def __enter__(self) -> Env:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


class GoalEnv(Env):
    """An environment whose observations are dicts: ``observation``, ``achieved_goal``, ``desired_goal``."""

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        raise NotImplementedError


class Wrapper(Env):
    """Wrapper of an environment, which is converted to the old API; other attributes are passed through."""

    def __init__(self, env: Any) -> None:
        self.env = FromToday(env) if isinstance(env, gymnasium.Env) and not isinstance(env, Env) else env
        self.action_space = self.env.action_space
        self.observation_space = self.env.observation_space
        self.reward_range = getattr(self.env, "reward_range", Env.reward_range)
        self.metadata = getattr(self.env, "metadata", Env.metadata)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "env" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.env, name)

    @property
    def spec(self) -> Any:
        return getattr(self.env, "spec", None)

    @classmethod
    def class_name(cls) -> str:
        return cls.__name__

    def step(self, action: Any) -> tuple[Any, Any, Any, Any]:
        given: tuple[Any, Any, Any, Any] = self.env.step(action)
        return given

    def reset(self, **kwargs: Any) -> Any:
        return self.env.reset(**kwargs)

    def render(self, mode: str = "human", **kwargs: Any) -> Any:
        return self.env.render(mode, **kwargs)

    def close(self) -> Any:
        return self.env.close()

    def seed(self, seed: int | None = None) -> Any:
        return self.env.seed(seed) if hasattr(self.env, "seed") else None

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        return self.env.compute_reward(achieved_goal, desired_goal, info)

    @property
    def unwrapped(self) -> Any:
        return getattr(self.env, "unwrapped", self.env)

    def __str__(self) -> str:
        return f"<{type(self).__name__}{self.env}>"

    __repr__ = __str__


class ObservationWrapper(Wrapper):
    """Changes observations by its method `observation`."""

    def reset(self, **kwargs: Any) -> Any:
        return self.observation(self.env.reset(**kwargs))

    def step(self, action: Any) -> tuple[Any, Any, Any, Any]:
        obs, reward, done, info = self.env.step(action)
        return self.observation(obs), reward, done, info

    def observation(self, observation: Any) -> Any:
        raise NotImplementedError


class RewardWrapper(Wrapper):
    """Changes rewards by its method `reward`."""

    def step(self, action: Any) -> tuple[Any, Any, Any, Any]:
        obs, reward, done, info = self.env.step(action)
        return obs, self.reward(reward), done, info

    def reward(self, reward: Any) -> Any:
        raise NotImplementedError


class ActionWrapper(Wrapper):
    """Changes actions by its method `action`."""

    def step(self, action: Any) -> tuple[Any, Any, Any, Any]:
        given: tuple[Any, Any, Any, Any] = self.env.step(self.action(action))
        return given

    def action(self, action: Any) -> Any:
        raise NotImplementedError

    def reverse_action(self, action: Any) -> Any:
        raise NotImplementedError


# -- environments of today in the old form -----------------------------------------------------------------------------


class OldForm(Env):
    """Methods of 2021 on top of a present class, the next base."""

    def _gymnasium_env(self) -> Any:
        return super(Env, self)

    def reset(self) -> Any:
        """Starts an episode, with the seed that `seed` was called with before, and returns the observation."""
        seed, self.__dict__["_next_seed"] = self.__dict__.get("_next_seed"), None
        return self._gymnasium_env().reset(seed=seed)[0]

    def step(self, action: Any) -> tuple[Any, Any, Any, Any]:
        """Steps the environment; ``info["TimeLimit.truncated"]`` is true at a truncation."""
        obs, reward, terminated, truncated, info = self._gymnasium_env().step(action)
        if truncated:
            info = {**info, TRUNCATED: not terminated}
        return obs, reward, bool(terminated or truncated), info

    def seed(self, seed: int | None = None) -> list[int | None]:
        """Seeds the start of the next episode and all later ones."""
        self.__dict__["_next_seed"] = seed
        return [seed]

    def render(self, mode: str = "human", **kwargs: Any) -> Any:
        """Returns an image [height, width, 3] uint8 for ``rgb_array``, a text for ``ansi``; no window is opened."""
        if mode == "human":
            say_once("no windows are opened: render() shows nothing; render(mode='rgb_array') returns images")
            return True
        inner: Any = getattr(self._gymnasium_env(), "unwrapped", self)
        before, inner.render_mode = inner.render_mode, mode
        try:
            return self._gymnasium_env().render()
        finally:
            inner.render_mode = before

    def close(self) -> None:
        self._gymnasium_env().close()


class FromToday(OldForm):
    """A Gymnasium environment with the API of 2021; its attributes can be read and set."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        modes = {"render.modes": ["human", *env.metadata.get("render_modes", ())]}
        self.__dict__.update(
            current_id=env,
            action_space=env.action_space,
            observation_space=env.observation_space,
            metadata={**env.metadata, **modes},
            spec=env.spec,
        )

    def _gymnasium_env(self) -> Any:
        return self.__dict__["current_id"]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "current_id" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self._gymnasium_env().get_wrapper_attr(name)

    def __setattr__(self, name: str, value: Any) -> None:
        inner = self._gymnasium_env().unwrapped
        if name not in self.__dict__ and name in vars(inner):
            setattr(inner, name, value)
        else:
            super().__setattr__(name, value)

    @property
    def unwrapped(self) -> Any:
        """The environment inside all wrappers, with the old API."""
        inner = self._gymnasium_env().unwrapped
        if inner is self._gymnasium_env():
            return self
        bare = FromToday(inner)
        bare.__dict__["spec"] = self.spec
        return bare

    def __str__(self) -> str:
        return str(self._gymnasium_env())

    __repr__ = __str__


class TimeLimit(Wrapper):
    """Ends episodes after a number of steps, with ``info["TimeLimit.truncated"]`` true unless the episode also
    terminated.
    """

    def __init__(self, env: Any, max_episode_steps: int | None = None) -> None:
        super().__init__(env)
        if max_episode_steps is None and self.env.spec is not None:
            max_episode_steps = self.env.spec.max_episode_steps
        self._max_episode_steps = max_episode_steps
        self._elapsed_steps: int | None = None

    def reset(self, **kwargs: Any) -> Any:
        self._elapsed_steps = 0
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> tuple[Any, Any, Any, Any]:
        if self._elapsed_steps is None:
            raise error.ResetNeeded("step() was called before reset()")
        obs, reward, done, info = self.env.step(action)
        self._elapsed_steps += 1
        if self._max_episode_steps is not None and self._elapsed_steps >= self._max_episode_steps:
            info = {**info, TRUNCATED: not done}
            done = True
        return obs, reward, done, info
