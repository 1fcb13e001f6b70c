"""The losses of PPO, A3C and PG as functions of a policy, its model and a batch, with their helpers of 2021.

Scripts call them in their own losses, or replace one part of a policy and keep the others. Trainers without such a
change learn by Rookery's own algorithms, whose losses are in `rookery.algorithms`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rookery_rllib.base.deprecation import DEPRECATED_VALUE
from rookery_rllib.batch.postprocessing import compute_advantages, compute_gae_for_sample_batch
from rookery_rllib.batch.torch_functions import explained_variance, sequence_mask
from rookery_rllib.policy.mixins import (
    EntropyCoeffSchedule,
    KLCoeffMixin,
    LearningRateSchedule,
    ValueNetworkMixin,
)
from rookery_rllib.policy.optimizers import PolicyAdam


def _valid(model: Any, train_batch: Any, rows: int) -> Tensor | None:
    """Returns the mask of valid rows of padded sequences; None if all are."""
    lengths = train_batch.get("seq_lens")
    if lengths is None or "state_in_0" not in train_batch:
        return None
    return sequence_mask(lengths, rows // len(lengths), time_major=model.is_time_major()).reshape(-1)


def _mean_over(mask: Tensor | None) -> Callable[[Tensor], Tensor]:
    return torch.mean if mask is None else lambda values: values[mask].mean()


# --- PPO --------------------------------------------------------------------------------------------------------------


def ppo_surrogate_loss(policy: Any, model: Any, dist_class: Any, train_batch: Any) -> Tensor:
    """Returns PPO's loss (Schulman et al. 2017, eq. 7 and the penalty of eq. 8); stores its parts in the policy."""
    config = policy.config
    outputs, _ = model(train_batch)
    now = dist_class(outputs, model)
    before = dist_class(train_batch["action_dist_inputs"], model)
    mean = _mean_over(_valid(model, train_batch, len(outputs)))
    advantages = train_batch["advantages"]
    ratio = torch.exp(now.logp(train_batch["actions"]) - train_batch["action_logp"])
    bounded = ratio.clamp(1 - config["clip_param"], 1 + config["clip_param"])
    gain = torch.min(advantages * ratio, advantages * bounded)
    divergence, entropy = before.kl(now), now.entropy()
    total = -gain + policy.kl_coeff * divergence - policy.entropy_coeff * entropy
    value_loss: Any = 0.0
    if config.get("use_critic", True):
        values, targets, old = model.value_function(), train_batch["value_targets"], train_batch["vf_preds"]
        near = old + (values - old).clamp(-config["vf_clip_param"], config["vf_clip_param"])
        errors = torch.max((values - targets).square(), (near - targets).square())
        total = total + config["vf_loss_coeff"] * errors
        value_loss = mean(errors)
        policy._vf_explained_var = explained_variance(targets, values)
    policy._total_loss = mean(total)
    policy._mean_policy_loss, policy._mean_vf_loss = mean(-gain), value_loss
    policy._mean_entropy, policy._mean_kl = mean(entropy), mean(divergence)
    loss: Tensor = policy._total_loss
    return loss


def kl_and_loss_stats(policy: Any, train_batch: Any) -> dict[str, Any]:
    return {
        "cur_kl_coeff": policy.kl_coeff,
        "cur_lr": policy.cur_lr,
        "total_loss": policy._total_loss,
        "policy_loss": policy._mean_policy_loss,
        "vf_loss": policy._mean_vf_loss,
        "vf_explained_var": getattr(policy, "_vf_explained_var", 0.0),
        "kl": policy._mean_kl,
        "entropy": policy._mean_entropy,
        "entropy_coeff": policy.entropy_coeff,
    }


def vf_preds_fetches(policy: Any, input_dict: Any = None, state_batches: Any = None, model: Any = None,
                     action_dist: Any = None) -> dict[str, Any]:  # fmt: skip
    """Returns the values of the model's latest input, as the column ``vf_preds``."""
    return {"vf_preds": (model or policy.model).value_function()}


def setup_config(policy: Any, obs_space: Any, action_space: Any, config: dict[str, Any]) -> None:
    if config.get("vf_share_layers", DEPRECATED_VALUE) != DEPRECATED_VALUE:
        config["model"] = {**(config.get("model") or {}), "vf_share_layers": config["vf_share_layers"]}


def setup_mixins(policy: Any, obs_space: Any, action_space: Any, config: dict[str, Any]) -> None:
    ValueNetworkMixin.__init__(policy, obs_space, action_space, config)
    KLCoeffMixin.__init__(policy, config)
    EntropyCoeffSchedule.__init__(policy, config["entropy_coeff"], config["entropy_coeff_schedule"])
    LearningRateSchedule.__init__(policy, config["lr"], config["lr_schedule"])


# --- A3C --------------------------------------------------------------------------------------------------------------


def actor_critic_loss(policy: Any, model: Any, dist_class: Any, train_batch: Any) -> Tensor:
    """Returns the loss of A3C (Mnih et al. 2016), a sum over the batch, and stores its parts in the policy."""
    config = policy.config
    outputs, _ = model.from_batch(train_batch)
    values = model.value_function().reshape(-1)
    mask = _valid(model, train_batch, len(outputs))
    counts = torch.ones_like(values) if mask is None else mask.float()
    now = dist_class(outputs, model)
    policy.pi_err = -(now.logp(train_batch["actions"]).reshape(-1) * train_batch["advantages"] * counts).sum()
    policy.value_err = 0.0
    if config.get("use_critic", True):
        policy.value_err = 0.5 * ((values - train_batch["value_targets"]).square() * counts).sum()
    policy.entropy = (now.entropy() * counts).sum()
    loss: Tensor = policy.pi_err + config["vf_loss_coeff"] * policy.value_err - config["entropy_coeff"] * policy.entropy
    return loss


def loss_and_entropy_stats(policy: Any, train_batch: Any) -> dict[str, Any]:
    return {"policy_entropy": policy.entropy, "policy_loss": policy.pi_err, "vf_loss": policy.value_err}


def add_advantages(policy: Any, sample_batch: Any, other_agent_batches: Any = None, episode: Any = None) -> Any:
    return compute_gae_for_sample_batch(policy, sample_batch, other_agent_batches, episode)


def torch_optimizer(policy: Any, config: dict[str, Any]) -> PolicyAdam:
    return PolicyAdam(policy.model.parameters(), lr=config["lr"])


def setup_value_mixin(policy: Any, obs_space: Any, action_space: Any, config: dict[str, Any]) -> None:
    ValueNetworkMixin.__init__(policy, obs_space, action_space, config)


# --- PG ---------------------------------------------------------------------------------------------------------------


def pg_torch_loss(policy: Any, model: Any, dist_class: Any, train_batch: Any) -> Tensor:
    """Returns the loss of REINFORCE (Williams 1992): the mean of ``-logp * advantage``; stores it in the policy."""
    outputs, _ = model.from_batch(train_batch)
    score = dist_class(outputs, model).logp(train_batch["actions"])
    policy.pi_err = -_mean_over(_valid(model, train_batch, len(outputs)))(score * train_batch["advantages"])
    loss: Tensor = policy.pi_err
    return loss


def pg_loss_stats(policy: Any, train_batch: Any) -> dict[str, Any]:
    return {"policy_loss": policy.pi_err}


def post_process_advantages(
    policy: Any, sample_batch: Any, other_agent_batches: Any = None, episode: Any = None
) -> Any:
    return compute_advantages(sample_batch, 0.0, policy.config["gamma"], use_gae=False, use_critic=False)
