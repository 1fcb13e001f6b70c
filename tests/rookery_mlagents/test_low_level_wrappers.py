"""Environments of ML-Agents' low-level API as Gymnasium's, PettingZoo's and RLlib's."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

pytest.importorskip("grpc")
from one_player import free_port, opened, start_player

from rookery.core.errors import ConfigError
from rookery.envs.make import make_env
from rookery.envs.vector.serial import SerialEnv
from rookery_mlagents.api import ActionFlattener, UnityAECEnv, UnityParallelEnv, UnityToGymWrapper
from rookery_mlagents.api.exceptions import UnityEnvironmentException
from rookery_mlagents.api.gym_wrapper import UnityGymException
from rookery_rllib import rllib, tune
from rookery_rllib.base import registrations
from rookery_rllib.env.unity3d_env import GAMES, Unity3DEnv

BASIC = "rookery.tasks:Basic"


# --- Gymnasium --------------------------------------------------------------------------------------------------------


def test_one_agent_is_a_gymnasium_environment(tmp_path):
    with opened(tmp_path, BASIC) as unity:
        env = UnityToGymWrapper(unity)
        assert isinstance(env, gymnasium.Env) and env.observation_space.shape == (20,)
        assert env.action_space == gymnasium.spaces.Discrete(3)
        for _ in range(2):
            seen, info = env.reset(seed=3)
            assert seen in env.observation_space and info["action_mask"].tolist() == [1, 1, 1]
            total, over = 0.0, False
            while not over:
                seen, reward, terminated, truncated, info = env.step(2)
                total, over = total + reward, terminated or truncated
            assert terminated and not truncated and total == pytest.approx(0.93, abs=1e-5)
            assert len(info["step"]) == 1
            with pytest.raises(UnityGymException, match="call reset"):
                env.step(0)
        assert env.render() is None


def test_gymnasiums_own_check_finds_nothing(tmp_path):
    with opened(tmp_path, BASIC) as unity, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that seeds change nothing
        check_env(UnityToGymWrapper(unity), skip_render_check=True)


def test_a_wrapped_player_trains_as_any_environment_does(tmp_path):
    with opened(tmp_path, BASIC) as unity:
        env = make_env(lambda: UnityToGymWrapper(unity), None, (), 1, "serial")
        assert isinstance(env, SerialEnv)
        step = env.reset(lambda lane, episode: 0)
        for _ in range(20):
            step = env.step([np.full(int(step.rows[0].waiting.sum()), 2)])
        assert env.episode[0] >= 2


def test_pictures_as_bytes_or_numbers_alone_or_with_all_there_is(tmp_path):
    arguments = "rookery.tasks:GoalGrid", "--pictures", "png", "--layout", "chw"
    with opened(tmp_path, *arguments) as unity:
        env = UnityToGymWrapper(unity, uint8_visual=True)
        seen, _ = env.reset()
        assert seen.dtype == np.uint8 and seen in env.observation_space and seen.max() > 1
        assert env.render().shape[2] == 3 and env.render().dtype == np.uint8
        env = UnityToGymWrapper(unity, allow_multiple_obs=True)
        seen, _ = env.reset()
        assert isinstance(seen, tuple) and len(seen) == 2 and seen in env.observation_space
        assert seen[0].max() <= 1.0 and seen[1].ndim == 1


def test_several_choices_become_one():
    flat = ActionFlattener([2, 3])
    assert flat.action_space.n == 6 and flat.lookup_action(4) == [1, 1]


def test_what_is_no_gymnasium_environment_is_refused(tmp_path):
    with opened(tmp_path, "rookery.tasks:FoodCollector") as unity:
        with pytest.raises(UnityGymException, match="decides 3 numbers and 1 choices"):
            UnityToGymWrapper(unity)
    with opened(tmp_path, BASIC, "--num-areas", "2") as unity:
        with pytest.raises(UnityGymException, match="there are 2 agents"):
            UnityToGymWrapper(unity)


# --- PettingZoo -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", ["kept", "new"])
def test_all_agents_act_at_once(tmp_path, ids):
    with opened(tmp_path, BASIC, "--num-areas", "2", "--ids", ids) as unity:
        env = UnityParallelEnv(unity, seed=1)
        seen, infos = env.reset(seed=1)
        first = list(env.agents)
        assert len(first) == 2 and all(one.startswith("Basic?agent_id=") for one in first)
        assert set(seen) == set(infos) == set(first) and infos[first[0]]["behavior_name"] == "Basic"
        total = dict.fromkeys(first, 0.0)
        for _ in range(7):
            assert all(seen[agent] in env.observation_space(agent) for agent in env.agents)
            assert seen[env.agents[0]]["action_mask"].tolist() == [1, 1, 1]
            seen, rewards, terminations, truncations, infos = env.step(dict.fromkeys(env.agents, 2))
            for agent in first:
                total[agent] += rewards.get(agent, 0.0)
        assert all(terminations[agent] and not truncations[agent] for agent in first)
        assert list(total.values()) == pytest.approx([0.93, 0.93], abs=1e-5)
        assert len(env.agents) == 2 and not set(env.agents) & set(first), "who follows has another name"
        with pytest.raises(UnityEnvironmentException, match="asks for no action; there ask: Basic"):
            env.step({first[0]: 1})
        with pytest.raises(UnityEnvironmentException, match="the action 5 is not in Discrete"):
            env.step({env.agents[0]: 5})


def test_agents_act_one_after_the_other(tmp_path):
    with opened(tmp_path, BASIC, "--num-areas", "2") as unity:
        env = UnityAECEnv(unity)
        env.reset()
        earned, ended = {}, []
        for agent in env.agent_iter(40):
            seen, reward, terminated, truncated, info = env.last()
            earned[agent] = earned.get(agent, 0.0) + reward
            assert seen in env.observation_space(agent)
            if terminated or truncated:
                ended.append(agent)
                env.step(None)
            else:
                env.step(2)
        assert len(ended) >= 4 and len(set(ended)) == len(ended)
        assert [earned[agent] for agent in ended] == pytest.approx([0.93] * len(ended), abs=1e-5)
        env.close()
        env.close()


def test_both_kinds_of_actions_are_a_tuple(tmp_path):
    with opened(tmp_path, "rookery.tasks:FoodCollector") as unity:
        env = UnityParallelEnv(unity)
        seen, _ = env.reset(seed=4)
        for _ in range(3):
            seen, *_ = env.step({agent: env.action_space(agent).sample() for agent in env.agents})
            assert all(seen[agent] in env.observation_space(agent) for agent in env.agents)


# --- RLlib ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def basic(tmp_path):
    port = free_port()
    start_player(port, tmp_path / "log", BASIC, "--num-areas", "2")
    env = Unity3DEnv(port=port, episode_horizon=12, timeout_wait=10)
    yield env
    env.close()


def test_rllibs_environment_lets_agents_end_under_names_that_are_used_again(basic):
    assert rllib.env.wrappers.unity3d_env.Unity3DEnv is Unity3DEnv and rllib.env.Unity3DEnv is Unity3DEnv
    obs = basic.reset()
    assert sorted(obs) == ["Basic_0", "Basic_1"] and obs["Basic_0"] in basic.observation_space
    assert basic.action_space == gymnasium.spaces.MultiDiscrete([3])
    names, total, dones = set(obs), 0.0, {}
    for _ in range(7):
        obs, rewards, dones, infos = basic.step({agent: np.array([2]) for agent in obs})
        total += rewards["Basic_0"]
    assert total == pytest.approx(0.93, abs=1e-5)
    assert dones == {"__all__": False, "Basic_0": True, "Basic_1": True} and not infos["Basic_0"]
    assert sorted(obs) == ["Basic_0", "Basic_1", "Basic_2", "Basic_3"]
    for _ in range(6):
        acting = [agent for agent in obs if not dones.get(agent)]
        obs, rewards, dones, infos = basic.step({agent: np.array([2]) for agent in acting})
        names |= set(obs)
    assert dones["__all__"] and infos[acting[0]]["TimeLimit.truncated"]
    assert sorted(basic.reset()) == ["Basic_0", "Basic_1"]


def test_a_trainer_of_rllib_learns_in_a_player(basic, monkeypatch):
    basic.episode_horizon = 1000
    monkeypatch.setattr(registrations, "ENVIRONMENTS", {})  # what is registered here is forgotten afterwards
    tune.register_env("a unity player", lambda config: basic)
    ppo = rllib.agents.ppo.PPOTrainer(
        config={
            "env": "a unity player", "num_workers": 0, "rollout_fragment_length": 32, "train_batch_size": 128,
            "sgd_minibatch_size": 64, "lr": 3e-3, "gamma": 0.9, "model": {"fcnet_hiddens": [32]}, "seed": 1,
            "multiagent": {
                "policies": {"Basic": (None, basic.observation_space, basic.action_space, {})},
                "policy_mapping_fn": lambda agent_id, **_: "Basic",
            },
        }
    )  # fmt: skip
    result = ppo.train()
    assert result["timesteps_total"] >= 128 and result["info"]["learner"]["Basic"]


@pytest.mark.parametrize("game", GAMES)
def test_policies_of_the_games_of_ml_agents(game):
    policies, mapping = Unity3DEnv.get_policy_configs_for_game(game)
    assert all(mapping(agent) in policies for agent in ("Goalie?team=0_1", "Striker?team=1_3", f"{game}_0"))
    for policy in policies.values():
        cls, obs, action, config = policy  # as in 2021; later scripts read the attributes
        assert policy.observation_space is obs and policy.action_space is action
        assert cls is None and config == {} and obs.sample() in obs and action.sample() in action
    if game == "SoccerStrikersVsGoalie":
        assert mapping("Striker?team=1_3", None, None) == "Striker" and len(policies) == 2


def test_games_and_settings_that_nobody_knows_are_refused():
    with pytest.raises(ConfigError, match="must be one of .*; did you mean 'Pyramids'"):
        Unity3DEnv.get_policy_configs_for_game("Pyramid")
    with pytest.raises(ConfigError, match="file_nam: no such argument; did you mean 'file_name'"):
        Unity3DEnv({"file_nam": "x"})
