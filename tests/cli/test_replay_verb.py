"""rookery replay: what it says, what it writes, what it refuses; and training from what it wrote."""

from __future__ import annotations

import json
import shutil
import sys

import numpy as np
import pytest
from commands import train_into
from PIL import Image

from rookery.cli.runs import in_runs_folder
from rookery.core.io.files import read_manifest

SIZES = [
    "sampling.num_envs=4",
    "sampling.iteration_steps=40",
    "algorithm.learning_starts=50",
    "algorithm.train_every=4",
]
DQN = ["--algo", "dqn", "--preset", "none", "--evaluate", "0", *SIZES]


@pytest.fixture(scope="session")
def remembering_runs(tmp_path_factory):
    """A folder with three runs that have memories: two of one environment, and one of another."""
    folder = tmp_path_factory.mktemp("remembering")
    names = {"a": "CartPole-v1", "b": "CartPole-v1", "car": "MountainCar-v0"}
    words = [*DQN, "--seed", "3", "--stop", "env_steps=200"]
    return train_into(folder, *([env, "--run-id", name, *words] for name, env in names.items()))


@pytest.fixture
def runs(remembering_runs, tmp_path, rookery):
    """The runs, copied into the folder that commands run in."""
    return shutil.copytree(remembering_runs, tmp_path / "runs")


def decisions(place):
    facts = read_manifest(place)["memories"]["main"]
    return facts["last"] - facts["first"]


def test_show_says_what_a_memory_holds(rookery, runs):
    code, out, err = rookery("replay", "show", "a")
    assert (code, err) == (0, "")
    head, *lines = out.splitlines()
    assert head.startswith("runs/a/checkpoints/") and head.endswith(":main")
    found = {line[2:16].strip(): line[16:] for line in lines}
    count = decisions(sorted((runs / "a" / "checkpoints").glob("0*"))[-1])
    assert found["decisions"] == f"{count:,} of 100,000"
    assert found["observations"].startswith("Box([-4.8")
    assert found["actions"] == "Discrete(2)"
    assert found["rewards"] == "min 1, mean 1, max 1"
    assert " ended: " in found["episodes"] and found["episodes"].endswith(" under way")
    assert found["returns"].startswith("min ")
    assert found["on disk"].endswith("MB in 1 file")
    assert found["written"].endswith(" ago")


def test_show_takes_runs_checkpoints_and_policies(rookery, runs):
    place = sorted((runs / "a" / "checkpoints").glob("0*"))[-1]
    texts = [rookery("replay", "show", word)[1].splitlines()[1:-1] for word in ("a", "runs/a", place, f"{place}:main")]
    assert texts[0] and all(text == texts[0] for text in texts)


def test_the_names_of_before_still_work_and_are_not_shown(rookery, runs):
    (code, before, _), (same, now, _) = rookery("memory", "show", "a"), rookery("replay", "show", "a")
    assert code == same == 0
    assert before.splitlines()[:-1] == now.splitlines()[:-1]  # the last line says how long ago it was written
    helps = rookery("--help")[1], rookery("train", "--help")[1]
    assert "replay" in helps[0] and "memory" not in helps[0]
    assert "--replay" in helps[1] and "--memory" not in helps[1]
    words = ["--run-id", "heir", "--seed", 4, "--stop", "env_steps=20", "--plain", "--memory", "a"]
    code, out, err = rookery("train", "CartPole-v1", *DQN, *words)
    assert code == 0, err
    assert "policies.main.replay.start_from" in out + err


def test_show_draws(rookery, runs):
    pytest.importorskip("matplotlib")
    code, out, _ = rookery("replay", "show", "a", "--plot", "pictures/a.png")
    assert code == 0
    assert out.splitlines()[-1].startswith("pictures/a.png: ")
    assert Image.open("pictures/a.png").size == (1350, 600)
    code, _, err = rookery("replay", "show", "a", "-o", "a.what")
    assert code == 2
    assert err.startswith("error: --output a.what: cannot be written: ")


def test_without_matplotlib_a_picture_is_refused_in_words(rookery, runs, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert rookery("replay", "show", "a", "-o", "a.png")[2] == (
        "error: --output needs matplotlib: pip install 'rookery-rl[plot]'\n"
    )


def test_what_holds_no_memory_is_said(rookery, runs, trained):
    assert trained("--quiet", "--run-id", "ppo")[0] == 0
    code, _, err = rookery("replay", "show", "ppo")
    assert code == 2
    assert "holds no replay buffer: its algorithms use no replay" in err
    code, _, err = rookery("replay", "show", "aa")
    assert code == 2
    assert "there is no such run; did you mean 'a'?" in err
    code, _, err = rookery("replay", "show", "runs/a:mian")
    assert code == 2
    assert "policy 'mian' is not one of main; did you mean 'main'?" in err


def test_merge_joins_and_refuses_to_write_over_anything(rookery, runs):
    code, out, _ = rookery("replay", "merge", "a", "b", "-o", "memories/both")
    assert code == 0
    assert out.splitlines()[-1] == f"memories/both: {decisions_of('memories/both'):,} decisions of 2 replay buffers"
    code, _, err = rookery("replay", "merge", "a", "b", "-o", "memories/both")
    assert (code, err) == (
        2, "error: --output memories/both: the directory exists; add --force to replace it, or give another name\n"
    )  # fmt: skip
    assert rookery("replay", "merge", "a", "b", "a", "-o", "memories/both", "--force")[0] == 0
    assert rookery("replay", "show", "memories/both")[0] == 0
    for other in ("runs/a", sorted((runs / "a" / "checkpoints").glob("0*"))[-1]):
        code, _, err = rookery("replay", "merge", "a", "b", "-o", other, "--force")
        assert code == 2
        assert "is not a directory of replay buffers, so it is not replaced" in err


def decisions_of(place):
    facts = json.loads(open(f"{place}/manifest.json").read())["memories"]["main"]
    return facts["last"] - facts["first"]


def test_merge_refuses_other_spaces_and_names_the_difference(rookery, runs):
    code, _, err = rookery("replay", "merge", "a", "car", "-o", "both")
    assert code == 2
    assert "runs/car/checkpoints/" in err and "this replay buffer does not fit: it holds observations Box([-1.2" in err
    assert "runs/a/checkpoints/" in err and "it holds actions Discrete(3)" in err


def test_export_makes_a_memory_that_other_runs_start_from(rookery, runs):
    assert rookery("replay", "export", "a", "-o", "pole")[0] == 0
    shutil.rmtree(runs / "a")
    count = decisions_of("pole")
    words = ["--run-id", "heir", "--seed", 4, "--stop", "env_steps=40", "--plain"]
    code, out, err = rookery("train", "CartPole-v1", *DQN, *words, "--replay", "pole")
    assert code == 0, err
    assert f"policies.main.replay.start_from: {count:,} decisions of pole:main" in out + err
    out = rookery("replay", "show", "heir")[1]
    assert f"{count + 40:,} of 100,000" in out
    code, out, err = rookery("train", "CartPole-v1", *DQN, *words, "--force", "--replay", "pole*0.5")
    assert code == 0, err
    assert f"policies.main.replay.mix: 50% of each batch from {count:,} decisions of pole:main" in out + err


def test_export_gives_plain_arrays_to_others(rookery, runs):
    code, out, _ = rookery("replay", "export", "a", "-o", "arrays/pole.npz")
    assert code == 0
    assert out.splitlines()[-1].startswith("arrays/pole.npz: ")
    with np.load("arrays/pole.npz", allow_pickle=False) as arrays:
        assert arrays["obs"].shape == arrays["next_obs"].shape == (len(arrays["reward"]), 4)
    assert "exists; add --force" in rookery("replay", "export", "a", "-o", "arrays/pole.npz")[2]
    assert rookery("replay", "export", "a", "-o", "arrays/pole.npz", "--force")[0] == 0


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("pole*2.5", "2.5 is not a part of a batch: must be above 0 and at most 1"),
        ("pole*-0.5", "-0.5 is not a part of a batch: must be above 0 and at most 1"),
        ("pole*1e", "1e is not a number; write it as in runs/x*0.5"),
        ("nowhere", "nowhere: there is no such run or checkpoint"),
        ("runs/car", "this replay buffer does not fit"),
    ],
)
def test_memories_that_cannot_be_started_from_are_refused(rookery, runs, word, told):
    rookery("replay", "export", "a", "-o", "pole")
    code, _, err = rookery("train", "CartPole-v1", *DQN, "--run-id", "heir", "--replay", word)
    assert code in (1, 2)
    assert told in err
    assert "Traceback" not in err


def test_a_memory_that_is_mixed_in_twice_is_refused(rookery, runs):
    rookery("replay", "export", "a", "-o", "pole")
    words = ["--run-id", "heir", "--replay", "pole*0.2", "--replay", "pole*0.3"]
    code, _, err = rookery("train", "CartPole-v1", *DQN, *words)
    assert (code, err) == (2, "error: replay = 'pole*0.3': pole has a part of each batch already\n")


def test_what_exists_is_a_path_whatever_its_name_is_like(rookery, runs):
    rookery("replay", "export", "a", "-o", "v1.2/half*0.5")
    for word, told in (("v1.2/half*0.5", "replay.start_from: "), ("v1.2/half*0.5*0.5", "replay.mix: 50% of each ")):
        words = ["--run-id", "heir", "--stop", "env_steps=40", "--plain", "--force", "--replay", word]
        code, out, err = rookery("train", "CartPole-v1", *DQN, *words)
        assert code == 0, err
        assert f"policies.main.{told}" in out + err
        assert "decisions of v1.2/half*0.5:main" in out + err


@pytest.mark.parametrize("target", ["file/pole", "file/pole.npz"])
def test_an_export_that_has_no_place_is_refused_in_words(rookery, runs, target):
    (runs.parent / "file").write_bytes(b"")
    code, _, err = rookery("replay", "export", "a", "-o", target)
    assert code == 1
    assert err.startswith("error: file: this folder cannot be made: File exists")


def test_a_run_to_begin_with_may_be_called_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "swing").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    assert in_runs_folder("swing:hunter*0.5") == "runs/swing:hunter*0.5"
    assert in_runs_folder("here*0.5") == "here*0.5"
    assert in_runs_folder("nowhere") == "nowhere"
