"""Replay read as episodes: what each decision earned until the end, what is held out, and what is no number."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from recorded import buffer_of
from rookery import ConfigError
from rookery.replay.demonstrations import DataSet

LINE = spaces.Box(-100, 100, (1,), np.float32)
TWO = spaces.Discrete(2)


def episode(start, reward, **how):
    length = len(reward)
    return {"obs": np.arange(start, start + length + 1)[:, None], "action": [0] * length, "reward": reward, **how}


def data_of(*episodes, held_out=0.0, seed=0):
    return DataSet(buffer_of(LINE, TWO, list(episodes)), held_out, np.random.default_rng(seed))


def test_returns_sum_rewards_to_the_end_of_the_episode():
    data = data_of(
        episode(0, [1.0, 2.0, 4.0], terminated=True), episode(10, [8.0, 16.0]), episode(20, [32.0], open=True)
    )
    found = data.returns(0.5)
    assert found.total.tolist() == [1 + 1 + 1, 2 + 2, 4, 8 + 8, 16, 32]
    assert found.discount.tolist() == [0, 0, 0, 0.25, 0.5, 0.5]  # the terminated one has no future
    assert data.last_obs(np.array([3, 4, 5]))["obs"].flatten().tolist() == [12, 12, 21]
    assert found.mean == pytest.approx(np.mean([3, 4, 4, 16, 16, 32]))
    assert found.deviation == pytest.approx(np.std([3, 4, 4, 16, 16, 32]))


def test_returns_of_long_episodes_equal_a_slow_sum():
    rng = np.random.default_rng(1)
    rewards = [rng.normal(size=length) for length in (1, 7, 64, 65, 130)]
    data = data_of(*(episode(0, list(reward), terminated=bool(n % 2)) for n, reward in enumerate(rewards)))
    slow, ahead = [], []
    for number, reward in enumerate(rewards):
        total, discount = 0.0, 0.0 if number % 2 else 1.0
        backwards = []
        for one in reward[::-1]:
            total, discount = np.float32(one) + 0.97 * total, 0.97 * discount
            backwards.append((total, discount))
        slow += [total for total, _ in backwards[::-1]]
        ahead += [discount for _, discount in backwards[::-1]]
    found = data.returns(0.97)
    np.testing.assert_allclose(found.total, slow, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found.discount, ahead, rtol=1e-5)


def test_whole_episodes_are_held_out():
    episodes = [episode(10 * number, [1.0] * 5, terminated=True) for number in range(20)]
    data = data_of(*episodes, held_out=0.1)
    assert (len(data), data.episodes) == (100, 20)
    assert len(data.held_out) == 10 and len(data.learned) == 90
    assert sorted([*data.held_out, *data.learned]) == list(range(100))
    assert len(set(data.held_out // 5)) == 2
    again, other = data_of(*episodes, held_out=0.1), data_of(*episodes, held_out=0.1, seed=5)
    assert data.held_out.tolist() == again.held_out.tolist() != other.held_out.tolist()


@pytest.mark.parametrize(("count", "share", "out"), [(1, 0.5, 0), (2, 0.1, 1), (3, 1.0, 2), (4, 0.0, 0)])
def test_one_episode_at_least_is_learned_from(count, share, out):
    data = data_of(*(episode(0, [1.0], terminated=True) for _ in range(count)), held_out=share)
    assert (len(data.held_out), len(data.learned)) == (out, count - out)


@pytest.mark.parametrize("where", ["observation obs", "reward"])
def test_a_number_that_is_none_is_named_by_its_row(where):
    bad = episode(0, [1.0, 2.0, 3.0], terminated=True)
    bad["obs"] = bad["obs"].astype(float)
    if where == "reward":
        bad["reward"][1] = np.inf
    else:
        bad["obs"][1] = np.nan
    with pytest.raises(ConfigError, match=f"demonstrations: row 6: its {where} has a number that is not finite"):
        data_of(episode(0, [1.0] * 4, terminated=True), bad)
