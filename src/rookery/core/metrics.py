"""Numbers about learning, kept as tensors while a learner works and read once at its end."""

from __future__ import annotations

import torch
from torch import Tensor

Metrics = dict[str, Tensor]
"""Scalar tensors by name, detached."""


class Means:
    """Collects the metrics of many gradient steps; no value is read before `result`, so nothing waits for the device."""

    def __init__(self) -> None:
        self._seen: dict[str, list[Tensor]] = {}

    def add(self, metrics: Metrics) -> None:
        """Notes one gradient step."""
        for name, value in metrics.items():
            self._seen.setdefault(name, []).append(value)

    def result(self) -> dict[str, float]:
        """The mean of each metric over all steps noted."""
        names = list(self._seen)
        if not names:
            return {}
        means = torch.stack([torch.stack(values).mean() for values in self._seen.values()])
        return dict(zip(names, means.tolist(), strict=True))


def explained_variance(predicted: Tensor, target: Tensor) -> float | None:
    """1 - Var(target - predicted) / Var(target): 1 is perfect, 0 no better than a constant; None if the target is constant."""
    spread = target.var(correction=0)
    if not float(spread) > 0:
        return None
    return float(1 - (target - predicted).var(correction=0) / spread)
