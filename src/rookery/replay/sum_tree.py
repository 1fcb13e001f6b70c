"""Drawing in proportion to numbers that change: a tree of their sums, of which whole batches are drawn and written."""

from __future__ import annotations

import numpy as np

FAN = 32
"""Children of a node. Three levels of a wide tree are a few NumPy calls, where a binary one takes some for each bit."""


class SumTree:
    """Numbers, at least 0, and their sums.

    Every node is the sum of its children, computed in the same order whenever one of them changes. So a tree never
    drifts, and one that is built from the same numbers is the same to the last bit.

    Attributes:
        leaves: ``[size]`` and zeros behind, float64.
    """

    def __init__(self, size: int) -> None:
        tops = -(-size // FAN**2)
        self.leaves = np.zeros(tops * FAN**2)
        self._middle = np.zeros(tops * FAN)
        self._top = np.zeros(tops)

    @property
    def total(self) -> float:
        """Sum of all numbers."""
        return float(self._top.cumsum()[-1])

    def write(self, index: np.ndarray, value: np.ndarray | float) -> None:
        """Changes the numbers at ``index`` ``[N]``; where one is there several times, the last value counts."""
        self.leaves[index] = value
        for children, parents in ((self.leaves, self._middle), (self._middle, self._top)):
            index = index // FAN
            if len(index) > FAN:
                index = np.unique(index)
            parents[index] = children.reshape(-1, FAN).take(index, axis=0).sum(axis=1)

    def draw(self, uniform: np.ndarray) -> np.ndarray:
        """Where the running sum of all numbers passes these parts of the total: indices ``[N]``, none of a zero.

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
            # rounding may have carried it over either edge, beyond which the sums do not rise
            rest = np.maximum(np.minimum(rest, np.nextafter(sums[:, -1], 0.0)), 0.0)
            child = (sums <= rest[:, None]).sum(axis=1)
            place = np.arange(len(child)), child
            rest = rest - (sums[place] - parts[place])
            index = index * FAN + child
        return index
