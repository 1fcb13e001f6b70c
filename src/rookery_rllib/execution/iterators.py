"""`LocalIterator`, the stream that execution plans are made of, with counters that all parts of a plan share.

A plan of 2021 is a chain of streams. Each item is computed when the last stream is asked for its next one, in this
process. A stream whose next item is not there yet, such as replay before learning starts, yields a
`_NextValueNotReady`, which every operation passes on, so that other streams of the plan proceed meanwhile.
"""

from __future__ import annotations

import random
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rookery.face import ConfigError
from rookery_rllib.base.running_statistics import TimerStat

Function = Callable[[Any], Any]

MOST_PULLED = 100
"""Limit of the items in a row of a stream with the weight ``*``."""


class MetricsContext:
    """Counters, timers and other values of a plan."""

    def __init__(self) -> None:
        self.counters: dict[str, int] = defaultdict(int)
        self.timers: dict[str, TimerStat] = defaultdict(TimerStat)
        self.info: dict[str, Any] = {}
        self.current_actor: Any = None

    def save(self) -> dict[str, Any]:
        return {"counters": dict(self.counters), "info": dict(self.info), "timers": []}

    def restore(self, values: Mapping[str, Any]) -> None:
        """Replaces counters and values by those of `save`; timers start anew."""
        self.counters = defaultdict(int, values["counters"])
        self.info = dict(values["info"])


class SharedMetrics:
    """The `MetricsContext` of a stream, which streams that are joined have in common."""

    def __init__(self, parents: Sequence[SharedMetrics] = ()) -> None:
        self._metrics = MetricsContext()
        self._root: SharedMetrics | None = None
        for parent in parents:
            parent.join(self)

    def root(self) -> SharedMetrics:
        """Returns the object that holds the context."""
        return self if self._root is None else self._root.root()

    def join(self, other: SharedMetrics) -> None:
        """Makes this one use the context of another one, to which the counters so far are added."""
        mine, theirs = self.root(), other.root()
        if mine is theirs:
            return
        for name, count in mine._metrics.counters.items():
            theirs._metrics.counters[name] += count
        theirs._metrics.info.update(mine._metrics.info)
        mine._root = theirs

    def get(self) -> MetricsContext:
        return self.root()._metrics

    def set(self, metrics: MetricsContext) -> None:
        self.root()._metrics = metrics


class _NextValueNotReady:
    """Stands for an item that is not there yet."""


class LocalIterator:
    """A stream of items; `base_iterator` is a function, called once, whose iterator the items come from."""

    _running = threading.local()

    def __init__(
        self,
        base_iterator: Callable[[], Iterable[Any]],
        shared_metrics: SharedMetrics | None = None,
        name: str = "LocalIterator",
    ) -> None:
        self.shared_metrics = SharedMetrics() if shared_metrics is None else shared_metrics
        self.name = name
        self._make = base_iterator
        self._items: Iterator[Any] | None = None

    def __class_getitem__(cls, item: Any) -> type[LocalIterator]:
        """Returns the class: annotations may name the type of its items."""
        return cls

    @classmethod
    def get_metrics(cls) -> MetricsContext:
        """Returns the counters of the running plan; raises a ValueError if none runs."""
        found: MetricsContext | None = getattr(cls._running, "metrics", None)
        if found is None:
            raise ValueError("get_metrics: no plan runs; call it in a function of for_each, filter or combine")
        return found

    @contextmanager
    def _as_running(self) -> Iterator[None]:
        before = getattr(self._running, "metrics", None)
        self._running.metrics = self.shared_metrics.get()
        try:
            yield
        finally:
            self._running.metrics = before

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        with self._as_running():
            if self._items is None:
                self._items = iter(self._make())
            return next(self._items)

    def __repr__(self) -> str:
        return self.name

    def _then(self, what: str, items: Callable[[], Iterable[Any]]) -> LocalIterator:
        """Returns a stream of other items with the same counters."""
        return LocalIterator(items, self.shared_metrics, f"{self.name}.{what}")

    # --- operations ---------------------------------------------------------------------------------------------------

    def transform(self, fn: Callable[[Iterable[Any]], Iterable[Any]]) -> LocalIterator:
        return self._then("transform()", lambda: fn(self))

    def for_each(self, fn: Function, max_concurrency: int = 1, resources: Any = None) -> LocalIterator:
        """Applies a function to each item; `max_concurrency` and `resources` have no effect. A method
        `_on_fetch_start` of a callable object is called before each item is requested.
        """
        begin = getattr(fn, "_on_fetch_start", None)

        def items() -> Iterator[Any]:
            while True:
                if begin is not None:
                    begin()
                try:
                    item = next(self)
                except StopIteration:
                    return
                yield item if isinstance(item, _NextValueNotReady) else fn(item)

        return self._then(f"for_each({_name_of(fn)})", items)

    def filter(self, fn: Function) -> LocalIterator:
        return self._then(
            f"filter({_name_of(fn)})",
            lambda: (item for item in self if isinstance(item, _NextValueNotReady) or fn(item)),
        )

    def flatten(self) -> LocalIterator:
        def items() -> Iterator[Any]:
            for item in self:
                if isinstance(item, _NextValueNotReady):
                    yield item
                else:
                    yield from item

        return self._then("flatten()", items)

    def combine(self, fn: Function) -> LocalIterator:
        """Applies a function that returns a list of items."""
        combined = self.for_each(fn).flatten()
        combined.name = f"{self.name}.combine({_name_of(fn)})"
        return combined

    def batch(self, n: int) -> LocalIterator:
        """Yields lists of n items; the last one may be shorter."""

        def items() -> Iterator[Any]:
            kept: list[Any] = []
            for item in self:
                if isinstance(item, _NextValueNotReady):
                    yield item
                    continue
                kept.append(item)
                if len(kept) >= n:
                    yield kept
                    kept = []
            if kept:
                yield kept

        return self._then(f"batch({n})", items)

    def shuffle(self, shuffle_buffer_size: int, seed: int | None = None) -> LocalIterator:
        """Yields the items in a random order: each one is drawn from the `shuffle_buffer_size` next ones."""

        def items() -> Iterator[Any]:
            rng, kept = random.Random(seed), []
            for item in self:
                if isinstance(item, _NextValueNotReady):
                    yield item
                    continue
                kept.append(item)
                if len(kept) >= shuffle_buffer_size:
                    yield kept.pop(rng.randrange(len(kept)))
            rng.shuffle(kept)
            yield from kept

        return self._then(f"shuffle({shuffle_buffer_size})", items)

    def take(self, n: int) -> list[Any]:
        """Returns the next n items, or as many as there are."""
        found: list[Any] = []
        for item in self if n else ():
            found.append(item)
            if len(found) >= n:
                break
        return found

    def duplicate(self, n: int) -> list[LocalIterator]:
        """Returns n streams of the same items, which are kept for those that have not read them yet. A stream that is
        two items ahead of another one yields `_NextValueNotReady`, so that the other one can follow.
        """
        if n < 2:
            raise ValueError(f"duplicate: n = {n}; a stream is duplicated into 2 or more")
        kept: list[deque[Any]] = [deque() for _ in range(n)]

        def items(number: int) -> Iterator[Any]:
            own = kept[number]
            while True:
                if len(own) < max(len(other) for other in kept) - 1:
                    yield _NextValueNotReady()
                    continue
                if not own:
                    try:
                        item = next(self)
                    except StopIteration:
                        return
                    if isinstance(item, _NextValueNotReady):
                        yield item
                        continue
                    for other in kept:
                        other.append(item)
                yield own.popleft()

        def reader(number: int) -> LocalIterator:
            return self._then(f"duplicate[{number}]", lambda: items(number))

        return [reader(number) for number in range(n)]

    def union(
        self, *others: LocalIterator, deterministic: bool = False, round_robin_weights: Sequence[Any] | None = None
    ) -> LocalIterator:
        """Returns one stream of the items of several, which are asked in turn until all have ended.

        Args:
            others: The further streams.
            deterministic: Has no effect: the order is always the same.
            round_robin_weights: Items of each stream in a row; ``"*"`` = as many as are there. None = one.
        """
        streams = [self, *others]
        for stream in streams:
            if not isinstance(stream, LocalIterator):
                raise ValueError(f"union: {stream!r} is no LocalIterator")
        weights = list(round_robin_weights or [1] * len(streams))
        if len(weights) != len(streams):
            raise ValueError(f"union: {len(weights)} weights for {len(streams)} streams; give one for each")
        shared = SharedMetrics([stream.shared_metrics for stream in streams])

        def items() -> Iterator[Any]:
            active = list(zip(streams, weights, strict=True))
            while active:
                for entry in list(active):
                    stream, weight = entry
                    for _ in range(MOST_PULLED if weight == "*" else int(weight)):
                        try:
                            item = next(stream)
                        except StopIteration:
                            active.remove(entry)
                            break
                        yield item
                        if isinstance(item, _NextValueNotReady):
                            break

        return LocalIterator(items, shared, f"union({', '.join(map(str, streams))})")


def next_result(plan: Iterator[Any]) -> Any:
    """Returns the next item of a plan that is there; raises a ConfigError if the plan has ended."""
    for item in plan:
        if not isinstance(item, _NextValueNotReady):
            return item
    raise ConfigError("execution_plan: the plan has ended: it must yield results for as long as it is asked")


def _name_of(fn: Any) -> str:
    return str(getattr(fn, "__name__", type(fn).__name__))
