"""Calls of environments with the old API (``reset() -> obs``, four values from `step`) and the present one."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from rookery_rllib.gym.core import TRUNCATED
from rookery_rllib.gym.registry import make

ALL = "__all__"


def takes_seed(env: Any) -> bool:
    """Returns whether an environment's `reset` takes a seed, and so returns observation and info."""
    try:
        return "seed" in inspect.signature(env.reset).parameters
    except (TypeError, ValueError):
        return False


def reset(env: Any, seed: int | None = None) -> Any:
    """Starts an episode and returns its first observation.

    Args:
        env: An environment of the old form or of today's.
        seed: Seed of the episode, for those that take one, in `reset` or by a method `seed`.
    """
    if takes_seed(env):
        return env.reset(seed=seed)[0]
    if seed is not None and callable(getattr(env, "seed", None)):
        env.seed(seed)
    return env.reset()


def step(env: Any, action: Any) -> tuple[Any, Any, Any, Any]:
    """Steps an environment and returns observation, reward, done and info; of several agents, four dicts."""
    result = env.step(action)
    if len(result) == 4:
        return result  # type: ignore[no-any-return]
    obs, reward, terminated, truncated, info = result
    if isinstance(terminated, Mapping):
        done: Any = {
            agent: bool(terminated.get(agent) or truncated.get(agent)) for agent in {**terminated, **truncated}
        }
        return obs, reward, done, info
    if truncated and not terminated:
        info = {**info, TRUNCATED: True}
    return obs, reward, bool(terminated or truncated), info


def made(env: Any, config: Any) -> Any:
    """Creates one environment with the old API: from an id, old or present, or by calling `env` with `config`."""
    if isinstance(env, str):
        return make(env)
    return env(config)
