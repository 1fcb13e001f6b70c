"""Line soccer: running, kicking, walls and goals, both teams' views, and the scripted team."""

import numpy as np
import pytest

from rookery.tasks.games.line_soccer import (
    BALL,
    BALL_SPEED,
    FRICTION,
    HALF,
    KICK,
    OTHERS,
    PLACE,
    SPEED,
    TIME,
    LineSoccer,
)
from rookery.tasks.games.players import line_soccer_script


def plan(lane, episode):
    return lane * 1000 + episode


def by_chance(obs, rng):
    return rng.uniform(-1, 1, (len(obs["obs"]), 2)).astype(np.float32)


def pitch(places, ball, speed=(0.0, 0.0), **settings):
    env = LineSoccer(1, **settings)
    env.reset(plan)
    env._place[0], env._ball[0], env._speed[0] = places, ball, speed
    env._show()
    return env


FAR = [[-0.9, -0.3], [-0.9, 0.3], [0.9, -0.3], [0.9, 0.3]]
STILL = np.zeros((4, 2))


def test_players_run_in_the_view_of_their_team_and_at_most_so_fast():
    env = pitch([[0, 0.1], [-0.5, 0], [0.5, 0], [0, -0.1]], (0.9, 0.39))
    env.step([np.array([[1.0, 0.0], [0.5, 0.0], [1.0, 0.0], [1.0, 1.0]])])
    slanted = SPEED / np.sqrt(2)
    expected = [[SPEED, 0.1], [-0.5 + SPEED / 2, 0], [0.5 - SPEED, 0], [-slanted, -0.1 - slanted]]
    np.testing.assert_allclose(env._place[0], expected, atol=1e-12)
    env = pitch([[1, 0.4], [-1, -0.4], *FAR[2:]], (0, 0))
    env.step([np.array([[1, 1], [-1, -1], [0, 0], [0, 0]], float)])
    assert env._place[0, :2].tolist() == [[1, 0.4], [-1, -0.4]]


def test_who_touches_the_ball_kicks_it_away_and_it_slows_down():
    env = pitch([[-0.06, 0], *FAR[1:]], (0, 0))
    env.step([STILL])
    np.testing.assert_allclose(env._ball[0], [KICK, 0])
    np.testing.assert_allclose(env._speed[0], [KICK * FRICTION, 0])
    env.step([STILL])
    np.testing.assert_allclose(env._ball[0], [KICK * (1 + FRICTION), 0])
    env = pitch([[-0.05, -0.05], FAR[1], [0.05, -0.05], FAR[3]], (0, 0))
    env.step([STILL])
    np.testing.assert_allclose(env._ball[0], [0, KICK], atol=1e-12, err_msg="between two it slips out sideways")


def test_the_ball_comes_back_from_the_side_lines():
    env = pitch(FAR, (0, 0.38), (0.0, 0.06))
    env.step([STILL])
    np.testing.assert_allclose(env._ball[0], [0, 0.36])
    assert env._speed[0, 1] < 0


@pytest.mark.parametrize(("sign", "blue"), [(1, 1.0), (-1, -1.0)])
def test_a_goal_is_the_reward_of_the_groups_and_ends_the_episode(sign, blue):
    env = pitch(FAR, (sign * 0.97, 0), (sign * 0.05, 0))
    shown = env.step([STILL])
    rows = shown.rows[0]
    assert rows.group_reward.tolist() == [blue, blue, -blue, -blue]
    assert not rows.reward.any()
    assert rows.terminated.all()
    assert shown.ended.all()
    assert env.groups == {"blue": ("blue_0", "blue_1"), "red": ("red_0", "red_1")}


def test_time_cuts_off_and_goalies_win_by_it():
    env = pitch(FAR, (0, 0), max_steps=1, time_cost=0.3)
    rows = env.step([STILL]).rows[0]
    assert rows.truncated.all()
    assert rows.final_obs["obs"][:, TIME].tolist() == [0.0] * 4
    assert not rows.group_reward.any()
    np.testing.assert_allclose(rows.reward, -0.3)
    env = LineSoccer(2, strikers=2, goalies=1, max_steps=1)
    env.reset(plan)
    assert env.kinds[0].agents == ("blue_0", "blue_1", "red_0")
    rows = env.step([np.zeros((6, 2))]).rows[0]
    assert rows.terminated.all()
    assert rows.group_reward.reshape(2, 3).tolist() == [[-1.0, -1.0, 1.0]] * 2


def test_progress_is_paid_for_the_way_of_the_ball_and_never_changes_the_winner():
    env = LineSoccer(40, progress=0.9)
    shown, rng = env.reset(plan), np.random.default_rng(0)
    total, goals, checked = np.zeros((40, 4)), np.zeros((40, 4)), 0
    for _ in range(250):
        shown = env.step([by_chance(shown.rows[0].obs, rng)])
        total += shown.rows[0].reward.reshape(40, 4)
        goals += shown.rows[0].group_reward.reshape(40, 4)
        for lane in np.flatnonzero(shown.ended):
            if goals[lane].any():
                assert np.sign(total[lane]).tolist() == goals[lane].tolist()
                np.testing.assert_allclose(total[lane], 0.9 * goals[lane])
                checked += 1
            total[lane] = goals[lane] = 0
    assert checked > 5


def test_both_teams_see_the_same_in_a_pitch_turned_round():
    places = np.array([[-0.3, 0.1], [-0.7, -0.2], [0.4, 0.3], [0.8, 0.0]])
    env = pitch(places, (0.2, 0.1), (0.05, -0.02))
    turned = pitch(-places[[2, 3, 0, 1]], (-0.2, -0.1), (-0.05, 0.02))
    seen, other = env._rows.obs["obs"], turned._rows.obs["obs"]
    np.testing.assert_array_equal(seen, other[[2, 3, 0, 1]])
    np.testing.assert_allclose(seen[2, PLACE], -places[2], atol=1e-6)
    np.testing.assert_allclose(seen[0, BALL], [0.25, 0.0], atol=1e-6)
    np.testing.assert_allclose(seen[2, BALL_SPEED], [-0.05 / KICK, 0.02 / KICK], atol=1e-6)
    ways = seen[0, OTHERS:].reshape(3, 2)
    np.testing.assert_allclose(ways * 2, places[1:] - places[0], atol=1e-6)
    small = pitch([[-0.3, 0.1], [-0.7, -0.2], [0.4, 0.3]], (0, 0), strikers=2, goalies=1)
    ways = small._rows.obs["obs"][:, OTHERS:].reshape(3, 3, 2)
    assert not ways[2, 0].any(), "no mate"
    np.testing.assert_allclose(2 * ways[2, 1:], [[0.7, 0.2], [1.1, 0.5]], atol=1e-6)
    np.testing.assert_allclose(2 * ways[0, 1], [0.7, 0.2], atol=1e-6)
    assert not ways[0, 2].any()


def test_each_team_begins_in_its_half():
    env = LineSoccer(100)
    env.reset(plan)
    assert (env._place[:, :2, 0] < 0).all()
    assert (env._place[:, 2:, 0] > 0).all()
    assert (np.abs(env._place) <= HALF).all()
    assert len(np.unique(env._ball[:, 1])) == 100


@pytest.mark.parametrize("settings", [{}, {"strikers": 2, "goalies": 1}])
def test_the_scripted_team_beats_chance(settings):
    env, rng = LineSoccer(40, **settings), np.random.default_rng(0)
    for blue_plays in (True, False):
        shown, won, lost = env.reset(plan), 0, 0
        first = np.zeros((40, sum(env.teams)), bool)
        first[:, : env.teams[0]] = True
        scripted = (first == blue_plays).ravel()
        for _ in range(110):
            seen = shown.rows[0].obs["obs"]
            actions = by_chance({"obs": seen}, rng)
            actions[scripted] = line_soccer_script({"obs": seen[scripted]}, rng)
            shown = env.step([actions])
            mine = shown.rows[0].group_reward[scripted]
            won, lost = won + (mine > 0).sum(), lost + (mine < 0).sum()
        assert won > 20 * max(lost, 1)
