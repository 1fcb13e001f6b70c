"""Rules that compare a policy with constant actions and random play: each finds its fault, and is silent without it."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rookery import PPOConfig, Trainer
from rookery.doctor.examine_run import examine_run
from rookery.doctor.returns import plays as plays_module
from rookery.doctor.returns.comparisons import (
    compare_with_random,
    evaluation_below,
    gamma_short,
    is_best_constant,
    no_better_than_constant,
    return_without_success,
    settled,
)
from rookery.doctor.returns.episode_returns import EpisodeReturns
from rookery.doctor.returns.plays import Plays, constant_returns
from rookery.run.findings.catalog import finding
from rookery.run.findings.history import History
from rookery.run.findings.window import windows_of

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


ROW = {"env_steps": 100, "episodes": 10, "return_min": 0.0, "return_max": 30.0, "length_mean": 20.0,
       "running_length": 0.0}  # fmt: skip


def history(last=16.0, first=2.0, count=50, settings=None, **columns):
    """Rows whose return goes from a first to a last value; columns are those of a policy, by iteration."""
    rows = []
    for n in range(1, count + 1):
        own = {f"policies/main/{name}": of(n) if callable(of) else of for name, of in columns.items()}
        part = (n - 1) / (count - 1)
        row = ROW | {"iteration": n, "env_steps": 100 * n, "return_mean": first + (last - first) * part}
        rows.append(row | {"policies/main/decisions": 100 * n} | own)
    return History(windows_of(rows), settings or {})


@pytest.mark.parametrize(
    ("own", "chance", "learns", "severity"),
    [
        (5.0, 5.0, False, "warning"),
        (5.0, 1.0, False, None),  # the best return that was seen
        (5.0, 5.0, True, None),
        (4.0, 1.0, True, "note"),  # most of the way
        (2.0, 1.5, True, "warning"),  # the constant action leads by more than the policy has gained
        (2.0, 1.5, False, "warning"),
        (9.0, 5.0, False, None),
    ],
)
def test_a_policy_is_compared_with_the_best_constant_action(own, chance, learns, severity):
    constants = [("action 0", returns(1.0)), ("action 1", returns(5.0))]
    found = no_better_than_constant(Plays(returns(own), returns(chance), None, constants), None, learns, "main")
    assert [one.severity for one in found] == [severity] * (severity is not None)
    assert all("always action 1" in one.message for one in found)


def starts(lead=0.0, spread=5.0):
    """Returns of episodes whose seeds decide far more than the behaviour."""
    values = tuple(np.random.default_rng(0).normal(0.0, spread, 20) + lead + np.linspace(0.0, 0.5, 20))
    return EpisodeReturns(values, (), (), (100,) * 20)


def test_episodes_with_equal_seeds_are_compared_in_pairs():
    ahead, behind = starts(3.0), starts()
    assert ahead.interval[0] < behind.interval[1]
    assert not ahead.is_no_better(behind) and behind.is_no_better(ahead) and behind.is_no_better(behind)
    other = EpisodeReturns(tuple(np.random.default_rng(1).normal(0.5, 5.0, 20)), (), (), (100,) * 20)
    assert other.is_no_better(behind)


@pytest.mark.parametrize(("chance", "constant", "is_one"), [(-3.0, 0.0, True), (0.0, 0.0, False), (-3.0, 0.2, False)])
def test_a_policy_that_is_the_best_constant_action_has_nothing_to_learn(chance, constant, is_one):
    plays = Plays(starts(), starts(chance), None, [("action 0", starts(-5.0)), ("action 1", starts(constant))])
    assert is_best_constant(plays) == is_one
    found = no_better_than_constant(plays, history(9.0, 0.0), False, "main")
    assert bool(found) != is_one


def test_a_constant_action_that_earns_more_contradicts_equal_returns():
    of_rows = [finding("reward-constant", "all episodes have the same return, 1"), finding("few-updates", "2 updates")]
    for best, kept in ((10.0, ["few-updates"]), (1.0, ["reward-constant", "few-updates"])):
        constants = [("action 0", returns(1.0, spread=0.0)), ("action 1", returns(best, spread=0.0))]
        plays = Plays(returns(1.0, spread=0.0), returns(1.0, spread=0.0), None, constants)
        assert [one.rule for one in settled(of_rows, [], plays)] == kept


def test_exploration_that_ended_early_is_the_cause_of_a_better_constant_action():
    plays = Plays(returns(1.0), returns(1.0), None, [("action 1", returns(10.0))])
    schedule = {"algorithm.exploration.epsilon": {"start": 1.0, "end": 0.02, "steps": 100}}
    for settings, rates, first in (
        (schedule, {"epsilon": 0.02}, "exploration ended early: epsilon was 0.02 after 100 of 5,000 env steps"),
        ({}, {"epsilon": lambda n: max(1.0 - n / 30, 0.05)}, "learning has stopped early"),
        ({}, {"entropy": lambda n: 0.7 * 0.8**n}, "exploration has ended: the entropy has fallen"),
        ({}, {"entropy": 0.6}, "learning has stopped early"),
    ):
        (one,) = no_better_than_constant(plays, history(1.0, 1.0, settings=settings, **rates), False, "main")
        assert one.causes[0].startswith(first)
    (one,) = no_better_than_constant(plays, history(1.0, 1.0, settings=schedule, epsilon=0.02), False, "main")
    assert one.remedies[0] == "algorithm.exploration.epsilon={start: 1.0, end: 0.05, steps: 2500}"


@pytest.mark.parametrize(
    ("drawn", "severity"),
    [
        (None, "warning"),
        (2.0, "warning"),  # drawn actions are as poor: the environment differs
        (15.9, "note"),  # as in training: only the most likely actions are poor
    ],
)
def test_an_evaluation_far_below_training_is_a_note_where_drawn_actions_are_as_good(drawn, severity):
    plays = Plays(returns(1.5), returns(-5.0), None if drawn is None else returns(drawn))
    (one,) = evaluation_below(plays, history())
    assert one.severity == severity
    of_rows = [finding("evaluation-below-training", "again and again")]
    assert settled(of_rows, [one], plays) == [] and settled(of_rows, [], plays) == of_rows
    assert not evaluation_below(Plays(returns(15.0)), history())


@pytest.mark.parametrize(
    ("drawn", "rows", "cause", "remedy"),
    [
        (returns(9.0), history(), "the most likely actions run in circles", "evaluation.deterministic=false"),
        (returns(1.0), history(), "training earns 15.", "rookery doctor ENV"),
        (None, history(1.0, 5.0, lr=0.5, settings={"algorithm.lr": 0.5}), "updates are too large: lr = 0.5",
         "algorithm.lr=0.0003"),
        (None, history(1.0, 1.0, kl=0.3), "updates are too large: the KL divergence is 0.3", "algorithm.lr=0.0001"),
        (None, history(1.0, 1.0), "training has never been better", "rookery doctor ENV"),
    ],
)  # fmt: skip
def test_causes_of_a_policy_that_is_worse_than_random_play_have_evidence(drawn, rows, cause, remedy):
    (one,) = compare_with_random(Plays(returns(1.0), returns(5.0), drawn), rows, False)
    assert one.rule == "worse-than-random"
    assert one.causes[0].startswith(cause) and one.remedies[0] == remedy


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
    monkeypatch.setattr(plays_module, "EPISODES", 10)
    algorithm = PPOConfig(fragment_length=60, lr=3e-3, gamma=0.8)
    with Trainer(Shaft, algorithm, num_envs=8, seed=0, run_dir=tmp_path / "run") as trainer:
        trainer.train(stop={"iterations": 25})
    with Trainer.load(tmp_path / "run") as trainer:
        constants = dict(constant_returns(trainer, np.inf, 0.8))
    assert {text: one.mean for text, one in constants.items()} == {"action 0": 0.0, "action 1": 0.0, "action 2": 70.0}
    digging = constants["action 2"]
    assert digging.successes == (True,) * 10 and digging.lengths == (STEPS,) * 10
    assert np.allclose(digging.discounted, sum(-(0.8**t) for t in range(STEPS)) + 100 * 0.8 ** (STEPS - 1))
    found = examine_run(tmp_path / "run", time_limit=60).findings
    assert found[0].rule == "gamma-short"
    assert "always action 2 earns more than the policy, 70 and " in found[0].message
