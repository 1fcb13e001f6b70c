"""The head of a cluster that does not answer: it is told, then runs stop, and no question to it waits for long."""

from __future__ import annotations

import threading

import pytest

from rookery.cluster import head
from rookery.cluster.head import HeadWatch, within
from rookery.core.errors import HeadLostError
from rookery.core.interrupt import STRANDED, Interrupt, Stranded


@pytest.fixture
def quick(monkeypatch):
    for name, seconds in {"LOOK_SECONDS": 0.01, "SAID_AFTER": 0.02, "LOST_AFTER": 0.05, "ENDED_AFTER": 0.1}.items():
        monkeypatch.setattr(head, name, seconds)


@pytest.mark.regression("no end", "a lost head of a cluster was silence for a minute, then Ray ended the run")
def test_a_head_that_does_not_answer_stops_what_watches(quick, capfd):
    answers, over = [True, True, False, True], threading.Event()

    def ask(address, seconds):
        return answers.pop(0) if answers else over.wait(0)

    interrupt = Interrupt()
    with interrupt.watching():
        watch = HeadWatch("10.0.0.1:6379", lambda: True, ask)
        while interrupt.number is None:
            over.wait(0.001)
        assert watch.silence >= head.LOST_AFTER
        with pytest.raises(
            Stranded, match=r"the head .* at 10\.0\.0\.1:6379 has not answered for 0\.\d+ seconds"
        ) as caught:
            interrupt.check()
        watch.close()
    assert interrupt.number == STRANDED
    assert isinstance(caught.value.as_error(), HeadLostError)
    assert capfd.readouterr().err.startswith("note: the head of the Ray cluster at 10.0.0.1:6379 has not answered")


def test_a_head_that_answers_again_stops_nothing(quick):
    asked = []

    def ask(address, seconds):
        asked.append(address)
        return len(asked) % 4 == 0

    interrupt = Interrupt()
    with interrupt.watching():
        watch = HeadWatch("10.0.0.1:6379", lambda: True, ask)
        while len(asked) < 20:
            pass
        watch.close()
        assert interrupt.number is None


def test_a_question_to_a_head_that_is_gone_does_not_wait_for_ray():
    with pytest.raises(HeadLostError, match=r"has not answered within 0\.01 seconds"):
        within(0.01, threading.Event().wait)
    assert within(5.0, lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        within(5.0, lambda: 1 / 0)
