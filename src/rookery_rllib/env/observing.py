"""Observations that are changed before policies get them: by ``observation_fn``, or by a preparation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import gymnasium

Rewrite = Callable[[dict[Any, Any], int, bool], dict[Any, Any]]
"""(observations by agent, environment index, whether an episode begins) -> new observations by agent."""


class Observed:
    """Multi-agent environment whose observations a function rewrites."""

    def __init__(self, env: Any, maker: Any, lane: int) -> None:
        self.env, self._maker, self._lane = env, maker, lane

    def __getattr__(self, name: str) -> Any:
        if name in ("env", "_maker"):  # during copying
            raise AttributeError(name)
        return getattr(self.env, name)

    def reset(self, **kwargs: Any) -> Any:
        obs, infos = self.env.reset(**kwargs)
        return self._rewritten(obs, True), infos

    def step(self, actions: Any) -> Any:
        obs, *rest = self.env.step(actions)
        return self._rewritten(obs, False), *rest

    def _rewritten(self, obs: dict[Any, Any], begins: bool) -> dict[Any, Any]:
        rewrite: Rewrite | None = self._maker.rewrite
        return obs if rewrite is None else rewrite(obs, self._lane, begins)


class Preparation(Protocol):
    """Preprocesses observations of one agent, and filters them if the script has a filter."""

    space: Any

    def __call__(self, observation: Any, update: bool) -> Any: ...


class PreparedEnv(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Environment of one agent whose observations are preprocessed; `updates`: whether filters learn from them."""

    def __init__(self, env: Any, preparation: Preparation, updates: bool) -> None:
        super().__init__(env)
        self.observation_space = preparation.space
        self._preparation, self._updates = preparation, updates

    def observation(self, observation: Any) -> Any:
        return self._preparation(observation, update=self._updates)
