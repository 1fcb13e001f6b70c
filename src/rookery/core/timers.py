"""Timers: a tree of timers labelled with the functions on the main path (docs/map.md), and the clock of a training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from types import TracebackType
from typing import Any

PLACES = {
    "train_iteration": "rookery.run.trainer:Trainer.train_iteration",
    "sample": "rookery.rollout.worker:RolloutWorker.sample",
    "play_ahead": "rookery.rollout.pool:LocalPool.play_ahead",
    "workers": "rookery.rollout.remote.remote_pool:RemotePool._answer",
    "workers.wait": "rookery.rollout.remote.remote_pool:RemotePool._wait_for self.hosts.ready",
    "workers.fetch": "rookery.rollout.remote.remote_pool:RemotePool._answer self.hosts.result",
    "workers.join": "rookery.rollout.remote.remote_pool:RemotePool._ready joined",
    "env.reset": "rookery.rollout.worker:RolloutWorker.reset self.env.reset",
    "fragments": "rookery.rollout.worker:RolloutWorker.sample self.fast_loop.play",
    "act": "rookery.rollout.loops.python:act",
    "env.step": "rookery.rollout.loops.python:PythonLoop.play env.step",
    "wait": "rookery.envs.async_copies.async_env:AsyncCopiesEnv.step self._copies.step_messages",
    "record": "rookery.rollout.loops.python:record",
    "training_step": "rookery.algorithms.algorithm:Algorithm.training_step",
    "learn": "rookery.algorithms.algorithm:Algorithm.learn",
    "set_weights": "rookery.rollout.worker:RolloutWorker.set_weights",
    "evaluate": "rookery.run.trainer:Trainer.evaluate",
}
"""Function of each label: ``module:function``, or a call in it, ``module:function self.env.step``. `training_step`
refers to the run's own algorithm if that is known.
"""


@dataclass(frozen=True)
class TimerRow:
    """One node of the tree, for output.

    Attributes:
        depth: Number of its ancestors.
        label: Its name.
        seconds: Time spent in it.
        share: Its part of the time of its parent, in [0, 1].
        count: Number of times it was entered.
    """

    depth: int
    label: str
    seconds: float
    share: float
    count: int


class Timer:
    """Node of the tree; entering it while another timer runs makes it a child of that timer.

    ``with timers["sample"]:`` costs about half a microsecond.
    """

    __slots__ = ("_parent", "_start", "_tree", "children", "count", "seconds")

    def __init__(self, tree: Timers, parent: Timer | None) -> None:
        self._tree = tree
        self._parent = parent
        self._start = 0.0
        self.seconds = 0.0
        self.count = 0
        self.children: dict[str, Timer] = {}

    def __enter__(self) -> Timer:
        self._tree.current = self
        self._start = perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds += perf_counter() - self._start
        self.count += 1
        assert self._parent is not None
        self._tree.current = self._parent

    def add(self, label: str, seconds: float, times: int = 1) -> None:
        """Adds seconds and calls that were measured elsewhere."""
        node = self.children.get(label)
        if node is None:
            node = self.children[label] = Timer(self._tree, self)
        node.seconds += seconds
        node.count += times

    def as_dict(self) -> dict[str, Any]:
        """Returns seconds, calls and children, ready for JSON."""
        inner = {name: child.as_dict() for name, child in self.children.items()}
        return {"seconds": round(self.seconds, 6), "count": self.count, **({"children": inner} if inner else {})}

    def include(self, other: Timer, part: float = 1.0) -> None:
        """Adds the seconds (or a fraction of them) and calls of `other` and of its descendants to this tree."""
        self.seconds += part * other.seconds
        self.count += other.count
        for name, child in other.children.items():
            self.children.setdefault(name, Timer(self._tree, self)).include(child, part)

    def load(self, state: dict[str, Any]) -> None:
        """Restores the result of `as_dict`."""
        self.seconds, self.count = state["seconds"], state["count"]
        for name, inner in state.get("children", {}).items():
            child = self.children[name] = Timer(self._tree, self)
            child.load(inner)


class Timers:
    """The tree; ``timers[label]`` is the child of the running timer."""

    def __init__(self) -> None:
        self.root = Timer(self, None)
        self.current = self.root

    def __getitem__(self, label: str) -> Timer:
        here = self.current
        node = here.children.get(label)
        if node is None:
            node = here.children[label] = Timer(self, here)
        return node

    def include(self, other: Timers) -> None:
        """Adds the counts of another tree, for example of another thread; its labels become children of this root."""
        self.root.include(other.root)

    def rows(self) -> list[TimerRow]:
        """Returns every node, a parent before its children, the slowest child first."""
        rows: list[TimerRow] = []

        def walk(node: Timer, depth: int) -> None:
            total = node.seconds or sum([child.seconds for child in list(node.children.values())])
            for name, child in sorted(node.children.items(), key=lambda item: -item[1].seconds):
                share = child.seconds / total if total else 0.0
                rows.append(TimerRow(depth, name, child.seconds, share, child.count))
                walk(child, depth + 1)

        walk(self.root, 0)
        return rows

    def tree(self) -> str:
        """Returns the tree as lines: label, seconds, share of its parent, calls."""
        return "\n".join(
            f"{'  ' * row.depth + row.label:<32}{row.seconds:>10.2f} s{100 * row.share:>6.1f} %{row.count:>10} x"
            for row in self.rows()
        )

    def state_dict(self) -> dict[str, Any]:
        """Returns the whole tree."""
        return self.root.as_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues counting from `state`."""
        self.root.children.clear()
        self.root.load(state)
        self.current = self.root


class Clock:
    """Measures wall time in consecutive laps, without gaps while a training runs.

    Writing checkpoints, evaluations, callbacks and reports are part of the time. While no training runs, a lap begins
    where it is said to.
    """

    def __init__(self) -> None:
        self._since = 0.0
        self._held: float | None = None
        self._running = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Context in which laps follow each other without a gap."""
        self._since, self._running = perf_counter(), True
        try:
            yield
        finally:
            self._running = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Context whose time is excluded because the caller of a generator has control."""
        self._held = began = perf_counter()
        try:
            yield
        finally:
            self._since += perf_counter() - began
            self._held = None

    @property
    def is_held(self) -> bool:
        """Whether the clock is held."""
        return self._held is not None

    def passed(self) -> float:
        """Returns the seconds of the lap so far; may be called from another thread."""
        return (self._held or perf_counter()) - self._since

    def begin(self) -> None:
        """Begins a lap now, unless a training runs, where each lap begins at the end of the previous one."""
        if not self._running:
            self._since = perf_counter()

    def lap(self) -> float:
        """Ends a lap, and returns its length in seconds."""
        now = perf_counter()
        length, self._since = now - self._since, now
        return length
