"""`reward_after_end`: rewards that come a step too late to be paid are found, and no others."""

from __future__ import annotations

import time

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rookery.doctor.inside.after_end import reward_after_end


class Walk(gymnasium.Env):
    """Walk to either end of a line; each step costs 0.1, an end is worth 5.

    Args:
        pays: ``late`` = the state before the step is rewarded; ``now`` = that after it; ``stay`` = being at the end
            pays in the last step and in each later one.
        left: Whether the left end is worth something.
    """

    observation_space = Box(-3, 3, (1,), np.float32)
    action_space = Discrete(2)

    def __init__(self, pays="now", left=True):
        self.pays, self.left = pays, left

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = int(self.np_random.integers(-1, 2)), 0
        return np.array([self.place], np.float32), {}

    @property
    def worth(self):
        return 5.0 * (self.place >= 3 or (self.left and self.place <= -3))

    def step(self, action):
        self.steps += 1
        late = self.worth
        self.place = int(np.clip(self.place + 2 * int(action) - 1, -3, 3))
        paid = {"late": late, "now": self.worth - late, "stay": self.worth}[self.pays]
        obs = np.array([self.place], np.float32)
        return obs, paid - 0.1, abs(self.place) >= 3, self.steps >= 30, {}


class Hole(Walk):
    """A hole beside the goal ends an episode: a step out of it may reach the goal, and depends on the action."""

    def step(self, action):
        before = self.place
        obs, _, _, truncated, info = super().step(action)
        return obs, float(before == 2 and self.place == 3), self.place == 2, truncated, info


class Refuses(Walk):
    """No step is allowed after the end."""

    over = False

    def reset(self, **given):
        self.over = False
        return super().reset(**given)

    def step(self, action):
        assert not self.over
        obs, reward, self.over, *rest = super().step(action)
        return obs, reward, self.over, *rest


def found(make):
    return reward_after_end(make, time.monotonic() + 10.0)


@pytest.mark.parametrize("left", [True, False])
def test_a_reward_that_comes_after_the_end_is_found(left):
    (one,) = found(lambda: gymnasium.wrappers.TimeLimit(Walk("late", left), 50))
    assert one.rule == "reward-after-end" and "would pay 4.9" in one.message


@pytest.mark.parametrize(
    "make", [Walk, lambda: Walk("stay"), Hole, lambda: Refuses("late"), lambda: gymnasium.make("CartPole-v1")]
)
def test_rewards_of_the_last_step_and_unlucky_ends_are_no_finding(make):
    assert found(make) == []


@pytest.mark.parametrize("name", ["FrozenLake-v1", "Taxi-v3", "Blackjack-v1", "CliffWalking-v1", "Acrobot-v1"])
def test_environments_of_gymnasium_have_none(name):
    assert found(lambda: gymnasium.make(name)) == []


def test_without_single_environments_nothing_is_played():
    assert found(None) == []
