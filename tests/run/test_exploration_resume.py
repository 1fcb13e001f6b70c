"""Runs whose exploration has state between decisions resume exactly, and their policies are served."""

import numpy as np
import pytest
import torch

from rookery import DDPGConfig, DQNConfig, SACConfig, Trainer, load_policy

SMALL = {
    "batch_size": 8,
    "learning_starts": 32,
    "train_every": 8,
    "updates_per_step": 0.25,
    "replay": {"capacity": 1000},
    "model": {"hidden": (8,)},
}


def trainer(env, algorithm):
    return Trainer(env, algorithm, seed=3, sampling={"iteration_steps": 96})


def with_noise(config, kind, **more):
    return config(**SMALL, exploration={"kind": kind, **more})


@pytest.mark.parametrize(
    ("env", "algorithm"),
    [
        ("Pendulum-v1", with_noise(DDPGConfig, "ou")),
        ("Pendulum-v1", with_noise(SACConfig, "gsde", every=5)),
        ("CartPole-v1", with_noise(DQNConfig, "noisy")),
    ],
    ids=["ou", "gsde", "noisy"],
)
def test_a_run_goes_on_exactly_in_the_middle_of_its_exploration(tmp_path, env, algorithm):
    with trainer(env, algorithm) as whole:
        whole.train_iteration()
        saved = whole.save(tmp_path / "saved")
        for _ in range(2):
            whole.train_iteration()
        with Trainer.load(saved) as resumed:
            for _ in range(2):
                resumed.train_iteration()
            one, other = whole.policies["main"].state_dict(), resumed.policies["main"].state_dict()
            assert all(torch.equal(one[name], other[name]) for name in one)
            seats = [who._pool.worker.policies["main"] for who in (whole, resumed)]
            if seats[0].memory is not None:
                assert np.array_equal(*(seat.memory.memory for seat in seats))
                assert seats[0].memory.memory.any()
        served, obs = load_policy(saved), np.ones(whole.policies["main"].obs_spec.space.shape, np.float32)
        assert served.head_spec == algorithm.head
        assert np.array_equal(served.predict(obs), served.predict(obs))
