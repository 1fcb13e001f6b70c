"""Styles of single environments: Gymnasium's, PettingZoo's two, and dicts by agent; each with its adapter, a `Lane`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium

from rookery.core.errors import EnvError
from rookery.envs.adapters.dict_env import DictLane, is_dict_style, resets_to_agents
from rookery.envs.adapters.gym_env import GymLane
from rookery.envs.adapters.lane import Lane
from rookery.envs.adapters.pettingzoo_env import AECLane, ParallelLane, is_aec_style, is_parallel_style

STYLES: tuple[tuple[Callable[[Any], bool], Callable[[Any], Lane]], ...] = (
    (is_aec_style, AECLane),
    (is_parallel_style, ParallelLane),
    (is_dict_style, DictLane),
    (resets_to_agents, DictLane),
    (lambda env: True, GymLane),
)
"""Test of each style, with its adapter; the first match is used."""


def lane_of(env: Any, name: str, max_entities: int | None) -> Any:
    """Wraps one environment in the adapter for its style.

    Args:
        env: The environment.
        name: Name in messages.
        max_entities: Largest number of elements of a ``Sequence`` in an observation.

    Raises:
        EnvError: If it is not a single environment.
    """
    lane = next(adapter for matches, adapter in STYLES if matches(env))
    missing = [method for method in ("reset", "step") if not callable(getattr(env, method, None))]
    if missing or isinstance(env, gymnasium.vector.VectorEnv):
        what = f"it has no {' and no '.join(missing)}" if missing else "it plays many environments itself"
        expected = "expected one Gymnasium, PettingZoo or dict-style environment"
        raise EnvError(f"{name} makes {type(env).__name__}, {expected}; {what}")
    adapted = lane(env)
    adapted.max_entities = max_entities
    return adapted
