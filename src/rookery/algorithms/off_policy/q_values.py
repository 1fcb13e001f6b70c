"""Losses on action values, and their targets: a mean, a distribution over atoms, or quantiles.

All three share their form: each row has the value of the stored action, and a precomputed target for it. An importance
weight multiplies a row's loss after everything else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from rookery.core.batch import Sequences, TensorTree
from rookery.core.metrics import Metrics
from rookery.core.ops import project, quantile_huber, quantile_huber_gradient, rescale, unrescale
from rookery.core.optim import ClosedForm, OutputGradients
from rookery.core.settings.fields import Settings
from rookery.core.settings.reach import Width
from rookery.models.build import ModelConfig
from rookery.models.cells.base import Memory
from rookery.models.implicit_head import fractions
from rookery.models.q_head import QHead
from rookery.models.structure import Inputs, Structure, Tower
from rookery.native.td import td_kernel, td_steps

DELTA = 1.0
"""Errors up to this are squared, larger ones are linear (Huber 1964)."""

RESCALE_EPS = 1e-3
"""Remaining slope of large values when they are rescaled (Pohlen et al. 2018)."""


LOOK_EVERY = 8
"""Batches between counts of targets beyond the atoms: counting takes as long as projecting."""

LEAST_LOSS = 1e-4
"""Smallest value of 1 - discount with which the largest possible return is estimated."""

ENOUGH = 2048
"""Number of targets in which a share of one in a hundred is distinguished from zero."""


Noise = Tensor | None
"""Numbers for noisy layers, ``[1, W]``, the same for all rows; None = their means."""


@dataclass(frozen=True)
class ValuesConfig(Settings):
    """Form of the learned action values."""

    kind: Literal["mean", "categorical", "quantile", "implicit"] = "mean"
    """``mean`` = the expected return; ``categorical`` = its distribution over fixed atoms (C51, Bellemare et al. 2017);
    ``quantile`` = its quantiles (QR-DQN, Dabney et al. 2018); ``implicit`` = quantiles at fractions that are drawn anew
    for each row (IQN, Dabney et al. 2018).
    """

    atoms: Width = 51
    """Atoms of `categorical`."""

    low: float = -10.0
    """Lowest atom; lower returns are clipped to it."""

    high: float = 10.0
    """Highest atom; higher returns are clipped to it."""

    quantiles: Width = 50
    """Quantiles of `quantile`; of `implicit`, those drawn for each row (paper: 64 in learning, 32 in playing)."""

    rescale: bool = False
    """Whether a mean is learned as sign(x) (sqrt(|x| + 1) - 1) + x / 1000, which compresses large returns (R2D2,
    Kapturowski et al. 2019).
    """


@dataclass(frozen=True)
class QBatch:
    """Rows of a loss on action values; all fields ``[N, ...]``.

    Attributes:
        obs: Observations as the trunk takes them.
        action: The stored action.
        target: ``[N]`` value targets; probabilities ``[N, M]`` of the atoms; or samples ``[N, M]``.
        weight: Importance weight of each row; None if all have the same.
        noise: ``[1, W]`` numbers for noisy layers, the same for all rows, or ``[N, W]`` for implicit quantiles; None =
            their means.
        sequences: Positions of the observations in time, for a policy with a memory; None if rows are independent.
        memory: ``[B, M]`` memory before each sequence.
        learned: ``[N]`` indices of the rows among the observations, where there are more of these; None = all.
        values: Values of all observations, from a kernel pass that kept what the backward pass needs; None without
            one.
    """

    obs: TensorTree
    action: Tensor
    target: Tensor
    weight: Tensor | None = None
    noise: Tensor | None = None
    sequences: Sequences | None = None
    memory: Tensor | None = None
    learned: Tensor | None = None
    values: Tensor | None = None

    def __len__(self) -> int:
        return len(self.action)


# --- the network ------------------------------------------------------------------------------------------------------


class QNetwork(nn.Module):
    """Computes values of actions, from observations as the trunk takes them.

    The weights lie in memory in the order of the arguments.

    Args:
        head: Module from features to values.
        trunk: Module from observations to features.
        memory: Memory on the trunk's features; None if there is none.
        model: Settings of the network.
    """

    def __init__(self, head: QHead, trunk: nn.Module, memory: Memory | None, model: ModelConfig) -> None:
        super().__init__()
        self.model = model
        self.head = head
        self.trunk = trunk
        self.memory = memory

    def value(
        self, obs: TensorTree, memory: Tensor | None = None, sequences: Sequences | None = None, noise: Noise = None
    ) -> Tensor:
        """Computes values ``[N, A]`` or ``[N, A, M]``.

        Args:
            obs: By leaf path, ``[N, ...]``.
            memory: ``[B, M]`` memory before each sequence; None if rows are independent.
            sequences: Positions of the rows in time; None if rows are independent.
            noise: ``[1, W]`` numbers for noisy layers, the same for all rows; None = their means.
        """
        features = self.trunk(obs)
        if self.memory is not None and memory is not None and sequences is not None:
            features, _ = self.memory(features, memory, sequences)
        return self.head.values(features, None if noise is None else noise.expand(len(features), -1))

    def remembered(self, obs: TensorTree, memory: Tensor, sequences: Sequences) -> Tensor:
        """Computes the memory after each sequence, ``[B, M]``; arguments as of `value`."""
        assert self.memory is not None
        after: Tensor = self.memory(self.trunk(obs), memory, sequences)[1]
        return after

    def forward(self, batch: QBatch) -> Tensor:
        """Computes values of all actions for the rows of a batch."""
        values = self.value(batch.obs, batch.memory, batch.sequences, batch.noise)
        return values if batch.learned is None else values.index_select(0, batch.learned)

    def structure(self) -> Structure:
        """Declares what `forward`, `value` and `remembered` compute."""
        tower = Tower(self.trunk, (self.head,), self.memory)
        return Structure((tower,), self.model, _inputs, lambda parts, batch: parts[0], rounds=True)


def _inputs(batch: QBatch) -> Inputs:
    return Inputs(batch.obs, batch.memory, batch.sequences, batch.learned, batch.values, laid_out=True)


# --- losses -----------------------------------------------------------------------------------------------------------


def played(values: Tensor, action: Tensor) -> Tensor:
    """Selects the actions' values: ``[N]`` of values ``[N, A]``, or ``[N, M]`` of ``[N, A, M]``."""
    if values.dim() == 2:
        return values.gather(1, action.unsqueeze(1)).squeeze(1)
    return values[torch.arange(len(action), device=action.device, dtype=torch.int64), action]


def expand_gradient(gradient: Tensor, values: Tensor, action: Tensor) -> Tensor:
    """Expands a gradient with respect to the actions' values to one with respect to all values."""
    whole = torch.zeros_like(values)
    if values.dim() == 2:
        return whole.scatter_(1, action.unsqueeze(1), gradient.unsqueeze(1))
    whole[torch.arange(len(action), device=action.device, dtype=torch.int64), action] = gradient
    return whole


def _averaged(
    rows: Tensor, value: Tensor, target: Tensor, weight: Tensor | None, priority: Tensor | None = None
) -> tuple[Tensor, Metrics]:
    """Returns the mean of the rows' losses, and metrics.

    Args:
        rows: ``[N]`` the loss of each row.
        value: ``[N]`` expected values of the actions.
        target: ``[N]`` their targets.
        weight: ``[N]`` importance weights; None if all have the same.
        priority: ``[N]`` priorities of the rows; None = the sizes of their errors.
    """
    loss = rows.mean() if weight is None else (weight * rows).mean()
    error = (value.detach() - target).abs_()
    metrics: Metrics = {"loss": loss.detach(), "q_mean": value.detach().mean(), "td_error": error.mean()}
    return loss, {**metrics, "priority": error if priority is None else priority.detach()}


def _share(batch: QBatch) -> Tensor | float:
    """Returns the factor of each row's gradient in the mean over rows: ``[N, 1]``, or one number."""
    return 1 / len(batch) if batch.weight is None else (batch.weight / len(batch)).unsqueeze(1)


# --- a mean -----------------------------------------------------------------------------------------------------------


def mean_loss(values: Tensor, batch: QBatch, cfg: Any) -> tuple[Tensor, Metrics]:
    """Huber loss of the action's value (Mnih et al. 2015, with the error clipped in its gradient)."""
    value = played(values, batch.action)
    rows = functional.huber_loss(value, batch.target, reduction="none", delta=DELTA)
    return _averaged(rows, value, batch.target, batch.weight)


def mean_gradient(values: Tensor, batch: QBatch, cfg: Any) -> OutputGradients:
    """Computes the gradient of `mean_loss` with respect to values ``[N, A]``, the clipped error; and its metrics."""
    error = (played(values, batch.action) - batch.target).clamp_(-DELTA, DELTA).unsqueeze(1).mul_(_share(batch))
    return [expand_gradient(error.squeeze(1), values, batch.action)], mean_loss(values, batch, cfg)[1]


# --- a distribution over atoms ----------------------------------------------------------------------------------------


def categorical_loss(logits: Tensor, batch: QBatch, cfg: Any) -> tuple[Tensor, Metrics]:
    """Cross-entropy between the projected target and the action's distribution (Bellemare et al. 2017), which is also
    a row's priority (Hessel et al. 2018).
    """
    log_probs = torch.log_softmax(played(logits, batch.action), 1)
    return _cross_entropy(log_probs, log_probs.detach().exp(), batch, cfg)


def categorical_gradient(logits: Tensor, batch: QBatch, cfg: Any) -> OutputGradients:
    """Computes the gradient of `categorical_loss` with respect to logits ``[N, A, M]``: predicted minus target."""
    log_probs = torch.log_softmax(played(logits, batch.action), 1)
    probs = log_probs.exp()
    metrics = _cross_entropy(log_probs, probs, batch, cfg)[1]
    gradient = probs.sub_(batch.target).mul_(_share(batch))  # the target's probabilities sum to 1
    return [expand_gradient(gradient, logits, batch.action)], metrics


def _cross_entropy(log_probs: Tensor, probs: Tensor, batch: QBatch, cfg: Any) -> tuple[Tensor, Metrics]:
    """Computes the result of `categorical_loss` from the probabilities of the actions' atoms, ``[N, M]``."""
    surprise = -(batch.target * log_probs).sum(1)
    support = torch.linspace(cfg.values.low, cfg.values.high, probs.shape[1], device=probs.device, dtype=torch.float32)
    return _averaged(surprise, probs @ support, batch.target @ support, batch.weight, surprise)


# --- quantiles --------------------------------------------------------------------------------------------------------


def quantile_loss(quantiles: Tensor, batch: QBatch, cfg: Any) -> tuple[Tensor, Metrics]:
    """Quantile regression with Huber's kappa of 1 (Dabney et al. 2018, eq. 10): summed over the predicted quantiles,
    mean over the target's samples.
    """
    predicted = played(quantiles, batch.action)
    rows = quantile_huber(predicted, batch.target, kappa=DELTA)
    return _averaged(rows, predicted.detach().mean(1), batch.target.mean(1), batch.weight, rows)


def quantile_gradient(quantiles: Tensor, batch: QBatch, cfg: Any) -> OutputGradients:
    """Computes the gradient of `quantile_loss` with respect to the quantiles ``[N, A, M]``; and its metrics."""
    predicted = played(quantiles, batch.action)
    gradient, rows = quantile_huber_gradient(predicted, batch.target, kappa=DELTA)
    metrics = _averaged(rows, predicted.mean(1), batch.target.mean(1), batch.weight, rows)[1]
    return [expand_gradient(gradient.mul_(_share(batch)), quantiles, batch.action)], metrics


def implicit_loss(quantiles: Tensor, batch: QBatch, cfg: Any) -> tuple[Tensor, Metrics]:
    """Computes `quantile_loss` of implicit quantiles, at the fractions of the batch's noise (Dabney et al. 2018,
    1806.06923, eq. 3).
    """
    predicted = played(quantiles, batch.action)
    fraction = fractions(batch.noise, predicted.shape[1], predicted)
    rows = quantile_huber(predicted, batch.target, kappa=DELTA, fraction=fraction)
    return _averaged(rows, predicted.detach().mean(1), batch.target.mean(1), batch.weight, rows)


# --- targets ----------------------------------------------------------------------------------------------------------


class Estimate(ABC):
    """Form of action values: the loss, and the target of one decision.

    Attributes:
        closed_form: The gradient of `loss`; None if autograd computes it.
    """

    closed_form: ClassVar[ClosedForm | None]

    @staticmethod
    @abstractmethod
    def loss(values: Tensor, batch: QBatch, cfg: Any, /) -> tuple[Tensor, Metrics]:
        """Returns a scalar loss and metrics, of which ``priority`` has a number per row."""

    @abstractmethod
    def target(self, reward: Tensor, discount: Tensor, after: Tensor) -> Tensor:
        """Computes the target of `loss`.

        Args:
            reward: ``[N]`` rewards.
            discount: ``[N]`` discounts of the next states; 0 without one.
            after: ``[N]`` or ``[N, M]`` the target network's values of the best next actions.
        """

    def beyond(self) -> tuple[float, float, float] | None:
        """Returns the share of the latest targets beyond the range of values, and the least and the largest return that
        their rewards allow; None without a range, or until `ENOUGH` more targets were counted.
        """
        return None


class MeanValue(Estimate):
    """The expected return."""

    loss = staticmethod(mean_loss)
    closed_form = ClosedForm(mean_loss, mean_gradient, td_kernel, td_steps)

    def target(self, reward: Tensor, discount: Tensor, after: Tensor) -> Tensor:
        """``reward + discount * after``, ``[N]``."""
        return torch.addcmul(reward, discount, after)


class RescaledValue(MeanValue):
    """The expected return, rescaled: large returns keep their order without dominating small ones (R2D2)."""

    def target(self, reward: Tensor, discount: Tensor, after: Tensor) -> Tensor:
        """``h(reward + discount * h^-1(after))``, ``[N]``."""
        return rescale(super().target(reward, discount, unrescale(after, eps=RESCALE_EPS)), eps=RESCALE_EPS)


class CategoricalValue(Estimate):
    """The distribution of the return over fixed atoms (C51).

    It counts the targets beyond the atoms, in every `LOOK_EVERY`-th batch: those with more than half of their
    probability there.

    Args:
        support: ``[M]`` the atoms.
    """

    loss = staticmethod(categorical_loss)
    closed_form = ClosedForm(categorical_loss, categorical_gradient)

    def __init__(self, support: Tensor) -> None:
        self.support = support
        self._batches = 0
        self._looked_at: deque[tuple[Tensor, Tensor]] = deque(maxlen=ENOUGH)
        """Per counted batch: ``[N]`` whether the target lies beyond the atoms, and ``[N]`` the return if each decision
        had the same reward.
        """

    def target(self, reward: Tensor, discount: Tensor, after: Tensor) -> Tensor:
        """Probabilities ``[N, M]`` of the atoms, from logits ``[N, M]``."""
        probs = torch.softmax(after, 1)
        if self._batches % LOOK_EVERY == 0:
            self._look(reward, discount, probs)
        self._batches += 1
        return project(probs, reward, discount, self.support)

    def _look(self, reward: Tensor, discount: Tensor, probs: Tensor) -> None:
        """Counts which targets of a batch lie beyond the atoms."""
        moved = torch.addcmul(reward.unsqueeze(1), discount.unsqueeze(1), self.support)
        low, high = self.support[0], self.support[-1]
        slack = 1e-5 * (high - low)  # rounding error
        outside = (moved < low - slack) | (moved > high + slack)
        self._looked_at.append(((probs * outside).sum(1) > 0.5, reward / (1 - discount).clamp_min(LEAST_LOSS)))

    def beyond(self) -> tuple[float, float, float] | None:
        """See `Estimate.beyond`."""
        if sum(len(flags) for flags, _ in self._looked_at) < ENOUGH:
            return None
        flags, returns = (torch.cat(parts) for parts in zip(*self._looked_at, strict=True))
        self._looked_at.clear()
        return float(flags.float().mean()), float(returns.min()), float(returns.max())


class QuantileValue(Estimate):
    """Quantiles of the return (QR-DQN)."""

    loss = staticmethod(quantile_loss)
    closed_form: ClassVar[ClosedForm | None] = ClosedForm(quantile_loss, quantile_gradient)

    def target(self, reward: Tensor, discount: Tensor, after: Tensor) -> Tensor:
        """``[N, M]``: each quantile after the decision, discounted, plus the reward."""
        return torch.addcmul(reward.unsqueeze(1), discount.unsqueeze(1), after)


class ImplicitValue(QuantileValue):
    """Quantiles of the return at fractions drawn for each row (IQN)."""

    loss = staticmethod(implicit_loss)
    closed_form = None


def estimate_for(cfg: ValuesConfig, support: Tensor) -> Estimate:
    """Returns the form of action values for the settings; `support` ``[M]`` are the head's atoms."""
    if cfg.kind == "categorical":
        return CategoricalValue(support)
    if cfg.kind in {"quantile", "implicit"}:
        return QuantileValue() if cfg.kind == "quantile" else ImplicitValue()
    return RescaledValue() if cfg.rescale else MeanValue()
