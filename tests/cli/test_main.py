"""The command line from outside: what it prints, writes and exits with."""

from __future__ import annotations

import io
import json
import signal
import sys
from textwrap import dedent

import pytest
from commands import TINY

from rookery import Trainer, __version__
from warm_children import command


def test_help_lists_the_verbs(rookery):
    code, out, _ = rookery("--help")
    assert code == 0
    for verb in ("train", "resume", "learn", "evaluate", "record", "plot", "timers", "explain", "envs", "config"):
        assert f" {verb} " in out


@pytest.mark.regression("unclear error", "rookery --version prints the version, without a command")
def test_version_needs_no_command(rookery):
    code, out, err = rookery("--version")
    assert (code, out.splitlines()[0], err) == (0, f"rookery {__version__}", "")


def test_train_writes_what_it_was_and_what_came_out(trained, tmp_path):
    code, out, _ = trained("--plain", "--evaluate", 3)
    assert code == 0
    folder = tmp_path / "runs" / "CartPole-v1-ppo-s3"
    assert {path.name.split(".out")[0] for path in folder.iterdir()} == {
        "checkpoints", "command.txt", "config.yaml", "events", "metrics.jsonl", "provenance.json", "result.json",
        "run.lock", "timers.json", "versions.json",
    }  # fmt: skip
    assert (folder / "command.txt").read_text().startswith("rookery train CartPole-v1 --seed 3 --stop env_steps=64 ")
    assert {"rookery", "python", "torch", "numpy", "gymnasium"} <= json.loads(
        (folder / "versions.json").read_text()
    ).keys()
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    result = json.loads((folder / "result.json").read_text())
    assert result["final"] == rows[-1]
    assert result["final"]["env_steps"] == 64  # 4 iterations of 2 copies x 8 steps
    assert result["stop_reason"] == "env_steps 64 reached 64"
    assert result["evaluation"]["episodes"] == 3
    assert "2 environments, 1 agent each, seed 3" in out
    assert "until env_steps 64" in out
    assert f"evaluation  {result['evaluation']['return_mean']:.2f}, 95 % interval [" in out
    assert "env steps   64\n" in out
    assert out.splitlines()[-4:] == [
        "written     runs/CartPole-v1-ppo-s3/",
        "next        rookery evaluate runs/CartPole-v1-ppo-s3 --episodes 100",
        "            rookery plot runs/CartPole-v1-ppo-s3",
        "            rookery record runs/CartPole-v1-ppo-s3, or rookery serve runs/CartPole-v1-ppo-s3",
    ]


def test_quiet_shows_the_outcome_only(trained):
    _, out, err = trained("--quiet")
    assert [line.split()[0] for line in out.splitlines()] == ["return", "env", "seconds", "steps/s", "written"]
    assert err == ""


def test_json_shows_the_rows_and_nothing_else(trained, tmp_path):
    code, out, err = trained("--json", "--evaluate", 2)
    assert (code, err) == (0, "")
    assert out == (tmp_path / "runs" / "CartPole-v1-ppo-s3" / "metrics.jsonl").read_text()


def test_output_that_nobody_reads_any_more_ends_a_command_without_a_traceback(tmp_path):
    words = ["train", "CartPole-v1", "--seed", "3", *TINY, "--stop", "seconds=60", "--json"]
    with command(*words, folder=tmp_path) as run:
        assert json.loads(run.stdout.readline())["iteration"] == 1
        run.stdout.close()
        assert "Traceback" not in run.stderr.read()
        run.wait(30)


@pytest.mark.skipif(sys.getfilesystemencoding() != "utf-8", reason="file names cannot be Russian here")
def test_names_that_a_terminal_cannot_show_end_nothing(trained, tmp_path, monkeypatch):
    shown = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(shown, encoding="ascii"))
    assert trained("--plain", "--run-id", "Ёлка", "policies.птица={gamma: 0.9}")[0] == 0
    assert b"policy \\u043f\\u0442" in shown.getvalue()
    assert (tmp_path / "runs" / "Ёлка" / "metrics.jsonl").exists()


def test_a_taken_usual_name_gets_a_number(trained, tmp_path):
    for _ in range(3):
        assert trained("--quiet")[0] == 0
    names = {path.name for path in (tmp_path / "runs").iterdir()}
    assert names == {"CartPole-v1-ppo-s3", "CartPole-v1-ppo-s3-2", "CartPole-v1-ppo-s3-3"}


def test_a_taken_run_id_is_refused_with_three_ways_out(trained):
    trained("--quiet", "--run-id", "mine")
    code, _, err = trained("--quiet", "--run-id", "mine")
    assert code == 2
    expected = (
        "error: command line: --run-id mine: runs/mine exists; rookery resume runs/mine continues it, --force "
        "replaces it; else give another --run-id\n"
    )
    assert err == expected


@pytest.mark.regression("data lost", "Replacing a run removes what Rookery wrote and keeps what its user put there")
def test_force_replaces_a_run_and_keeps_what_its_user_put_there(trained, tmp_path):
    trained("--quiet", "--run-id", "mine")
    folder = tmp_path / "runs" / "mine"
    (folder / "mine.txt").write_text("mine")
    (folder / "videos").mkdir()
    (folder / "videos" / "000002.webp").write_text("old")
    code, _, err = trained("--quiet", "--run-id", "mine", "--force")
    assert code == 0
    assert "note: runs/mine: kept what Rookery did not write: mine.txt\n" in err
    assert (folder / "mine.txt").read_text() == "mine"
    assert not (folder / "videos").exists()
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 4


@pytest.mark.regression(
    "data lost", "A start that was killed before its first row can be repeated with the same command"
)
@pytest.mark.parametrize("left", [[], ["checkpoints"], ["checkpoints", "run.lock"]])
def test_a_start_that_was_killed_before_its_settings_were_written_is_made_again_by_the_same_command(
    trained, rookery, tmp_path, left
):
    folder = tmp_path / "runs" / "mine"
    folder.mkdir(parents=True)
    for name in left:
        (folder / name).touch() if name == "run.lock" else (folder / name).mkdir()
    code, _, err = rookery("resume", "mine")
    assert code == 2 and err.count("\n") == 1
    assert ("start it again with the same command" in err) == ("run.lock" in left)
    assert trained("--quiet", "--run-id", "mine")[0] == 0
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 4
    assert [path.name for path in folder.parent.iterdir()] == ["mine"]


def test_force_deletes_nothing_where_no_run_was(trained, tmp_path):
    precious = tmp_path / "runs" / "mine"
    precious.mkdir(parents=True)
    (precious / "thesis.txt").write_text("years")
    for words in ((), ("--force",)):  # which is not offered where it would be refused
        code, _, err = trained("--run-id", "mine", *words)
        assert code == 2
        assert "runs/mine is not a run; give another --run-id\n" in err
    assert (precious / "thesis.txt").read_text() == "years"


def test_force_keeps_the_old_run_if_the_new_one_cannot_begin(trained, tmp_path):
    trained("--quiet", "--run-id", "mine")
    before = (tmp_path / "runs" / "mine" / "metrics.jsonl").read_text()
    assert trained("--run-id", "mine", "--force", "env.config.gravity=1")[0] == 1
    assert (tmp_path / "runs" / "mine" / "metrics.jsonl").read_text() == before


@pytest.mark.parametrize("run_id", ["..", "a/b", "", ".hidden"])
def test_a_run_id_cannot_leave_the_folder_of_runs(trained, run_id):
    code, _, err = trained("--run-id", run_id)
    assert code == 2
    assert f"--run-id {run_id!r} must be made of letters, digits and . _ + -" in err


@pytest.mark.regression("unclear error", "A folder that cannot be made is named with its option")
@pytest.mark.parametrize("words", [(), ("--run-id", "mine")])
def test_runs_in_what_is_no_folder_are_refused_with_the_option(words, trained, tmp_path):
    (tmp_path / "notes.txt").touch()
    expected = "error: command line: --run-dir notes.txt: the folder of a run cannot be made there: Not a directory\n"
    assert trained("--run-dir", "notes.txt", *words) == (2, "", expected)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("env.config.gravity=3", "unknown to it"),
        ("stop.return_men=3", "did you mean 'return_mean'"),
        ("stop.evaluation/return_mean=3", "command line: stop.evaluation/return_mean = 3.0: there are no evaluations"),
    ],
)
def test_a_refused_setting_leaves_nothing_but_what_was_there(word, said, rookery, tmp_path):
    (tmp_path / "mine" / "empty").mkdir(parents=True)
    for place in (["--run-dir", "mine/new/runs"], ["--run-dir", "mine", "--run-id", "empty", "--force"]):
        code, _, err = rookery("train", "CartPole-v1", *TINY, word, *place)
        assert code in (1, 2) and said in err
        assert list(tmp_path.rglob("*")) == [tmp_path / "mine", tmp_path / "mine" / "empty"]


def test_a_file_lies_below_the_command_line(rookery, tmp_path):
    (tmp_path / "run.yaml").write_text(
        dedent("""\
            env: {name: CartPole-v1}
            seed: 5
            sampling: {num_envs: 2}
            algorithm: {fragment_length: 8, epochs: 1, lr: 0.01, gamma: 0.5}
            stop: {env_steps: 32}
        """)
    )
    code, _, _ = rookery("train", "run.yaml", "algorithm.lr=3e-4", "--quiet", "--evaluate", 0, "--preset", "none")
    assert code == 0
    lines = (tmp_path / "runs" / "CartPole-v1-ppo-s5" / "config.yaml").read_text().splitlines()
    assert any("lr: 0.0003" in line and line.endswith("# command line") for line in lines)
    assert any("gamma: 0.5" in line and line.endswith("# run.yaml:4") for line in lines)


def test_a_written_config_trains_the_same_run_again(trained, rookery, tmp_path):
    trained("--quiet", "--run-id", "first")
    config = "runs/first/config.yaml"
    code, _, err = rookery("train", config, "--quiet", "--evaluate", 0, "--preset", "none", "--run-id", "second")
    assert (code, err) == (0, "")

    def rows(run):
        lines = (tmp_path / "runs" / run / "metrics.jsonl").read_text().splitlines()
        return [{k: v for k, v in json.loads(line).items() if not k.startswith("time/")} for line in lines]

    assert rows("second") == rows("first")


def test_without_a_seed_one_is_drawn_and_stands_in_name_and_config(rookery, tmp_path):
    rookery("train", "CartPole-v1", *TINY, "--stop", "env_steps=16", "--quiet", "--evaluate", 0)
    (folder,) = (tmp_path / "runs").iterdir()
    seed = folder.name.removeprefix("CartPole-v1-ppo-s")
    assert any(line.startswith(f"seed: {seed} ") for line in (folder / "config.yaml").read_text().splitlines())


def test_the_preset_of_a_known_environment_is_on_unless_turned_off(rookery, tmp_path):
    _, out, _ = rookery("train", "CartPole-v1", "--seed", 1, "--stop", "iterations=1", "--plain", "--evaluate", 0)
    assert "preset CartPole-v1\n" in out
    assert "until env_steps 100,000 or iterations 1\n" in out
    _, out, _ = rookery(
        "train", "CartPole-v1", "--seed", 1, "--stop", "iterations=1", "--plain", "--evaluate", 0, "--preset", "none"
    )
    assert "preset" not in out


def test_without_any_stop_a_budget_holds_and_is_said(rookery, monkeypatch):
    monkeypatch.setattr("rookery.cli.train.BUDGET", 16)
    code, out, _ = rookery("train", "CartPole-v1", "--seed", 1, *TINY, "--plain", "--evaluate", 0)
    assert code == 0
    assert "note: no stop criterion is given: training stops after 16 environment steps (--stop env_steps=N)\n" in out
    assert "stopped: env_steps 16 reached 16" in out


def test_two_policies_are_trained_in_the_arena(rookery, tmp_path):
    code, out, err = rookery(
        "train", "--env", "rookery.tasks.games.arena:MultiAgentArena", "--algo", "ppo", "--seed", 0, "--num-envs", 2,
        "policies.pol1.lr=3e-4", "policies.pol2.lr=4e-4", "policy_mapping.agent1=pol1", "policy_mapping.agent2=pol2",
        "algorithm.fragment_length=8", "algorithm.epochs=1", "--stop", "policies.pol2.updates=2", "--plain",
        "--evaluate", 0,
    )  # fmt: skip
    assert code == 0, err
    assert "policy pol1: PPO" in out
    assert "stopped: policies/pol2/updates 2 reached 2" in out
    assert (tmp_path / "runs" / "MultiAgentArena-ppo-s0").is_dir()


def test_all_mistakes_are_reported_at_once(rookery):
    code, _, err = rookery("train", "CartPole-v1", "algorithm.lr=-1", "algorithm.gama=0.9", "sampling.num_envs=0")
    assert code == 2
    assert err.count("error: command line: ") == 3


ENV = """
import gymnasium
import numpy as np

class Bomb(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, fuse=5):
        self.fuse = fuse
        if fuse < 0:
            raise RuntimeError("a fuse cannot be negative")

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.fuse -= 1
        if not self.fuse:
            explode()
        return np.zeros(2, np.float32), 1.0, False, False, {}

def explode():
    raise ValueError("boom")
"""


def test_an_environment_beside_the_command_is_found_and_its_error_shown_once(rookery, tmp_path, monkeypatch):
    (tmp_path / "bomb_env.py").write_text(ENV)
    monkeypatch.delitem(sys.modules, "bomb_env", raising=False)
    code, _, err = rookery("train", "bomb_env:Bomb", "--seed", 1, *TINY, "--quiet", "--stop", "env_steps=99")
    assert code == 1
    first, *_, last = err.splitlines()
    assert first == "Traceback (most recent call last):"
    assert err.count("Traceback") == err.count("ValueError: boom\nerror: ") == 1
    assert "src/rookery" not in err  # it begins with the environment's own line
    assert 'bomb_env.py", line 20, in step' in err
    assert last.startswith("error: Bomb: environment 0, seed ")
    assert "episode 0, step 5, agent 'agent', action" in last
    code, _, err = rookery("train", "bomb_env:Bomb", "env.config.fuse=-1", "--quiet")
    assert code == 1
    assert 'bomb_env.py", line 12, in __init__' in err
    assert err.endswith(
        "error: Bomb: building it with env.config {'fuse': -1} raised RuntimeError: a fuse cannot be negative\n"
    )


def test_ctrl_c_exits_130_and_says_where_the_results_are(tmp_path):
    words = ["train", "CartPole-v1", "--seed", "3", *TINY, "--stop", "seconds=60", "--plain"]
    with command(*words, folder=tmp_path, COLUMNS="200") as child:
        for line in child.stdout:
            if line.startswith("iteration"):
                break
        child.send_signal(signal.SIGINT)
        child.stdout.read()
        err = child.stderr.read()
        assert child.wait(30) == 130
    assert err.startswith("interrupted after ")
    assert err.endswith("continue with: rookery resume runs/CartPole-v1-ppo-s3\n")
    assert "Traceback" not in err


@pytest.mark.parametrize("saves", [True, False])
@pytest.mark.regression("unclear error", "After a second Ctrl-C the last line does not say what was not saved")
def test_a_second_ctrl_c_says_what_was_not_saved(rookery, monkeypatch, saves):
    def train(trainer, stop):
        trainer.train_iteration()
        if saves:
            trainer.save()
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "train", train)
    code, _, err = rookery("train", "CartPole-v1", "--seed", 3, *TINY, "--run-id", "x", "--quiet")
    assert code == 130
    lost = (
        "nothing was saved since checkpoint 000001"
        if saves
        else "there is no checkpoint, so a resumed run starts again"
    )
    assert err.splitlines()[-1].endswith(f" environment steps; {lost}; continue with: rookery resume runs/x"), err


@pytest.mark.regression("unclear error", "After a second Ctrl-C rookery mlagents learn says that all is written")
def test_a_second_ctrl_c_of_mlagents_learn_says_what_was_not_saved(rookery, monkeypatch, tmp_path):
    def train(trainer):
        raise KeyboardInterrupt

    (tmp_path / "cart.yaml").write_text("behaviors: {Cart: {max_steps: 100}}\n")
    monkeypatch.setattr(Trainer, "train", train)
    code, _, err = rookery("mlagents", "learn", "cart.yaml", "--env", "CartPole-v1", "--run-id", "x")
    assert code == 130
    assert "interrupted; there is no checkpoint, so a resumed run starts again; continue with: rookery mlagents" in err


def test_a_training_whose_return_never_moved_ends_with_what_to_try(rookery):
    words = ["train", "MountainCar-v0", "--seed", 1, "--preset", "none", "--stop", "env_steps=8000", "--evaluate", 0]
    code, out, _ = rookery(*words, "--plain", "--run-id", "car")
    assert code == 0
    end = out.splitlines()[-7:]
    assert end[1].startswith("note        the return stayed at -200.00 through ")
    assert end[2].strip().startswith("to try, in this order: --preset auto; --algo dqn; 'algorithm.signals.rnd={}'")
    assert end[3].strip().startswith("rookery resume runs/car --stop env_steps=")
    assert end[4].startswith("next  ")
    assert "stayed" not in rookery(*words, "--quiet", "--run-id", "quiet")[1]


def test_without_an_algorithm_the_environment_decides_and_the_run_says_why(rookery, tmp_path):
    (tmp_path / "cliff.yaml").write_text("env: {name: CliffWalking-v1}\nalgorithm: {lr: 1e-3}\n")
    rule = "chosen for CliffWalking-v1, whose preset is of dqn; --algo overrides"
    words = ["--seed", 1, "--stop", "env_steps=64", "--evaluate", 0]
    code, out, _ = rookery("train", "cliff.yaml", *words, "--plain")
    assert code == 0 and f"algorithm dqn: {rule}\n" in out
    assert out.count("algorithm dqn") == 1
    _, out, _ = rookery("explain", "CliffWalking-v1-dqn-s1", "algorithm.name")
    assert out == f"algorithm.name = dqn  ({rule})\n    instead of ppo  (default)\n"
    _, out, _ = rookery("resume", "CliffWalking-v1-dqn-s1", "--stop", "env_steps=128", "--evaluate", 0, "--plain")
    assert "chosen for" not in out
    for more in (["--algo", "ppo"], ["--preset", "none"]):
        code, out, _ = rookery("train", "cliff.yaml", *words, *more, "--plain", "--force")
        assert code == 0 and "CliffWalking-v1-ppo-s1" in out and "chosen for" not in out


def test_a_setting_of_another_algorithm_than_the_chosen_one_is_refused_with_the_rule(rookery):
    code, _, err = rookery("train", "CliffWalking-v1", "algorithm.clip=0.1")
    assert code == 2
    assert err.startswith("error: command line: algorithm.clip = 0.1: there is no such setting")
    assert "dqn was chosen for CliffWalking-v1, whose preset is of dqn: --algo ppo for the settings of ppo" in err
    code, _, err = rookery("train", "CliffWalking-v1", "algorithm.clip=0.1", "--algo", "dqn")
    assert code == 2 and "chosen" not in err


def test_trials_learn_by_the_chosen_algorithm_too(rookery, tmp_path):
    words = ["tune", "CliffWalking-v1", "--stop", "env_steps=64", "--plain", "tune.place=here"]
    code, _, err = rookery(*words, "algorithm.clip={grid_search: [0.1, 0.2]}")
    assert code == 2 and "--algo ppo for the settings of ppo" in err
    code, _, err = rookery(*words, "algorithm.lr={grid_search: [0.1]}")
    assert code == 0 and err.startswith("algorithm dqn: chosen for CliffWalking-v1")
    assert (tmp_path / "runs" / "tune-CliffWalking-v1-dqn").is_dir()
