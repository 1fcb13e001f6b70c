"""Learners that are actors on nodes of a Ray cluster: the weights of learners of one machine, and what ends them."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
from gymnasium import Env, spaces

from rookery import PPOConfig, Trainer
from rookery.core.errors import ConfigError, EnvError, RemoteError, TrainingError

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow

from nodes_of_ray import Nodes  # noqa: E402

PPO = PPOConfig(fragment_length=32, minibatch_size=32, epochs=2, model={"normalize_obs": True})


class Burning(Env):
    """Raises, or kills its process, where it is not played by rank 0, as soon as a file says so."""

    observation_space = spaces.Box(-1, 1, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, driver, match):
        self.driver, self.match = driver, match

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.clock = 0
        return np.zeros(3, np.float32), {}

    def step(self, action):
        self.clock += 1
        if os.getpid() != self.driver and os.path.exists(self.match):
            with open(self.match) as file:
                if file.read() == "raise":
                    raise ValueError("the plant is on fire")
            os.kill(os.getpid(), signal.SIGKILL)
        return np.zeros(3, np.float32), 1.0, self.clock == 20, False, {}


@pytest.fixture(scope="module")
def nodes():
    """Two nodes of one core each."""
    found = Nodes()
    found.add()
    yield found
    found.close()


def weights(trainer):
    return b"".join(value.numpy().tobytes() for value in trainer.policies["main"].state_dict().values())


def config(nodes, learners=2, **more):
    return {"cluster.learners": learners, "cluster.ray": nodes.cluster.address if nodes else "auto", **more}


def test_learners_on_two_nodes_come_to_the_weights_of_learners_of_one_machine(nodes, tmp_path, measured):
    def run(where, name, *stops):
        for stop in stops:
            if (tmp_path / name).exists():
                trainer = Trainer.load(tmp_path / name, resume=True)
            else:
                settings = {"num_envs": 6, "seed": 3, "iteration_steps": 192}
                trainer = Trainer("CartPole-v1", PPO, run_dir=tmp_path / name, config=config(where, 3), **settings)
            with trainer:
                trainer.train({"iterations": stop})
                assert "this process" in trainer._ranks.description
                found = weights(trainer)
        return found

    expected = run(None, "local", 4)
    assert run(nodes, "ray", 4) == expected
    assert run(nodes, "resumed", 2, 4) == expected
    measured("three learners on two nodes of Ray", 3, "weights of learners of one machine, with and without a stop")


@pytest.mark.parametrize("how", ["raise", "kill"])
def test_a_learner_that_fails_ends_the_run_which_goes_on_from_its_checkpoint(nodes, tmp_path, how, measured):
    match = tmp_path / "match"
    env = {"env.config": {"driver": os.getpid(), "match": str(match)}, "env.implementation": "serial"}
    with Trainer(Burning, PPO, run_dir=tmp_path / "a", config=config(nodes, **env), num_envs=4) as trainer:
        trainer.train({"iterations": 3})
        match.write_text(how)
        kind, said = (EnvError, "the plant is on fire") if how == "raise" else (TrainingError, "is gone")
        with pytest.raises(kind, match=rf"learner 1 of 2 on \S+ \(process \d+\).*{said}") as caught:
            trainer.train({"iterations": 20})
        if how == "raise":
            assert isinstance(caught.value.__cause__, RemoteError)
            assert "in step" in str(caught.value.__cause__)
    match.unlink()
    with Trainer.load(tmp_path / "a", resume=True, env=Burning) as trainer:
        assert trainer.iteration >= 3
        assert trainer.train({"iterations": 6}).iteration == 6
    measured(f"a learner on a node of Ray: {how}", 1, "named at rank 0; the run resumes from its checkpoint")


def test_more_learners_than_the_cluster_has_room_for_are_refused(nodes):
    with pytest.raises(ConfigError, match=r"cluster.learners = 6: the Ray cluster has room for 2 of the 5 others.*=3"):
        Trainer("CartPole-v1", PPO, config=config(nodes, 6), num_envs=6)
    with pytest.raises(ConfigError, match=r"room for 0 of the 1 others with 1 CPU and 1 GPU each"):
        Trainer("CartPole-v1", PPO, config=config(nodes, **{"cluster.worker_gpus": 1}), num_envs=6)
