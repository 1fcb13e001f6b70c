"""Processes of the speed benchmark: on the cores they may use, and a peer with a Python environment of its own."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
JAX = BENCHMARKS / "peers" / ".venv-jax" / "bin" / "python"
SB3 = BENCHMARKS / "peers" / ".venv-sb3" / "bin" / "python"


@pytest.fixture
def run(monkeypatch):
    """`benchmarks/run.py`, imported as its scripts import each other."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("run")
    for name in {"run", "report", "measure", "workloads", "envs"} - before:
        sys.modules.pop(name, None)


def test_a_process_can_use_only_the_cores_it_is_given(run):
    told = "import json, os; print(json.dumps({'cores': sorted(os.sched_getaffinity(0))}))"
    core = max(os.sched_getaffinity(0))
    found, _ = run.execute([sys.executable, "-c", told], 60.0, dict(os.environ), {core})
    assert found == {"cores": [core]}


@pytest.mark.parametrize("one_core", [True, False])
def test_an_entrant_marked_so_is_given_one_core_and_any_other_all(run, monkeypatch, one_core):
    given = []
    monkeypatch.setattr(run, "execute", lambda words, limit, environment, cores: (given.append(cores), ({}, 0.0))[1])
    row = run.measure("crowd", run.Entrant("alone", "rookery", "crowd/alone", one_core=one_core), 0, 1.0, {})
    every = os.sched_getaffinity(0)
    assert row["one_core"] is one_core
    assert given == [{max(every)} if one_core else every]


def test_every_entrant_of_64_copies_has_one_core_and_the_settings_of_the_others(run):
    entrants = run.WORKLOADS["cartpole-64"]
    assert {entrant.library for entrant in entrants} == {"rookery", "jax", "rejax", "sb3"}
    assert all(entrant.one_core and entrant.arguments.startswith("cartpole-64") for entrant in entrants)
    matched = importlib.import_module("workloads").MATCHED
    assert matched["cartpole-64"] == replace(matched["cartpole-matched"], num_envs=64)


def test_entrants_in_python_that_are_compared_on_one_core_have_it(run):
    entrants = {entrant.name: entrant for entrant in run.WORKLOADS["cartpole-matched"]}
    compared = ("serial", "sb3, 1 thread", "torchrl", "torchrl, compiled", "plain torch, compiled")
    assert all(entrants[name].one_core for name in compared)
    assert all(entrant.arguments.startswith("cartpole-matched") for entrant in entrants.values())
    assert {(entrant.library, entrant.one_core) for entrant in run.WORKLOADS["pendulum-matched"]} == {
        ("rookery", True),
        ("rsl_rl", True),
    }


def test_a_peer_that_runs_in_the_environment_of_another_names_that_one(run, monkeypatch, tmp_path):
    monkeypatch.setattr(run, "HERE", tmp_path / "benchmarks")
    missing = tmp_path / "benchmarks" / "peers" / ".venv-sb3" / "bin" / "python"
    monkeypatch.setitem(run.PYTHONS, "compiled", missing)
    entrant = next(entrant for entrant in run.WORKLOADS["cartpole-matched"] if entrant.library == "compiled")
    row = run.measure("cartpole-matched", entrant, 0, 1.0, {})
    assert row["failed"] == "benchmarks/peers/.venv-sb3 is missing: benchmarks/peers/install.sh sb3"


@pytest.mark.skipif(not SB3.exists(), reason="benchmarks/peers/install.sh sb3 was not run")
def test_a_copy_that_is_cut_off_bootstraps_and_one_that_fell_does_not():
    # gamma 0.5, lambda 1: errors are 1 + 0.5 * next - value. Copy 0 falls in step 0, copy 1 is cut off in it.
    lines = [
        "import numpy as np, compiled_ppo",
        "from dataclasses import replace",
        "settings = replace(compiled_ppo.MATCHED['cartpole-matched'], gamma=0.5, gae_lambda=1.0)",
        "fragment = compiled_ppo.Fragment(2, 2, 4)",
        "fragment.reward[:] = 1.0",
        "fragment.fell[0, 0] = fragment.ended[0, 0] = fragment.ended[0, 1] = True",
        "values, finals = np.float32([[2, 2], [4, 4]]), np.float32([[8, 8], [6, 6]])",
        "print(compiled_ppo.advantages(values, finals, fragment, settings).tolist())",
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [BENCHMARKS, BENCHMARKS / "peers"]))}
    done = subprocess.run([str(SB3), "-c", "\n".join(lines)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[1 - 2, 1 + 4 - 2], [1 + 3 - 4, 1 + 3 - 4]]


def test_entrants_with_a_memory_have_the_settings_of_the_others(run):
    entrants = run.WORKLOADS["memory"]
    assert {entrant.library for entrant in entrants} == {"rookery", "sb3", "rllib"}
    assert all(entrant.arguments.split("/")[0].split()[0] == "memory" for entrant in entrants)
    # one core for those that are compared: Rookery in Python, the peer with one thread, critic on the policy's LSTM
    confined = {entrant.name for entrant in entrants if entrant.one_core}
    assert {"serial", "sb3, one LSTM, 1 thread"} <= confined
    settings = importlib.import_module("workloads").MATCHED["memory"]
    assert settings.minibatch_size == 8 * settings.sequence_length
    assert (settings.num_envs * settings.fragment_length) % settings.minibatch_size == 0


@pytest.mark.skipif(not SB3.exists(), reason="benchmarks/peers/install.sh sb3 was not run")
def test_the_recurrent_peer_has_as_many_weights_as_the_settings_say():
    lines = [
        "import sb3_ppo, workloads",
        "from stable_baselines3.common.vec_env import DummyVecEnv",
        "settings = workloads.MATCHED['memory']",
        "env = sb3_ppo.make_env(settings, DummyVecEnv, 0)",
        "policies = [sb3_ppo.model(settings, env, 0, critic_lstm).policy for critic_lstm in (False, True)]",
        "print([sum(p.numel() for p in policy.parameters()) for policy in policies])",
    ]
    paths = [BENCHMARKS, BENCHMARKS / "peers", BENCHMARKS.parent / "src"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    done = subprocess.run([str(SB3), "-c", "\n".join(lines)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    layers, lstm, heads = 64 * (2 + 1), 4 * 64 * (64 + 64 + 2), (64 + 1) * (2 + 1)
    assert json.loads(done.stdout) == [layers + lstm + heads, layers + 2 * lstm + heads]


@pytest.mark.skipif(not JAX.exists(), reason="benchmarks/peers/install.sh jax was not run")
def test_the_compiled_cartpole_is_gymnasiums_step_by_step():
    words = [str(JAX), str(BENCHMARKS / "peers" / "jax_ppo.py"), "--check"]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(BENCHMARKS)})
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["largest_difference"] < 1e-6
    assert found["fell"] > 0 and found["cut"] > 0
