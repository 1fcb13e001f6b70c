"""AWAC: weights and targets against numbers worked out by hand, and what an update does."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces

from recorded import keep
from rookery import AWACConfig, ModelConfig, Trainer
from rookery.algorithms.off_policy.critics import StateAction
from rookery.algorithms.offline.awac import awac_weights
from selection import slow

SMALL = ModelConfig(hidden=(16,), activation="relu")
BOX = spaces.Box(-1, 1, (1,), np.float32)


def test_weights_are_exponentials_of_the_advantage_over_lambda():
    found = awac_weights(torch.tensor([0.0, 1.0, -2.0, 50.0]), advantage_lambda=2.0, max_weight=100.0)
    assert found.tolist() == pytest.approx([1.0, math.exp(0.5), math.exp(-1), 100.0])


def one_step(path, action_space, episodes):
    """Episodes of one step, which terminate."""
    data = [
        {"obs": np.zeros((2, 1)), "action": [action], "reward": [reward], "terminated": True}
        for action, reward in episodes
    ]
    return keep(path, spaces.Box(-1, 1, (1,)), action_space, data)


def test_targets_know_an_end_from_a_cut(tmp_path, monkeypatch):
    found = {}
    for terminated in (True, False):
        one = {"obs": [[0.0], [1.0], [2.0]], "action": [[0.3], [-0.3]], "reward": [1.0, 2.0], "terminated": terminated}
        data = keep(tmp_path / str(terminated), spaces.Box(-5, 5, (1,), np.float32), BOX, [one] * 4)
        with Trainer(None, AWACConfig(model=SMALL, batch_size=64), replay=data, seed=0) as trainer:
            learner, seen = trainer.learners["main"], []
            monkeypatch.setattr(learner, "value_of", lambda obs, critics: torch.full((len(obs["obs"]),), 10.0))
            improve = learner.critics.improve
            monkeypatch.setattr(
                learner.critics, "improve", lambda loss, batch, cfg: seen.append(batch) or improve(loss, batch, cfg)
            )
            learner.learn(1)
            (batch,) = seen
            found[terminated] = {
                (float(s), round(float(t), 4)) for s, t in zip(batch.obs["obs"][:, 0], batch.target, strict=True)
            }
    assert found == {True: {(0.0, 10.9), (1.0, 2.0)}, False: {(0.0, 10.9), (1.0, 11.9)}}


def test_the_value_of_numbers_is_that_of_a_drawn_action(tmp_path):
    data = one_step(tmp_path / "data", BOX, [([0.2], 1.0)] * 8)
    with Trainer(None, AWACConfig(model=SMALL), replay=data, seed=0) as trainer:
        learner = trainer.learners["main"]
        obs = {"obs": torch.randn(5, 1)}
        state = learner.rng.bit_generator.state
        found = learner.value_of(obs, learner.critics.forward)
        learner.rng.bit_generator.state = state
        noise = torch.from_numpy(learner.rng.standard_normal((5, 1), dtype=np.float32))
        with torch.no_grad():
            behavior = learner.policy(obs)
            drawn = (behavior.mean + behavior.log_std.exp() * noise).clamp(-1, 1)
            q = learner.critics.net(StateAction(obs, drawn))
        torch.testing.assert_close(found, q.min(0).values)
        action = torch.full((5, 1), 0.4)
        learner.rng.bit_generator.state = state
        with torch.no_grad():
            own = learner.critics.net(StateAction(obs, action)).min(0).values
        torch.testing.assert_close(learner.advantage(obs, action), own - q.min(0).values)


def test_the_value_of_choices_is_their_expectation(tmp_path):
    data = one_step(tmp_path / "data", spaces.Discrete(3), [(0, 1.0), (1, 0.0), (2, 0.5)] * 3)
    with Trainer(None, AWACConfig(model=SMALL), replay=data, seed=0) as trainer:
        learner = trainer.learners["main"]
        obs = {"obs": torch.randn(5, 1)}
        with torch.no_grad():
            probs = learner.policy(obs).log_probs.exp().numpy()
            q = np.min([one(StateAction(obs, torch.zeros(5, dtype=torch.int64))) for one in
                        learner.critics.net.networks], 0)  # fmt: skip
        found = learner.value_of(obs, learner.critics.forward)
        np.testing.assert_allclose(found.numpy(), (probs * q).sum(1), rtol=1e-5, atol=1e-6)
        chosen = torch.tensor([0, 1, 2, 0, 1])
        slow = q[np.arange(5), chosen.numpy()] - (probs * q).sum(1)
        np.testing.assert_allclose(learner.advantage(obs, chosen).numpy(), slow, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", [slow("numbers"), "choices"])
def test_better_actions_are_learned_than_the_usual_ones(kind, tmp_path):
    rng = np.random.default_rng(0)
    if kind == "numbers":  # the reward is higher the nearer the action is to 0.6; cloning gives 0
        space, act = BOX, rng.uniform(-1, 1, (400, 1))
        episodes = [(a, -float(abs(a[0] - 0.6))) for a in act]
    else:  # the best choice is the one that is made least
        space, act = spaces.Discrete(3), rng.choice(3, 400, p=[0.6, 0.3, 0.1])
        episodes = [(a, float(a)) for a in act]
    data = one_step(tmp_path / "data", space, episodes)
    found = {}
    for advantage_lambda in (0.1, 1e6):
        cfg = AWACConfig(model=SMALL, lr=5e-3, advantage_lambda=advantage_lambda, batch_size=64)
        with Trainer(None, cfg, replay=data, seed=0) as trainer:
            trainer.learn(350)
            with torch.no_grad():
                found[advantage_lambda] = float(trainer.policies["main"]({"obs": torch.zeros(1, 1)}).mode())
    if kind == "numbers":
        assert abs(found[0.1] - 0.6) < 0.15 and abs(found[1e6]) < 0.2
    else:
        assert found == {0.1: 2.0, 1e6: 0.0}
