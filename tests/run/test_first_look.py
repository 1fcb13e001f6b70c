"""Notes on an environment from the first samples of a run."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rookery import DQNConfig, PPOConfig, Trainer
from rookery.run.checks.first_look import EPISODES, STEPS

PPO = PPOConfig(fragment_length=64, epochs=1, minibatch_size=512)
DQN = DQNConfig(learning_starts=100_000)


class Fog(gymnasium.Env):
    """Episodes of 5 steps: shows the time from step `shows` of the run on, and rewards an episode of number `pays`."""

    observation_space, action_space = spaces.Box(-1, 9, (2,), np.float32), spaces.Discrete(2)

    def __init__(self, shows=0, pays=0, length=5):
        self.shows, self.pays, self.length, self.step_of_all, self.episode = shows, pays, length, 0, -1

    def obs(self):
        return np.full(2, self.time if self.step_of_all >= self.shows else 0, np.float32)

    def reset(self, *, seed=None, options=None):
        self.time, self.episode = 0, self.episode + 1
        return self.obs(), {}

    def step(self, action):
        self.time += 1
        self.step_of_all += 1
        return self.obs(), float(self.episode == self.pays), self.time == self.length, False, {}


def own(seen):
    """Gives those notes that are of a first look."""
    return [note for note in seen if "observations were the same" in note or "no reward" in note]


def notes(algorithm=PPO, steps=2 * STEPS, copies=4, config=(), **env):
    """Gives the notes that a training shows on what its first samples have in common."""
    settings = {"sampling.warmup_steps": 0}
    seen: list[str] = []
    with Trainer(Fog, algorithm, num_envs=copies, seed=0, env_config=env, config=[settings, dict(config)]) as trainer:
        trainer._reporter.note = seen.append
        trainer._note = seen.append
        trainer.train({"env_steps": steps})
        trainer.train({"env_steps": 2 * steps})  # says nothing again
    return own(seen)


@pytest.mark.parametrize("algorithm", [PPO, DQN])
def test_observations_that_are_all_the_same_are_named_once(algorithm):
    (note,) = notes(algorithm, shows=10**9)
    assert note.startswith("policy main has made 2,") and "all its observations were the same" in note
    assert "rookery envs check ENV" in note and "\n" not in note


@pytest.mark.parametrize("algorithm", [PPO, DQN])
def test_observations_that_differ_at_last_are_not_named(algorithm):
    assert notes(algorithm) == []
    assert notes(algorithm, shows=STEPS // 8) == []  # steps of each of 4 environments


@pytest.mark.parametrize("algorithm", [PPO, DQN])
def test_returns_of_0_are_named_once_with_the_remedy(algorithm):
    (note,) = notes(algorithm, pays=-1)
    assert note.startswith("no reward in the first 2,") and " episodes); if it lasts, try an exploration signal" in note
    assert "'algorithm.signals.rnd={}'" in note and "\n" not in note


def test_a_single_reward_is_enough():
    assert notes(pays=7) == []


def test_a_policy_that_explores_by_a_signal_gets_no_such_note():
    assert notes(pays=-1, config={"algorithm.signals.rnd": {}}) == []


def test_few_steps_or_few_episodes_say_nothing():
    assert notes(pays=-1, shows=10**9, steps=STEPS // 4) == []
    assert notes(pays=-1, length=4 * STEPS // EPISODES, steps=STEPS) == []


def test_a_resumed_run_is_not_looked_at(tmp_path):
    settings = {"sampling.warmup_steps": 0, "env.config": {"shows": 10**9, "pays": -1}}
    with Trainer(Fog, PPO, num_envs=4, seed=0, config=settings, run_dir=tmp_path / "run") as trainer:
        trainer.train({"env_steps": 512})
    seen: list[str] = []
    with Trainer.load(tmp_path / "run", resume=True, env=Fog) as trainer:
        trainer._note = seen.append
        trainer.train({"env_steps": 3 * STEPS})
    assert own(seen) == []


def test_samples_are_looked_at_no_longer_than_needed():
    with Trainer(Fog, PPO, num_envs=4, seed=0) as trainer:
        looks = trainer._remarks.after_sample
        assert looks in trainer._parts.after_sample
        trainer.train_iteration()
        trainer.train_iteration()
        assert looks not in trainer._parts.after_sample
