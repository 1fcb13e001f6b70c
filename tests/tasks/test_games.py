"""Common properties of all games of several agents: rows, exact episodes, states that resume, images and text."""

import numpy as np
import pytest

from rookery import tasks
from rookery.core.errors import EnvError
from rookery.envs.base import VectorEnv
from rookery.envs.check import check_env
from rookery.envs.make import make_env
from rookery.envs.random_play import random_answers
from rookery.run.trainer import Trainer

GAMES = {
    "TicTacToe": {},
    "TicTacToe, opening": {"random_opening": 3},
    "ConnectFour": {"random_opening": 2},
    "LineSoccer": {"max_steps": 25, "time_cost": 0.1, "progress": 0.5},
    "LineSoccer, strikers": {"strikers": 2, "goalies": 1, "max_steps": 25},
    "CarryTogether": {"max_steps": 20},
    "Sacrifice": {"max_steps": 20},
    "MatrixGame": {},
    "OneDimension": {"max_steps": 20, "remember": True},
    "OneDimension, group": {"agents": 2, "play": "group", "max_steps": 20, "numbers": 0, "choices": 2},
    "OneDimension, sides": {"agents": 2, "play": "sides", "max_steps": 20, "choices": 1, "step_size": 0.8},
}
TREES = ("obs", "final_obs")
ARRAYS = ("reward", "group_reward", "terminated", "truncated", "waiting", "final_index")


def made(name, num_lanes):
    return getattr(tasks, name.split(",")[0])(num_lanes, **GAMES[name])


def plan(lane, episode):
    return (lane * 7919 + episode * 104729 + 13) % 2**31


def of_lane(step, lane, agents):
    """Returns a step of one lane as plain values: waiting rows' observations, rewards and ends."""
    rows, mine = step.rows[0], slice(lane * agents, (lane + 1) * agents)
    acts = rows.waiting[mine]
    seen = {path: array[mine][acts].tolist() for path, array in rows.obs.items()}
    last = (rows.final_index // agents) == lane
    final = {path: array[last].tolist() for path, array in rows.final_obs.items()}
    group = None if rows.group_reward is None else rows.group_reward[mine].tolist()
    flat = [getattr(rows, name)[mine].tolist() for name in ("reward", "terminated", "truncated", "waiting")]
    return seen, final, group, flat, bool(step.ended[lane])


@pytest.mark.parametrize("name", GAMES)
def test_many_lanes_give_the_numbers_of_one_lane_at_a_time(name):
    lanes = 4
    many, alone = made(name, lanes), [made(name, 1) for _ in range(lanes)]
    agents = len(many.kinds[0].agents)
    shown = many.reset(plan)
    each = [env.reset(lambda _, episode, lane=lane: plan(lane, episode)) for lane, env in enumerate(alone)]
    rng, ends = np.random.default_rng(0), 0
    for _ in range(120):
        for lane in range(lanes):
            assert of_lane(shown, lane, agents) == of_lane(each[lane], 0, agents)
        ends += shown.ended.sum()
        answers = random_answers(many, shown, rng)
        owner = np.flatnonzero(shown.rows[0].waiting) // agents
        each = [env.step([answers[0][owner == lane]]) for lane, env in enumerate(alone)]
        shown = many.step(answers)
    assert ends >= 4


@pytest.mark.parametrize("name", GAMES)
def test_a_state_goes_on_where_it_was_and_two_with_equal_seeds_are_equal(name):
    env, other = made(name, 3), made(name, 3)
    assert isinstance(env, VectorEnv)
    rng = np.random.default_rng(1)
    shown = env.reset(plan)
    for _ in range(33):
        shown = env.step(random_answers(env, shown, rng))
    state, kept = env.state_dict(), env.state_dict()
    again, lost = other.load_state_dict(state, plan)
    assert not lost.any()
    for path, array in shown.rows[0].obs.items():
        np.testing.assert_array_equal(array, again.rows[0].obs[path])
    np.testing.assert_array_equal(shown.rows[0].waiting, again.rows[0].waiting)
    for _ in range(60):
        actions = random_answers(env, shown, rng)
        shown, again = env.step(actions), other.step(actions)
        for part in ARRAYS:
            np.testing.assert_array_equal(getattr(shown.rows[0], part), getattr(again.rows[0], part), err_msg=part)
        for part in TREES:
            mine, theirs = getattr(shown.rows[0], part), getattr(again.rows[0], part)
            assert all(mine[path].tobytes() == theirs[path].tobytes() for path in mine)
    assert all(np.array_equal(state[key], kept[key]) for key in state), "a state is a copy"
    before = env.episode.copy()
    env.restart(plan)
    np.testing.assert_array_equal(env.episode, before + 1)


@pytest.mark.parametrize("name", GAMES)
def test_who_waits_is_alive_and_who_ended_ends_once(name):
    env = made(name, 8)
    agents = len(env.kinds[0].agents)
    shown, rng = env.reset(plan), np.random.default_rng(2)
    gone = np.zeros((8, agents), bool)
    for _ in range(200):
        rows = shown.rows[0]
        assert not rows.resting.any()
        assert (rows.waiting.reshape(8, -1).any(axis=1)).all(), "somebody acts in every lane"
        assert not (rows.waiting.reshape(8, -1) & gone).any()
        shown = env.step(random_answers(env, shown, rng))
        rows = shown.rows[0]
        ends = (rows.terminated | rows.truncated).reshape(8, -1)
        assert not (rows.terminated & rows.truncated).any()
        assert not (ends & gone).any()
        gone |= ends
        assert gone[shown.ended].all(), "at a lane's end everybody has ended"
        assert shown.any_end or not ends.any()
        np.testing.assert_array_equal(rows.final_index, np.flatnonzero(rows.truncated))
        gone[shown.ended] = False


@pytest.mark.parametrize("name", GAMES)
def test_it_is_found_by_name_and_checked_without_a_word(name):
    findings = check_env(f"rookery.tasks:{name.split(',')[0]}", GAMES[name], (), episodes=2, max_steps=100, seed=0)
    assert {finding.severity for finding in findings} == {"note"}, findings
    assert type(make_env(name.split(",")[0], GAMES[name], (), 2, "auto")) is type(made(name, 2))


@pytest.mark.parametrize("name", GAMES)
def test_it_is_drawn_and_told_in_letters(name):
    env = made(name, 2)
    shown, rng = env.reset(plan), np.random.default_rng(3)
    env.keep_last_pictures = True
    first, told = env.render(1), env.text(1)
    assert first.dtype == np.uint8
    assert first.shape[2] == 3
    assert not any(side % 2 for side in first.shape[:2])
    assert max(len(line) for line in told.splitlines()) < 80
    while 1 not in env.last_pictures:
        shown = env.step(random_answers(env, shown, rng))
    assert env.last_pictures[1].shape == first.shape
    assert (env.last_pictures[1] != first).any()
    moved = set()
    for _ in range(5):
        moved.add(env.text(1))
        shown = env.step(random_answers(env, shown, rng))
    assert len(moved) > 1


def test_a_state_of_another_game_is_refused():
    soccer = made("LineSoccer", 2)
    soccer.reset(plan)
    sacrifice = made("Sacrifice", 2)
    with pytest.raises(EnvError, match="of another environment, or of other settings"):
        sacrifice.load_state_dict(soccer.state_dict(), plan)


@pytest.mark.parametrize("name", ["TicTacToe", "LineSoccer", "Sacrifice"])
def test_it_is_trained_in(name):
    settings = {"fragment_length": 8, "minibatch_size": 32, "epochs": 1}
    with Trainer(name, "ppo", config={"algorithm": settings}, num_envs=4, seed=0) as trainer:
        assert trainer.train_iteration().env_steps > 0
