"""CQL: conservative losses against a slow numpy and numbers worked out by hand, for numbers and for choices."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces

from recorded import keep, poles
from rookery import CQLConfig, DiscreteCQLConfig, DQNConfig, ModelConfig, SACConfig, Trainer
from rookery.algorithms.off_policy.critics import CriticBatch, StateAction, critic_loss
from rookery.algorithms.off_policy.q_values import QBatch
from rookery.algorithms.offline.cql import (
    ConservativeBatch,
    ConservativeValue,
    GapBatch,
    conservative_gap,
    conservative_loss,
    conservative_q_loss,
    multiplier_loss,
)
from rookery.core.spaces.arrays import MASK

SMALL = ModelConfig(hidden=(16,), activation="relu")
BOX = spaces.Box(-2, 2, (2,), np.float32)


def batch_of(target, density, weight=None, multiplier=None):
    rows = target.numel() + density.numel()
    return ConservativeBatch({}, torch.zeros(rows, 1), target, weight, density, multiplier)


# --- for numbers ------------------------------------------------------------------------------------------------------


def test_the_gap_has_the_golden_numbers():
    # one decision with value 1; an even draw from [-1, 1] has density 1/2, the policy's draws 2 and 1/4
    q = torch.tensor([[1.0, 0.5, -1.0, 2.0]], dtype=torch.float64)
    density = torch.tensor([[0.5], [2.0], [0.25]], dtype=torch.float64).log()
    batch = batch_of(torch.tensor([1.5], dtype=torch.float64), density)
    soft = math.log(math.exp(0.5) / 0.5 + math.exp(-1) / 2 + math.exp(2) / 0.25)
    assert soft == pytest.approx(3.497647, abs=1e-6)
    assert float(conservative_gap(q, batch, 1.0)) == pytest.approx(soft - 1)
    loss, metrics = conservative_loss(q, batch, CQLConfig(conservative_weight=5.0))
    assert float(loss) == pytest.approx(0.5 * 0.25 + 2.5 * (soft - 1))
    assert float(metrics["conservative_gap"]) == pytest.approx(soft - 1)
    half = 0.5 * math.log(sum(math.exp((a - b) / 0.5) for a, b in zip(q[0, 1:], density[:, 0], strict=True)))
    assert float(conservative_gap(q, batch, 0.5)) == pytest.approx(half - 1)
    plain, _ = conservative_loss(q, batch, CQLConfig(conservative_weight=0.0))
    assert float(plain) == pytest.approx(0.125)


@pytest.mark.parametrize("multiplier", [None, torch.tensor(0.5)])
def test_the_loss_equals_a_slow_numpy(multiplier):
    rng = np.random.default_rng(0)
    number, others, critics = 5, 6, 2
    q = rng.normal(size=(critics, number * (1 + others)))
    density, target, weight = rng.normal(size=(others, number)), rng.normal(size=number), rng.random(number)
    batch = batch_of(torch.from_numpy(target), torch.from_numpy(density), torch.from_numpy(weight), multiplier)
    slow, times = 0.0, 1.0 if multiplier is None else float(multiplier)
    for k in range(critics):
        for i in range(number):
            total = sum(math.exp((q[k, number * (1 + m) + i] - density[m, i]) / 0.7) for m in range(others))
            slow += (weight[i] * 0.5 * (q[k, i] - target[i]) ** 2) / number
            slow += times * 0.5 * 3.0 * (0.7 * math.log(total) - q[k, i]) / number
    cfg = CQLConfig(conservative_weight=3.0, conservative_temperature=0.7)
    assert float(conservative_loss(torch.from_numpy(q), batch, cfg)[0]) == pytest.approx(slow, rel=1e-12)


def test_the_multiplier_rises_where_the_gap_is_larger_than_allowed():
    log, cfg = torch.zeros((), requires_grad=True), CQLConfig(conservative_weight=2.0, lagrange_gap=5.0)
    loss, _ = multiplier_loss(log, GapBatch(torch.tensor([6.0, 8.0])), cfg)
    assert float(loss.detach()) == -4.0
    loss.backward()
    assert float(log.grad) == -4.0  # a step against the gradient makes it larger


def data_of(path, episodes=2, length=100):
    rng = np.random.default_rng(0)
    box = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    one = {
        "obs": rng.normal(size=(length + 1, 3)),
        "action": rng.uniform(-1, 1, (length, 2)),
        "reward": rng.random(length),
    }
    return keep(path, box, BOX, [one] * episodes)


def test_other_actions_are_drawn_evenly_and_from_the_policy_here_and_next(tmp_path, monkeypatch):
    cfg = CQLConfig(model=SMALL, batch_size=64, num_actions=50)
    with Trainer(None, cfg, replay=data_of(tmp_path / "data"), seed=0) as trainer:
        learner, seen = trainer.learners["main"], []
        learn = learner.learn_critics
        monkeypatch.setattr(learner, "learn_critics", lambda *args: seen.append(args) or learn(*args))
        with torch.no_grad():
            learner.policy.head.linear.bias[:] = torch.tensor([0.5, -0.5, -1.0, -1.0])
        learner.learn(1)
        ((rows, target, others, density, _),) = seen
        assert others.shape == (150, 64, 2) and density.shape == (150, 64)
        assert density[:50].unique().tolist() == pytest.approx([2 * math.log(0.5)])
        even = others[:50]
        assert float(even.min()) >= -1 and float(even.max()) <= 1 and abs(float(even.mean())) < 0.05
        with torch.no_grad():
            policy = learner.policy
            for part, obs in ((slice(50, 100), rows.obs), (slice(100, 150), rows.next_obs)):
                torch.testing.assert_close(density[part], policy(obs).log_prob(others[part]), rtol=1e-2, atol=2e-2)
        assert target.shape == (64,)


def test_targets_count_entropy_only_where_they_are_asked_to(tmp_path, monkeypatch):
    found = {}
    for soft in (False, True):
        cfg = CQLConfig(model=SMALL, batch_size=8, soft_targets=soft)
        with Trainer(None, cfg, replay=data_of(tmp_path / str(soft)), seed=0) as trainer:
            learner, bonuses = trainer.learners["main"], []
            target = learner.target
            monkeypatch.setattr(learner, "target", lambda *args: bonuses.append(args[2]) or target(*args))
            learner.learn(1)
            found[soft] = bonuses[0] is not None
    assert found == {False: False, True: True}


def test_without_weight_critics_learn_as_sacs_do_from_the_same_targets(tmp_path):
    batch = batch_of(torch.randn(6), torch.randn(3, 6))
    q = torch.randn(2, 24)
    own, _ = conservative_loss(q, batch, CQLConfig(conservative_weight=0.0))
    other, _ = critic_loss(q[:, :6], CriticBatch({}, torch.zeros(6, 1), batch.target, None), SACConfig())
    torch.testing.assert_close(own, other)


def test_values_of_other_actions_fall_below_those_of_the_data(tmp_path):
    # every action earns the same, but the data show those around 0.5 alone
    rng = np.random.default_rng(0)
    act = np.clip(rng.normal(0.5, 0.05, (300, 2)), -1, 1)
    episodes = [{"obs": np.zeros((2, 3)), "action": [a], "reward": [1.0], "terminated": True} for a in act]
    box, found = spaces.Box(-1, 1, (3,), np.float32), {}
    for weight in (5.0, 0.0):
        cfg = CQLConfig(model=SMALL, lr=3e-3, batch_size=64, num_actions=4, conservative_weight=weight)
        data = keep(tmp_path / str(weight), box, BOX, episodes)
        with Trainer(None, cfg, replay=data, seed=0) as trainer:
            trainer.learn(300)
            learner = trainer.learners["main"]
            with torch.no_grad():
                shown = learner.critics.net(StateAction({"obs": torch.zeros(1, 3)}, torch.full((1, 2), 0.5))).mean()
                never = learner.critics.net(StateAction({"obs": torch.zeros(1, 3)}, torch.full((1, 2), -0.9))).mean()
            found[weight] = float(shown - never)
    assert found[5.0] > 8 > 2 > abs(found[0.0])


def test_the_actor_may_clone_first(tmp_path):
    cfg = CQLConfig(model=SMALL, batch_size=32, cloning_steps=5, actor_lr=None)
    with Trainer(None, cfg, replay=data_of(tmp_path / "data"), seed=0) as trainer:
        learner, used = trainer.learners["main"], []
        cloning, actor = learner.cloning.net, learner.actor.net
        outputs = type(cloning).outputs
        type(cloning).outputs = lambda self, *args: used.append("clone") or outputs(self, *args)
        drawn = type(actor).outputs_of
        type(actor).outputs_of = lambda self, *args: used.append("critics") or drawn(self, *args)
        try:
            trainer.learn(8)
        finally:
            type(cloning).outputs, type(actor).outputs_of = outputs, drawn
        assert used[:5] == ["clone"] * 5 and set(used[5:]) <= {"critics"}


@pytest.mark.parametrize("gap", [0.5, 1e6])
def test_a_learned_multiplier_goes_where_it_should(gap, tmp_path):
    cfg = CQLConfig(model=SMALL, batch_size=32, lagrange_gap=gap, num_actions=2, lr=1e-2)
    with Trainer(None, cfg, replay=data_of(tmp_path / "data"), seed=0) as trainer:
        trainer.learn(30)
        row = trainer._last_learning["main"]
        assert (row["multiplier"] < 1) == (gap > 100)
        assert row["conservative_gap"] > 0.5


# --- for choices ------------------------------------------------------------------------------------------------------


def test_the_loss_of_choices_has_the_golden_numbers():
    # values 1, 0, -1; the first was made and should be worth 1.5: Huber 0.125; log(e + 1 + 1/e) - 1 = 0.407606
    values = torch.tensor([[1.0, 0.0, -1.0]])
    batch = QBatch({}, torch.tensor([0]), torch.tensor([1.5]))
    loss, metrics = conservative_q_loss(values, batch, DiscreteCQLConfig(conservative_weight=2.0))
    assert float(metrics["conservative_gap"]) == pytest.approx(0.407606, abs=1e-6)
    assert float(loss) == pytest.approx(0.125 + 2 * 0.407606, abs=1e-6)
    masked = QBatch({MASK: torch.tensor([[True, False, True]])}, torch.tensor([0]), torch.tensor([1.5]))
    _, metrics = conservative_q_loss(values, masked, DiscreteCQLConfig())
    assert float(metrics["conservative_gap"]) == pytest.approx(math.log(math.e + 1 / math.e) - 1)


@pytest.mark.parametrize("with_mask", [False, True])
def test_the_closed_form_of_choices_is_the_gradient(with_mask):
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(6, 4, generator=generator, requires_grad=True)
    action = torch.tensor([0, 1, 2, 3, 0, 1])
    mask = torch.rand(6, 4, generator=generator) > 0.4
    mask[torch.arange(6), action] = True
    for weight in (None, torch.rand(6, generator=generator)):
        batch = QBatch({MASK: mask} if with_mask else {}, action, torch.randn(6, generator=generator), weight)
        values.grad, cfg = None, DiscreteCQLConfig(conservative_weight=0.7)
        loss, metrics = conservative_q_loss(values, batch, cfg)
        loss.backward()
        with torch.no_grad():
            (found,), told = ConservativeValue.closed_form.gradient(values.detach(), batch, cfg)
        torch.testing.assert_close(found, values.grad)
        assert told.keys() == metrics.keys()


def test_with_weight_0_it_is_dqn(tmp_path):
    data, found = poles(tmp_path / "data", 3), {}
    shared = {"model": ModelConfig(hidden=(16,)), "lr": 1e-3, "batch_size": 32, "learning_starts": 0}
    shared |= {"target": {"every": 7}, "n_step": 1}
    with Trainer(None, DiscreteCQLConfig(**shared, conservative_weight=0.0), replay=data, seed=4) as trainer:
        trainer.learn(30)
        found["cql"], absent = trainer.learners["main"].optimizer.flat.data.clone(), trainer.env
    with Trainer(None, DQNConfig(**shared), replay=data, seed=4, stand_in=absent) as trainer:
        trainer.learn(30)
        found["dqn"] = trainer.learners["main"].optimizer.flat.data.clone()
    torch.testing.assert_close(found["cql"], found["dqn"], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_it_keeps_the_pole_up_where_the_data_do(tmp_path):
    returns = {}
    for name, learned in {"learned": True, "not": False}.items():
        cfg = DiscreteCQLConfig(lr=1e-3)
        with Trainer("CartPole-v1", cfg, replay=poles(tmp_path / name, 20), seed=0) as trainer:
            if learned:
                trainer.learn(2000)
            returns[name] = trainer.evaluate(5).return_mean
    assert returns["learned"] >= 300 > 100 > returns["not"]
