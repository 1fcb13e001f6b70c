"""Parallelised Q-networks (Gallici et al. 2024, arXiv:2407.04811): Q-learning from vectorized environments,
without a replay buffer and without a target network, which layer normalization makes stable.

The details that decide are in docs/algorithms/pqn.md. The file reads from the settings down to the update.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.algorithm import Algorithm, AlgorithmConfig, Row
from rookery.algorithms.capabilities import Capabilities
from rookery.algorithms.off_policy.q_values import QBatch, QNetwork, expand_gradient, played
from rookery.algorithms.on_policy.actor_critic import next_values
from rookery.algorithms.rewarding import add_signals
from rookery.algorithms.settings import OnPolicySettings
from rookery.core.batch import Rollout, TensorTree, flat, rows_of
from rookery.core.flat import flatten
from rookery.core.metrics import Means, Metrics
from rookery.core.ops import lambda_returns
from rookery.core.optim import Adam, ClosedForm, OutputGradients, gradient_step
from rookery.core.schedules import Linear
from rookery.core.seeding import Role, Streams
from rookery.core.settings.fields import Fraction, PositiveFloat, Scheduled, Structural
from rookery.core.settings.reach import Count, Length
from rookery.core.spaces.arrays import MASK
from rookery.models.build import ModelConfig
from rookery.models.q_head import QHead, QValues
from rookery.models.structure import Inputs
from rookery.native.forward import attach
from rookery.policies.policy import Policy


@dataclass(frozen=True)
class PQNConfig(AlgorithmConfig, OnPolicySettings):
    """Settings of PQN. Space and environment presets change some of them: see docs/reference/presets.md."""

    algorithm: ClassVar[str] = "rookery.algorithms.on_policy.pqn:PQN"
    capabilities = Capabilities(
        supports_staleness=True,
        uses_central_obs=False,
        speed_hints={"minibatch_size": "larger minibatches", "epochs": "fewer passes"},
    )
    field_order = (
        "lr gamma trace_lambda epochs minibatch_size fragment_length rollout_size epsilon max_grad_norm adam_eps "
        "signals model"
    )

    lr: Scheduled[PositiveFloat] = 2.5e-4
    trace_lambda: Fraction = 0.65
    """Lambda of the targets: 0 = the next reward, then the value; 1 = all rewards of the fragment."""
    epochs: Count = 4
    """Passes over the batch per update."""
    minibatch_size: Count = 128
    """Largest number of decisions per gradient step: the batch is cut into near-equal parts."""
    fragment_length: Structural[Length] = 32
    """Consecutive decisions of one slot before its target is bootstrapped from a value."""
    epsilon: Scheduled[Fraction] = field(default_factory=lambda: Linear(1.0, 0.05, 50_000))
    """Probability of a random action."""
    max_grad_norm: PositiveFloat | None = 10.0
    adam_eps: PositiveFloat = 1e-5
    """Added to Adam's denominator."""
    model: ModelConfig = field(default_factory=lambda: ModelConfig(activation="relu", layer_norm=True))
    """The network."""

    @property
    def head(self) -> QValues:
        """Head with values of actions."""
        return QValues()


def pqn_loss(values: Tensor, batch: QBatch, cfg: Any) -> tuple[Tensor, Metrics]:
    """Half the squared error of the action's value (eq. 10 of the paper)."""
    value = played(values, batch.action)
    error = value - batch.target
    loss = 0.5 * error.square().mean()
    return loss, {"loss": loss.detach(), "q_mean": value.detach().mean(), "td_error": error.detach().abs().mean()}


def pqn_gradient(values: Tensor, batch: QBatch, cfg: Any) -> OutputGradients:
    """Computes the gradient of `pqn_loss` with respect to the values ``[N, A]``, the errors; and its metrics."""
    error = played(values, batch.action) - batch.target
    return [expand_gradient(error / len(batch), values, batch.action)], pqn_loss(values, batch, cfg)[1]


class PQN(Algorithm[PQNConfig]):
    """The algorithm: `training_step` is Algorithm 1 of the paper from the learner's side."""

    saved = ("optimizer", "rng", "signals")
    fixed = ("net", "forward")
    loss = staticmethod(pqn_loss)
    closed_form = ClosedForm(pqn_loss, pqn_gradient)

    def __init__(self, policy: Policy, cfg: PQNConfig, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        self.signals = add_signals(self, cfg.signals)
        assert isinstance(policy.head, QHead)
        self.net = QNetwork(policy.head, policy.trunk, None, cfg.model)
        self.optimizer = Adam(flatten([self.net]), betas=(0.9, 0.999), eps=cfg.adam_eps)
        self.forward = attach(self.net)
        self.rng = streams.generator(Role.LEARNER, name)
        self.explore()

    def summary(self) -> Row:
        """Reports rewards and learning of the signals."""
        return self.signals.summary() if self.signals.others else {}

    def training_step(self, rollout: Rollout) -> Row:
        """Makes one update: targets, then epochs of minibatches."""
        cfg, data, means = self.now(), self.before_update(self.targets(rollout)), Means()
        for _ in range(cfg.epochs):
            for batch in shuffled(data, cfg.minibatch_size, self.rng):
                means.add(gradient_step(self.forward, self.loss, batch, self.optimizer, cfg, self.closed_form))
        self.updates += 1
        self.explore()
        return {
            **means.result(),
            "lr": cfg.lr,
            "epsilon": cfg.epsilon,
            "skipped_steps": self.check_finite(self.optimizer),
            "updates": self.updates,
        }

    def value_weights(self) -> list[Tensor]:
        """Returns the weights of the last layers."""
        return self.net.head.value_weights()

    def explore(self) -> None:
        """Sets the probability of a random action by the schedule."""
        self.net.head.epsilon.fill_(self.now().epsilon)

    @torch.no_grad()
    def targets(self, rollout: Rollout) -> QBatch:
        """Computes Q(lambda) returns of every valid decision, ``[N]``."""
        cfg, rows, (obs, last, final) = self.cfg, rollout.valid_rows(), self.policy.sights(rollout)
        value, last_value = self.best(obs).view(*rollout.reward.shape, 1), self.best(last)
        final_value = self.best(final) if len(rollout.boot_index) else None
        ended = rollout.terminated | rollout.truncated | rollout.last
        after = next_values(rollout, value, last_value, final_value)[..., 0]
        target = lambda_returns(rollout.reward, after, ended, gamma=cfg.gamma, trace_lambda=cfg.trace_lambda)
        return QBatch(
            obs if rows is None else rows_of(obs, rows),
            flat(rollout.action, rows),
            flat(target, rows),
        )

    def best(self, obs: TensorTree) -> Tensor:
        """Returns the largest value of the allowed actions, ``[N, 1]``; 0 if none is allowed."""
        values, mask = self.forward.values(Inputs(obs)), obs.get(MASK)
        if mask is None:
            return values.amax(1, keepdim=True)
        return torch.where(mask, values, -torch.inf).amax(1, keepdim=True).masked_fill_(~mask.any(1, keepdim=True), 0.0)


def shuffled(data: QBatch, size: int, rng: np.random.Generator) -> Iterator[QBatch]:
    """Yields the minibatches of one epoch: the rows in random order, in near-equal parts of at most `size` rows."""
    order = torch.from_numpy(rng.permutation(len(data))).to(data.action.device)
    for rows in order.tensor_split(-(-len(data) // size)):
        obs = {path: leaf.index_select(0, rows) for path, leaf in data.obs.items()}
        yield QBatch(obs, data.action.index_select(0, rows), data.target.index_select(0, rows))
