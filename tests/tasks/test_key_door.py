"""Key and door: its rules, redone by hand."""

import numpy as np
import pytest

from rookery.tasks.key_door import KeyDoor

UP, RIGHT, DOWN, LEFT = range(4)


def walk(env, actions):
    """Walks from the start; gives observations, rewards, and whether the episode terminated and was truncated."""
    obs, _ = env.reset(seed=0)
    seen, rewards, terminated, truncated = [obs.tolist()], [], False, False
    for action in actions:
        obs, reward, terminated, truncated, _ = env.step(action)
        seen.append(obs.tolist())
        rewards.append(reward)
    return seen, rewards, terminated, truncated


def way(size):
    """The shortest way: down to the key, up to the door, through it, down to the goal."""
    down = [DOWN] * (size - 1)
    return [*down, *[UP] * (size - 1), *[RIGHT] * (size - 1), *down]


@pytest.mark.parametrize("size", [3, 4, 9])
def test_key_door_and_goal_in_that_order_pay_one_at_the_end(size):
    seen, rewards, terminated, truncated = walk(KeyDoor(size), way(size))
    assert len(rewards) == 4 * (size - 1) and rewards == [0.0] * (len(rewards) - 1) + [1.0]
    assert [key for *_, key in seen] == [0] * (size - 1) + [1] * (3 * (size - 1) + 1)
    assert seen[-1] == [size - 1, size - 1, 1] and terminated and not truncated


def test_no_way_is_shorter():
    rules = KeyDoor().rules
    reached, steps = {rules.start}, 0
    while not any(rules.ends[state].any() for state in reached):
        reached, steps = reached | {int(there) for state in reached for there in rules.next[state]}, steps + 1
    assert steps + 1 == 32
    assert all(rules.obs[state][2] == 1 for state in reached if rules.obs[state][1] >= 4)


def test_without_the_key_the_door_is_a_wall():
    seen, *_ = walk(KeyDoor(), [RIGHT] * 6)
    assert seen[-1] == [0, 3, 0]
    seen, *_ = walk(KeyDoor(), [*[DOWN] * 8, *[UP] * 8, *[RIGHT] * 5])
    assert seen[-2:] == [[0, 4, 1], [0, 5, 1]]


def test_the_wall_stops_from_both_sides_and_below_the_door():
    there = [*[DOWN] * 8, *[UP] * 7, *[RIGHT] * 6]
    assert walk(KeyDoor(), there)[0][-1] == [1, 3, 1]
    in_the_door = [*[DOWN] * 8, *[UP] * 8, *[RIGHT] * 4]
    assert walk(KeyDoor(), [*in_the_door, DOWN, UP])[0][-1] == [0, 4, 1]
    beyond = [*in_the_door, RIGHT, DOWN]
    assert walk(KeyDoor(), [*beyond, LEFT])[0][-1] == [1, 5, 1]
    assert walk(KeyDoor(), [*beyond, *[RIGHT] * 9])[0][-1] == [1, 8, 1]
    assert walk(KeyDoor(), [UP, LEFT, *[DOWN] * 9, LEFT])[0][-1] == [8, 0, 1]


def test_an_episode_is_truncated_after_so_many_steps_and_may_end_with_the_last():
    *_, terminated, truncated = walk(KeyDoor(max_steps=7), [UP] * 7)
    assert truncated and not terminated
    *_, rewards, terminated, _ = walk(KeyDoor(max_steps=32), way(9))
    assert terminated and sum(rewards) == 1.0


def test_chance_hardly_ever_reaches_the_goal():
    env = KeyDoor()
    mean = env.rules.returns(np.full((162, 4), 0.25), 100)
    assert mean == pytest.approx(3.7e-5, rel=0.01)
