"""Value scaling: large values are learned in a unit of about the standard deviation of their targets.

As in PopArt (van Hasselt et al. 2016, arXiv:1602.07714) the last layer of the values is changed with the unit, so that
what it says in the units of rewards stays as it was. The error of the values, and its gradient beside that of the
policy, then have one size, whether returns are of 10 or of 10,000. Other than there small values keep their size: made
larger, those of a task whose goal is rarely found would drown a policy that shares their trunk. The unit is a power of
two, by which numbers are divided without rounding.

The mean of the values follows that of the targets at once, by the bias of the last layer, where gradient steps would
take many updates: until then every time limit, after which the value of the last state counts, looks like a rescue.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from rookery.core.batch import Minibatch
from rookery.core.state import Stateful
from rookery.models.heads import GivenValueHead, ValueHead

MEMORY = 10_000
"""Decisions that the statistics go back to, about: returns grow while a policy learns."""
CAUTION = 1000
"""Decisions at which the mean of the values moves half of the way: that of a few says little."""


class ValueScale(Stateful):
    """Keeps the unit that values are learned in, one for all reward signals, so that their strengths stay comparable.

    Args:
        is_fixed: Whether the unit stays 1.

    Attributes:
        unit: What rewards are divided by before targets are made of them: 1, 2, 4, ...
        count: Targets seen, at most `MEMORY`.
        mean: Mean of each column's targets so far, in the units of rewards; empty before the first.
        var: Variance of each column's targets so far, likewise.
    """

    saved = ("unit", "count", "mean", "var")
    fixed = ("is_fixed", "merge")

    def __init__(self, is_fixed: bool) -> None:
        self.is_fixed = is_fixed
        self.merge: Callable[[int, Tensor, Tensor], tuple[int, Tensor, Tensor]] | None = None
        """Merges count, mean and variance of rows with those of other ranks; None = there is one."""
        self.unit = 1.0
        self.count = 0
        self.mean: list[float] = []
        self.var: list[float] = []

    @torch.no_grad()
    def renewed(self, data: Minibatch, head: ValueHead | GivenValueHead) -> Minibatch:
        """Takes value targets into the statistics; with their unit and their mean the last layer changes.

        Args:
            data: Rows in the unit so far, with targets ``[N, S]``; those that are not finite are passed over.
            head: The last layer of the values.

        Returns:
            The rows in the new unit; what their values are moves in place.
        """
        if self.is_fixed:
            return data
        mean = self._take_in(data.value_target)
        if mean is not None:
            count, average = len(data.value), data.value.mean(0)
            if self.merge is not None:
                count, average, _ = self.merge(count, average, torch.zeros_like(average))
            shift = (mean - average).mul_(count / (count + CAUTION))
            head.linear.bias.add_(shift)
            data.value.add_(shift)
        std = math.sqrt(max(self.var, default=0.0))
        unit = 2.0 ** math.floor(math.log2(std)) if 1.0 <= std < math.inf else 1.0
        change, self.unit = self.unit / unit, unit
        if change == 1.0:
            return data
        for weight in (head.linear.weight, head.linear.bias):
            weight.mul_(change)
        changed = {name: getattr(data, name) * change for name in ("advantage", "value_target", "value")}
        return replace(data, **changed)

    def _take_in(self, target: Tensor) -> Tensor | None:
        """Moves the statistics of each column by targets ``[N, S]`` (Chan et al. 1979); returns the mean of those that
        are finite, ``[S]``, None if none is.
        """
        deviation, average = torch.std_mean(target, 0, correction=0)
        std, mean = torch.stack((deviation, average)).tolist()
        if not all(map(math.isfinite, (*std, *mean))):
            target = target[target.isfinite().all(1)]
            return self._take_in(target) if len(target) else None
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
