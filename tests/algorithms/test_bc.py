"""Behavioural cloning and MARWIL: losses against numbers worked out by hand, and what is learned from data alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces

from recorded import keep, poles
from rookery import ConfigError, ModelConfig, MultiAgentArena, PPOConfig, Trainer
from rookery.algorithms.offline.bc import (
    BC_GRADIENT,
    BCConfig,
    ImitationBatch,
    MARWILConfig,
    ReturnBatch,
    bc_loss,
    marwil_weights,
    return_gradient,
    return_loss,
)
from rookery.core.errors import EnvError
from rookery.envs.placeholder_env import PlaceholderEnv
from rookery.models.distributions import Categorical, DiagonalGaussian
from rookery.models.squashed import SquashedGaussian

SMALL = ModelConfig(hidden=(16,), normalize_obs=True)
QUICK = BCConfig(model=SMALL, batch_size=32, gradient_steps=60, validate_every=20)
SEEN = spaces.Box(-1, 1, (3,), np.float32)


def weights(module):
    return torch.cat([weight.detach().flatten() for weight in module.parameters()])


# --- losses -----------------------------------------------------------------------------------------------------------


def test_the_loss_of_choices_is_their_negative_log_likelihood():
    behavior = Categorical(torch.tensor([[1.0, 0.0, -1.0], [0.0, 0.0, 0.0]]))
    batch = ImitationBatch({}, torch.tensor([0, 2]))
    loss, metrics = bc_loss(behavior, batch, BCConfig())
    first, second = math.log(math.e + 1 + 1 / math.e) - 1, math.log(3)
    assert float(loss) == pytest.approx((first + second) / 2)
    assert metrics["bc_loss"].tolist() == pytest.approx([first, second])
    loss, metrics = bc_loss(behavior, batch, BCConfig(entropy_coef=0.1))
    assert metrics["entropy"].tolist() == pytest.approx([0.832396, math.log(3)])
    assert float(loss) == pytest.approx((first + second) / 2 - 0.1 * (0.832396 + math.log(3)) / 2)


def test_the_loss_of_numbers_is_that_of_a_gaussian():
    behavior = DiagonalGaussian(torch.tensor([[0.5, -1.0]]), torch.tensor([0.0, math.log(0.5)]))
    loss, _ = bc_loss(behavior, ImitationBatch({}, torch.tensor([[1.0, 0.0]])), BCConfig())
    by_hand = 0.5 * 0.25 + 0.5 * 4.0 + math.log(0.5) + math.log(2 * math.pi)
    assert float(loss) == pytest.approx(by_hand)


def test_actions_at_the_bounds_have_a_finite_likelihood_and_gradient():
    mean = torch.zeros(4, 1, requires_grad=True)
    behavior = SquashedGaussian(mean, torch.zeros(4, 1))
    action = torch.tensor([[1.0], [-1.0], [1.0 - 1e-6], [1.5]])  # what is stored may lie beyond
    loss, metrics = bc_loss(behavior, ImitationBatch({}, action), BCConfig(distribution="squashed"))
    loss.backward()
    assert torch.isfinite(metrics["bc_loss"]).all() and torch.isfinite(mean.grad).all()
    inside = math.atanh(float(torch.tensor(1.0 - 1e-6)))
    density = -0.5 * inside**2 - 0.5 * math.log(2 * math.pi) - math.log(1 - math.tanh(inside) ** 2)
    assert metrics["bc_loss"].tolist() == pytest.approx([-density] * 4, rel=1e-3)


def test_rows_of_squashed_gaussians_count_by_their_variance():
    log_std = torch.tensor([[0.0], [-2.0]])
    behavior = SquashedGaussian(torch.zeros(2, 1), log_std)
    batch = ImitationBatch({}, torch.tensor([[0.5], [0.1]]))
    plain, metrics = bc_loss(behavior, batch, BCConfig(distribution="squashed", variance_power=0.0))
    assert float(plain) == pytest.approx(float(metrics["bc_loss"].mean()))
    weighted, _ = bc_loss(behavior, batch, BCConfig(distribution="squashed", variance_power=0.5))
    first, second = metrics["bc_loss"].tolist()
    assert float(weighted) == pytest.approx((first + math.exp(-2.0) * second) / 2)


@pytest.mark.parametrize("entropy_coef", [0.0, 0.3])
def test_the_closed_form_is_the_gradient(entropy_coef):
    generator = torch.Generator().manual_seed(0)
    cfg = BCConfig(entropy_coef=entropy_coef)
    for weight in (None, torch.rand(6, generator=generator)):
        logits = torch.randn(6, 3, generator=generator, requires_grad=True)
        batch = ImitationBatch({}, torch.tensor([0, 1, 2, 0, 1, 2]), weight)
        bc_loss(Categorical(logits), batch, cfg)[0].backward()
        with torch.no_grad():
            (found,), _ = BC_GRADIENT.gradient(Categorical(logits), batch, cfg)
        torch.testing.assert_close(found, logits.grad)
        mean = torch.randn(6, 2, generator=generator, requires_grad=True)
        log_std = torch.randn(2, generator=generator, requires_grad=True)
        batch = ImitationBatch({}, torch.randn(6, 2, generator=generator), weight)
        bc_loss(DiagonalGaussian(mean, log_std), batch, cfg)[0].backward()
        with torch.no_grad():
            found, _ = BC_GRADIENT.gradient(DiagonalGaussian(mean, log_std), batch, cfg)
        torch.testing.assert_close(found[0], mean.grad)
        torch.testing.assert_close(found[1], log_std.grad)
    value = torch.randn(6, 1, generator=generator, requires_grad=True)
    returns = ReturnBatch({}, torch.randn(6, generator=generator))
    return_loss(value, returns, MARWILConfig())[0].backward()
    torch.testing.assert_close(return_gradient(value.detach(), returns, MARWILConfig())[0][0], value.grad)


def test_marwil_weights_equal_a_slow_numpy():
    advantage = np.array([-20.0, -1.0, 0.0, 5.0, 40.0, 100.0])
    for beta, square, top in ((1.0, 100.0, 5.0), (0.5, 4.0, 3.0), (0.0, 100.0, 5.0)):
        slow = [math.exp(min(beta * one / math.sqrt(square), top)) for one in advantage]
        found = marwil_weights(torch.from_numpy(advantage), beta=beta, square=square, max_exponent=top)
        np.testing.assert_allclose(found, slow, rtol=1e-12)
    golden = marwil_weights(torch.tensor([5.0, -20.0, 100.0]), beta=1.0, square=100.0, max_exponent=5.0)
    assert golden.tolist() == pytest.approx([1.6487213, 0.1353353, 148.413159])


# --- learners ---------------------------------------------------------------------------------------------------------


def test_marwil_with_beta_0_has_the_gradients_of_cloning(tmp_path):
    data = poles(tmp_path / "data", 3)
    found = {}
    shared = {"model": SMALL, "batch_size": 32}
    for cfg in (BCConfig(**shared), MARWILConfig(**shared, beta=0.0), MARWILConfig(**shared)):
        with Trainer(None, cfg, replay=data, seed=4) as trainer:
            learner = trainer.learners["main"]
            learner.learn(1)
            first = learner.optimizer.flat.grad.clone()
            learner.learn(7)
            found[getattr(cfg, "beta", None)] = first, weights(learner.net)
    assert found[None][0].abs().sum() > 0
    for own, other in zip(found[None], found[0.0], strict=True):
        torch.testing.assert_close(own, other, rtol=1e-6, atol=1e-7)
    assert not torch.allclose(found[None][0], found[1.0][0], rtol=1e-3)


def test_the_average_of_the_squared_advantage_moves_as_said(tmp_path):
    data = poles(tmp_path / "data", 3)
    cfg = MARWILConfig(model=SMALL, square_rate=0.25, gamma=0.9)
    with Trainer(None, cfg, replay=data, seed=4) as trainer:
        learner = trainer.learners["main"]
        rows = learner.read().learned[:16]
        batch = learner.batch(learner.read(), rows)
        advantage, target = learner.advantage(learner.read(), rows, batch.obs)
        returns, value = learner.read().returns(0.9), learner.values(batch.obs)
        last = learner.values(learner.policy.normalize(learner.read().last_obs(rows)))
        rest = returns.discount[rows] * (returns.mean + returns.deviation * last.numpy())
        earned = returns.total[rows] + rest
        slow = earned - (returns.mean + returns.deviation * value.numpy())
        np.testing.assert_allclose(advantage.numpy(), slow, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(target.numpy(), (earned - returns.mean) / returns.deviation, rtol=1e-4, atol=1e-4)
        learner.improve(learner.read(), rows, cfg)
        assert learner.square == pytest.approx(100 + 0.25 * (float(advantage.square().mean()) - 100))


def test_the_policy_keeps_the_weights_that_fit_best_what_was_held_out(tmp_path):
    rng = np.random.default_rng(0)
    noise = [
        {"obs": rng.uniform(-1, 1, (21, 3)), "action": rng.integers(0, 2, 20), "reward": np.ones(20)} for _ in range(10)
    ]
    data = keep(tmp_path / "data", SEEN, spaces.Discrete(2), noise)
    cfg = QUICK.replace(lr=1e-2, validate_every=10, model=ModelConfig(hidden=(64,)))  # there is only noise to learn
    with Trainer(None, cfg, replay=data, seed=0) as trainer:
        learner, seen = trainer.learners["main"], []
        for _ in range(30):
            trainer.learn(10)
            seen.append((learner.validation_loss, weights(learner.net).clone()))
        lowest = min(range(30), key=lambda number: seen[number][0])
        assert seen[-1][0] > seen[lowest][0] == learner.best
        assert torch.equal(weights(trainer.policies["main"]), seen[lowest][1])
        assert not torch.equal(weights(learner.net), weights(trainer.policies["main"]))
        row = trainer._last_learning["main"]
        assert (row["validation_loss"], row["best_validation_loss"]) == (learner.validation_loss, learner.best)
        assert row["held_out"] == 20


def test_without_anything_held_out_the_policy_has_the_last_weights(tmp_path):
    with Trainer(None, QUICK.replace(validation=0.0), replay=poles(tmp_path / "data", 2), seed=0) as trainer:
        trainer.learn(7)
        learner = trainer.learners["main"]
        assert torch.equal(weights(learner.net), weights(trainer.policies["main"]))
        assert trainer._last_learning["main"]["validation_loss"] is None


def test_observations_are_normalized_by_the_data(tmp_path):
    rng = np.random.default_rng(0)
    seen = rng.normal([5.0, -3.0, 0.0], [2.0, 0.1, 1.0], (401, 3))
    wide = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    one = {"obs": seen, "action": np.zeros(400), "reward": np.ones(400)}
    data = keep(tmp_path / "data", wide, spaces.Discrete(2), [one])
    with Trainer(None, QUICK, replay=data, seed=0) as trainer:
        trainer.learn(1)
        statistics = trainer.policies["main"].normalizer.statistics[0]
        np.testing.assert_allclose(statistics.mean, seen[:-1].astype(np.float32).mean(0), rtol=1e-4)
        assert float(statistics.count) == 400
        trainer.learn(1)
        assert float(statistics.count) == 400


ACTIONS = {
    "choices": (spaces.MultiDiscrete([2, 3]), lambda x: np.stack([x[:, 0] > 0, 1 + (x[:, 1] > 0)], 1)),
    "numbers": (spaces.Box(-2, 2, (2,), np.float32), lambda x: np.stack([x[:, 0], -x[:, 1]], 1)),
    "both": (
        spaces.Tuple([spaces.Discrete(2), spaces.Box(-1, 1, (1,), np.float32)]),
        lambda x: np.stack([x[:, 0] > 0, 0.5 * x[:, 1]], 1),
    ),
    "flags": (spaces.MultiBinary(2), lambda x: x[:, :2] > 0),
}


@pytest.mark.parametrize("name", ACTIONS)
def test_every_kind_of_action_can_be_cloned(name, tmp_path):
    space, act = ACTIONS[name]
    rng = np.random.default_rng(0)
    episodes = []
    for _ in range(10):
        seen = rng.uniform(-1, 1, (41, 3))
        episodes.append({"obs": seen, "action": act(seen[:-1]), "reward": np.ones(40), "terminated": True})
    data = keep(tmp_path / "data", SEEN, space, episodes)
    with Trainer(None, QUICK.replace(lr=3e-3), replay=data, seed=0) as trainer:
        trainer.learn(1)
        first = trainer.learners["main"].best
        trainer.learn(400)
        learner = trainer.learners["main"]
        assert learner.best < first - 0.3
        seen = torch.from_numpy(rng.uniform(-1, 1, (200, 3)).astype(np.float32))
        with torch.no_grad():
            chosen = trainer.policies["main"]({"obs": seen}).mode().reshape(200, -1).float()
        wanted = torch.from_numpy(act(seen.numpy()).astype(np.float32))
        assert (chosen - wanted).abs().mean() < 0.15


def test_a_squashed_gaussian_can_be_cloned_from_actions_at_its_bounds(tmp_path):
    rng = np.random.default_rng(0)
    seen = rng.uniform(-1, 1, (401, 3))
    one = {"obs": seen, "action": np.sign(seen[:-1, :1]), "reward": np.ones(400)}
    data = keep(tmp_path / "data", SEEN, spaces.Box(-2, 2, (1,), np.float32), [one] * 3)
    with Trainer(None, QUICK.replace(distribution="squashed", lr=3e-3), replay=data, seed=0) as trainer:
        trainer.learn(300)
        assert trainer._last_learning["main"]["skipped_steps"] == 0
        with torch.no_grad():
            found = trainer.policies["main"]({"obs": torch.from_numpy(seen.astype(np.float32))}).mode()[:, 0]
        clear = np.abs(seen[:, 0]) > 0.2
        assert (torch.sign(found).numpy() == np.sign(seen[:, 0]))[clear].mean() > 0.97


def test_what_is_masked_is_no_choice(tmp_path):
    space = spaces.Dict({"see": SEEN, "action_mask": spaces.MultiBinary(3)})
    rng = np.random.default_rng(0)
    mask = np.ones((61, 3), bool)
    mask[:, 2] = False
    one = {"obs": {"see": rng.uniform(-1, 1, (61, 3)), "action_mask": mask}, "action": [0] * 60, "reward": np.ones(60)}
    data = keep(tmp_path / "data", space, spaces.Discrete(3), [one, one])
    with Trainer(None, QUICK, replay=data, seed=0) as trainer:
        assert trainer.policies["main"].obs_spec.has_mask
        trainer.learn(1)
        assert trainer.learners["main"].best == pytest.approx(math.log(2), abs=0.1)


@pytest.mark.parametrize(
    "cfg", [QUICK, MARWILConfig(model=SMALL, batch_size=32, gradient_steps=60)], ids=["bc", "marwil"]
)
def test_a_run_goes_on_bit_for_bit(cfg, tmp_path):
    data = poles(tmp_path / "data", 4)
    with Trainer(None, cfg, replay=data, seed=0, run_dir=tmp_path / "whole") as trainer:
        trainer.learn(15)
        trainer.learn(15)
        whole = weights(trainer.learners["main"].net), weights(trainer.policies["main"])
    with Trainer(None, cfg, replay=data, seed=0, run_dir=tmp_path / "parts") as trainer:
        trainer.learn(15)
    with Trainer.load(tmp_path / "parts", resume=True) as trainer:
        assert isinstance(trainer.env, PlaceholderEnv)
        trainer.learn(15)
        parts = weights(trainer.learners["main"].net), weights(trainer.policies["main"])
    for one, other in zip(whole, parts, strict=True):
        assert torch.equal(one, other)


def test_an_environment_can_be_named_later(tmp_path):
    data = poles(tmp_path / "data", 4)
    with Trainer(None, QUICK, replay=data, seed=0, run_dir=tmp_path / "run") as trainer:
        trainer.learn(30)
        with pytest.raises(ConfigError, match="has no environment to evaluate in: name one"):
            trainer.evaluate(1)
        with pytest.raises(EnvError, match="learns from data and has no environment to play in"):
            trainer.train({"env_steps": 10})
    with Trainer.load(tmp_path / "run", env="CartPole-v1") as trainer:
        assert trainer.evaluate(3).return_mean > 5


def test_cloning_reaches_what_was_shown(tmp_path):
    cfg = BCConfig(lr=3e-3)
    returns = {}
    for name, learned in {"cloned": True, "not": False}.items():
        with Trainer("CartPole-v1", cfg, replay=poles(tmp_path / name, 20), seed=0) as trainer:
            if learned:
                trainer.learn(1500)
            returns[name] = trainer.evaluate(10).return_mean
    assert returns["cloned"] >= 450 > 100 > returns["not"]


def test_beside_one_that_plays_it_learns_from_its_data_alone(tmp_path):
    env = MultiAgentArena()
    seen, action = env.observation_spaces["agent2"], env.action_spaces["agent2"]
    rng = np.random.default_rng(0)
    obs = np.stack([seen.sample() for _ in range(41)])
    data = keep(
        tmp_path / "data", seen, action, [{"obs": obs, "action": rng.integers(0, 4, 40), "reward": np.ones(40)}]
    )
    fast = PPOConfig(fragment_length=8, epochs=1, model=ModelConfig(hidden=(8,)))
    cloning = QUICK.replace(updates_per_step=0.25, validation=0.0, replay={"start_from": (data,)})
    policies = {"a": fast, "b": cloning}
    with Trainer(MultiAgentArena, policies=policies, policy_mapping={"agent1": "a", "agent2": "b"}, seed=0) as trainer:
        before = weights(trainer.policies["b"]).clone()
        result = trainer.train_iteration()
        learner = trainer.learners["b"]
        assert len(learner.replay.buffer) == 40
        assert learner.replay.gradient_steps == result.env_steps // 4
        assert not torch.equal(before, weights(trainer.policies["b"]))


# --- what is refused --------------------------------------------------------------------------------------------------


def test_epochs_stand_for_gradient_steps(tmp_path):
    data = poles(tmp_path / "data", 2)
    with Trainer(None, BCConfig(epochs=3, batch_size=64, model=SMALL), replay=data) as trainer:
        learner = trainer.learners["main"]
        assert learner.planned_steps == 3 * -(-len(learner.read().learned) // 64)
    with Trainer(None, BCConfig(gradient_steps=7), replay=data) as trainer:
        assert trainer.learners["main"].planned_steps == 7
