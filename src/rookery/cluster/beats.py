"""Beats of processes on a Ray cluster, sent and read through the key-value store of the cluster.

A process sends the state of its work once a second, from a thread of its own. The driver reads it, in a thread of its
own too, only while it waits for the process; so neither work nor the driver ever waits for the store. A process that is
frozen sends nothing, and one whose work hangs sends that the work has made no progress. Orders go the other way, for
work that can be asked to stop early. This module needs Ray.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any

from ray.experimental import internal_kv

BEAT_SECONDS = 1.0
"""Between two beats of a process, and between two looks at them."""

NAMESPACE = b"rookery"

ORDERS = b":orders"
"""Ends the key of the orders for a process; the key without it is that of its beats."""


def send_beats(key: str, state: Callable[[], Any], obey: Callable[[Any], None] | None = None) -> None:
    """Sends beats of this process from now on, in a thread that ends with the process.

    Args:
        key: Under which they are found; no other process uses it.
        state: Returns what the process is at, as plain lists, mappings, numbers and text; called in the thread.
        obey: Called in the thread with the orders of `BeatReader.order` whenever these have changed.
    """

    def send() -> None:
        count, last = 0, None
        while True:
            count += 1
            with suppress(Exception):  # of a cluster whose head is gone or restarts
                _put(key.encode(), [count, state()])
                if obey is not None and (orders := _get(key.encode() + ORDERS)) not in (None, last):
                    obey(orders)
                    last = orders
            pause.wait(BEAT_SECONDS)

    pause = threading.Event()
    threading.Thread(target=send, name="rookery-beats", daemon=True).start()


@dataclass
class Heard:
    """What is known of a process.

    Attributes:
        since: When its latest beat was first read; before the first one, when it was first looked for.
        asked: When the store has answered last.
        count: Number of that beat; 0 before the first one.
        state: What the process was at then; None before the first one.
    """

    since: float
    asked: float
    count: int = 0
    state: Any = None

    @property
    def silence(self) -> float:
        """Seconds without a beat, as far as the store has answered."""
        return self.asked - self.since


class BeatReader:
    """Reads the beats of processes, while somebody wants to know."""

    def __init__(self) -> None:
        self._heard: dict[str, Heard] = {}
        self._wanted: set[str] = set()
        self._until = 0.0
        self._orders: dict[str, Any] = {}
        self._wake = threading.Event()
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def heard(self, keys: Iterable[str]) -> Mapping[str, Heard]:
        """Returns what is known of processes, and lets the thread look for more for the next seconds.

        Args:
            keys: Of the processes; those of which nothing is known yet are missing in what is returned.
        """
        now = monotonic()
        if now > self._until:  # nobody has looked for a while: silence counts from here on
            self._heard = {}
        self._wanted, self._until = set(keys), now + 5 * BEAT_SECONDS
        self._work()
        return dict(self._heard)

    def order(self, orders: Mapping[str, Any]) -> None:
        """Sends orders to processes.

        Args:
            orders: By key, what `send_beats` gives to `obey` there; plain lists, mappings, numbers and text.
        """
        self._orders = {**self._orders, **orders}
        self._work()

    def forget(self, key: str) -> None:
        """Removes a process that is gone from the store; waits for no answer."""
        self._wanted.discard(key)
        self.order({key: None})

    def close(self) -> None:
        """Ends the thread, and waits a second at most until the last orders are sent."""
        self._is_closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(BEAT_SECONDS)

    def _work(self) -> None:
        """Sees that the thread is there; it is started at the first need and wakes up at once for orders."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="rookery-beats", daemon=True)
            self._thread.start()
        if self._orders:
            self._wake.set()

    def _run(self) -> None:
        while True:
            with suppress(Exception):  # of a cluster whose head is gone: what is known stays as it is
                self._look()
            if self._is_closed:
                return
            self._wake.wait(BEAT_SECONDS)
            self._wake.clear()

    def _look(self) -> None:
        orders, self._orders = self._orders, {}
        for key, what in orders.items():
            if what is None:
                internal_kv._internal_kv_del(key.encode(), namespace=NAMESPACE)
                internal_kv._internal_kv_del(key.encode() + ORDERS, namespace=NAMESPACE)
            else:
                _put(key.encode() + ORDERS, what)
        if monotonic() > self._until:
            return
        heard = self._heard  # another one if nobody looks for a while
        for key in list(self._wanted):
            found, now = _get(key.encode()), monotonic()
            before = heard.get(key)
            if before is None:
                heard[key] = before = Heard(now, now)
            before.asked = now
            if found is not None and found[0] != before.count:
                heard[key] = Heard(now, now, *found)


def _put(key: bytes, value: Any) -> None:
    internal_kv._internal_kv_put(key, json.dumps(value).encode(), overwrite=True, namespace=NAMESPACE)


def _get(key: bytes) -> Any:
    found = internal_kv._internal_kv_get(key, namespace=NAMESPACE)
    return None if found is None else json.loads(found)
