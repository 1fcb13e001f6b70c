"""The first Ctrl-C is a request, the second an order; SIGTERM and SIGHUP count as one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from rookery.core.process import interrupt as interrupts
from rookery.core.process.interrupt import Interrupt, Interrupted, SignalWatch

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


class Wait:
    """A wait of the main thread in which Python acts on no signal, as one in compiled code."""

    def __init__(self):
        self.ends = os.pipe()

    def break_waits(self):
        os.write(self.ends[1], b".")

    def __call__(self):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # other threads get it
        try:
            os.read(self.ends[0], 1)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


@pytest.mark.regression("no end", "Ctrl-C had no effect, and said nothing, while a run waited for a frozen learner")
def test_a_wait_in_compiled_code_is_told_and_ended_by_signals(monkeypatch, capfd):
    monkeypatch.setattr(interrupts, "SAID_AFTER", 0.05)
    wait = Wait()
    Interrupt.breakers.add(wait)
    heard = []

    def send():
        os.kill(os.getpid(), signal.SIGINT)
        while not (said := capfd.readouterr().err):
            time.sleep(0.01)
        heard.append(said)
        os.kill(os.getpid(), signal.SIGINT)

    def run():
        with Interrupt().watching():
            sender.start()
            wait()
            Interrupt.check_second()

    sender = threading.Thread(target=send)
    with pytest.raises(KeyboardInterrupt):
        run()
    sender.join()
    assert heard == [f"{interrupts.STOPPING}\n"]
    assert Interrupt.second is None


HANGING = """
import os, signal, threading
from rookery.core.process.interrupt import Interrupt

Interrupt.ends_program = True
with Interrupt().watching():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])
    print("waiting", flush=True)
    os.read(os.pipe()[0], 1)
"""


@pytest.mark.slow
def test_a_program_that_hangs_in_compiled_code_is_ended_by_the_second_signal():
    process = subprocess.Popen(
        [sys.executable, "-c", HANGING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline() == f"{interrupts.STOPPING}\n"
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGTERM
    assert said == f"{interrupts.ENDING}\n"
    assert time.monotonic() - began < 3.0


STARTING = """
import sys, time
from rookery.cli import main

def start():
    while True:
        try:
            print("starting", flush=True)
            time.sleep(60)
        except KeyboardInterrupt:  # code that takes its time to end
            pass

main.main = start
main.program()
"""


@pytest.mark.regression(
    "no end", "Ctrl-C while a run on Ray was starting showed no line, and ended it after 12 seconds"
)
def test_a_program_that_starts_or_ends_answers_the_first_signal_and_is_ended_by_the_second():
    process = subprocess.Popen(
        [sys.executable, "-c", STARTING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "starting\n"
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline() == f"{interrupts.LEAVING}\n"
    assert time.monotonic() - began < 3.0
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGINT
    assert said == f"{interrupts.ENDING}\n"
    assert time.monotonic() - began < 6.0


def test_a_run_watches_for_itself_within_a_program_that_watches():
    with SignalWatch([signal.SIGINT], of_program=True).watching():
        outer = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(outer)
        with Interrupt().watching():
            inner = signal.set_wakeup_fd(-1)
            signal.set_wakeup_fd(inner)
            assert inner not in {-1, outer}
        assert signal.set_wakeup_fd(outer) == outer
    assert signal.set_wakeup_fd(-1) == -1
