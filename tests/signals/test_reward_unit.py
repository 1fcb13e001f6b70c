"""The unit of rewards: when it changes, that values stay the same, and that learners see rewards in it."""

import gymnasium
import numpy as np
import pytest
import torch

from rookery import DQNConfig, SACConfig, Trainer
from rookery.signals.reward_unit import LARGE, RewardUnit


@pytest.mark.parametrize(
    ("size", "unit"),
    [(1.0, 1.0), (LARGE, 1.0), (0.001, 1.0), (65.0, 64.0), (1e5, 65536.0), (1e-4, 2.0**-14), (float("nan"), 1.0)],
)
def test_usual_rewards_keep_their_unit_and_others_are_near_1_in_theirs(size, unit):
    found = RewardUnit()
    found.measure(torch.tensor([0.0, size, -size, 0.0]), ())
    assert found.unit == unit


def test_rewards_of_zero_say_nothing_and_the_unit_is_that_of_all_rewards():
    unit = RewardUnit()
    unit.measure(torch.zeros(10), ())
    assert (unit.unit, unit.count) == (1.0, 0)
    unit.measure(torch.tensor([1000.0, 0.0]), ())
    unit.measure(torch.tensor([3000.0, 0.0, 3000.0]), ())
    assert unit.square == pytest.approx((1000.0**2 + 2 * 3000.0**2) / 3)
    assert unit.unit == 2048.0


def test_weights_change_so_that_values_in_rewards_stay_the_same():
    unit, weight = RewardUnit(), torch.tensor([2.0, -4.0])
    before = weight * unit.unit
    unit.measure(torch.tensor([1e4]), [weight])
    assert unit.unit == 8192.0
    assert torch.equal(weight * unit.unit, before)


def test_ranks_share_one_unit():
    unit = RewardUnit()
    unit.everywhere = lambda *mine: [list(mine), [3.0, 3 * 1e10]]
    unit.measure(torch.zeros(2), ())
    assert (unit.count, unit.unit) == (3, 65536.0)


class Scaled(gymnasium.RewardWrapper):
    def __init__(self, env, factor):
        super().__init__(env)
        self.factor = factor

    def reward(self, reward):
        return float(reward) * self.factor


def weights_after(env, algorithm, factor):
    config = {"sampling.env_processes": 0}
    with Trainer(lambda: Scaled(gymnasium.make(env), factor), algorithm, config=config, seed=0) as trainer:
        trainer.train({"env_steps": 1_500})
        learner = trainer.learners["main"]
        return learner.signals.reward_unit.unit, [weight.clone() for weight in learner.policy.parameters()]


@pytest.mark.parametrize(
    ("env", "algorithm"),
    [
        ("CartPole-v1", DQNConfig(learning_starts=100, model={"hidden": (16,)})),
        ("Pendulum-v1", SACConfig(learning_starts=1400, model={"hidden": (16,)})),
    ],
)
def test_powers_of_two_learn_bit_for_bit_alike_once_they_are_far_from_1(env, algorithm):
    (small, one), (large, other) = (weights_after(env, algorithm, factor) for factor in (2.0**20, 2.0**40))
    assert large == small * 2.0**20
    assert all(torch.equal(mine, its) for mine, its in zip(one, other, strict=True))


@pytest.mark.parametrize("values", [{"kind": "categorical", "low": 0.0, "high": 1e6}, {"rescale": True}])
def test_values_on_fixed_atoms_or_a_curve_learn_rewards_as_they_are(values):
    cfg = DQNConfig(learning_starts=100, model={"hidden": (16,)}, values=values)
    assert weights_after("CartPole-v1", cfg, 1e5)[0] == 1.0


def test_a_resumed_run_keeps_its_unit(tmp_path):
    make = lambda: Scaled(gymnasium.make("CartPole-v1"), 1e5)  # noqa: E731
    config = {"sampling.env_processes": 0}
    cfg = DQNConfig(learning_starts=100, n_step=1, model={"hidden": (16,)})
    with Trainer(make, cfg, config=config, seed=0) as trainer:
        trainer.train({"env_steps": 1000})
        saved = trainer.save(tmp_path / "saved")
        trainer.train({"env_steps": 1500})
        expected = [weight.clone() for weight in trainer.policies["main"].parameters()]
    with Trainer.load(saved, env=make) as again:
        assert again.learners["main"].signals.reward_unit.unit == 65536.0
        again.train({"env_steps": 1500})
        assert all(map(torch.equal, expected, again.policies["main"].parameters()))


def test_ppo_learns_small_rewards_in_a_small_unit_unless_values_share_the_trunk():
    for shared, expected in ((False, True), (True, False)):
        config = {"algorithm.model.shared_trunk": shared, "sampling.env_processes": 0}
        with Trainer(lambda: Scaled(gymnasium.make("CartPole-v1"), 1e-4), "ppo", config=config, seed=0) as trainer:
            result = trainer.train({"env_steps": 2_000})
        assert (result.policies["main"].value_unit < 0.1) is expected


def test_numbers_of_numpy_are_rewards_too():
    unit = RewardUnit()
    unit.measure(torch.from_numpy(np.full((2, 3), 1e3, np.float32)), ())
    assert unit.unit == 512.0
