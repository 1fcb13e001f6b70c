"""Rules that compare a policy with constant actions and random play: each finds its fault, and is silent without it."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rookery import PPOConfig, Trainer
from rookery.doctor import examine_run as examine_module
from rookery.doctor.behaviours import (
    EpisodeReturns,
    gamma_short,
    no_better_than_constant,
    return_without_success,
)
from rookery.doctor.examine_run import examine_run

STEPS = 30


class Shaft(gymnasium.Env):
    """Digging costs 1 a step, and pays 100 at the end of an episode in which each step was digging."""

    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = self.dug = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        self.dug += action == 2
        over = self.steps == STEPS
        reward = -float(action == 2) + 100.0 * (over and self.dug == STEPS)
        info = {"is_success": bool(self.dug == STEPS)} if over else {}
        return np.array([self.steps / STEPS], np.float32), reward, False, over, info


def returns(mean, discounted=0.0, successes=(), spread=0.1):
    noise = spread * (np.arange(10) - 4.5)
    return EpisodeReturns(tuple(mean + noise), tuple(discounted + noise), tuple(successes), (100,) * 10)


@pytest.mark.parametrize(
    ("own", "chance", "learns", "severity"),
    [
        (5.0, 5.0, False, "warning"),
        (5.0, 1.0, False, "note"),  # the constant action may be the best behaviour
        (5.0, 5.0, True, "note"),
        (9.0, 5.0, False, None),
    ],
)
def test_a_policy_is_compared_with_the_best_constant_action(own, chance, learns, severity):
    constants = [("action 0", returns(1.0)), ("action 1", returns(5.0))]
    found = no_better_than_constant(returns(own), returns(chance), constants, learns)
    assert [one.severity for one in found] == [severity] * (severity is not None)
    assert all("better than always action 1" in one.message for one in found)


def test_a_gamma_that_turns_the_order_of_behaviours_around_is_found():
    own, patient = returns(0.0, 0.0), returns(50.0, -5.0)
    (one,) = gamma_short(own, [("random play", returns(20.0, -3.0)), ("always action 1", patient)], 0.9, "main")
    assert one.message.startswith("always action 1 earns more")
    assert one.remedies[0] == "algorithm.gamma=0.99"
    assert not gamma_short(own, [("random play", returns(50.0, 5.0))], 0.9, "main")  # the policy is worse in any case
    assert not gamma_short(own, [("random play", returns(-1.0, -5.0))], 0.9, "main")


def test_a_return_that_rises_without_success_is_found():
    own, chance = returns(90.0, successes=[False] * 8 + [True] * 2), returns(20.0, successes=[True] * 3 + [False] * 7)
    (one,) = return_without_success(own, chance)
    assert "20 % of the episodes of the policy are a success, and 30 %" in one.message
    assert not return_without_success(returns(90.0, successes=[True] * 10), chance)
    assert not return_without_success(returns(90.0), chance)  # without a flag
    assert not return_without_success(returns(20.0, successes=[False] * 10), chance)


def test_the_plays_of_a_run_measure_discounts_and_successes(tmp_path, monkeypatch):
    monkeypatch.setattr(examine_module, "EPISODES", 10)
    algorithm = PPOConfig(fragment_length=60, lr=3e-3, gamma=0.8)
    with Trainer(Shaft, algorithm, num_envs=8, seed=0, run_dir=tmp_path / "run") as trainer:
        trainer.train(stop={"iterations": 25})
    with Trainer.load(tmp_path / "run") as trainer:
        constants = dict(examine_module._constant_returns(trainer, np.inf, 0.8))
    assert {text: one.mean for text, one in constants.items()} == {"action 0": 0.0, "action 1": 0.0, "action 2": 70.0}
    digging = constants["action 2"]
    assert digging.successes == (True,) * 10 and digging.lengths == (STEPS,) * 10
    assert np.allclose(digging.discounted, sum(-(0.8**t) for t in range(STEPS)) + 100 * 0.8 ** (STEPS - 1))
    found = examine_run(tmp_path / "run", time_limit=60).findings
    assert found[0].rule == "gamma-short"
    assert "always action 2 earns more than the policy, 70 and " in found[0].message
