"""Training in environments that only one process can have: no others are made, and they are lent when needed."""

import pytest
import torch

from rookery import Trainer
from walkers import WalkersEnv


@pytest.fixture(autouse=True)
def count_anew():
    WalkersEnv.made = 0


def trainer(**settings):
    small = {
        "algorithm.model.normalize_obs": True,
        "algorithm.fragment_length": 8,
        "algorithm.minibatch_size": 32,
        "algorithm.epochs": 1,
    }
    config = {"env.config": {"only_one": True}, "sampling.iteration_steps": 64, **small, **settings}
    return Trainer(WalkersEnv, "ppo", config=config, num_envs=2, seed=0, console="quiet")


def test_no_copies_are_made_to_be_thrown_away():
    with trainer() as one:
        assert WalkersEnv.made == 1
        counts = [state for name, state in one.policies["main"].normalizer.state_dict().items() if "count" in name]
        assert counts and not any(counts), "statistics begin with what is played"
        one.train_iteration()
        assert all(counts), "a state dict shows the buffers themselves"


def test_an_evaluation_borrows_the_copies_and_training_goes_on():
    with trainer() as one:
        one.train_iteration()
        before = one.env.episode.copy()
        result = one.evaluate(episodes=6)
        assert result.episodes >= 6 and WalkersEnv.made == 1
        assert (one.env.episode > before).all(), "the episodes that ran were given up"
        row = one.train_iteration()
        assert row.episodes and torch.isfinite(torch.tensor(row.return_mean))


def test_a_warm_up_that_was_asked_for_is_said_not_to_be():
    with trainer(**{"sampling.warmup_steps": 100}) as one:
        assert any("sampling.warmup_steps = 100" in note and "no random warm-up" in note for note in one._notes)


def test_copies_that_are_there_are_trained_in():
    env = WalkersEnv(2, only_one=True)
    with Trainer(WalkersEnv, "ppo", stand_in=env, num_envs=2, seed=0, console="quiet") as one:
        one.train_iteration()
        assert one.env is env and WalkersEnv.made == 1
