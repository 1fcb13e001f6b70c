"""Policies of 2021 built from functions: `build_policy_class` and variants, which return ordinary classes.

`PARTS` has the functions of PPO, A3C and PG; ``PPOTorchPolicy.with_updates(loss_fn=...)`` replaces some of them, and
returns a class that learns by that loss. An unchanged policy class is the interface of a policy that Rookery's own
algorithm trains.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from rookery.face import ConfigError, nearest
from rookery_rllib.batch.postprocessing import compute_gae_for_sample_batch
from rookery_rllib.batch.torch_functions import apply_grad_clipping, convert_to_non_torch_type
from rookery_rllib.config.algorithms import BANDITS, EVOLUTION, IMPALA_KIND
from rookery_rllib.config.defaults import DEFAULT_CONFIGS
from rookery_rllib.model.catalog import ModelCatalog, custom_action_dist, custom_model
from rookery_rllib.model.model_v2 import ModelV2
from rookery_rllib.policy import losses
from rookery_rllib.policy.learned_policy import LearnedPolicy
from rookery_rllib.policy.mixins import (
    EntropyCoeffSchedule,
    KLCoeffMixin,
    LearningRateSchedule,
    ValueNetworkMixin,
)
from rookery_rllib.policy.policies import LEARNER_STATS_KEY
from rookery_rllib.policy.torch_policy import TorchPolicy, model_config_of

Function = Callable[..., Any]

FUNCTIONS = (
    "loss_fn", "get_default_config", "stats_fn", "postprocess_fn", "extra_action_out_fn", "extra_grad_process_fn",
    "extra_learn_fetches_fn", "optimizer_fn", "validate_spaces", "before_init", "before_loss_init", "after_init",
    "_after_loss_init", "action_sampler_fn", "action_distribution_fn", "make_model", "make_model_and_action_dist",
    "compute_gradients_fn", "apply_gradients_fn", "mixins", "get_batch_divisibility_req", "grad_stats_fn",
)  # fmt: skip
"""Functions from which a policy can be built."""


if TYPE_CHECKING:
    _Base = TorchPolicy
else:
    _Base = object  # mixins come between this class and TorchPolicy


class BuiltPolicy(_Base):
    """A policy built from functions, which are in `parts` of its class."""

    parts: Mapping[str, Any] = {}

    def __init__(self, obs_space: Any, action_space: Any, config: dict[str, Any]) -> None:
        parts = self.parts
        defaults = parts["get_default_config"]() if parts.get("get_default_config") else {}
        config = {**defaults, **config, "framework": "torch"}
        config["model"] = model_config_of(config)
        self.config = config
        self._call("validate_spaces", obs_space, action_space, config)
        self._call("before_init", obs_space, action_space, config)
        self.model, distribution = self._made_model(obs_space, action_space, config)
        TorchPolicy.__init__(
            self,
            obs_space,
            action_space,
            config,
            model=self.model,
            loss=parts["loss_fn"],
            action_distribution_class=distribution,
            action_sampler_fn=parts.get("action_sampler_fn"),
            action_distribution_fn=parts.get("action_distribution_fn"),
            max_seq_len=config["model"]["max_seq_len"],
            get_batch_divisibility_req=parts.get("get_batch_divisibility_req"),
        )
        self._call(
            "before_loss_init" if parts.get("before_loss_init") else "after_init", obs_space, action_space, config
        )
        self._initialize_loss_from_dummy_batch(stats_fn=parts.get("stats_fn"))
        self._call("_after_loss_init", obs_space, action_space, config)

    def _call(self, name: str, *given: Any) -> None:
        if self.parts.get(name):
            self.parts[name](self, *given)

    def _made_model(self, obs_space: Any, action_space: Any, config: dict[str, Any]) -> tuple[Any, Any]:
        """Returns the model and the class of its action distribution."""
        parts = self.parts
        if parts.get("make_model_and_action_dist"):
            model, distribution = parts["make_model_and_action_dist"](self, obs_space, action_space, config)
        else:
            distribution, outputs = ModelCatalog.get_action_dist(action_space, config["model"], framework="torch")
            if parts.get("make_model"):
                model = parts["make_model"](self, obs_space, action_space, config)
            else:
                model = ModelCatalog.get_model_v2(obs_space, action_space, outputs, config["model"], framework="torch")
        if not (isinstance(model, ModelV2) and isinstance(model, torch.nn.Module)):
            raise ConfigError(
                f"{type(self).__name__}: its model is a {type(model).__name__}; a policy with its own loss needs "
                "a TorchModelV2 that is a torch.nn.Module"
            )
        return model, distribution

    def postprocess_trajectory(self, sample_batch: Any, other_agent_batches: Any = None, episode: Any = None) -> Any:
        with torch.no_grad():
            self._train(False)
            batch = super().postprocess_trajectory(sample_batch, other_agent_batches, episode)
            function = self.parts.get("postprocess_fn")
            return batch if function is None else function(self, batch, other_agent_batches, episode)

    def optimizer(self) -> Any:
        function = self.parts.get("optimizer_fn")
        return super().optimizer() if function is None else function(self, self.config)

    def extra_action_out(
        self, input_dict: Any, state_batches: list[Any], model: Any, action_dist: Any
    ) -> dict[str, Any]:
        function = self.parts.get("extra_action_out_fn")
        if function is None:
            return super().extra_action_out(input_dict, state_batches, model, action_dist)
        if _takes_one(function):  # as in TensorFlow's templates
            return dict(function(self))
        return dict(function(self, input_dict, state_batches, model, action_dist))

    def extra_grad_process(self, optimizer: Any, loss: Any) -> dict[str, Any]:
        function = self.parts.get("extra_grad_process_fn")
        return super().extra_grad_process(optimizer, loss) if function is None else function(self, optimizer, loss)

    def extra_compute_grad_fetches(self) -> dict[str, Any]:
        function = self.parts.get("extra_learn_fetches_fn")
        if function is None:
            return super().extra_compute_grad_fetches()
        return {LEARNER_STATS_KEY: {}, **convert_to_non_torch_type(function(self))}

    def extra_grad_info(self, train_batch: Any) -> dict[str, Any]:
        stats, of_gradients = self.parts.get("stats_fn"), self.parts.get("grad_stats_fn")
        if stats is None and of_gradients is None:
            return super().extra_grad_info(train_batch)
        found = {} if stats is None else dict(stats(self, train_batch))
        return found if of_gradients is None else {**found, **of_gradients(self, train_batch, None)}


def _takes_one(function: Function) -> bool:
    parameters = list(inspect.signature(function).parameters.values())
    return len(parameters) == 1 and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL


def _compute_gradients(self: Any, postprocessed_batch: Any) -> Any:
    return self.parts["compute_gradients_fn"](self, postprocessed_batch)


def _apply_gradients(self: Any, gradients: Any) -> None:
    self.parts["apply_gradients_fn"](self, gradients)


def build_policy_class(name: str, framework: str = "torch", **parts: Any) -> type[TorchPolicy]:
    """Makes a policy class from functions; raises a ConfigError for another framework, an unknown part, or no loss."""
    if framework not in ("torch", "tf", "tf2", "tfe"):
        raise ConfigError(f"build_policy_class: {name}: framework = {framework!r}: policies run on torch here")
    for key in parts:
        if key not in FUNCTIONS:
            raise ConfigError(f"build_policy_class: {name}: {key}: there is no such part{nearest(key, FUNCTIONS)}")
    if "loss_fn" not in parts:
        raise ConfigError(f"build_policy_class: {name}: loss_fn is missing: (policy, model, dist_class, train_batch)")
    if parts.get("make_model") and parts.get("make_model_and_action_dist"):
        raise ConfigError(f"build_policy_class: {name}: give make_model or make_model_and_action_dist, not both")
    members: dict[str, Any] = {"parts": dict(parts), "__module__": __name__, "__doc__": f"The policy {name}."}
    if parts.get("compute_gradients_fn"):
        members["compute_gradients"] = _compute_gradients
    if parts.get("apply_gradients_fn"):
        members["apply_gradients"] = _apply_gradients

    def with_updates(**overrides: Any) -> type[TorchPolicy]:
        return build_policy_class(**{"name": name, "framework": framework, **parts, **overrides})

    members["with_updates"] = staticmethod(with_updates)
    bases = dict.fromkeys((BuiltPolicy, *(parts.get("mixins") or ()), TorchPolicy))
    made: type[TorchPolicy] = type(name, tuple(bases), members)
    return made


def build_torch_policy(name: str, **parts: Any) -> type[TorchPolicy]:
    return build_policy_class(name, "torch", **parts)


def build_tf_policy(name: str, *, gradients_fn: Function | None = None, obs_include_prev_action_reward: Any = None,
                    extra_action_fetches_fn: Function | None = None, **parts: Any) -> type[TorchPolicy]:  # fmt: skip
    """Makes a policy class from functions; supported TensorFlow names run on torch.

    `gradients_fn` must not be given: gradients are those of the loss.
    """
    if gradients_fn is not None or parts.get("compute_gradients_fn"):
        raise ConfigError(
            f"build_tf_policy: {name}: compute_gradients_fn works on TensorFlow's graph, and there is none: gradients "
            "are those of the loss; change them in extra_grad_process_fn(policy, optimizer, loss) of build_torch_policy"
        )
    if extra_action_fetches_fn is not None:
        parts["extra_action_out_fn"] = extra_action_fetches_fn
    return build_policy_class(name, "tf", **parts)


# --- the policies of 2021 ---------------------------------------------------------------------------------------------

PARTS: dict[str, dict[str, Any]] = {
    "PPO": {
        "get_default_config": lambda: DEFAULT_CONFIGS["PPO"],
        "loss_fn": losses.ppo_surrogate_loss,
        "stats_fn": losses.kl_and_loss_stats,
        "extra_action_out_fn": losses.vf_preds_fetches,
        "postprocess_fn": compute_gae_for_sample_batch,
        "extra_grad_process_fn": apply_grad_clipping,
        "before_init": losses.setup_config,
        "before_loss_init": losses.setup_mixins,
        "mixins": [LearningRateSchedule, EntropyCoeffSchedule, KLCoeffMixin, ValueNetworkMixin],
    },
    "A3C": {
        "get_default_config": lambda: DEFAULT_CONFIGS["A3C"],
        "loss_fn": losses.actor_critic_loss,
        "stats_fn": losses.loss_and_entropy_stats,
        "extra_action_out_fn": losses.vf_preds_fetches,
        "postprocess_fn": compute_gae_for_sample_batch,
        "extra_grad_process_fn": apply_grad_clipping,
        "optimizer_fn": losses.torch_optimizer,
        "before_loss_init": losses.setup_value_mixin,
        "mixins": [ValueNetworkMixin],
    },
    "PG": {
        "get_default_config": lambda: DEFAULT_CONFIGS["PG"],
        "loss_fn": losses.pg_torch_loss,
        "stats_fn": losses.pg_loss_stats,
        "postprocess_fn": losses.post_process_advantages,
    },
}
"""Functions of the policies of these algorithms."""

LEARNED_BY = ("PPO", "DQN", "SimpleQ", "R2D2", "SAC", "DDPG", "A3C", "PG")
"""Trainers with their own policy classes."""

Q_LEARNED, Q_PARTS = ("DQN", "SimpleQ"), ("loss_fn", "stats_fn")
"""Trainers with replay whose policies may have other functions, and these functions."""

HARMLESS = ("name", "get_default_config", "framework")
"""Parts without an effect on Rookery's own algorithm."""


KINDS = {"PPO": "PPO", "DDPPO": "PPO", "A2C": "A3C", "A3C": "A3C", "PG": "PG"}
"""Algorithm whose parts the policies of a trainer have."""


def kind_of(algorithm: str) -> str:
    """Returns the algorithm whose parts the policies of a trainer have; its own name without such parts."""
    return KINDS.get(algorithm, algorithm)


def class_for(algorithm: str, options: Mapping[str, Any]) -> type[TorchPolicy] | None:
    """Returns the class, built from the parts of its algorithm, of a policy that Rookery's own cannot train.

    That is one with a distribution of the script, or of PG with a memory; None if Rookery's own can. Raises a
    ConfigError if the distribution is the script's and the algorithm supports Rookery's own alone.
    """
    custom, distribution = custom_model(options), custom_action_dist(options)
    states = getattr(custom, "get_initial_state", ModelV2.get_initial_state)
    remembers = options["use_lstm"] or options["use_attention"] or states is not ModelV2.get_initial_state
    if distribution is None and not (algorithm == "PG" and remembers):
        return None
    if algorithm not in KINDS:
        how = "corrects for older weights" if algorithm in IMPALA_KIND else "learns from replay"
        how = "acts by the most probable actions" if algorithm in EVOLUTION else how
        how = "acts by its posterior" if algorithm in BANDITS else how
        raise ConfigError(
            f"rllib config: model.custom_action_dist = {options['custom_action_dist']!r}: {algorithm} {how}, "
            "by Rookery's own distributions; leave it out, or use PPO, A2C or PG"
        )
    kind = KINDS[algorithm]
    return build_policy_class(f"{kind}TorchPolicy", **PARTS[kind])


class AlgorithmPolicy(LearnedPolicy):
    """Interface of a policy that the algorithm of a trainer trains; `with_updates` replaces parts."""

    @classmethod
    def with_updates(cls, **overrides: Any) -> type[Any]:
        """Makes a policy class with other functions, which it learns by: all those of PPO, A3C and PG, and `Q_PARTS` of
        DQN and SimpleQ.

        Raises a ConfigError for others.
        """
        name = overrides.get("name", cls.__name__)
        parts = {key: function for key, function in overrides.items() if key not in HARMLESS}
        if not parts or (cls.algorithm in Q_LEARNED and set(parts) <= set(Q_PARTS)):
            members = {"parts": {**cls.parts, **parts}, "__module__": __name__, "__doc__": cls.__doc__}
            return type(name, (cls,), members)
        if cls.algorithm in PARTS:
            given = {"name": name, "framework": "torch", **PARTS[cls.algorithm], **overrides}
            return build_policy_class(**given)
        raise ConfigError(
            f"{cls.__name__}.with_updates: {', '.join(parts)}: {cls.algorithm} learns from replay by Rookery's own "
            f"code; {' and '.join(Q_PARTS)} of {' and '.join(Q_LEARNED)} may change. Derive from it as "
            "docs/how-to/own-algorithm.md says, or build a policy by build_torch_policy, which learns from the latest "
            "rollout"
        )


for _name in LEARNED_BY:
    for _framework in ("Torch", "TF"):
        globals()[f"{_name}{_framework}Policy"] = type(
            f"{_name}{_framework}Policy",
            (AlgorithmPolicy,),
            {"algorithm": _name, "__module__": __name__, "__doc__": f"Interface of a policy that {_name} trains."},
        )
