"""A run that learns from a replay memory is killed: memory, priorities, schedules and next batches are as they were."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from killable import amount, make
from test_kill import SCRIPT, SEED, Process, digest, leftovers, rows

from rookery import Trainer
from rookery.core.io.files import last_good, list_checkpoints

ITERATIONS = 24


@pytest.fixture(autouse=True)
def learns_from_a_memory(monkeypatch):
    monkeypatch.setenv("REPLAY", "1")


def draws(folder):
    """Rows, priorities and the next 100 batches of a run, and what its schedules say."""
    with Trainer.load(folder) as trainer:
        learner = trainer.learners["main"]
        memory = learner.replay.buffer
        piece = memory.rows_between(memory.first, memory.total)
        found = [array.tobytes() for _, array in sorted(piece.items())] + [memory.priorities.tobytes()]
        settings = learner.now()
        for _ in range(100):
            batch = memory.sample(16, n_step=3, gamma=0.99, beta=settings.replay.beta)
            found += [part.numpy().tobytes() for part in (batch.row, batch.weight, batch.reward, batch.discount)]
            found += [leaf.numpy().tobytes() for leaf in (*batch.obs.values(), *batch.next_obs.values())]
            memory.update_priorities(batch.row, batch.reward.abs() + len(found))
        return found, settings


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """Results of the run without a disturbance."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("REPLAY", "1")
        folder = tmp_path_factory.mktemp("uninterrupted") / "run"
        with make(folder) as trainer:
            trainer.train({"iterations": ITERATIONS})
            assert trainer.learners["main"].replay.buffer.first > 700  # it went round
            assert trainer.learners["main"].replay.gradient_steps > 300
        return digest(folder), rows(folder), draws(folder)


def assert_as(folder, uninterrupted):
    assert leftovers(folder) == []
    assert digest(folder) == uninterrupted[0]
    assert rows(folder) == uninterrupted[1]
    assert draws(folder) == uninterrupted[2]


@pytest.mark.slow
def test_killed_at_random_moments_it_remembers_and_draws_the_same(tmp_path, uninterrupted, measured):
    folder, rng = tmp_path / "run", random.Random(SEED)
    kills, reached = amount(3, 24), 0
    for number in range(kills):
        run = Process(folder, ITERATIONS)
        run.wait_for("running")
        delay = rng.uniform(0, 2.0 / kills)
        time.sleep(delay)
        run.send(signal.SIGKILL)
        code, _, error = run.end()
        print(f"kill {number}: seed {SEED}, after {delay:.3f} s")
        assert code in (-signal.SIGKILL, 0), error
        found = list_checkpoints(folder / "checkpoints")
        assert last_good(folder / "checkpoints") == (found[-1] if found else None)
        now = int(found[-1].name[:6]) if found else 0
        assert now >= reached, "a checkpoint was lost"
        reached = now
    code, out, error = Process(folder, ITERATIONS).end()
    assert (code, out.split()) == (0, ["running", "finished"]), error
    assert_as(folder, uninterrupted)
    measured("kill -9 at a random moment, learning from a replay memory", kills,
             "same memory, priorities, schedules, next 100 batches, weights and rows")  # fmt: skip


@pytest.mark.slow
def test_killed_while_a_checkpoint_is_written_the_last_one_has_its_memory(tmp_path, uninterrupted, measured):
    folder, rng = tmp_path / "run", random.Random(SEED)
    kills = amount(1, 8)
    for number in range(kills):
        at = rng.randrange(120, 500)
        code, _, error = Process(folder, ITERATIONS, CRASH_AT=at).end()
        print(f"kill {number}: seed {SEED}, before file operation {at}")
        if code == 0:  # what was left of the run has fewer operations
            assert_as(folder, uninterrupted)
            shutil.rmtree(folder)
            continue
        assert code == -signal.SIGKILL, error
        found = list_checkpoints(folder / "checkpoints")
        assert last_good(folder / "checkpoints") == found[-1]
        with Trainer.load(found[-1]) as trainer:
            assert len(trainer.learners["main"].replay.buffer) == min(64 * trainer.iteration, 700)
    with Trainer.load(folder, resume=True) as trainer:
        trainer.train({"iterations": ITERATIONS})
    assert_as(folder, uninterrupted)
    measured("kill -9 between two file operations of a checkpoint with a replay memory", kills,
             "same memory, priorities, schedules, next 100 batches, weights and rows")  # fmt: skip


@pytest.mark.slow
def test_a_full_disk_keeps_the_last_checkpoint_with_its_memory(tmp_path, measured):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f'mount -t tmpfs -o size=1500k tmpfs "{disk}"'
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "sh", "-c", mount], check=False).returncode:
        pytest.skip("unshare -rm cannot mount a small disk here")
    script = f'{mount} && exec "{sys.executable}" "{Path(SCRIPT).with_name("full.py")}" "{disk}"'
    out = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stderr
    found = json.loads(out.stdout)
    last, run = found["iteration"], disk / "run"
    assert found["full"].startswith(f"FileError: {run}/checkpoints/{last + 1:06d}: ")
    assert found["full"].endswith(f"; the last good checkpoint is {run}/checkpoints/{last:06d}")
    assert found["finite"] == last + 1  # what was loaded from there learned on
    assert found["after room was made"] == last + 2
    measured("disk full while a checkpoint with a replay memory is written", 1, "the last one kept and named")
