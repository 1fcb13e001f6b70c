"""The function that steps a Gymnasium environment with fewer calls does what its own `step` does."""

import gymnasium
import numpy as np
import pytest

from rookery.core.errors import EnvError
from rookery.envs.adapters.gym_env import GymLane
from rookery.envs.adapters.snapshot import capture
from rookery.envs.make import make_env


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


class Shown(gymnasium.Env):
    """Shows and pays the given values."""

    observation_space, action_space = gymnasium.spaces.Box(-9.0, 9.0, (3,)), gymnasium.spaces.Discrete(2)
    obs, reward = np.zeros(3, np.float32), 1.0

    def reset(self, *, seed=None, options=None):
        return np.zeros(3, np.float32), {}

    def step(self, action):
        return self.obs, self.reward, False, False, {}


@pytest.fixture
def lanes():
    env = make_env(Shown, {}, [], 3, "serial")
    env.reset(lambda lane, episode: lane)
    return env


def shown(env, obs, reward=1.0):
    """Returns the rows after a step in which lane 1 shows and pays this."""
    env._lanes[1].env.obs, env._lanes[1].env.reward = obs, reward
    return env.step([np.zeros(3, np.int64)]).rows[0]


SAME = np.arange(3, dtype=np.float32)


@pytest.mark.parametrize(
    "obs",
    [
        SAME.astype(np.float64),
        SAME.astype(">f4"),
        np.arange(6, dtype=np.float32)[::2] / 2,
        SAME.tolist(),
        SAME.astype(int),
    ],
    ids=["float64", "swapped", "strided", "list", "integers"],
)
def test_observations_of_other_types_are_written_as_those_of_the_stored_one(lanes, obs):
    for one in (SAME, obs, SAME + 1, obs):
        assert np.array_equal(shown(lanes, one).obs["obs"][1], np.asarray(one, np.float32))
    assert not lanes.slab.blocks[0].rows.obs["obs"][[0, 2]].any()


def test_a_buffer_that_copies_share_shows_what_it_held_in_each_lanes_own_step(lanes):
    class Sharing(Shown):
        obs, count = np.zeros(3, np.float32), [0]

        def step(self, action):
            self.count[0] += 1
            self.obs[:] = self.count[0] % 9
            return self.obs, 1.0, False, False, {}

    env = make_env(Sharing, {}, [], 3, "serial")
    env.reset(lambda lane, episode: lane)
    assert env.step([np.zeros(3, np.int64)]).rows[0].obs["obs"][:, 0].tolist() == [1, 2, 3]


@pytest.mark.parametrize("obs", [SAME[:2], SAME[None], SAME[0], "abc", b"abc", None])
def test_an_observation_that_does_not_fit_is_an_error_of_its_lane(lanes, obs):
    with pytest.raises(EnvError, match="environment 1"):
        shown(lanes, obs)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_an_error_of_its_lane(lanes, number):
    with pytest.raises(EnvError, match="environment 1.*non-finite observation"):
        shown(lanes, np.array([0.0, number, 0.0], np.float32))
    lanes.reset(lambda lane, episode: lane)
    with pytest.raises(EnvError, match="environment 1.*non-finite reward"):
        shown(lanes, SAME, float(number))


def test_rewards_of_opposite_infinities_and_of_numbers_whose_sum_is_too_large_are_told_apart(lanes):
    lanes._lanes[0].env.reward = lanes._lanes[2].env.reward = 1.7e308
    assert shown(lanes, SAME).reward.tolist() == [1.7e308, 1.0, 1.7e308]
    lanes._lanes[0].env.reward = float("inf")
    with pytest.raises(EnvError, match="environment 0.*non-finite reward"):
        shown(lanes, SAME, -float("inf"))


@pytest.mark.parametrize(
    ("reward", "paid"),
    [(2, 2.0), (True, 1.0), (np.float32(0.5), 0.5), (np.array([3.0]), 3.0), ("1", None), (None, None)],
)
def test_rewards_are_numbers_of_any_type_and_no_texts(lanes, reward, paid):
    if paid is not None:
        assert shown(lanes, SAME, reward).reward.tolist() == [1.0, paid, 1.0]
        return
    with pytest.raises(EnvError, match=r"environment 1.*expected a finite number"):
        shown(lanes, SAME, reward)
