"""Value scaling: large values are learned in a unit of about the standard deviation of their targets.

As in PopArt (van Hasselt et al. 2016, arXiv:1602.07714) the last layer of the values is changed with the unit, so that
its output in the units of rewards stays the same. The error of the values, and its gradient relative to the policy's,
then have one magnitude, whether returns are about 10 or 10,000. Unlike PopArt, small values are scaled up only if
rewards other than 0 are small (`signals/reward_unit.py`), and never where values share the policy's trunk: in a task
whose goal is rarely found, they would drown the policy's gradient. The unit is a power of two, by which numbers are
divided without rounding.

The mean of the values follows that of the targets at once, by the bias of the last layer, while gradient steps would
take many updates: until then every time limit, which bootstraps with the value of the last state, looks like a large
gain.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from rookery.core.batch import Minibatch, Rollout
from rookery.core.state import Stateful
from rookery.models.heads import GivenValueHead, ValueHead
from rookery.signals.reward_unit import EVERY, RewardUnit

MEMORY = 10_000
"""Approximate window of the statistics in decisions: returns grow while a policy learns."""
CAUTION = 1000
"""Number of decisions over which the mean of the values moves halfway to that of the targets: the mean of few targets
is noisy.
"""


class ValueScale(Stateful):
    """Unit in which values are learned, one for all reward signals, so that their strengths stay comparable.

    Args:
        is_fixed: Whether the unit stays 1.
        below_1: Whether the unit may be below 1: for rewards that are not scaled before, and values with an own trunk.

    Attributes:
        unit: Divisor of rewards before targets are computed: 1, 2, 4, ..., or a smaller power of two for small rewards.
        rewards: Size of the rewards so far, measured in every `EVERY`-th update.
        updates: Number of updates.
        count: Number of targets so far, at most `MEMORY`.
        mean: Mean of each column's targets so far, in the units of rewards; empty before the first.
        var: Variance of each column's targets so far, likewise.
    """

    state_version = 2
    saved = ("unit", "count", "mean", "var", "rewards", "updates")
    fixed = ("is_fixed", "below_1", "merge")

    def __init__(self, is_fixed: bool, below_1: bool = True) -> None:
        self.is_fixed = is_fixed
        self.below_1 = below_1
        self.rewards = RewardUnit()
        self.updates = 0
        self.merge: Callable[[int, Tensor, Tensor], tuple[int, Tensor, Tensor]] | None = None
        """Merges count, mean and variance of rows with those of other ranks; None = a single rank."""
        self.unit = 1.0
        self.count = 0
        self.mean: list[float] = []
        self.var: list[float] = []

    def upgrade(self, state: dict[str, Any], version: int) -> dict[str, Any]:
        """Adds empty statistics of rewards to states of version 1."""
        return {**state, "rewards": self.rewards.state_dict(), "updates": 0}

    @property
    def smallest(self) -> float:
        """The smallest unit: 1, or less for small rewards."""
        return min(self.rewards.unit, 1.0)

    def in_unit(self, rollout: Rollout, reward: Tensor) -> Tensor:
        """Returns rewards ``[T, F, S]`` or ``[T, F]`` of a rollout in the unit. Before the first targets, values are
        taken to be in the unit of the rewards, so that first values are not large beside small rewards.
        """
        if self.below_1 and not self.is_fixed and self.updates % EVERY == 0:
            self.rewards.measure(reward[rollout.valid], ())
            self.unit = self.unit if self.count else self.smallest
        self.updates += 1
        return reward / self.unit

    @torch.no_grad()
    def renewed(self, data: Minibatch, head: ValueHead | GivenValueHead) -> Minibatch:
        """Updates the statistics with value targets, and the last layer with their unit and mean.

        Args:
            data: Rows in the current unit, with targets ``[N, S]``; targets that are not finite are ignored.
            head: The last layer of the values.

        Returns:
            The rows in the new unit; their values are changed in place.
        """
        if self.is_fixed:
            return data
        mean = self._update(data.value_target)
        if mean is not None:
            count, average = len(data.value), data.value.mean(0)
            if self.merge is not None:
                count, average, _ = self.merge(count, average, torch.zeros_like(average))
            shift = (mean - average).mul_(count / (count + CAUTION))
            head.linear.bias.add_(shift)
            data.value.add_(shift)
        std = math.sqrt(max(self.var, default=0.0))
        unit = 2.0 ** math.floor(math.log2(std)) if self.smallest <= std < math.inf else self.smallest
        change, self.unit = self.unit / unit, unit
        if change == 1.0:
            return data
        for weight in (head.linear.weight, head.linear.bias):
            weight.mul_(change)
        changed = {name: getattr(data, name) * change for name in ("advantage", "value_target", "value")}
        return replace(data, **changed)

    def _update(self, target: Tensor) -> Tensor | None:
        """Updates the statistics of each column with targets ``[N, S]`` (Chan et al. 1979); returns the mean of finite
        targets, ``[S]``, or None if there are none.
        """
        deviation, average = torch.std_mean(target, 0, correction=0)
        std, mean = torch.stack((deviation, average)).tolist()
        if not all(map(math.isfinite, (*std, *mean))):
            target = target[target.isfinite().all(1)]
            return self._update(target) if len(target) else None
        count = len(target)
        if self.merge is not None:
            count, average, spreads = self.merge(count, average, deviation.square())
            std, mean = spreads.sqrt().tolist(), average.tolist()
        share = count / (self.count + count)
        self.count = min(self.count + count, MEMORY)
        self.mean = self.mean or [0.0] * len(mean)
        self.var = self.var or [0.0] * len(std)
        for column, (new_mean, new_std) in enumerate(zip(mean, std, strict=True)):
            delta = new_mean * self.unit - self.mean[column]
            spread = (new_std * self.unit) ** 2 - self.var[column]
            self.mean[column] += share * delta
            self.var[column] += share * spread + share * (1 - share) * delta**2
        return average
