"""The one thread that answers for a policy server: what fails in it is answered, and what it cannot take is refused."""

from __future__ import annotations

import re
import threading

import numpy as np
import pytest

pytest.importorskip("uvicorn")

from served import batcher_of, checkpoint, policy

from rookery.serving.batcher import InferenceFailed, LimitExceeded, Question, ServedActions, ServerStopping
from rookery.serving.versions import load_version

ID = "internal error [0-9a-f]{8}"


class Answers:
    """Collects answers of a batcher."""

    def __init__(self):
        self.found, self._more = [], threading.Condition()

    def __call__(self, answer):
        with self._more:
            self.found.append(answer)
            self._more.notify()

    def wait(self, number):
        with self._more:
            assert self._more.wait_for(lambda: len(self.found) >= number, timeout=10), self.found
        return self.found


def question(reply, session=None, rows=1):
    return Question("main", {"obs": np.zeros((rows, 4), np.float32)}, True, reply, session)


def asked_together(batcher, *entries):
    """Makes all questions wait when the first is taken."""
    with batcher._ready:
        batcher._waiting.extend(entries)
        batcher._ready.notify()


@pytest.fixture
def version(tmp_path):
    return load_version(checkpoint(tmp_path, 1, policy()))


class Held:
    """Holds each forward pass of a policy until it is allowed; then `error` is raised, if there is one."""

    def __init__(self, acting):
        self.begun, self.allowed, self.error = threading.Event(), threading.Event(), None
        self._acting = acting

    def __call__(self, *arguments):
        self.begun.set()
        assert self.allowed.wait(10)
        if self.error is not None:
            raise self.error
        return self._acting(*arguments)


@pytest.fixture
def held(version, monkeypatch):
    made = Held(version.policies["main"].env_actions)
    monkeypatch.setattr(version.policies["main"], "env_actions", made)
    yield made
    made.allowed.set()


@pytest.mark.regression(
    "no end",
    "The thread that answers for a policy server survives an error of any kind, and all who wait are answered",
)
def test_an_error_outside_of_a_forward_pass_is_answered_to_all_who_wait(version, monkeypatch):
    said, answers = [], Answers()
    batcher = batcher_of(version, said)
    monkeypatch.setattr(batcher, "_decide", lambda *_: 1 / 0)
    asked_together(batcher, question(answers), question(answers), question(answers))
    assert all(isinstance(one, InferenceFailed) and re.fullmatch(ID, str(one)) for one in answers.wait(3))
    assert len({str(one) for one in answers.found}) == 1 and "ZeroDivisionError" in said[0] and "Traceback" in said[0]
    monkeypatch.undo()
    batcher.ask(question(answers))
    assert isinstance(answers.wait(4)[-1], ServedActions) and batcher.is_running
    batcher.close()


@pytest.mark.regression(
    "no end",
    "The thread that answers for a policy server survives an error of any kind, and all who wait are answered",
)
def test_a_network_that_ends_its_thread_does_not_end_the_server(version, monkeypatch):
    said, answers = [], Answers()
    batcher = batcher_of(version, said)

    def leave(*_):
        raise SystemExit(3)

    monkeypatch.setattr(version.policies["main"], "env_actions", leave)
    asked_together(batcher, question(answers), question(answers))
    assert all(isinstance(one, InferenceFailed) for one in answers.wait(2)) and "SystemExit" in said[0]
    monkeypatch.undo()
    batcher.ask(question(answers))
    assert isinstance(answers.wait(3)[-1], ServedActions)
    batcher.close()


@pytest.mark.regression(
    "no end",
    "The thread that answers for a policy server survives an error of any kind, and all who wait are answered",
)
def test_a_reply_that_raises_takes_nobody_elses_answer_away_and_no_answer_comes_twice(version):
    said, answers, broken = [], Answers(), []

    def refuse(answer):
        broken.append(answer)
        raise OSError("the client is gone")

    batcher = batcher_of(version, said)
    asked_together(batcher, question(answers), question(refuse), question(answers))
    assert all(isinstance(one, ServedActions) for one in answers.wait(2))
    assert batcher.counts.questions == 3
    batcher.forget("nobody", lambda was: 1 / 0)
    batcher.ask(question(answers))
    answers.wait(3)
    batcher.close()
    assert len(broken) == 1 and len(answers.found) == 3
    assert ["OSError" in said[0], "ZeroDivisionError" in said[1], len(said)] == [True, True, 2]


@pytest.mark.regression(
    "no end",
    "The thread that answers for a policy server survives an error of any kind, and all who wait are answered",
)
def test_a_question_that_cannot_be_taken_is_answered_and_the_others_too(version):
    said, answers = [], Answers()
    batcher = batcher_of(version, said)
    asked_together(batcher, question(answers), question(answers, session=["unhashable"]), question(answers))
    found = answers.wait(3)
    assert sorted(type(one).__name__ for one in found) == ["InferenceFailed", "InferenceFailed", "ServedActions"]
    batcher.close()


def test_an_error_is_counted_and_the_thread_goes_on(version, monkeypatch):
    answers = Answers()
    batcher = batcher_of(version)
    for number in range(1, 4):
        monkeypatch.setattr(version.policies["main"], "env_actions", lambda *_: 1 / 0)
        batcher.ask(question(answers))
        assert isinstance(answers.wait(2 * number - 1)[-1], InferenceFailed)
        assert batcher._internal_errors.count == number and batcher.counts.questions == number - 1
        monkeypatch.undo()
        batcher.ask(question(answers))
        assert isinstance(answers.wait(2 * number)[-1], ServedActions) and batcher.is_running
    batcher.close()


def test_what_is_too_much_is_refused_and_what_waits_is_answered(version, held):
    answers = Answers()
    batcher = batcher_of(version, max_waiting=2, max_rows=4)
    with pytest.raises(LimitExceeded, match="5 observations in a request; at most 4 are allowed"):
        batcher.ask(question(answers, rows=5))
    batcher.ask(question(answers))
    assert held.begun.wait(10)  # it is taken: from now on others wait
    batcher.ask(question(answers, rows=4))
    batcher.forget("a session", answers)
    for refused in (lambda: batcher.ask(question(answers)), lambda: batcher.forget("another", answers)):
        with pytest.raises(LimitExceeded, match="2 requests wait already; try again later"):
            refused()
    held.allowed.set()
    answers.wait(3)
    batcher.ask(question(answers))  # there is room again
    answers.wait(4)
    batcher.close()
    assert [type(one).__name__ for one in answers.found if one is not False] == ["ServedActions"] * 3
    assert len(answers.found) == 4 and (batcher.counts.questions, batcher.counts.rows) == (3, 6)


@pytest.mark.parametrize(("error", "answer"), [(None, ServedActions), (ValueError("of a network"), InferenceFailed)])
def test_who_waits_when_the_server_stops_is_answered_and_others_are_refused(version, held, error, answer):
    answers, held.error = Answers(), error
    batcher = batcher_of(version)
    batcher.ask(question(answers))
    assert held.begun.wait(10)
    batcher.ask(question(answers))
    batcher.forget("a session", answers)
    stopping = threading.Thread(target=batcher.close)
    stopping.start()
    while not batcher._stopping:
        stopping.join(0.001)
    for refused in (lambda: batcher.ask(question(answers)), lambda: batcher.forget("a session", answers)):
        with pytest.raises(ServerStopping, match="the server is stopping"):
            refused()
    held.allowed.set()
    stopping.join(10)
    assert not stopping.is_alive() and not batcher.is_running
    assert [type(one) for one in answers.found] == [answer, bool, answer]
