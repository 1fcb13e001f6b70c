"""TD3+BC: its actor's loss against numbers worked out by hand, on both ways, and what it is made of."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from recorded import keep
from rookery import ModelConfig, TD3BCConfig, TD3Config, Trainer
from rookery.algorithms.off_policy.ddpg import DDPGActor
from rookery.algorithms.offline.td3bc import ProposedActions, td3bc_actor_loss
from rookery.core.batch import Transitions
from rookery.core.optim import compute_gradients

SMALL = ModelConfig(hidden=(16,), activation="relu", normalize_obs=True)
BOX = spaces.Box(-2, 2, (2,), np.float32)


def rows_of(action):
    return Transitions({}, action, torch.zeros(len(action)), {}, torch.zeros(len(action)), None, torch.arange(2))


def test_the_loss_has_the_golden_numbers():
    # lambda = 2.5 / mean |Q| = 2.5 / 3 = 0.8333; distance (0.01 + 0.09 + 0 + 0.16) / 4 = 0.065; Q1 mean -1
    outputs = ProposedActions(
        torch.tensor([[0.1, 0.5], [0.0, -0.4]]), torch.tensor([[2.0, -4.0], [100.0, 100.0]], dtype=torch.float64)
    )
    rows = rows_of(torch.tensor([[0.0, 0.2], [0.0, 0.0]]))
    loss, metrics = td3bc_actor_loss(outputs, rows, TD3BCConfig())
    assert float(metrics["q_scale"]) == pytest.approx(2.5 / 3)
    assert float(metrics["cloning_loss"]) == pytest.approx(0.065)
    assert float(loss) == pytest.approx(0.065 + 2.5 / 3)
    half, _ = td3bc_actor_loss(outputs, rows, TD3BCConfig(cloning=0.5))
    assert float(half) == pytest.approx(0.0325 + 2.5 / 3)
    alone, _ = td3bc_actor_loss(outputs, rows, TD3BCConfig(alpha=0.0))
    assert float(alone) == pytest.approx(0.065)


def test_the_scale_takes_no_gradient():
    q = torch.tensor([[2.0, -4.0]], requires_grad=True)
    loss, _ = td3bc_actor_loss(ProposedActions(torch.zeros(2, 1), q), rows_of(torch.zeros(2, 1)), TD3BCConfig())
    loss.backward()
    torch.testing.assert_close(q.grad, torch.full((1, 2), -2.5 / 3 / 2))


def data_of(path, seed=0):
    rng = np.random.default_rng(seed)
    box = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    one = {"obs": rng.normal([5, 0, 0], 2, (201, 3)), "action": rng.uniform(-1, 1, (200, 2)), "reward": rng.random(200)}
    return keep(path, box, BOX, [one, one])


def test_kernels_and_torch_have_the_same_gradient(tmp_path):
    found, data = {}, data_of(tmp_path / "data")
    for native in (True, False):
        cfg = TD3BCConfig(model=SMALL.replace(native=native), batch_size=32, cloning=0.7)
        with Trainer(None, cfg, replay=data, seed=5) as trainer:
            learner = trainer.learners["main"]
            trainer.learn(2)
            rows = learner.replay.sample(32, n_step=1, gamma=0.99, beta=0.0)
            optimizer = learner.actor_optimizer
            compute_gradients(learner.actor, td3bc_actor_loss, rows, optimizer, cfg)
            found[native] = optimizer.flat.grad.clone()
    assert found[True].abs().sum() > 0
    torch.testing.assert_close(found[True], found[False], rtol=1e-4, atol=1e-6)


def test_the_rest_is_that_of_td3(tmp_path):
    # with the same actions for the same observations, critics learn as TD3's do
    data, found = data_of(tmp_path / "data"), {}
    shared = {"model": SMALL.replace(normalize_obs=False), "batch_size": 32, "policy_delay": 10**6}
    with Trainer(None, TD3BCConfig(**shared), replay=data, seed=5) as trainer:
        trainer.learn(20)
        found["td3bc"] = trainer.learners["main"].critics.optimizer.flat.data.clone()
        absent = trainer.env
    with Trainer(None, TD3Config(**shared, learning_starts=0), replay=data, seed=5, stand_in=absent) as trainer:
        assert isinstance(trainer.learners["main"].actor.net, DDPGActor)
        trainer.learn(20)
        found["td3"] = trainer.learners["main"].critics.optimizer.flat.data.clone()
    assert torch.equal(found["td3bc"], found["td3"])


def test_with_alpha_0_it_clones(tmp_path):
    rng = np.random.default_rng(0)
    seen = rng.uniform(-1, 1, (401, 2))
    one = {"obs": seen, "action": np.stack((seen[:-1, 0], -0.5 * seen[:-1, 1]), 1), "reward": rng.random(400)}
    data = keep(tmp_path / "data", spaces.Box(-1, 1, (2,), np.float32), BOX, [one])
    with Trainer(None, TD3BCConfig(model=SMALL, alpha=0.0, lr=3e-3, batch_size=64), replay=data, seed=0) as trainer:
        trainer.learn(1500)
        with torch.no_grad():
            found = trainer.policies["main"]({"obs": torch.from_numpy(seen[:-1].astype(np.float32))}).mode().numpy()
        assert np.abs(found - one["action"]).mean() < 0.05
        assert trainer._last_learning["main"]["cloning_loss"] < 0.01


def test_observations_are_normalized_by_the_data_and_stay_so(tmp_path):
    data = data_of(tmp_path / "data")
    with Trainer(None, TD3BCConfig(model=SMALL, batch_size=32), replay=data, seed=0) as trainer:
        trainer.learn(3)
        statistics = trainer.policies["main"].normalizer.statistics[0]
        assert float(statistics.count) == 400 and float(statistics.mean[0]) == pytest.approx(5, abs=0.5)
        trainer.learn(3)
        assert float(statistics.count) == 400
