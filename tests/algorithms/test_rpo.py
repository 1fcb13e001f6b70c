"""RPO: the noise on the means of an update, and that there is none without it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery import PPOConfig, Trainer
from rookery.algorithms.on_policy.ppo import ppo_loss
from rookery.algorithms.on_policy.rpo import moved_means
from rookery.core.batch import Minibatch
from rookery.core.errors import ConfigError
from rookery.core.spaces.arrays import action_spec
from rookery.models.distributions import DiagonalGaussian
from rookery.models.heads import Outputs

TWO = spaces.Box(-1.0, 1.0, (2,), np.float32)
MIXED = spaces.Dict({"a": spaces.Discrete(3), "b": spaces.MultiBinary(2), "c": spaces.Box(-2.0, 2.0, (2,))})


def rows(action):
    n = len(action)
    generator = torch.Generator().manual_seed(0)
    obs, logp = {"obs": torch.randn(n, 3, generator=generator)}, torch.full((n,), -1.0)
    advantage = torch.randn(n, generator=generator)
    return Minibatch(obs, action, logp, advantage, torch.zeros(n, 1), torch.zeros(n, 1))


def test_the_density_of_a_moved_action_is_that_under_the_oppositely_moved_mean():
    action = torch.randn(500, 2, generator=torch.Generator().manual_seed(1))
    data, rng = rows(action), np.random.default_rng(5)
    moved = moved_means(data, 0.5, action_spec(TWO), rng)
    noise = torch.from_numpy(np.random.default_rng(5).random((500, 2), dtype=np.float32)) - 0.5
    mean, log_std = torch.randn(500, 2, generator=torch.Generator().manual_seed(2)), torch.tensor([-1.0, 0.3])
    found = DiagonalGaussian(mean, log_std).log_prob(moved.action)
    torch.testing.assert_close(found, DiagonalGaussian(mean + noise, log_std).log_prob(action))
    assert noise.abs().max() <= 0.5 and noise.std() == pytest.approx(0.5 / 3**0.5, rel=0.05)  # uniform
    assert torch.equal(data.action, action)  # as it was played


def test_the_loss_is_that_of_moved_means_and_the_entropy_does_not_change():
    action = torch.randn(64, 2, generator=torch.Generator().manual_seed(1))
    data, cfg = rows(action), PPOConfig(entropy_coef=0.1)
    moved = moved_means(data, 0.5, action_spec(TWO), np.random.default_rng(5))
    noise = data.action - moved.action
    mean, log_std = torch.zeros(64, 2), torch.zeros(2)
    loss, metrics = ppo_loss(Outputs(DiagonalGaussian(mean, log_std), torch.zeros(64, 1)), moved, cfg)
    there, others = ppo_loss(Outputs(DiagonalGaussian(mean + noise, log_std), torch.zeros(64, 1)), data, cfg)
    torch.testing.assert_close(loss, there)
    torch.testing.assert_close(metrics["entropy"], others["entropy"])


def test_only_continuous_elements_of_an_action_are_moved():
    spec = action_spec(MIXED)
    action = torch.zeros(40, *spec.shape)
    moved = moved_means(rows(action), 1.0, spec, np.random.default_rng(0)).action
    assert not moved[:, :-2].any() and (moved[:, -2:] != 0).all()


def run(**settings):
    cfg = PPOConfig(fragment_length=64, epochs=2, **settings)
    with Trainer("Pendulum-v1", cfg, num_envs=2, seed=3) as trainer:
        results = [trainer.train_iteration() for _ in range(2)]
        weights = trainer.learners["main"].optimizer.flat.data.clone()
    return weights, results[-1].policies["main"].learning


def test_an_update_draws_new_noise_in_each_epoch(monkeypatch):
    drawn = []
    monkeypatch.setattr(
        "rookery.algorithms.on_policy.ppo.moved_means",
        lambda data, alpha, action, rng: drawn.append(moved_means(data, alpha, action, rng)) or drawn[-1],
    )
    moved, _ = run(rpo_alpha=0.5)
    assert len(drawn) == 4 and not torch.equal(drawn[0].action, drawn[1].action)
    drawn.clear()
    plain, _ = run()
    assert drawn == [] and not torch.equal(moved, plain)


def test_kernels_and_torch_learn_the_same_with_noise():
    found = [run(rpo_alpha=0.5, model={"native": native})[0] for native in (True, False)]
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-4)


def test_a_policy_without_continuous_actions_is_refused():
    with pytest.raises(ConfigError, match=r"policies\.main\.rpo_alpha: RPO moves the means of continuous actions"):
        Trainer("CartPole-v1", PPOConfig(rpo_alpha=0.5), num_envs=1)
    assert replace(PPOConfig(), rpo_alpha=0.5).rpo_alpha == 0.5
