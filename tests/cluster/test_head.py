"""The head of a cluster that does not answer: a note is printed, then runs stop, and no question to it waits
for long.
"""

from __future__ import annotations

import threading

import pytest

from rookery import Callback, PPOConfig, Trainer
from rookery.cli.train import exit_on_interrupt
from rookery.cluster import head
from rookery.cluster.head import HeadWatch, within
from rookery.core.errors import HeadLostError, LearnerLostError
from rookery.core.process.interrupt import CLUSTER_LOST, ClusterLost, Interrupt


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
            ClusterLost, match=r"the head .* at 10\.0\.0\.1:6379 has not answered for 0\.\d+ seconds"
        ) as caught:
            interrupt.check()
        watch.close()
    assert interrupt.number == CLUSTER_LOST
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


@pytest.mark.regression("no end", "a frozen head of a cluster was noticed after twice the time")
def test_the_time_that_a_question_takes_counts_as_silence(quick, monkeypatch):
    for name in "SAID_AFTER", "LOST_AFTER", "ENDED_AFTER":
        monkeypatch.setattr(head, name, 1e3)
    silences, over = [], threading.Event()

    def ask(address, seconds):
        silences.append(watch.silence)
        return over.wait(seconds)

    watch = HeadWatch("10.0.0.1:6379", lambda: True, ask)
    while len(silences) < 11:
        over.wait(0.001)
    watch.close()
    assert silences[10] >= 19 * head.LOOK_SECONDS


@pytest.mark.regression("unclear error", "a program that ended because the head was lost named no folder to resume")
def test_a_program_that_ends_because_the_head_is_lost_names_its_folder(quick, tmp_path, monkeypatch, capfd):
    codes, over = [], threading.Event()
    monkeypatch.setattr(Interrupt, "ends_program", True)
    monkeypatch.setattr(head, "run_log", lambda: tmp_path / "log.txt")
    monkeypatch.setattr(head.os, "_exit", lambda code: (codes.append(code), over.set()))
    watch = HeadWatch("10.0.0.1:6379", lambda: True, lambda address, seconds: False)
    assert over.wait(10)
    watch.close()
    assert codes == [HeadLostError.exit_code]
    assert f"resume from the last checkpoint: rookery resume {tmp_path} (" in capfd.readouterr().err


class LosesHead(Callback):
    """Loses the head of the cluster after the second iteration."""

    def on_iteration(self, trainer, result):
        if result.iteration == 2:
            Interrupt.fail("the head is gone")


@pytest.mark.regression("data lost", "a run whose cluster lost its head ended without a checkpoint")
def test_a_run_whose_head_is_lost_writes_a_checkpoint_and_fails(tmp_path):
    ppo = PPOConfig(fragment_length=16, epochs=1)
    with Trainer("CartPole-v1", ppo, run_dir=tmp_path / "a", num_envs=2, callbacks=[LosesHead()]) as trainer:
        with pytest.raises(HeadLostError, match="^the head is gone$"):
            trainer.train({"iterations": 5})
    with Trainer.load(tmp_path / "a", resume=True, callbacks=[Callback()]) as trainer:
        assert trainer.iteration == 2
        assert trainer.train({"iterations": 3}).iteration == 3


def test_the_command_line_adds_how_to_resume_to_what_was_lost():
    for kind in (HeadLostError, LearnerLostError):
        with (
            pytest.raises(kind, match="^it is gone; rookery resume a$"),
            exit_on_interrupt(lambda _: "rookery resume a"),
        ):
            raise kind("it is gone")
    with pytest.raises(HeadLostError, match="^gone; rookery tune resume b$"), exit_on_interrupt(lambda _: "rookery"):
        raise HeadLostError("gone; rookery tune resume b")


def test_a_question_to_a_head_that_is_gone_does_not_wait_for_ray():
    with pytest.raises(HeadLostError, match=r"has not answered within 0\.01 seconds"):
        within(0.01, threading.Event().wait)
    assert within(5.0, lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        within(5.0, lambda: 1 / 0)
