"""Names of what policies of 2021 were put together from: templates, losses, mixins."""

from __future__ import annotations

_TEMPLATES = {name: f"policy.templates:{name}" for name in ("build_policy_class", "build_torch_policy")}
_TF_TEMPLATE = {"build_tf_policy": "policy.templates:build_tf_policy"}
_SCHEDULES = {name: f"policy.mixins:{name}" for name in ("LearningRateSchedule", "EntropyCoeffSchedule")}
_VALUES = {"ValueNetworkMixin": "policy.mixins:ValueNetworkMixin"}
_TARGET = {"TargetNetworkMixin": "policy.mixins:TargetNetworkMixin"}
_PPO = {
    **{
        name: f"policy.losses:{name}"
        for name in ("ppo_surrogate_loss", "kl_and_loss_stats", "vf_preds_fetches", "setup_config", "setup_mixins")
    },
    "KLCoeffMixin": "policy.mixins:KLCoeffMixin",
    **_VALUES,
    **_SCHEDULES,
    "compute_gae_for_sample_batch": "batch.postprocessing:compute_gae_for_sample_batch",
    "apply_grad_clipping": "batch.torch_functions:apply_grad_clipping",
}
_A3C = {
    **{
        name: f"policy.losses:{name}"
        for name in ("actor_critic_loss", "loss_and_entropy_stats", "add_advantages", "torch_optimizer")
    },
    "model_value_predictions": "policy.losses:vf_preds_fetches",
    "postprocess_advantages": "policy.losses:add_advantages",
    "setup_mixins": "policy.losses:setup_value_mixin",
    **_VALUES,
}
_PG = {name: f"policy.losses:{name}" for name in ("pg_torch_loss", "pg_loss_stats", "post_process_advantages")}
_PG_TF = {"pg_tf_loss": "policy.losses:pg_torch_loss", "post_process_advantages": _PG["post_process_advantages"]}
_Q_LOSS = {"build_q_losses": "base.not_here:build_q_losses"}

NAMES: dict[str, dict[str, str]] = {
    "ray.rllib.policy": {**_TEMPLATES, **_TF_TEMPLATE},
    "ray.rllib.policy.policy_template": {"build_policy_class": _TEMPLATES["build_policy_class"]},
    "ray.rllib.policy.torch_policy_template": {"build_torch_policy": _TEMPLATES["build_torch_policy"]},
    "ray.rllib.policy.tf_policy_template": _TF_TEMPLATE,
    "ray.rllib.policy.torch_policy": {"TorchPolicy": "policy.torch_policy:TorchPolicy", **_SCHEDULES},
    "ray.rllib.policy.tf_policy": _SCHEDULES,
    "ray.rllib.agents.ppo.ppo_torch_policy": _PPO,
    "ray.rllib.agents.ppo.ppo_tf_policy": _PPO,
    "ray.rllib.agents.a3c.a3c_torch_policy": _A3C,
    "ray.rllib.agents.a3c.a3c_tf_policy": _A3C,
    "ray.rllib.agents.pg": {**_PG, **_PG_TF},
    "ray.rllib.agents.pg.pg_torch_policy": _PG,
    "ray.rllib.agents.pg.pg_tf_policy": _PG_TF,
    "ray.rllib.agents.pg.utils": {"post_process_advantages": _PG["post_process_advantages"]},
    "ray.rllib.agents.dqn.simple_q_torch_policy": {**_TARGET, **_Q_LOSS},
    "ray.rllib.agents.dqn.simple_q_tf_policy": {**_TARGET, **_Q_LOSS},
    "ray.rllib.agents.dqn.dqn_torch_policy": _Q_LOSS,
    "ray.rllib.agents.dqn.dqn_tf_policy": _Q_LOSS,
}

_REPLAY = "a part of policies that learn from replay, whose losses are Rookery's own (docs/algorithms/dqn.md)"

GONE: dict[str, str] = {
    f"ray.rllib.agents.dqn.dqn_torch_policy.{name}": _REPLAY
    for name in ("QLoss", "ComputeTDErrorMixin", "build_q_model_and_distribution", "compute_q_values")
} | {
    f"ray.rllib.agents.sac.sac_torch_policy.{name}": _REPLAY
    for name in ("actor_critic_loss", "build_sac_model_and_action_dist", "ComputeTDErrorMixin")
}
