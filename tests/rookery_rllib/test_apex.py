"""Scripts that train by Ape-X: keys, explorations by worker, trainers by name."""

import pytest

from rookery_rllib.base.imports import find
from rookery_rllib.config import defaults
from rookery_rllib.config.defaults import DEFAULT_CONFIGS
from rookery_rllib.config.translation import translated
from rookery_rllib.trainer.trainers import ApexDDPGTrainer, ApexTrainer, get_trainer_class

SMALL = {"num_workers": 3, "num_gpus": 0, "buffer_size": 2000, "learning_starts": 100, "train_batch_size": 16,
         "rollout_fragment_length": 8, "timesteps_per_iteration": 480, "min_iter_time_s": 0}  # fmt: skip


def test_its_defaults_are_a_ladder_of_epsilons_and_a_prioritized_memory():
    said = translated("APEX", {"num_gpus": 0}).settings
    x = "algorithm.exploration."
    assert (said[f"{x}kind"], said[f"{x}epsilon"], said[f"{x}per_env_epsilon"]) == ("epsilon", 0.4, 7.0)
    assert said["algorithm.name"] == "dqn"
    assert (said["sampling.num_envs"], said["algorithm.n_step"], said["algorithm.batch_size"]) == (32, 3, 512)
    assert (said["algorithm.replay.kind"], said["algorithm.replay.capacity"]) == ("prioritized", 2_000_000)
    assert said["algorithm.target.every_env_steps"] == 500_000
    assert DEFAULT_CONFIGS["APEX"]["optimizer"]["num_replay_buffer_shards"] == 4


@pytest.mark.parametrize(
    ("kind", "std"),
    [("PerWorkerGaussianNoise", 0.1 * 0.4), ("PerWorkerOrnsteinUhlenbeckNoise", 2 * 0.1 * 0.2 * 0.4 / 0.5268)],
)
def test_noise_of_the_last_copy_is_smaller_by_the_seventh_power(kind, std):
    said = translated("APEX_DDPG", {"exploration_config": {"type": kind}}).settings
    found, ladder = (said[f"algorithm.exploration.{name}"] for name in ("std", "per_env_epsilon"))
    assert found == pytest.approx(std, rel=1e-3)
    assert found ** (1 + ladder) == pytest.approx(found * 0.4**7)


def test_target_networks_of_ddpg_wait_for_rows_that_were_learned():
    hard = {"tau": 1.0, "target_network_update_freq": 50_000}
    said = translated("APEX_DDPG", hard).settings
    assert (said["algorithm.tau"], said["algorithm.target_every"]) == (1.0, 50_000 // 512 + 1)
    assert translated("APEX_DDPG", hard | {"target_network_update_freq": 0}).settings["algorithm.target_every"] == 1


def test_explorations_by_worker_are_for_the_plain_algorithms_too():
    said = translated("DQN", {"exploration_config": {"type": "PerWorkerEpsilonGreedy"}}).settings
    assert said["algorithm.exploration.per_env_epsilon"] == 7.0
    assert translated("DQN", {}).settings["algorithm.exploration.per_env_epsilon"] == 0.0
    said = translated("TD3", {"exploration_config": {"type": "PerWorkerGaussianNoise"}}).settings
    assert said["algorithm.exploration.std"] == pytest.approx(0.04)


@pytest.mark.parametrize(("trainer", "env"), [(ApexTrainer, "CartPole-v1"), (ApexDDPGTrainer, "Pendulum-v1")])
def test_its_trainers_train(trainer, env, capsys):
    trained = trainer(config=SMALL, env=env)
    result = trained.train()
    assert result["timesteps_total"] >= 480
    assert len(trained.rookery.learners["default_policy"].replay.buffer) > 100
    trained.stop()
    assert "here, each with" in "".join(capsys.readouterr())


def test_they_are_found_by_the_names_of_2021():
    assert get_trainer_class("APEX") is ApexTrainer
    for place, name, ours in (
        ("ray.rllib.agents.dqn", "ApexTrainer", ApexTrainer),
        ("ray.rllib.agents.dqn.apex", "APEX_DEFAULT_CONFIG", DEFAULT_CONFIGS["APEX"]),
        ("ray.rllib.agents.ddpg.apex", "ApexDDPGTrainer", ApexDDPGTrainer),
        ("ray.rllib.agents.ddpg.apex", "APEX_DDPG_DEFAULT_CONFIG", DEFAULT_CONFIGS["APEX_DDPG"]),
    ):
        assert find(f"{place}.{name}") == ours
    assert defaults.APEX_DDPG_DEFAULT_CONFIG["n_step"] == 3
