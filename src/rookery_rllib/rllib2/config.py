"""Configurations with methods: ``PPOConfig().environment(...).training(...).build_algo()``.

A configuration holds the keys that were set, under their names of 2021, because one table translates the keys of all
releases (`config/table.py`); all other keys have the defaults of RLlib 2.60 (`defaults_of_2_60`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Self

from rookery.face import ConfigError, nearest, show
from rookery_rllib.batch.sample_batch import DEFAULT_POLICY_ID
from rookery_rllib.config.defaults import Config, copied, merge_trainer_configs
from rookery_rllib.config.key_names import LATER_ARGUMENTS
from rookery_rllib.policy.policies import PolicySpec
from rookery_rllib.rllib2.arguments import METHODS, arguments, nested
from rookery_rllib.rllib2.defaults_of_2_60 import default_config, fragment_length
from rookery_rllib.rllib2.modules.rl_modules import RLModuleSpec
from rookery_rllib.rllib2.stored_configs import remember

_STACK = ("enable_rl_module_and_learner", "enable_env_runner_and_connector_v2")
"""Arguments of `AlgorithmConfig.api_stack`, which are attributes."""


class Nothing:
    """Placeholder of an argument that was not passed."""


NotProvided = Nothing()
"""RLlib 2's placeholder of an argument that was not passed."""

POSITIONS = {
    "environment": ("env",),
    "framework": ("framework",),
    "callbacks": ("callbacks_class",),
}
"""Positional arguments."""

ATTRIBUTES = {
    "framework_str": "framework", "callbacks_class": "callbacks", "policies": "multiagent.policies",
    "policy_mapping_fn": "multiagent.policy_mapping_fn", "policies_to_train": "multiagent.policies_to_train",
    "lr": "lr", "entropy_coeff": "entropy_coeff", "model": "model", "n_step": "n_step",
    "evaluation_duration": "evaluation_num_episodes",
    "actor_lr": "optimization.actor_learning_rate", "critic_lr": "optimization.critic_learning_rate",
    "alpha_lr": "optimization.entropy_learning_rate",
}  # fmt: skip
"""Attributes of a configuration whose names are not those of arguments that are keys."""


NAMES_OF_TODAY = {key: name for names in LATER_ARGUMENTS.values() for name, key in reversed(names.items())}
"""Names of arguments by the keys of 2021 that they set."""


def _method(name: str) -> Callable[..., Any]:
    """Creates a method, which takes its `arguments` and returns the configuration."""

    def method(self: AlgorithmConfig, *args: Any, **kwargs: Any) -> AlgorithmConfig:
        return self._say(name, args, kwargs)

    method.__name__, method.__qualname__ = name, f"AlgorithmConfig.{name}"
    return method


class AlgorithmConfig:
    """A configuration with chainable methods. Arguments of all methods are attributes and items, too.

    Attributes:
        algorithm: Name of the algorithm; empty = none yet, and arguments may be keys of any.
        given: The keys that were set so far, by their names of 2021.
        enable_rl_module_and_learner: Whether the new API stack is on; it chooses defaults alone.
    """

    algorithm: ClassVar[str] = ""
    algo_class: Any = None
    enable_rl_module_and_learner = True
    enable_env_runner_and_connector_v2 = True

    def __init__(self, algo_class: Any = None) -> None:
        self.given: Config = {}
        if algo_class is not None:
            self.algo_class = algo_class

    environment = _method("environment")
    env_runners = rollouts = exploration = _method("env_runners")
    training = _method("training")
    resources = _method("resources")
    learners = _method("learners")
    framework = _method("framework")
    evaluation = _method("evaluation")
    multi_agent = _method("multi_agent")
    callbacks = _method("callbacks")
    reporting = _method("reporting")
    debugging = _method("debugging")
    offline_data = _method("offline_data")
    checkpointing = _method("checkpointing")
    fault_tolerance = _method("fault_tolerance")
    rl_module = _method("rl_module")
    python_environment = _method("python_environment")
    experimental = _method("experimental")

    def api_stack(
        self, enable_rl_module_and_learner: Any = NotProvided, enable_env_runner_and_connector_v2: Any = NotProvided
    ) -> Self:
        """Chooses the defaults of the new or of the old stack; names of both work in any case."""
        if enable_rl_module_and_learner is not NotProvided:
            self.enable_rl_module_and_learner = bool(enable_rl_module_and_learner)
        if enable_env_runner_and_connector_v2 is not NotProvided:
            self.enable_env_runner_and_connector_v2 = bool(enable_env_runner_and_connector_v2)
        return self

    def _say(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Self:
        """Sets the arguments of a method; raises a ConfigError with a line for each unknown or impossible one."""
        here = arguments(method, self.algorithm)
        places = POSITIONS.get(method, ())
        where = f"{type(self).__name__}.{method}"
        problems = []
        if len(args) > len(places):
            problems.append(f"rllib config: {where}() takes its arguments by name, as in {next(iter(here))}=...")
        for name, value in {**dict(zip(places, args, strict=False)), **kwargs}.items():
            if value is NotProvided:
                continue
            taken = here.get(name)
            if taken is None:
                elsewhere = next((other for other in METHODS if name in arguments(other, self.algorithm)), "")
                near = f"; did you mean {elsewhere}({name}=...)?" if elsewhere else nearest(name, list(here))
                problems.append(f"rllib config: {where}({name} = {show(value)}): there is no such argument{near}")
                continue
            try:
                changes = nested(taken, value) if isinstance(taken, str) else taken(self.given, value)
                self.given = merge_trainer_configs(self.given, changes, True)
            except ConfigError as error:
                said_by = f"{where}({name})"
                problems += [
                    line.replace("rllib config:", f"rllib config: {said_by}:", 1).replace(": = ", " = ", 1)
                    for line in error.problems
                ]
        if problems:
            raise ConfigError(*problems)
        return self

    # --- as a dict ----------------------------------------------------------------------------------------------------

    @classmethod
    def overrides(cls, **keys: Any) -> Config:
        """Returns keys for a part of a configuration, such as ``evaluation_config``, by their names of 2021."""
        return cls().update_from_dict(keys).given

    def update_from_dict(self, config: Mapping[str, Any]) -> Self:
        """Sets arguments of any method, or keys, from a dict; those that equal the present ones are left out."""
        for name, value in config.items():
            method = next((each for each in METHODS if name in arguments(each, self.algorithm)), "")
            if name in _STACK:
                self.api_stack(**{name: value})
            elif method and not self._has(name, value):
                self._say(method, (), {name: value})
            elif not method and not self._has(name, value):
                self.given = merge_trainer_configs(self.given, {name: value}, True)
        return self

    def _has(self, name: str, value: Any) -> bool:
        """Returns whether a key or an argument has a value."""
        try:
            known = self._value(name)
            return known is value or bool(type(known) is type(value) and known == value)
        except (AttributeError, ValueError):
            return False

    @classmethod
    def from_dict(cls, config_dict: Mapping[str, Any]) -> Self:
        return cls().update_from_dict(config_dict)

    def copy(self, copy_frozen: bool | None = None) -> Self:
        other = type(self)(self.algo_class)
        other.given = copied(self.given)
        return other.api_stack(self.enable_rl_module_and_learner, self.enable_env_runner_and_connector_v2)

    def freeze(self) -> None:
        """Does nothing: an algorithm keeps a copy of its configuration."""

    def validate(self) -> None:
        """Does nothing: values are checked when they are set, and when an algorithm is built."""

    @property
    def whole(self) -> Config:
        """All keys by their names of 2021, with the defaults of 2.60 for those not set."""
        base = default_config(self.algorithm, not self.enable_rl_module_and_learner) if self.algorithm else {}
        return merge_trainer_configs(base, self.given, True)

    def to_dict(self) -> Config:
        """Returns the arguments that were set, with their names of today, and all other keys with their defaults."""
        return {NAMES_OF_TODAY.get(key, key): value for key, value in self.whole.items()}

    @property
    def param_space(self) -> Config:
        """The keys that were set, which Tune passes to the algorithm."""
        remember(self.given)
        return {**self.given, "enable_rl_module_and_learner": self.enable_rl_module_and_learner}

    @property
    def resolved(self) -> Config:
        """All keys, with the fragment length in steps."""
        whole = self.whole
        return whole | {"rollout_fragment_length": fragment_length(self.algorithm, whole)}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "given":
            raise AttributeError(name)
        return self._value(name)

    def _value(self, name: str) -> Any:
        """Returns the value of an argument or a key; raises an AttributeError if there is none of this name."""
        if name in _STACK:
            return getattr(self, name)
        whole = self.whole
        key = ATTRIBUTES.get(name) or next(
            (taken for method in METHODS if isinstance(taken := arguments(method, self.algorithm).get(name), str)),
            name,
        )
        section, _, last = key.rpartition(".")
        found = whole.get(section, {}) if section else whole
        if last not in found:
            raise AttributeError(f"{type(self).__name__} has no {name!r}{nearest(name, list(whole))}")
        if name == "policies" and not found[last]:
            return {DEFAULT_POLICY_ID: PolicySpec()}
        return found[last]

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("given", "algo_class", *_STACK) or hasattr(type(self), name):
            object.__setattr__(self, name, value)
        else:
            self.update_from_dict({name: value})

    def __getitem__(self, key: str) -> Any:
        try:
            return self._value(key)
        except AttributeError as error:
            raise KeyError(str(error)) from None

    def __setitem__(self, key: str, value: Any) -> None:
        self.update_from_dict({key: value})

    def __contains__(self, key: str) -> bool:
        try:
            self._value(key)
        except AttributeError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def keys(self) -> Any:
        """Returns the names of `to_dict`, so that ``dict(config)`` works."""
        return self.to_dict().keys()

    def items(self) -> Any:
        return self.to_dict().items()

    def values(self) -> Any:
        return self.to_dict().values()

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    @property
    def is_multi_agent(self) -> bool:
        return set(self.policies) != {DEFAULT_POLICY_ID}

    @property
    def uses_new_env_runners(self) -> bool:
        return self.enable_env_runner_and_connector_v2

    @property
    def rl_module_spec(self) -> Any:
        """The spec of the modules; an empty one by default."""
        return self.given.get("rl_module_spec") or RLModuleSpec()

    # --- building -----------------------------------------------------------------------------------------------------

    def build_algo(self, env: Any = None, logger_creator: Any = None, **ignored: Any) -> Any:
        """Builds the algorithm; raises a ConfigError for impossible keys, or without an algorithm."""
        if self.algo_class is None:
            raise ConfigError("AlgorithmConfig: has no algorithm: use PPOConfig(), or another one of an algorithm")
        return self.algo_class(config=self, env=env, logger_creator=logger_creator)

    def build(self, env: Any = None, logger_creator: Any = None, **ignored: Any) -> Any:
        return self.build_algo(env, logger_creator, **ignored)
