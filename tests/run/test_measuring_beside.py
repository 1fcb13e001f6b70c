"""Workers that evaluate during training: the same results as in one process, and no other effect."""

import hashlib

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rookery import A2CConfig, Trainer
from rookery.core.errors import WorkerLostError
from rookery.rollout.remote.hosts import LocalHosts
from rookery.run.evaluate import evaluation_workers

CFG = A2CConfig(model={"hidden": (8,)})


class Lengths(gymnasium.Env):
    """Episodes are as long as their seed says, some of them endless; each step gives the time."""

    observation_space = spaces.Box(0, np.inf, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time, self.end = 0, int(self.np_random.integers(1, 60))
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.time += 1
        return np.full(1, self.time, np.float32), float(action), self.time == self.end, False, {}


def trained(workers, iterations=4, env=Lengths, restarts=100, **evaluation):
    """The rows of a run, its evaluations, and a hash of its weights."""
    evaluation = {"every": 2, "episodes": 17, "num_envs": 5, "max_episode_steps": 40, **evaluation, "workers": workers}
    beside = {
        "evaluation": evaluation,
        "cluster": {"ray": "here"},
        "sampling": {"num_envs": 4, "max_restarts": restarts},
    }
    with Trainer(env, CFG, seed=2, **beside) as trainer:
        rows = [trainer.train_iteration() for _ in range(iterations)]
        weights = hashlib.sha256()
        for weight in trainer.policies["main"].parameters():
            weights.update(weight.detach().numpy().tobytes())
        return rows, [row.evaluation for row in rows], weights.hexdigest()


def test_any_number_of_workers_measures_what_one_process_would_measure():
    _, (first, found, _, last), alone = trained(0, iterations=4, every=1)
    for workers in (1, 2, 3, 5):
        rows, measured, weights = trained(workers)
        assert weights == alone
        assert [row.env_steps for row in rows if row.evaluation] == [rows[1].env_steps, rows[3].env_steps]
        # what the second iteration began with is what the first ended with
        assert measured[1] == first
        assert measured[1].env_steps == rows[0].env_steps < rows[1].env_steps
        assert (measured[1].episodes, measured[1].episodes_cut) == (17, first.episodes_cut)
        assert measured[1].episodes_cut > 0
        assert measured[3] != measured[1]
    assert found != last


def test_drawn_actions_are_those_of_each_lane_too():
    _, (first, *_), _ = trained(0, iterations=1, every=1, deterministic=False, max_episode_steps=100)
    _, (_, found), _ = trained(3, iterations=2, deterministic=False, max_episode_steps=100)
    assert found == first
    assert len(set(found.returns)) > 5


def test_an_evaluation_that_somebody_asks_for_is_played_here():
    evaluation = {"every": 1, "episodes": 6, "workers": 2}
    with Trainer("CartPole-v1", CFG, num_envs=4, seed=2, evaluation=evaluation, cluster={"ray": "here"}) as trainer:
        trainer.train_iteration()
        assert trainer.evaluate(6).env_steps == trainer.env_steps
        assert trainer.train_iteration().evaluation.env_steps < trainer.env_steps


def test_a_lost_worker_plays_its_episodes_again_and_too_many_end_the_run(monkeypatch):
    class Losing(LocalHosts):
        left = 1

        def result(self, ticket):
            if Losing.left:
                Losing.left -= 1
                raise WorkerLostError("the worker on nowhere is gone")
            return super().result(ticket)

    monkeypatch.setattr(evaluation_workers, "hosts_of", lambda *arguments: Losing())
    whole = trained(0, iterations=1, every=1)[1][0]
    assert trained(2, iterations=2)[1][1] == whole
    assert Losing.left == 0
    Losing.left = 1000
    with pytest.raises(WorkerLostError, match="nowhere is gone; sampling.max_restarts is used up"):
        trained(2, iterations=2, restarts=3)


def test_what_an_environment_raises_there_is_raised_here():
    class Failing(Lengths):
        def step(self, action):
            if self.time == 50:
                raise ValueError("the gears have stuck")
            return super().step(action)

    with pytest.raises(Exception, match="the gears have stuck"):
        trained(2, env=Failing, max_episode_steps=100)


def test_a_user_is_told_what_has_no_effect_and_how_many_there_are():
    with Trainer("CartPole-v1", CFG, num_envs=2, evaluation={"workers": 2}) as trainer:
        assert any(note.startswith("evaluation.workers: without effect") for note in trainer._notes)
    with Trainer("CartPole-v1", CFG, num_envs=2, evaluation={"workers": 9, "every": 1, "episodes": 3}) as trainer:
        assert any("only 3 environments to share" in note for note in trainer._notes)
