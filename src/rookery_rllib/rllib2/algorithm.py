"""Algorithms of RLlib 2.x: a trainer of 2021 with the defaults, results and methods of today."""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import gymnasium

from rookery.face import ConfigError, FileError, Layer, read_checkpoint
from rookery_rllib.base.imports import find
from rookery_rllib.base.registrations import registered_env
from rookery_rllib.batch.sample_batch import DEFAULT_POLICY_ID
from rookery_rllib.config.defaults import merge_trainer_configs
from rookery_rllib.policy.learned_policy import hand_out
from rookery_rllib.rllib2.config import NAMES_OF_TODAY, AlgorithmConfig
from rookery_rllib.rllib2.defaults_of_2_60 import changes, default_config, fragment_length
from rookery_rllib.rllib2.env_runners import EnvRunner, EnvRunnerGroup
from rookery_rllib.rllib2.metrics_logger import MetricsLogger
from rookery_rllib.rllib2.modules.learned_modules import ModulesView, module_of
from rookery_rllib.rllib2.modules.script_modules import with_modules
from rookery_rllib.rllib2.results_of_2_x import SAMPLED, Lifetime, Window, env_runner_keys, with_later_keys
from rookery_rllib.rllib2.rllib_callbacks import ScriptCallbacks, callbacks_of
from rookery_rllib.rllib2.stored_configs import FILE, read_config, remember, write_config
from rookery_rllib.trainer.trainers import Trainer
from rookery_rllib.trainer.trial.checkpoints import MARKER, checkpoint_directory, finish_checkpoint


def with_name_of_today(line: str) -> str:
    """Returns a line of an error with the present name of its key."""
    start, key, rest = line.partition(" = ")
    head, _, name = start.rpartition(": ")
    return f"{head}: {NAMES_OF_TODAY.get(name, name)}{key}{rest}" if head == "rllib config" else line


def with_names_of_today(layer: Layer) -> Layer:
    """Returns a layer with the present names of the keys that its values came from."""
    lines = {}
    for path, line in layer.lines.items():
        source, _, keys = line.rpartition(": ")
        lines[path] = f"{source}: {', '.join(NAMES_OF_TODAY.get(key, key) for key in keys.split(', '))}"
    return replace(layer, lines=lines)


PRESET = "preset rllib2.60"
"""Name of the layer of the defaults of RLlib 2.60."""

FLATTEN = "flatten_observations"
"""Key of whether modules of scripts get observations as one vector."""

HOOKS = "later_callbacks"
"""Key of the functions that are callbacks, by hook."""


def reached(env: Any) -> Any:
    """Returns an environment that callbacks may reach: an id of Gymnasium is made as an object of Python."""
    if not isinstance(env, str) or registered_env(env) is not None or env not in gymnasium.registry:
        return env

    def make(context: Mapping[str, Any]) -> Any:
        return gymnasium.make(env, **context)

    make.__name__ = env
    return make


RL_MODULE = "rl_module"
"""Directory of modules in RLlib's checkpoints."""


class SavedPath(str):
    """Path of a checkpoint, with the attributes of a result."""

    metrics: ClassVar[dict[str, Any]] = {}

    @property
    def checkpoint(self) -> SavedPath:
        return self

    @property
    def path(self) -> str:
        return str(checkpoint_directory(str(self)))

    def to_directory(self, path: str | None = None) -> str:
        return self.path if path is None else str(shutil.copytree(self.path, path, dirs_exist_ok=True))


def _path_of(checkpoint: Any) -> str:
    """Returns the directory of a checkpoint: a path, or an object with its `path`."""
    found: str = os.fspath(getattr(checkpoint, "path", checkpoint))
    return found


def checkpoint_and_part(checkpoint: Any) -> tuple[Path, str]:
    """Returns the directory of a checkpoint, and the rest of a path into it, as ``learner_group/learner/rl_module``.

    Raises:
        FileError: If no directory above the path is a checkpoint.
    """
    given = Path(_path_of(checkpoint).removeprefix("file://")).expanduser()
    for folder in (given, *given.parents):
        if (folder / FILE).is_file():
            return folder, given.relative_to(folder).as_posix().removeprefix(
                "."
            ) if given.is_dir() or not given.exists() else ""
    raise FileError(f"{given}: is in no checkpoint of an algorithm: no directory above it has a file {FILE}")


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
        self._evaluates_in_step = False
        self.metrics = MetricsLogger()
        self.env_runner = EnvRunner(self)
        self._script_callbacks = callbacks_of(config.pop("callbacks", None), config.pop(HOOKS, {}))
        self._script_callbacks.algorithm = self
        self._number = remember(self.algorithm_config.given)
        config = with_modules(self.algorithm, config, bool(config.pop(FLATTEN, False)))
        if self._script_callbacks.reaches_environments:
            config["env"] = reached(config.get("env"))
        try:
            super().setup(config)
        except ConfigError as error:
            raise ConfigError(*map(with_name_of_today, error.problems)) from error
        self._window: Window = Window(self.config["metrics_smoothing_episodes"])
        self._tell("on_algorithm_init", algorithm=self)
        self._tell_of_environments()

    def _make_callbacks(self, given: Any) -> ScriptCallbacks:
        return self._script_callbacks

    def _tell(self, hook: str, **about: Any) -> None:
        self._script_callbacks.call(hook, metrics_logger=self.metrics, **about)

    def _tell_of_environments(self) -> None:
        context = self.env_maker.context(0)
        runner = self.env_runner
        if "on_environment_created" in self._script_callbacks.hooks:
            about = {"env_runner": runner, "metrics_logger": runner.metrics, "env": runner.env, "env_context": context}
            self._script_callbacks.call("on_environment_created", **about)
        if "on_sub_environment_created" in self._script_callbacks.hooks:
            worker = self.workers.local_worker()
            for place, env in enumerate(self._envs):
                self._script_callbacks.call("on_sub_environment_created", worker=worker, sub_environment=env,
                                            env_context=context, env_index=place)  # fmt: skip
        for name, policy in self.policy_facades.items():
            self._script_callbacks.call("on_create_policy", policy_id=name, policy=policy)

    def _translate(self, given: dict[str, Any], agents: list[Any] | None, env: Any) -> None:
        old = not self.algorithm_config.enable_rl_module_and_learner
        own = merge_trainer_configs(changes(self.algorithm, old), given, True)
        length = fragment_length(
            self.algorithm, merge_trainer_configs(default_config(self.algorithm, old), given, True)
        )
        super()._translate(own | {"rollout_fragment_length": length}, agents, env)
        layers = [*map(with_names_of_today, self.translation.layers)]
        if not old:
            layers.append(Layer(PRESET, {"algorithm.model.initial_weights": "orthogonal"}))
        self.translation = replace(self.translation, layers=tuple(layers))

    def _named_defaults(self) -> dict[str, Any]:
        whole = default_config(self.algorithm, not self.algorithm_config.enable_rl_module_and_learner)
        length = fragment_length(self.algorithm, whole)
        return {"defaults": whole | {"rollout_fragment_length": length}, "preset": PRESET}

    def _take_over_translation(self, env: Any) -> None:
        super()._take_over_translation(env)
        self.config = BuiltConfig(self.config, self.algorithm_config)

    # --- results ------------------------------------------------------------------------------------------------------

    def _result(self, found: Any) -> dict[str, Any]:
        result = with_later_keys(super()._result(found), self._window.latest, self._lifetime)
        merged: dict[str, Any] = merge_trainer_configs(result, self.metrics.reduce(), True)
        merged["env_runners"] = merge_trainer_configs(merged["env_runners"], self.env_runner.metrics.reduce(), True)
        return merged

    def step(self) -> dict[str, Any]:
        self._evaluates_in_step = True
        try:
            return super().step()
        finally:
            self._evaluates_in_step = False

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Runs evaluation episodes; the result has the keys of both stacks, and itself as ``evaluation``."""
        self._tell("on_evaluate_start", algorithm=self)
        of_training, self.env_runner.metrics = self.env_runner.metrics, self._evaluation_metrics
        try:
            found = super().evaluate()["evaluation"]
        finally:
            self.env_runner.metrics = of_training
        if "episode_reward_mean" in found and "hist_stats" in found:
            runners = env_runner_keys(found, []) | {"num_env_steps_sampled": found["timesteps_this_iter"]}
            found["sampler_results"] = {key: found[key] for key in SAMPLED if key in found}
            found["env_runners"] = merge_trainer_configs(runners, self._evaluation_metrics.reduce(), True)
        self._tell("on_evaluate_end", algorithm=self, evaluation_metrics=found)
        return {"evaluation": found} if self._evaluates_in_step else {**found, "evaluation": found}

    @functools.cached_property
    def _evaluation_metrics(self) -> MetricsLogger:
        return MetricsLogger()

    # --- checkpoints --------------------------------------------------------------------------------------------------

    def save_checkpoint(self, tmp_checkpoint_dir: str) -> str:
        path = super().save_checkpoint(tmp_checkpoint_dir)
        config = self.algorithm_config
        old = not config.enable_rl_module_and_learner
        write_config(Path(tmp_checkpoint_dir), self.algorithm, config.given, old, self._number)
        return path

    def save(self, checkpoint_dir: Any = None) -> SavedPath:
        """Writes a checkpoint into a new directory; the returned path has it as ``checkpoint``, too."""
        return SavedPath(super().save(None if checkpoint_dir is None else str(checkpoint_dir)))

    def save_to_path(self, path: Any = None, **others: Any) -> str:
        """Writes a checkpoint into a directory, and returns it; None = a new one."""
        folder = Path(tempfile.mkdtemp(dir=self.logdir) if path is None else path).expanduser()
        folder.mkdir(parents=True, exist_ok=True)
        for earlier in folder.glob("checkpoint-*"):
            earlier.unlink()
        (folder / MARKER).touch()
        finish_checkpoint(self.save_checkpoint(str(folder)), str(folder), self.get_state())
        return str(folder)

    save_checkpoint_to_path = save_to_path

    def restore(self, checkpoint_path: Any) -> None:
        super().restore(_path_of(checkpoint_path))
        self._tell("on_checkpoint_loaded", algorithm=self)

    def restore_from_path(self, path: Any, component: str | None = None, **others: Any) -> None:
        """Loads a checkpoint, or the weights of modules alone.

        Args:
            path: The checkpoint, or the directory of a module in it.
            component: ``learner_group/learner/rl_module``, with the name of a module or for all.
            others: Have no meaning here.
        """
        root, part = checkpoint_and_part(path)
        part = component or part
        if not part:
            self.restore(root)
            return
        if RL_MODULE not in part.split("/"):
            raise ConfigError(f"restore_from_path: component = {part!r}: only modules (.../{RL_MODULE}/...) are loaded")
        wanted = part.split("/")[-1]
        saved = read_checkpoint(root).state
        for name in [wanted] if wanted != RL_MODULE else list(saved["policies"]):
            if name not in self.rookery.policies or name not in saved["policies"]:
                raise ConfigError(f"restore_from_path: there is no module {name!r} in both")
            self.rookery.policies[name].load_state_dict(saved["policies"][name])
            hand_out(self.rookery, name)

    @classmethod
    def from_checkpoint(cls, path: Any, policy_ids: Any = None, policy_mapping_fn: Any = None,
                        policies_to_train: Any = None, **others: Any) -> Algorithm:  # fmt: skip
        """Makes the algorithm of a checkpoint, and loads its state.

        Args:
            path: The checkpoint.
            policy_ids: Has no meaning here: all policies are loaded.
            policy_mapping_fn: Replaces the stored function.
            policies_to_train: Replaces the stored names.
            others: Have no meaning here.
        """
        root, _ = checkpoint_and_part(path)
        again = {"multiagent.policy_mapping_fn": policy_mapping_fn, "multiagent.policies_to_train": policies_to_train}
        name, given, old_stack = read_config(root, {key: value for key, value in again.items() if value is not None})
        made: Any = find("ray.rllib.algorithms.registry.get_algorithm_class")(name)
        config = made.get_default_config().api_stack(not old_stack, not old_stack)
        config.given = given
        algorithm: Algorithm = config.build_algo()
        algorithm.restore(root)
        return algorithm

    # --- parts --------------------------------------------------------------------------------------------------------

    @property
    def env_runner_group(self) -> EnvRunnerGroup:
        return EnvRunnerGroup(self.env_runner)

    def get_module(self, module_id: str = DEFAULT_POLICY_ID) -> Any:
        """Returns the module of a policy; None if there is none of this name."""
        return module_of(self.policy_facades.get(module_id), self.algorithm)

    @property
    def modules(self) -> ModulesView:
        return ModulesView({name: self.get_module(name) for name in self.policy_facades})
