"""`MetricsLogger`: numbers that callbacks log, reduced once per iteration."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rookery.face import ConfigError, nearest

EMA = 0.01
"""Weight of a new value in an exponential moving average."""

REDUCTIONS = ("ema", "mean", "min", "max", "sum", "lifetime_sum", "item", "item_series", "percentiles")

PERCENTILES = (0, 50, 75, 90, 95, 99, 100)

Key = str | tuple[str, ...]


class Stats:
    """Values of one key.

    Args:
        reduce: How they become one number.
        window: Number of latest values that count; None = those since the last reduction.
        ema_coeff: Weight of a new value in an average.
        percentiles: Percentiles of the values.
    """

    def __init__(self, reduce: str, window: int | None, ema_coeff: float, percentiles: tuple[float, ...]) -> None:
        self.reduce, self.window, self.ema_coeff, self.percentiles = reduce, window, ema_coeff, percentiles
        self.values: list[Any] = []

    def push(self, value: Any) -> None:
        value = value.item() if hasattr(value, "item") and np.ndim(value) == 0 else value
        if self.reduce == "ema" and self.values:
            value = (1 - self.ema_coeff) * self.values[-1] + self.ema_coeff * value
        if self.reduce in ("ema", "item"):
            self.values = [value]
        elif self.reduce == "lifetime_sum":
            self.values = [sum(self.values) + value]
        else:
            self.values.append(value)
        if self.window is not None:
            self.values = self.values[-int(self.window) :]

    def peek(self) -> Any:
        """Returns the number; NaN without a value, lists for ``item_series`` and ``percentiles``."""
        if self.reduce == "item_series":
            return list(self.values)
        if self.reduce == "percentiles":
            found = np.percentile(self.values, self.percentiles) if self.values else [float("nan")] * 7
            return dict(zip(self.percentiles, map(float, found), strict=False))
        if self.reduce in ("sum", "lifetime_sum"):
            return sum(self.values)
        if not self.values:
            return float("nan")
        if self.reduce in ("min", "max"):
            return min(self.values) if self.reduce == "min" else max(self.values)
        return float(np.nanmean(self.values)) if self.reduce == "mean" else self.values[-1]

    def taken(self) -> Any:
        """Returns the number for a result; values without a window begin anew."""
        found = self.peek()
        if self.window is None and self.reduce not in ("ema", "item", "lifetime_sum"):
            self.values = []
        return found


class MetricsLogger:
    """Numbers by key; a key may be a tuple, of nested keys of a result."""

    def __init__(self, root: bool = True, **others: Any) -> None:
        self.stats: dict[tuple[str, ...], Stats] = {}

    def log_value(
        self,
        key: Key,
        value: Any,
        *,
        reduce: str | None = None,
        window: float | None = None,
        ema_coeff: float | None = None,
        percentiles: Any = None,
        clear_on_reduce: bool | None = None,
        with_throughput: bool | None = None,
        **others: Any,
    ) -> None:
        """Logs a value.

        Args:
            key: The key, or a tuple of nested keys.
            value: A number, or any object for ``item`` and ``item_series``.
            reduce: One of `REDUCTIONS`; None = ``mean`` with a window, else ``ema``.
            window: Number of latest values that count; None = those since the last result.
            ema_coeff: Weight of a new value in an average; 0.01 by default.
            percentiles: Percentiles to compute, or True.
            clear_on_reduce: Of earlier releases: False makes a sum one over all iterations, True a mean one of an
                iteration.
            with_throughput: Has no meaning here.
            others: Have no meaning here.

        Raises:
            ConfigError: If there is no such reduction.
        """
        place = (key,) if isinstance(key, str) else tuple(map(str, key))
        known = self.stats.get(place)
        if known is None:
            if percentiles:
                reduce = "percentiles"
            if reduce is None:
                reduce = "mean" if window is not None else "item_series" if clear_on_reduce else "ema"
            if reduce not in REDUCTIONS:
                raise ConfigError(
                    f"log_value({key!r}): reduce = {reduce!r}: must be one of {', '.join(REDUCTIONS)}"
                    f"{nearest(str(reduce), REDUCTIONS)}"
                )
            if reduce == "sum" and clear_on_reduce is False:
                reduce = "lifetime_sum"
            wanted = tuple(percentiles) if isinstance(percentiles, list | tuple) else PERCENTILES
            size = None if window is None or window == float("inf") else int(window)
            known = self.stats[place] = Stats(reduce, size, EMA if ema_coeff is None else ema_coeff, wanted)
        known.push(value)

    def log_dict(self, value_dict: Mapping[str, Any], *, key: Key | None = None, **how: Any) -> None:
        """Logs the values of a dict; a nested dict gives nested keys. Arguments are those of `log_value`."""
        above = () if key is None else (key,) if isinstance(key, str) else tuple(key)
        for name, value in value_dict.items():
            if isinstance(value, Mapping):
                self.log_dict(value, key=(*above, str(name)), **how)
            else:
                self.log_value((*above, str(name)), value, **how)

    @contextlib.contextmanager
    def log_time(self, key: Key, **how: Any) -> Iterator[None]:
        """Logs the seconds that a block takes."""
        began = time.perf_counter()
        yield
        self.log_value(key, time.perf_counter() - began, **how)

    def peek(self, key: Key | None = None, default: Any = ..., compile: bool = True) -> Any:
        """Returns the current number of a key, or of all keys as nested dicts; raises a KeyError for another key."""
        if key is None:
            return _nested({place: stats.peek() for place, stats in self.stats.items()})
        place = (key,) if isinstance(key, str) else tuple(map(str, key))
        if place in self.stats:
            return self.stats[place].peek()
        inside = {path[len(place) :]: stats.peek() for path, stats in self.stats.items() if path[: len(place)] == place}
        if inside:
            return _nested(inside)
        if default is ...:
            raise KeyError(key)
        return default

    def reduce(self, compile: bool = True) -> dict[str, Any]:
        """Returns all numbers as nested dicts, and begins the next iteration."""
        return _nested({place: stats.taken() for place, stats in self.stats.items()})

    compile = reduce

    def set_value(self, key: Key, value: Any, **how: Any) -> None:
        """Replaces the values of a key."""
        self.delete(key, key_error=False)
        self.log_value(key, value, **how)

    def delete(self, *key: Any, key_error: bool = True) -> None:
        """Removes a key; raises a KeyError if there is none."""
        place = tuple(map(str, key[0] if len(key) == 1 and isinstance(key[0], tuple) else key))
        if self.stats.pop(place, None) is None and key_error:
            raise KeyError(key)

    def reset(self) -> None:
        self.stats = {}

    def __contains__(self, key: Key) -> bool:
        return ((key,) if isinstance(key, str) else tuple(map(str, key))) in self.stats


def _nested(flat: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for place, value in flat.items():
        inside = found
        for name in place[:-1]:
            inside = inside.setdefault(name, {})
        inside[place[-1]] = value
    return found
