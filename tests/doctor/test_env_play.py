"""Short plays of an environment: faults of a stranger's environments are shown, and none without the fault."""

from functools import partial
from importlib import import_module
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rookery.doctor import repeats
from rookery.doctor.env_play import play_env
from rookery.doctor.play_rules import OBS_RULES, Seen, equal_blocks
from rookery.envs.make import make_env

STRANGERS = Path(__file__).parent / "stranger"
LONG = 60.0
"""Longest time in seconds; plays end earlier by their steps."""


@pytest.fixture(autouse=True)
def fewer_steps(monkeypatch):
    monkeypatch.setattr(repeats, "EARLIER_STEPS", 300)
    monkeypatch.syspath_prepend(str(STRANGERS))


def found(maker, steps=150, seconds=LONG):
    played = play_env(lambda copies: make_env(maker, None, (), copies, "serial"), seconds, steps)
    seen = [one for rule in OBS_RULES if (one := rule(Seen(played.random, 0))) is not None]
    return {one.rule: one for one in (*played.findings(), *seen)}


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("a_counter", "state-survives-reset"),
        ("b_frames", "obs-duplicated"),
        ("c_late", "state-survives-reset"),
        ("d_degrees", "actions-weak"),
        ("e_clip", "obs-clipped"),
        ("f_moves", "actions-alike"),
        ("h_goal", "state-survives-reset"),
    ],
)
def test_a_fault_of_a_stranger_is_shown_and_nothing_without_it(name, rule):
    module = import_module(name)
    assert found(module.broken)[rule].severity == "warning"
    assert [one.rule for one in found(module.healthy).values() if one.counts] == []


def test_findings_name_pairs_blocks_and_likely_causes():
    pair = found(import_module("f_moves").broken)["actions-alike"]
    assert pair.message.startswith("actions 0 and 2 of agent have the same effect")
    block = found(import_module("b_frames").broken)["obs-duplicated"]
    assert "elements 0 to 1 and 2 to 3" in block.evidence[0] and "frame stack" in block.causes[0]
    late = found(import_module("c_late").broken)["state-survives-reset"]
    assert late.evidence == ("rewards differ first",) and "paid late" in late.causes[0]


class Chance(gymnasium.Env):
    """Rewards come from a generator that no seed sets."""

    observation_space, action_space = Box(-9, 9, (2,), np.float32), Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.sum = 0, 0
        return self.shown(), {}

    def step(self, action):
        self.steps += 1
        self.sum += 2 * action - 1
        return self.shown(), float(np.random.default_rng().normal()), False, self.steps == 12, {}

    def shown(self):
        return np.array([self.steps / 12, self.sum / 12], np.float32)


def test_a_global_generator_is_named_with_what_it_changes_and_no_other_finding():
    (one,) = found(Chance).values()
    assert (one.rule, one.severity) == ("not-deterministic", "note")
    assert "rewards differ first" in one.evidence[0]


def test_a_simulation_that_is_rounded_otherwise_after_other_episodes_is_no_finding():
    class Rounded(Chance):
        last = 0.0

        def step(self, action):
            obs, _, _, ended, _ = super().step(action)
            self.last += 1e-6
            return obs, float(obs[1] + self.last), False, ended, {}

    assert found(Rounded) == {}


@pytest.mark.parametrize(
    ("shape", "copies", "what"),
    [((6,), {4: 0, 5: 1}, "blocks of 2 elements"), ((4, 5, 5), {3: 1}, "frames or channels"), ((6,), {5: 0}, None),
     ((3, 5, 5), {1: 0, 2: 0}, None)],
)  # fmt: skip
def test_blocks_are_frames_and_parts_of_vectors_but_no_grey_picture(shape, copies, what):
    values = np.random.default_rng(0).random((300, *shape)).astype(np.float32)
    for place, other in copies.items():
        values[:, place] = values[:, other]
    blocks = equal_blocks(values)
    assert (blocks and blocks[1]) == what


class Pole(gymnasium.Env):
    """Two numbers that move at random, in a space with some limits, perhaps written into an array of integers."""

    action_space = Discrete(2)

    def __init__(self, limit, is_rounded=True, action=None):
        self.observation_space = Box(-limit, limit, (2,), np.float32)
        self.is_rounded = is_rounded
        self.action_space = action or self.action_space

    def look(self):
        values = self.np_random.normal(size=2).clip(-1.2, 1.2)
        return values.astype(int).astype(np.float32) if self.is_rounded else values.astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.look(), {}

    def step(self, action):
        self.steps += 1
        return self.look(), 0.0, False, self.steps >= 20, {}


@pytest.mark.parametrize(
    ("limit", "is_rounded", "action", "severity"),
    [
        (4.8, True, None, "warning"),
        (4.8, False, None, None),
        (2.0, True, None, None),  # places of a grid
        (1.5, True, None, None),  # half way between integers
        (np.inf, True, None, None),  # counts
        (np.inf, True, Box(-1.0, 1.0, (1,), np.float32), "note"),
    ],
)
def test_integers_in_a_space_of_fractions_are_found(limit, is_rounded, action, severity):
    one = found(partial(Pole, limit, is_rounded, action)).get("obs-rounded")
    assert (one and one.severity) == severity


class Buoys:
    """Two boats are paid for being near their own buoy, perhaps with the rewards of each other, or with both."""

    possible_agents = ("tug", "barge")

    def __init__(self, paid="own"):
        self.paid = paid
        self.observation_spaces = dict.fromkeys(self.possible_agents, Box(-2.0, 2.0, (1,), np.float32))
        self.action_spaces = dict.fromkeys(self.possible_agents, Discrete(3))

    def look(self):
        return {name: np.array([place], np.float32) for name, place in self.place.items()}

    def reset(self, seed=None, options=None):
        self.place, self.time = dict.fromkeys(self.possible_agents, 0.0), 0
        return self.look(), {}

    def step(self, actions):
        self.time += 1
        for name, action in actions.items():
            self.place[name] = min(max(self.place[name] + 0.1 * (int(action) - 1), -1.0), 1.0)
        own = [-abs(place - 0.5) for place in self.place.values()]
        paid = {"own": own, "other": own[::-1], "both": [sum(own)] * 2}[self.paid]
        over = {"__all__": self.time >= 30}
        return self.look(), dict(zip(self.possible_agents, paid, strict=True)), {"__all__": False}, over, {}


@pytest.mark.parametrize("paid", ["own", "other", "both"])
def test_rewards_of_other_agents_are_found(paid):
    make = partial(Buoys, paid)
    names = found(make)
    assert ("rewards-swapped" in names) == (paid == "other")
    if paid == "other":
        assert "actions of tug change the reward of barge" in names["rewards-swapped"].evidence[0]
