"""Resuming a run from the command line: until when, with which settings, and from where there is no checkpoint."""

from __future__ import annotations

import json
import shutil
import sys

import pytest
from commands import TINY, train_into

from rookery.cli import runs

RUN = "runs/cart"


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """A folder with a run that ended after 64 steps, 4 iterations."""
    words = ["CartPole-v1", "--run-id", "cart", "--seed", "3", "--stop", "env_steps=64", "--evaluate", "0", *TINY,
             "logging.tensorboard=false"]  # fmt: skip
    return train_into(tmp_path_factory.mktemp("ended"), words)


@pytest.fixture
def cart(ended, tmp_path):
    """That run, copied into the folder that commands run in."""
    shutil.copytree(ended / "cart", tmp_path / RUN)
    return tmp_path / RUN


def rows(folder):
    """The rows of a run without what depends on the clock."""
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if not key.startswith("time/")} for row in found]


def resume(rookery, *words):
    return rookery("resume", RUN, "--evaluate", 0, *words)


def test_stop_takes_the_place_of_what_ended_the_run_and_explain_says_so(rookery, cart):
    code, out, _ = resume(rookery, "--stop", "iterations=6", "--plain")
    assert code == 0
    assert "until iterations 6\n" in out and "stopped: iterations 6 reached 6\n" in out
    assert rookery("explain", "cart", "stop")[1] == (
        "stop.env_steps = null  (command line, --stop)\n"
        "    instead of 64.0  (command line)\n"
        "stop.iterations = 6.0  (command line, --stop)\n"
    )
    code, out, _ = resume(rookery, "--stop", "env_steps=128", "--plain")
    assert "until env_steps 128\n" in out
    assert len(rows(cart)) == 8


def test_a_run_goes_on_to_a_higher_setting_of_what_ended_it(rookery, cart):
    assert "until env_steps 96\n" in resume(rookery, "stop.env_steps=96", "--plain")[1]
    assert len(rows(cart)) == 6
    assert rookery("explain", "cart", "stop.env_steps")[1].startswith("stop.env_steps = 96.0  (command line)\n")


@pytest.fixture
def falling(cart, rookery, tmp_path):
    """That run with a learning rate that falls until its end, trained once more."""
    words = ["CartPole-v1", "--run-id", "cart", "--seed", "3", "--stop", "env_steps=64", "--evaluate", "0", *TINY]
    assert rookery("train", *words, "algorithm.lr={start: 1e-3, end: 0}", "--force", "--quiet")[0] == 0
    return cart


@pytest.mark.regression("wrong result", "A run resumed with a larger stop.env_steps learns on, and says at what rate")
def test_a_later_stop_moves_the_end_of_schedules(rookery, falling):
    code, out, _ = resume(rookery, "--stop", "env_steps=128", "--plain")
    assert code == 0
    assert "schedules end at 128 environment steps instead of 64: policies.main.lr now 0, becomes 0.0005" in out
    assert [row["policies/main/lr"] for row in rows(falling)[3:6]] == pytest.approx([0, 0.000375, 0.00025])


def test_keep_schedules_leaves_the_end_of_schedules(rookery, falling):
    code, out, _ = resume(rookery, "--stop", "env_steps=96", "--keep-schedules", "--plain")
    assert code == 0
    assert "schedules have ended at 64 environment steps: policies.main.lr stays 0" in out
    assert rows(falling)[-1]["policies/main/lr"] == 0
    shutil.rmtree(falling / "checkpoints")
    assert resume(rookery, "--stop", "env_steps=192", "--keep-schedules", "--quiet")[0] == 0  # from its beginning
    assert rows(falling)[0]["policies/main/lr"] == pytest.approx(1e-3 * (1 - 16 / 96))


def test_settings_may_change_on_the_way(rookery, cart, tmp_path):
    (tmp_path / "later.yaml").write_text("algorithm: {gamma: 0.5}\nstop: {env_steps: 96}\n")
    assert resume(rookery, "later.yaml", "algorithm.lr=1e-3", "--quiet")[0] == 0
    told = rookery("explain", "cart")[1]
    assert "algorithm.lr = 0.001  (command line)\n" in told and "algorithm.gamma = 0.5  (later.yaml:1)\n" in told
    assert rows(cart)[-1]["policies/main/lr"] == 1e-3


def test_what_keeps_its_value_is_refused_by_name(rookery, cart):
    before = (cart / "config.yaml").read_text()
    code, _, err = resume(rookery, "sampling.num_envs=4", "algorithm.model.hidden=[8]", "algorithm.lr=1e-3")
    assert code == 2
    assert err == (
        "error: command line: sampling.num_envs = 4: keeps its value in the middle of a run (2); leave it out, or "
        "train a new run with it\n"
        "error: command line: algorithm.model.hidden = [8]: keeps its value in the middle of a run ([64, 64]); leave "
        "it out, or train a new run with it\n"
    )
    assert "did you mean 'algorithm.gamma'?" in resume(rookery, "algorithm.gama=0.9")[2]
    assert "'Acrobot-v1' is neither a .yaml file nor PATH=VALUE" in resume(rookery, "Acrobot-v1")[2]
    assert (cart / "config.yaml").read_text() == before


def test_it_shows_what_it_is_asked_to_show(rookery, cart):
    _, out, err = resume(rookery, "--stop", "iterations=6", "--json")
    assert [json.loads(line)["iteration"] for line in out.splitlines()] == [5, 6]
    assert [line.partition(" at ")[0] for line in err.splitlines()] == ["note: schedules have ended"]
    _, out, _ = resume(rookery, "--stop", "iterations=7", "--quiet")
    assert [line.split()[0] for line in out.splitlines()] == ["return", "env", "seconds", "steps/s", "written"]
    assert "--quiet and --json exclude each other" in resume(rookery, "--quiet", "--json")[2]


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_anew(rookery, cart):
    before = rows(cart)
    for checkpoint in (cart / "checkpoints").iterdir():
        shutil.rmtree(checkpoint) if checkpoint.is_dir() else checkpoint.unlink()
    (cart / "metrics.jsonl").write_text(json.dumps(before[0]) + "\n")
    code, out, _ = resume(rookery, "--plain")
    assert code == 0
    assert f"{RUN} has no checkpoint yet: the run starts again, with its stored settings\n" in out
    assert rows(cart) == before
    assert "seed = 3  (command line)\n" in rookery("explain", "cart", "seed")[1]


@pytest.mark.parametrize(
    ("words", "times"), [((), 0), (("--stop", "iterations=5", "algorithm.lr=1e-3", "algorithm.gamma=0.5"), 1)]
)
def test_what_set_each_setting_is_read_once_and_only_where_it_is_asked_for(words, times, rookery, cart, monkeypatch):
    read, found = runs.read_json, []

    def counted(path):
        found.append(path.name)
        return read(path)

    monkeypatch.setattr(runs, "read_json", counted)
    assert resume(rookery, *words, "--quiet")[0] == 0
    assert found.count("provenance.json") == times


TALKING = """
import gymnasium
import numpy as np

class Talking(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        print("built")

    def reset(self, *, seed=None, options=None):
        print("reset")
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 1.0, True, False, {}
"""


def test_what_an_environment_prints_is_not_among_the_rows(rookery, tmp_path, monkeypatch):
    (tmp_path / "talking_env.py").write_text(TALKING)
    monkeypatch.delitem(sys.modules, "talking_env", raising=False)
    words = ["talking_env:Talking", "--stop", "iterations=1", "--seed", 1, "--evaluate", 2, "--json", *TINY]
    code, out, err = rookery("train", *words, "env.implementation=serial")
    assert code == 0
    assert [json.loads(line)["iteration"] for line in out.splitlines()] == [1]
    assert "built\n" in err and "reset\n" in err


@pytest.mark.parametrize(("said", "values"), [("7", {"seed": 7}), ("null", {})])
def test_a_seed_that_was_drawn_belongs_to_a_run_as_one_that_was_given(said, values):
    from rookery.cli.resume import stored_settings

    assert stored_settings({"seed": [("default", said)], "device": [("default", "cpu")]}).values == values


@pytest.mark.regression("setting dropped", "A name with = is a whole name in settings, overrides, --stop and resume")
def test_names_with_a_sign_of_equality_are_whole_names(rookery, tmp_path):
    """Unity's behaviours are all called Name?team=0."""
    words = ["rookery.tasks:Basic", "--run-id", "game", "--seed", "3", "--stop", "env_steps=32", "--evaluate", "0",
             "policy_mapping={agent: 'B?team=0'}", 'policies."B?team=0".lr=2e-4']  # fmt: skip
    assert rookery("train", *words, *TINY, "--quiet")[0] == 0
    code, _, err = rookery("resume", "game", "logging.tensorboard=false", "--stop", "env_steps=64", "--evaluate", 0)
    assert (code, err) == (0, "")
    assert rookery("resume", "game", 'policies."B?team=0".lr=3e-4', "--stop", "env_steps=96", "--evaluate", 0)[0] == 0
    shown = rookery("explain", "game", "policies.B?team=0.lr")[1]
    assert shown.startswith("policies.B?team=0.lr = 0.0003  (command line)\n")
    code, out, _ = rookery("resume", "game", "--stop", "policies/B?team=0/entropy=-5", "--evaluate", 0, "--plain")
    assert code == 0 and "reached -5" in out


@pytest.mark.regression("unclear error", "An override whose name has = outside quotes is refused with the right form")
def test_a_name_with_a_sign_of_equality_outside_quotes_is_refused(rookery, cart):
    code, _, err = resume(rookery, "policies.B?team=0.lr=1e-3")
    assert code == 2 and err.count("\n") == 1 and """'policies."Name?team=0".lr=3e-4'""" in err


def test_a_file_of_settings_may_have_a_sign_of_equality_in_its_name(rookery, cart, tmp_path):
    (tmp_path / "lr=3.yaml").write_text("algorithm: {lr: 3.0e-3}\n")
    assert resume(rookery, "lr=3.yaml", "--stop", "env_steps=96")[0] == 0
    assert rookery("explain", "cart", "algorithm.lr")[1].startswith("algorithm.lr = 0.003  (lr=3.yaml:1)\n")
