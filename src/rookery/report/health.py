"""Healthy ranges of metrics, and the alarms of the live panel.

An alarm depends on the state of the training, see `Alarms.of`: a metric that leaves its range for one iteration, at the
start, or because learning has ended as planned, has none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from statistics import median

from rookery.report.results import IterationResult, Number

HEALTHY: dict[str, tuple[float | None, float | None]] = {
    "kl": (0.001, 0.03),
    "clip_fraction": (0.02, 0.3),
    "explained_variance": (0.0, None),
    "skipped_steps": (None, 0.0),
}
"""Healthy range of a metric, lowest to highest; None = no limit on that side. docs/algorithms explains them."""

SPAN = 10
"""Number of iterations whose median is compared with a range; without as many there is no alarm."""

ANNEALED = 0.1
"""Share of its largest value below which a learning rate or clip range counts as annealed."""


class Alarms:
    """Metrics of each policy that are outside their healthy range now."""

    def __init__(self) -> None:
        self._recent: dict[str, deque[Mapping[str, Number]]] = {}
        self._largest: dict[tuple[str, str], float] = {}
        self._alike = False

    def update(self, result: IterationResult) -> None:
        """Adds the result of an iteration."""
        self._alike = result.return_min is not None and result.return_min == result.return_max
        for name, policy in result.policies.items():
            if not policy.learning:
                continue
            self._recent.setdefault(name, deque(maxlen=SPAN)).append(policy.learning)
            for key in ("lr", "clip"):
                value = policy.learning.get(key) or 0.0
                self._largest[name, key] = max(self._largest.get((name, key), 0.0), value)

    def of(self, policy: str) -> list[str]:
        """Returns the metrics of a policy that are outside their range, in the order of `HEALTHY`.

        Skipped steps count at once; of the others the median of the last `SPAN` iterations. While the learning rate or
        the clip range is annealed, and if all last episodes have equal returns, so that there is nothing to learn, only
        values that are too large count.
        """
        rows = self._recent.get(policy)
        if not rows:
            return []
        if len(rows) < SPAN:
            return ["skipped_steps"] if unhealthy("skipped_steps", rows[-1].get("skipped_steps")) else []
        found = []
        annealed = any(self._annealed(policy, key) for key in ("lr", "clip"))
        for key, (_, high) in HEALTHY.items():
            values = [value for row in rows if (value := row.get(key)) is not None]
            if not values:
                continue
            value = max(values) if key == "skipped_steps" else median(values)
            is_expected = (annealed or self._alike) and (high is None or value <= high)
            is_expected |= annealed and key == "clip_fraction"  # a narrow clip range is left more often
            if unhealthy(key, value) and not is_expected:
                found.append(key)
        return found

    def _annealed(self, policy: str, key: str) -> bool:
        """Returns whether a learning rate or clip range is below `ANNEALED` of its largest value."""
        value, largest = self._recent[policy][-1].get(key), self._largest[policy, key]
        return value is not None and largest > 0 and value < ANNEALED * largest


def unhealthy(metric: str, value: Number) -> bool:
    """Returns whether a metric is outside its healthy range."""
    low, high = HEALTHY.get(metric, (None, None))
    return value is not None and ((low is not None and value < low) or (high is not None and value > high))


def range_text(metric: str) -> str:
    """Returns the healthy range of a metric as text: ``0.001 to 0.03``, ``at least 0``."""
    low, high = HEALTHY[metric]
    if low is None:
        return f"at most {high:g}"
    return f"at least {low:g}" if high is None else f"{low:g} to {high:g}"
