"""Simple policy optimization (Xie et al. 2024, arXiv:2401.16025): PPO with a parabola instead of clipping."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch.nn import functional

from rookery import PPO, PPOConfig


def spo_loss(outputs, batch, cfg):
    """Surrogate with a quadratic penalty for leaving the old policy, value error, entropy bonus."""
    deviation, mean = torch.std_mean(batch.advantage)
    advantage = (batch.advantage - mean) / (deviation + 1e-8)
    penalty = advantage.abs() / (2 * cfg.clip)
    log_ratio = outputs.distribution.log_prob(batch.action) - batch.logp
    ratio = log_ratio.exp()
    change = ratio - 1
    policy_loss = (penalty * change.square() - ratio * advantage).mean()
    value_loss = functional.mse_loss(outputs.value, batch.value_target)
    loss = policy_loss + cfg.value_coef * value_loss
    if cfg.entropy_coef:
        loss = loss - cfg.entropy_coef * outputs.distribution.entropy().mean()
    kl = change - log_ratio  # a value for each row: the mean is computed once an update
    return loss, {"policy_loss": policy_loss.detach(), "value_loss": value_loss.detach(), "kl": kl.detach()}


class SPO(PPO):
    """PPO with another loss."""

    loss = staticmethod(spo_loss)


@dataclass(frozen=True)
class SPOConfig(PPOConfig):
    """Settings of SPO: the same as those of PPO."""

    algorithm: ClassVar[str] = "own_loss:SPO"
