"""BitFlip and PointReach: their rules, redone by hand."""

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from rookery.tasks.goal_tasks import BitFlip, PointReach


def test_flipping_each_bit_that_differs_reaches_the_goal():
    env = BitFlip(6)
    obs, info = env.reset(seed=0)
    assert info == {"is_success": False} and (obs["observation"] == obs["achieved_goal"]).all()
    differ = np.flatnonzero(obs["achieved_goal"] != obs["desired_goal"]).tolist()
    paid, ends = [], []
    for bit in differ:
        before = obs["achieved_goal"].copy()
        obs, reward, terminated, truncated, info = env.step(bit)
        assert np.flatnonzero(before != obs["achieved_goal"]).tolist() == [bit]
        paid.append(reward)
        ends.append(terminated)
    assert paid == [-1.0] * (len(differ) - 1) + [0.0] and ends == [False] * (len(differ) - 1) + [True]
    assert info == {"is_success": True} and (obs["achieved_goal"] == obs["desired_goal"]).all()


def test_after_as_many_steps_as_bits_an_episode_is_truncated():
    env = BitFlip(3)
    obs, _ = env.reset(seed=1)
    same = int(np.flatnonzero(obs["achieved_goal"] == obs["desired_goal"])[0])  # there is one, with this seed
    ends = [env.step(same)[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]


def test_a_point_moves_by_its_speed_and_stops_at_the_walls():
    env = PointReach(dimensions=2, speed=0.25, radius=0.2, max_steps=2)
    env.reset(seed=0)
    env.state, env.goal = np.array([0.9, 0.0], np.float32), np.array([1.0, -0.25], np.float32)
    obs, reward, terminated, truncated, info = env.step(np.array([1.0, -0.2]))
    np.testing.assert_allclose(obs["achieved_goal"], [1.0, -0.05], atol=1e-6)
    assert (reward, terminated, truncated, info["is_success"]) == (-1.0, False, False, False)  # 0.2 is not closer
    obs, reward, terminated, truncated, info = env.step(np.array([0.0, -3.0]))
    np.testing.assert_allclose(obs["achieved_goal"], [1.0, -0.3], atol=1e-6)
    assert (reward, terminated, truncated, info["is_success"]) == (0.0, False, True, True)


@pytest.mark.parametrize("env", [BitFlip(4), PointReach()], ids=["bits", "point"])
def test_rewards_are_computed_for_single_goals_and_for_many(env):
    obs, _ = env.reset(seed=0)
    many = np.stack([obs["desired_goal"], obs["achieved_goal"], obs["desired_goal"]])
    goals = np.stack([obs["desired_goal"]] * 3)
    assert env.compute_reward(many, goals, {}).tolist() == [0.0, -1.0, 0.0]
    assert float(env.compute_reward(obs["achieved_goal"], obs["desired_goal"], {})) == -1.0
    ends = [True, False, True] if isinstance(env, BitFlip) else [False] * 3
    assert env.compute_terminated(many, goals, {}).tolist() == ends


def test_a_dense_step_pays_minus_the_distance():
    env = PointReach(dimensions=2, dense=True)
    env.reset(seed=0)
    env.state, env.goal = np.array([0.0, 0.0], np.float32), np.array([0.4, 0.2], np.float32)
    _, reward, _, _, info = env.step(np.array([1.0, -1.0]))
    assert reward == pytest.approx(-np.hypot(0.3, 0.3)) and info == {"is_success": False}


def test_images_show_point_and_goal_in_a_channel_each():
    env = PointReach(dimensions=2, pixels=9)
    assert env.observation_space.shape == (9, 9, 2)
    check_env(env, skip_render_check=True)
    env.state, env.goal = np.array([0.0, 0.0], np.float32), np.array([8 / 9, 4 / 9], np.float32)
    image = env._observed()
    peaks = [np.unravel_index(image[..., channel].argmax(), (9, 9)) for channel in range(2)]
    assert peaks == [(4, 4), (2, 8)] and image.max((0, 1)).tolist() == [255, 255]  # up and to the right
    near = 255 * np.exp(-1 / (2 * 2.4**2))
    assert image[4, 5, 0] == image[3, 4, 0] == round(near)
    env.state = np.array([1 / 9, 0.0], np.float32)  # half a pixel
    between = env._observed()[..., 0]
    assert between[4, 4] == between[4, 5] < 255


@pytest.mark.parametrize("make", [BitFlip, PointReach])
def test_they_are_environments_of_gymnasium_with_images(make):
    check_env(make(), skip_render_check=True)
    env = make(render_mode="rgb_array")
    env.reset(seed=0)
    assert env.render().dtype == np.uint8 and env.render().ndim == 3


@pytest.mark.parametrize(
    "make",
    [
        lambda: BitFlip(0),
        lambda: PointReach(radius=0.0),
        lambda: PointReach(speed=2.0),
        lambda: PointReach(dimensions=0),
        lambda: PointReach(pixels=24),
        lambda: PointReach(dimensions=2, pixels=2),
        lambda: BitFlip(render_mode="human"),
    ],
)
def test_settings_out_of_range_are_refused(make):
    with pytest.raises(ValueError, match=r"BitFlip|PointReach"):
        make()
