"""IQL: losses against numbers worked out by hand and a slow numpy, and what an update does."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces

from recorded import keep
from rookery import IQLConfig, ModelConfig, Trainer
from rookery.algorithms.offline.bc import ReturnBatch
from rookery.algorithms.offline.iql import advantage_weights, expectile_gradient, expectile_loss
from selection import slow

SMALL = ModelConfig(hidden=(16,), activation="relu")


def test_the_expectile_loss_has_the_golden_numbers():
    batch = ReturnBatch({}, torch.tensor([1.0, -1.0, 0.5]))
    loss, metrics = expectile_loss(torch.zeros(3, 1), batch, IQLConfig(expectile=0.7))
    assert float(loss) == pytest.approx((0.7 + 0.3 + 0.175) / 3)
    assert metrics["advantage"].tolist() == [1.0, -1.0, 0.5]
    even, _ = expectile_loss(torch.zeros(3, 1), batch, IQLConfig(expectile=0.5))
    assert float(even) == pytest.approx((1 + 1 + 0.25) / 6)


def test_its_minimum_is_the_expectile():
    rng = np.random.default_rng(0)
    samples = rng.normal(3.0, 2.0, 500)
    for tau in (0.5, 0.7, 0.9):
        low, high = -10.0, 20.0
        while high - low > 1e-9:  # where the weighted errors above and below are as large
            middle = (low + high) / 2
            above = tau * np.maximum(samples - middle, 0).sum()
            low, high = (middle, high) if above > (1 - tau) * np.maximum(middle - samples, 0).sum() else (low, middle)
        value = torch.full((500, 1), low, dtype=torch.float64, requires_grad=True)
        loss, _ = expectile_loss(value, ReturnBatch({}, torch.from_numpy(samples)), IQLConfig(expectile=tau))
        loss.backward()
        assert float(value.grad.sum()) == pytest.approx(0.0, abs=1e-6)


def test_the_closed_form_is_the_gradient():
    generator = torch.Generator().manual_seed(0)
    value = torch.randn(7, 1, generator=generator, requires_grad=True)
    batch, cfg = ReturnBatch({}, torch.randn(7, generator=generator)), IQLConfig(expectile=0.8)
    loss, metrics = expectile_loss(value, batch, cfg)
    loss.backward()
    with torch.no_grad():
        (found,), told = expectile_gradient(value, batch, cfg)
    torch.testing.assert_close(found, value.grad)
    assert told.keys() == metrics.keys()


def test_weights_are_exponentials_that_are_cut_off():
    found = advantage_weights(torch.tensor([0.0, 1.0, -1.0, 2.0]), beta=3.0, max_weight=100.0)
    assert found.tolist() == pytest.approx([1.0, math.exp(3), math.exp(-3), 100.0])
    assert advantage_weights(torch.randn(5), beta=0.0, max_weight=100.0).tolist() == [1.0] * 5


def chain(path, terminated=True):
    """Episodes of two steps, from 0 over 1 to their end, with rewards 1 and 2."""
    obs = np.array([[0.0], [1.0], [2.0]])
    one = {"obs": obs, "action": [[0.3], [-0.3]], "reward": [1.0, 2.0], "terminated": terminated}
    box = spaces.Box(-5, 5, (1,), np.float32)
    return keep(path, box, spaces.Box(-1, 1, (1,), np.float32), [one] * 4)


def test_targets_know_an_end_from_a_cut(tmp_path, monkeypatch):
    found = {}
    for terminated in (True, False):
        data = chain(tmp_path / str(terminated), terminated)
        with Trainer(None, IQLConfig(model=SMALL, batch_size=64), replay=data, seed=0) as trainer:
            learner, seen = trainer.learners["main"], []
            monkeypatch.setattr(learner, "values", lambda obs: torch.full((len(obs["obs"]),), 10.0))
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


def test_an_update_is_that_of_a_slow_numpy(tmp_path):
    # linear networks, so that all three updates can be redone by hand: the first step of Adam is lr times the sign
    data = chain(tmp_path / "data")
    cfg = IQLConfig(model=ModelConfig(hidden=()), batch_size=32, expectile=0.9, beta=2.0, lr=0.01, tau=0.5)
    with Trainer(None, cfg, replay=data, seed=3) as trainer:
        learner, drawn = trainer.learners["main"], []
        sample = learner.replay.sample
        learner.replay.sample = lambda *a, **k: drawn.append(sample(*a, **k)) or drawn[-1]

        def parts(module):
            return [weight.detach().double().numpy().copy() for weight in module.parameters()]

        (vw, vb), critics = parts(learner.value), [parts(one) for one in learner.critics.net.networks]
        targets = [parts(one) for one in learner.critics.target.networks]
        learner.learn(1)
        (rows,) = drawn
        s, a = rows.obs["obs"].double().numpy(), rows.action.double().numpy()
        after, r, d = (
            rows.next_obs["obs"].double().numpy(),
            rows.reward.double().numpy(),
            rows.discount.double().numpy(),
        )
        q = np.min([np.concatenate((s, a), 1) @ w.T + b for w, b in targets], 0)[:, 0]
        error = q - (s @ vw.T + vb)[:, 0]
        by_value = -2 * np.where(error > 0, 0.9, 0.1) * error / len(error)
        new_vw, new_vb = vw - 0.01 * np.sign(by_value @ s), vb - 0.01 * np.sign(by_value.sum())
        for found, wanted in zip(parts(learner.value), (new_vw, new_vb), strict=True):
            np.testing.assert_allclose(found, wanted, atol=1e-5)
        target = r + d * (after @ new_vw.T + new_vb)[:, 0]
        for (w, b), (tw, tb), one, follower in zip(
            critics, targets, learner.critics.net.networks, learner.critics.target.networks, strict=True
        ):
            by_q = ((np.concatenate((s, a), 1) @ w.T + b)[:, 0] - target) / len(target)
            new_w = w - 0.01 * np.sign(by_q @ np.concatenate((s, a), 1))
            new_b = b - 0.01 * np.sign(by_q.sum())
            np.testing.assert_allclose(parts(one)[0], new_w, atol=1e-5)
            np.testing.assert_allclose(parts(one)[1], new_b, atol=1e-5)
            np.testing.assert_allclose(parts(follower)[0], (tw + new_w) / 2, atol=1e-5)
            np.testing.assert_allclose(parts(follower)[1], (tb + new_b) / 2, atol=1e-5)
        row = learner.summary()
        assert row["weight"] == pytest.approx(float(np.minimum(np.exp(2 * error), 100).mean()), rel=1e-4)
        assert row["advantage"] == pytest.approx(float(error.mean()), rel=1e-4, abs=1e-6)


def test_the_actors_rate_falls_like_a_cosine(tmp_path):
    data = chain(tmp_path / "data")
    cfg = IQLConfig(model=SMALL, batch_size=8, actor_lr=1e-2, actor_cosine_steps=4, beta=0.0)
    with Trainer(None, cfg, replay=data, seed=0) as trainer:
        learner, moved = trainer.learners["main"], []
        for _ in range(6):
            before = torch.cat([weight.detach().flatten().clone() for weight in learner.policy.parameters()])
            learner.learn(1)
            after = torch.cat([weight.detach().flatten() for weight in learner.policy.parameters()])
            moved.append(float((after - before).abs().max()))
        assert moved[0] == pytest.approx(1e-2, rel=1e-3)  # the first step of Adam
        assert moved[0] > moved[1] > moved[2] > moved[3] > 0
        assert moved[4:] == [0.0, 0.0]


@pytest.mark.parametrize("distribution", ["gaussian", slow("squashed")])
def test_better_actions_are_learned_than_the_usual_ones(distribution, tmp_path):
    # one step: the reward is higher the nearer the action is to 0.6; the data are even, so that cloning gives 0
    rng = np.random.default_rng(0)
    act = rng.uniform(-1, 1, (400, 1))
    episodes = [
        {"obs": np.zeros((2, 1)), "action": [a], "reward": [-float(abs(a[0] - 0.6))], "terminated": True} for a in act
    ]
    data = keep(tmp_path / "data", spaces.Box(-1, 1, (1,)), spaces.Box(-1, 1, (1,), np.float32), episodes)
    found = {}
    for beta in (10.0, 0.0):
        cfg = IQLConfig(model=SMALL, lr=5e-3, beta=beta, batch_size=64, distribution=distribution)
        with Trainer(None, cfg, replay=data, seed=0) as trainer:
            trainer.learn(400)
            with torch.no_grad():
                found[beta] = float(trainer.policies["main"]({"obs": torch.zeros(1, 1)}).mode())
    assert abs(found[10.0] - 0.6) < 0.15 and abs(found[0.0]) < 0.2
