import itertools

import gymnasium
import numpy as np
import pytest

from rookery.envs.adapters.classic import BATCHED_VARIANTS, BatchedCartPole
from rookery.envs.base import VectorEnv
from selection import slow_repeats


def plan(lane, episode):
    return (lane * 7919 + episode * 104729 + 13) % 2**31


def random_actions(obs, rng):
    return rng.integers(0, 2, len(obs))


def balancing_actions(obs, rng):
    lean = obs @ np.array([0.02, 0.05, 1.0, 0.3])
    return (lean + rng.normal(0, 0.02, len(obs)) > 0).astype(np.int64)


def play_beside_gymnasium(num_lanes, num_steps, choose, **settings):
    """Plays both with the same seeds and actions, comparing every number; gives the ends seen."""
    batched = BatchedCartPole(num_lanes, **settings)
    rows = batched.reset(plan).rows[0]
    single = [gymnasium.make("CartPole-v1", **settings) for _ in range(num_lanes)]
    obs = [env.reset(seed=plan(lane, 0))[0] for lane, env in enumerate(single)]
    episode = [0] * num_lanes
    rng = np.random.default_rng(0)
    seen = {"terminated": 0, "truncated": 0, "both": 0}
    for _ in range(num_steps):
        assert np.array_equal(rows.obs["obs"], obs)
        actions = choose(rows.obs["obs"], rng)
        shown = batched.step((actions,))
        ended = shown.ended.copy()
        assert shown.any_end == ended.any()
        final = {}
        for lane, env in enumerate(single):
            obs[lane], reward, terminated, truncated, _ = env.step(int(actions[lane]))
            assert (reward, terminated, truncated) == (
                rows.reward[lane],
                rows.terminated[lane],
                rows.truncated[lane],
            )
            assert ended[lane] == (terminated or truncated)
            seen["both" if terminated and truncated else "terminated"] += terminated
            if truncated and not terminated:
                seen["truncated"] += 1
                final[lane] = obs[lane]
            if terminated or truncated:
                episode[lane] += 1
                obs[lane], _ = env.reset(seed=plan(lane, episode[lane]))
        assert rows.final_index.tolist() == list(final)
        assert np.array_equal(rows.final_obs["obs"], np.array(list(final.values())).reshape(-1, 4))
        assert batched.episode.tolist() == episode
    return seen


def test_numpy_gives_the_same_sine_and_cosine_for_an_array_and_for_its_numbers():
    # What bit-equality stands on: Gymnasium asks for one number at a time. BATCHED_VARIANTS needs it.
    angles = np.random.default_rng(0).uniform(-0.5, 0.5, 2000)
    for length in (1, 3, 8):
        for start in range(0, len(angles) - length, length):
            part = angles[start : start + length]
            assert np.sin(part).tolist() == [np.sin(x) for x in part]
            assert np.cos(part).tolist() == [np.cos(x) for x in part]


@pytest.mark.parametrize("num_lanes", [8, 1])
def test_random_play_is_bit_equal_to_gymnasium(num_lanes):
    seen = play_beside_gymnasium(num_lanes, 2000, random_actions)
    assert seen["terminated"] > 60 * num_lanes


@pytest.mark.parametrize("num_lanes", [8, 1])
def test_balanced_episodes_are_bit_equal_to_gymnasium_up_to_truncation(num_lanes):
    seen = play_beside_gymnasium(num_lanes, 2600, balancing_actions)
    assert seen["truncated"] >= 5 * num_lanes


@pytest.mark.parametrize(("max_episode_steps", "num_lanes"), slow_repeats(of=itertools.product([1, 9, 20], [5, 1])))
def test_other_time_limits_and_falls_in_the_last_step_are_gymnasiums_too(max_episode_steps, num_lanes):
    seen = play_beside_gymnasium(num_lanes, 1500 // num_lanes, random_actions, max_episode_steps=max_episode_steps)
    assert seen["truncated"] > 0
    assert (seen["both"] > 0) == (max_episode_steps > 1)  # a pole cannot fall in its first step


def test_the_sutton_barto_reward_is_gymnasiums():
    for num_lanes in (3, 1):
        play_beside_gymnasium(num_lanes, 200, random_actions, sutton_barto_reward=True)


def test_an_episode_does_not_depend_on_how_many_lanes_there_are():
    few, many = BatchedCartPole(2), BatchedCartPole(9)
    small, large = few.reset(plan).rows[0], many.reset(plan).rows[0]
    for actions in np.random.default_rng(1).integers(0, 2, (300, 9)):
        few.step((actions[:2],))
        many.step((actions,))
        assert np.array_equal(small.obs["obs"], large.obs["obs"][:2])


def test_a_push_to_the_right_moves_cart_and_pole_as_the_equations_say():
    env = BatchedCartPole(1)
    rows = env.reset(lambda lane, episode: 5).rows[0]
    x, v, angle, turn = np.random.default_rng(5).uniform(-0.05, 0.05, 4)
    env.step((np.array([1]),))
    # Masses 1.0 and 0.1 kg, half a pole 0.5 m, 10 N for 0.02 s.
    thrust = (10 + 0.05 * turn**2 * np.sin(angle)) / 1.1
    turning = (9.8 * np.sin(angle) - np.cos(angle) * thrust) / (0.5 * (4 / 3 - 0.1 * np.cos(angle) ** 2 / 1.1))
    pushing = thrust - 0.05 * turning * np.cos(angle) / 1.1
    expected = [x + 0.02 * v, v + 0.02 * pushing, angle + 0.02 * turn, turn + 0.02 * turning]
    assert rows.obs["obs"][0] == pytest.approx(expected, rel=1e-6)


def test_a_reset_begins_again_at_episode_0():
    env = BatchedCartPole(3)
    actions = np.random.default_rng(0).integers(0, 2, (80, 3))

    def play():
        rows = env.reset(plan).rows[0]
        assert not rows.terminated.any() and not rows.reward.any() and rows.waiting.all() and rows.final_index.size == 0
        return [(env.step((a,)).rows[0].terminated.tolist(), rows.obs["obs"].tolist()) for a in actions]

    assert play() == play()


def test_the_slab_is_written_in_place_and_never_read_back():
    env, twin = BatchedCartPole(4), BatchedCartPole(4)
    rows, clean = env.reset(plan).rows[0], twin.reset(plan).rows[0]
    for actions in np.random.default_rng(0).integers(0, 2, (200, 4)):
        rows.obs["obs"][:] = -7
        rows.reward[:] = -7
        assert env.step((actions,)).rows[0] is rows
        twin.step((actions,))
        assert np.array_equal(rows.obs["obs"], clean.obs["obs"]) and np.array_equal(rows.reward, clean.reward)


def test_the_batched_cart_pole_has_gymnasiums_spaces():
    env, gym_env = BatchedCartPole(2), gymnasium.make("CartPole-v1")
    assert isinstance(env, VectorEnv) and env.exact and env.layout == 0
    (kind,) = env.kinds
    assert kind.agents == ("agent",)
    assert kind.obs.space == gym_env.observation_space and kind.action.space == gym_env.action_space
    assert BATCHED_VARIANTS["CartPole-v1"] is BatchedCartPole
    assert gym_env.spec.max_episode_steps == env.max_episode_steps


def test_the_picture_shows_the_cart_where_it_is():
    env = BatchedCartPole(2)
    env.reset(plan)
    before = env.render(0)
    assert before.shape == (400, 600, 3) and before.dtype == np.uint8
    rows = env.reset(plan).rows[0]
    for _ in range(6):
        env.step((np.array([1, 0]),))
    dark = [np.argwhere(env.render(lane)[240:260].max(axis=2) < 120)[:, 1].mean() for lane in (0, 1)]
    assert rows.obs["obs"][0, 0] > rows.obs["obs"][1, 0] and dark[0] > dark[1]
