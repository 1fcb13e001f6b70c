"""The workers of a trainer as of 2021: one in this process, which plays and learns, and no remote ones."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Any

from rookery.compat.rllib.preprocessors import get_preprocessor


class BaseEnv:
    """The copies of the environment.

    Args:
        envs: The script's own objects, where it made any.
    """

    def __init__(self, envs: list[Any]) -> None:
        self._envs = envs

    def get_unwrapped(self) -> list[Any]:
        """Returns the environments."""
        return list(self._envs)

    get_sub_environments = get_unwrapped

    @property
    def envs(self) -> list[Any]:
        """The environments."""
        return list(self._envs)


class RolloutWorker:
    """The worker of a trainer.

    Args:
        trainer: The trainer, as of 2021.

    Attributes:
        worker_index: Always 0: the worker in the trainer's own process.
    """

    worker_index = 0
    tf_sess = None

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    @property
    def env(self) -> Any:
        """The environment, as the script made it."""
        if not self._trainer._envs:
            self._trainer.env_maker.own()
        return self._trainer._envs[0]

    @property
    def is_multi_agent(self) -> bool:
        """Whether the environment speaks of its agents by name."""
        return bool(self._trainer.is_multi_agent)

    @property
    def agent_ids(self) -> Callable[[str], Any]:
        """What gives an environment's own name of an agent for Rookery's."""
        found: Callable[[str], Any] = self._trainer.agent_ids
        return found

    @property
    def base_env(self) -> BaseEnv:
        """All copies of it."""
        return BaseEnv(self._trainer._envs)

    async_env = base_env

    @property
    def num_workers(self) -> int:
        """The number of workers that the configuration asks for."""
        return int(self._trainer.config["num_workers"])

    @property
    def callbacks(self) -> Any:
        """The callbacks."""
        return self._trainer.callbacks

    @property
    def policy_config(self) -> dict[str, Any]:
        """The configuration."""
        found: dict[str, Any] = self._trainer.config
        return found

    @property
    def policy_map(self) -> dict[str, Any]:
        """The policies by name."""
        found: dict[str, Any] = self._trainer.policy_facades
        return found

    @property
    def policies_to_train(self) -> list[str]:
        """Names of the policies that learn."""
        return list(self._trainer.rookery.learners)

    @property
    def policy_mapping_fn(self) -> Any:
        """The function from agents to policies."""
        return self._trainer.config["multiagent"]["policy_mapping_fn"]

    @property
    def preprocessors(self) -> dict[str, Any]:
        """What preprocesses the observations of each policy."""
        found = {}
        for name, policy in self.policy_map.items():
            space = getattr(policy.observation_space, "original_space", None) or policy.observation_space
            found[name] = get_preprocessor(space)(space, self._trainer.config["model"])
        return found

    @property
    def filters(self) -> dict[str, Any]:
        """The running statistics of observations, of each policy that normalizes them."""
        return {name: policy.normalizer for name, policy in self._trainer.rookery.policies.items()}

    @property
    def global_vars(self) -> dict[str, int]:
        """The environment steps so far."""
        return {"timestep": self._trainer.rookery.env_steps}

    def get_policy(self, policy_id: str = "default_policy") -> Any:
        """Returns a policy; None if there is none of this name."""
        return self.policy_map.get(policy_id)

    def for_policy(self, func: Callable[[Any], Any], policy_id: str = "default_policy") -> Any:
        """Calls a function with a policy."""
        return func(self.policy_map[policy_id])

    def foreach_policy(self, func: Callable[[Any, str], Any]) -> list[Any]:
        """Calls a function with each policy and its name."""
        return [func(policy, name) for name, policy in self.policy_map.items()]

    def foreach_trainable_policy(self, func: Callable[[Any, str], Any]) -> list[Any]:
        """Calls a function with each policy that learns, and its name."""
        return [func(self.policy_map[name], name) for name in self.policies_to_train]

    def foreach_env(self, func: Callable[[Any], Any]) -> list[Any]:
        """Calls a function with each environment."""
        return [func(env) for env in self._trainer._envs]

    def foreach_env_with_context(self, func: Callable[[Any, Any], Any]) -> list[Any]:
        """Calls a function with each environment and its settings."""
        context = self._trainer.translation.env_config
        return [func(env, context) for env in self._trainer._envs]

    def get_weights(self, policies: Any = None) -> dict[str, Any]:
        """Returns the weights of policies by name."""
        found: dict[str, Any] = self._trainer.get_weights(policies)
        return found

    def set_weights(self, weights: Mapping[str, Any], global_vars: Any = None) -> None:
        """Takes over weights of policies by name."""
        self._trainer.set_weights(weights)

    def set_global_vars(self, global_vars: Mapping[str, Any]) -> None:
        """Tells policies how many environment steps have passed."""
        for policy in self.policy_map.values():
            policy.on_global_var_update(global_vars)

    def get_global_vars(self) -> dict[str, int]:
        """Returns the environment steps so far."""
        return self.global_vars

    def apply(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Calls a function with the worker."""
        return func(self, *args, **kwargs)

    def get_host(self) -> str:
        """Returns the name of the machine."""
        return socket.gethostname()

    def stop(self) -> None:
        """Does nothing: the trainer frees the environments."""


class WorkerSet:
    """The workers of a trainer: one.

    Args:
        trainer: The trainer, as of 2021.
    """

    def __init__(self, trainer: Any) -> None:
        self._local = RolloutWorker(trainer)

    def local_worker(self) -> RolloutWorker:
        """Returns the worker in this process."""
        return self._local

    def remote_workers(self) -> list[Any]:
        """Returns the workers elsewhere: none, playing is Rookery's own business."""
        return []

    def foreach_worker(self, func: Callable[[Any], Any]) -> list[Any]:
        """Calls a function with each worker."""
        return [func(self._local)]

    def foreach_worker_with_index(self, func: Callable[[Any, int], Any]) -> list[Any]:
        """Calls a function with each worker and its number."""
        return [func(self._local, 0)]

    def foreach_policy(self, func: Callable[[Any, str], Any]) -> list[Any]:
        """Calls a function with each policy and its name."""
        return self._local.foreach_policy(func)

    def foreach_trainable_policy(self, func: Callable[[Any, str], Any]) -> list[Any]:
        """Calls a function with each policy that learns, and its name."""
        return self._local.foreach_trainable_policy(func)

    def trainable_policies(self) -> list[str]:
        """Returns the names of the policies that learn."""
        return self._local.policies_to_train

    def foreach_env(self, func: Callable[[Any], Any]) -> list[list[Any]]:
        """Calls a function with each environment; returns a list for each worker."""
        return [self._local.foreach_env(func)]

    def foreach_env_with_context(self, func: Callable[[Any, Any], Any]) -> list[list[Any]]:
        """Calls a function with each environment and its settings; returns a list for each worker."""
        return [self._local.foreach_env_with_context(func)]

    def sync_weights(self) -> None:
        """Does nothing: whoever plays has the weights already."""

    def stop(self) -> None:
        """Does nothing: the trainer frees the environments."""
