"""Modules of scripts in an algorithm: `ModuleModel` is learned as a ``custom_model``, `ModulePolicy` acts alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from rookery.face import ConfigError, show
from rookery_rllib.batch.numpy_functions import as_arrays
from rookery_rllib.batch.sample_batch import DEFAULT_POLICY_ID
from rookery_rllib.config.defaults import Config
from rookery_rllib.model.model_v2 import TorchModelV2
from rookery_rllib.policy.policies import Policy
from rookery_rllib.rllib2.modules.rl_modules import (
    Columns,
    DefaultModelConfig,
    MultiRLModuleSpec,
    RLModule,
    RLModuleSpec,
    SelfSupervisedLossAPI,
    as_dict,
)

MODEL_KEYS = {
    "head_fcnet_hiddens": "post_fcnet_hiddens", "head_fcnet_activation": "post_fcnet_activation",
    **{name: name for name in (
        "fcnet_hiddens", "fcnet_activation", "conv_filters", "conv_activation", "free_log_std", "vf_share_layers",
        "use_lstm", "max_seq_len", "lstm_cell_size", "lstm_use_prev_action", "lstm_use_prev_reward",
    )},
}  # fmt: skip
"""Keys of ``model`` by setting of a default module."""

WITHOUT_EFFECT = (
    "log_std_clip_param", "fusionnet_hiddens", "fusionnet_activation",
    *(name for name in vars(DefaultModelConfig()) if "initializer" in name),
)  # fmt: skip
"""Settings of a default module without an effect here: weights begin as Rookery's do, and critics are one network of
observation and action together.
"""

NETWORKS = {"SAC": ("policy_model", "Q_model")}
"""Sections of the networks of algorithms that have several, instead of ``model``."""


def model_keys(algorithm: str, model_config: Any) -> Config:
    """Returns the keys of the default networks for the settings of a module; raises a ConfigError for others."""
    settings = {name: value for name, value in as_dict(model_config).items() if name not in WITHOUT_EFFECT}
    defaults = vars(DefaultModelConfig())
    keys = {}
    for name, value in settings.items():
        if name in MODEL_KEYS:
            keys[MODEL_KEYS[name]] = value
        elif value != defaults.get(name, ...):
            raise ConfigError(
                f"rllib config: model_config.{name} = {show(value)}: the default networks have no such setting here; "
                "make the layers in setup() of a TorchRLModule (PPO, APPO, IMPALA)"
            )
    if algorithm in NETWORKS:
        own = {name: value for name, value in keys.items() if "fcnet" in name}
        return {section: dict(own) for section in NETWORKS[algorithm]}
    if not keys.get("conv_filters"):
        keys.pop("conv_filters", None)
        keys.pop("conv_activation", None)
    return {"model": keys}


def with_modules(algorithm: str, given: Config, flatten: bool) -> Config:
    """Returns keys in which the modules of a script are custom models, or policies that do not learn.

    Args:
        algorithm: Name of the algorithm.
        given: Keys; ``model_config`` and ``rl_module_spec`` among them are replaced.
        flatten: Whether modules get observations as one vector (the connector ``FlattenObservations``).

    Raises:
        ConfigError: For modules that the algorithm does not learn.
    """
    given = dict(given)
    spec, settings = given.pop("rl_module_spec", None), given.pop("model_config", None)
    if settings is not None and not (isinstance(spec, RLModuleSpec) and spec.module_class is not None):
        given |= model_keys(algorithm, settings)
    if isinstance(spec, MultiRLModuleSpec):
        return _with_several(algorithm, given, spec, settings, flatten)
    if isinstance(spec, RLModuleSpec):
        given |= _learned(algorithm, spec, settings, flatten)
    elif spec is not None:
        raise ConfigError(f"rllib config: rl_module_spec = {show(spec)}: must be an RLModuleSpec or MultiRLModuleSpec")
    return given


def _learned(algorithm: str, spec: RLModuleSpec, settings: Any, flatten: bool) -> Config:
    """Returns the keys of a policy that learns."""
    if spec.load_state_path is not None:
        raise ConfigError(
            "rllib config: RLModuleSpec.load_state_path: weights are loaded into an algorithm: "
            "algo.restore_from_path(path)"
        )
    if spec.module_class is None or getattr(spec.module_class, "is_default", False):
        own = settings if spec.model_config is None else spec.model_config
        return {} if own is None else model_keys(algorithm, own)
    if algorithm not in ("PPO", "APPO", "IMPALA"):
        raise ConfigError(
            f"rllib config: rl_module_spec: {spec.module_class.__name__}: {algorithm} makes its networks by settings; "
            "give model_config=DefaultModelConfig(...), or use PPO, APPO or IMPALA"
        )
    if issubclass(spec.module_class, SelfSupervisedLossAPI):
        raise ConfigError(
            f"rllib config: rl_module_spec: {spec.module_class.__name__}: a loss of the module's own is not supported; "
            "use a custom_model with custom_loss, or a reward signal of Rookery's (algorithm.signals)"
        )
    own = spec if spec.model_config is not None else RLModuleSpec(spec.module_class, model_config=settings)
    return {"model": {
        "custom_model": ModuleModel, "custom_model_config": {"spec": own, "flatten": flatten},
        "max_seq_len": as_dict(own.model_config).get("max_seq_len", 20),
    }}  # fmt: skip


def _with_several(algorithm: str, given: Config, spec: MultiRLModuleSpec, settings: Any, flatten: bool) -> Config:
    agents = dict(given.get("multiagent") or {})
    named = agents.get("policies") or {}
    listed: dict[Any, Any] = dict(named) if isinstance(named, Mapping) else dict.fromkeys(sorted(named))
    wanted = agents.get("policies_to_train")
    for name, one in spec.rl_module_specs.items():
        known: Any = listed.get(name) or (None, None, None, {})
        if not isinstance(known, list | tuple):
            known = (known.policy_class, known.observation_space, known.action_space, known.config)
        seen, acted = known[1] or one.observation_space, known[2] or one.action_space
        learns = wanted is None or (wanted(name, None) if callable(wanted) else name in wanted)
        acts_alone = one.module_class is not None and not hasattr(one.module_class, "parameters")
        if one.module_class is not None and (not learns or acts_alone):
            cls = type("ModulePolicy", (ModulePolicy,), {"spec": one, "flatten": flatten, "__module__": __name__})
            listed[name] = (cls, seen, acted, known[3] or {})
        else:
            own = _learned(algorithm, one, settings, flatten)
            listed[name] = (known[0], seen, acted, {**(known[3] or {}), **own})
    if set(listed) == {DEFAULT_POLICY_ID}:
        return {**given, **(listed[DEFAULT_POLICY_ID][3] or {})}
    return {**given, "multiagent": {**agents, "policies": listed}}


def observed(space: Any, flat: Any, tree: Any, flatten: bool) -> tuple[Any, Any]:
    """Returns the space and the observations that a module gets.

    Args:
        space: Space of preprocessed observations, with the environment's as ``original_space``.
        flat: ``[N, size]`` preprocessed observations.
        tree: The same in the form of the environment's space.
        flatten: Whether the module gets one vector.
    """
    original = getattr(space, "original_space", space)
    if flatten:
        return space, flat
    if isinstance(original, spaces.Discrete) and isinstance(tree, Tensor):
        return original, tree.argmax(-1)
    return original, tree


class ModuleModel(TorchModelV2, nn.Module):
    """A module of a script as a custom model: its outputs are those of a forward pass, its values are computed apart.

    A module with a state gets rows as sequences of one step, ``[N, 1, ...]``.
    """

    def __init__(
        self, obs_space: Any, action_space: Any, num_outputs: int, model_config: Any, name: str, *, spec: RLModuleSpec,
        flatten: bool,
    ) -> None:  # fmt: skip
        nn.Module.__init__(self)
        super().__init__(obs_space, action_space, num_outputs, model_config, name)
        self._flatten = flatten
        own, _ = observed(obs_space, None, None, flatten)
        made: Any = RLModuleSpec(
            spec.module_class, spec.observation_space or own, spec.action_space or action_space,
            model_config=spec.model_config,
        ).build()  # fmt: skip
        if not isinstance(made, nn.Module) or not isinstance(made, RLModule):
            raise ConfigError(f"module {type(made).__name__}: derive it from TorchRLModule")
        if not hasattr(made, "compute_values"):
            raise ConfigError(
                f"module {type(made).__name__}: has no compute_values(batch, embeddings), which the algorithm needs; "
                "derive it from ValueFunctionAPI, too"
            )
        if type(made).get_train_action_dist_cls is not RLModule.get_train_action_dist_cls or made.action_dist_cls:
            raise ConfigError(
                f"module {type(made).__name__}: has an action distribution of its own; use a custom_action_dist of the "
                "old stack (ModelCatalog.register_custom_action_dist)"
            )
        self.rl_module = made
        state = made.get_initial_state()
        self._names = list(state) if isinstance(state, Mapping) else None
        self._state = [state[name] for name in self._names] if self._names is not None else list(state or ())
        self._batch: dict[str, Any] = {}
        self._outputs: dict[str, Any] = {}

    def get_initial_state(self) -> list[Any]:
        return list(self._state)

    def forward(self, input_dict: Any, state: list[Any], seq_lens: Any) -> tuple[Any, list[Any]]:
        flat = input_dict["obs_flat"] if self._flatten else None
        _, obs = observed(self.obs_space, flat, input_dict["obs"], self._flatten)
        batch: dict[str, Any] = {Columns.OBS: obs}
        if self._state:
            batch[Columns.OBS] = _each(obs, lambda part: part.unsqueeze(1))
            batch[Columns.STATE_IN] = state if self._names is None else dict(zip(self._names, state, strict=True))
        module: Any = self.rl_module
        outputs = module._forward_train(batch) if input_dict.get("is_training") else module._forward_exploration(batch)
        if Columns.ACTION_DIST_INPUTS not in outputs:
            raise ConfigError(
                f"module {type(module).__name__}: its forward pass returned {', '.join(outputs)}, and must return "
                "Columns.ACTION_DIST_INPUTS to be learned"
            )
        self._batch, self._outputs = batch, outputs
        after = outputs.get(Columns.STATE_OUT) if self._state else None
        found: list[Any] = (
            [] if after is None else [after[name] for name in self._names] if self._names else list(after)
        )
        inputs = outputs[Columns.ACTION_DIST_INPUTS]
        return inputs.squeeze(1) if self._state else inputs, found

    def value_function(self) -> Any:
        module: Any = self.rl_module
        embeddings = self._outputs.get(Columns.EMBEDDINGS)
        return module.compute_values(self._batch, embeddings=embeddings).reshape(-1)


def _each(tree: Any, function: Any) -> Any:
    return {key: _each(part, function) for key, part in tree.items()} if isinstance(tree, Mapping) else function(tree)


class ModulePolicy(Policy):
    """A policy that acts by a module of a script, and does not learn.

    Attributes:
        spec: How the module is made.
        flatten: Whether it gets observations as one vector.
    """

    spec: RLModuleSpec
    flatten: bool = False

    def __init__(self, observation_space: Any, action_space: Any, config: dict[str, Any]) -> None:
        super().__init__(observation_space, action_space, config)
        spec = self.spec
        own, _ = observed(observation_space, None, None, self.flatten)
        self.rl_module: Any = RLModuleSpec(
            spec.module_class, spec.observation_space or own, spec.action_space or action_space,
            model_config=spec.model_config,
        ).build()  # fmt: skip
        self.rl_module.action_space.seed(int(np.random.randint(2**31)))
        if self.rl_module.get_initial_state():
            raise ConfigError(f"module {type(self.rl_module).__name__}: has a state, and does not learn; use a Policy")

    def _act(self, columns: Mapping[str, Any], states: Any, explore: bool | None, timestep: int | None) -> Any:
        rows = torch.from_numpy(np.asarray(as_arrays(columns["obs"]), np.float32))
        _, obs = observed(self.observation_space, rows, rows, self.flatten)
        module = self.rl_module
        act = module.forward_exploration if self._explores(explore) else module.forward_inference
        outputs = act({Columns.OBS: obs})
        if Columns.ACTIONS in outputs:
            return as_arrays(outputs[Columns.ACTIONS]), [], {}
        found = module.get_exploration_action_dist_cls().from_logits(outputs[Columns.ACTION_DIST_INPUTS])
        chosen = found if self._explores(explore) else found.to_deterministic()
        return as_arrays(chosen.sample()), [], {}

    def learn_on_batch(self, samples: Any) -> dict[str, Any]:
        return {}
