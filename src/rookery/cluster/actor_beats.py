"""Heartbeats of actors of Ray: each is asked now and then, and answers in a thread of its own.

This module needs Ray.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import ray

from rookery.cluster.ray_waits import ready_of
from rookery.core import heartbeats

ASK_SECONDS = 5.0
"""Seconds between an answer and the next question."""


class ActorBeats:
    """The heartbeats of an actor.

    Args:
        actor: Ray's handle.
        ask: Calls a method of the actor that answers at once, whatever else it does; returns Ray's reference.

    Attributes:
        told: What is to be said of an actor that was frozen and is killed, behind its name; empty before.
    """

    def __init__(self, actor: Any, ask: Callable[[Any], Any]) -> None:
        self._actor, self._ask = actor, ask
        self._asked: Any = None
        self._silence, self._looked = 0.0, time.monotonic()
        self.told = ""

    def kill_if_frozen(self) -> None:
        """Kills the actor if it has not answered for `SILENT_SECONDS`, counted over calls of this function: call it
        often while the actor is at work.
        """
        now = time.monotonic()
        self._silence += min(now - self._looked, heartbeats.LONGEST_LOOK)
        self._looked = now
        if self._asked is not None and ready_of([self._asked], 0.0):
            self._asked, self._silence = None, 0.0
        elif self._asked is None and self._silence >= ASK_SECONDS:
            self._asked = self._ask(self._actor)
        elif self._asked is not None and self._silence >= heartbeats.SILENT_SECONDS and not self.told:
            self.told = heartbeats.describe_frozen()
            ray.kill(self._actor)
