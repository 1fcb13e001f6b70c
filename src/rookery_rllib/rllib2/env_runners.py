"""Environments and their runner as callbacks and scripts of RLlib 2.x see them: views of an algorithm's worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rookery_rllib.rllib2.metrics_logger import MetricsLogger


class EnvView:
    """The environments of an algorithm as one vectorized environment; other attributes are those of the first."""

    def __init__(self, envs: list[Any]) -> None:
        self.envs = envs
        self.num_envs = len(envs)

    @property
    def unwrapped(self) -> EnvView:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.__dict__["envs"][0], name)


class EnvRunner:
    """The only environment runner; other attributes are those of a worker of 2021.

    Args:
        algorithm: The algorithm.

    Attributes:
        metrics: Numbers that callbacks log, for the section ``env_runners`` of results.
    """

    worker_index = 0

    def __init__(self, algorithm: Any) -> None:
        self._algorithm = algorithm
        self.metrics = MetricsLogger()

    @property
    def env(self) -> EnvView:
        return EnvView(self._algorithm.workers.local_worker()._envs)

    @property
    def config(self) -> Any:
        return self._algorithm.config

    @property
    def module(self) -> Any:
        return self._algorithm.modules

    @property
    def num_envs(self) -> int:
        return int(self._algorithm.translation.settings["sampling.num_envs"])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.__dict__["_algorithm"].workers.local_worker(), name)


class EnvRunnerGroup:
    """The environment runners of an algorithm: one."""

    def __init__(self, runner: EnvRunner) -> None:
        self.local_env_runner = runner

    def foreach_env_runner(self, func: Callable[..., Any], *args: Any, **how: Any) -> list[Any]:
        return [func(self.local_env_runner)]

    foreach_worker = foreach_env_runner

    def foreach_env(self, func: Callable[[Any], Any]) -> list[list[Any]]:
        return [[func(env) for env in self.local_env_runner.env.envs]]

    def local_worker(self) -> EnvRunner:
        return self.local_env_runner

    def num_remote_env_runners(self) -> int:
        return 0

    def sync_weights(self, *args: Any, **how: Any) -> None:
        """Does nothing: environments are stepped with the newest weights."""
