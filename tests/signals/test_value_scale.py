"""Value scaling: what values say in the units of rewards does not move with the unit that they are learned in."""

import gymnasium
import pytest
import torch
from gymnasium.wrappers import TransformReward

from rookery import A2CConfig, PPOConfig, Trainer
from rookery.core.batch import Minibatch
from rookery.models.heads import ValueHead
from rookery.signals.value_scale import MEMORY, ValueScale


def head(columns=2):
    return ValueHead(3, generator=torch.Generator().manual_seed(0), columns=columns)


def scale(is_fixed=False):
    return ValueScale(is_fixed)


def rows(std, mean=0.0, num=500, seed=1, error=0.0):
    """Rows whose targets are as given in the first of two columns, and a tenth of that in the other.

    Values of the first are higher than their targets by `error`.
    """
    first = torch.randn(num, generator=torch.Generator().manual_seed(seed)) * std + mean
    target = torch.stack((first, first / 10), 1)
    zeros = torch.zeros(num)
    value = target + torch.tensor((error, 0.0))
    return Minibatch(obs={}, action=zeros, logp=zeros, advantage=first, value_target=target, value=value)


def test_values_in_the_units_of_rewards_stay_as_they_were():
    values, features, kept = head(), torch.randn(50, 3), scale()
    for std in (5.0, 300.0, 2e4, 1.0, 0.001):
        with torch.no_grad():
            before = values(features) * kept.unit
            kept.renewed(rows(std / kept.unit), values)
            assert torch.allclose(values(features) * kept.unit, before, atol=1e-4 * std)


def test_rows_come_in_the_new_unit():
    kept, given = scale(), rows(300.0)
    renewed = kept.renewed(given, head())
    assert kept.unit == 256
    for name in ("advantage", "value_target", "value"):
        assert torch.equal(getattr(renewed, name) * 256, getattr(given, name))  # values have moved in place
    assert 0.5 < renewed.value_target[:, 0].std() < 2


def test_the_unit_is_that_of_the_largest_column_and_at_least_1():
    for std, unit in ((0.001, 1), (0.9, 1), (1.4, 1), (5.0, 4), (70.0, 64), (1e4, 8192)):
        kept = scale()
        kept.renewed(rows(std, mean=3 * std), head())
        assert kept.unit == unit


def test_old_targets_are_forgotten():
    kept = scale()
    for mean in (0.0, 5000.0):
        for _ in range(20 * MEMORY // 500):
            kept.renewed(rows(10.0 / kept.unit, mean / kept.unit), head())
    assert kept.unit == 8


def test_targets_that_are_not_finite_are_passed_over():
    kept, other, values = scale(), scale(), head()
    poisoned = rows(300.0)
    other.renewed(rows(300.0), head())
    poisoned.value_target[:2] = torch.tensor([[torch.nan, 1.0], [1.0, torch.inf]])
    kept.renewed(poisoned, values)
    assert kept.unit == other.unit
    assert values.linear.weight.isfinite().all()
    alone = scale()
    poisoned.value_target[:] = torch.nan
    before = values.linear.bias.clone()
    alone.renewed(poisoned, values)
    assert alone.unit == 1
    assert torch.equal(values.linear.bias, before)


def test_the_mean_of_values_follows_that_of_the_targets():
    features = torch.randn(50, 3)
    for num, share in ((500, 1 / 3), (1000, 1 / 2), (9000, 0.9)):
        kept, values = scale(), head()
        before = values(features).detach()
        given = rows(0.5, num=num, error=6.0)
        told = given.value.clone()
        renewed = kept.renewed(given, values)
        moved = values(features).detach() - before
        assert torch.allclose(moved, torch.tensor((-6.0 * share, 0.0)), atol=1e-5)
        assert torch.allclose(renewed.value - told, moved[0], atol=1e-5)  # what a clip of values is centred on


def test_a_fixed_unit_stays():
    kept, given, values = scale(is_fixed=True), rows(300.0, error=6.0), head()
    before = values.linear.bias.clone()
    assert kept.renewed(given, values) is given
    assert torch.equal(values.linear.bias, before)
    assert kept.unit == 1


def trained(cfg, by, native=True):
    """Weights of a policy that has learned CartPole with multiplied rewards, and the last row of its learner."""
    env = lambda: TransformReward(gymnasium.make("CartPole-v1"), lambda reward: reward * by)  # noqa: E731
    with Trainer(env, cfg, seed=0, num_envs=4, config={"algorithm.model.native": native}) as trainer:
        for _ in range(3):
            result = trainer.train_iteration()
        weights = torch.cat([weight.flatten() for weight in trainer.policies["main"].parameters()]).detach()
        return weights, result.policies["main"].learning


@pytest.mark.parametrize("native", [True, False], ids=["kernels", "torch"])
@pytest.mark.parametrize("cfg", [PPOConfig(fragment_length=64, epochs=3), A2CConfig()], ids=["ppo", "a2c"])
def test_the_size_of_large_rewards_hardly_matters(cfg, native):
    one, row = trained(cfg, 4.0, native=native)
    many, other = trained(cfg, 4096.0, native=native)
    assert (one - many).norm() < 2e-2 * one.norm()  # the first values are of one size in both
    assert other["value_loss"] == pytest.approx(row["value_loss"], rel=0.3)


def test_without_it_the_size_of_rewards_matters():  # the control of the test above
    cfg = PPOConfig(fragment_length=64, epochs=3, normalize_values=False)
    one, row = trained(cfg, 4.0)
    many, other = trained(cfg, 4096.0)
    assert (one - many).norm() > 1e-3 * one.norm()
    assert other["value_loss"] > 1e4 * row["value_loss"]
