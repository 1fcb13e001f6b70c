"""Layers of settings for Rookery's trainer, from the translated configuration of a trainer of 2021."""

from __future__ import annotations

from typing import Any

from rookery.face import ConfigError, Layer
from rookery_rllib.base.notices import say_once
from rookery_rllib.config.algorithms import BANDITS, DDPG_KIND, EVOLUTION, ON_POLICY, Q_KIND, SAC_KIND
from rookery_rllib.config.defaults import merge_trainer_configs
from rookery_rllib.model.catalog import custom_model, network_factory
from rookery_rllib.model.model_v2 import ScriptNetwork
from rookery_rllib.model.script_features import feature_settings
from rookery_rllib.model.script_q_models import q_settings
from rookery_rllib.model.viewing_models import ViewingNetwork, looks_back
from rookery_rllib.policy.callbacks import overrides
from rookery_rllib.policy.explorations import exploration_layers
from rookery_rllib.policy.loss_policies import ScriptLossConfig
from rookery_rllib.policy.script_policies import ScriptPolicyConfig, settings_of
from rookery_rllib.policy.templates import class_for
from rookery_rllib.policy.torch_policy import TorchPolicy


def trainer_layers(trainer: Any) -> list[Layer]:
    """Returns the layers of settings of a trainer of 2021: of its keys, its environment and its policies."""
    translation, known = trainer.translation, trainer._known
    layers = list(translation.layers)
    if known is not None:
        limit = known.max_episode_steps
        steps = {} if limit is None else {"max_episode_steps": limit}
        settings = {**known.kwargs, **translation.env_config, **steps}
        layers.append(Layer("rllib config: env_config", {"env.config": settings}))
        if trainer.has_clients and translation.settings.get("algorithm.rollout_size", 0) is None:
            # few clients leave most environments idle, whose rounds would count as steps
            batch = max(int(trainer.config["train_batch_size"]), 1)
            layers.append(Layer("rllib config: train_batch_size", {"algorithm.rollout_size": batch}))
    elif (
        trainer.env_maker.copies is None
        and reaches_environments(trainer)
        and not translation.settings.get("sampling.workers")
    ):
        why = "callbacks, which may access environments: those of other processes are not accessible"
        layers.insert(0, Layer(why, {"env.implementation": "serial"}))
    if trainer.teams:
        layers.append(Layer("rllib config: env", {"teams": trainer.teams}))
    for name, entry in translation.policies.items():
        layers += policy_layers(trainer, name, entry)
    if trainer.recorded:
        start = {f"policies.{name}.replay.start_from": (trainer.recorded,) for name in translation.policies}
        layers.append(Layer("rllib config: input", start))
    layers += exploration_layers(translation, trainer.policy_configs, layers)
    return [*layers, Layer("trainer", {"logging.console": "quiet"})]


def reaches_environments(trainer: Any) -> bool:
    """Whether callbacks have a hook with access to environments."""
    moments = ("on_episode_start", "on_episode_step", "on_episode_end", "on_sample_end", "on_train_result")
    reached = any(overrides(trainer.callbacks, moment) for moment in moments)
    return reached or trainer.config["env_task_fn"] is not None or trainer.env_maker.rewritten


def class_of(trainer: Any, entry: Any) -> Any:
    """Returns the policy class of a script, or with a torch loss; None if Rookery trains the policy."""
    cls = entry.policy_class or trainer._policy_class
    if cls is None or getattr(cls, "algorithm", None) is not None:
        options = model_options(trainer, entry)
        cls = class_for(getattr(cls, "algorithm", None) or trainer.algorithm, options) or cls
    return cls if cls is not None and getattr(cls, "algorithm", None) is None else None


def model_options(trainer: Any, entry: Any) -> dict[str, Any]:
    """Returns the key ``model`` of a policy."""
    options: dict[str, Any] = merge_trainer_configs(trainer.config["model"], entry.config.get("model") or {}, True)
    return options


def policy_layers(trainer: Any, name: str, entry: Any) -> list[Layer]:
    """Returns the settings of a policy that are objects: a model, or an algorithm of the script."""
    cls, options = class_of(trainer, entry), model_options(trainer, entry)
    own = {**trainer.config, **entry.config, **trainer._beyond}
    if cls is not None:
        kind = ScriptLossConfig if issubclass(cls, TorchPolicy) else ScriptPolicyConfig
        config = kind(policy_class=cls, config=own, **settings_of(own, trainer.translation.rows_per_step))
        return [Layer(f"policy {name}", {f"policies.{name}": config})]
    if custom_model(options) is None:
        return []
    algorithm = trainer.algorithm
    if algorithm in DDPG_KIND:
        say_once(
            f"{trainer}: model.custom_model: the features of actor and critics are those of actor_hiddens on its "
            "outputs; each network has a model of its own"
        )
        features = feature_settings(own, options, entry.action_space or trainer.action_space)
        layer = {f"policies.{name}.{setting}": value for setting, value in features.items()}
        return [Layer(f"policy {name}: custom_model", layer)]
    if algorithm in (*SAC_KIND, *EVOLUTION, *BANDITS):
        raise ConfigError(
            f"rllib config: model.custom_model = {options['custom_model']!r}: the networks of {algorithm} "
            "are made by settings alone; leave it out, or use DDPG, TD3 or PPO, or "
            "rookery's own algorithm with model.module (docs/how-to/own-model.md)"
        )
    looks = algorithm in ON_POLICY and looks_back(options)
    values = {
        "model.module": ViewingNetwork if looks else ScriptNetwork,
        "model.output": "action_params",
        "model.hidden": (),
        "model.memory.kind": "none",  # its memory is the model's own state
        "model.memory.frame_stack": 1,
        "model.memory.previous_action": looks,
        "model.memory.previous_reward": looks,
        "model.module_config": {"make": network_factory(options), "options": options},
    }
    if algorithm in Q_KIND:
        values |= q_settings(algorithm, own, options)
    prefixed = {f"policies.{name}.{setting}": value for setting, value in values.items()}
    return [Layer(f"policy {name}: custom_model", prefixed)]
