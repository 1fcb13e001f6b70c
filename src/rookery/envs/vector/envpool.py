"""EnvPool's environments (Weng et al., "EnvPool", 2022) as a Gymnasium `VectorEnv` with explicit resets of lanes.

By default EnvPool resets a lane instead of its next step. With an explicit reset right after the end, it begins the
next episode at once, and every lane waits for an action in every step. Needs `envpool`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import envpool
import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from rookery.envs.schemes import EnvScheme


class EnvPool(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """A task of EnvPool; each full reset rebuilds the pool, because its seeds are constructor arguments."""

    metadata = {"autoreset_mode": AutoresetMode.DISABLED}
    takes_any_argument = True
    """Its arguments are those of EnvPool's tasks, which do not declare file access
    (core/settings/foreign_arguments.py).
    """

    def __init__(self, task: str, num_envs: int, **config: Any) -> None:
        """Builds a pool.

        Args:
            task: EnvPool's id, ``Pong-v5``.
            num_envs: Number of environments.
            **config: EnvPool's settings of the task: ``num_threads``, ``episodic_life`` and so on.
        """
        self._settings = {"num_envs": num_envs, **config}
        self._task = task
        self._pool = envpool.make_gymnasium(task, **self._settings)
        self.num_envs = num_envs
        self.single_observation_space = self._pool.single_observation_space
        self.single_action_space = self._pool.single_action_space
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)
        self._obs: Any = None

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Resets all lanes, with a list of seeds if given, or those of ``options["reset_mask"]``."""
        mask = (options or {}).get("reset_mask")
        if mask is not None:
            obs, infos = self._pool.reset(np.flatnonzero(mask))
            self._obs = _placed(self._obs, obs, infos["env_id"])
            return self._obs, {}
        if seed is not None:
            self._pool.close()
            seeds = seed if isinstance(seed, list) else [seed + lane for lane in range(self.num_envs)]
            self._pool = envpool.make_gymnasium(self._task, **{**self._settings, "env_seed": seeds})
        self._obs, _ = self._pool.reset()
        return self._obs, {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Steps every lane."""
        self._obs, reward, terminated, truncated, infos = self._pool.step(actions)
        return self._obs, reward, terminated, truncated, infos

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the pool's threads."""
        self._pool.close()


def _placed(all_lanes: Any, some: Any, lanes: np.ndarray) -> Any:
    """Returns a copy of the observations of all lanes with new ones for some lanes."""
    if isinstance(all_lanes, Mapping):
        return {key: _placed(value, some[key], lanes) for key, value in all_lanes.items()}
    placed = all_lanes.copy()
    placed[lanes] = some
    return placed


class EnvPoolTasks(EnvScheme):
    """Tasks of EnvPool, ``envpool:Pong-v5``."""

    def find(self, name: str) -> Any:
        """See `EnvScheme.find`."""
        return functools.partial(EnvPool, name.partition(":")[2])


ENVPOOL = EnvPoolTasks()
