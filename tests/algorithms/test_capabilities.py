"""Declared capabilities are those that messages name, runs allow, and flags of version 0.1 still return."""

import warnings
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from rookery import APPOConfig, BCConfig, MAPPOConfig, PPOConfig, ReinforceConfig, Trainer
from rookery.algorithms.algorithm import AlgorithmConfig
from rookery.algorithms.capabilities import Capabilities, algorithms_with, known_capabilities, one_of
from rookery.algorithms.names import ALGORITHMS
from rookery.algorithms.on_policy.ppo import PPO
from rookery.algorithms.on_policy.reinforce import Reinforce
from rookery.cluster.ranks import Ranks
from rookery.core.config import resolve
from rookery.core.errors import ConfigError
from rookery.core.settings.layers import Layer, import_object
from rookery.run.ranks.learners import check_learners
from rookery.run.settings import RunConfig

MEMORY = {"hidden": (4,), "memory": {"kind": "gru", "size": 4}}

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)

    @dataclass(frozen=True)
    class OldConfig(PPOConfig):
        """Settings with flags of version 0.1."""

        algorithm: ClassVar[str] = f"{__name__}:Old"
        sees_central: ClassVar[bool] = False
        learns_together = True
        cheaper = {"epochs": "fewer"}

        @property
        def tells_member(self) -> bool:
            return True


class Old(PPO):
    """An algorithm with a flag of version 0.1."""

    learns_memory = False


@dataclass(frozen=True)
class OtherConfig(PPOConfig):
    """Settings of PPO for an algorithm that does not derive from it."""

    algorithm: ClassVar[str] = f"{__name__}:Other"
    normalize_returns: bool = True


class Other(Reinforce):
    """Derives from REINFORCE."""


@dataclass(frozen=True)
class SameConfig(PPOConfig):
    """Settings of PPO for an algorithm that derives from it, and declares nothing."""

    algorithm: ClassVar[str] = f"{__name__}:Same"


class Same(PPO):
    """PPO."""


def test_every_algorithm_with_a_name_declares_its_own():
    assert all("capabilities" in vars(import_object(path)) for path in ALGORITHMS.values())
    assert list(known_capabilities()) == list(ALGORITHMS)


def test_names_in_messages_follow_from_what_is_declared():
    assert algorithms_with(needs_team=True) == ["vdn", "qmix", "maddpg"]
    assert one_of(algorithms_with(needs_group_obs=True)) == "mappo or poca"
    assert [one_of(names) for names in ([], ["a"], ["a", "b", "c"])] == ["", "a", "a, b or c"]


def test_flags_of_version_0_1_are_translated():
    assert OldConfig.capabilities == replace(
        PPOConfig.capabilities, uses_central_obs=False, speed_hints={"epochs": "fewer"}
    )
    assert (OldConfig.sees_central, OldConfig().learns_together) == (False, True)
    assert OldConfig().adds_member_id and MAPPOConfig(member_id=True).tells_member and not PPOConfig().tells_member
    assert BCConfig.from_data and not APPOConfig().from_data
    with pytest.warns(DeprecationWarning, match=r"Late: declare Capabilities .* \(from_data is offline\)"):
        type("Late", (AlgorithmConfig,), {"from_data": True})


def test_flags_of_an_algorithm_are_read_where_a_run_needs_them():
    settings = {"num_envs": 1, "seed": 0, "console": "quiet"}
    with Trainer("CartPole-v1", SameConfig(model=MEMORY), **settings) as trainer:
        learner = trainer.learners["main"]
        assert learner.learns_memory and learner.corrects_staleness
        assert learner.capabilities == PPOConfig.capabilities
    with pytest.warns(DeprecationWarning, match="learns_memory is supports_memory"), pytest.raises(ConfigError) as one:
        Trainer("CartPole-v1", OldConfig(model=MEMORY), **settings)
    assert "trained by Old, which learns from single decisions" in str(one.value)
    with pytest.raises(ConfigError, match="trained by Other, which cannot learn from rollouts of older"):
        Trainer("CartPole-v1", OtherConfig(), staleness=1, **settings)


@pytest.mark.parametrize(
    ("cls", "can"), [(PPOConfig, True), (OldConfig, True), (SameConfig, False), (ReinforceConfig, False)]
)
def test_several_learners_need_a_class_that_says_so_itself(cls, can):
    class Two(Ranks):
        size = 2

    config = resolve(RunConfig, [Layer("code", {"algorithm": cls(), "cluster.learners": 2})], ALGORITHMS).config
    if can:
        check_learners(config, Two())
    else:
        with pytest.raises(ConfigError, match="use ppo, a2c, impala, appo, dqn, sac, td3 or ddpg"):
            check_learners(config, Two())


def test_an_algorithm_made_up_here_needs_one_row_in_the_table_of_names(monkeypatch):
    monkeypatch.setitem(ALGORITHMS.own, "made_up", f"{__name__}:MadeUpConfig")
    known_capabilities.cache_clear()
    try:
        assert algorithms_with(supports_memory=True, supports_staleness=True)[-1] == "made_up"
        with pytest.raises(ConfigError, match="use ppo, ppo_lagrangian, a2c, .*, sac or made_up, or leave"):
            Trainer("CartPole-v1", ReinforceConfig(model=MEMORY), num_envs=1, seed=0)
        with Trainer("CartPole-v1", "made_up", num_envs=1, seed=0, console="quiet") as trainer:
            assert type(trainer.learners["main"]) is Same
    finally:
        known_capabilities.cache_clear()


@dataclass(frozen=True)
class MadeUpConfig(PPOConfig):
    """Settings of an algorithm that is not in the table of names."""

    algorithm: ClassVar[str] = f"{__name__}:Same"
    capabilities = Capabilities(supports_memory=True, supports_staleness=True)
