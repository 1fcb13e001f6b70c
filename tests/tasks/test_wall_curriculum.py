"""The wall: its rules, its parameters, and its twin of many copies."""

from collections import deque

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check

from rookery.core.errors import EnvError
from rookery.envs.make import make_env
from rookery.envs.parameters import Draws, EpisodePlan
from rookery.envs.samplers import ChoiceSampler, UniformSampler
from rookery.tasks.wall_curriculum import (
    GOAL,
    HANDLE,
    LEAP,
    LEFT,
    MAX_STEPS,
    PLACE,
    RIGHT,
    STEP_COST,
    WALL,
    BatchedWallCurriculum,
    WallCurriculum,
)


def started(column, **parameters):
    """A wall whose explorer starts in a column."""
    env = WallCurriculum()
    for seed in range(1000):
        env.reset(seed=seed, options={"parameters": parameters})
        if env.get_state()["column"] == column:
            return env
    raise AssertionError("no such start")


def played(env, *actions):
    """The last step of some actions, and all rewards."""
    total = 0.0
    for action in actions:
        step = env.step(action)
        total += step[1]
    return step, total


def test_a_low_wall_is_jumped_over_from_the_floor_and_the_goal_pays_one():
    env = started(PLACE, wall_height=2.0)
    (_, _, terminated, truncated, _), total = played(env, LEAP, *[RIGHT] * (GOAL - WALL - 1))
    assert (terminated, truncated) == (True, False)
    assert total == pytest.approx(1 - STEP_COST * (GOAL - WALL))


@pytest.mark.parametrize("height", [2.1, 4.0])
def test_a_high_wall_stops_whoever_does_not_stand_on_the_block(height):
    env = started(PLACE, wall_height=height, block_distance=3)
    played(env, LEAP, RIGHT, LEAP)
    assert env.get_state()["column"] == PLACE


def test_the_block_is_fetched_set_down_and_jumped_from():
    env = started(PLACE, wall_height=4.0, block_distance=3)
    played(env, *[LEFT] * 3, HANDLE, *[RIGHT] * 3)
    assert env.get_state()["carries"]
    played(env, LEAP)
    assert env.get_state()["column"] == PLACE, "who carries the block cannot jump"
    played(env, HANDLE, LEAP)
    assert env.get_state()["column"] == WALL + 1
    assert env.get_state()["block"] == PLACE


def test_a_jump_carries_two_columns_and_ends_at_the_wall():
    env = started(3)
    played(env, LEAP)
    assert env.get_state()["column"] == 5
    env = started(PLACE - 1, wall_height=0.5)
    played(env, LEAP)
    assert env.get_state()["column"] == PLACE


def test_the_best_score_is_the_one_that_is_told_of():
    lengths, env = [], WallCurriculum()
    env.reset(seed=0)
    for start in range(WALL):
        first = (start, 0, False)
        seen, ahead = {first: 0}, deque([first])
        while ahead:
            now = ahead.popleft()
            if now[0] == GOAL:
                lengths.append(seen[now])
                break
            for action in range(4):
                env.set_state({"column": now[0], "block": now[1], "carries": now[2], "height": 4.0, "steps": 0})
                env.step(action)
                state = env.get_state()
                then = (state["column"], state["block"], state["carries"])
                if then not in seen:
                    seen[then] = seen[now] + 1
                    ahead.append(then)
    assert 1 - STEP_COST * np.mean(lengths) == pytest.approx(0.884)


def test_parameters_are_refused_that_do_not_exist_or_are_out_of_range():
    with pytest.raises(EnvError, match=r"wall_height = 5: 5 is not from 0 to 4"):
        WallCurriculum().reset(options={"parameters": {"wall_height": 5}})
    with pytest.raises(EnvError, match="height = 1: there is no such parameter"):
        WallCurriculum().reset(options={"parameters": {"height": 1}})
    with pytest.raises(EnvError, match="action 4 is not 0, 1, 2 or 3"):
        started(0).step(4)


def plan():
    """Seeds, and a wall and a block of each episode's own."""
    samplers = {"wall_height": UniformSampler(0.0, 4.0), "block_distance": ChoiceSampler((0.0, 2.0, 5.0))}
    return EpisodePlan(
        lambda lane, episode: lane * 7919 + episode * 104729 + 13,
        Draws(samplers),
        lambda lane, episode, name, seed: np.random.default_rng([lane, episode, len(name)]),
        {},
    )


def test_the_batched_wall_equals_single_ones_bit_for_bit():
    batched = make_env("WallCurriculum", {"max_steps": 30}, [], 5, "auto", parameters=("wall_height",))
    serial = make_env("WallCurriculum", {"max_steps": 30}, [], 5, "serial", parameters=("wall_height",))
    assert isinstance(batched, BatchedWallCurriculum)
    steps = [env.reset(plan()) for env in (batched, serial)]
    rng, ends, heights = np.random.default_rng(0), 0, set()
    for _ in range(300):
        for name in ("reward", "terminated", "truncated", "waiting", "final_index"):
            one, other = (getattr(step.rows[0], name) for step in steps)
            np.testing.assert_array_equal(one, other, err_msg=name)
        for name in ("obs", "final_obs"):
            one, other = (getattr(step.rows[0], name)["obs"] for step in steps)
            np.testing.assert_array_equal(one, other, err_msg=name)
        ends += steps[0].rows[0].terminated.sum()
        heights |= set(steps[0].rows[0].obs["obs"][:, 5].tolist())
        action = rng.choice(4, 5, p=[0.15, 0.5, 0.25, 0.1])
        steps = [env.step([action]) for env in (batched, serial)]
    assert ends > 10
    assert len(heights) > 20


def test_the_state_of_many_copies_goes_on_where_it_was_and_restarts_with_new_episodes():
    env, again = BatchedWallCurriculum(3), BatchedWallCurriculum(3)
    env.reset(plan())
    for _ in range(7):
        env.step([np.array([RIGHT, LEFT, LEAP])])
    again.load_state_dict(env.state_dict(), plan())
    one, other = (e.step([np.array([LEAP, LEAP, HANDLE])]) for e in (env, again))
    np.testing.assert_array_equal(one.rows[0].obs["obs"], other.rows[0].obs["obs"])
    before = env.episode.copy()
    env.restart(plan())
    np.testing.assert_array_equal(env.episode, before + 1)


def test_an_episode_is_cut_off_after_its_steps_and_drawn_when_asked():
    env = started(0)
    assert WallCurriculum().render() is None
    for step in range(MAX_STEPS):
        truncated = env.step(LEFT)[3]
        assert truncated == (step == MAX_STEPS - 1)
    picture = env.render()
    assert picture.dtype == np.uint8
    assert picture.shape[2] == 3
    assert not any(side % 2 for side in picture.shape[:2])
    played(env, HANDLE)
    assert (env.render() != picture).any()
    lane = BatchedWallCurriculum(1)
    lane.reset(lambda lane, episode: 3)
    assert lane.render(0).shape == picture.shape


def test_gymnasium_finds_nothing_wrong():
    gymnasium_check(WallCurriculum(), skip_render_check=True)
