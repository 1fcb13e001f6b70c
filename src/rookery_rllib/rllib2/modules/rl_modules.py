"""Modules of RLlib 2.x: `RLModule`, `TorchRLModule`, their specs and settings."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from rookery.face import ConfigError
from rookery_rllib.base.imports import find
from rookery_rllib.rllib2.modules.logit_distributions import OfLogits, distribution_class


class Columns:
    """Names of columns of batches."""

    OBS = "obs"
    INFOS = "infos"
    ACTIONS = "actions"
    ACTIONS_FOR_ENV = "actions_for_env"
    REWARDS = "rewards"
    TERMINATEDS = "terminateds"
    TRUNCATEDS = "truncateds"
    NEXT_OBS = "new_obs"
    EPS_ID = "eps_id"
    AGENT_ID = "agent_id"
    MODULE_ID = "module_id"
    SEQ_LENS = "seq_lens"
    T = "t"
    STATE_IN = "state_in"
    NEXT_STATE_IN = "next_state_in"
    STATE_OUT = "state_out"
    NEXT_STATE_OUT = "next_state_out"
    EMBEDDINGS = "embeddings"
    ACTION_DIST_INPUTS = "action_dist_inputs"
    ACTION_PROB = "action_prob"
    ACTION_LOGP = "action_logp"
    VF_PREDS = "vf_preds"
    VALUES_BOOTSTRAPPED = "values_bootstrapped"
    ADVANTAGES = "advantages"
    VALUE_TARGETS = "value_targets"
    INTRINSIC_REWARDS = "intrinsic_rewards"
    RETURNS_TO_GO = "returns_to_go"
    LOSS_MASK = "loss_mask"


@dataclass
class DefaultModelConfig:
    """Settings of the default networks; initializers have no effect here, nor has the fusion network: critics get
    observation and action together as input.
    """

    fcnet_hiddens: list[int] = field(default_factory=lambda: [256, 256])
    fcnet_activation: str = "tanh"
    fcnet_kernel_initializer: Any = None
    fcnet_kernel_initializer_kwargs: Any = None
    fcnet_bias_initializer: Any = None
    fcnet_bias_initializer_kwargs: Any = None
    fcnet_use_layernorm: bool = False
    conv_filters: Any = None
    conv_activation: str = "relu"
    conv_kernel_initializer: Any = None
    conv_kernel_initializer_kwargs: Any = None
    conv_bias_initializer: Any = None
    conv_bias_initializer_kwargs: Any = None
    head_fcnet_hiddens: list[int] = field(default_factory=list)
    head_fcnet_activation: str = "relu"
    head_fcnet_kernel_initializer: Any = None
    head_fcnet_kernel_initializer_kwargs: Any = None
    head_fcnet_bias_initializer: Any = None
    head_fcnet_bias_initializer_kwargs: Any = None
    head_fcnet_use_layernorm: bool = False
    free_log_std: bool = False
    log_std_clip_param: float = 20.0
    vf_share_layers: bool = True
    use_lstm: bool = False
    max_seq_len: int = 20
    lstm_cell_size: int = 256
    lstm_use_prev_action: bool = False
    lstm_use_prev_reward: bool = False
    lstm_kernel_initializer: Any = None
    lstm_kernel_initializer_kwargs: Any = None
    lstm_bias_initializer: Any = None
    lstm_bias_initializer_kwargs: Any = None
    fusionnet_hiddens: list[int] = field(default_factory=lambda: [256, 256])
    fusionnet_activation: str = "tanh"
    fusionnet_kernel_initializer: Any = None
    fusionnet_kernel_initializer_kwargs: Any = None
    fusionnet_bias_initializer: Any = None
    fusionnet_bias_initializer_kwargs: Any = None


def as_dict(model_config: Any) -> dict[str, Any]:
    """Returns the settings of a module as a dict."""
    if model_config is None:
        return {}
    known = dataclasses.is_dataclass(model_config) and not isinstance(model_config, type)
    return dataclasses.asdict(model_config) if known else dict(model_config)


@dataclass
class RLModuleConfig:
    """Arguments of a module, as one object in releases before 2.40."""

    observation_space: Any = None
    action_space: Any = None
    inference_only: bool = False
    learner_only: bool = False
    model_config_dict: dict[str, Any] = field(default_factory=dict)
    catalog_class: Any = None

    @property
    def model_config(self) -> dict[str, Any]:
        return self.model_config_dict


class RLModule:
    """A module: what acts, and what is learned.

    Args:
        config: All arguments as one object, in earlier releases.
        observation_space: Space of observations.
        action_space: Space of actions.
        inference_only: Whether parts for learning are left out.
        learner_only: Whether it only learns.
        model_config: Settings of the module.
        catalog_class: Must be None.
    """

    framework: str | None = None

    def __init__(
        self,
        config: RLModuleConfig | None = None,
        *,
        observation_space: Any = None,
        action_space: Any = None,
        inference_only: bool | None = None,
        learner_only: bool = False,
        model_config: Any = None,
        catalog_class: Any = None,
    ) -> None:
        if config is None:
            config = RLModuleConfig(observation_space, action_space, bool(inference_only), learner_only,
                                    as_dict(model_config), catalog_class)  # fmt: skip
        self.config = config
        self.observation_space, self.action_space = config.observation_space, config.action_space
        self.inference_only, self.learner_only = config.inference_only, config.learner_only
        self.model_config = as_dict(config.model_config_dict)
        self.catalog = None
        self.action_dist_cls: Any = None
        self.setup()

    def setup(self) -> None:
        """Makes the layers; subclasses override it."""

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        raise NotImplementedError(f"{type(self).__name__} has no _forward(batch)")

    def _forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self._forward(batch, **kwargs)

    def _forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self._forward(batch, **kwargs)

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self._forward(batch, **kwargs)

    def forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self._forward_inference(batch, **kwargs)

    def forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self._forward_exploration(batch, **kwargs)

    def forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self._forward_train(batch, **kwargs)

    def get_initial_state(self) -> Any:
        return {}

    def is_stateful(self) -> bool:
        return bool(self.get_initial_state())

    def get_inference_action_dist_cls(self) -> type[OfLogits]:
        return self.action_dist_cls or distribution_class(self.action_space)

    def get_exploration_action_dist_cls(self) -> type[OfLogits]:
        return self.get_inference_action_dist_cls()

    def get_train_action_dist_cls(self) -> type[OfLogits]:
        return self.get_inference_action_dist_cls()

    def get_state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return {}

    def set_state(self, state: Mapping[str, Any]) -> None: ...

    def unwrapped(self) -> RLModule:
        return self

    @classmethod
    def from_checkpoint(cls, path: Any, **others: Any) -> Any:
        """Returns the module of a checkpoint: ``.../learner_group/learner/rl_module/NAME``, or all by name."""
        part = str(getattr(path, "path", path)).rstrip("/").rpartition("/")[2]
        modules = find("ray.rllib.algorithms.algorithm.Algorithm").from_checkpoint(path).modules
        return modules.get(part, modules)


class TorchRLModule(nn.Module, RLModule):
    """A module of torch layers. Acting computes no gradients."""

    framework = "torch"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        nn.Module.__init__(self)
        RLModule.__init__(self, *args, **kwargs)

    def forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        with torch.no_grad():
            return self._forward_inference(batch, **kwargs)

    def forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        with torch.no_grad():
            return self._forward_exploration(batch, **kwargs)

    def forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self.forward_train(batch, **kwargs)

    def get_state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return {name: value.detach().cpu().numpy() for name, value in self.state_dict().items()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        self.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in state.items()})


class DefaultModule(TorchRLModule):
    """The default networks of an algorithm, which settings make; masks of actions in observations are applied."""

    is_default = True

    def __init_subclass__(cls) -> None:
        """Marks a subclass as one of the script, which has to make its own layers."""
        super().__init_subclass__()
        cls.is_default = False


class ValueFunctionAPI:
    """A module that computes values."""

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no compute_values(batch, embeddings)")


class InferenceOnlyAPI:
    """A module with parts for learning alone, which here are kept everywhere."""

    def get_non_inference_attributes(self) -> list[str]:
        return []


class TargetNetworkAPI:
    """A module with target networks; Rookery's algorithms make their own, and call nothing of this."""


class SelfSupervisedLossAPI:
    """A module with a loss of its own, which is refused when an algorithm is built with it."""


class RandomModule(RLModule):
    """Draws actions from their space."""

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        rows = len(next(iter(_leaves(batch[Columns.OBS]))))
        return {Columns.ACTIONS: np.stack([self.action_space.sample() for _ in range(rows)])}


def _leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, Mapping):
        for part in tree.values():
            yield from _leaves(part)
    else:
        yield tree


# --- specs ------------------------------------------------------------------------------------------------------------


@dataclass
class RLModuleSpec:
    """Recipe of a module.

    Attributes:
        module_class: Its class; None = the default networks of the algorithm.
        observation_space: Space of observations; None = the environment's.
        action_space: Space of actions; None = the environment's.
        inference_only: Whether parts for learning are left out.
        learner_only: Whether it only learns.
        model_config: Its settings, a dict or a `DefaultModelConfig`.
        catalog_class: Must be None.
        load_state_path: Directory of a checkpoint with its weights.
        model_config_dict: Former name of `model_config`.
    """

    module_class: Any = None
    observation_space: Any = None
    action_space: Any = None
    inference_only: bool = False
    learner_only: bool = False
    model_config: Any = None
    catalog_class: Any = None
    load_state_path: Any = None
    model_config_dict: Any = None

    def __post_init__(self) -> None:
        if self.model_config is None:
            self.model_config = self.model_config_dict
        if self.catalog_class is not None:
            raise ConfigError(
                f"RLModuleSpec: catalog_class = {self.catalog_class.__name__}: there are no catalogs here; make the "
                "layers in setup() of a TorchRLModule"
            )

    def build(self) -> Any:
        """Makes the module; raises a ConfigError without a class."""
        if self.module_class is None:
            raise ConfigError("RLModuleSpec.build: module_class is missing")
        settings = as_dict(self.model_config)
        spaces = {"observation_space": self.observation_space, "action_space": self.action_space}
        taken = inspect.signature(self.module_class.__init__).parameters.values()
        if any(each.name == "config" and each.default is each.empty for each in taken):
            return self.module_class(RLModuleConfig(**spaces, model_config_dict=settings))
        how = {"inference_only": self.inference_only, "learner_only": self.learner_only}
        if not any(each.kind is each.VAR_KEYWORD for each in taken):
            known = {each.name for each in taken}
            how = {name: value for name, value in how.items() if name in known}
        return self.module_class(**spaces, **how, model_config=settings)


@dataclass
class MultiRLModuleSpec:
    """Recipe of several modules.

    Attributes:
        multi_rl_module_class: Must be None: modules are made and learned one by one.
        rl_module_specs: Specs by the name of the module.
        module_specs: Former name of `rl_module_specs`.
    """

    multi_rl_module_class: Any = None
    observation_space: Any = None
    action_space: Any = None
    inference_only: bool | None = None
    model_config: Any = None
    rl_module_specs: Any = None
    load_state_path: Any = None
    modules_to_load: Any = None
    module_specs: Any = None

    def __post_init__(self) -> None:
        self.rl_module_specs = self.rl_module_specs or self.module_specs or {}
        if self.multi_rl_module_class is not None:
            raise ConfigError(
                f"MultiRLModuleSpec: multi_rl_module_class = {self.multi_rl_module_class.__name__}: modules are made "
                "and learned one by one; for shared layers use a setting of Rookery's own (docs/how-to/several-agents"
                ".md), or a custom_model of the old stack that shares layers"
            )

    def __getitem__(self, name: str) -> RLModuleSpec:
        found: RLModuleSpec = self.rl_module_specs[name]
        return found

    def __contains__(self, name: str) -> bool:
        return name in self.rl_module_specs
