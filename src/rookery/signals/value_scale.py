"""Value scaling: values are learned in units of their targets' running mean and standard deviation.

PopArt (van Hasselt et al. 2016, arXiv:1602.07714): whenever the statistics move, the last layer of the values is
changed so that what it says in the units of rewards stays as it was. The error of the values, and its gradient beside
that of the policy, then have one size, whether returns are of 0.01 or of 10,000.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.core.state import Stateful
from rookery.models.heads import ValueHead
from rookery.policies.normalize import RunningMeanStd

MEMORY = 10_000
"""Decisions that the statistics go back to, about: returns grow while a policy learns."""

RELATIVE_FLOOR = 1e-4
"""Least standard deviation, as a share of the mean: below it float32 targets are rounding errors."""


class ValueScale(Stateful):
    """Keeps statistics of value targets, a column for each of S reward signals, and rescales the values' last layer.

    Before the first update all values are 0, so that the first targets are made of rewards alone.

    Args:
        columns: S.
        device: Where the values are.
    """

    saved = ("statistics",)
    fixed = ()

    def __init__(self, columns: int, device: torch.device) -> None:
        self.statistics = RunningMeanStd((columns,)).to(device)

    @property
    def std(self) -> Tensor:
        """``[S]`` float64, the unit of each column: the standard deviation of its targets; 0 before the first."""
        seen = self.statistics
        std = (seen.var + 1e-8).sqrt().maximum(seen.mean.abs() * RELATIVE_FLOOR)
        return std * (seen.count > 0)

    def unscaled(self, value: Tensor) -> Tensor:
        """Gives values ``[..., S]`` in the units of rewards, from what the last layer puts out."""
        return value * self.std.float() + self.statistics.mean32

    def scaled(self, value: Tensor) -> Tensor:
        """Gives values ``[..., S]`` in the units of the last layer, after the first update."""
        return (value - self.statistics.mean32) / self.std.float()

    @torch.no_grad()
    def update(self, target: Tensor, head: ValueHead) -> None:
        """Takes value targets into the statistics, and changes a last layer so that its values stay as they were.

        Args:
            target: ``[N, S]`` in the units of rewards; rows that are not finite are passed over.
            head: The last layer.
        """
        seen, linear, target = self.statistics, head.linear, target[target.isfinite().all(1)]
        if not len(target):
            return
        old_mean, old_std = seen.mean.clone(), self.std
        seen.count.clamp_(max=MEMORY)
        seen.update(target)
        std = self.std
        linear.weight.mul_((old_std / std).float().unsqueeze(1))
        linear.bias.copy_((linear.bias * old_std + old_mean - seen.mean) / std)
