"""Numbers about learning, kept as tensors while a learner works and read once at its end."""

from __future__ import annotations

import torch
from torch import Tensor

Metrics = dict[str, Tensor | float]
"""By name: detached tensors, scalars or a value for each row, of which means are taken once an update, not once a step;
or plain numbers, where a kernel has computed them.
"""


class Means:
    """Collects the metrics of many gradient steps.

    None is read before `result`, so that nothing waits for the device.
    """

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
        if not self._seen:
            return {}
        means: dict[str, Tensor] = {}
        for name, values in self._seen.items():
            tensors = [value.flatten() for value in values if isinstance(value, Tensor)]
            numbers = [value for value in values if not isinstance(value, Tensor)]
            if numbers:
                tensors.append(torch.tensor(numbers, device=tensors[0].device if tensors else None))
            every = torch.cat(tensors).float()
            finite = torch.isfinite(every)
            means[name] = torch.where(finite, every, 0.0).sum() / finite.sum()  # 0 / 0 = NaN
        read = torch.stack(list(means.values())).tolist()
        return {name: value if value == value else None for name, value in zip(self._seen, read, strict=True)}


def explained_variance(predicted: Tensor, target: Tensor) -> float | None:
    """1 - Var(target - predicted) / Var(target), or None if the target is constant.

    1 is perfect, 0 no better than a constant.
    """
    spread = target.var(correction=0)
    if not float(spread) > 0:
        return None
    return float(1 - (target - predicted).var(correction=0) / spread)
