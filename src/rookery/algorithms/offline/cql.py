"""Conservative Q-learning (Kumar et al. 2020, arXiv:2006.04779), CQL(H): lowers the values of actions that are not in
the data. `CQL` is SAC with this penalty, for continuous actions; `DiscreteCQL` is DQN with it.

The details that decide are in docs/algorithms/cql.md. The file reads from the settings down to the gradient steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.algorithm import Row
from rookery.algorithms.experience import Experience
from rookery.algorithms.off_policy.critics import (
    CriticBatch,
    PolicyNetwork,
    StateAction,
    actor_structure,
    at_rate,
    backup,
    behavior_of,
    critic_loss,
    rename_grad_norm,
)
from rookery.algorithms.off_policy.dqn import DQN, DQNConfig, TargetConfig
from rookery.algorithms.off_policy.hybrid_actions import ActorBatch
from rookery.algorithms.off_policy.q_exploration import ExplorationConfig
from rookery.algorithms.off_policy.q_values import MeanValue, QBatch, mean_gradient, mean_loss, played
from rookery.algorithms.off_policy.sac import ACTOR_GRADIENT, SAC, SACConfig, Temperature, actor_loss
from rookery.algorithms.offline.data_learner import (
    CONTINUOUS,
    DISCRETE,
    OFFLINE_AND_ONLINE,
    check_actions,
    check_critics,
    check_data,
    clip_actions,
)
from rookery.algorithms.settings import DataSettings
from rookery.core.batch import Transitions
from rookery.core.errors import ConfigError
from rookery.core.metrics import Metrics
from rookery.core.optim import Adam, ClosedForm, Optimizer, OutputGradients, gradient_step
from rookery.core.seeding import Streams
from rookery.core.settings.fields import NonNegative, PositiveFloat, Scheduled, Structural
from rookery.core.settings.reach import Count, CountFromZero, Few, Rows
from rookery.core.spaces.arrays import MASK, ActionSpec, ObsSpec
from rookery.models.build import ModelConfig
from rookery.models.distributions import Behavior
from rookery.models.squashed import SquashedGaussian
from rookery.models.structure import Inputs, Structure
from rookery.native.critics import action_values
from rookery.native.forward import attach
from rookery.native.td import TDRows
from rookery.policies.policy import Policy

LOG_HALF = math.log(0.5)
"""Log-density of a uniform draw from [-1, 1]."""


@dataclass(frozen=True)
class CQLConfig(DataSettings, SACConfig):
    """Settings of CQL. The data are replay: ``replay.start_from``, or ``--replay``."""

    algorithm: ClassVar[str] = "rookery.algorithms.offline.cql:CQL"
    capabilities = OFFLINE_AND_ONLINE

    conservative_weight: Scheduled[NonNegative] = 5.0
    """Weight of the conservative penalty relative to the squared error of the values (twice alpha of the paper, which
    halves that error); 0 = SAC. With `lagrange_gap` it is multiplied by a learned multiplier.
    """
    num_actions: Few = 10
    """Actions compared with that of the data, of each of three kinds: uniformly random ones, those drawn from the
    policy, and those drawn from the policy in the next state.
    """
    conservative_temperature: PositiveFloat = 1.0
    """Temperature of the soft maximum over these; towards 0 only the highest value counts."""
    lagrange_gap: float | None = None
    """Target for the gap between the soft maximum and the value of the data's action; the multiplier of
    `conservative_weight` grows while the gap is larger, and falls while it is smaller. None = no multiplier.
    """
    soft_targets: bool = False
    """Whether targets contain the entropy of the next action, as those of SAC do."""
    actor_lr: Scheduled[PositiveFloat] | None = 1e-4
    """Learning rate of the actor; none = `lr`."""
    cloning_steps: CountFromZero = 0
    """Gradient steps at the start in which the actor clones the actions of the data instead of following critics."""

    def build_policy(self, obs: ObsSpec, action: ActionSpec, name: str, generator: torch.Generator) -> Policy:
        """Builds a policy for bounded continuous actions; see `AlgorithmConfig.build_policy`."""
        check_actions(action, name, "CQL", CONTINUOUS, "discrete_cql takes Discrete (--algo discrete_cql), BC any")
        return super().build_policy(obs, action, name, generator)


@dataclass(frozen=True)
class DiscreteCQLConfig(DataSettings, DQNConfig):
    """Settings of CQL for discrete actions. The data are replay: ``replay.start_from``, or ``--replay``."""

    algorithm: ClassVar[str] = "rookery.algorithms.offline.cql:DiscreteCQL"
    capabilities = OFFLINE_AND_ONLINE

    conservative_weight: Scheduled[NonNegative] = 1.0
    """Weight of the conservative penalty (alpha of the paper) relative to the error of the values; 0 = DQN.
    """
    lr: Scheduled[PositiveFloat] = 1e-3
    n_step: Few = 1
    batch_size: Rows = 64
    train_every: Structural[Count] = 4
    updates_per_step: NonNegative = 0.25
    target: TargetConfig = field(default_factory=lambda: TargetConfig(every=100))
    model: Structural[ModelConfig] = field(default_factory=lambda: ModelConfig(hidden=(256, 256), activation="relu"))
    exploration: ExplorationConfig = field(default_factory=lambda: ExplorationConfig(epsilon=0.05))
    """Exploration when the policy continues by playing."""

    def build_policy(self, obs: ObsSpec, action: ActionSpec, name: str, generator: torch.Generator) -> Policy:
        """Builds a policy for discrete actions; see `AlgorithmConfig.build_policy`."""
        check_actions(action, name, "CQL for choices", DISCRETE, "cql takes numbers (--algo cql), BC any")
        return super().build_policy(obs, action, name, generator)


# --- losses -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ConservativeBatch(StateAction):
    """Rows of a conservative loss: N decisions, followed by M other actions for each, ``[N (1 + M), ...]``, in M blocks
    of N.

    Attributes:
        target: ``[N]`` value targets of the decisions.
        weight: ``[N]`` weights of the decisions; None if all have the same.
        density: ``[M, N]`` log-densities of the other actions.
        multiplier: Multiplier of `conservative_weight`, a scalar; None = 1.
    """

    target: Tensor
    weight: Tensor | None
    density: Tensor
    multiplier: Tensor | None

    def split(self, q: Tensor) -> tuple[Tensor, Tensor]:
        """Splits values ``[K, N (1 + M)]`` into those of decisions, ``[K, N]``, and of other actions, ``[K, M, N]``."""
        number = len(self.target)
        return q[:, :number], q[:, number:].view(len(q), -1, number)


def conservative_gap(q: Tensor, batch: ConservativeBatch, temperature: float) -> Tensor:
    """Eq. 4, the term in brackets after alpha, with importance weights (app. F): soft maximum over the other actions
    minus the decision's own value, ``[K, N]``.
    """
    own, others = batch.split(q)
    return temperature * torch.logsumexp((others - batch.density) / temperature, 1) - own


def conservative_loss(q: Tensor, batch: ConservativeBatch, cfg: CQLConfig) -> tuple[Tensor, Metrics]:
    """Eq. 4: half the squared error of the decisions' values, and `conservative_gap` times half its weight, summed over
    networks.

    Args:
        q: ``[K, N (1 + M)]``.
        batch: Decisions, and other actions.
        cfg: Settings.
    """
    own, _ = batch.split(q)
    error, metrics = critic_loss(own, CriticBatch({}, batch.action, batch.target, batch.weight), cfg)
    gap = conservative_gap(q, batch, cfg.conservative_temperature).mean(1)
    weight: Any = 0.5 * cfg.conservative_weight
    if batch.multiplier is not None:
        weight = weight * batch.multiplier
    return error + weight * gap.sum(), {**metrics, "conservative_gap": gap.detach()}


@dataclass(frozen=True)
class GapBatch:
    """Rows of the multiplier's loss: the gaps of all critics, ``[K]``."""

    gap: Tensor

    def __len__(self) -> int:
        return len(self.gap)


def multiplier_loss(log_multiplier: Tensor, batch: GapBatch, cfg: CQLConfig) -> tuple[Tensor, Metrics]:
    """The outer maximum of eq. 30: the multiplier rises where gaps are larger than `lagrange_gap`."""
    assert cfg.lagrange_gap is not None
    loss = -log_multiplier.exp() * cfg.conservative_weight * (batch.gap - cfg.lagrange_gap).mean()
    return loss, {"multiplier_loss": loss.detach()}


@dataclass(frozen=True)
class CloningBatch(ActorBatch):
    """Rows of an actor that clones the actions of the data, ``[N, k]``."""

    action: Tensor = field(kw_only=True)


def cloning_actor_loss(outputs: tuple[Tensor, Tensor], batch: CloningBatch, cfg: CQLConfig) -> tuple[Tensor, Metrics]:
    """The temperature times the log-probability of new actions, ``[N]``, minus that of the data's, ``[N]``."""
    fresh, shown = outputs
    loss = (batch.alpha * fresh - shown).mean()
    return loss, {"actor_loss": loss.detach(), "entropy": -fresh.detach()}


# --- networks ---------------------------------------------------------------------------------------------------------


class CloningActor:
    """Computes log-probabilities of new actions and of those of the data.

    Args:
        policy: The policy.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def __call__(self, batch: CloningBatch) -> tuple[Tensor, Tensor]:
        """Computes both log-probabilities, ``[N]``."""
        return self.outputs(behavior_of(self.policy, batch.obs), batch)

    def structure(self) -> Structure:
        """Declares what a call computes."""
        return actor_structure(self.policy, self.outputs)

    def outputs(self, behavior: Behavior, batch: CloningBatch) -> tuple[Tensor, Tensor]:
        """Computes both log-probabilities, given the action distribution."""
        return behavior.sample_logp(batch.noise)[1], behavior.log_prob(batch.action)


# --- continuous actions -------------------------------------------------------------------------------------------


class CQL(SAC):
    """Learns conservative critics, an actor and a temperature from data.

    Attributes:
        multiplier: Multiplier of the conservative weight, if it is learned.
    """

    saved = ("multiplier", "multiplier_optimizer")
    fixed = ("cloning", "drawn")
    cfg: CQLConfig

    def __init__(self, policy: Policy, cfg: CQLConfig, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        check_critics(cfg, name)
        if cfg.target_critics is not None or cfg.policy_delay > 1:
            raise ConfigError(
                f"policies.{name}: target_critics = {cfg.target_critics} and policy_delay = {cfg.policy_delay} are "
                "settings of SAC which CQL does not use: leave them out"
            )
        self.multiplier: Temperature | None = None
        self.multiplier_optimizer: Adam | None = None
        if cfg.lagrange_gap is not None:
            self.multiplier = Temperature(1.0).to(self.replay.device)
            self.multiplier_optimizer = self._adam(self.multiplier)
        self.cloning, self.drawn = attach(CloningActor(policy)), attach(PolicyNetwork(policy))

    @property
    def planned_steps(self) -> int:
        """Gradient steps of offline training."""
        return self.cfg.gradient_steps

    def learn(self, gradient_steps: int) -> None:
        """Makes gradient steps: one each of critics, actor and temperature; target critics follow."""
        if gradient_steps:
            check_data(self)
            super().learn(gradient_steps)

    def step_optimizers(self, cfg: CQLConfig) -> list[tuple[Optimizer, float]]:  # type: ignore[override]
        """Returns the optimizers of critics, multiplier, actor and temperature."""
        critics, *others = super().step_optimizers(cfg)
        multiplier = [] if self.multiplier_optimizer is None else [(self.multiplier_optimizer, cfg.lr)]
        return [critics, *multiplier, *others]

    def before_update(self, batch: Transitions) -> Transitions:  # type: ignore[override]
        """Calls `hooks` with the rows of an update, and clips their actions to the bounds."""
        return clip_actions(super().before_update(batch))

    def learn_continuous(self, rows: Experience, alpha: Tensor, cfg: CQLConfig) -> Metrics:  # type: ignore[override]
        """Makes a conservative step of the critics, and one of the actor."""
        number, numbers, device = cfg.num_actions, self.policy.action_spec.num_numbers, self.replay.device
        drawn = self.rng.standard_normal((2 + 2 * number, len(rows), numbers), dtype=np.float32)
        noise = torch.from_numpy(drawn).to(device)
        even = self.rng.random((number, len(rows), numbers), dtype=np.float32)
        with torch.no_grad():
            here, there = (self.drawn.outputs(Inputs(obs)) for obs in (rows.obs, rows.next_obs))
            assert isinstance(here, SquashedGaussian) and isinstance(there, SquashedGaussian)
            action, logp = here.sample_logp(noise[1 : 1 + number])
            next_action, next_logp = there.sample_logp(noise[1 + number :])
            bonus = alpha * next_logp[-1] if cfg.soft_targets else None
            target = self.target(rows, next_action[-1], bonus)
            random = torch.from_numpy(even).to(device).mul_(2.0).sub_(1.0)
            others = torch.cat((random, action, next_action[:-1]))
            density = torch.cat((torch.full_like(logp, numbers * LOG_HALF), logp, next_logp[:-1]))
        metrics = self.learn_critics(rows, target, others, density, cfg)
        return metrics | self.learn_actor(rows, noise[0], alpha, cfg)

    def target(self, rows: Experience, next_action: Tensor, bonus: Tensor | None) -> Tensor:
        """Computes value targets ``[N]`` from the actions ``[N, k]`` that the policy draws next."""
        assert self.critics.target_forward is not None
        q = action_values(self.critics.target_forward, StateAction(rows.next_obs, next_action))
        return backup(q, rows.reward, rows.discount, bonus, self.critics.cfg)

    def learn_critics(
        self, rows: Experience, target: Tensor, others: Tensor, density: Tensor, cfg: CQLConfig
    ) -> Metrics:
        """Makes a gradient step on `conservative_loss`, and one of the multiplier if it is learned.

        Args:
            rows: Decisions.
            target: ``[N]`` their value targets.
            others: ``[M, N, k]`` other actions.
            density: ``[M, N]`` log-densities of these.
            cfg: Settings, schedules resolved.
        """
        every = 1 + len(others)
        obs = {path: leaf.repeat(every, *[1] * (leaf.dim() - 1)) for path, leaf in rows.obs.items()}
        action = torch.cat((rows.action, others.flatten(0, 1)))
        multiplier = None if self.multiplier is None else self.multiplier.log_alpha.detach().exp()
        batch = ConservativeBatch(obs, action, target, rows.weight, density, multiplier)
        forward, optimizer = self.critics.forward, self.critics.optimizer
        learned = gradient_step(forward, conservative_loss, batch, optimizer, cfg)
        metrics = rename_grad_norm("critic", learned)
        if self.multiplier is None or self.multiplier_optimizer is None or multiplier is None:
            return metrics
        gap = metrics["conservative_gap"]
        assert isinstance(gap, Tensor)
        learned = gradient_step(self.multiplier, multiplier_loss, GapBatch(gap), self.multiplier_optimizer, cfg)
        return metrics | rename_grad_norm("multiplier", learned) | {"multiplier": multiplier}

    def learn_actor(self, rows: Experience, noise: Tensor, alpha: Tensor, cfg: CQLConfig) -> Metrics:
        """Makes a gradient step of the actor, with noise ``[N, k]`` of new actions; at first by cloning."""
        step = at_rate(cfg, cfg.actor_lr)
        if self.replay.gradient_steps < cfg.cloning_steps:
            batch = CloningBatch(rows.obs, noise, alpha, action=rows.action)
            learned = gradient_step(self.cloning, cloning_actor_loss, batch, self.actor_optimizer, step)
        else:
            fresh, optimizer = ActorBatch(rows.obs, noise, alpha), self.actor_optimizer
            learned = gradient_step(self.actor, actor_loss, fresh, optimizer, step, ACTOR_GRADIENT)
        return rename_grad_norm("actor", learned)

    def summary(self) -> Row:
        """Reports the gradient steps since the last call."""
        row = super().summary()
        if self.multiplier_optimizer is not None:
            self.check_finite(self.multiplier_optimizer)
        return row


# --- discrete actions ---------------------------------------------------------------------------------------------


def conservative_q_loss(values: Tensor, batch: QBatch, cfg: DiscreteCQLConfig) -> tuple[Tensor, Metrics]:
    """The loss of DQN, plus the weighted gap between the soft maximum of all allowed values ``[N, A]`` and the value of
    the data's action (eq. 4).
    """
    loss, metrics = mean_loss(values, batch, cfg)
    gap = torch.logsumexp(allowed(values, batch), 1) - played(values, batch.action)
    return loss + cfg.conservative_weight * gap.mean(), {**metrics, "conservative_gap": gap.detach()}


def conservative_q_gradient(values: Tensor, batch: QBatch, cfg: DiscreteCQLConfig) -> OutputGradients:
    """Computes the gradient of `conservative_q_loss` with respect to the values, and its metrics."""
    (gradient,), metrics = mean_gradient(values, batch, cfg)
    share, likelihood = cfg.conservative_weight / len(values), torch.softmax(allowed(values, batch), 1)
    gap = torch.logsumexp(allowed(values, batch), 1) - played(values, batch.action)
    likelihood.scatter_add_(1, batch.action.unsqueeze(1), values.new_full((len(values), 1), -1.0))
    return [gradient.add_(likelihood, alpha=share)], {**metrics, "conservative_gap": gap}


def allowed(values: Tensor, batch: QBatch) -> Tensor:
    """Returns values ``[N, A]``, minus infinity for masked actions."""
    mask = batch.obs.get(MASK)
    return values if mask is None else torch.where(mask, values, -torch.inf)


class ConservativeValue(MeanValue):
    """The expected return, with a penalty on actions that are not in the data."""

    loss = staticmethod(conservative_q_loss)
    closed_form = ClosedForm(conservative_q_loss, conservative_q_gradient)


class DiscreteCQL(DQN):
    """Learns conservative values of discrete actions from data."""

    cfg: DiscreteCQLConfig

    def __init__(self, policy: Policy, cfg: DiscreteCQLConfig, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        if cfg.values.kind != "mean" or cfg.values.rescale:
            raise ConfigError(
                f"policies.{name}.values: values of actions are compared with each other as they are: leave "
                "values.kind = mean and values.rescale = False"
            )
        self.estimate = ConservativeValue()

    @property
    def planned_steps(self) -> int:
        """Gradient steps of offline training."""
        return self.cfg.gradient_steps

    def learn(self, gradient_steps: int) -> None:
        """Makes gradient steps on decisions drawn from replay; the target network follows."""
        if gradient_steps:
            check_data(self)
            super().learn(gradient_steps)

    def kernel_rows(self, drawn: Transitions) -> TDRows | None:
        """Returns None: the kernel only supports the loss of DQN."""
        return None
