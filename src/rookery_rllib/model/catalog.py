"""The catalog of 2021: model, action distribution and preprocessor of a space or a registered name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple
from torch import nn

from rookery.face import ConfigError, nearest
from rookery_rllib.base import nested
from rookery_rllib.base.deprecation import DEPRECATED_VALUE
from rookery_rllib.base.notices import say_once
from rookery_rllib.base.registrations import table
from rookery_rllib.config.defaults import MODEL_DEFAULTS, copied
from rookery_rllib.gym.rllib_spaces import Simplex, UnsupportedSpaceException, get_base_struct_from_space
from rookery_rllib.model.action_distributions import (
    ActionDistribution,
    TorchCategorical,
    TorchDeterministic,
    TorchDiagGaussian,
    TorchDirichlet,
    TorchMultiActionDistribution,
    TorchMultiCategorical,
    options,
)
from rookery_rllib.model.attention_networks import AttentionWrapper
from rookery_rllib.model.model_v2 import ModelV2
from rookery_rllib.model.networks import ComplexInputNetwork, FullyConnectedNetwork, VisionNetwork
from rookery_rllib.model.preprocessors import Preprocessor, get_preprocessor
from rookery_rllib.model.recurrent_networks import LSTMWrapper, ModelOnModel

MakeModel = Callable[[Any, Any, int], Any]
"""``(space of preprocessed observations, space of actions, number of outputs)`` -> a model."""

_MODELS = table("models")
_PREPROCESSORS = table("preprocessors")
_DISTRIBUTIONS = table("distributions")


def _found(key: str, given: Any, known: Mapping[str, Any], register: str) -> Any:
    """Looks up a registered name; other values are returned unchanged."""
    if given is None or given == "":
        return None
    if isinstance(given, str):
        if given not in known:
            raise ConfigError(
                f"rllib config: model.{key} = {given!r}: nothing is registered under this name"
                f"{nearest(given, list(known))}; call ModelCatalog.{register}({given!r}, ...) first, or give the class"
            )
        return known[given]
    if not callable(given):
        raise ConfigError(f"rllib config: model.{key}: takes a name, a class or a function, not {type(given).__name__}")
    return given


def custom_model(options: Mapping[str, Any]) -> Any:
    """Returns the class or function of ``custom_model``, which may be a registered name; None if it is not set."""
    return _found("custom_model", options.get("custom_model"), _MODELS, "register_custom_model")


def custom_action_dist(options: Mapping[str, Any]) -> Any:
    """Returns the class of ``custom_action_dist``, which may be a registered name; None if it is not set."""
    given = options.get("custom_action_dist")
    return _found("custom_action_dist", given, _DISTRIBUTIONS, "register_custom_action_dist")


def custom_preprocessor(options: Mapping[str, Any]) -> Any:
    """Returns the class of ``custom_preprocessor``, which may be a registered name; None if it is not set."""
    given = options.get("custom_preprocessor")
    return _found("custom_preprocessor", given, _PREPROCESSORS, "register_custom_preprocessor")


# --- models -----------------------------------------------------------------------------------------------------------


def network_factory(options: Mapping[str, Any], name: str = "default_model") -> MakeModel:
    """Returns a function that makes the model of a section ``model``.

    A subclass of `ModelV2` is made as ``cls(obs_space, action_space, num_outputs, model_config, name, **config)`` with
    the entries of ``custom_model_config``; so is the model of a function. Other classes, of torch or Keras, are made as
    ``cls(obs_space, action_space, num_outputs, name=name, **config)``. Without a custom model it is a default network.
    With ``use_lstm`` or ``use_attention`` a memory is put on top of a `ModelV2`.

    Args:
        options: The section ``model``; missing keys have their values in `MODEL_DEFAULTS`.
        name: Name of the model.

    Returns:
        ``(obs_space, action_space, num_outputs) -> model``, with the space of preprocessed observations.

    Raises:
        ConfigError: If nothing is registered under the name; if both memories are set; from the function, if its
            result is not a model, or a Keras or torch model would get a memory.
    """
    custom_model(options)
    _refuse_two_memories(options)

    def make(obs_space: Any, action_space: Any, num_outputs: int) -> Any:
        return ModelCatalog.get_model_v2(obs_space, action_space, num_outputs, {**MODEL_DEFAULTS, **options}, name=name)

    return make


def default_network(obs_space: Any, options: Mapping[str, Any]) -> type[ModelV2]:
    original = getattr(obs_space, "original_space", obs_space)
    if isinstance(original, Tuple) and any(isinstance(part, Box) and len(part.shape) >= 2 for part in original.spaces):
        return ComplexInputNetwork
    frames = options.get("num_framestacks", 0)
    dimensions = 1 if isinstance(obs_space, Discrete | MultiDiscrete) else len(obs_space.shape)
    stacked = dimensions == 2 and frames != "auto" and frames > 1
    return FullyConnectedNetwork if dimensions < 3 and not stacked else VisionNetwork


def _refuse_two_memories(options: Mapping[str, Any]) -> None:
    if options.get("use_lstm") and options.get("use_attention"):
        raise ConfigError("rllib config: model.use_lstm and model.use_attention are both set; leave one of them out")


def _on_top(upper: type, lower: Any) -> Any:
    """Returns a class with the methods of two: `upper` calls the constructor of `lower`."""
    if upper is None or (isinstance(lower, type) and issubclass(lower, upper)):
        return lower
    return type(f"{lower.__name__}_as_{upper.__name__}", (upper, lower), {})


def _is_plain(made: Any) -> bool:
    """Whether it is a class of torch or Keras, with their constructor arguments."""
    return isinstance(made, type) and not issubclass(made, ModelV2)


def _with_memory(made: Any, options: Mapping[str, Any]) -> Any:
    """Returns the class with an LSTM or attention on top, if the section has one."""
    if not options.get("use_lstm") and not options.get("use_attention"):
        return made
    if _is_plain(made):
        raise ConfigError(
            f"rllib config: model.use_lstm, model.use_attention: {made.__name__} is not a ModelV2, which they need; "
            "give it get_initial_state() and a state of its own"
        )
    upper: type[ModelOnModel] = LSTMWrapper if options.get("use_lstm") else AttentionWrapper
    return type(f"{upper.__name__}_on_{getattr(made, '__name__', 'model')}", (upper,), {"lower": staticmethod(made)})


def _accepted(make: Any, given: Mapping[str, Any], about: str) -> dict[str, Any]:
    """Returns the keyword arguments for a constructor: all, or none if it reads them from the configuration."""
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):
        return dict(given)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return dict(given)
    names = {parameter.name for parameter in parameters}
    if given.keys() <= names:
        return dict(given)
    say_once(
        f"model {about}: its constructor does not take {', '.join(sorted(given.keys() - names))} of "
        "custom_model_config; it finds them in model_config alone"
    )
    return {}


def _named(make: Any, name: str) -> dict[str, Any]:
    """Returns the keyword ``name`` for constructors that take it."""
    try:
        parameters = inspect.signature(make).parameters
    except (TypeError, ValueError):
        return {"name": name}
    takes = "name" in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    return {"name": name} if takes else {}


class ModelCatalog:
    @staticmethod
    def register_custom_model(model_name: str, model_class: Any) -> None:
        if not callable(model_class):
            raise ConfigError(f"register_custom_model({model_name!r}): takes a class, not {type(model_class).__name__}")
        _MODELS[model_name] = model_class

    @staticmethod
    def register_custom_preprocessor(preprocessor_name: str, preprocessor_class: Any) -> None:
        _PREPROCESSORS[preprocessor_name] = preprocessor_class

    @staticmethod
    def register_custom_action_dist(action_dist_name: str, action_dist_class: Any) -> None:
        _DISTRIBUTIONS[action_dist_name] = action_dist_class

    @staticmethod
    def get_model_v2(
        obs_space: Any,
        action_space: Any,
        num_outputs: int | None,
        model_config: Mapping[str, Any],
        framework: str = "tf",
        name: str = "default_model",
        model_interface: Any = None,
        default_model: Any = None,
        **model_kwargs: Any,
    ) -> Any:
        config: dict[str, Any] = copied(dict(model_config))
        _refuse_two_memories(config)
        if config.get("framestack", DEPRECATED_VALUE) != DEPRECATED_VALUE:
            config["num_framestacks"] = 0  # the environment stacks frames, as with `framestack`
        custom = custom_model(config)
        made: Any = custom or default_model or default_network(obs_space, config)
        custom_kwargs = (config.get("custom_model_config") or {}) if custom else {}
        further = {**model_kwargs, **custom_kwargs}
        if _is_plain(made):
            _with_memory(made, config)
            if model_interface is not None:
                raise ConfigError(f"model {made.__name__}: is not a ModelV2, which {model_interface.__name__} needs")
            named = _named(made, name)
            return _checked(made(obs_space, action_space, num_outputs, **named, **further), made)
        if model_interface is not None:
            custom_kwargs = _accepted(made, custom_kwargs, getattr(made, "__name__", "custom_model"))
            further = {**model_kwargs, **custom_kwargs}
        made = _on_top(model_interface, made)
        accepted = _accepted(made, further, getattr(made, "__name__", "custom_model"))
        made = _with_memory(made, config)
        return _checked(made(obs_space, action_space, num_outputs, config, name, **accepted), made)

    @staticmethod
    def get_action_dist(
        action_space: Any,
        config: Mapping[str, Any] | None,
        dist_type: Any = None,
        framework: str = "tf",
        **kwargs: Any,
    ) -> tuple[Any, int]:
        """Returns the action distribution class for a space, and its number of inputs."""
        config = config or MODEL_DEFAULTS
        custom = custom_action_dist(config)
        several = (TorchMultiActionDistribution,)
        if custom is not None:
            if isinstance(custom, type) and issubclass(custom, several):
                return _of_parts(custom, action_space, {**config, "custom_action_dist": None})
            return custom, int(custom.required_model_output_shape(action_space, config))
        if isinstance(dist_type, type) and issubclass(dist_type, ActionDistribution) and dist_type not in several:
            return dist_type, int(dist_type.required_model_output_shape(action_space, config))
        if isinstance(action_space, Tuple | Dict):
            return _of_parts(TorchMultiActionDistribution, action_space, config)
        if isinstance(action_space, Simplex):
            return TorchDirichlet, TorchDirichlet.required_model_output_shape(action_space, config)
        if isinstance(action_space, MultiDiscrete):
            sizes = options(action_space)
            return partial(TorchMultiCategorical, input_lens=sizes), sum(sizes)
        if isinstance(action_space, Discrete):
            return TorchCategorical, int(action_space.n)
        if isinstance(action_space, Box):
            return _of_box(action_space, config, dist_type)
        raise UnsupportedSpaceException(
            f"action space {action_space}: there is no action distribution for {type(action_space).__name__}; use "
            "Discrete, MultiDiscrete, Box, Tuple or Dict, or register one by register_custom_action_dist"
        )

    @staticmethod
    def get_action_shape(action_space: Any, framework: str = "tf") -> tuple[Any, tuple[int | None, ...]]:
        if isinstance(action_space, Discrete):
            return action_space.dtype, (None,)
        if isinstance(action_space, Tuple | Dict):
            parts = nested.flatten(get_base_struct_from_space(action_space))
            size = sum(int(np.prod(part.shape)) for part in parts)
            whole = all(isinstance(part, Discrete) for part in parts)
            return torch.int64 if whole else torch.float32, (None, size)
        if isinstance(action_space, MultiDiscrete):
            return action_space.dtype, (None, *action_space.shape)
        if isinstance(action_space, Box):
            return torch.float32, (None, *action_space.shape)
        raise UnsupportedSpaceException(f"action space {action_space}: its actions are not numbers of one shape")

    @staticmethod
    def get_action_placeholder(action_space: Any, name: str = "action") -> Any:
        """Raises a ConfigError: there are no graphs here, and no placeholders."""
        raise ConfigError(
            "ModelCatalog.get_action_placeholder: there are no TensorFlow graphs here; use torch.zeros with the type "
            "and shape of ModelCatalog.get_action_shape"
        )

    @staticmethod
    def get_preprocessor(env: Any, options: Mapping[str, Any] | None = None) -> Preprocessor:
        return ModelCatalog.get_preprocessor_for_space(env.observation_space, options)

    @staticmethod
    def get_preprocessor_for_space(
        observation_space: Space[Any], options: Mapping[str, Any] | None = None
    ) -> Preprocessor:
        given = options or MODEL_DEFAULTS
        for key in given:
            if key not in MODEL_DEFAULTS:
                raise ConfigError(
                    f"rllib config: model.{key}: there is no such key{nearest(str(key), list(MODEL_DEFAULTS))}"
                )
        made: Preprocessor = (custom_preprocessor(given) or get_preprocessor(observation_space))(
            observation_space, {**MODEL_DEFAULTS, **given}
        )
        return made


def _checked(model: Any, made: Any) -> Any:
    if not isinstance(model, ModelV2 | nn.Module):
        raise ConfigError(
            f"custom_model {getattr(made, '__name__', made)}: returned {type(model).__name__}; must be a TorchModelV2, "
            "a torch.nn.Module or a tf.keras.Model"
        )
    return model


def _of_parts(dist_class: Any, action_space: Any, config: Mapping[str, Any]) -> tuple[Any, int]:
    parts = nested.flatten(get_base_struct_from_space(action_space))
    children = [ModelCatalog.get_action_dist(part, config) for part in parts]
    sizes = [size for _, size in children]
    made = partial(
        dist_class,
        action_space=action_space,
        child_distributions=[child for child, _ in children],
        input_lens=sizes,
    )
    return made, sum(sizes)


def _of_box(action_space: Box, config: Mapping[str, Any], dist_type: Any) -> tuple[Any, int]:
    if np.issubdtype(action_space.dtype, np.integer):
        sizes = options(action_space)
        return partial(TorchMultiCategorical, input_lens=sizes, action_space=action_space), sum(sizes)
    if len(action_space.shape) > 1:
        raise UnsupportedSpaceException(
            f"action space {action_space}: actions of several dimensions have no action distribution; make them flat, "
            "use a Tuple, or register a distribution by register_custom_action_dist"
        )
    if dist_type not in (None, "deterministic"):
        raise ConfigError(f"get_action_dist: dist_type is {dist_type!r}, must be 'deterministic', a class or None")
    found = TorchDiagGaussian if dist_type is None else TorchDeterministic
    return found, found.required_model_output_shape(action_space, config)
