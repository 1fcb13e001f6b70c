"""Algorithms of RLlib 2.x: results, evaluation, dicts, against counts of our own."""

import math

import gymnasium
import numpy as np
import pytest

from rookery.core.errors import ConfigError
from rookery_rllib.base import machine
from rookery_rllib.rllib2.algorithm_classes import (
    DQN,
    PPO,
    APPOConfig,
    DQNConfig,
    IMPALAConfig,
    PPOConfig,
    SACConfig,
    get_algorithm_class,
)


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path / "results"))
    machine.use_machine(local_mode=True, num_cpus=None)
    yield tmp_path / "results"
    machine.use_machine(local_mode=False, num_cpus=None)


class Counting(gymnasium.Env):
    """Episodes of five steps, each with a reward of 2."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, config=None):
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(2, np.float32), 2.0, self.steps == 5, False, {}


def small(config):
    """Returns a configuration whose iteration takes a hundredth of a second."""
    return (
        config.environment(Counting)
        .env_runners(num_env_runners=0, rollout_fragment_length=20)
        .training(train_batch_size=40, minibatch_size=20, num_epochs=2, model={"fcnet_hiddens": [8]})
        .debugging(seed=3)
    )


def test_a_result_has_the_keys_of_all_releases():
    algo = small(PPOConfig()).build_algo()
    first, second = algo.train(), algo.train()
    runners = second["env_runners"]
    assert (runners["episode_return_mean"], runners["episode_return_min"], runners["episode_return_max"]) == (
        10,
        10,
        10,
    )
    assert (runners["episode_len_mean"], runners["episode_len_min"], runners["num_episodes"]) == (5, 5, 8)
    assert (runners["num_episodes_lifetime"], runners["num_env_steps_sampled"]) == (16, 40)
    assert runners["num_env_steps_sampled_lifetime"] == second["num_env_steps_sampled_lifetime"] == 80
    assert runners["agent_episode_returns_mean"] == {"default_agent": 10.0}
    assert runners["module_episode_returns_mean"] == {"default_policy": 10.0}
    assert {"policy_loss", "vf_loss", "entropy", "mean_kl_loss", "curr_kl_coeff"} <= set(
        second["learners"]["default_policy"]
    )
    assert second["learners"]["__all_modules__"]["num_env_steps_trained"] == 40
    # the old stack of later releases, and 2.0 to 2.9
    assert runners["episode_reward_mean"] == second["episode_reward_mean"] == 10.0
    assert second["sampler_results"]["hist_stats"]["episode_lengths"] == [5] * 16
    assert (
        second["info"]["learner"]["default_policy"]["learner_stats"]["vf_loss"]
        == (second["learners"]["default_policy"]["vf_loss"])
    )
    assert (second["timesteps_total"], second["training_iteration"], first["episodes_total"]) == (80, 2, 8)
    assert second["config"]["num_env_runners"] == 0 and second["config"]["lr"] == 5e-5


def test_the_configuration_of_an_algorithm_has_the_names_of_today():
    algo = small(PPOConfig()).training(lr=1e-3).build()
    assert (algo.config.lr, algo.config["lr"], algo.config.num_env_runners, algo.config.env) == (
        1e-3,
        1e-3,
        0,
        Counting,
    )
    assert algo.config.train_batch_size_per_learner == algo.config["train_batch_size"] == 40
    assert algo.config.copy().training(gamma=0.5).build_algo().config.gamma == 0.5


def test_an_algorithm_is_built_from_a_dict_of_arguments_or_of_keys():
    algo = PPO(config={"env": Counting, "num_env_runners": 0, "train_batch_size_per_learner": 640, "lambda_": 0.9})
    assert algo.translation.settings["algorithm.gae_lambda"] == 0.9
    assert algo.translation.settings["algorithm.fragment_length"] == 640
    assert DQN(config={"num_workers": 0, "lr": 1e-3}, env="CartPole-v1").config.lr == 1e-3
    with pytest.raises(ConfigError, match="DQN: config is a PPOConfig"):
        DQN(config=PPOConfig())


def test_an_error_names_the_argument_of_today():
    with pytest.raises(ConfigError, match="config: minibatch_size = 128: must be at most train_batch_size = 64"):
        PPO(config={"env": "CartPole-v1", "train_batch_size_per_learner": 64})


def test_evaluations_have_the_keys_of_both_stacks():
    algo = small(PPOConfig()).evaluation(evaluation_interval=1, evaluation_duration=3).build_algo()
    result = algo.train()["evaluation"]
    assert result["env_runners"]["episode_return_mean"] == result["episode_reward_mean"] == 10.0
    assert result["env_runners"]["num_episodes"] == 3
    found = algo.evaluate()
    assert found["env_runners"]["num_env_steps_sampled"] == 15 == found["evaluation"]["timesteps_this_iter"]


@pytest.mark.parametrize("cls", [IMPALAConfig, APPOConfig])
def test_impala_and_appo_train(cls):
    config = cls().environment("CartPole-v1").env_runners(num_env_runners=1, rollout_fragment_length=10)
    algo = config.training(train_batch_size=20, model={"fcnet_hiddens": [8]}).build_algo()
    stats = algo.train()["learners"]["default_policy"]
    assert math.isfinite(stats["vf_loss"]) and math.isfinite(stats["entropy"])


def test_dqn_and_sac_learn_from_replay():
    config = DQNConfig().environment("CartPole-v1").reporting(min_sample_timesteps_per_iteration=40)
    algo = config.training(num_steps_sampled_before_learning_starts=10, model={"fcnet_hiddens": [8]}).build_algo()
    assert math.isfinite(algo.train()["learners"]["default_policy"]["qf_mean"])
    config = SACConfig().environment("Pendulum-v1").reporting(min_sample_timesteps_per_iteration=20)
    algo = config.training(num_steps_sampled_before_learning_starts=10, train_batch_size_per_learner=8).build_algo()
    assert math.isfinite(algo.train()["learners"]["default_policy"]["alpha_value"])


def test_algorithms_by_name():
    assert get_algorithm_class("PPO") is PPO
    assert get_algorithm_class("DQN", return_config=True)[1].lr == 5e-4
    with pytest.raises(ConfigError, match="PP0: there is no such algorithm; did you mean 'PPO'"):
        get_algorithm_class("PP0")


def test_an_evaluation_leaves_the_result_of_training(monkeypatch):
    config = small(PPOConfig()).evaluation(evaluation_interval=1, evaluation_duration=1)
    result = config.reporting(metrics_num_episodes_for_smoothing=1).build_algo().train()
    assert (result["episodes_this_iter"], result["evaluation"]["episodes_this_iter"]) == (8, 1)


def test_bc_marwil_and_cql_learn_from_what_an_algorithm_has_written(tmp_path):
    place = str(tmp_path / "written")
    config = PPOConfig().environment("Pendulum-v1").env_runners(num_env_runners=0)
    config = config.offline_data(output=place, output_max_rows_per_file=1000, output_write_episodes=False)
    config.training(train_batch_size=400, minibatch_size=200, num_epochs=1).build_algo().train()
    for name in ("BC", "MARWIL", "CQL"):
        config = get_algorithm_class(name, return_config=True)[1]
        config = config.environment("Pendulum-v1").offline_data(input_=[place])
        algo = config.training(train_batch_size_per_learner=64).build_algo()
        stats = algo.train()["learners"]["default_policy"]
        assert stats and all(math.isfinite(value) for value in stats.values()), name


def test_explain_names_the_release_whose_default_it_is_and_todays_name_of_a_key():
    resolved = small(PPOConfig()).training(vf_clip_param=3.0).build_algo().rookery.resolved
    epochs, gamma = (resolved.explain(f"algorithm.{name}") for name in ("epochs", "gamma"))
    weights = resolved.explain("algorithm.model.initial_weights")
    assert weights.startswith("algorithm.model.initial_weights = orthogonal  (preset rllib2.60)")
    assert epochs.splitlines()[:2] == [
        "algorithm.epochs = 2  (rllib config: num_epochs)", "    instead of 30  (preset rllib2.60: num_epochs)"
    ]  # fmt: skip
    assert gamma.startswith("algorithm.gamma = 0.99  (preset rllib2.60: gamma)")
    clip = resolved.explain("algorithm.value_loss_clip").splitlines()
    assert clip[0].startswith("algorithm.value_loss_clip = 3.0  (rllib config: vf_clip_param")
    assert clip[1].strip().startswith("instead of 10.0  (preset rllib2.60")  # of 2.60: that of 2021 was none
