"""Filters of observations: running means and standard deviations, and how copies of them are brought together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from rookery.core.errors import ConfigError, nearest
from rookery_rllib.base import ray_core


class Filter:
    """A function of observations that may keep statistics of them."""

    def __call__(self, x: Any, update: bool = True) -> Any:
        """Returns the filtered observation; a class of a script says how."""
        raise NotImplementedError

    def apply_changes(self, other: Any, *args: Any, **kwargs: Any) -> None:
        """Takes in what another filter has seen since it was last asked."""
        raise NotImplementedError

    def copy(self) -> Filter:
        """Returns a filter with the same statistics."""
        raise NotImplementedError

    def sync(self, other: Any) -> None:
        """Takes over the statistics of another filter."""
        raise NotImplementedError

    def clear_buffer(self) -> None:
        """Forgets what was seen since the filter was last asked; the statistics stay."""
        raise NotImplementedError

    def as_serializable(self) -> Filter:
        """Returns a copy that can be sent to another process."""
        raise NotImplementedError


class NoFilter(Filter):
    """Observations as they are."""

    is_concurrent = True

    def __init__(self, *args: Any) -> None:
        pass

    def __call__(self, x: Any, update: bool = True) -> Any:
        """Returns the observation as an array; a dict or tuple as it is."""
        return x if isinstance(x, dict | tuple) else np.asarray(x)

    def apply_changes(self, other: Any, *args: Any, **kwargs: Any) -> None:
        """Does nothing."""

    def copy(self) -> NoFilter:
        """Returns this filter."""
        return self

    def sync(self, other: Any) -> None:
        """Does nothing."""

    def clear_buffer(self) -> None:
        """Does nothing."""

    def as_serializable(self) -> NoFilter:
        """Returns this filter."""
        return self


class RunningStat:
    """Count, mean and sum of squared differences of what was seen (Welford 1962; batches: Chan et al. 1979).

    Args:
        shape: Shape of one value.
    """

    def __init__(self, shape: Any = ()) -> None:
        self._n = 0
        self._M = np.zeros(shape if shape is not None else ())
        self._S = np.zeros_like(self._M)

    def copy(self) -> RunningStat:
        """Returns a copy."""
        other = RunningStat(self.shape)
        other._n, other._M, other._S = self._n, self._M.copy(), self._S.copy()
        return other

    def push(self, x: Any) -> None:
        """Adds one value.

        Raises:
            ValueError: If it has another shape.
        """
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
        """Adds all that another one has seen."""
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
        """The number of values."""
        return self._n

    @property
    def mean(self) -> np.ndarray:
        """The mean."""
        return self._M

    @property
    def var(self) -> np.ndarray:
        """The variance; of less than two values, the square of the mean."""
        found: np.ndarray = self._S / (self._n - 1) if self._n > 1 else np.square(self._M)
        return found

    @property
    def std(self) -> np.ndarray:
        """The standard deviation."""
        root: np.ndarray = np.sqrt(self.var)
        return root

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one value."""
        return tuple(self._M.shape)


class MeanStdFilter(Filter):
    """Observations minus their running mean, divided by their running standard deviation, and clipped.

    Args:
        shape: Shape of one observation.
        demean: Whether the mean is subtracted.
        destd: Whether they are divided by the standard deviation.
        clip: Largest size of what it gives; None = not clipped.

    Attributes:
        rs: Statistics of all that was seen.
        buffer: Statistics of what was seen since the buffer was cleared.
    """

    is_concurrent = False

    def __init__(self, shape: Any, demean: bool = True, destd: bool = True, clip: float | None = 10.0) -> None:
        self.shape = shape
        self.demean = demean
        self.destd = destd
        self.clip = clip
        self.rs = RunningStat(shape)
        self.buffer = RunningStat(shape)

    def clear_buffer(self) -> None:
        """Forgets what was seen since the buffer was last cleared; the statistics stay."""
        self.buffer = RunningStat(self.shape)

    def apply_changes(self, other: Any, *args: Any, **kwargs: Any) -> None:
        """Takes in the buffer of another filter.

        Args:
            other: The other filter.
            *args: First, whether this filter's buffer becomes the other's, too (false).
            **kwargs: The same by name, ``with_buffer``.
        """
        self.rs.update(other.buffer)
        if args[0] if args else kwargs.get("with_buffer", False):
            self.buffer = other.buffer.copy()

    def copy(self) -> MeanStdFilter:
        """Returns a filter with the same statistics."""
        other = type(self)(self.shape)
        other.sync(self)
        return other

    def as_serializable(self) -> MeanStdFilter:
        """Returns a copy that can be sent to another process."""
        other = MeanStdFilter(self.shape)
        other.sync(self)
        return other

    def sync(self, other: Any) -> None:
        """Takes over the statistics and settings of another filter.

        Raises:
            ValueError: If its observations have another shape.
        """
        if other.shape != self.shape:
            raise ValueError(f"filters of shapes {self.shape} and {other.shape} cannot be brought together")
        self.demean, self.destd, self.clip = other.demean, other.destd, other.clip
        self.rs, self.buffer = other.rs.copy(), other.buffer.copy()

    def __call__(self, x: Any, update: bool = True) -> Any:
        """Returns filtered observations, one or a batch.

        Args:
            x: ``[*shape]`` or ``[N, *shape]``.
            update: Whether the statistics take them in first.
        """
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
    """A `MeanStdFilter` that several threads may use at once."""

    is_concurrent = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lock = threading.RLock()

    def __call__(self, x: Any, update: bool = True) -> Any:
        """Returns filtered observations; see `MeanStdFilter`."""
        with self._lock:
            return super().__call__(x, update)

    def apply_changes(self, other: Any, *args: Any, **kwargs: Any) -> None:
        """Takes in the buffer of another filter; see `MeanStdFilter`."""
        with self._lock:
            super().apply_changes(other, *args, **kwargs)

    def sync(self, other: Any) -> None:
        """Takes over the statistics and settings of another filter."""
        with self._lock:
            super().sync(other)

    def clear_buffer(self) -> None:
        """Forgets what was seen since the buffer was last cleared."""
        with self._lock:
            super().clear_buffer()


def get_filter(filter_config: Any, shape: Any) -> Filter:
    """Returns the filter that a configuration names.

    Args:
        filter_config: ``NoFilter``, ``MeanStdFilter``, ``ConcurrentMeanStdFilter`` or a function of the shape.
        shape: Shape of one observation.

    Raises:
        ConfigError: If the name is unknown.
    """
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
    """What brings the filters of workers together."""

    @staticmethod
    def synchronize(local_filters: Mapping[Any, Filter], remotes: Iterable[Any], update_remote: bool = True) -> None:
        """Takes in what the workers' filters have seen, and gives them the statistics of all.

        Args:
            local_filters: Filters by policy.
            remotes: Workers with `get_filters` and `sync_filters`, called here or, by ``.remote``, elsewhere.
            update_remote: Whether the workers are given the statistics.
        """
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
