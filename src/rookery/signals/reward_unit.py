"""Unit of rewards for algorithms that learn values without `ValueScale`: rewards far from 1 are divided by their size.

Networks start with values around 0 and change them by steps of the size of the learning rate, so rewards of 1e5 or 1e-5
are hardly learned. The unit is the power of two below the root mean square of all rewards but zeros, and 1 while that
is between `SMALL` and `LARGE`, so that usual rewards, also small costs of every step, are learned as they are. When the
unit changes, the last layers of the values change with it, so that values in the units of rewards stay the same, as in
PopArt (van Hasselt et al. 2016, arXiv:1602.07714).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from rookery.core.state import Stateful

LARGE = 64.0
"""Size of rewards above which they are learned in another unit."""
SMALL = 1 / 1024
"""Size of rewards below which they are learned in another unit."""
EVERY = 64
"""Gradient steps, or updates on new experience, from one measurement to the next."""


class RewardUnit(Stateful):
    """Unit in which the rewards of one policy are learned.

    Attributes:
        unit: Divisor of rewards, a power of two.
        count: Number of measured rewards other than 0.
        square: Their mean square.
    """

    saved = ("unit", "count", "square")
    fixed = ("everywhere",)

    def __init__(self) -> None:
        self.everywhere: Callable[..., list[list[float]]] = lambda *numbers: [list(numbers)]
        """Returns numbers of all ranks, one row per rank."""
        self.unit = 1.0
        self.count = 0
        self.square = 0.0

    @torch.no_grad()
    def measure(self, reward: Tensor, weights: Sequence[Tensor]) -> None:
        """Updates the unit with rewards, and the values with the unit.

        Args:
            reward: Rewards in their own unit, of any shape; ignored if one is not finite.
            weights: Weights to which values are proportional, changed in place; none if nothing has been learned yet.
        """
        count, total = float(torch.count_nonzero(reward)), float(torch.linalg.vector_norm(reward).double().square())
        if not math.isfinite(total):
            count = total = 0.0
        counts, sums = zip(*self.everywhere(count, total), strict=True)
        self.count += int(sum(counts))
        if not self.count:
            return
        self.square += (sum(sums) - sum(counts) * self.square) / self.count
        size = math.sqrt(self.square)
        unit = 1.0 if SMALL <= size <= LARGE or not math.isfinite(size) else 2.0 ** math.floor(math.log2(size))
        if unit != self.unit:
            for weight in weights:
                weight.mul_(self.unit / unit)
            self.unit = unit
