"""Value scaling: large values are learned in units of their targets' running standard deviation, from their mean.

PopArt (van Hasselt et al. 2016, arXiv:1602.07714): whenever the statistics move, the last layer of the values is
changed so that what it says in the units of rewards stays as it was. The error of the values, and its gradient beside
that of the policy, then have one size, whether returns are of 10 or of 10,000. Small values keep their size, as those
of a task whose goal is rarely found: made larger, they would drown a policy that shares their trunk.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.core.state import Stateful
from rookery.models.heads import ValueHead
from rookery.policies.normalize import RunningMeanStd

MEMORY = 10_000
"""Decisions that the statistics go back to, about: returns grow while a policy learns."""

LEAST = 1.0
"""Least unit."""


class ValueScale(Stateful):
    """Keeps statistics of value targets, a column for each of S reward signals, and rescales the values' last layer.

    Before the first update all values are 0, so that the first targets are made of rewards alone; with it they become
    the mean of these, about, because a new last layer puts out little.

    Args:
        columns: S.
        device: Where the values are.
    """

    saved = ("statistics",)
    fixed = ()

    def __init__(self, columns: int, device: torch.device) -> None:
        self.statistics = RunningMeanStd((columns,)).to(device)

    @property
    def unit(self) -> Tensor:
        """``[S]`` float64, the standard deviation of each column's targets, at least `LEAST`; 0 before the first."""
        seen = self.statistics
        return seen.var.sqrt().clamp(min=LEAST) * (seen.count > 0)

    def unscaled(self, value: Tensor) -> Tensor:
        """Gives values ``[..., S]`` in the units of rewards, from what the last layer puts out."""
        return value * self.unit.float() + self.statistics.mean32

    def scaled(self, value: Tensor) -> Tensor:
        """Gives values ``[..., S]`` in the units of the last layer, after the first update."""
        return (value - self.statistics.mean32) / self.unit.float()

    @torch.no_grad()
    def update(self, target: Tensor, head: ValueHead) -> None:
        """Takes value targets into the statistics, and changes a last layer so that values, if there were any, stay.

        Args:
            target: ``[N, S]`` in the units of rewards; rows that are not finite are passed over.
            head: The last layer.
        """
        seen, linear, target = self.statistics, head.linear, target[target.isfinite().all(1)]
        if not len(target):
            return
        begins, old_mean, old_unit = not seen.count > 0, seen.mean.clone(), self.unit
        seen.count.clamp_(max=MEMORY)
        seen.update(target)
        if begins:
            return
        unit = self.unit
        linear.weight.mul_((old_unit / unit).float().unsqueeze(1))
        linear.bias.copy_((linear.bias * old_unit + old_mean - seen.mean) / unit)
