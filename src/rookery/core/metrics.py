"""Numbers about learning, kept as tensors while a learner works and read once at its end."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rookery.core.state import Stateful

Metrics = dict[str, Tensor | float]
"""By name: detached tensors, scalars or a value for each row, of which means are taken once an update, not once a step;
or plain numbers, where a kernel has computed them.
"""


class Means(Stateful):
    """Collects the metrics of many gradient steps.

    None is read before `result`, so that nothing waits for the device.
    """

    saved = ("_seen",)

    def __init__(self) -> None:
        self._seen: dict[str, list[Tensor | float]] = {}

    def add(self, metrics: Metrics) -> None:
        """Notes one gradient step."""
        for name, value in metrics.items():
            self._seen.setdefault(name, []).append(value)

    def result(self) -> dict[str, float | None]:
        """The mean of each metric over the steps (or rows) where it was finite (others were skipped); None if it never
        was.
        """
        seen = {name: list(values) for name, values in self._seen.items()}
        places, scalars = [], []
        for values in seen.values():
            for at, value in enumerate(values):
                if not isinstance(value, Tensor) or value.ndim:
                    continue
                if value.is_cpu:
                    values[at] = value.item()
                    continue
                places.append((values, at))
                scalars.append(value)
        if scalars:  # a device is waited for once
            for (values, at), number in zip(places, torch.stack(scalars).tolist(), strict=True):
                values[at] = number
        return {name: _mean(values) for name, values in seen.items()}


def _mean(values: list[Tensor | float]) -> float | None:
    """Of all finite numbers among numbers and rows."""
    total, count = 0.0, 0
    rows = [value.flatten() for value in values if isinstance(value, Tensor)]
    if rows:
        every = torch.cat(rows).float()
        finite = torch.isfinite(every)
        total, found = torch.stack((torch.where(finite, every, 0.0).sum(), finite.sum())).tolist()
        count = int(found)
    numbers = [value for value in values if not isinstance(value, Tensor) and math.isfinite(value)]
    count += len(numbers)
    return (total + math.fsum(numbers)) / count if count else None


def explained_variance(predicted: Tensor, target: Tensor) -> float | None:
    """1 - Var(target - predicted) / Var(target), or None if the target is constant.

    1 is perfect, 0 no better than a constant.
    """
    spread = target.var(correction=0)
    if not float(spread) > 0:
        return None
    return float(1 - (target - predicted).var(correction=0) / spread)
