"""Proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347): clipped, with an optional KL penalty.

The details that decide are in docs/algorithms/ppo.md. The file reads from the settings down to the update.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import torch
from annotated_types import Interval
from torch import Tensor
from torch.nn import functional

from rookery.algorithms.algorithm import Algorithm, AlgorithmConfig, BatchHook, Row
from rookery.algorithms.capabilities import Capabilities
from rookery.algorithms.imitation import ImitationConfig, add_imitation
from rookery.algorithms.on_policy.actor_critic import (
    ONE_UPDATE_LATE,
    ActorCritic,
    Correction,
    advantage_targets,
    importance_metrics,
)
from rookery.algorithms.on_policy.rpo import check_continuous, moved_means
from rookery.algorithms.rewarding import add_signals
from rookery.algorithms.settings import ActorCriticSettings
from rookery.core.batch import Minibatch, PenaltyMinibatch, Rollout
from rookery.core.flat import flatten
from rookery.core.metrics import Means, Metrics, explained_variance
from rookery.core.optim import Adam, ClosedForm, Optimizer, OutputGradients, gradient_steps
from rookery.core.schedules import Linear
from rookery.core.seeding import Role, Streams
from rookery.core.settings.fields import NonNegative, PositiveFloat, Scheduled
from rookery.core.settings.reach import Count
from rookery.models.heads import Outputs
from rookery.native.forward import attach
from rookery.native.ppo import ppo_kernel, ppo_steps
from rookery.policies.policy import Policy
from rookery.signals.return_scale import ReturnScale
from rookery.signals.return_spread import ReturnSpread
from rookery.signals.signal import ValueColumn
from rookery.signals.value_scale import ValueScale

MinibatchT = TypeVar("MinibatchT", bound=Minibatch)
LogStd = Annotated[float, Interval(ge=-20, le=2)]


@dataclass(frozen=True)
class PPOConfig(AlgorithmConfig, ActorCriticSettings):
    """Settings of PPO. Space and environment presets change some of them: see docs/reference/presets.md."""

    algorithm: ClassVar[str] = "rookery.algorithms.on_policy.ppo:PPO"
    capabilities = Capabilities(
        supports_staleness=True,
        supports_memory=True,
        supports_multi_learner=True,
        speed_hints={"minibatch_size": "larger minibatches", "epochs": "fewer passes"},
    )
    field_order = (
        "lr gamma gae_lambda clip epochs minibatch_size fragment_length rollout_size value_coef entropy_coef "
        "max_grad_norm normalize_advantage scale_rewards normalize_values value_clip value_loss_clip target_kl "
        "kl_coef kl_target rpo_alpha log_std_min log_std_max adam_eps signals imitation model"
    )

    lr: Scheduled[PositiveFloat] = field(default_factory=lambda: Linear(3e-4, 1e-4))
    """Learning rate of Adam; a schedule without `steps` stays at its start if the run has no known end in environment
    steps.
    """
    clip: Scheduled[PositiveFloat] = 0.2
    """Clip range of the probability ratio (epsilon of eq. 7)."""
    epochs: Count = 10
    """Passes over the batch per update (K)."""
    minibatch_size: Count = 128
    """Largest number of decisions per gradient step: the batch is cut into near-equal parts."""
    normalize_advantage: bool | Literal["batch"] = True
    """Normalizes advantages to mean 0 and standard deviation 1: true = per minibatch, batch = once over the whole
    update, false = not.
    """
    value_clip: PositiveFloat | None = None
    """Clip range of the value's change per update; none = no clipping (it does not help: Engstrom 2020).
    """
    value_loss_clip: PositiveFloat | None = None
    """Largest squared error of a value that is learned from; larger ones have no gradient (`vf_clip_param` of RLlib 2).
    """
    target_kl: PositiveFloat | None = None
    """Ends the update after the epoch whose mean KL divergence exceeds 1.5 times this; none = never."""
    kl_coef: NonNegative = 0.0
    """Initial coefficient of a penalty on the KL divergence from the old policy to the new (beta of eq. 8), which then
    adapts to `kl_target`; 0 = no penalty.
    """
    kl_target: PositiveFloat = 0.01
    """Target of the mean KL divergence per update: above twice this the coefficient grows by half, below half of
    this it is halved.
    """
    rpo_alpha: NonNegative = 0.0
    """Largest uniform noise on the means of continuous actions in an update (alpha of RPO, Rahman & Xue 2022), in units
    of half the range of an action; 0 = no noise.
    """
    log_std_min: LogStd = -4.0
    """Lower bound of the log standard deviation of continuous actions after an update: a distribution that shrinks
    without end has gradients of any size.
    """
    log_std_max: LogStd = 1.0
    """Upper bound."""
    adam_eps: PositiveFloat = 1e-5
    """Added to Adam's denominator."""
    imitation: ImitationConfig = field(default_factory=ImitationConfig)
    """Behavioural cloning of demonstrations in addition to the RL loss."""

    def __post_init__(self) -> None:
        if not self.log_std_min <= self.model.log_std_init <= self.log_std_max:
            raise ValueError(
                f"model.log_std_init = {self.model.log_std_init:g} is not between log_std_min = {self.log_std_min:g} "
                f"and log_std_max = {self.log_std_max:g}: change one of them"
            )


def clipped_error(value: Tensor, target: Tensor, most: float | None) -> Tensor:
    """Computes the mean squared error of values ``[N, S]``; squared errors above `most`, unless it is None, count
    as it, and have no gradient.
    """
    if most is None:
        return functional.mse_loss(value, target)
    return functional.mse_loss(value, target, reduction="none").clamp(max=most).mean()


def ppo_loss(outputs: Outputs, batch: Minibatch, cfg: PPOConfig) -> tuple[Tensor, Metrics]:
    """Negated eq. 9: clipped surrogate, value error, entropy bonus; and the penalty of eq. 8 for penalty batches.

    For rollouts of older weights, the surrogate is the decoupled one of Hilton et al. 2022, eq. 2: the ratio is taken
    to the policy at the start of the update, and importance weights correct from the policy that played to that one.
    """
    advantage = batch.advantage
    if cfg.normalize_advantage is True and len(advantage) > 1:
        deviation, mean = torch.std_mean(advantage)
        deviation = deviation.clamp(min=batch.least_deviation) if batch.least_deviation else deviation
        advantage = (advantage - mean) / (deviation + 1e-8)
    log_ratio = outputs.distribution.log_prob(batch.action) - batch.logp
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - cfg.clip, 1 + cfg.clip)
    gain = torch.min(ratio * advantage, clipped * advantage)
    if batch.importance is not None:
        gain = gain * batch.importance
    policy_loss = -gain.mean()
    value = outputs.value
    if cfg.value_clip is not None:
        value = batch.value + (value - batch.value).clamp(-cfg.value_clip, cfg.value_clip)
    value_loss = functional.mse_loss(value, batch.value_target)
    if cfg.value_loss_clip is not None:
        value_loss = clipped_error(value, batch.value_target, cfg.value_loss_clip)
    if value.shape[1] > 1:
        value_loss = value_loss * value.shape[1]  # a sum over columns
    entropy = outputs.distribution.entropy()
    loss = policy_loss + cfg.value_coef * value_loss
    if cfg.entropy_coef:
        loss = loss - cfg.entropy_coef * entropy.mean()
    with torch.no_grad():
        metrics: Metrics = {
            "policy_loss": policy_loss.detach(),
            "value_loss": value_loss.detach(),
            "entropy": entropy.detach(),
            "kl": ratio - 1 - log_ratio,  # Schulman's low-variance estimate of KL(old || new)
            "clip_fraction": ratio != clipped,
        }
    if isinstance(batch, PenaltyMinibatch):
        full_kl = outputs.distribution.like(batch.old).kl(outputs.distribution)
        loss = loss + (batch.kl_coef * full_kl).mean()
        metrics["full_kl"] = full_kl.detach()
    return loss, metrics


def ppo_gradient(outputs: Outputs, batch: Minibatch, cfg: PPOConfig) -> OutputGradients | None:
    """Computes the gradient of `ppo_loss` with respect to the outputs, in closed form, and the same metrics.

    The surrogate's derivative with respect to the log-probability is ratio times advantage, unless the clipped term
    is smaller, which is constant. None for a distribution without a closed-form gradient: then autograd computes it.

    Returns:
        Gradients with respect to the head's output ``[N, W]``, to the ``log_std`` of distributions that have one, and
        to the values ``[N, S]``.
    """
    advantage = batch.advantage
    if cfg.normalize_advantage is True and len(advantage) > 1:
        deviation, mean = torch.std_mean(advantage)
        deviation = deviation.clamp(min=batch.least_deviation) if batch.least_deviation else deviation
        advantage = (advantage - mean).div_(deviation + 1e-8)
    log_ratio = outputs.distribution.log_prob(batch.action) - batch.logp
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - cfg.clip, 1 + cfg.clip)
    surrogate, bound = ratio * advantage, clipped * advantage
    gain = torch.min(surrogate, bound)
    logp_gradient = surrogate.mul_(surrogate <= bound).mul_(-1 / len(batch))
    if batch.importance is not None:
        gain.mul_(batch.importance)
        logp_gradient.mul_(batch.importance)
    value = outputs.value
    if cfg.value_clip is not None:
        value = batch.value + (value - batch.value).clamp(-cfg.value_clip, cfg.value_clip)
    error = value - batch.value_target
    value_gradient = error * (2 * cfg.value_coef / len(batch))
    if cfg.value_clip is not None:
        value_gradient.mul_((outputs.value - batch.value).abs() <= cfg.value_clip)
    errors = error.flatten()
    metrics: Metrics = {
        "policy_loss": -gain.mean(),
        "value_loss": torch.dot(errors, errors) / len(batch),
        "entropy": outputs.distribution.entropy(),
        "kl": (ratio - 1).sub_(log_ratio),
        "clip_fraction": ratio != clipped,
    }
    if cfg.value_loss_clip is not None:
        metrics["value_loss"] = clipped_error(value, batch.value_target, cfg.value_loss_clip) * value.shape[1]
        value_gradient.mul_(error.square() <= cfg.value_loss_clip)
    gradients = outputs.distribution.gradient(batch.action, logp_gradient, -cfg.entropy_coef / len(batch))
    if gradients is None:
        return None
    output, log_std = gradients
    if isinstance(batch, PenaltyMinibatch):
        old = outputs.distribution.like(batch.old)
        metrics["full_kl"] = old.kl(outputs.distribution)
        penalty = outputs.distribution.kl_gradient(old, batch.kl_coef / len(batch))
        if penalty is None:
            return None
        output = output + penalty[0]
        if log_std is not None and penalty[1] is not None:
            log_std = log_std + penalty[1]
    return [output, value_gradient] if log_std is None else [output, log_std, value_gradient], metrics


def normalize_advantages(data: MinibatchT, rows: Tensor | None = None) -> MinibatchT:
    """Normalizes the advantages of a batch to mean 0 and standard deviation 1, or less if they hardly differ, as RLlib
    does, or no returns have differed so far; a single advantage is unchanged.

    Args:
        data: The batch.
        rows: The rows that mean and deviation are of: their indices, or ``[N]`` bool; None = all.
    """
    counted = data.advantage if rows is None else data.advantage[rows]
    if len(counted) < 2:
        return data
    deviation, mean = torch.std_mean(counted, correction=0)
    return replace(data, advantage=(data.advantage - mean) / deviation.clamp(min=max(1e-4, data.least_deviation)))


class BoundedStd(BatchHook):
    """Keeps the log standard deviation of continuous actions between its bounds after each update."""

    def after_update(self, learner: Algorithm[Any], row: Row) -> Row:
        """Clamps the parameter; returns the metrics unchanged."""
        learner.policy.head.bound_log_std(learner.cfg.log_std_min, learner.cfg.log_std_max)
        return row


class PPO(Algorithm[PPOConfig]):
    """The algorithm: `training_step` is Algorithm 1 of the paper from the learner's side."""

    saved: ClassVar[tuple[str, ...]] = (
        "net",
        "optimizer",
        "signals",
        "imitation",
        "return_scale",
        "return_spread",
        "value_scale",
        "rng",
        "kl_coef",
    )
    fixed: ClassVar[tuple[str, ...]] = ("forward", "columns", "correction")
    state_version: ClassVar[int] = 2
    loss = staticmethod(ppo_loss)
    closed_form = ClosedForm(ppo_loss, ppo_gradient, ppo_kernel, ppo_steps)

    def __init__(self, policy: Policy, cfg: PPOConfig, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        self.signals = add_signals(self, cfg.signals)
        self.net = self.make_net()
        self.optimizer = self.make_optimizer()
        self.imitation = add_imitation(self, cfg.imitation, self.optimizer.flat)
        self.forward = attach(self.net)
        self.return_scale = ReturnScale(cfg.gamma) if cfg.scale_rewards else None
        self.return_spread = ReturnSpread(cfg.gamma)
        below_1 = not cfg.model.shared_trunk and self.return_scale is None
        self.value_scale = ValueScale(is_fixed=not cfg.normalize_values, below_1=below_1)
        self.rng = streams.generator(Role.LEARNER, name)
        if policy.action_spec.num_numbers:
            self.hooks.append(BoundedStd())
        if cfg.rpo_alpha:
            check_continuous(policy.action_spec, name)
        self.kl_coef = cfg.kl_coef
        """Present coefficient of the KL penalty."""

    @cached_property
    def columns(self) -> Sequence[ValueColumn]:
        """The reward signals whose values are learned, the environment's first; a subclass may add others."""
        return self.signals.columns(self.cfg.gamma)

    @cached_property
    def correction(self) -> Correction | None:
        """Off-policy correction; None while rollouts always come from the latest weights."""
        return ONE_UPDATE_LATE if self.staleness else None

    def make_net(self) -> ActorCritic:
        """Builds the networks; a subclass may build others."""
        generator = torch.Generator().manual_seed(self.streams.integer(Role.INIT, self.name, 1))
        return ActorCritic(self.policy, self.cfg.model, generator, columns=len(self.columns))

    def make_optimizer(self) -> Optimizer:
        """Builds the optimizer of `net`; a subclass may build another."""
        return Adam(flatten(self.net.parts), betas=(0.9, 0.999), eps=self.cfg.adam_eps)

    def training_step(self, rollout: Rollout) -> Row:
        """Makes one update: targets, then epochs of minibatches."""
        cfg, data, means = self.now(), self.before_update(self.targets(rollout)), Means()
        for epochs in range(1, cfg.epochs + 1):  # noqa: B007 - used after the loop
            kl = Means()
            rows = moved_means(data, cfg.rpo_alpha, self.policy.action_spec, self.rng) if cfg.rpo_alpha else data
            batches = rows.shuffled(cfg.minibatch_size, self.rng)
            for metrics in gradient_steps(self.forward, self.loss, batches, self.optimizer, cfg, self.closed_form):
                means.add(metrics)
                if cfg.target_kl is not None and "kl" in metrics:  # missing if no row of a minibatch acted
                    kl.add({"kl": metrics["kl"]})
            if cfg.target_kl is not None and (kl.result().get("kl") or 0.0) > 1.5 * cfg.target_kl:
                break
        self.updates += 1
        result = self.after_update(means.result())
        return {
            **result,
            "explained_variance": explained_variance(data.value[:, 0], data.value_target[:, 0]),
            **({} if data.importance is None else importance_metrics(data)),
            "value_unit": self.value_scale.unit,
            "lr": cfg.lr,
            "clip": cfg.clip,
            "epochs": epochs,
            **(self.adapt_penalty(result.get("full_kl")) if self.cfg.kl_coef else {}),
            "skipped_steps": self.check_finite(self.optimizer),
            "updates": self.updates,
        }

    def summary(self) -> Row:
        """Reports rewards and learning of the signals."""
        return self.signals.summary() if self.signals.others else {}

    def rewards(self, rollout: Rollout) -> Tensor:
        """Returns the rewards of a rollout, ``[T, F, S]``, a column for each of `columns`, the environment's first."""
        reward = rollout.reward if self.return_scale is None else self.return_scale(rollout)
        return self.signals.rewards(rollout, reward) if self.signals.others else reward.unsqueeze(-1)

    @torch.no_grad()
    def targets(self, rollout: Rollout) -> Minibatch:
        """Computes advantages (eq. 11) and value targets of every valid decision, ``[N]`` and ``[N, S]``."""
        cfg, scale = self.cfg, self.value_scale
        rewards = self.rewards(rollout)
        reward = scale.in_unit(rollout, rewards)
        data = advantage_targets(
            self.forward, rollout, reward, self.columns, gae_lambda=cfg.gae_lambda, correction=self.correction
        )
        data = self.with_least_deviation(scale.renewed(data, self.net.value_head), rollout, rewards)
        data = normalize_advantages(data) if cfg.normalize_advantage == "batch" else data
        return self.with_old(data) if cfg.kl_coef else data

    def with_least_deviation(self, data: MinibatchT, rollout: Rollout, reward: Tensor) -> MinibatchT:
        """Adds the least deviation of advantages (`signals/return_spread.py`).

        Args:
            data: The rows.
            rollout: Their rollout.
            reward: ``[T, F, S]`` its rewards.
        """
        strengths = reward.new_tensor([column.strength for column in self.columns])
        least = self.return_spread.least_deviation(rollout, reward @ strengths, self.value_scale.unit)
        return replace(data, least_deviation=least)

    def with_old(self, data: Minibatch) -> PenaltyMinibatch:
        """Adds the distributions before the update, or those of `correction`, to a batch for the penalty, with its
        coefficient.
        """
        correction = self.correction
        forward = self.forward if correction is None else correction.proximal or self.forward
        old = forward.outputs(data).distribution.parameters
        return PenaltyMinibatch(**vars(data), old=old, kl_coef=torch.full_like(data.advantage, self.kl_coef))

    def upgrade(self, state: dict[str, Any], version: int) -> dict[str, Any]:
        """Adds empty statistics of returns to states of version 1."""
        return {**state, "return_spread": self.return_spread.state_dict()}

    def adapt_penalty(self, full_kl: float | None) -> Row:
        """Adapts the penalty's coefficient to the mean KL of an update; returns its value in that update."""
        used = self.kl_coef
        if full_kl is not None and full_kl > 2 * self.cfg.kl_target:
            self.kl_coef *= 1.5
        elif full_kl is not None and full_kl < 0.5 * self.cfg.kl_target:
            self.kl_coef *= 0.5
        return {"kl_coef": used}
