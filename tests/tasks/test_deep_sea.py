"""The deep sea: its rules, redone by hand."""

import numpy as np
import pytest

from rookery.tasks.deep_sea import DeepSea


def dive(env, to_the_right):
    """One episode, with whether to go to the right in each step; gives observations, rewards and last ends."""
    obs, _ = env.reset(seed=0)
    seen, rewards = [int(obs)], []
    for right in to_the_right:
        there = int(env.right[obs])
        obs, reward, terminated, truncated, _ = env.step(there if right else 1 - there)
        seen.append(int(obs))
        rewards.append(reward)
    return seen, rewards, terminated, truncated


@pytest.mark.parametrize("size", [2, 5, 15])
@pytest.mark.parametrize("randomize_actions", [False, True])
def test_only_the_way_to_the_right_finds_the_treasure(size, randomize_actions):
    env = DeepSea(size, randomize_actions)
    seen, rewards, terminated, truncated = dive(env, [True] * size)
    assert seen[:-1] == [row * size + row for row in range(size)]
    assert rewards == pytest.approx([-0.01 / size] * (size - 1) + [1 - 0.01 / size])
    assert sum(rewards) == pytest.approx(0.99) and terminated and not truncated
    for wrong in range(size):
        _, rewards, terminated, _ = dive(env, [step != wrong for step in range(size)])
        assert sum(rewards) == pytest.approx(-0.01 * (size - 1) / size) and terminated
    _, rewards, *_ = dive(env, [False] * size)
    assert rewards == [0.0] * size


def test_walls_stop_the_diver_and_each_step_leads_down():
    seen, *_ = dive(DeepSea(4), [False, True, True, True])
    assert [divmod(cell, 4) for cell in seen[:-1]] == [(0, 0), (1, 0), (2, 1), (3, 2)]


def test_chance_finds_the_treasure_once_in_two_to_the_size():
    for size in (4, 15):
        env = DeepSea(size)
        mean = env.rules.returns(np.full((size * size, 2), 0.5), size)
        assert mean == pytest.approx(-0.005 + 2.0**-size)
        to_the_right = np.eye(2)[env.right]
        assert env.rules.returns(to_the_right, size) == pytest.approx(0.99)


def test_actions_are_the_same_in_seas_of_one_seed_and_others_in_others():
    one, same, other = DeepSea(), DeepSea(), DeepSea(mapping_seed=1)
    assert one.right.tolist() == same.right.tolist() != other.right.tolist()
    assert set(one.right.tolist()) == {0, 1}
    one.reset(seed=5)
    assert one.right.tolist() == same.right.tolist()
    assert DeepSea(randomize_actions=False).right.tolist() == [1] * 225
