"""Algorithms of RLlib 2.x: a trainer of 2021 with the defaults, results and methods of today."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rookery.face import ConfigError
from rookery_rllib.config.defaults import merge_trainer_configs
from rookery_rllib.rllib2.config import NAMES_OF_TODAY, AlgorithmConfig
from rookery_rllib.rllib2.defaults_of_2_60 import changes, default_config, fragment_length
from rookery_rllib.rllib2.later_results import Lifetime, Window, env_runner_keys, with_later_keys
from rookery_rllib.trainer.trainers import Trainer


def with_name_of_today(line: str) -> str:
    """Returns a line of an error with the present name of its key."""
    start, key, rest = line.partition(" = ")
    head, _, name = start.rpartition(": ")
    return f"{head}: {NAMES_OF_TODAY.get(name, name)}{key}{rest}" if head == "rllib config" else line


class BuiltConfig(dict[str, Any]):
    """The keys of an algorithm, by their names of 2021; a configuration gives their other names as attributes."""

    def __init__(self, keys: Mapping[str, Any], config: AlgorithmConfig) -> None:
        super().__init__(keys)
        self.__dict__["_config"] = config

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.__dict__["_config"], name)

    def __missing__(self, key: str) -> Any:
        return self.__dict__["_config"][key]

    def __deepcopy__(self, memo: dict[int, Any]) -> BuiltConfig:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)

    def copy(self) -> Any:
        return self.__dict__["_config"].copy()


class Algorithm(Trainer):
    """Trains policies by a configuration of RLlib 2.x.

    Args:
        config: A configuration, or a dict of its arguments.
        env: The environment; None = that of the configuration.
        logger_creator: Makes the logger.
    """

    config_class: type[AlgorithmConfig] = AlgorithmConfig

    def __init__(
        self,
        config: AlgorithmConfig | Mapping[str, Any] | None = None,
        env: Any = None,
        logger_creator: Callable[[dict[str, Any]], Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.algorithm_config = self._read(config)
        given = dict(self.algorithm_config.given)
        trial = {key: value for key, value in dict(config or {}).items() if str(key).startswith("__")} \
            if not isinstance(config, AlgorithmConfig) else {}  # fmt: skip
        super().__init__(given | trial, env, logger_creator)

    @classmethod
    def _read(cls, config: Any) -> AlgorithmConfig:
        """Returns a configuration of this algorithm; raises a ConfigError for that of another one."""
        if isinstance(config, AlgorithmConfig):
            if config.algorithm and config.algorithm != cls.algorithm_name():
                raise ConfigError(f"{cls.__name__}: config is a {type(config).__name__}; use {cls.__name__}Config")
            return config.copy()
        keys = {key: value for key, value in (config or {}).items() if not str(key).startswith("__")}
        return cls.get_default_config().update_from_dict(keys)

    @classmethod
    def algorithm_name(cls) -> str:
        """Returns the name of the algorithm in the table of keys."""
        return next(str(name) for each in cls.__mro__ if (name := vars(each).get("_algorithm")))

    @classmethod
    def get_default_config(cls) -> AlgorithmConfig:
        return cls.config_class()

    @classmethod
    def cores_beside(cls, config: Mapping[str, Any]) -> float:
        known = cls._read({key: value for key, value in config.items() if isinstance(value, int | float | bool)}).whole
        return float(known["num_cpus_per_worker"] * (known["num_workers"] + known["evaluation_num_workers"]))

    def setup(self, config: dict[str, Any]) -> None:
        self._lifetime = Lifetime()
        try:
            super().setup(config)
        except ConfigError as error:
            raise ConfigError(*map(with_name_of_today, error.problems)) from error
        self._window: Window = Window(self.config["metrics_smoothing_episodes"])

    def _translate(self, given: dict[str, Any], agents: list[Any] | None, env: Any) -> None:
        old = not self.algorithm_config.enable_rl_module_and_learner
        own = merge_trainer_configs(changes(self.algorithm, old), given, True)
        length = fragment_length(self.algorithm, merge_trainer_configs(default_config(self.algorithm, old), given, True))
        super()._translate(own | {"rollout_fragment_length": length}, agents, env)

    def _take_over_translation(self, env: Any) -> None:
        super()._take_over_translation(env)
        self.config = BuiltConfig(self.config, self.algorithm_config)

    # --- results ------------------------------------------------------------------------------------------------------

    def _result(self, found: Any) -> dict[str, Any]:
        result = super()._result(found)
        return with_later_keys(result, self._window.latest, self._lifetime)

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Runs evaluation episodes; the result has the keys of both stacks, and itself as ``evaluation``."""
        found = super().evaluate()["evaluation"]
        if "episode_reward_mean" in found and "hist_stats" in found:
            found["env_runners"] = env_runner_keys(found, []) | {
                "num_env_steps_sampled": found["timesteps_this_iter"],
            }
        return {**found, "evaluation": found}
