"""RLlib's example environment that gets its parameters from an actor, reimplemented in the API of 2021."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rookery_rllib.base import ray_core
from rookery_rllib.gym.env_classes import CartPoleEnv

SERVER = "param-server"
"""Default name of the actor."""


class _ParameterStorage:
    """Stores the parameters of carts."""

    def get_params(self, rng: Any) -> dict[str, float]:
        """Returns the mass of a cart [kg], drawn from the global generator."""
        return {"MASSCART": float(rng.uniform(low=0.5, high=2.0))}


_ParameterStorage.__name__ = "ParameterStorage"
ParameterStorage = ray_core.remote(_ParameterStorage)
"""Actor class that returns parameters of carts; ``.options(name="param-server").remote()`` makes one."""


class CartPoleWithRemoteParamServer(CartPoleEnv):  # type: ignore[misc]
    """CartPole whose cart mass comes from an actor, anew in each episode.

    Args:
        env_config: ``param_server``: name of the actor.

    Raises:
        ValueError: If there is no such actor.
    """

    def __init__(self, env_config: Mapping[str, Any]) -> None:
        super().__init__()
        self.env_config = env_config
        self._storage = ray_core.get_actor(env_config.get("param_server", SERVER))

    def reset(self) -> Any:
        obs = super().reset()
        params = ray_core.get(self._storage.get_params.remote(self.np_random))
        self.np_random.random()  # the actor drew from a copy
        self.masscart = params["MASSCART"]
        self.total_mass = self.masspole + self.masscart
        return obs
