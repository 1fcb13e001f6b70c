"""Timers of blocks of code, and statistics over a window of values."""

from __future__ import annotations

import time
from collections import deque
from types import TracebackType
from typing import Any

import numpy as np


class TimerStat:
    def __init__(self, window_size: int = 10) -> None:
        self._samples: deque[float] = deque(maxlen=window_size)
        self._units: deque[float] = deque(maxlen=window_size)
        self._start_time: float | None = None
        self._total_time = 0.0
        self.count = 0

    def __enter__(self) -> TimerStat:
        if self._start_time is not None:
            raise RuntimeError("this timer runs already; use one for each block")
        self._start_time = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._start_time is not None
        self.push(time.perf_counter() - self._start_time)
        self._start_time = None

    def push(self, time_delta: float) -> None:
        self._samples.append(time_delta)
        self._total_time += time_delta
        self.count += 1

    def push_units_processed(self, n: float) -> None:
        self._units.append(n)

    def has_units_processed(self) -> bool:
        return bool(self._units)

    @property
    def mean(self) -> float:
        return float(np.mean(self._samples)) if self._samples else 0.0

    @property
    def mean_units_processed(self) -> float:
        return float(np.mean(self._units)) if self._units else 0.0

    @property
    def mean_throughput(self) -> float:
        seconds = float(sum(self._samples))
        return float(sum(self._units)) / seconds if seconds else 0.0


class WindowStat:
    def __init__(self, name: str, n: int) -> None:
        self.name = name
        self.items: deque[float] = deque(maxlen=n)
        self.count = 0

    def push(self, obj: float) -> None:
        self.items.append(obj)
        self.count += 1

    def stats(self) -> dict[str, Any]:
        values = np.array([value for value in self.items if not np.isnan(value)], np.float64)
        nothing = float("nan")
        return {
            f"{self.name}_count": self.count,
            f"{self.name}_mean": float(values.mean()) if len(values) else nothing,
            f"{self.name}_std": float(values.std()) if len(values) else nothing,
            f"{self.name}_quantiles": np.percentile(values, [0, 10, 50, 90, 100]).tolist() if len(values) else [],
        }
