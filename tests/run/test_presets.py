"""Presets: layers below the user's settings, one for a kind of space and one for a known environment."""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rookery import A2CConfig, ConfigError, MultiAgentArena, PPOConfig, Trainer
from rookery.algorithms.names import ALGORITHMS
from rookery.core.config import resolve
from rookery.core.settings.layers import Layer
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.envs.make import env_name
from rookery.run.presets import (
    ENV_PRESETS,
    MEMORY_PRESETS,
    NAMED_PRESETS,
    SPACE_PRESETS,
    find_preset,
    space_kind,
    space_layer,
)
from rookery.run.settings import RunConfig, algorithm_family, algorithm_name
from rookery.tasks.memory_tasks import CueCorridor

NUMBERS = spaces.Box(-1, 1, (3,), np.float32)
PICTURE = spaces.Box(0, 255, (84, 84, 3), np.uint8)
CHOICE = spaces.Discrete(2)
FORCE = spaces.Box(-2, 2, (1,), np.float32)


class Toy(gymnasium.Env):
    """An environment of any spaces in which nothing happens."""

    def __init__(self, obs=NUMBERS, action=FORCE):
        self.observation_space, self.action_space = obs, action

    def reset(self, *, seed=None, options=None):
        return np.zeros(self.observation_space.shape, self.observation_space.dtype), {}

    def step(self, action):
        return self.reset()[0], 0.0, False, False, {}


@pytest.mark.parametrize(
    ("obs", "action", "kind"),
    [
        (NUMBERS, CHOICE, "discrete"),
        (spaces.Discrete(5), spaces.MultiDiscrete([2, 3]), "discrete"),
        (NUMBERS, FORCE, "continuous"),
        (PICTURE, CHOICE, "image"),
        (PICTURE, FORCE, "image"),
        (spaces.Dict({"camera": PICTURE, "speed": NUMBERS}), CHOICE, "image"),
        (NUMBERS, spaces.MultiBinary(2), "discrete"),
        (NUMBERS, spaces.Tuple((CHOICE, spaces.MultiBinary(2))), "discrete"),
        (NUMBERS, spaces.Dict({"which": CHOICE, "how": FORCE}), "continuous"),
    ],
)
def test_the_space_decides_which_preset_fits(obs, action, kind):
    specs = obs_spec(obs, action), action_spec(action)
    assert space_kind(*specs, codes=()) == kind
    layer = space_layer("ppo", *specs, "policies.a", remembers=False, codes=())
    assert layer.source == f"space preset {kind}"
    assert layer.values == {f"policies.a.{path}": value for path, value in SPACE_PRESETS["ppo"].get(kind, {}).items()}


def test_a_picture_of_codes_is_no_image():
    specs = obs_spec(PICTURE, CHOICE), action_spec(CHOICE)
    assert space_kind(*specs, codes=("obs",)) == "discrete"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("kind", ["discrete", "continuous", "image"])
def test_every_space_preset_is_made_of_settings_that_exist(algorithm, kind):
    values = {f"algorithm.{path}": value for path, value in SPACE_PRESETS.get(algorithm, {}).get(kind, {}).items()}
    resolve(RunConfig, [Layer("preset", {"algorithm.name": algorithm}), Layer("preset", values)], ALGORITHMS)


@pytest.mark.parametrize("algorithm", MEMORY_PRESETS)
def test_every_memory_preset_is_made_of_settings_that_exist(algorithm):
    values = {f"algorithm.{path}": value for path, value in MEMORY_PRESETS[algorithm].items()}
    resolve(RunConfig, [Layer("preset", {"algorithm.name": algorithm}), Layer("preset", values)], ALGORITHMS)


@pytest.mark.parametrize(
    ("algorithm", "name"),
    [(algorithm, name) for known in (ENV_PRESETS, NAMED_PRESETS) for algorithm in known for name in known[algorithm]],
)
def test_every_environment_or_named_preset_is_made_of_settings_that_exist_and_ends(algorithm, name):
    _, values = find_preset(name, "whatever", algorithm)
    chosen, preset = Layer("code", {"algorithm.name": algorithm}), Layer("preset", values)
    resolved = resolve(RunConfig, [preset, chosen], ALGORITHMS)
    learns_single_decisions = resolved.config.algorithm.capabilities.learns_single_decisions
    assert resolved.config.stop["env_steps"] >= (1_000 if learns_single_decisions else 20_000)
    assert resolved.given("sampling.num_envs")


def test_an_environment_preset_is_found_by_id_or_pattern_and_only_if_asked():
    presets = ENV_PRESETS["ppo"]
    assert find_preset("auto", "CartPole-v1", "ppo") == ("CartPole-v1", presets["CartPole-v1"])
    assert find_preset("auto", "MiniGrid-Empty-5x5-v0", "ppo")[0] == "MiniGrid-*"
    assert find_preset("auto", "CartPole-v0", "ppo") is None
    assert find_preset("none", "CartPole-v1", "ppo") is None
    assert find_preset("Pendulum-v1", "MyPendulum", "ppo") == ("Pendulum-v1", presets["Pendulum-v1"])
    assert find_preset("auto", "rainbow", "dqn") is None  # a preset by name belongs to no environment
    with pytest.raises(ConfigError, match="did you mean 'Pendulum-v1'"):
        find_preset("pendulum-v1", "MyPendulum", "ppo")


@pytest.mark.parametrize(
    ("env", "pattern"),
    [
        ("ALE/Pong-v5", "ALE/*"),
        ("HalfCheetah-v5", "HalfCheetah-v5"),
        ("StatelessCartPole", "StatelessCartPole"),
        (CueCorridor, "CueCorridor"),
        ("MiniGrid-MemoryS7-v0", "MiniGrid-Memory*"),
        ("MiniGrid-Empty-5x5-v0", "MiniGrid-*"),
        ("mpe2.simple_spread_v3", "simple_spread_*"),
        ("mpe2.simple_spread_v3:parallel_env", "simple_spread_*"),
        ("pettingzoo.butterfly.knights_archers_zombies_v11", "knights_archers_zombies_*"),
    ],
)
def test_an_environment_preset_is_found_by_what_the_environment_is_called(env, pattern):
    assert find_preset("auto", env_name(env), "ppo") == (pattern, ENV_PRESETS["ppo"][pattern])


def test_a_preset_may_say_how_the_environment_is_built_and_a_user_beats_it(monkeypatch):
    monkeypatch.setitem(ENV_PRESETS["ppo"], "Toy", {"env.config": {"action": CHOICE}})
    assert Trainer(Toy, num_envs=1, preset="auto").env.kinds[0].action.kind == "discrete"
    assert Trainer(Toy, num_envs=1).env.kinds[0].action.kind == "box"
    mine = Trainer(Toy, num_envs=1, preset="auto", env_config={"action": FORCE})
    assert mine.env.kinds[0].action.kind == "box"


def test_an_environment_preset_belongs_to_one_algorithm():
    assert find_preset("auto", "CartPole-v1", "a2c") == ("CartPole-v1", ENV_PRESETS["a2c"]["CartPole-v1"])
    assert find_preset("auto", "Pendulum-v1", "a2c") is None
    assert find_preset("auto", "CartPole-v1", "") is None
    with pytest.raises(ConfigError, match=r"use auto, none or one of CartPole-v1 \(for a2c\)"):
        find_preset("Pendulum-v1", "Pendulum-v1", "a2c")
    with pytest.raises(ConfigError, match="use auto or none$"):
        find_preset("Pendulum-v1", "Pendulum-v1", "")


@pytest.mark.parametrize("name", ["a2c", "reinforce"])
def test_another_algorithm_gets_its_own_preset_and_none_of_ppos_settings(name):
    with Trainer("CartPole-v1", config={"algorithm.name": name}, preset="auto") as trainer:
        assert trainer._notes == ["preset CartPole-v1"]
        assert algorithm_name(trainer.config.algorithm) == name
        assert trainer.config.stop == {"env_steps": 200_000}
        assert trainer.config.algorithm.given == frozenset()


@dataclass(frozen=True)
class Mine(PPOConfig):
    """PPO with a habit of its own."""

    gamma: float = 0.9


def test_settings_that_extend_an_algorithms_get_its_environment_presets():
    assert [algorithm_family(cfg) for cfg in (Mine(), PPOConfig(), A2CConfig())] == ["ppo", "ppo", "a2c"]
    assert algorithm_family(RunConfig()) == ""
    with Trainer("CartPole-v1", Mine(), preset="auto") as trainer:
        assert (trainer.config.algorithm.gae_lambda, trainer.config.algorithm.gamma) == (0.8, 0.98)


def test_a_space_preset_always_applies_and_stands_below_what_a_user_says():
    trainer = Trainer(Toy, num_envs=1)
    assert trainer.config.algorithm.fragment_length == SPACE_PRESETS["ppo"]["continuous"]["fragment_length"] == 256
    assert trainer.policies["main"].normalizer is not None
    assert "(space preset continuous)" in trainer.resolved.explain("algorithm.fragment_length")
    mine = Trainer(Toy, PPOConfig(fragment_length=64), num_envs=1)
    assert mine.config.algorithm.fragment_length == 64
    assert mine.config.algorithm.scale_rewards is True  # what was not said stays the preset's


@pytest.mark.parametrize("algorithm", [PPOConfig, A2CConfig])
@pytest.mark.parametrize(("memory", "scaled"), [({"kind": "gru"}, True), ({"frame_stack": 3}, False), ({}, False)])
def test_a_policy_that_learns_what_to_remember_has_its_rewards_scaled(algorithm, memory, scaled):
    with Trainer("CueCorridor", algorithm(model={"memory": memory}), num_envs=1) as trainer:
        assert trainer.config.algorithm.scale_rewards is scaled
        told = trainer.resolved.explain("algorithm.scale_rewards")
        assert ("space preset discrete with memory" in told) == scaled


def test_the_memory_preset_stands_on_that_of_the_space_and_below_what_a_user_says():
    trainer = Trainer(Toy, A2CConfig(model={"memory": {"kind": "scan"}}), num_envs=1)
    assert (trainer.config.algorithm.scale_rewards, trainer.config.algorithm.model.normalize_obs) == (True, True)
    mine = PPOConfig(scale_rewards=False, model={"memory": {"kind": "scan"}})
    assert Trainer("CueCorridor", mine, num_envs=1).config.algorithm.scale_rewards is False


def test_the_memory_preset_sees_the_memory_that_an_environment_preset_chooses_and_a_user_can_take_away():
    with Trainer("CueCorridor", num_envs=1, preset="auto") as trainer:
        assert trainer.resolved.history["algorithm.scale_rewards"][1] == ("space preset discrete with memory", True)
    forgetful = {"algorithm.model.memory.kind": "none"}
    with Trainer("CueCorridor", num_envs=1, preset="auto", config=forgetful) as trainer:
        history = [source for source, _ in trainer.resolved.history["algorithm.scale_rewards"]]
        assert history == ["default", "preset CueCorridor"]


def test_of_two_policies_the_one_that_remembers_gets_the_memory_preset():
    policies = {"agent1": {"model": {"memory": {"kind": "lstm"}}}, "agent2": {}}
    with Trainer("TwoCues", policies=policies, num_envs=1) as trainer:
        assert [learner.cfg.scale_rewards for learner in trainer.learners.values()] == [True, False]


def test_in_code_no_environment_preset_is_used_unless_asked_for():
    assert Trainer("CartPole-v1").config.sampling.num_envs == 8
    assert Trainer("CartPole-v1")._notes == []
    trainer = Trainer("CartPole-v1", "ppo", preset="auto")
    assert trainer._notes == ["preset CartPole-v1"]
    assert trainer.config.algorithm.gae_lambda == 0.8
    assert trainer.config.stop == {"env_steps": 100_000}


def test_a_user_beats_the_environment_preset_which_beats_the_space_preset():
    trainer = Trainer("Pendulum-v1", PPOConfig(gamma=0.5), preset="auto", num_envs=2)
    cfg = trainer.config.algorithm
    assert (cfg.gamma, cfg.fragment_length, cfg.lr) == (0.5, 1024, 1e-3)
    history = [source for source, _ in trainer.resolved.history["algorithm.fragment_length"]]
    assert history == ["default", "space preset continuous", "preset Pendulum-v1"]
    assert trainer.config.sampling.num_envs == 2


class BirdAndFish:
    """A dict-style environment of a bird that steers by numbers and a fish that chooses."""

    possible_agents = agents = ["bird", "fish"]
    observation_spaces = {"bird": NUMBERS, "fish": NUMBERS}
    action_spaces = {"bird": FORCE, "fish": CHOICE}

    def reset(self, *, seed=None, options=None):
        return dict.fromkeys(self.agents, np.zeros(3, np.float32)), {}

    def step(self, actions):
        no = {"bird": False, "fish": False, "__all__": False}
        return self.reset()[0], {"bird": 0.0, "fish": 0.0}, no, no, {}


def test_policies_of_different_spaces_get_a_space_preset_each():
    trainer = Trainer(BirdAndFish, policies=["bird", "fish"], num_envs=1)
    bird, fish = trainer.learners["bird"].cfg, trainer.learners["fish"].cfg
    assert (bird.fragment_length, fish.fragment_length) == (256, 128)
    assert (bird.scale_rewards, fish.scale_rewards) == (True, False)


def test_a_setting_for_all_policies_beats_the_space_presets_of_each():
    trainer = Trainer(BirdAndFish, PPOConfig(fragment_length=32), policies=["bird", "fish"], num_envs=1)
    assert [learner.cfg.fragment_length for learner in trainer.learners.values()] == [32, 32]
    assert trainer.learners["bird"].cfg.scale_rewards is True


def test_policies_of_equal_spaces_share_one_space_preset():
    trainer = Trainer(MultiAgentArena, policies=["agent1", "agent2"], num_envs=1)
    assert not trainer.resolved.given("policies.agent1.lr")


def test_a_memory_that_learns_through_less_time_than_it_was_told_is_noted():
    memory = {"kind": "gru", "sequence_length": 64}
    short = Trainer("CartPole-v1", A2CConfig(model={"memory": memory}), seed=0)
    told = "policy main learns through 5 consecutive decisions, its fragment_length, and not through 64"
    assert any(told in note for note in short._notes)
    long = Trainer("CartPole-v1", PPOConfig(fragment_length=64, model={"memory": memory}), seed=0)
    assert not any("decisions in a row" in note for note in long._notes)
