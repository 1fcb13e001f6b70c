"""What steps a Gymnasium copy with fewer calls does what its own `step` does."""

import gymnasium
import numpy as np
import pytest

from rookery.envs.gym_env import GymLane
from rookery.envs.snapshot import capture


@pytest.fixture
def made():
    return [gymnasium.make("CartPole-v1", disable_env_checker=True, max_episode_steps=12) for _ in range(2)]


def test_a_time_limit_cuts_off_and_counts_as_it_does_by_itself(made):
    mine, other = made
    call = GymLane(mine).call
    assert call != mine.step
    for episode in range(3):
        mine.reset(seed=episode)
        other.reset(seed=episode)
        for step in range(14):  # beyond the limit, too
            action = np.int64(step % 2)
            (obs, *rest), (expected, *others) = call(action), other.step(action)
            assert np.array_equal(obs, expected)
            assert rest == others
            assert rest[2] == (step >= 11)
            assert mine._elapsed_steps == other._elapsed_steps == step + 1
    assert str(capture(mine)) == str(capture(other))


def test_a_limit_that_changes_holds_at_once(made):
    call = GymLane(made[0]).call
    made[0].reset(seed=0)
    made[0]._max_episode_steps = 2
    assert [call(np.int64(0))[3] for _ in range(2)] == [False, True]


def test_a_wrapper_of_another_class_and_a_step_of_somebodys_own_are_called(made):
    class Mine(gymnasium.wrappers.TimeLimit):
        pass

    outer = Mine(made[0].env, 5)
    assert GymLane(outer).call == outer.step
    outer = gymnasium.wrappers.RecordEpisodeStatistics(made[0])
    assert GymLane(outer).call == outer.step
    made[1].step = lambda action: "mine"
    assert GymLane(made[1]).call(0) == "mine"


def test_a_step_of_somebodys_own_below_the_limit_is_called(made):
    asked = []
    made[0].env.step = lambda action: (asked.append(action), 0.0, False, False, {})
    made[0].reset(seed=0)
    GymLane(made[0]).call(1)
    assert asked == [1]
