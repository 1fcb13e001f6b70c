"""QMIX, VDN and MADDPG of 2021: groups and agents become teams."""

import sys
from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import Dict, Discrete, MultiDiscrete, Tuple

from rookery.core.errors import ConfigError
from rookery_rllib.base.registrations import register_env
from rookery_rllib.env.envs import ENV_STATE
from rookery_rllib.env.teams import SharesEnv, UngroupedEnv, as_members
from rookery_rllib.examples.multi_agent_envs import TwoStepGame
from rookery_rllib.script.run_script import run
from rookery_rllib.trainer.trainers import get_trainer_class

SEEN = Dict({"obs": MultiDiscrete([2, 2, 2, 3]), ENV_STATE: MultiDiscrete([2, 2, 2])})
TWO = Discrete(2)
ENCODED = {"separate_state_space": True, "one_hot_state_encoding": True}


def grouped(config):
    return TwoStepGame(config).with_agent_groups(
        {"group_1": [0, 1]}, obs_space=Tuple([SEEN, SEEN]), act_space=Tuple([TWO, TWO])
    )


@pytest.fixture(autouse=True)
def registered():
    register_env("grouped_twostep", grouped)


@pytest.mark.parametrize(("mixer", "learner"), [("qmix", "QMIX"), ("vdn", "VDN")])
def test_a_group_is_a_team_whose_state_the_mixer_alone_sees(mixer, learner):
    qmix = get_trainer_class("QMIX")(
        {"env": "grouped_twostep", "env_config": ENCODED, "mixer": mixer, "timesteps_per_iteration": 100,
         "learning_starts": 50, "seed": 1}
    )  # fmt: skip
    result = qmix.train()
    assert result["timesteps_total"] >= 100
    assert 0 <= result["episode_reward_mean"] <= 8
    assert type(qmix.rookery.learners["default_policy"]).__name__ == learner
    assert qmix.rookery.config.teams == {"group_1": ("0", "1")}
    leaves = [leaf.path for leaf in qmix.rookery.policies["default_policy"].obs_spec.leaves]
    assert leaves == ["0/obs", "1/obs", "alive", *(["central"] if mixer == "qmix" else [])]
    memory = qmix.local_replay_buffer
    assert memory.stats()["policy_default_policy"]["num_entries"] >= 100
    with pytest.raises(ConfigError, match="is recurrent, and draws sequences"):
        memory.replay()
    memory.set_state(memory.get_state())
    qmix.stop()


def test_without_a_mixer_members_learn_by_themselves():
    config = {"env": "grouped_twostep", "env_config": ENCODED, "mixer": None, "timesteps_per_iteration": 1000,
              "learning_starts": 200, "seed": 1, "target_network_update_freq": 100,
              "exploration_config": {"final_epsilon": 0.0, "epsilon_timesteps": 2000}, "lr": 0.003}  # fmt: skip
    trainer = get_trainer_class("QMIX")(config)
    results = [trainer.train() for _ in range(4)]
    learner = trainer.rookery.learners["default_policy"]
    assert type(learner).__name__ == "DQN" and not trainer.rookery.config.teams
    assert [leaf.path for leaf in learner.policy.obs_spec.leaves] == ["obs"], "no member sees the state"
    assert 1000 <= results[0]["timesteps_total"] < 1100, "a step of the group counts once"
    assert results[0]["episode_reward_mean"] < 6.5 and results[-1]["episode_reward_mean"] >= 6.9, "7 is sure, 8 is not"
    trainer.stop()
    with pytest.raises(ConfigError, match=r"mixer = 'qmixx': must be .*did you mean 'qmix'"):
        get_trainer_class("QMIX")({**config, "mixer": "qmixx"})


def test_agents_of_maddpg_are_members_of_one_policy_and_act_by_shares():
    policies = {f"pol{number + 1}": (None, Discrete(6), TWO, {"agent_id": number}) for number in (0, 1)}
    maddpg = get_trainer_class("contrib/MADDPG")(
        {"env": TwoStepGame, "env_config": {"actions_are_logits": True}, "learning_starts": 50, "seed": 1,
         "timesteps_per_iteration": 200, "train_batch_size": 32,
         "multiagent": {"policies": policies, "policy_mapping_fn": lambda agent: f"pol{agent + 1}"}}
    )  # fmt: skip
    assert 0 <= maddpg.train()["episode_reward_mean"] <= 8
    assert maddpg.rookery.config.teams == {"team": ("0", "1")}
    assert list(maddpg.rookery.learners) == ["default_policy"]
    rows = maddpg.local_replay_buffer.replay().policy_batches["default_policy"]
    assert rows.count == 32
    with pytest.raises(ConfigError, match="learns by MADDPG: learn_on_batch is for"):
        maddpg.get_policy().learn_on_batch(rows)
    maddpg.stop()
    env = SharesEnv(TwoStepGame({"actions_are_logits": True}), {})
    env.reset()
    obs, rewards, ends, _ = env.step({0: 1, 1: 0})
    assert obs == {0: 2, 1: 5}
    assert env._shares(0, 1).tolist() == [0.0, 1.0]
    assert not ends["__all__"]
    assert rewards == {0: 0.0, 1: 0.0}


def test_members_say_what_they_see_by_themselves():
    env = UngroupedEnv(grouped(ENCODED))
    seen = env.reset()[1]
    assert set(seen) == {"obs", "central"}
    assert np.array_equal(seen["central"], [1, 0, 0])
    assert set(env.observation_spaces[0].spaces) == {"obs", "central"}
    assert env.action_spaces == {0: TWO, 1: TWO}


def test_what_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="TwoStepGame has no groups.*with_agent_groups"):
        as_members("QMIX", TwoStepGame(), {})
    for wrong, given in (("obs_space", (SEEN, Tuple([TWO, TWO]))), ("act_space", (Tuple([SEEN, SEEN]), Tuple([TWO])))):
        env = TwoStepGame(ENCODED).with_agent_groups({"both": [0, 1]}, *given)
        with pytest.raises(ConfigError, match=rf"{wrong} is .*must be a Tuple of 2 spaces, one for each of 0, 1"):
            as_members("QMIX", env, {})


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["PPO", "QMIX", "contrib/MADDPG"])
def test_the_example_of_2021_reaches_its_reward(algorithm, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "argv", sys.argv)
    assert run(str(Path(__file__).with_name("two_step_script.py")), ["--run", algorithm, "--as-test"]) in (None, 0)
