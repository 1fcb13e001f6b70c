"""Learners on several ranks: what makes them one learner on all their rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from rookery.algorithms.algorithm import Algorithm, BatchHook
from rookery.cluster.ranks import Ranks, parts_of
from rookery.core.batch import Minibatch, PenaltyMinibatch
from rookery.core.errors import ConfigError
from rookery.core.metrics import Metrics
from rookery.core.optim import Optimizer
from rookery.core.state import Stateful
from rookery.policies.normalize import RunningMeanStd
from rookery.signals.value_scale import ValueScale


class GradientAgreement:
    """Weights the gradients of one learner by rows.

    Args:
        ranks: All learners.

    Attributes:
        idle: Whether this rank's rows have run out: what it computes next does not count.
    """

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self.idle = False

    def __call__(self, gradient: Tensor, batch: Any, metrics: Metrics) -> Metrics:
        """Agrees on a gradient, as `Ranks.agree`; batches that cannot be counted are of one size on all ranks."""
        rows = len(batch) if hasattr(batch, "__len__") else 1
        return self.ranks.agree(gradient, 0 if self.idle else rows, metrics)


@dataclass(frozen=True, kw_only=True)
class RankedMinibatch(Minibatch):
    """A batch of which all ranks cut as many minibatches, with advantages normalized over the union of these.

    Attributes:
        agreement: How the ranks agree.
        rows: Rows of all ranks' batches.
        raw: ``[N]`` advantages as they were computed; `advantage` is written anew every epoch.
        normalize: Whether minibatches are normalized.
    """

    agreement: Any
    rows: int
    raw: Tensor
    normalize: bool

    def shuffled(self, size: int, rng: np.random.Generator) -> Iterator[Self]:
        """One epoch; a rank without a row for a minibatch gives one that does not count."""
        agreement, total, device = self.agreement, len(self), self.raw.device
        count = -(-self.rows // (size * agreement.ranks.size))
        order = torch.from_numpy(rng.permutation(total)).to(device)
        parts = order.split(list(parts_of(total, count)))
        if self.normalize:
            self._normalize(parts)
        try:
            for part in parts:
                agreement.idle = len(part) == 0
                yield self._part(part if len(part) else order[:1])
        finally:
            agreement.idle = False

    def _normalize(self, parts: tuple[Tensor, ...]) -> None:
        raw, ranks = self.raw.double(), self.agreement.ranks
        kept = [raw.index_select(0, part) for part in parts]
        moments = raw.new_zeros(ranks.size, len(parts), 3)  # rows, mean, summed squares of the distance from it
        for number, values in enumerate(kept):
            if len(values):
                mean = values.mean()
                squares = (values - mean).square().sum()
                moments[ranks.rank, number] = torch.stack((mean.new_tensor(len(values)), mean, squares))
        rows, means, squares = ranks.sums(moments).unbind(-1)
        count = rows.sum(0)
        center = (rows * means).sum(0) / count.clamp(min=1)
        total = (squares + rows * (means - center).square()).sum(0)  # Chan et al. 1979
        deviation = (total / (count - 1).clamp(min=1)).sqrt()
        for number, part in enumerate(parts):
            if count[number] > 1:
                normal = (kept[number] - center[number]) / (deviation[number] + 1e-8)
                self.advantage.index_copy_(0, part, normal.to(self.advantage.dtype))


@dataclass(frozen=True, kw_only=True)
class RankedPenaltyMinibatch(RankedMinibatch, PenaltyMinibatch):
    """The same with the distributions before the update."""


class RankedBatches(BatchHook):
    """Turns the batch of an update into one that is cut as those of the other ranks are.

    Args:
        agreement: How the ranks agree.
        normalize: How advantages are normalized: True = by minibatch, "batch" = all of an update, see
            `normalize_advantage` of PPO; "step" = all of an update that is one gradient step, as of A2C.
    """

    def __init__(self, agreement: GradientAgreement, normalize: Any) -> None:
        self.agreement = agreement
        self.normalize = normalize

    def before_update(self, learner: Algorithm[Any], batch: Any) -> Any:
        """Gives the batch with minibatches that are agreed upon; what replay gives stays."""
        if not isinstance(batch, Minibatch):
            return batch
        if batch.sequences is not None:
            raise ConfigError("cluster.learners: policies that remember learn on one learner only; set it to 1")
        raw = batch.advantage.clone()
        if self.normalize in ("batch", "step"):
            mean, var = raw.double().mean(), raw.double().var(correction=0)
            count, mean, var = self.agreement.ranks.moments(len(raw), mean, var)
            deviation = var.sqrt().clamp(min=1e-4)
            if self.normalize == "step":
                deviation = (var * count / max(count - 1, 1)).sqrt() + 1e-8
            if count > 1:
                raw = ((raw - mean) / deviation).to(raw.dtype)
        kind = RankedPenaltyMinibatch if isinstance(batch, PenaltyMinibatch) else RankedMinibatch
        own = {item.name: getattr(batch, item.name) for item in fields(batch)}
        rows = sum(self.agreement.ranks.gather(len(raw)))
        normalize = self.normalize is True
        own.update(advantage=raw.clone(), raw=raw, rows=rows, agreement=self.agreement, normalize=normalize)
        return kind(**own)


def join(learner: Algorithm[Any], ranks: Ranks) -> Algorithm[Any]:
    """Lets a learner learn as one with those of the other ranks; one alone stays as it is."""
    if ranks.size == 1:
        return learner
    agreement = GradientAgreement(ranks)
    for part in _parts(learner):
        if isinstance(part, Optimizer):
            part.agree = agreement
        elif isinstance(part, RunningMeanStd | ValueScale):
            part.merge = ranks.moments
    normalize = getattr(learner.cfg, "normalize_advantage", None)
    if normalize is not None:
        learner.cfg = learner.cfg.replace(normalize_advantage=False)
        if normalize is True and not hasattr(learner.cfg, "minibatch_size"):
            normalize = "step"
    learner.hooks.append(RankedBatches(agreement, normalize))
    return learner


def _parts(whole: Any) -> list[Any]:
    """All objects with state in a learner, each once."""
    found: dict[int, Any] = {}

    def walk(value: Any) -> None:
        if id(value) in found:
            return
        if isinstance(value, nn.Module):
            found[id(value)] = value
            for module in value.modules():
                found[id(module)] = module
        elif isinstance(value, Optimizer):
            found[id(value)] = value
        elif isinstance(value, Stateful):
            found[id(value)] = value
            for part in vars(value).values():
                walk(part)
        elif isinstance(value, dict):
            for part in value.values():
                walk(part)
        elif isinstance(value, list | tuple):
            for part in value:
                walk(part)

    walk(whole)
    return list(found.values())
