"""Implicit Q-learning (Kostrikov et al. 2021, arXiv:2110.06169): values of the better actions of the data, learned
without evaluating other actions, and a policy that clones actions by their advantage.

The details that decide are in docs/algorithms/iql.md. The file reads from the settings down to the gradient step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from rookery.algorithms.algorithm import Algorithm, AlgorithmConfig, Row
from rookery.algorithms.off_policy.critics import (
    CriticBatch,
    CriticLearner,
    CriticSettings,
    PolicyNetwork,
    StateAction,
    critic_loss,
    rename_grad_norm,
)
from rookery.algorithms.off_policy.sac import discrete_critic_loss
from rookery.algorithms.offline.bc import ReturnBatch, Value
from rookery.algorithms.offline.data_learner import (
    CONTINUOUS,
    DISCRETE,
    OFFLINE_AND_ONLINE,
    WeightedActorSettings,
    check_actions,
    check_critics,
    check_data,
    clip_actions,
    clone_weighted,
    values_of_stored,
)
from rookery.algorithms.rewarding import add_signals
from rookery.core.batch import TensorTree, Transitions
from rookery.core.flat import flatten
from rookery.core.metrics import Metrics
from rookery.core.optim import Adam, ClosedForm, OutputGradients, gradient_step
from rookery.core.seeding import Role, Streams
from rookery.core.settings.fields import Fraction, NonNegative
from rookery.core.spaces.arrays import ActionSpec, ObsSpec
from rookery.models.structure import Inputs
from rookery.native.critics import action_values
from rookery.native.forward import attach
from rookery.policies.policy import Policy
from rookery.replay.replay import Replay


@dataclass(frozen=True)
class IQLConfig(WeightedActorSettings, AlgorithmConfig, CriticSettings):
    """Settings of IQL. The data are replay: ``replay.start_from``, or ``--replay``."""

    algorithm: ClassVar[str] = "rookery.algorithms.offline.iql:IQL"
    capabilities = OFFLINE_AND_ONLINE

    expectile: Fraction = 0.7
    """Expectile of the action values that the state value learns: 0.5 = their mean, towards 1 = their maximum."""
    beta: NonNegative = 3.0
    """How much good actions are preferred: the weight is exp(beta advantage), at most `max_weight`; 0 = behavioural
    cloning.
    """

    def build_policy(self, obs: ObsSpec, action: ActionSpec, name: str, generator: torch.Generator) -> Policy:
        """Builds a policy for bounded continuous or for discrete actions; see `AlgorithmConfig.build_policy`."""
        check_actions(action, name, "IQL", CONTINUOUS | DISCRETE, "BC and MARWIL take any (--algo marwil)")
        return super().build_policy(obs, action, name, generator)


# --- losses -----------------------------------------------------------------------------------------------------------


def expectile_loss(value: Tensor, batch: ReturnBatch, cfg: IQLConfig) -> tuple[Tensor, Metrics]:
    """Eq. 5: the squared error, weighted by `expectile` where the value is too low, and by 1 minus that where it is too
    high.

    Args:
        value: ``[N, 1]``.
        batch: The critics' values of the data's actions.
        cfg: Settings.

    Returns:
        The loss, and metrics, of which ``advantage`` is each action's value minus the state value, ``[N]``.
    """
    error = batch.target - value.squeeze(1)
    weight = torch.full_like(error, 1.0 - cfg.expectile).masked_fill_(error > 0, cfg.expectile)
    loss = (weight * error.square()).mean()
    return loss, {"value_loss": loss.detach(), "value_mean": value.detach().mean(), "advantage": error.detach()}


def expectile_gradient(value: Tensor, batch: ReturnBatch, cfg: IQLConfig) -> OutputGradients:
    """Computes the gradient of `expectile_loss` with respect to the values, and its metrics."""
    _, metrics = expectile_loss(value, batch, cfg)
    error = metrics["advantage"]
    assert isinstance(error, Tensor)
    weight = torch.full_like(error, 1.0 - cfg.expectile).masked_fill_(error > 0, cfg.expectile)
    return [(error * weight).mul_(-2.0 / len(error)).unsqueeze(1)], metrics


EXPECTILE_GRADIENT = ClosedForm(expectile_loss, expectile_gradient)


def advantage_weights(advantage: Tensor, *, beta: float, max_weight: float) -> Tensor:
    """Returns the weights of decisions (eq. 7), ``exp(beta A)``, at most `max_weight`, ``[N]``."""
    return torch.exp(beta * advantage).clamp_(max=max_weight)


# --- the algorithm ----------------------------------------------------------------------------------------------------


class IQL(Algorithm[IQLConfig]):
    """Learns values, critics and an actor from data: `learn` is Algorithm 1.

    Attributes:
        critics: Values of actions.
        value: Values of observations.
        actor: The policy, for weighted cloning.
    """

    saved = ("critics", "value", "value_optimizer", "actor_optimizer", "replay", "signals")
    fixed = ("value_forward", "actor")
    replay: Replay

    def __init__(self, policy: Policy, cfg: IQLConfig, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        check_critics(cfg, name)
        self.replay = Replay(policy, cfg, streams, name)
        self.signals = add_signals(self, cfg.signals)
        generator = torch.Generator().manual_seed(streams.integer(Role.INIT, name, 1))
        self.critics = CriticLearner(policy, cfg.critic, cfg.model, adam_eps=cfg.adam_eps, generator=generator)
        self.value = Value(policy, cfg.model, generator).to(self.replay.device)
        self.value_optimizer = Adam(flatten([self.value]), betas=(0.9, 0.999), eps=cfg.adam_eps)
        self.value_forward = attach(self.value)
        self.actor = attach(PolicyNetwork(policy))
        self.actor_optimizer = Adam(flatten([policy]), betas=(0.9, 0.999), eps=cfg.adam_eps)

    @property
    def planned_steps(self) -> int:
        """Gradient steps of offline training."""
        return self.cfg.gradient_steps

    def learn(self, gradient_steps: int) -> None:
        """Makes gradient steps: one each of values, actor and critics; target critics follow."""
        if not gradient_steps:
            return
        check_data(self)
        cfg = self.now()
        for _ in range(gradient_steps):
            rows = self.replay.sample(cfg.batch_size, n_step=cfg.n_step, gamma=cfg.gamma, beta=cfg.replay.beta)
            drawn = self.before_update(rows)
            rows = clip_actions(drawn)
            metrics, advantage = self.learn_values(rows, cfg)
            weight = advantage_weights(advantage, beta=cfg.beta, max_weight=cfg.max_weight)
            made = self.replay.gradient_steps
            metrics |= clone_weighted(self.actor, drawn, weight, self.actor_optimizer, cfg, made)
            metrics |= self.learn_critics(rows, cfg)
            self.replay.update_priorities(rows.row, metrics.pop("priority"))
            self.critics.track(cfg.tau)
            self.replay.record(metrics)

    def learn_values(self, rows: Transitions, cfg: IQLConfig) -> tuple[Metrics, Tensor]:
        """Makes a gradient step towards an expectile of the target critics' values of the data's actions (eq. 5);
        also returns their advantages before it.
        """
        assert self.critics.target_forward is not None
        with torch.no_grad():
            pair = StateAction(rows.obs, rows.action)
            target = values_of_stored(action_values(self.critics.target_forward, pair), rows.action).amin(0)
        metrics = gradient_step(
            self.value_forward,
            expectile_loss,
            ReturnBatch(rows.obs, target),
            self.value_optimizer,
            cfg,
            EXPECTILE_GRADIENT,
        )
        advantage = metrics["advantage"]
        assert isinstance(advantage, Tensor)
        return rename_grad_norm("value", metrics), advantage

    def learn_critics(self, rows: Transitions, cfg: IQLConfig) -> Metrics:
        """Makes a gradient step towards reward plus the value of the next state (eq. 6)."""
        with torch.no_grad():
            target = torch.addcmul(rows.reward, rows.discount, self.values(rows.next_obs))
        loss: Any = discrete_critic_loss if self.policy.action_spec.sizes else critic_loss
        return self.critics.improve(loss, CriticBatch(rows.obs, rows.action, target, rows.weight), cfg)

    def values(self, obs: TensorTree) -> Tensor:
        """Computes values of observations, ``[N]``."""
        return self.value_forward.values(Inputs(obs)).squeeze(1)

    def summary(self) -> Row:
        """Reports the gradient steps since the last call."""
        several = (self.actor_optimizer, self.critics.optimizer, self.value_optimizer)
        skipped = sum(self.check_finite(optimizer) for optimizer in several)
        return {**self.replay.summary(), "skipped_steps": skipped, "updates": self.updates, **self.signals.summary()}
