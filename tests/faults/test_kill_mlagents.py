"""A run with ML-Agents' files that is killed resumes with equal results: models, curves, gauges, status."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from killable import amount
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import rookery

SCRIPT = Path(__file__).with_name("killable_mlagents.py")
SEED = 20262


def begin(folder):
    """The run in a process of its own, which trains by now."""
    run = subprocess.Popen([sys.executable, str(SCRIPT), str(folder)], stdout=subprocess.PIPE, text=True)
    assert run.stdout.readline().strip() == "running"
    return run


def come_to(folder):
    """Returns the results of a finished run: weights of its checkpoints, curves, gauges and status without times."""
    curves = EventAccumulator(str(folder / "main"), size_guidance={"scalars": 0})
    curves.Reload()
    status = json.loads((folder / "run_logs" / "training_status.json").read_text())["main"]
    for entry in (*status["checkpoints"], status["final_checkpoint"]):
        del entry["creation_time"]
    models = sorted(path for path in folder.rglob("*") if path.suffix == ".onnx" or path.name == "policies.safetensors")
    text = json.dumps(status).replace(str(folder), "")
    return (
        {tag: [(one.step, one.value) for one in curves.Scalars(tag)] for tag in curves.Tags()["scalars"]},
        json.loads((folder / "run_logs" / "timers.json").read_text())["gauges"],
        text,
        {str(path.relative_to(folder)): path.read_bytes() for path in models if "checkpoints" not in path.parts},
    )


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Results of the run without a disturbance."""
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    run = begin(folder)
    assert run.communicate(timeout=120)[0].endswith("finished\n")
    return come_to(folder)


@pytest.mark.slow
def test_killed_at_random_moments_their_files_come_to_the_same(tmp_path, undisturbed, measured):
    folder, rng, kills = tmp_path / "run", random.Random(SEED), amount(1, 10)
    for number in range(kills):
        run = begin(folder)
        delay = rng.uniform(0.1, 1.0)
        time.sleep(delay)
        run.send_signal(signal.SIGKILL)
        run.communicate(timeout=60)
        print(f"kill {number}: seed {SEED}, after {delay:.3f} s")
    assert (folder / "configuration.yaml").is_file()
    run = begin(folder)
    assert run.communicate(timeout=120)[0].endswith("finished\n")
    assert list(folder.rglob(".tmp-*")) == []
    assert come_to(folder) == undisturbed
    measured("kill -9 of a run with ML-Agents' files", kills, "same models, curves, gauges and status")


@pytest.mark.slow
def test_interrupted_the_command_leaves_everything_and_goes_on(tmp_path, measured):
    (tmp_path / "cart.yaml").write_text("behaviors: {Cart: {max_steps: 100000000, summary_freq: 1000}}\n")
    words = [sys.executable, "-m", "rookery", "mlagents", "learn", "cart.yaml", "--env", "CartPole-v1", "--run-id", "x"]
    there = os.environ | {"PYTHONPATH": str(Path(rookery.__file__).parents[1])}
    settings = {"cwd": tmp_path, "env": there, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    folder, steps = tmp_path / "results" / "x", []
    for number, how in enumerate((signal.SIGINT, signal.SIGTERM)):
        run = subprocess.Popen([*words, *["--resume"] * number], **settings)
        first = run.stdout.readline()
        assert first.startswith("Cart. Step: "), run.communicate()[1]
        run.send_signal(how)
        _, error = run.communicate(timeout=60)
        assert run.returncode == 128 + how, error
        assert "continue with: rookery mlagents learn --resume --run-id x" in error
        status = json.loads((folder / "run_logs" / "training_status.json").read_text())["Cart"]
        steps.append(status["final_checkpoint"]["steps"])
        assert (folder / "Cart.onnx").is_file()
        assert (folder / "Cart" / f"Cart-{steps[-1]}.onnx").is_file()
        assert (folder / "configuration.yaml").is_file()
        assert int(first.split("Step: ")[1].split(".")[0]) > sum(steps[:-1])
    measured("Ctrl-C and SIGTERM of rookery mlagents learn", 2, "models and status of that moment; it resumes")
