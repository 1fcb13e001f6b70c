"""BallPlate: turning, rolling, falling, parameters, and how long chance and the scripted player hold the ball."""

import numpy as np
import pytest

from rookery.envs.parameters import Draws, EpisodePlan
from rookery.envs.samplers import ConstantSampler
from rookery.tasks.ball_plate import AIR, HALF, HEIGHT, MOST_TILT, RADIUS, BallPlate, axes, turned
from rookery.tasks.games.players import ball_plate_script


def plan(lane, episode):
    return lane * 1000 + episode


def given(**values):
    """Seeds, and the same parameters for every episode."""
    samplers = {name: ConstantSampler(value) for name, value in values.items()}
    return EpisodePlan(plan, Draws(samplers), lambda lane, episode, name: np.random.default_rng(0), {})


def placed(place, tilt=(0.0, 0.0), speed=(0, 0, 0), **values):
    """One ball, at a place and with a speed, on a cube turned about z and then about x, in radians."""
    env = BallPlate(1)
    env.reset(given(**values))
    whole = np.array([[1.0], [0.0], [0.0], [0.0]])
    env._turned[...] = turned(turned(whole, 3, np.array(tilt[:1])), 1, np.array(tilt[1:]))
    env._place[:, 0], env._speed[:, 0], env._spin[:, 0] = place, speed, 0.0
    return env


STILL = np.zeros((1, 2))


def test_a_turn_is_that_of_quaternions():
    rng = np.random.default_rng(0)
    whole = np.array([[1.0], [0.0], [0.0], [0.0]])
    for axis in (1, 3):
        one = turned(whole, axis, np.array([0.3]))
        frame = np.array(axes(one))[:, :, 0]
        np.testing.assert_allclose(frame @ frame.T, np.eye(3), atol=1e-12)
        np.testing.assert_allclose(frame[axis - 1], np.eye(3)[axis - 1], atol=1e-12)
        assert frame[1] @ [0, 1, 0] == pytest.approx(np.cos(0.3))
    leaned = np.array(axes(turned(whole, 3, np.array([0.2]))))[1, :, 0]
    np.testing.assert_allclose(leaned, [-np.sin(0.2), np.cos(0.2), 0], atol=1e-12)
    mixed = whole
    for axis, angle in zip(rng.choice([1, 3], 50), rng.uniform(-1, 1, 50), strict=True):
        mixed = turned(mixed, int(axis), np.array([angle]))
    assert np.linalg.norm(mixed) == pytest.approx(1.0)


def test_an_action_turns_the_cube_by_two_degrees_a_step_of_physics_until_it_is_tilted_enough():
    env = placed((0, 10, 0))
    env.step([np.array([[1.0, 0.0]])])
    assert np.rad2deg(2 * np.arcsin(env._turned[3, 0])) == pytest.approx(10.0)
    env.step([np.array([[0.0, -0.5]])])
    assert np.rad2deg(2 * np.arcsin(env._turned[1, 0])) == pytest.approx(-5.0, abs=0.1)
    env = placed((0, 50, 0))
    for _ in range(10):
        env.step([np.array([[1.0, 0.0]])])
    assert MOST_TILT <= env._turned[3, 0] < MOST_TILT + 0.02
    env.step([np.array([[-1.0, 0.0]])])
    assert env._turned[3, 0] < MOST_TILT


def test_a_ball_falls_freely_and_rests_on_a_level_cube():
    env = placed((0.5, HEIGHT, -0.5))
    env.step([STILL])
    assert env._place[1, 0] == pytest.approx(HEIGHT - 9.81 * 0.02**2 * 15, abs=1e-3)  # 1 + 2 + 3 + 4 + 5 steps
    for _ in range(20):
        env.step([STILL])
    np.testing.assert_allclose(env._place[:, 0], [0.5, HALF + RADIUS, -0.5], atol=1e-6)
    np.testing.assert_allclose(env._speed[:, 0], 0.0, atol=1e-6)


@pytest.mark.parametrize("scale", [1.0, 0.4])
def test_a_ball_rolls_down_with_five_sevenths_of_what_would_slide(scale):
    angle = 0.1
    normal = np.array([-np.sin(angle), np.cos(angle), 0])
    env = placed(normal * (HALF + RADIUS * scale), (angle, 0.0), scale=scale, mass=20.0)
    for _ in range(4):
        env.step([STILL])
    pace = np.linalg.norm(env._speed[:, 0])
    assert pace == pytest.approx(5 / 7 * 9.81 * np.sin(angle) * 0.4, rel=0.01)
    assert env._speed[0, 0] < 0, "down is where the cube leans to"
    assert abs(env._spin[2, 0]) == pytest.approx(pace / (RADIUS * scale), rel=1e-6), "it rolls and does not slide"


def test_a_ball_that_has_fallen_costs_one_and_a_held_one_pays():
    env = placed((0, HALF + RADIUS, 0))
    rows = env.step([STILL]).rows[0]
    assert rows.reward.tolist() == [0.1]
    env = placed((2.95, HALF + RADIUS, 0), speed=(1.0, 0, 0))
    rows = env.step([STILL]).rows[0]
    assert rows.reward.tolist() == [-1.0]
    assert rows.terminated.all()
    env = BallPlate(1, max_steps=1)
    env.reset(plan)
    rows = env.step([STILL]).rows[0]
    assert rows.truncated.all()
    assert rows.reward.tolist() == [0.1]


def test_each_parameter_changes_what_it_says():
    after = {}
    for name, value in (("mass", 0.1), ("gravity", 20.0), ("scale", 3.0), ("mass", 1.0)):
        env = placed((0, HEIGHT, 0), (0.15, 0.0), **{name: value})
        for _ in range(8):
            env.step([STILL])
        after[name, value] = env._place[:, 0].copy()
    usual = after["mass", 1.0]
    assert after["gravity", 20.0][0] < usual[0] - 0.1, "it rolls further"
    assert after["scale", 3.0][1] > usual[1] + 0.5, "its middle is higher"
    assert 0.001 < after["mass", 0.1][0] - usual[0], "air slows a light ball"
    slowed = placed((0, 50, 0), speed=(1, 0, 0), mass=0.1)
    slowed.step([STILL])
    assert slowed._speed[0, 0] == pytest.approx(np.exp(-AIR / 0.1 * 0.1))


def test_what_is_seen_is_tilt_place_and_speed_and_the_hard_task_leaves_out_the_speed():
    env, hard = BallPlate(3), BallPlate(3, hard=True)
    env.reset(plan)
    hard.reset(plan)
    action = np.random.default_rng(0).uniform(-1, 1, (3, 2))
    seen, less = env.step([action]).rows[0].obs["obs"], hard.step([action]).rows[0].obs["obs"]
    assert seen.shape == (3, 8)
    np.testing.assert_array_equal(seen[:, :5], less)
    np.testing.assert_allclose(seen[:, 0], env._turned[3], atol=1e-6)
    np.testing.assert_allclose(seen[:, 2:5], env._place.T, atol=1e-5)
    np.testing.assert_allclose(seen[:, 5:], env._speed.T, atol=1e-5)
    assert (np.abs(env._place[[0, 2]]) < 2).all()


def test_the_scripted_player_holds_the_ball_and_chance_does_not():
    env, rng = BallPlate(40, max_steps=120), np.random.default_rng(0)
    shown, fell = env.reset(plan), 0
    for _ in range(120):
        shown = env.step([ball_plate_script(shown.rows[0].obs, rng)])
        fell += shown.rows[0].terminated.sum()
    assert fell == 0
    assert shown.rows[0].truncated.all()
    shown, earned, first = env.reset(plan), np.zeros(40), np.ones(40, dtype=bool)
    for _ in range(120):
        shown = env.step([rng.uniform(-1, 1, (40, 2))])
        earned += shown.rows[0].reward * first
        first &= ~shown.ended
    assert not first.any()
    assert earned.mean() == pytest.approx(1.0, abs=0.4)
