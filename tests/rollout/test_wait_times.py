"""Waiting times, by a clock that the test moves by hand."""

from __future__ import annotations

import pytest

from rookery.core.timers import Timers
from rookery.rollout.remote.wait_times import ANSWERS, WaitTimes


class ClockByHand:
    """Returns the seconds that it is set to."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_a_worker_is_idle_for_what_it_does_not_play():
    clock = ClockByHand()
    waiting = WaitTimes(Timers(), clock)
    waiting.requested(0)
    waiting.requested(1)
    clock.now += 4.0
    waiting.answered(0, 1.0)
    waiting.answered(1, 4.0)
    assert waiting.idle() == {0: 0.75, 1: 0.0}
    clock.now += 4.0  # it has no order: that is idle too
    waiting.requested(0)
    clock.now += 2.0
    waiting.answered(0, 2.0)
    assert waiting.idle()[0] == pytest.approx(0.7)
    waiting.lost(0)
    assert waiting.idle() == {1: 0.0}


def test_only_the_latest_answers_count():
    clock = ClockByHand()
    waiting = WaitTimes(Timers(), clock)
    waiting.requested(0)
    for number in range(2 * ANSWERS):
        clock.now += 1.0
        waiting.answered(0, 0.0 if number < ANSWERS else 1.0)
    assert waiting.idle() == {0: 0.0}


def test_seconds_stand_in_the_timer_tree_too():
    timers = Timers()
    waiting = WaitTimes(timers)
    with timers["workers"]:
        for _ in range(3):
            with waiting.wait():
                pass
    (child,) = timers.root.children["workers"].children.items()
    assert (child[0], child[1].count) == ("workers.wait", 3)
    assert waiting.seconds["wait"] == pytest.approx(child[1].seconds)
    assert waiting.seconds["fetch"] == 0.0
