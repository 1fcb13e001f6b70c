"""`examine_env`: faults of environments are found by playing them for a moment, and healthy ones have none."""

import gymnasium
import numpy as np
import pytest
from broken_runs import broken_run
from gymnasium.spaces import Box, Dict, Discrete

from rookery.doctor import examine_env as examine_module
from rookery.doctor import repeats
from rookery.doctor.examine_env import NOT_PLAYED, examine_env
from rookery.doctor.text import examination_lines

LIMIT = 20.0
"""Longest time of the plays in seconds, which end earlier by their number of steps."""


@pytest.fixture(autouse=True)
def few_checks(monkeypatch):
    monkeypatch.setattr(examine_module, "CHECKED_EPISODES", 3)
    monkeypatch.setattr(examine_module, "MOST_CHECKED_STEPS", 500)
    monkeypatch.setattr(examine_module, "ENOUGH", 50)
    monkeypatch.setattr(examine_module, "MOST_PLAYED", 400)
    monkeypatch.setattr(repeats, "EARLIER_STEPS", 100)


def rules(env, severities=("error", "warning"), seconds=LIMIT, **settings):
    found = examine_env(env, settings or None, (), seconds=seconds)
    return [one.rule for one in found.findings if one.severity in severities]


@pytest.mark.parametrize("env", ["CartPole-v1", "MultiAgentArena"])
def test_a_healthy_environment_has_no_finding_that_counts(env):
    assert rules(env) == []


FAULTS = ["action_ignored", "end_as_truncation", "limit_as_termination", "nan_at_step_900", "obs_constant",
          "obs_shared", "reward_constant", "reward_never"]  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name, monkeypatch):
    run = broken_run(name)
    if run.raises:
        monkeypatch.setattr(examine_module, "MOST_PLAYED", 1_000)
    found = rules(run.broken["env"], **run.broken.get("env_config", {}))
    assert set(found[:2]) & set(run.counted)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_the_twin_of_a_fault_has_no_finding_that_counts(name):
    run = broken_run(name)
    assert rules(run.twin["env"], **run.twin.get("env_config", {})) == []


@pytest.mark.slow
@pytest.mark.parametrize("env", ["FrozenLake-v1", "GoalGrid", "Acrobot-v1", "LunarLander-v3"])
def test_more_healthy_environments_have_no_finding_that_counts(env):
    assert rules(env, seconds=4.0) == []


class Endless(gymnasium.Env):
    """Adds the action to a number, and never ends. A second element of the action does nothing."""

    observation_space, action_space = Box(-np.inf, np.inf, (3,), np.float32), Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.sum = 0.0
        return self.shown(), {}

    def step(self, action):
        self.sum = 0.9 * self.sum + float(action[0])
        return self.shown(), -abs(self.sum), False, False, {}

    def shown(self):
        return np.array([1000 * self.sum, 1000 * self.sum, 0.5], np.float32)


def test_what_is_unusual_and_no_fault_is_a_note():
    found = examine_env(Endless, None, (), seconds=LIMIT)
    notes = {one.rule: one for one in found.findings if one.severity == "note"}
    assert {"obs-unnormalized", "obs-duplicated", "obs-constant", "actions-without-effect"} <= notes.keys()
    assert "1 of 3 elements" in notes["obs-constant"].message
    assert "elements 1 of the action" in notes["actions-without-effect"].message
    assert [one.rule for one in found.findings if one.counts] == ["episodes-endless"]


class Masked(gymnasium.Env):
    """Allows one of three actions in each step, and raises for the others."""

    observation_space = Dict(action_mask=Box(0, 1, (3,), np.int8), cue=Discrete(3))
    action_space = Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.shown(), {}

    def step(self, action):
        assert action == self.cue
        self.steps += 1
        return self.shown(), float(action), self.steps == 12 + self.cue, False, {}

    def shown(self):
        self.cue = int(self.np_random.integers(3))
        return {"action_mask": np.eye(3, dtype=np.int8)[self.cue], "cue": self.cue}


def test_an_environment_may_refuse_actions_that_its_mask_forbids():
    found = examine_env(Masked, None, (), seconds=LIMIT)
    assert [one.rule for one in found.findings if one.rule == "actions-without-effect"] == ["actions-without-effect"]
    assert all("AssertionError" not in one.message for one in found.findings)


def test_an_environment_that_raises_is_a_finding():
    class Raising(Endless):
        def step(self, action):
            raise ZeroDivisionError

    assert "env-fails" in rules(Raising)


def test_programs_outside_are_not_started():
    found = examine_env("external:9900", None, (), seconds=LIMIT)
    assert found.findings == () and found.facts == (NOT_PLAYED,)

    class Robot(Endless):
        throwaway = False

        def __init__(self):
            raise AssertionError("it is not made")

    assert examine_env(Robot, None, (), seconds=LIMIT).facts == (NOT_PLAYED,)


def test_the_report_names_returns_and_effects():
    lines = examination_lines(examine_env("CartPole-v1", None, (), seconds=LIMIT))
    assert lines[0].startswith("CartPole-v1: ")
    text = "\n".join(lines)
    assert "always action 1: return 9." in text
    assert "actions change 4 of 4 elements of obs" in text


class Brief(Endless):
    """An environment whose episodes are over at once."""

    def step(self, action):
        obs, reward, _, _, info = super().step(action)
        return obs, reward, True, False, info


def test_episodes_of_a_single_step_are_a_note():
    found = {one.rule: one.severity for one in examine_env(Brief, None, (), seconds=3.0).findings}
    assert found["episodes-short"] == "note"
    pole = examine_env("CartPole-v1", None, (), seconds=3.0).findings
    assert "episodes-short" not in [one.rule for one in pole]
