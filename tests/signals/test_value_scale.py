"""Value scaling: what values say in the units of rewards does not move with the units that they are learned in."""

import gymnasium
import pytest
import torch
from gymnasium.wrappers import TransformReward

from rookery import A2CConfig, PPOConfig, Trainer
from rookery.models.heads import ValueHead
from rookery.signals.value_scale import MEMORY, ValueScale

CPU = torch.device("cpu")


def head(columns=2):
    return ValueHead(3, generator=torch.Generator().manual_seed(0), columns=columns)


def targets(mean, std, rows=500, seed=1):
    """``[rows, 2]``, of which the second column is the first, turned over and a hundred times as large."""
    first = torch.randn(rows, generator=torch.Generator().manual_seed(seed)) * std + mean
    return torch.stack((first, -100 * first), 1)


def test_values_in_the_units_of_rewards_stay_as_they_were():
    scale, values, features = ValueScale(2, CPU), head(), torch.randn(50, 3)
    scale.update(targets(5.0, 2.0), values)
    with torch.no_grad():
        for mean, std in ((5.0, 2.0), (-40.0, 300.0), (7.0, 0.001)):
            before = scale.unscaled(values(features))
            scale.update(targets(mean, std, seed=2), values)
            after = scale.unscaled(values(features))
            assert (after - before).abs().max() < 1e-5 * before.abs().max()
            assert torch.allclose(scale.scaled(after), values(features), rtol=1e-3, atol=1e-4)


def test_before_the_first_targets_values_are_0_and_then_their_mean():
    scale, values, seen = ValueScale(2, CPU), head(), targets(5.0, 2.0)
    features = torch.zeros(50, 3)  # of which a new layer makes 0
    with torch.no_grad():
        assert not scale.unscaled(values(torch.randn(50, 3))).any()
        scale.update(seen, values)
        assert torch.allclose(scale.unscaled(values(features)), seen.mean(0).expand(50, 2))


def test_the_unit_is_the_spread_of_the_targets_of_each_column():
    scale, seen = ValueScale(2, CPU), targets(5.0, 2.0)
    scale.update(seen, head())
    scaled = scale.scaled(seen)
    assert torch.allclose(scaled.mean(0), torch.zeros(2), atol=1e-5)
    assert torch.allclose(scaled.std(0, correction=0), torch.ones(2), atol=1e-4)
    assert torch.allclose(scale.unscaled(scaled), seen, rtol=1e-4)


def test_old_targets_are_forgotten():
    scale = ValueScale(2, CPU)
    for mean in (0.0, 50.0):
        for _ in range(10 * MEMORY // 500):
            scale.update(targets(mean, 2.0), head())
    assert scale.unit[0] == pytest.approx(2.0, rel=0.1)


def test_targets_that_are_not_finite_are_passed_over():
    scale, other, values = ValueScale(2, CPU), ValueScale(2, CPU), head()
    seen = targets(5.0, 2.0)
    other.update(seen[2:], head())
    seen[0, 0], seen[1, 1] = torch.nan, torch.inf
    scale.update(seen, values)
    scale.update(seen[:2], values)
    assert torch.equal(scale.unit, other.unit)
    assert values.linear.weight.isfinite().all()


def test_small_targets_keep_their_size():
    scale, seen = ValueScale(2, CPU), targets(0.0, 0.1)
    scale.update(seen, head())
    scaled = scale.scaled(seen)
    assert torch.allclose(scaled[:, 0], seen[:, 0] - seen[:, 0].mean(), atol=1e-6)
    assert scaled[:, 1].std(correction=0) == pytest.approx(1.0)  # these are a hundred times as large


def trained(cfg, by, iterations=3, native=True):
    """Weights of a policy that has learned CartPole with multiplied rewards, and the last row of its learner."""
    env = lambda: TransformReward(gymnasium.make("CartPole-v1"), lambda reward: reward * by)  # noqa: E731
    with Trainer(env, cfg, seed=0, num_envs=4, config={"algorithm.model.native": native}) as trainer:
        for _ in range(iterations):
            result = trainer.train_iteration()
        weights = torch.cat([weight.flatten() for weight in trainer.policies["main"].parameters()]).detach()
        return weights, result.policies["main"].learning


@pytest.mark.parametrize("native", [True, False], ids=["kernels", "torch"])
@pytest.mark.parametrize("cfg", [PPOConfig(fragment_length=64, epochs=3), A2CConfig()], ids=["ppo", "a2c"])
def test_the_size_of_large_rewards_does_not_matter(cfg, native):
    one, row = trained(cfg, 4.0, native=native)
    many, other = trained(cfg, 4096.0, native=native)
    assert (one - many).norm() < 1e-4 * one.norm()
    assert other["value_loss"] == pytest.approx(row["value_loss"], rel=1e-3)


def test_without_it_the_size_of_rewards_matters():  # the control of the test above
    cfg = PPOConfig(fragment_length=64, epochs=3, normalize_values=False)
    one, row = trained(cfg, 1.0)
    many, other = trained(cfg, 4096.0)
    assert (one - many).norm() > 1e-3 * one.norm()
    assert other["value_loss"] > 1e4 * row["value_loss"]
