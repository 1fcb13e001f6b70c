"""Rules about random play, decision by decision: each finds its fault, and is silent without it."""

from __future__ import annotations

import time
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rookery.core.seeding import Streams
from rookery.doctor.decision_rules import (
    actions_wide,
    decision_findings,
    obs_reordered,
    policy_shared,
    shared_columns,
    with_shared,
)
from rookery.doctor.decisions import watch_decisions
from rookery.doctor.env_play import play_env
from rookery.doctor.reward_fit import reward_unexplained
from rookery.envs.make import make_env
from rookery.run.findings.catalog import finding

AGENTS = ("opener", "closer")


class Lamp:
    """One agent has to press while a lamp is on; the other one, too, or while it is off; each may see its role."""

    possible_agents = AGENTS

    def __init__(self, opposed=True, roles=False, noise=0.0):
        self.opposed, self.roles, self.noise = opposed, roles, noise
        self.observation_spaces = {agent: spaces.Box(0.0, 1.0, (2,), np.float32) for agent in AGENTS}
        self.action_spaces = {agent: spaces.Discrete(2) for agent in AGENTS}
        self.rng = np.random.default_rng()

    def look(self):
        self.lamp = int(self.rng.integers(2))
        return {agent: np.array([self.lamp, self.roles * n], np.float32) for n, agent in enumerate(AGENTS)}

    def reset(self, seed=None, options=None):
        self.rng, self.time = np.random.default_rng(seed), 0
        return self.look(), {}

    def step(self, actions):
        right = {"opener": self.lamp, "closer": 1 - self.lamp if self.opposed else self.lamp}
        rewards = {agent: 1.0 if actions[agent] == right[agent] else -1.0 for agent in AGENTS}
        if self.noise:
            rewards = {agent: self.noise * float(self.rng.normal()) for agent in AGENTS}
        self.time += 1
        return self.look(), rewards, {"__all__": False}, {"__all__": self.time >= 20}, {}


class Line(gymnasium.Env):
    """A point that is pushed along a line, whose four features have different scales."""

    observation_space = spaces.Box(-1e3, 1e3, (4,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, reorders=False, used=1.0):
        self.reorders, self.used = reorders, used

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.speed, self.steps = float(self.np_random.normal()), 0.0, 0
        self.order = self.np_random.permutation(4) if self.reorders else np.arange(4)
        return self.look(), {}

    def look(self):
        noise = self.np_random.normal()
        return np.array([self.place, 10.0 * self.speed, 0.01 * noise, self.steps], np.float32)[self.order]

    def step(self, action):
        self.speed += 0.1 * float(np.clip(action[0], -self.used, self.used))
        self.place += self.speed
        self.steps += 1
        return self.look(), -abs(self.place), False, self.steps >= 30, {}


def maker(env, **config):
    return lambda lanes: make_env(env, config, (), lanes, "serial")


def watched(env, **config):
    (seen,) = watch_decisions(maker(env, **config), time.monotonic() + 20, Streams(0))
    return seen


def test_decisions_are_the_observations_actions_and_rewards_of_an_agent_side_by_side():
    seen = watched(Lamp)
    (lamp,) = (leaf[:, 0] for leaf in seen.obs.values())
    right = np.where(seen.agent == 0, lamp, 1 - lamp)
    assert len(seen) > 1_000 and set(seen.agent) == {0, 1}
    assert np.array_equal(seen.reward, np.where(seen.action.ravel() == right, 1.0, -1.0))
    assert np.bincount(seen.episode).max() == 40  # 20 decisions of each agent


@pytest.mark.parametrize(
    ("config", "is_found"),
    [({}, True), ({"opposed": False}, False), ({"roles": True}, False), ({"noise": 1.0}, False)],
    ids=["opposed", "same task", "the role is observed", "chance"],
)
def test_agents_of_one_policy_with_opposite_rewards_are_found(config, is_found):
    seen = watched(Lamp, **config)
    columns = shared_columns(seen, dict.fromkeys(AGENTS, "main"))
    assert columns == {"main": [0, 1]}
    found = policy_shared(seen, "main", columns["main"])
    assert [one.rule for one in found] == ["policy-shared"] * is_found
    assert shared_columns(seen, {agent: agent for agent in AGENTS}) == {}


def test_a_shared_policy_is_a_cause_of_returns_like_those_of_random_play():
    plain, both = finding("no-better-than-random", "no better"), dict.fromkeys(AGENTS, "main")
    make = maker(Lamp, opposed=False)
    _, alike = decision_findings(make, play_env(make, 5.0, 100), both, time.monotonic() + 10)
    assert alike == ["policy main plays opener and closer, which observe the same: it cannot tell them apart"]
    (first,) = with_shared([plain], both, alike)
    assert first.causes == (*alike, *plain.causes)
    (last,) = with_shared([plain], both, [])
    assert last.causes == (*plain.causes, "policy main plays 2 agents: their tasks may differ")
    assert with_shared([plain], {agent: agent for agent in AGENTS}, []) == [plain]
    other = replace(plain, rule="obs-late")
    assert with_shared([other], both, alike) == [other]


@pytest.mark.parametrize(("reorders", "is_found"), [(True, True), (False, False)])
def test_features_in_another_order_in_each_episode_are_found(reorders, is_found):
    assert [one.rule for one in obs_reordered(watched(Line, reorders=reorders), "")] == ["obs-reordered"] * is_found


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1", "MultiAgentArena", "StatelessCartPole"])
def test_environments_that_are_in_order_have_no_finding(env):
    make = maker(env)
    found, _ = decision_findings(make, play_env(make, 5.0, 300), {}, time.monotonic() + 10)
    assert found == []


@pytest.mark.parametrize(("used", "is_found"), [(0.05, True), (0.5, False), (1.0, False)])
def test_a_range_of_actions_that_is_clipped_to_a_tenth_is_found(used, is_found):
    make = maker(Line, used=used)
    played = play_env(make, 10.0, 300)
    found = actions_wide(make, played.effects, played.random.kinds, time.monotonic() + 10)
    assert [one.rule for one in found] == ["actions-wide"] * is_found
    assert actions_wide(make, played.effects, played.random.kinds, time.monotonic()) == []


class Hook(gymnasium.Env):
    """A hook that moves to a target, drawn for each episode, and that may be shown; or the reward is noise."""

    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    observation_space = spaces.Box(-9.0, 9.0, (2,), np.float32)

    def __init__(self, shown=True, noise=0.0, sparse=False):
        self.shown, self.noise, self.sparse = shown, noise, sparse

    def look(self):
        return np.array([self.place, self.target - self.place if self.shown else 0.0], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        (self.place, self.target), self.time = self.np_random.uniform(-1.0, 1.0, 2), 0
        return self.look(), {}

    def step(self, action):
        self.time += 1
        self.place = float(np.clip(self.place + 0.2 * action[0], -1.0, 1.0))
        distance = abs(self.target - self.place)
        reward = float(distance < 0.1) if self.sparse else -distance + self.noise * float(self.np_random.normal())
        return self.look(), reward, False, self.time >= 20, {}


@pytest.mark.parametrize(
    ("config", "is_found"),
    [
        ({"shown": False}, True),
        ({"shown": False, "noise": 0.2}, True),
        ({}, False),
        ({"noise": 1.0}, False),  # differs from step to step
        ({"shown": False, "sparse": True}, False),
    ],
)
def test_a_reward_that_depends_on_what_is_not_shown_is_found(config, is_found):
    seen = watched(Hook, **config)
    found = reward_unexplained(seen, "main")
    assert [one.rule for one in found] == ["reward-unexplained-by-obs"] * is_found
    assert all(one.counts for one in found)
