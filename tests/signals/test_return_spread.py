"""The least deviation of normalized advantages: what counts as a signal, and that noise does not move a policy."""

import math

import pytest
from test_return_scale import rollout

from rookery import Trainer
from rookery.signals.return_spread import LEAST, ReturnSpread
from selection import slow

GAMMA = 0.5


def fragment(*rewards, terminated=False, truncated=False):
    """A fragment whose episode ends with its last decision, if it does."""
    last = len(rewards) - 1
    return 0, 0, True, [(value, terminated and t == last, truncated and t == last) for t, value in enumerate(rewards)]


def least(spread, *fragments):
    data = rollout(list(fragments), 4)
    return spread.least_deviation(data, data.reward, unit=2.0)


@pytest.mark.parametrize(
    ("fragments", "expected"),
    [
        ([fragment(0, 0, 0, terminated=True), fragment(0, 0)], math.inf),
        ([fragment(-1, -1, -1, truncated=True), fragment(-1)], 1.0),
        ([fragment(1, 1, 1, 1), fragment(1, 1, terminated=True)], 0.0),
        ([fragment(0, 0, 0, 0), fragment(0, 1)], 0.0),
        ([fragment(0, 0, math.nan)], 0.0),
    ],
)
def test_returns_differ_if_rewards_do_or_an_episode_of_equal_rewards_terminates(fragments, expected):
    assert least(ReturnSpread(GAMMA), *fragments) == expected


def test_after_a_signal_rollouts_without_one_have_a_part_of_the_range_of_returns():
    spread = ReturnSpread(GAMMA)
    assert least(spread, fragment(0, 0, 0)) == math.inf
    assert least(spread, fragment(0, 0, 8, terminated=True)) == 0.0
    assert least(spread, fragment(0, 0)) == LEAST * 8 / 2
    assert least(spread, fragment(-4, -4)) == LEAST * (8 - -6) / 2
    again = ReturnSpread(GAMMA)
    again.load_state_dict(spread.state_dict())
    assert least(again, fragment(0, 0)) == LEAST * 7


def test_ranks_know_the_signals_and_ranges_of_all():
    spread = ReturnSpread(GAMMA)
    spread.everywhere = lambda *mine: [list(mine), [0.0, 3.0, 0.0, 3.0, 0.0]]
    assert least(spread, fragment(0, 0)) == 0.0
    spread.everywhere = lambda *mine: [list(mine), list(mine)]
    assert least(spread, fragment(0, 0)) == LEAST * 3 / 2


def entropy_without_reward(algorithm, **settings):
    """Entropy after 40,000 steps on a lake whose goal is out of reach, relative to that of random actions."""
    ice = ["S" + "F" * 11, *["F" * 12] * 10, "F" * 11 + "G"]
    config = {"env.config": {"desc": ice, "is_slippery": False, "max_episode_steps": 20}, **settings}
    with Trainer("FrozenLake-v1", algorithm, config=config, seed=0) as trainer:
        result = trainer.train({"env_steps": 40_000})
        assert result.return_mean == 0
        return result.policies["main"].learning["entropy"] / math.log(4)


@pytest.mark.parametrize("normalize", [True, slow("batch")])
def test_a_policy_that_earns_nothing_stays_random(normalize, monkeypatch):
    settings = {"algorithm.normalize_advantage": normalize}
    assert entropy_without_reward("ppo", **settings) > 0.999
    monkeypatch.setattr(ReturnSpread, "least_deviation", lambda *_: 0.0)
    assert entropy_without_reward("ppo", **settings) < 0.9, "the control stays random too"
