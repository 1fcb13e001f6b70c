"""The rule that chooses an algorithm where none is named."""

from __future__ import annotations

import gymnasium
import pytest
from gymnasium import spaces

from rookery import ConfigError, DQNConfig, PPOConfig, Trainer
from rookery.algorithms.names import ALGORITHMS
from rookery.core.settings.layers import Layer
from rookery.envs.vector.serial import SerialEnv
from rookery.run import choose_algorithm
from rookery.run.choose_algorithm import (
    MOST_STATES,
    PREFERRED,
    algorithm_of_spaces,
    algorithms_with_preset,
    choice_notes,
    with_algorithm,
)
from rookery.run.presets import ENV_PRESETS
from rookery.run.settings import algorithm_name


def chosen(*layers, preset="auto"):
    """Gives the algorithm that the rule chooses for layers of settings, and its note; None where it does not apply."""
    given = [Layer("test", values) for values in layers]
    found = with_algorithm(given, preset)
    assert found[len(found) - len(given) :] == given
    notes = choice_notes(found)
    return (found[0].values["algorithm.name"], notes[0]) if notes else None


class Rooms(gymnasium.Env):
    """A few rooms, counted from 0."""

    def __init__(self, rooms=5):
        self.observation_space, self.action_space = spaces.Discrete(rooms), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return int(action), 0.0, False, True, {}


class Broken(gymnasium.Env):
    """An environment that cannot be made."""

    def __init__(self):
        raise OSError("no device")


@pytest.mark.parametrize(
    ("env", "algorithm"),
    [
        ("CliffWalking-v1", "dqn"),
        ("FrozenLake-v1", "dqn"),
        ("MountainCarContinuous-v0", "sac"),
        ("LunarLanderContinuous-v3", "sac"),
        ("MinAtar/Breakout-v1", "pqn"),
        ("CartPole-v1", "ppo"),
        ("MountainCar-v0", "ppo"),
        ("mpe2.simple_spread_v3", "ppo"),
    ],
)
def test_an_environment_with_a_preset_gets_an_algorithm_of_it(env, algorithm):
    name, note = chosen({"env.name": env})
    assert name == algorithm
    assert note.startswith(f"algorithm {algorithm}: chosen for ") and "preset" in note
    assert note.endswith("; --algo overrides") and "\n" not in note


def test_every_preset_of_an_environment_has_a_preferred_algorithm():
    for name in {name for by_env in ENV_PRESETS.values() for name in by_env}:
        first, *others = algorithms_with_preset(name)
        assert first in PREFERRED
        assert all(PREFERRED.index(first) < PREFERRED.index(other) for other in others if other in PREFERRED)


@pytest.mark.parametrize(
    ("obs", "action", "algorithm"),
    [
        (spaces.Discrete(16), spaces.Discrete(4), "dqn"),
        (spaces.Discrete(MOST_STATES), spaces.Discrete(4), "dqn"),
        (spaces.Discrete(MOST_STATES + 1), spaces.Discrete(4), "ppo"),
        (spaces.Discrete(16), spaces.Box(-1, 1, (1,)), "ppo"),
        (spaces.MultiDiscrete([3, 3]), spaces.Discrete(4), "ppo"),
        (spaces.Box(-1, 1, (3,)), spaces.Discrete(4), "ppo"),
    ],
)
def test_without_a_preset_the_spaces_of_the_one_agent_decide(obs, action, algorithm):
    assert algorithm_of_spaces([(obs, action)])[0] == algorithm
    assert algorithm_of_spaces([(obs, action)] * 2)[0] == "ppo"


def test_an_environment_of_a_program_is_made_once_to_see_its_spaces(monkeypatch):
    made = []
    monkeypatch.setattr(choose_algorithm, "SerialEnv", lambda *args: made.append(SerialEnv(*args)) or made[-1])
    assert chosen({"env.name": Rooms})[0] == "dqn"
    assert len(made) == 1
    assert chosen({"env.name": "CliffWalking-v1"})[0] == "dqn"
    assert len(made) == 1  # its preset decides
    assert chosen({"env.name": Rooms, "env.config": {"rooms": 5000}})[0] == "ppo"
    assert chosen({"env.name": lambda: Rooms()})[0] == "ppo"
    assert chosen({"env.name": "MultiAgentArena"})[0] == "ppo"


@pytest.mark.parametrize(
    "given",
    [
        {"algorithm.name": "ppo"},
        {"algorithm": "a2c"},
        {"algorithm": {"name": "sac"}},
        {"algorithm": PPOConfig()},
        {"algorithm": {"name": DQNConfig}},
        {"policies.main.lr": 1e-3},
        {"policies": {"main": {}}},
        {"algorithm.model.memory.kind": "lstm"},
        {"algorithm": {"model": {"memory": {"kind": "gru"}}}},
    ],
)
def test_the_rule_does_not_apply_where_the_algorithm_a_policy_or_a_memory_is_named(given):
    assert chosen({"env.name": "CliffWalking-v1"}, given) is None
    assert chosen({"env.name": "CliffWalking-v1", **given}) is None


def test_the_rule_does_not_apply_without_presets_or_without_an_environment_that_can_be_made():
    assert chosen({"env.name": "CliffWalking-v1"}, preset="none") is None
    assert chosen({"env.name": "CliffWalking-v1"}, preset="CliffWalking-v1") is None
    assert chosen({"seed": 3}) is None
    assert chosen({"env.name": Broken}) is None
    assert chosen({"env.name": "NoSuchWalking-v1"}) is None
    assert chosen({"env.name": "CliffWalking-v1", "env.implementation": "odd"}) is None


def test_settings_of_the_algorithm_leave_the_choice_open():
    for given in ({"algorithm.lr": 1e-3}, {"algorithm": {"lr": 1e-3}}, {"algorithm.model.memory.kind": "none"}):
        assert chosen({"env.name": "CliffWalking-v1"}, given)[0] == "dqn"


def test_a_trainer_with_presets_uses_the_rule_and_says_so_and_one_without_uses_ppo():
    with Trainer("CliffWalking-v1", preset="auto") as trainer:
        assert algorithm_name(trainer.config.algorithm) == "dqn"
        assert trainer._notes[:2] == [
            "algorithm dqn: chosen for CliffWalking-v1, whose preset is of dqn; --algo overrides",
            "preset CliffWalking-v1",
        ]
        (default, usual), (source, name) = trainer.resolved.history["algorithm.name"]
        assert (default, usual, name) == ("default", "ppo", "dqn") and source.startswith("chosen for CliffWalking-v1")
    with Trainer("CliffWalking-v1") as trainer:
        assert algorithm_name(trainer.config.algorithm) == "ppo" and trainer._notes == []
    with Trainer("CliffWalking-v1", "ppo", preset="auto") as trainer:
        assert algorithm_name(trainer.config.algorithm) == "ppo" and trainer._notes == []


def test_a_setting_that_only_another_algorithm_has_is_refused_with_the_rule_and_the_remedy():
    with pytest.raises(ConfigError) as refused:
        Trainer("CliffWalking-v1", preset="auto", config={"algorithm.clip": 0.1, "algorithm.gamma": 2})
    clip, gamma = sorted(refused.value.problems)
    assert "algorithm.clip = 0.1: there is no such setting" in clip
    assert clip.endswith(
        "; algorithm dqn was chosen for CliffWalking-v1, whose preset is of dqn: --algo ppo for the settings of ppo"
    )
    assert "chosen" not in gamma  # the value is wrong, not the algorithm


def test_a_run_of_a_chosen_algorithm_learns_as_if_it_had_been_named():
    def weights(*algorithm):
        with Trainer(
            "CliffWalking-v1", *algorithm, preset="auto", seed=1, config={"algorithm.learning_starts": 100}
        ) as trainer:
            trainer.train({"env_steps": 400})
            return [parameter.tolist() for parameter in trainer.policies["main"].parameters()]

    assert set(PREFERRED) <= set(ALGORITHMS)
    assert weights() == weights("dqn")
