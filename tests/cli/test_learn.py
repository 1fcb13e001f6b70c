"""``rookery learn``, and what ``rookery explain`` says of runs with a replay memory."""

from __future__ import annotations

import json
import re
import shutil
import sys

import pytest

from rookery.cli.main import main

DQN = "CartPole-v1 --algo dqn --run-id dqn --seed 3 --stop env_steps=240 --preset none --evaluate 0 --quiet"
SMALL = (
    "algorithm.batch_size=8 algorithm.learning_starts=40 algorithm.model.hidden=[8] algorithm.gamma=0.9 "
    "sampling.num_envs=2 sampling.iteration_steps=120 algorithm.replay.capacity=500"
    " algorithm.train_every=4 algorithm.updates_per_step=0.25"
)


@pytest.fixture(scope="module")
def finished_dqn(tmp_path_factory):
    """A folder with a run of DQN."""
    folder = tmp_path_factory.mktemp("finished")
    argv, path = sys.argv, list(sys.path)
    sys.argv = ["rookery", "train", *DQN.split(), *SMALL.split(), "--run-dir", str(folder)]
    with pytest.raises(SystemExit) as ended:
        main()
    sys.argv, sys.path[:] = argv, path
    assert not ended.value.code
    return folder


@pytest.fixture
def dqn(finished_dqn, tmp_path, rookery):
    """The run, copied into the folder that commands run in."""
    shutil.copytree(finished_dqn / "dqn", tmp_path / "runs" / "dqn")
    return tmp_path / "runs" / "dqn"


def rows(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_learn_makes_gradient_steps_and_leaves_a_checkpoint_and_a_row(rookery, dqn):
    before = rows(dqn)
    code, out, err = rookery("learn", "dqn", "--gradient-steps", 30)
    assert (code, err) == (0, "")
    made = before[-1]["policies/main/gradient_steps"] + 30
    assert f"main        {made} gradient steps so far, 240 decisions in replay\n" in out
    assert "env steps   240, as before\n" in out
    assert "learning from replay alone, nothing is played; seed " in out
    assert f"stopped: {made} gradient steps are made, 30 of them new\n" in out
    after = rows(dqn)
    assert after[:-1] == before
    assert (after[-1]["sampling"], after[-1]["policies/main/gradient_steps"]) == (False, made)
    assert sorted(path.name for path in (dqn / "checkpoints").glob("0*"))[-1] == "000003"
    code, out, _ = rookery("resume", "dqn", "--stop", "env_steps=360", "--evaluate", 0)
    assert code == 0
    assert rows(dqn)[-1]["env_steps"] == 360


def test_learn_can_be_quiet_and_for_one_policy(rookery, dqn):
    code, out, _ = rookery("learn", "dqn", "--gradient-steps", 2, "--policy", "main", "--quiet")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["main", "env", "written"]


def test_mistakes_of_learn_are_told_in_a_line(rookery, dqn, runs):
    for words, told in (
        (("dqn", "--gradient-steps", 0), "learn: gradient_steps = 0: must be at least 1"),
        (("dqn", "--policy", "man"), "learn: policy 'man' does not exist; there are main; did you mean 'main'?"),
        (("cart",), "learn: no policy of this run learns from replay (learning: main by PPO); choose an algorithm"),
        (("dqq",), "dqq: there is no such run"),
    ):
        code, out, err = rookery("learn", *words)
        assert code == 2, words
        assert err.startswith(f"error: {told}"), err
        assert len(err.splitlines()) == 1
    assert len(rows(dqn)) == 2, "nothing was written"


def test_ctrl_c_while_learning_says_how_to_go_on(rookery, dqn, monkeypatch):
    from rookery.algorithms.off_policy.dqn import DQN
    from rookery.core.process.interrupt import Interrupt

    learn = DQN.learn
    asked = []

    def interrupted(self, gradient_steps):
        asked[0].number = 2
        return learn(self, gradient_steps)

    watching = Interrupt.watching
    monkeypatch.setattr(Interrupt, "watching", lambda self: (asked.append(self), watching(self))[1])
    monkeypatch.setattr(DQN, "learn", interrupted)
    code, _, err = rookery("learn", "dqn", "--gradient-steps", 500)
    assert code == 130
    assert "interrupted; the progress is saved; continue with: rookery learn runs/dqn, or rookery resume" in err
    assert len(rows(dqn)) == 2  # the iteration is not over


def functions(lines):
    return [line.split()[1] for line in lines if line.startswith("  ")]


def test_explain_weights_shows_the_calls_of_a_run_with_a_replay_memory(rookery, dqn):
    code, out, _ = rookery("explain", "dqn", "weights")
    assert code == 0
    lines = out.splitlines()
    assert lines[1] == "call path in this run, DQN:"
    way = functions(lines)
    assert way[:3] == ["Trainer.train_iteration", "Trainer._learn", "update_in_parts"]
    on_kernels, in_torch = ["gradient_steps", "Adam.kernel_step"], ["gradient_step", "apply_gradients"]
    assert way[-2:] in (on_kernels, in_torch)
    assert "DQN.learn" in way


def test_explain_memory_shows_where_play_is_stored_and_drawn(rookery, dqn, runs):
    code, out, _ = rookery("explain", "dqn", "replay")
    assert code == 0
    stored, drawn = out.split("they are sampled in ")
    assert re.match(r"transitions are stored in \S+replay/buffer\.py:\d+ ReplayBuffer\.add\n", stored)
    assert functions(stored.splitlines())[-2:] == ["Replay.store", "ReplayBuffer.add"]
    assert functions(drawn.splitlines())[-1] == "ReplayBuffer.sample"
    assert out.endswith("checkpoints hold the replay buffer as files; their content: rookery replay show runs/dqn\n")
    assert "no policy of this run has a replay buffer" in rookery("explain", "cart", "replay")[1]


def test_explain_answers_which_gamma_and_which_exploration(rookery, dqn):
    assert rookery("explain", "dqn", "algorithm.gamma")[1] == (
        "algorithm.gamma = 0.9  (command line)\n    instead of 0.99  (default)\n"
    )
    assert rookery("explain", "dqn", "algorithm.exploration")[1].startswith(
        "algorithm.exploration.kind = epsilon  (default)\n"
    )
