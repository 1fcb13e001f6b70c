"""Workers on Ray whose environment hangs, whose process is frozen or killed, and a run that is stopped meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hangable import Hangable, steps_made

from rookery import PPOConfig, Trainer

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow

from nodes_of_ray import Nodes, eventually, is_alive  # noqa: E402

KILLS = 10
PATIENCE = 3.0
SMALL = PPOConfig(fragment_length=32, epochs=1, minibatch_size=64, model={"hidden": (16,)})


@pytest.fixture(scope="module")
def nodes():
    made = Nodes()
    made.add()
    eventually(lambda: sum(node["Alive"] for node in ray.nodes()) == 2)
    yield made
    made.close()
    eventually(lambda: not any(map(is_alive, made.begun)))


def trainer_of(folder, **sampling):
    sampling = {"num_envs": 4, "workers": 2, "warmup_steps": 0, "reset_timeout_seconds": 60.0, **sampling}
    return Trainer(Hangable, SMALL, seed=1, env_config={"folder": str(folder)}, sampling=sampling)


def hang(trainer, folder):
    (folder / "hang").touch()


def freeze(trainer, folder):
    os.kill(trainer._pool.hosts.home(1).process, signal.SIGSTOP)


@pytest.mark.regression(
    "no end", "a worker on Ray that was frozen, or whose environment hung, stopped the run without a word"
)
@pytest.mark.parametrize("how", [hang, freeze])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_worker_that_hangs_is_ended_named_and_replaced(nodes, how, asynchronous, tmp_path, capsys, measured):
    sampling = {"step_timeout_seconds": PATIENCE, "asynchronous": asynchronous, "iteration_steps": 256}
    with trainer_of(tmp_path, **sampling) as trainer:
        for _ in range(2):
            trainer.train_iteration()
        before = {trainer._pool.hosts.home(share).process for share in range(2)}
        how(trainer, tmp_path)
        began = time.monotonic()
        while (result := trainer.train_iteration()).counters.get("workers_lost", 0) < 1:
            assert time.monotonic() - began < 100
        passed = time.monotonic() - began
        for _ in range(2):
            result = trainer.train_iteration()
        assert result.counters["workers_lost"] == 1
        after = {trainer._pool.hosts.home(share).process for share in range(2)}
        (gone,) = before - after
        eventually(lambda: not is_alive(gone))
    said = capsys.readouterr().err
    assert f"(process {gone}) was ended: " in said and "sampling.step_timeout_seconds = 3 allows" in said
    kind = "asynchronous" if asynchronous else "synchronous"
    name = "an environment hangs in a worker" if how is hang else "a worker is frozen"
    measured(f"{name}, {kind}", 1, f"replaced, and on after {passed:.0f} s at step_timeout_seconds = {PATIENCE:g}")


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_environments_own_count_of_lost_steps_lies_between_both_counts(nodes, asynchronous, tmp_path, measured):
    sampling = {"asynchronous": asynchronous, "iteration_steps": 256, "max_restarts": 100}
    with trainer_of(tmp_path, **sampling) as trainer:
        learned, step = [], trainer.learners["main"].training_step
        trainer.learners["main"].training_step = lambda some: (learned.append(some.num_decisions), step(some))[1]
        for number in range(KILLS):
            trainer.train_iteration()
            process = trainer._pool.hosts.home(number % 2).process
            threading.Timer(0.01 * number, os.kill, (process, signal.SIGKILL)).start()
            while trainer.train_iteration().counters.get("workers_lost", 0) <= number:
                pass
        trainer._pool.settle()
        counters, kept = trainer._pool.counters(), trainer._pool.undelivered("main")
        lost = steps_made(tmp_path) - sum(learned) - kept
    least, most = counters["decisions_lost"], counters["decisions_lost_at_most"]
    assert counters["workers_lost"] == KILLS
    assert least <= lost <= most
    kind = "asynchronous" if asynchronous else "synchronous"
    told = f"{lost} steps lost by the environment's own count, {least} to {most} by the run's"
    measured(f"{kind} workers are killed", KILLS, told)


def stopped(folder, signals, *settings):
    """Runs a training whose environment hangs, and sends it signals; returns its lines with seconds since the first
    signal, those from the last signal to its end, and its run folder.
    """
    run, lines = folder / "run", []
    paths = [str(Path(__file__).parent), *sys.path]
    command = [sys.executable, "-u", "-m", "rookery", "train", "hangable:Hangable", f"env.config.folder={folder}"]
    command += ["--workers", "2", "--ray", "local", "--plain", "--run-dir", str(run), "--run-id", "one"]
    command += ["sampling.num_envs=4", "sampling.warmup_steps=0", "algorithm.fragment_length=32", *settings]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    process = subprocess.Popen(command, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True, env=environment)
    reading = threading.Thread(target=lambda: lines.extend((time.monotonic(), line) for line in process.stdout))
    reading.start()
    try:
        until = time.monotonic() + 120
        while steps_made(folder) < 600:
            assert time.monotonic() < until
            time.sleep(0.2)
        (folder / "hang").touch()
        eventually(lambda: not (folder / "hang").exists())
        time.sleep(3.0)
        first = time.monotonic()
        process.send_signal(signal.SIGINT)
        for _ in range(signals - 1):
            time.sleep(3.5)
            process.send_signal(signal.SIGINT)
        last = time.monotonic()
        process.wait(60)
        ended = time.monotonic() - last
    finally:
        process.kill()
        reading.join()
    return [(at - first, line) for at, line in lines if at >= first], ended, run / "one"


@pytest.mark.regression("no end", "Ctrl-C was ignored while an environment hung in a worker on Ray")
def test_the_first_ctrl_c_is_answered_at_once_and_a_checkpoint_is_written(tmp_path, measured):
    lines, ended, run = stopped(tmp_path, 1)
    said = next(at for at, line in lines if "stopping after the step under way" in line)
    assert said < 3.0
    assert any("continue with: rookery resume" in line for _, line in lines)
    with Trainer.load(run) as trainer:
        assert not trainer.train_iteration().exact
    told = f"a line after {said:.1f} s, a checkpoint and the end after {ended:.0f} s"
    measured("Ctrl-C while an environment hangs", 1, told)


def test_the_second_ctrl_c_ends_a_run_whose_environment_hangs(tmp_path, measured):
    _, ended, _ = stopped(tmp_path, 2)
    assert ended < 3.0 + 3.0 * (os.getloadavg()[0] / (os.cpu_count() or 1) > 2.0)
    measured("a second Ctrl-C while an environment hangs", 1, f"the end after {ended:.1f} s")
