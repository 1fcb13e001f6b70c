"""Several learners of one machine: what one command starts, stops, keeps and takes up again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from gymnasium import Env, spaces

from rookery import PPOConfig, Trainer
from rookery.algorithms.off_policy.dqn import DQNConfig
from rookery.cluster.ranks import meet
from rookery.core.errors import ConfigError, EnvError, RemoteError, TrainingError
from rookery.core.io.files import FileError
from rookery.core.process import heartbeats
from rookery.core.process.interrupt import STOPPING
from selection import slow
from small_envs import Comings
from threads import in_threads

TWO = {"cluster.learners": 2}
PPO = PPOConfig(fragment_length=32, minibatch_size=32, epochs=2, model={"normalize_obs": True})
DQN = DQNConfig(learning_starts=64, batch_size=16)


class Fragile(Env):
    """Raises, or kills or freezes its process, where it is not played by rank 0, after so many steps of all copies."""

    observation_space = spaces.Box(-1, 1, (3,), np.float32)
    action_space = spaces.Discrete(2)
    played = 0

    def __init__(self, driver, how, after=200):
        self.driver, self.how, self.after = driver, how, after

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.clock = 0
        return np.zeros(3, np.float32), {}

    def step(self, action):
        self.clock += 1
        Fragile.played += 1
        if os.getpid() != self.driver and Fragile.played > self.after:
            if self.how == "raise":
                raise ValueError("the plant is on fire")
            os.kill(os.getpid(), signal.SIGSTOP if self.how == "freeze" else signal.SIGKILL)
        return np.zeros(3, np.float32), 1.0, self.clock == 20, False, {}


def weights(trainer):
    values = [value for policy in trainer.policies.values() for value in policy.state_dict().values()]
    return b"".join(value.numpy().tobytes() for value in values)


LSTM = PPO.replace(model={"memory": {"kind": "lstm", "size": 16, "sequence_length": 8}, "normalize_obs": True})
SEVERAL = {"north": LSTM, "south": PPO.replace(rollout_size=70), "guest": DQN.replace(learning_starts=8)}


@pytest.mark.parametrize(
    ("env", "cfg", "policies"),
    [slow("CartPole-v1", PPO, None), slow("CartPole-v1", DQN, None), slow(Comings, None, SEVERAL)],
    ids=["ppo", "dqn", "several"],
)
def test_a_run_that_is_taken_up_again_ends_like_one_that_never_stopped(tmp_path, env, cfg, policies):
    settings = {"num_envs": 4, "seed": 3, "iteration_steps": 256, "policies": policies}
    settings["config"] = [TWO, {"checkpoint.every": 100}]
    with Trainer(env, cfg, run_dir=tmp_path / "a", **settings) as trainer:
        trainer.train({"iterations": 2})
        shutil.copytree(tmp_path / "a", tmp_path / "b")
        half_way = weights(trainer)
        straight = trainer.train({"iterations": 4})
        expected = weights(trainer)
        assert expected != half_way
    with Trainer.load(tmp_path / "b", resume=True) as trainer:
        result = trainer.train({"iterations": 4})
        assert weights(trainer) == expected
    assert result.row().keys() == straight.row().keys()
    for name in ("env_steps", "episodes", "return_mean"):
        assert getattr(result, name) == getattr(straight, name)
    names = {path.name for path in (tmp_path / "b" / "checkpoints").iterdir() if path.is_dir()}
    assert names == {"000002", "000002.rank1", "000004", "000004.rank1"}


@pytest.mark.slow
def test_a_share_that_is_missing_is_named(tmp_path):
    with Trainer("CartPole-v1", PPO, run_dir=tmp_path / "a", config=TWO, num_envs=4) as trainer:
        trainer.train({"iterations": 1})
    share = tmp_path / "a" / "checkpoints" / "000001.rank1"
    share.rename(tmp_path / "elsewhere")
    with pytest.raises(FileError, match=r"shard of learner 1 of 2 is missing.*init_from"):
        Trainer.load(tmp_path / "a", resume=True)
    with Trainer.load(tmp_path / "a", play=False) as trainer:  # one learner is enough to look at it
        assert trainer.iteration == 1


@pytest.mark.slow
def test_checkpoints_that_go_take_their_shares_with_them(tmp_path):
    kept = {"checkpoint.keep_last": 1, "checkpoint.every": 1}
    with Trainer("CartPole-v1", PPO, run_dir=tmp_path / "a", config=[TWO, kept], num_envs=4) as trainer:
        trainer.train({"iterations": 4})
    found = {path.name for path in (tmp_path / "a" / "checkpoints").iterdir() if path.is_dir()}
    whole = {name for name in found if "." not in name}
    assert "000004" in whole
    assert len(whole) <= 2
    assert found - whole == {f"{name}.rank1" for name in whole}


@pytest.mark.slow
def test_rank_0_evaluates_and_nothing_is_changed_by_it():
    def run(**more):
        config = [TWO, {"evaluation.episodes": 2, **more}]
        with Trainer("CartPole-v1", PPO, config=config, num_envs=4, seed=3) as trainer:
            return trainer.train({"iterations": 2}), weights(trainer)

    (measured, one), (plain, other) = run(**{"evaluation.every": 1}), run()
    assert measured.evaluation is not None
    assert measured.evaluation.episodes == 2
    assert plain.evaluation is None
    assert one == other


def fragile(how, after=200):
    settings = {"driver": os.getpid(), "how": how, "after": after}
    return [TWO, {"env.config": settings, "env.implementation": "serial", "checkpoint.every": 1}]


def test_what_a_learner_raises_is_raised_with_its_traceback():
    with (
        Trainer(Fragile, PPO, config=fragile("raise"), num_envs=4) as trainer,
        pytest.raises(EnvError, match=r"learner 1 of 2: .*the plant is on fire") as caught,
    ):
        trainer.train({"iterations": 20})
    assert isinstance(caught.value.__cause__, RemoteError)
    assert "in step" in str(caught.value.__cause__)


@pytest.mark.slow
def test_a_learner_that_is_killed_ends_the_run_which_can_be_taken_up(tmp_path):
    with Trainer(Fragile, PPO, run_dir=tmp_path / "a", config=fragile("kill", 900), num_envs=4) as trainer:
        with pytest.raises(TrainingError, match=r"learner 1 of 2 \(process \d+\) was killed by SIGKILL"):
            trainer.train({"iterations": 20})
        reached = trainer.iteration
        assert 1 <= reached < 20
    with Trainer.load(tmp_path / "a", resume=True, env=Fragile) as trainer:
        assert trainer.train({"iterations": reached + 1}).iteration == reached + 1


@pytest.mark.slow
@pytest.mark.regression("no end", "a learner that was frozen was waited for without end")
def test_a_learner_that_is_frozen_is_named_and_ended_and_the_run_can_be_taken_up(tmp_path, monkeypatch):
    monkeypatch.setattr(heartbeats, "SILENT_SECONDS", 4.0)
    with Trainer(Fragile, PPO, run_dir=tmp_path / "a", config=fragile("freeze", 900), num_envs=4) as trainer:
        (process,) = trainer._ranks._processes
        with pytest.raises(TrainingError, match=r"learner 1 of 2 on \S+ \(process \d+\) is frozen: .* for 4 seconds"):
            trainer.train({"iterations": 20})
        assert process.wait(5) == -signal.SIGKILL
        reached = trainer.iteration
    with Trainer.load(tmp_path / "a", resume=True, env=Fragile) as trainer:
        assert trainer.train({"iterations": reached + 1}).iteration == reached + 1


@pytest.mark.slow
@pytest.mark.regression("no end", "a second Ctrl-C did not end a run whose other learner was frozen")
def test_ctrl_c_is_answered_and_a_second_ends_the_run_while_a_learner_is_frozen(tmp_path):
    command = [sys.executable, "-m", "rookery", "train", "CartPole-v1", "cluster.learners=2", "--run-id", "a",
               "--run-dir", str(tmp_path), "--plain", "--stop", "iterations=100000"]  # fmt: skip
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not run.stdout.readline().startswith("iteration"):
        pass
    (learner,) = map(int, Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split())
    os.kill(learner, signal.SIGSTOP)
    time.sleep(1.0)  # it waits for the learner by now
    began = time.monotonic()
    run.send_signal(signal.SIGINT)
    assert run.stderr.readline() == f"{STOPPING}\n"
    assert time.monotonic() - began < 3.0
    began = time.monotonic()
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=20)
    assert time.monotonic() - began < 6.0  # half of it where nothing else runs
    assert run.returncode == 128 + signal.SIGINT
    assert not Path(f"/proc/{learner}").exists()


@pytest.mark.slow
def test_ctrl_c_stops_all_learners_with_one_checkpoint(tmp_path):
    command = [sys.executable, "-m", "rookery", "train", "CartPole-v1", "cluster.learners=2", "--run-id", "a",
               "--run-dir", str(tmp_path), "--plain", "--stop", "iterations=100000"]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("iteration"):
            process.send_signal(signal.SIGINT)
            break
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopped; checkpoint" in rest
    assert "continue with: rookery resume" in rest
    last = max(path.name for path in (tmp_path / "a" / "checkpoints").iterdir() if path.name.isdigit())
    assert (tmp_path / "a" / "checkpoints" / f"{last}.rank1").is_dir()
    with Trainer.load(tmp_path / "a", resume=True) as trainer:
        trainer.train({"iterations": trainer.iteration + 1})


def test_what_cannot_be_sent_to_a_learner_is_refused():
    lock = threading.Lock()

    def make():
        assert lock
        return Fragile(0, "raise")

    with pytest.raises(ConfigError, match=r"cluster\.learners = 2: the run cannot be sent.*lock"):
        Trainer(make, PPO, config=TWO, num_envs=4)


@pytest.mark.slow
def test_learning_and_playing_apart_are_the_same_on_learners_of_one_command_and_of_a_script(tmp_path):
    settings = {"num_envs": 4, "seed": 3, "config": [TWO, {"sampling.iteration_steps": 200}]}

    def run(trainer):
        played = trainer.collect(400)
        assert (played.env_steps, played.policies["main"].decisions) == (400, 400)
        learned = trainer.learn(30)
        assert learned.policies["main"].learning["gradient_steps"] == 30
        assert learned.env_steps == 400
        trainer.pause_sampling()
        paused = trainer.train_iteration()
        assert paused.env_steps == 400
        assert paused.policies["main"].learning["gradient_steps"] == 30 + 25  # a quarter of 200 / 2
        trainer.resume_sampling()
        assert trainer.train({"env_steps": 600}).env_steps == 600
        return weights(trainer)

    with Trainer("CartPole-v1", DQN, **settings) as trainer:
        expected = run(trainer)

    def one(rank):
        with Trainer("CartPole-v1", DQN, ranks=meet(tmp_path / "ranks", rank, 2, timeout=60), **settings) as trainer:
            return run(trainer)

    assert in_threads(one, 2) == [expected] * 2
