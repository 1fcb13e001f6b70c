"""Filters of observations: running means and standard deviations, and how copies of them are merged."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from rookery.face import ConfigError, nearest
from rookery_rllib.base import ray_core


class Filter:
    def __call__(self, x: Any, update: bool = True) -> Any:
        raise NotImplementedError

    def apply_changes(self, other: Any, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError

    def copy(self) -> Filter:
        raise NotImplementedError

    def sync(self, other: Any) -> None:
        raise NotImplementedError

    def clear_buffer(self) -> None:
        raise NotImplementedError

    def as_serializable(self) -> Filter:
        raise NotImplementedError


class NoFilter(Filter):
    is_concurrent = True

    def __init__(self, *args: Any) -> None:
        pass

    def __call__(self, x: Any, update: bool = True) -> Any:
        return x if isinstance(x, dict | tuple) else np.asarray(x)

    def apply_changes(self, other: Any, *args: Any, **kwargs: Any) -> None: ...

    def copy(self) -> NoFilter:
        return self

    def sync(self, other: Any) -> None: ...

    def clear_buffer(self) -> None: ...

    def as_serializable(self) -> NoFilter:
        return self


class RunningStat:
    """Count, mean and sum of squared differences of the values so far (Welford 1962; batches: Chan et al. 1979)."""

    def __init__(self, shape: Any = ()) -> None:
        self._n = 0
        self._M = np.zeros(shape if shape is not None else ())
        self._S = np.zeros_like(self._M)

    def copy(self) -> RunningStat:
        other = RunningStat(self.shape)
        other._n, other._M, other._S = self._n, self._M.copy(), self._S.copy()
        return other

    def push(self, x: Any) -> None:
        self.push_batch(np.asarray(x)[None])

    def push_batch(self, values: np.ndarray) -> None:
        """Adds values ``[N, *shape]``."""
        if values.shape[1:] != self._M.shape:
            raise ValueError(f"a value has shape {values.shape[1:]}, expected {self._M.shape}")
        if len(values):
            other = RunningStat(self.shape)
            other._n, other._M = len(values), values.mean(axis=0, dtype=np.float64)
            other._S = np.square(values - other._M).sum(axis=0)
            self.update(other)

    def update(self, other: RunningStat) -> None:
        total = self._n + other._n
        if other._n:
            apart = other._M - self._M
            self._S = np.asarray(self._S + other._S + np.square(apart) * self._n * other._n / total)
            self._M = np.asarray(self._M + apart * other._n / total)
            self._n = total

    def __repr__(self) -> str:
        return f"(n={self.n}, mean_mean={np.mean(self.mean)}, mean_std={np.mean(self.std)})"

    @property
    def n(self) -> int:
        return self._n

    @property
    def mean(self) -> np.ndarray:
        return self._M

    @property
    def var(self) -> np.ndarray:
        """The variance; for fewer than two values, the square of the mean."""
        found: np.ndarray = self._S / (self._n - 1) if self._n > 1 else np.square(self._M)
        return found

    @property
    def std(self) -> np.ndarray:
        root: np.ndarray = np.sqrt(self.var)
        return root

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._M.shape)


class MeanStdFilter(Filter):
    is_concurrent = False

    def __init__(self, shape: Any, demean: bool = True, destd: bool = True, clip: float | None = 10.0) -> None:
        self.shape = shape
        self.demean = demean
        self.destd = destd
        self.clip = clip
        self.rs = RunningStat(shape)
        self.buffer = RunningStat(shape)

    def clear_buffer(self) -> None:
        self.buffer = RunningStat(self.shape)

    def apply_changes(self, other: Any, *args: Any, **kwargs: Any) -> None:
        self.rs.update(other.buffer)
        if args[0] if args else kwargs.get("with_buffer", False):
            self.buffer = other.buffer.copy()

    def copy(self) -> MeanStdFilter:
        other = type(self)(self.shape)
        other.sync(self)
        return other

    def as_serializable(self) -> MeanStdFilter:
        other = MeanStdFilter(self.shape)
        other.sync(self)
        return other

    def sync(self, other: Any) -> None:
        if other.shape != self.shape:
            raise ValueError(f"filters of shapes {self.shape} and {other.shape} cannot be merged")
        self.demean, self.destd, self.clip = other.demean, other.destd, other.clip
        self.rs, self.buffer = other.rs.copy(), other.buffer.copy()

    def __call__(self, x: Any, update: bool = True) -> Any:
        """Returns filtered observations, one ``[*shape]`` or a batch ``[N, *shape]``."""
        values = np.asarray(x)
        if update:
            batch = values if values.ndim == len(self.rs.shape) + 1 else values[None]
            self.rs.push_batch(batch)
            self.buffer.push_batch(batch)
        if self.demean:
            values = values - self.rs.mean
        if self.destd:
            values = values / (self.rs.std + 1e-8)
        return np.clip(values, -self.clip, self.clip) if self.clip else values

    def __repr__(self) -> str:
        facts = (self.shape, self.demean, self.destd, self.clip, self.rs, self.buffer)
        return f"{type(self).__name__}({', '.join(map(str, facts))})"


class ConcurrentMeanStdFilter(MeanStdFilter):
    is_concurrent = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lock = threading.RLock()

    def __call__(self, x: Any, update: bool = True) -> Any:
        with self._lock:
            return super().__call__(x, update)

    def apply_changes(self, other: Any, *args: Any, **kwargs: Any) -> None:
        with self._lock:
            super().apply_changes(other, *args, **kwargs)

    def sync(self, other: Any) -> None:
        with self._lock:
            super().sync(other)

    def clear_buffer(self) -> None:
        with self._lock:
            super().clear_buffer()


def get_filter(filter_config: Any, shape: Any) -> Filter:
    known: dict[str, Callable[[], Filter]] = {
        "NoFilter": NoFilter,
        "MeanStdFilter": lambda: MeanStdFilter(shape, clip=None),
        "ConcurrentMeanStdFilter": lambda: ConcurrentMeanStdFilter(shape, clip=None),
    }
    if isinstance(filter_config, str) and filter_config in known:
        return known[filter_config]()
    if callable(filter_config):
        made: Filter = filter_config(shape)
        return made
    hint = nearest(str(filter_config), list(known))
    raise ConfigError(
        f"observation_filter is {filter_config!r}{hint}; use {', '.join(known)} or a function of the shape"
    )


class FilterManager:
    @staticmethod
    def synchronize(local_filters: Mapping[Any, Filter], remotes: Iterable[Any], update_remote: bool = True) -> None:
        workers = list(remotes)
        for worker in workers:
            seen = _called(worker.get_filters, flush_after=True)
            for name, one in local_filters.items():
                one.apply_changes(seen[name], with_buffer=False)
        for worker in workers if update_remote else ():
            _called(worker.sync_filters, {name: one.as_serializable() for name, one in local_filters.items()})


def _called(method: Any, *args: Any, **kwargs: Any) -> Any:
    if not hasattr(method, "remote"):
        return method(*args, **kwargs)
    return ray_core.get(method.remote(*args, **kwargs))
