"""Waiting times of a run with remote workers: seconds of waiting, fetching, joining, and idle share of each worker."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import perf_counter

from torch import Tensor

from rookery.core.batch import Rollout
from rookery.core.timers import Timer, Timers

ANSWERS = 16
"""Latest answers of a worker over which its idle share is computed."""


class WaitTimes:
    """Counts waiting times of this process, and the idle time of each worker.

    Args:
        timers: Tree whose nodes `workers.wait`, `workers.fetch` and `workers.join` count the seconds too.
        clock: Returns seconds.
    """

    def __init__(self, timers: Timers, clock: Callable[[], float] = perf_counter) -> None:
        self._timers, self._clock = timers, clock
        self.seconds = dict.fromkeys(("wait", "fetch", "join"), 0.0)
        self.bytes = 0
        self._since: dict[int, float] = {}
        self._answers: dict[int, deque[tuple[float, float]]] = {}

    def wait(self) -> _Counted:
        """Returns a context in which this process waits for workers."""
        return _Counted(self, "wait", self._timers["workers.wait"])

    def fetch(self) -> _Counted:
        """Returns a context in which an available answer is fetched."""
        return _Counted(self, "fetch", self._timers["workers.fetch"])

    def join(self) -> _Counted:
        """Returns a context in which rollouts are joined."""
        return _Counted(self, "join", self._timers["workers.join"])

    def requested(self, worker: int) -> None:
        """Notes a request to a worker to play; its time is counted from the first call on."""
        self._since.setdefault(worker, self._clock())

    def answered(self, worker: int, playing: float) -> None:
        """Notes an answer of a worker, and the seconds that it has played since its last answer."""
        now = self._clock()
        passed = now - self._since.get(worker, now)
        self._answers.setdefault(worker, deque(maxlen=ANSWERS)).append((playing, passed))
        self._since[worker] = now

    def lost(self, worker: int) -> None:
        """Notes the loss of a worker; its replacement is counted from zero."""
        self._since.pop(worker, None)
        self._answers.pop(worker, None)

    def received(self, rollout: Rollout) -> None:
        """Counts the bytes of a received rollout."""

        def count(_: str, tensor: Tensor) -> Tensor:
            self.bytes += tensor.numel() * tensor.element_size()
            return tensor

        rollout.map(count)

    def idle(self) -> dict[int, float]:
        """Returns the share of its latest wall time, in [0, 1], in which each worker was idle."""
        shares = {}
        for worker, answers in sorted(self._answers.items()):
            playing, passed = (sum(numbers) for numbers in zip(*answers, strict=True))
            shares[worker] = min(max(1.0 - playing / max(passed, 1e-9), 0.0), 1.0)
        return shares

    def row(self) -> dict[str, float]:
        """Returns all waiting times by their names in a run's results."""
        seconds = {f"workers/{what}": round(value, 6) for what, value in self.seconds.items()}
        idle = {f"workers/idle/{worker}": round(share, 4) for worker, share in self.idle().items()}
        return {**seconds, "workers/bytes": self.bytes, **idle}


class _Counted:
    """Counts the seconds of a block, here and in the timer tree."""

    def __init__(self, waiting: WaitTimes, what: str, timer: Timer) -> None:
        self._waiting, self._what, self._timer = waiting, what, timer

    def __enter__(self) -> None:
        self._timer.__enter__()
        self._before = self._timer.seconds

    def __exit__(self, *error: object) -> None:
        self._timer.__exit__(None, None, None)
        self._waiting.seconds[self._what] += self._timer.seconds - self._before
