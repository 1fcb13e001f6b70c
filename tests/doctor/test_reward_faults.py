"""Rewards that pay for something else than the task: early ends and cycles; each is found, and nothing without it."""

from __future__ import annotations

import time

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rookery import PPOConfig, Trainer
from rookery.doctor.returns.cycles import paid_cycles, reward_cycle
from rookery.doctor.returns.ends import early_end_pays, last_rewards
from rookery.doctor.returns.episode_returns import AgentPath, EpisodeReturns
from rookery.doctor.returns.plays import Plays, play_behaviours
from rookery.doctor.returns.waiting import waiting_pays


def episodes(*lists, terminated=True):
    """Episodes with some rewards each, so many times that they are enough."""
    rewards = [np.array(one, float) for one in lists] * (16 // len(lists))
    return EpisodeReturns(
        tuple(float(one.sum()) for one in rewards),
        lengths=tuple(map(len, rewards)),
        rewards=tuple(rewards),
        terminated=(terminated,) * len(rewards),
    )


COST, LONG = [-1.0] * 3, [-1.0] * 40


@pytest.mark.parametrize(
    ("rewards", "ends"),
    [
        ([*COST, -2.0], -1),
        ([*COST, 9.0], 1),
        (COST, 0),
        ([-1.0, -2.0, -3.0, -4.0], 0),  # a cost that grows
        ([-1.0, -2.0, -9.0], -1),
    ],
)
def test_the_last_reward_is_compared_with_those_before(rewards, ends):
    assert set(last_rewards(episodes(rewards))) == {ends}
    assert set(last_rewards(episodes(rewards, terminated=False))) == {0}
    assert not len(last_rewards(episodes([5.0])))


@pytest.mark.parametrize(
    ("own", "chance", "constant", "is_found"),
    [
        ([*COST, -2.0], [*LONG, -2.0], None, True),  # it seeks the penalty
        (COST, [*LONG, 9.0], None, True),  # it avoids the bonus
        (COST, LONG, [*LONG, 9.0], True),
        (COST, LONG, None, False),  # the goal is to be reached soon
        ([*COST, 9.0], [*LONG, 9.0], None, False),
        ([*COST, 0.0], LONG, None, False),
        ([1.0, 1.0, -2.0], [*LONG, -2.0], None, False),  # steps pay
        ([*LONG, -2.0], [*LONG, -2.0], None, False),
    ],
)
def test_a_policy_that_ends_its_episodes_because_steps_cost_is_found(own, chance, constant, is_found):
    constants = [] if constant is None else [("action 1", episodes(constant))]
    found = early_end_pays(Plays(episodes(own), episodes(chance), None, constants), ["course"])
    assert [one.rule for one in found] == ["early-end-pays"] * is_found
    if is_found:
        assert "ends its episodes after" in found[0].message and found[0].evidence[-1] == "course"
    assert not early_end_pays(Plays(episodes(own, terminated=False), episodes(chance), None, constants))


def path(places, rewards):
    return AgentPath(np.array(places, np.float32)[:, None], np.array(rewards, float))


TO_AND_FRO = [0, 1] * 10


@pytest.mark.parametrize(
    ("places", "rewards", "share"),
    [
        (TO_AND_FRO, [1.0, 0.0] * 10, 19 / 20),
        (TO_AND_FRO, [1.0, -1.0] * 10, 0.0),  # the difference of a potential
        (TO_AND_FRO, [1.0, 1.0] * 10, 0.0),  # paid for staying alive
        (range(20), [1.0, 0.0] * 10, 0.0),
        ([0] * 20, [1.0, 0.0] * 10, 0.0),
        ([0, 1, 2, 1] * 5, [1.0, 1.0, 0.0, 0.0] * 5, 18 / 20),  # by the turning points
    ],
)
def test_paid_cycles_return_to_the_same_observation(places, rewards, share):
    cycles = paid_cycles((path(places, rewards),), 0.0)
    assert cycles.share == pytest.approx(share)
    assert cycles.gain == (1.0 if share else 0.0)
    assert not paid_cycles((path(places, rewards),), 0.5).share  # a step pays as much as usual


def behaviour(places, rewards, terminated=False):
    one = episodes(rewards, terminated=terminated)
    return EpisodeReturns(one.values, lengths=one.lengths, rewards=one.rewards, terminated=one.terminated,
                          paths=(path(places, rewards),) * 16)  # fmt: skip


def test_a_policy_that_farms_a_reward_is_found_and_warned_of_where_there_is_a_better_end():
    farms, wanders = behaviour(TO_AND_FRO, [1.0, 0.0] * 10), behaviour(range(20), [0.0] * 15 + [1.0] * 5)
    arrives = behaviour(range(4), [0.0, 0.0, 0.0, 5.0], terminated=True)
    for constants, severity in (([("action 1", arrives)], "warning"), ([], "note")):
        (one,) = reward_cycle(Plays(farms, wanders, None, constants))
        assert (one.rule, one.severity) == ("reward-cycle", severity)
        assert "95 % of its steps, 1 for there and back" in one.message
    for own in (arrives, wanders, behaviour(TO_AND_FRO, [1.0, 0.0] * 10, terminated=True)):
        assert not reward_cycle(Plays(own, wanders))
    assert not reward_cycle(Plays(farms, None))


class Ledge(gymnasium.Env):
    """Ends by a fall at the left, by a bonus at the right, and by the time limit."""

    observation_space, action_space = Box(-1.0, 1.0, (1,), np.float32), Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = 1, 0
        return self.look(), {}

    def look(self):
        return np.array([self.place / 10], np.float32)

    def step(self, action):
        self.place, self.steps = self.place + (1 if action else -1), self.steps + 1
        fell, arrived = self.place < 0, self.place >= 9
        return self.look(), 10.0 * arrived - fell - 1.0, fell or arrived, self.steps >= 6, {}


def test_plays_measure_rewards_ends_and_observations(tmp_path):
    algorithm = PPOConfig(fragment_length=8, epochs=1)
    with Trainer(Ledge, algorithm, num_envs=2, seed=0, run_dir=tmp_path / "run", console="quiet") as trainer:
        trainer.train(stop={"iterations": 1})
        plays = play_behaviours(trainer, None, time.monotonic() + 60.0)
    left, right = dict(plays.constants)["action 0"], dict(plays.constants)["action 1"]
    assert left.terminated == (True,) * 16 and right.terminated == (False,) * 16
    assert [one.tolist() for one in left.rewards] == [[-1.0, -2.0]] * 16
    assert [one.tolist() for one in right.rewards] == [[-1.0] * 6] * 16
    np.testing.assert_allclose(left.paths[0].obs, [[0.1], [0.0]])
    np.testing.assert_allclose(right.paths[0].obs, np.arange(1, 7)[:, None] / 10, rtol=1e-6)
    assert len(plays.chance.rewards) == 40 and 0 < sum(plays.chance.terminated) < 40


WAITS, DOCKS = [-0.2, 0.2, *[0.8] * 40], [-0.2, 0.3, 0.5, 1.8]


@pytest.mark.parametrize(
    ("own", "lasts", "chance", "severity"),
    [
        (WAITS, True, DOCKS, "warning"),  # to be near pays, a step far away costs a little
        (DOCKS, False, WAITS, "note"),  # the policy docks all the same
        (WAITS, True, WAITS, None),  # nothing has docked
        ([-0.2, 0.2, *[0.02] * 20], True, DOCKS, None),  # to wait earns less than to dock
        ([-0.2] * 40, True, DOCKS, None),
        (WAITS, True, [0.2, 0.3, 0.5, 0.8], None),  # the end has no bonus
    ],
)
def test_a_policy_that_avoids_the_end_because_waiting_pays_is_found(own, lasts, chance, severity):
    ends = chance[-1] != WAITS[-1] or len(chance) < len(WAITS)
    plays = Plays(episodes(own, terminated=not lasts), episodes(chance, terminated=ends))
    assert [one.severity for one in waiting_pays(plays)] == [severity] * (severity is not None)
