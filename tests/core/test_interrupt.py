"""The first Ctrl-C is a request, the second an order; SIGTERM and SIGHUP count as one."""

from __future__ import annotations

import signal
import threading

import pytest

from rookery.core.interrupt import Interrupt, Interrupted

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _not_under_nohup():
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", HANDLED)
def test_the_first_signal_is_noted_and_acted_on_when_asked(number):
    interrupt = Interrupt()
    with interrupt.watching():
        interrupt.check()  # nothing came
        signal.raise_signal(number)
        assert interrupt.number == number
        with pytest.raises(Interrupted, match=f"stopped by {signal.Signals(number).name}") as caught:
            interrupt.check()
    assert caught.value.signal == number
    assert isinstance(caught.value, KeyboardInterrupt)


@pytest.mark.parametrize("first", HANDLED)
@pytest.mark.parametrize("second", HANDLED[:2])
def test_the_second_signal_stops_at_once(first, second):
    interrupt = Interrupt()
    with interrupt.watching():
        signal.raise_signal(first)
        with pytest.raises(KeyboardInterrupt) as caught:
            signal.raise_signal(second)
    assert not isinstance(caught.value, Interrupted)


def test_a_terminal_that_closes_may_say_so_twice():
    interrupt = Interrupt()
    with interrupt.watching():
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGHUP)
        assert interrupt.number == signal.SIGHUP


def test_under_nohup_a_terminal_may_close():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        interrupt = Interrupt()
        with interrupt.watching():
            signal.raise_signal(signal.SIGHUP)
            assert interrupt.number is None
    finally:
        signal.signal(signal.SIGHUP, before)


def test_what_was_before_is_there_afterwards_whatever_happened():
    before = [signal.getsignal(number) for number in HANDLED]
    interrupt = Interrupt()
    with interrupt.watching():
        assert [signal.getsignal(number) for number in HANDLED] != before
    assert [signal.getsignal(number) for number in HANDLED] == before
    with pytest.raises(ZeroDivisionError), interrupt.watching():
        1 / 0  # noqa: B018
    assert [signal.getsignal(number) for number in HANDLED] == before


def test_a_signal_of_an_earlier_time_does_not_count():
    interrupt = Interrupt()
    with interrupt.watching():
        signal.raise_signal(signal.SIGINT)
    with interrupt.watching():
        interrupt.check()
        signal.raise_signal(signal.SIGINT)  # the first again
        assert interrupt.number == signal.SIGINT


def test_in_another_thread_nothing_is_watched():
    before = [signal.getsignal(number) for number in HANDLED]
    seen = []

    def watch():
        with Interrupt().watching():
            seen.append([signal.getsignal(number) for number in HANDLED])

    thread = threading.Thread(target=watch)
    thread.start()
    thread.join()
    assert seen == [before]


def test_watching_within_watching_forgets_no_request():
    interrupt = Interrupt()
    with interrupt.watching():
        with interrupt.watching():
            signal.raise_signal(signal.SIGINT)
        with interrupt.watching():
            assert interrupt.number == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_whoever_watches_outside_knows_of_a_signal_that_came_inside():
    outer, inner = Interrupt(), Interrupt()
    with outer.watching():
        with inner.watching():
            signal.raise_signal(signal.SIGTERM)
            assert inner.number == signal.SIGTERM
        with pytest.raises(Interrupted, match="SIGTERM"):
            outer.check()
