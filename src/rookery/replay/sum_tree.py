"""Sum tree for proportional sampling, with batched reads and writes."""

from __future__ import annotations

import numpy as np

FAN = 32
"""Children of a node. A wide tree of three levels needs few NumPy calls; a binary one needs some for each level."""


class SumTree:
    """Non-negative weights and their sums.

    Each node is the sum of its children, computed in the same order after each change. So a tree never drifts, and
    trees of the same weights are equal to the last bit.

    Attributes:
        leaves: ``[size]`` and padding zeros, float64.
    """

    def __init__(self, size: int) -> None:
        tops = -(-size // FAN**2)
        self.leaves = np.zeros(tops * FAN**2)
        self._middle = np.zeros(tops * FAN)
        self._top = np.zeros(tops)

    @property
    def total(self) -> float:
        """Sum of all weights."""
        return float(self._top.cumsum()[-1])

    def write(self, index: np.ndarray, value: np.ndarray | float) -> None:
        """Sets the weights at ``index`` ``[N]``; of repeated indices the last value counts."""
        self.leaves[index] = value
        for children, parents in ((self.leaves, self._middle), (self._middle, self._top)):
            index = index // FAN
            if len(index) > FAN:
                index = np.unique(index)
            parents[index] = children.reshape(-1, FAN).take(index, axis=0).sum(axis=1)

    def draw(self, uniform: np.ndarray) -> np.ndarray:
        """Returns the indices ``[N]`` at which the cumulative sum passes these fractions of the total, never of a zero
        weight.

        Args:
            uniform: ``[N]`` in [0, 1).
        """
        sums = self._top.cumsum()
        rest = np.minimum(uniform * sums[-1], np.nextafter(sums[-1], 0.0))
        index: np.ndarray = sums.searchsorted(rest, side="right")
        rest = rest - (sums - self._top)[index]
        for children in (self._middle, self.leaves):
            parts = children.reshape(-1, FAN).take(index, axis=0)
            sums = parts.cumsum(axis=1)
            # rounding may have passed either end, beyond which the sums do not rise
            rest = np.maximum(np.minimum(rest, np.nextafter(sums[:, -1], 0.0)), 0.0)
            child = (sums <= rest[:, None]).sum(axis=1)
            place = np.arange(len(child)), child
            rest = rest - (sums[place] - parts[place])
            index = index * FAN + child
        return index
