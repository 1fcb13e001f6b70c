"""Heartbeats of workers and trials on a Ray cluster, sent through the key-value store of the cluster.

A process sends one every second, from a thread of its own, and with it the state of its work. The driver reads them, in
a thread of its own too, only while it waits for the process; so neither work nor the driver ever waits for the store. A
process that is frozen sends nothing, and one whose work hangs sends that it still does the same
(`core/process/activity.py`). Orders go the other way, for work that can be asked to stop early. This module needs Ray.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any

from ray.experimental import internal_kv

from rookery.core.process.heartbeats import HEARTBEAT_SECONDS

NAMESPACE = b"rookery"

ORDERS = b":orders"
"""Suffix of the key of the commands for a process; the key without it is that of its heartbeats."""


def new_key() -> str:
    """Returns a key for the heartbeats of a process that no other process has."""
    return f"heartbeats-{secrets.token_hex(8)}"


def store_heartbeats(
    key: str, state: Callable[[], Any] = lambda: None, obey: Callable[[Any], None] | None = None
) -> None:
    """Sends heartbeats of this process from now on, in a thread that ends with the process.

    Args:
        key: Their key in the store.
        state: Returns the state of its work, as plain lists, mappings, numbers and text; called in the thread.
        obey: Called in the thread with the orders of `HeartbeatMonitor.order` whenever these have changed.
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
            pause.wait(HEARTBEAT_SECONDS)

    pause = threading.Event()
    threading.Thread(target=send, name="rookery: heartbeats", daemon=True).start()


@dataclass
class LastHeartbeat:
    """The latest heartbeat read from a process.

    Attributes:
        since: When it was read first; before the first heartbeat, when it was first looked for.
        answered_at: Time of the store's last answer.
        count: Its number; 0 before the first one.
        state: The state of its work; None before the first heartbeat.
    """

    since: float
    answered_at: float
    count: int = 0
    state: Any = None

    @property
    def silence(self) -> float:
        """Seconds without a heartbeat, up to the store's last answer."""
        return self.answered_at - self.since


class HeartbeatMonitor:
    """Reads the heartbeats of processes, as long as `latest` is called."""

    def __init__(self) -> None:
        self._latest: dict[str, LastHeartbeat] = {}
        self._wanted: set[str] = set()
        self._until = 0.0
        self._orders: dict[str, Any] = {}
        self._wake = threading.Event()
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def latest(self, keys: Iterable[str]) -> Mapping[str, LastHeartbeat]:
        """Returns the last heartbeats of processes by key, and reads more for the next seconds.

        Args:
            keys: Keys of the processes; those that were never looked up are missing in the result.
        """
        now = monotonic()
        if now > self._until:  # this was not called for a while: silence counts from here on
            self._latest = {}
        self._wanted, self._until = set(keys), now + 5 * HEARTBEAT_SECONDS
        self._work()
        return dict(self._latest)

    def order(self, orders: Mapping[str, Any]) -> None:
        """Sends commands to processes.

        Args:
            orders: By key, the argument of `obey` in `store_heartbeats` there; plain lists, mappings, numbers and text.
        """
        self._orders = {**self._orders, **orders}
        self._work()

    def forget(self, key: str) -> None:
        """Removes a process that is gone from the store, without waiting."""
        self._wanted.discard(key)
        self.order({key: None})

    def close(self) -> None:
        """Ends the thread, and waits a second at most until the last commands are sent."""
        self._is_closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(HEARTBEAT_SECONDS)

    def _work(self) -> None:
        """Starts the thread on demand, and wakes it up for new commands."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="rookery: heartbeat monitor", daemon=True)
            self._thread.start()
        if self._orders:
            self._wake.set()

    def _run(self) -> None:
        while True:
            with suppress(Exception):  # of a cluster whose head is gone: the known state stays
                self._look()
            if self._is_closed:
                return
            self._wake.wait(HEARTBEAT_SECONDS)
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
        latest = self._latest  # `latest` makes another one if it was not called for a while
        for key in list(self._wanted):
            found, now = _get(key.encode()), monotonic()
            before = latest.get(key)
            if before is None:
                latest[key] = before = LastHeartbeat(now, now)
            before.answered_at = now
            if found is not None and found[0] != before.count:
                latest[key] = LastHeartbeat(now, now, *found)


def _put(key: bytes, value: Any) -> None:
    internal_kv._internal_kv_put(key, json.dumps(value).encode(), overwrite=True, namespace=NAMESPACE)


def _get(key: bytes) -> Any:
    found = internal_kv._internal_kv_get(key, namespace=NAMESPACE)
    return None if found is None else json.loads(found)
