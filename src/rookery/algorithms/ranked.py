"""Learners on several ranks: hooks that make them act as one learner on all their rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from rookery.algorithms.algorithm import Algorithm, BatchHook
from rookery.cluster.ranks import Ranks, parts_of
from rookery.core.batch import Demand, Minibatch, PenaltyMinibatch, Rollout
from rookery.core.errors import TrainingError
from rookery.core.metrics import Metrics
from rookery.core.optim import Optimizer
from rookery.core.state import Stateful
from rookery.policies.normalize import RunningMeanStd
from rookery.replay.buffer import ReplayBuffer
from rookery.replay.replay import Replay
from rookery.signals.return_spread import ReturnSpread
from rookery.signals.reward_unit import RewardUnit
from rookery.signals.value_scale import ValueScale


class RankAgreement:
    """Gradients and moments of one learner over all ranks, weighted by rows.

    Args:
        ranks: All learners.

    Attributes:
        idle: Whether this rank's rows have run out: its next results do not count.
        absent: Whether it has no rows in the present update: none of its results count.
    """

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self.idle = self.absent = False

    def gradients(self, gradient: Tensor, batch: Any, metrics: Metrics) -> Metrics:
        """Averages a gradient over ranks, as `Ranks.agree`; batches without a length have one size on all ranks."""
        rows = len(batch) if hasattr(batch, "__len__") else 1
        return self.ranks.agree(gradient, 0 if self.idle or self.absent else rows, metrics)

    def moments(self, count: int, mean: Tensor, var: Tensor) -> tuple[int, Tensor, Tensor]:
        """Combines moments over ranks, as `Ranks.moments`."""
        return self.ranks.moments(0 if self.absent else count, mean, var)

    def counts(self, rows: int) -> list[int]:
        """Returns the number of rows that each rank has, without rows that do not count."""
        return [int(each) for (each,) in self.ranks.numbers(0 if self.absent else rows)]


@dataclass(frozen=True, kw_only=True)
class RankedMinibatch(Minibatch):
    """Batch that all ranks cut into the same number of minibatches, with advantages normalized over their union.

    Attributes:
        agreement: The exchange with other ranks.
        rows: Rows of all ranks' batches.
        raw: ``[N]`` advantages as computed; `advantage` is overwritten every epoch.
        normalize: Whether minibatches are normalized.
    """

    agreement: RankAgreement
    rows: int
    raw: Tensor
    normalize: bool

    def shuffled(self, size: int, rng: np.random.Generator) -> Iterator[Self]:
        """Yields the minibatches of one epoch; a rank without rows for a minibatch yields one that does not count."""
        agreement, total = self.agreement, len(self)
        count = -(-self.rows // (size * agreement.ranks.size))
        if self.sequences is None:
            order = torch.from_numpy(rng.permutation(total)).to(self.raw.device)
            parts = order.split(list(parts_of(total, count)))
        else:
            parts = self.cut_sequences(count, rng)
        batches = [self._batch(part if len(part) else part.new_zeros(1)) for part in parts]
        if self.normalize:
            self._normalize([rows if len(part) else part for part, (rows, _) in zip(parts, batches, strict=True)])
        try:
            for part, (_, batch) in zip(parts, batches, strict=True):
                agreement.idle = len(part) == 0
                yield batch
        finally:
            agreement.idle = False

    def _batch(self, part: Tensor) -> tuple[Tensor, Self]:
        """Returns the numbers of the rows in a part, and these rows; the part has numbers of rows, or of sequences."""
        batch = self._part(part) if self.sequences is None else self.picked(part)
        assert batch.source is not None
        return batch.source[1], batch

    def _normalize(self, parts: Sequence[Tensor]) -> None:
        raw, ranks, absent = self.raw.double(), self.agreement.ranks, self.agreement.absent
        kept = [raw.index_select(0, part) for part in parts]
        moments = raw.new_zeros(ranks.size, len(parts), 3)  # rows, mean, summed squares of the distance from it
        for number, values in enumerate(kept):
            if len(values) and not absent:
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
                normal = (kept[number] - center[number]) / (deviation[number].clamp(min=self.least_deviation) + 1e-8)
                self.advantage.index_copy_(0, part, normal.to(self.advantage.dtype))


@dataclass(frozen=True, kw_only=True)
class RankedPenaltyMinibatch(RankedMinibatch, PenaltyMinibatch):
    """`RankedMinibatch` with the distributions before the update."""


class RankedBatches(BatchHook):
    """Makes all ranks take the same number of gradient steps in an update, regardless of their numbers of rows.

    Args:
        agreement: The exchange with other ranks.
        normalize: Normalization of advantages: True = by minibatch, "batch" = over an update, see
            `normalize_advantage` of PPO; "step" = over an update of one gradient step, as of A2C.
        learned: Whether there are reward signals that learn.
    """

    def __init__(self, agreement: RankAgreement, normalize: Any, learned: bool) -> None:
        self.agreement = agreement
        self.normalize = normalize
        self.learned = learned

    def before_targets(self, learner: Algorithm[Any], rollout: Rollout, rollouts: Mapping[str, Rollout]) -> Rollout:
        """Gives a rank that has no rows of the policy the rows of another rank, which are not counted twice.

        Raises:
            TrainingError: If signals would have to learn from unequal numbers of rows.
        """
        agreement = self.agreement
        agreement.absent = False
        if learner.replay is not None and not self.learned:
            return rollout  # each rank keeps its rows, and draws as many as the others
        counts = agreement.counts(rollout.num_decisions)
        if self.learned and len(set(counts)) > 1:
            raise TrainingError(
                f"policies.{learner.name}.signals: the learners have {', '.join(map(str, counts))} decisions to learn "
                "from, and signals learn in step from equal numbers only, which slots that come and go, or take turns, "
                "do not give; leave signals out, or set cluster.learners=1"
            )
        if min(counts):
            return rollout
        lender, device = counts.index(max(counts)), rollout.length.device
        lends = lender == agreement.ranks.rank
        lent = agreement.ranks.gather(rollout.map(lambda _, leaf: leaf.cpu().clone()) if lends else None)[lender]
        agreement.absent = not rollout.num_decisions
        borrowed: Rollout = lent.map(lambda _, leaf: leaf.to(device))
        return borrowed if agreement.absent else rollout

    def before_update(self, learner: Algorithm[Any], batch: Any) -> Any:
        """Returns the batch with minibatches that all ranks share; rows from replay are unchanged."""
        if not isinstance(batch, Minibatch):
            return batch
        agreement, raw = self.agreement, batch.advantage.clone()
        if self.normalize in ("batch", "step"):
            mean, var = raw.double().mean(), raw.double().var(correction=0)
            count, mean, var = agreement.moments(len(raw), mean, var)
            deviation = var.sqrt().clamp(min=max(1e-4, batch.least_deviation))
            if self.normalize == "step":
                deviation = (var * count / max(count - 1, 1)).sqrt() + 1e-8
            if count > 1:
                raw = ((raw - mean) / deviation).to(raw.dtype)
        kind = RankedPenaltyMinibatch if isinstance(batch, PenaltyMinibatch) else RankedMinibatch
        own = {item.name: getattr(batch, item.name) for item in fields(batch)}
        rows, normalize = sum(agreement.counts(len(raw))), self.normalize is True
        own.update(advantage=raw.clone(), raw=raw, rows=rows, agreement=agreement, normalize=normalize)
        return kind(**own)


def join_ranks(learner: Algorithm[Any], ranks: Ranks) -> Algorithm[Any]:
    """Synchronizes a learner with the learners of the other ranks; a single learner is unchanged."""
    if ranks.size == 1:
        return learner
    agreement = RankAgreement(ranks)
    for part in _parts(learner):
        if isinstance(part, Optimizer):
            part.agree = agreement.gradients
        elif isinstance(part, RunningMeanStd | ValueScale):
            part.merge = agreement.moments
        elif isinstance(part, Replay | ReturnSpread | RewardUnit):
            part.everywhere = ranks.numbers
        elif isinstance(part, ReplayBuffer):
            part.least = lambda chance: min(each for (each,) in ranks.numbers(chance))
    normalize = getattr(learner.cfg, "normalize_advantage", None)
    if normalize is not None:
        learner.cfg = learner.cfg.replace(normalize_advantage=False)
        if normalize is True and not hasattr(learner.cfg, "minibatch_size"):
            normalize = "step"
    signals = _parts(getattr(learner, "signals", None))
    learner.hooks.append(RankedBatches(agreement, normalize, any(isinstance(part, Optimizer) for part in signals)))
    return learner


def total_demand(learner: Algorithm[Any], ranks: Ranks) -> Demand:
    """Returns the experience of all ranks per update of a learner; each rank has a separate replay buffer and replay
    ratio.
    """
    demand = learner.demand
    if learner.replay is None or demand.decisions is None:
        return demand
    return replace(demand, decisions=demand.decisions * ranks.size)


def _parts(whole: Any) -> list[Any]:
    """Returns all objects with state in a learner, without duplicates."""
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
