"""Imitation learning from data: behavioural cloning (Pomerleau 1991), and MARWIL (Wang et al. 2018, exponentially
weighted imitation learning for batched historical data), which prefers actions with high returns.

Nothing is played. The details that decide are in docs/algorithms/bc.md and docs/algorithms/marwil.md. The file reads
from the settings down to the gradient steps.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from rookery.algorithms.algorithm import Algorithm, AlgorithmConfig, Row
from rookery.algorithms.capabilities import Capabilities
from rookery.algorithms.off_policy.critics import PolicyNetwork
from rookery.core.batch import Rollout, TensorTree
from rookery.core.errors import ConfigError
from rookery.core.flat import flatten
from rookery.core.metrics import Metrics
from rookery.core.optim import Adam, ClosedForm, OutputGradients, gradient_step, track
from rookery.core.seeding import Role, Streams
from rookery.core.settings.fields import (
    Fraction,
    InsteadOf,
    NonNegative,
    PositiveFloat,
    Scheduled,
    Structural,
)
from rookery.core.settings.reach import Count, Rows
from rookery.models.build import ModelConfig, build_body, build_trunk
from rookery.models.distributions import Behavior, Distribution
from rookery.models.heads import GivenActionHead, GivenValueHead, HeadSpec, ValueHead
from rookery.models.squashed import Squashed, SquashedGaussian
from rookery.models.structure import Inputs, Structure, Tower
from rookery.native.forward import attach
from rookery.policies.policy import Policy
from rookery.replay.buffer import ReplayConfig
from rookery.replay.demonstrations import DataSet
from rookery.replay.replay import Replay


@dataclass(frozen=True)
class BCConfig(AlgorithmConfig):
    """Settings of behavioural cloning. The data are replay: ``replay.start_from``, or ``--replay``."""

    algorithm: ClassVar[str] = "rookery.algorithms.offline.bc:BC"
    capabilities = Capabilities(offline=True, uses_replay=True, uses_central_obs=False)
    train_every: ClassVar[int] = 1
    learning_starts: ClassVar[int] = 0

    lr: Scheduled[PositiveFloat] = 1e-3
    """Learning rate of Adam."""
    batch_size: Rows = 256
    """Decisions per gradient step."""
    gradient_steps: Annotated[Count | None, InsteadOf("epochs")] = 5000
    """Gradient steps of a training."""
    epochs: Annotated[Count | None, InsteadOf("gradient_steps")] = None
    """Passes over the data in a training, instead of gradient steps."""
    updates_per_step: NonNegative = 1.0
    """Gradient steps per decision of the policy while other policies play and learn; its own rollouts are not learned
    from.
    """
    validation: Fraction = 0.1
    """Share of the episodes held out for validation: the policy keeps the weights with the lowest loss on them; 0 =
    none, and it keeps the last weights.
    """
    validate_every: Count = 100
    """Gradient steps between validations."""
    distribution: Structural[Literal["gaussian", "squashed"]] = "gaussian"
    """Distribution of bounded continuous actions: a Gaussian that the environment clips at the bounds, or one squashed
    by tanh.
    """
    variance_power: Fraction = 0.5
    """Of squashed Gaussians, whose standard deviation depends on the observation: decisions are weighted by their
    variance to this power, so that certain ones do not dominate (Seitzer et al. 2022); 0 = all alike.
    """
    entropy_coef: Scheduled[NonNegative] = 0.0
    """Weight of the entropy bonus."""
    max_grad_norm: PositiveFloat | None = None
    """Largest norm of the gradient; larger gradients are scaled down. None = no limit."""
    adam_eps: PositiveFloat = 1e-8
    """Added to Adam's denominator."""
    replay: ReplayConfig = field(default_factory=lambda: ReplayConfig(capacity=1_000_000))
    """The data."""
    model: ModelConfig = field(default_factory=lambda: ModelConfig(normalize_obs=True))
    """The networks; observations are normalized by the statistics of the data."""

    @property
    def head(self) -> HeadSpec:
        """Head with a distribution for any action space, or a squashed Gaussian."""
        return Squashed() if self.distribution == "squashed" else super().head


@dataclass(frozen=True)
class MARWILConfig(BCConfig):
    """Settings of MARWIL."""

    algorithm: ClassVar[str] = "rookery.algorithms.offline.bc:MARWIL"
    capabilities = BCConfig.capabilities

    beta: NonNegative = 1.0
    """How much actions with high returns are preferred: the weight is exp(beta advantage / c); 0 = behavioural
    cloning.
    """
    gamma: Fraction = 0.99
    """Discount of rewards."""
    square_start: PositiveFloat = 100.0
    """Initial moving average of the squared advantage, whose root is c."""
    square_rate: Fraction = 1e-8
    """Step size of this moving average per gradient step."""
    max_exponent: PositiveFloat = 5.0
    """Largest exponent of a weight, so that few decisions cannot outweigh all others."""


# --- losses -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ImitationBatch:
    """Decisions to imitate, ``[N, ...]``.

    Attributes:
        obs: Observations as networks take them.
        action: Actions of the data.
        weight: Weights of the decisions; None = all alike.
    """

    obs: TensorTree
    action: Tensor
    weight: Tensor | None = None

    def __len__(self) -> int:
        return len(self.action)


def bc_loss(behavior: Behavior, batch: ImitationBatch, cfg: Any) -> tuple[Tensor, Metrics]:
    """Negative log-likelihood of the data's actions, weighted (MARWIL, eq. 7), minus an entropy bonus.

    With a learned standard deviation per row, a row's gradient grows as the deviation shrinks, and a network that fits
    most rows exactly stops learning the others; hence the variance as a factor (Seitzer et al. 2022, eq. 5).
    """
    logp = behavior.log_prob(batch.action)
    weighted = logp if batch.weight is None else logp * batch.weight
    if isinstance(behavior, SquashedGaussian) and cfg.variance_power:
        weighted = weighted * torch.exp(2.0 * cfg.variance_power * behavior.log_std.detach().mean(-1))
    loss = -weighted.mean()
    metrics: Metrics = {"bc_loss": -logp.detach()}
    if cfg.entropy_coef:
        assert isinstance(behavior, Distribution)
        entropy = behavior.entropy()
        loss = loss - cfg.entropy_coef * entropy.mean()
        metrics["entropy"] = entropy.detach()
    return loss, metrics


def bc_gradient(behavior: Behavior, batch: ImitationBatch, cfg: Any) -> OutputGradients | None:
    """Computes the gradient of `bc_loss` with respect to the output of the policy's head, and its metrics; None without
    a closed form.
    """
    if not isinstance(behavior, Distribution):
        return None
    _, metrics = bc_loss(behavior, batch, cfg)
    weight = torch.ones(len(batch), dtype=torch.float32, device="cpu") if batch.weight is None else batch.weight
    found = behavior.gradient(batch.action, weight / -len(batch), -cfg.entropy_coef / len(batch))
    if found is None:
        return None
    output, log_std = found
    return [output] if log_std is None else [output, log_std], metrics


BC_GRADIENT = ClosedForm(bc_loss, bc_gradient)


@dataclass(frozen=True)
class ReturnBatch:
    """Rows of a value loss: observations and their value targets, ``[N]``."""

    obs: TensorTree
    target: Tensor


def return_loss(value: Tensor, batch: ReturnBatch, cfg: MARWILConfig) -> tuple[Tensor, Metrics]:
    """Mean square of the error of values ``[N, 1]``."""
    loss = (value.squeeze(1) - batch.target).square().mean()
    return loss, {"value_loss": loss.detach()}


def return_gradient(value: Tensor, batch: ReturnBatch, cfg: MARWILConfig) -> OutputGradients:
    """Computes the gradient of `return_loss` with respect to the values, and its metrics."""
    error = value - batch.target.unsqueeze(1)
    return [error * (2.0 / len(error))], {"value_loss": error.square().mean()}


RETURN_GRADIENT = ClosedForm(return_loss, return_gradient)


def marwil_weights(advantage: Tensor, *, beta: float, square: float, max_exponent: float) -> Tensor:
    """Returns the weights of decisions, ``exp(beta A / c)`` with ``c = sqrt(square)``, ``[N]``.

    Args:
        advantage: ``[N]`` advantages of the decisions.
        beta: Factor of the advantages.
        square: Moving average of the squared advantage.
        max_exponent: Largest exponent.
    """
    return torch.exp((beta / math.sqrt(square) * advantage).clamp(max=max_exponent))


# --- networks ---------------------------------------------------------------------------------------------------------


class Value(nn.Module):
    """Value function with its own trunk; a model with ``output=action_params`` computes the value itself.

    Args:
        policy: The policy whose observations are valued.
        model: Settings of the network.
        generator: Draws the weights.
    """

    def __init__(self, policy: Policy, model: ModelConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.model = model
        self.head: ValueHead | GivenValueHead
        if isinstance(policy.head, GivenActionHead):
            self.trunk, _, width = build_body(policy.input_spec, policy.action_spec, model, generator=generator)
            self.head = GivenValueHead(width - 1, columns=1)
            return
        self.trunk = build_trunk(policy.input_spec, model, generator=generator)
        features = self.trunk.num_features
        assert isinstance(features, int)
        self.head = ValueHead(features, generator=generator)

    def forward(self, batch: ReturnBatch) -> Tensor:
        """Computes values of the rows, ``[N, 1]``."""
        return self.value(batch.obs)

    def value(self, obs: TensorTree) -> Tensor:
        """Computes values of observations as networks take them, ``[N, 1]``."""
        found: Tensor = self.head(self.trunk(obs))
        return found

    def structure(self) -> Structure:
        """Declares what `forward` and `value` compute."""
        tower = Tower(self.trunk, (self.head,))
        return Structure((tower,), self.model, lambda batch: Inputs(batch.obs), lambda parts, batch: parts[-1])


# --- the algorithms ---------------------------------------------------------------------------------------------------


class BC(Algorithm[BCConfig]):
    """Clones the actions of the data. The policy has the weights with the lowest validation loss so far; a copy of it
    learns.

    Attributes:
        net: The copy that learns.
        best: Lowest validation loss so far; None before the first validation.
        looked: Gradient steps at the last validation.
    """

    saved: ClassVar[tuple[str, ...]] = ("net", "optimizer", "replay", "rng", "best", "looked", "validation_loss")
    fixed: ClassVar[tuple[str, ...]] = ("forward", "weights", "data", "_known")
    replay: Replay

    def __init__(self, policy: Policy, cfg: BCConfig, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        if cfg.entropy_coef and cfg.distribution == "squashed":
            raise ConfigError(
                f"policies.{name}.entropy_coef: a squashed Gaussian has no entropy in closed form: leave it 0, or set "
                "distribution = gaussian"
            )
        settings: Any = cfg
        self.replay = Replay(policy, settings, streams, name)
        self.net = copy.deepcopy(policy)
        self.weights = flatten([policy]).data
        """Weights of the policy, as one vector."""
        self.optimizer = self.adam(self.net)
        self.forward = attach(PolicyNetwork(self.net))
        self.rng = streams.generator(Role.LEARNER, name)
        self.best: float | None = None
        self.validation_loss: float | None = None
        self.looked = 0
        self.data: DataSet | None = None
        self._known = (0, 0)

    def adam(self, module: nn.Module) -> Adam:
        """Builds an optimizer of a network."""
        return Adam(flatten([module]), betas=(0.9, 0.999), eps=self.cfg.adam_eps)

    def take(self, rollout: Rollout) -> int:
        """Returns the number of gradient steps to make while others play; the rollout is not learned from."""
        return self.replay.due(rollout.num_decisions)

    @property
    def planned_steps(self) -> int:
        """Gradient steps of a whole training."""
        cfg, data = self.cfg, self.read()
        return cfg.gradient_steps or (cfg.epochs or 1) * -(-len(data.learned) // cfg.batch_size)

    def read(self) -> DataSet:
        """Returns the data; reads them again if they have changed.

        Raises:
            ConfigError: If there are no data, or a number in them is not finite.
        """
        buffer = self.replay.own
        if self.data is None or self._known != (buffer.first, buffer.total):
            self.replay.check_not_empty()
            rng = self.streams.generator(Role.LEARNER, self.name, "held out")
            self.data = DataSet(buffer, self.cfg.validation, rng)
            self._known = buffer.first, buffer.total
            normalizer = self.policy.normalizer
            if normalizer is not None and not normalizer.count:
                for rows in self.data.parts(self.data.learned):
                    normalizer.update(self.to_device(self.data.obs(rows)))
        return self.data

    def to_device(self, tree: TensorTree) -> TensorTree:
        """Copies observations to the device of the networks."""
        return {path: leaf.to(self.replay.device) for path, leaf in tree.items()}

    def obs(self, data: DataSet, rows: np.ndarray) -> TensorTree:
        """Returns the observations of some decisions as networks take them."""
        return self.policy.normalize(self.to_device(data.obs(rows)))

    def batch(self, data: DataSet, rows: np.ndarray) -> ImitationBatch:
        """Returns some decisions as a batch for imitation."""
        return ImitationBatch(self.obs(data, rows), data.actions(rows).to(self.replay.device))

    def learn(self, gradient_steps: int) -> None:
        """Makes gradient steps on uniformly drawn decisions; validates every `validate_every` steps."""
        if not gradient_steps:
            return
        cfg, data = self.now(), self.read()
        for _ in range(gradient_steps):
            rows = data.learned[self.rng.integers(0, len(data.learned), cfg.batch_size)]
            self.replay.record(self.improve(data, rows, cfg))
            if self.replay.gradient_steps % cfg.validate_every == 0:
                self.validate()

    def improve(self, data: DataSet, rows: np.ndarray, cfg: Any) -> Metrics:
        """Makes one gradient step on some decisions."""
        return gradient_step(self.forward, bc_loss, self.batch(data, rows), self.optimizer, cfg, BC_GRADIENT)

    def decision_weights(self, data: DataSet, rows: np.ndarray, batch: ImitationBatch) -> Tensor:
        """Returns the weights of some decisions, ``[N]``: here all alike."""
        return torch.ones(len(batch), device=self.replay.device, dtype=torch.float32)

    @torch.no_grad()
    def validate(self) -> None:
        """Validates, and copies the learned weights to the policy if their loss is the lowest so far."""
        if self.looked == self.replay.gradient_steps or self.data is None:
            return
        self.looked, data = self.replay.gradient_steps, self.data
        if len(data.held_out):
            total = counted = 0.0
            for rows in data.parts(data.held_out):
                batch, net = self.batch(data, rows), self.forward.net
                weight = self.decision_weights(data, rows, batch)
                total -= float((weight * net(batch).log_prob(batch.action)).sum())
                counted += float(weight.sum())
            loss = self.validation_loss = total / counted
            if self.best is not None and not loss < self.best:
                return
            self.best = loss
        track(self.weights, self.optimizer.flat.data, 1.0)

    def explore(self) -> None:
        """Validates, so that the policy has the best weights so far."""
        self.validate()

    def summary(self) -> Row:
        """Reports the gradient steps since the last call."""
        found = self.data
        return {
            **self.replay.summary(),
            "validation_loss": self.validation_loss,
            "best_validation_loss": self.best,
            "held_out": None if found is None else len(found.held_out),
            "skipped_steps": self.check_finite(self.optimizer),
        }


class MARWIL(BC):
    """Clones the actions of the data, weighted by their advantages.

    Attributes:
        value: Values of observations, in units of the data's returns.
        square: Moving average of the squared advantage.
    """

    saved = ("value", "value_optimizer", "square")
    fixed = ("value_forward",)
    cfg: MARWILConfig

    def __init__(self, policy: Policy, cfg: MARWILConfig, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        generator = torch.Generator().manual_seed(streams.integer(Role.INIT, name, 1))
        self.value = Value(policy, cfg.model, generator).to(self.replay.device)
        self.value_optimizer = self.adam(self.value)
        self.value_forward = attach(self.value)
        self.square = cfg.square_start

    def improve(self, data: DataSet, rows: np.ndarray, cfg: Any) -> Metrics:
        """Makes a gradient step of the policy, weighted by advantages, and one of the values."""
        batch = self.batch(data, rows)
        advantage, target = self.advantage(data, rows, batch.obs)
        self.square += cfg.square_rate * (float(advantage.square().mean()) - self.square)
        weight = self.weight(advantage)
        weighted = ImitationBatch(batch.obs, batch.action, weight)
        metrics = gradient_step(self.forward, bc_loss, weighted, self.optimizer, cfg, BC_GRADIENT)
        learned = gradient_step(
            self.value_forward, return_loss, ReturnBatch(batch.obs, target), self.value_optimizer, cfg, RETURN_GRADIENT
        )
        learned["value_grad_norm"] = learned.pop("grad_norm")
        return metrics | learned | {"advantage_norm": math.sqrt(self.square), "weight": weight}

    def weight(self, advantage: Tensor) -> Tensor:
        """Returns the weights of decisions with these advantages, ``[N]``."""
        cfg = self.cfg
        return marwil_weights(advantage, beta=cfg.beta, square=self.square, max_exponent=cfg.max_exponent)

    def decision_weights(self, data: DataSet, rows: np.ndarray, batch: ImitationBatch) -> Tensor:
        """Returns the weights of some decisions, ``[N]``."""
        return self.weight(self.advantage(data, rows, batch.obs)[0])

    @torch.no_grad()
    def advantage(self, data: DataSet, rows: np.ndarray, obs: TensorTree) -> tuple[Tensor, Tensor]:
        """Returns the advantages of decisions, their returns minus their values, ``[N]``, and value targets in units of
        the data's returns. Where an episode was cut off, the return is bootstrapped from the last observation's value.
        """
        returns = data.returns(self.cfg.gamma)
        earned = torch.from_numpy(returns.total[rows]).to(self.replay.device)
        ahead = torch.from_numpy(returns.discount[rows]).to(self.replay.device)
        if (cut := np.flatnonzero(returns.discount[rows])).size:
            last = self.policy.normalize(self.to_device(data.last_obs(rows[cut])))
            rest = returns.mean + returns.deviation * self.values(last)
            earned[torch.from_numpy(cut)] += ahead[torch.from_numpy(cut)] * rest
        target = (earned - returns.mean) / returns.deviation
        return (target - self.values(obs)) * returns.deviation, target

    def values(self, obs: TensorTree) -> Tensor:
        """Computes values of observations, ``[N]``, in units of the data's returns."""
        return self.value_forward.values(Inputs(obs)).squeeze(1)
