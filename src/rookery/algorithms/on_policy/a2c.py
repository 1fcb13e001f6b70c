"""Advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783), synchronous version: one gradient step per update.

It equals the first gradient step of PPO on the same batch (Huang et al. 2022, arXiv:2205.09123). The details that
decide are in docs/algorithms/a2c.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional

from rookery.algorithms.algorithm import Algorithm, AlgorithmConfig, Row
from rookery.algorithms.capabilities import Capabilities
from rookery.algorithms.on_policy.actor_critic import (
    ONE_UPDATE_LATE,
    ActorCritic,
    Correction,
    advantage_targets,
    importance_metrics,
)
from rookery.algorithms.rewarding import add_signals
from rookery.algorithms.settings import ActorCriticSettings
from rookery.core.batch import Minibatch, Rollout
from rookery.core.flat import flatten
from rookery.core.metrics import Means, Metrics, explained_variance
from rookery.core.optim import Adam, ClosedForm, Optimizer, OutputGradients, RMSprop, gradient_step
from rookery.core.seeding import Role, Streams
from rookery.core.settings.fields import Fraction, NonNegative, PositiveFloat, Scheduled, Structural
from rookery.core.settings.reach import Length
from rookery.models.heads import Outputs
from rookery.native.forward import attach
from rookery.policies.policy import Policy
from rookery.signals.return_scale import ReturnScale
from rookery.signals.signal import ValueColumn
from rookery.signals.value_scale import ValueScale


@dataclass(frozen=True)
class A2CConfig(AlgorithmConfig, ActorCriticSettings):
    """Settings of A2C. Space and environment presets change some of them: see docs/reference/presets.md."""

    algorithm: ClassVar[str] = "rookery.algorithms.on_policy.a2c:A2C"
    capabilities = Capabilities(supports_staleness=True, supports_memory=True, supports_multi_learner=True)
    field_order = (
        "lr gamma gae_lambda fragment_length rollout_size value_coef entropy_coef max_grad_norm normalize_advantage "
        "scale_rewards normalize_values optimizer rms_alpha rms_eps adam_eps signals model"
    )

    lr: Scheduled[PositiveFloat] = 7e-4
    """Learning rate."""
    gae_lambda: Fraction = 1.0
    """Decay of later errors in the advantage: 1 = the rewards of the fragment, then the value, as in the paper."""
    fragment_length: Structural[Length] = 5
    """Consecutive decisions of one slot (t_max) before its advantage is bootstrapped from a value."""
    entropy_coef: Scheduled[NonNegative] = 0.0
    normalize_advantage: bool = False
    """Normalizes advantages of each batch to mean 0 and standard deviation 1."""
    optimizer: Structural[Literal["rmsprop", "adam"]] = "rmsprop"
    """Optimizer of the gradient steps."""
    rms_alpha: Fraction = 0.99
    """Decay of RMSprop's mean square."""
    rms_eps: PositiveFloat = 1e-5
    """Added to RMSprop's mean square, inside the root."""
    adam_eps: PositiveFloat = 1e-5
    """Added to Adam's denominator."""


def a2c_loss(outputs: Outputs, batch: Minibatch, cfg: A2CConfig) -> tuple[Tensor, Metrics]:
    """Policy gradient, value error and entropy bonus (section 4 of the paper, negated); gradients of decisions that
    older weights made are weighted (Espeholt et al. 2018, section 4.2).
    """
    advantage = batch.advantage
    if cfg.normalize_advantage and len(advantage) > 1:
        deviation, mean = torch.std_mean(advantage)
        advantage = (advantage - mean) / (deviation + 1e-8)
    gain = outputs.distribution.log_prob(batch.action) * advantage
    if batch.importance is not None:
        gain = gain * batch.importance
    policy_loss = -gain.mean()
    value_loss = functional.mse_loss(outputs.value, batch.value_target)
    if outputs.value.shape[1] > 1:
        value_loss = value_loss * outputs.value.shape[1]  # a sum over columns
    entropy = outputs.distribution.entropy().mean()
    loss = policy_loss + cfg.value_coef * value_loss - cfg.entropy_coef * entropy
    metrics = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}
    return loss, {name: metric.detach() for name, metric in metrics.items()}


def a2c_gradient(outputs: Outputs, batch: Minibatch, cfg: A2CConfig) -> OutputGradients | None:
    """Computes the gradient of `a2c_loss` with respect to the outputs, in closed form, and the same metrics.

    None for a distribution without a closed-form gradient.

    Returns:
        Gradients with respect to the head's output ``[N, W]``, to the ``log_std`` of distributions that have one, and
        to the values ``[N, S]``.
    """
    weight = batch.advantage
    if cfg.normalize_advantage and len(weight) > 1:
        deviation, mean = torch.std_mean(weight)
        weight = (weight - mean).div_(deviation + 1e-8)
    if batch.importance is not None:
        weight = weight * batch.importance
    logp_gradient = weight * (-1 / len(batch))
    error = outputs.value - batch.value_target
    value_gradient = error * (2 * cfg.value_coef / len(batch))
    errors = error.flatten()
    metrics: Metrics = {
        "policy_loss": torch.dot(outputs.distribution.log_prob(batch.action), logp_gradient),
        "value_loss": torch.dot(errors, errors) / len(batch),
        "entropy": outputs.distribution.entropy().mean(),
    }
    entropy_gradient = -cfg.entropy_coef / len(batch)
    gradients = outputs.distribution.gradient(batch.action, logp_gradient, entropy_gradient)
    if gradients is None:
        return None
    output, log_std = gradients
    return [output, value_gradient] if log_std is None else [output, log_std, value_gradient], metrics


class A2C(Algorithm[A2CConfig]):
    """The algorithm: `training_step` is one round of Algorithm S3 of the paper, all actors in step."""

    saved = ("net", "optimizer", "signals", "return_scale", "value_scale")
    fixed = ("forward", "columns", "correction")
    loss = staticmethod(a2c_loss)
    closed_form = ClosedForm(a2c_loss, a2c_gradient)

    def __init__(self, policy: Policy, cfg: A2CConfig, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        generator = torch.Generator().manual_seed(streams.integer(Role.INIT, name, 1))
        self.signals = add_signals(self, cfg.signals)
        self.columns: Sequence[ValueColumn] = self.signals.columns(cfg.gamma)
        """The reward signals whose values are learned, the environment's first."""
        self.net = ActorCritic(policy, cfg.model, generator, columns=len(self.columns))
        self.optimizer = self.make_optimizer()
        self.forward = attach(self.net)
        self.return_scale = ReturnScale(cfg.gamma) if cfg.scale_rewards else None
        below_1 = not cfg.model.shared_trunk and self.return_scale is None
        self.value_scale = ValueScale(is_fixed=not cfg.normalize_values, below_1=below_1)

    @cached_property
    def correction(self) -> Correction | None:
        """Off-policy correction; None while rollouts always come from the latest weights."""
        return ONE_UPDATE_LATE if self.staleness else None

    def make_optimizer(self) -> Optimizer:
        """Builds the optimizer of `net`; a subclass may build another."""
        if self.cfg.optimizer == "adam":
            return Adam(flatten(self.net.parts), betas=(0.9, 0.999), eps=self.cfg.adam_eps)
        return RMSprop(flatten(self.net.parts), alpha=self.cfg.rms_alpha, eps=self.cfg.rms_eps)

    def summary(self) -> Row:
        """Reports rewards and learning of the signals."""
        return self.signals.summary() if self.signals.others else {}

    def training_step(self, rollout: Rollout) -> Row:
        """Makes one update: targets, then one gradient step on all rows."""
        cfg = self.now()
        reward = rollout.reward if self.return_scale is None else self.return_scale(rollout)
        reward = self.signals.rewards(rollout, reward) if self.signals.others else reward
        data = advantage_targets(
            self.forward,
            rollout,
            self.value_scale.in_unit(rollout, reward),
            self.columns,
            gae_lambda=cfg.gae_lambda,
            correction=self.correction,
        )
        data = self.before_update(self.value_scale.renewed(data, self.net.value_head))
        means = Means()
        means.add(gradient_step(self.forward, self.loss, data, self.optimizer, cfg, self.closed_form))
        self.updates += 1
        return {
            **means.result(),
            "explained_variance": explained_variance(data.value[:, 0], data.value_target[:, 0]),
            **importance_metrics(data),
            "value_unit": self.value_scale.unit,
            "lr": cfg.lr,
            "skipped_steps": self.check_finite(self.optimizer),
            "updates": self.updates,
        }
