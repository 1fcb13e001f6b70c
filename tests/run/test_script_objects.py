"""Runs of scripts: their classes and functions are found again in the file of the script."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import warm_children
from rookery import Trainer
from rookery.core.errors import ConfigError
from rookery.core.settings.script_objects import ScriptRecord
from rookery.doctor.examine_run import examine_run
from rookery.run.checkpoint.script_file import with_classes

SCRIPT = """
from __future__ import annotations
import argparse
import sys
import gymnasium as gym
from dataclasses import dataclass
from beside import LENGTH
from rookery import PPOConfig, Trainer

trainer = "a name that a method uses as its own"
SIZES = {"length": LENGTH}
SIZES["goal"] = 3


@dataclass
class Place:
    at: int = 0


class Walk(gym.Env):
    observation_space = gym.spaces.Box(-9.0, 9.0, (1,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, render_mode=None):
        self.limit = SIZES["length"] + arguments.longer

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = Place(), 0
        return self.seen(), {}

    def step(self, action):
        trainer = 1 if action else -1
        self.place.at += trainer
        self.steps += 1
        return self.seen(), float(trainer), abs(self.place.at) == SIZES["goal"], self.steps == self.limit, {}

    def seen(self):
        import numpy as np
        return np.array([self.place.at], np.float32)


def mapping(agent, episode):
    return "main"


gym.register("Walk-v7", entry_point="__main__:Walk")
print("the script runs")

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--longer", type=int, default=0)
    parser.add_argument("--by-id", action="store_true")
    arguments = parser.parse_args()
    env = "Walk-v7" if arguments.by_id else Walk
    with Trainer(env, PPOConfig(rollout_size=256), num_envs=2, seed=0, run_dir="run", force=True) as trainer:
        trainer.train_iteration()
        trainer.save()
        Trainer.load("run").close()
"""


def write_script(folder: Path, text: str = SCRIPT) -> None:
    (folder / "beside.py").write_text("LENGTH = 5\n")
    (folder / "train_walk.py").write_text(text)


def run_script(folder: Path, *arguments: str, text: str = SCRIPT) -> None:
    """Runs the script as ``python -m train_walk`` in its folder, in a process that need not import torch first."""
    write_script(folder, text)
    with warm_children.script(folder / "train_walk.py", *arguments) as child:
        errors = child.stderr.read()
        assert child.wait(60) == 0, errors


def test_a_run_of_a_script_is_loaded_from_its_file(tmp_path, capfd):
    write_script(tmp_path)
    line = [sys.executable, "train_walk.py", "--longer", "2"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    check_loading(tmp_path, capfd)


def test_a_run_of_a_script_that_registers_its_environment_is_loaded_from_its_file(tmp_path, capfd):
    run_script(tmp_path, "--longer", "2", "--by-id")
    check_loading(tmp_path, capfd)


def check_loading(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with Trainer.load(tmp_path / "run", console="quiet") as trainer:
        assert trainer.train_iteration().length_mean <= 7
        trainer.save(tmp_path / "again")
    with Trainer.load(tmp_path / "again", console="quiet") as trainer:
        assert trainer.iteration == 2
    shown = "".join(capfd.readouterr())
    assert "the script runs" not in shown
    assert "has changed" not in shown


def test_a_script_that_imports_a_whole_module_finds_its_names(tmp_path):
    run_script(tmp_path, text=SCRIPT.replace("from beside import LENGTH", "from beside import *"))
    with Trainer.load(tmp_path / "run", console="quiet") as trainer:
        assert trainer.train_iteration().length_mean <= 5


def test_the_doctor_plays_the_environment_of_a_script(tmp_path):
    run_script(tmp_path)
    diagnosis = examine_run(tmp_path / "run", time_limit=3.0)
    assert not diagnosis.notes
    assert any("random play" in fact for fact in diagnosis.facts)


def test_a_run_without_a_checkpoint_finds_its_script(tmp_path):
    run_script(tmp_path, text=SCRIPT.replace("trainer.save()", "pass").replace('Trainer.load("run").close()', "pass"))
    diagnosis = examine_run(tmp_path / "run", time_limit=3.0)
    assert diagnosis.notes == ["the run has no checkpoint: its environment was played at random only"]


def test_a_changed_script_is_noted_and_a_missing_name_named(tmp_path, capfd):
    run_script(tmp_path)
    (tmp_path / "train_walk.py").write_text(SCRIPT.replace("LENGTH}", "LENGTH + 1}"))
    Trainer.load(tmp_path / "run").close()
    assert "has changed since this checkpoint" in "".join(capfd.readouterr())
    (tmp_path / "train_walk.py").write_text(SCRIPT.replace("class Walk(", "class Walks("))
    with pytest.raises(ConfigError, match=r"this script has no 'Walk'; did you mean 'Walks'\?"):
        Trainer.load(tmp_path / "run", console="quiet")
    (tmp_path / "train_walk.py").unlink()
    with pytest.raises(ConfigError, match="this script cannot be read"):
        Trainer.load(tmp_path / "run", console="quiet")


def test_a_definition_that_starts_a_run_is_refused(tmp_path):
    run_script(tmp_path)
    uses = SCRIPT.replace("trainer = 1 if action else -1", "global trainer")
    (tmp_path / "train_walk.py").write_text(uses.replace("float(trainer)", "float(len(trainer))"))
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    with pytest.raises(ConfigError, match="uses a name whose definition makes a trainer"):
        Trainer.load(tmp_path / "run", console="quiet")
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before


def test_only_statements_that_are_needed_run(tmp_path):
    file = tmp_path / "some.py"
    file.write_text(
        "LIST = []\nLIST.append(1)\nraise_here = 1 / 0\n\n"
        "def first():\n    def raise_here(): return 2\n    return raise_here()\n\n"
        "class Outer:\n    class Inner:\n        def use(self): return first()\n"
    )
    script = ScriptRecord(str(file), "")
    assert script.find("__main__:Outer.Inner")().use() == 2
    with pytest.raises(ConfigError, match="ZeroDivisionError"):
        script.find("__main__:raise_here")


OWN = SCRIPT.replace(
    "def mapping(",
    """
from typing import ClassVar
from rookery import PPO


class Own(PPO):
    calls = 0

    def training_step(self, rollout):
        type(self).calls += 1
        return super().training_step(rollout)


@dataclass(frozen=True)
class OwnConfig(PPOConfig):
    algorithm: ClassVar[str] = "__main__:Own"
    extra: float = 0.5


def mapping(""",
).replace("PPOConfig(rollout", "OwnConfig(rollout")


def test_an_algorithm_and_settings_of_a_script_are_found_again(tmp_path):
    run_script(tmp_path, text=OWN)
    with Trainer.load(tmp_path / "run", console="quiet") as trainer:
        trainer.train_iteration()
        assert type(trainer.learners["main"]).calls == 1
        assert trainer.config.policies["main"].algorithm.extra == 0.5
        trainer.save(tmp_path / "again")
    with Trainer.load(tmp_path / "again", console="quiet") as trainer:
        assert type(trainer.learners["main"]).__name__ == "Own"
    assert not examine_run(tmp_path / "run", time_limit=2.0).notes


def test_the_doctor_reads_settings_of_a_script_without_a_checkpoint(tmp_path):
    run_script(tmp_path, text=OWN.replace("trainer.save()", "pass").replace('Trainer.load("run").close()', "pass"))
    diagnosis = examine_run(tmp_path / "run", time_limit=3.0)
    assert diagnosis.notes == ["the run has no checkpoint: its environment was played at random only"]


def test_settings_of_a_script_of_another_user_are_refused(tmp_path, monkeypatch):
    run_script(tmp_path, text=OWN)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another user"))
    (note, *_) = examine_run(tmp_path / "run", time_limit=2.0).notes
    assert "__main__:OwnConfig" in note and "not written by you" in note


def test_a_text_of_the_environment_stays_a_text(tmp_path):
    values = {"env": {"name": "__main__:Walk", "config": {"name": "__main__:Walk"}}}
    (tmp_path / "some.py").write_text("class Walk: pass\n")
    found = with_classes(values, ScriptRecord(str(tmp_path / "some.py"), ""))
    assert found["env"]["name"].__name__ == "Walk" and found["env"]["config"]["name"] == "__main__:Walk"
    assert with_classes(values, None) == values
