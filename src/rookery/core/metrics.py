"""Metrics of learning, kept as tensors during an update and read once at its end."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from rookery.core.state import Stateful

Metrics = dict[str, Tensor | float]
"""Metrics by name: plain numbers, or detached tensors (scalars, or values of rows ``[N]`` or ``[K, N]``) that are
averaged once per update.
"""

KEPT = 256
"""Number of steps whose values are stored individually; earlier steps are summed up to save memory."""


class Means(Stateful):
    """Collects the metrics of many gradient steps.

    They are read once in `KEPT` steps and in `result`, so that no step waits for the device.
    """

    saved = ("_seen",)

    def __init__(self) -> None:
        self._seen: dict[str, list[Tensor | float | tuple[float, int]]] = {}
        """Values of the latest steps, preceded by the sum and the count of the earlier ones."""

    def add(self, metrics: Metrics) -> None:
        """Adds the metrics of one gradient step."""
        seen = self._seen
        for name, value in metrics.items():
            if name not in seen:
                seen[name] = [value]
                continue
            seen[name].append(value)
            if len(seen[name]) > KEPT:
                seen[name] = [_summed_up(seen[name])]

    def result(self) -> dict[str, float | None]:
        """Returns the mean of each metric over the steps (or rows) with finite values; None if there are none."""
        sums = {name: _summed_up(values) for name, values in self._seen.items()}
        return {name: total / count if count else None for name, (total, count) in sums.items()}


def _summed_up(values: Sequence[Tensor | float | tuple[float, int]]) -> tuple[float, int]:
    """Returns the sum and the count of all finite values among numbers and rows, with one synchronization per
    device.
    """
    rows: list[Tensor] = []
    totals, count = [], 0
    for value in values:
        if isinstance(value, tuple):
            totals.append(value[0])
            count += value[1]
            continue
        if isinstance(value, Tensor):
            if value.ndim or not value.is_cpu:
                rows.append(value.flatten())
                continue
            value = value.item()
        if math.isfinite(value):
            totals.append(value)
            count += 1
    if rows:
        every = torch.cat(rows).float()
        finite = torch.isfinite(every)
        total, found = torch.stack((torch.where(finite, every, 0.0).sum(), finite.sum())).tolist()
        totals.append(total)
        count += int(found)
    return math.fsum(totals), count


def explained_variance(predicted: Tensor, target: Tensor) -> float | None:
    """Returns 1 - Var(target - predicted) / Var(target), or None if the target is constant.

    1 is perfect, 0 no better than a constant.
    """
    spread = target.var(correction=0)
    if not float(spread) > 0:
        return None
    return float(1 - (target - predicted).var(correction=0) / spread)
