"""An environment restored from another's state continues like it, to the last bit."""

import functools

import gymnasium
import numpy as np
import pytest
from gymnasium import wrappers

from rookery.core.io.encoding import decode, encode
from rookery.core.spaces.arrays import action_spec
from rookery.envs.adapters.snapshot import can_capture, capture, restore
from rookery.envs.random_play import random_actions
from selection import slow

MUJOCO = [
    "HalfCheetah",
    "Hopper",
    "Walker2d",
    "Ant",
    "Humanoid",
    "HumanoidStandup",
    "Swimmer",
    "Reacher",
    "Pusher",
    "InvertedPendulum",
    "InvertedDoublePendulum",
]


def equal(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    return np.array_equal(one, other)


def assert_goes_on_alike(make, before, after):
    """Plays a copy for `before` steps, puts another where it is, and plays both for `after` steps, resets included."""
    one, other = make(), make()
    assert can_capture(one)
    spec, rng = action_spec(one.action_space), np.random.default_rng(0)

    def action():
        return spec.to_env(random_actions(spec, 1, None, rng))[0]

    one.reset(seed=1)
    for _ in range(before):
        *_, terminated, truncated, _ = one.step(action())
        if terminated or truncated:
            one.reset()
    other.reset(seed=2)
    for _ in range(7):
        other.step(action())
    other.reset(seed=3)
    restore(other, decode(*encode(capture(one))))
    ends = 0
    for step in range(after):
        given = action()
        (seen, *paid, _), (seen_again, *paid_again, _) = one.step(given), other.step(given)
        assert equal(seen, seen_again), f"step {step}"
        assert paid == paid_again, f"step {step}"
        if paid[1] or paid[2]:
            ends += 1
            assert equal(one.reset()[0], other.reset()[0])
    one.close()
    other.close()
    return ends


@pytest.mark.parametrize("name", MUJOCO)
def test_mujoco_goes_on_after_a_restore(name):
    pytest.importorskip("mujoco")
    make = functools.partial(gymnasium.make, f"{name}-v5", max_episode_steps=137)
    assert assert_goes_on_alike(make, before=37, after=200)


def test_a_restored_mujoco_environment_draws_the_same_picture_as_its_state():
    mujoco = pytest.importorskip("mujoco")
    one, other = gymnasium.make("Ant-v5").unwrapped, gymnasium.make("Ant-v5").unwrapped
    one.reset(seed=0)
    other.reset(seed=1)
    for _ in range(10):
        one.step(one.action_space.high)
    restore(other, capture(one))
    mujoco.mj_forward(one.model, one.data)
    np.testing.assert_array_equal(other.data.geom_xpos, one.data.geom_xpos)


def test_a_class_made_from_a_mujoco_environment_is_not_trusted():
    pytest.importorskip("mujoco")
    from gymnasium.envs.mujoco.hopper_v5 import HopperEnv

    class Tired(HopperEnv):
        pass

    assert not can_capture(Tired())


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "Acrobot-v1", "FrozenLake-v1", "Taxi-v4"])
def test_classics_go_on_after_a_restore(name):
    if name not in gymnasium.registry:
        pytest.skip("another version of Gymnasium")
    assert assert_goes_on_alike(functools.partial(gymnasium.make, name, max_episode_steps=60), before=25, after=200)


@pytest.mark.parametrize(
    "wrap",
    [
        functools.partial(wrappers.FrameStackObservation, stack_size=3),
        functools.partial(wrappers.MaxAndSkipObservation, skip=2),
        wrappers.TimeAwareObservation,
        wrappers.NormalizeObservation,
        wrappers.NormalizeReward,
        wrappers.RecordEpisodeStatistics,
        lambda env: wrappers.NormalizeReward(wrappers.FrameStackObservation(wrappers.NormalizeObservation(env), 2)),
    ],
)
def test_wrappers_with_a_memory_go_on_after_a_restore(wrap):
    assert assert_goes_on_alike(lambda: wrap(gymnasium.make("CartPole-v1")), before=50, after=200)


def test_an_unknown_wrapper_hides_the_state():
    assert not can_capture(wrappers.TransformReward(gymnasium.make("CartPole-v1"), lambda reward: reward))


@pytest.mark.parametrize(
    "settings",
    [
        {"repeat_action_probability": 0.25, "max_num_frames_per_episode": 400},
        slow({"frameskip": (2, 5), "obs_type": "ram", "max_num_frames_per_episode": 400}),
    ],
)
def test_ale_goes_on_after_a_restore(settings):
    ale_py = pytest.importorskip("ale_py")
    gymnasium.register_envs(ale_py)
    make = functools.partial(gymnasium.make, "ALE/Breakout-v5", **settings)
    assert assert_goes_on_alike(make, before=60, after=200)
