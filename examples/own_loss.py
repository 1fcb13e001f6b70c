"""Simple policy optimization (Xie et al. 2024, arXiv:2401.16025): PPO with a parabola where it clips."""

from dataclasses import dataclass
from typing import ClassVar

from rookery import PPO, PPOConfig


def spo_loss(outputs, batch, cfg):
    """Surrogate with a quadratic price on leaving the old policy, value error, entropy bonus."""
    advantage = (batch.advantage - batch.advantage.mean()) / (batch.advantage.std() + 1e-8)
    log_ratio = outputs.distribution.log_prob(batch.action) - batch.logp
    ratio = log_ratio.exp()
    policy_loss = -(ratio * advantage - advantage.abs() * (ratio - 1).square() / (2 * cfg.clip)).mean()
    value_loss = (outputs.value - batch.value_target).square().mean()
    entropy = outputs.distribution.entropy().mean()
    loss = policy_loss + cfg.value_coef * value_loss - cfg.entropy_coef * entropy
    kl = (ratio - 1 - log_ratio).mean()
    metrics = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy, "kl": kl}
    return loss, {name: metric.detach() for name, metric in metrics.items()}


class SPO(PPO):
    """The algorithm: another loss, and all else as it was."""

    loss = staticmethod(spo_loss)


@dataclass(frozen=True)
class SPOConfig(PPOConfig):
    """Settings of SPO, which are those of PPO."""

    algorithm: ClassVar[str] = "own_loss:SPO"
