"""A process that is silent counts as frozen; one that works, has ended, or was not looked at for long, does not."""

from __future__ import annotations

import socket

import pytest

from rookery.core.process import heartbeats
from rookery.core.process.heartbeats import Heartbeats, send_heartbeats


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def pass_by(self, seconds, beats):
        """Returns how many seconds go by until a process counts as frozen; None if so many are not enough."""
        for second in range(int(seconds)):
            self.now += 1.0
            if beats.is_frozen():
                return second + 1
        return None


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(heartbeats, "time", found)
    return found


@pytest.mark.regression("no end", "a learner or trial that is frozen was waited for without end")
def test_silence_counts_until_a_heartbeat_comes(clock):
    near, far = socket.socketpair()
    with near, far:
        beats = Heartbeats(near)
        assert clock.pass_by(59, beats) is None
        far.send(b"..")
        assert clock.pass_by(59, beats) is None
        assert clock.pass_by(9, beats) == 2


def test_time_in_which_nobody_looked_is_not_held_against_a_process(clock):
    near, far = socket.socketpair()
    with near, far:
        beats = Heartbeats(near)
        clock.now += 3600.0  # this process was frozen itself
        assert not beats.is_frozen()
        assert clock.pass_by(57, beats) is None


def test_a_process_that_computes_without_a_heartbeat_is_not_frozen(clock, monkeypatch):
    monkeypatch.setattr(heartbeats, "cpu_time", lambda process: f"{min(clock.now, 500.0)}")
    near, far = socket.socketpair()
    with near, far:
        assert clock.pass_by(700, Heartbeats(near, process=1)) == 555


def test_a_process_that_has_ended_is_not_frozen(clock):
    near, far = socket.socketpair()
    with near:
        far.close()
        assert clock.pass_by(100, Heartbeats(near)) is None


def test_heartbeats_are_sent_from_the_first_moment_on():
    near, far = socket.socketpair()
    with near, far:
        near.settimeout(10)
        send_heartbeats(far)
        assert near.recv(1) == b"."
