"""Configurations of RLlib 2.x: their methods set keys of 2021; defaults are those of 2.60."""

import pytest

from rookery.core.errors import ConfigError
from rookery.core.schedules import Piecewise
from rookery_rllib.base.imports import find
from rookery_rllib.config.defaults import DEFAULT_CONFIGS
from rookery_rllib.config.key_names import LATER_ARGUMENTS
from rookery_rllib.config.table import rows_of
from rookery_rllib.config.translation import translated
from rookery_rllib.rllib2.algorithm_classes import (
    CONFIGS,
    PPO,
    APPOConfig,
    DQNConfig,
    IMPALAConfig,
    PPOConfig,
    SACConfig,
)
from rookery_rllib.rllib2.arguments import METHODS, TRAINING, arguments
from rookery_rllib.rllib2.config import AlgorithmConfig, NotProvided
from rookery_rllib.rllib2.rllib_callbacks import LATER_HOOKS


def test_methods_say_keys_of_2021_and_return_the_configuration():
    config = (
        PPOConfig()
        .environment("CartPole-v1", env_config={"length": 8})
        .env_runners(num_env_runners=3, num_envs_per_env_runner=4, rollout_fragment_length=50)
        .training(lr=1e-3, lambda_=0.95, num_epochs=6, minibatch_size=200, train_batch_size_per_learner=600)
        .training(use_kl_loss=False, entropy_coeff=0.01)
        .evaluation(evaluation_interval=5, evaluation_duration=3, evaluation_config={"explore": False})
        .reporting(metrics_num_episodes_for_smoothing=7)
        .debugging(seed=3)
        .callbacks(callbacks_class=dict)
        .checkpointing(export_native_model_files=True)
        .framework("torch")
        .resources(num_gpus=0)
    )
    assert config.given == {
        "env": "CartPole-v1",
        "env_config": {"length": 8},
        "num_workers": 3,
        "num_envs_per_worker": 4,
        "rollout_fragment_length": 50,
        "lr": 1e-3,
        "lambda": 0.95,
        "num_sgd_iter": 6,
        "sgd_minibatch_size": 200,
        "train_batch_size": 600,
        "kl_coeff": 0.0,
        "entropy_coeff": 0.01,
        "evaluation_interval": 5,
        "evaluation_num_episodes": 3,
        "evaluation_config": {"explore": False},
        "metrics_smoothing_episodes": 7,
        "seed": 3,
        "callbacks": dict,
        "framework": "torch",
        "num_gpus": 0,
    }


def test_modules_of_rllib_2_have_the_configurations_and_the_algorithms():
    ppo = find("ray.rllib.algorithms.ppo")
    assert (ppo.PPOConfig, ppo.PPO) == (PPOConfig, PPO)
    assert find("ray.rllib.algorithms.dqn.dqn").DQNConfig is DQNConfig
    assert find("ray.rllib.algorithms").AlgorithmConfig is AlgorithmConfig
    assert dict(PPOConfig().training(lr=0.5))["lr"] == 0.5
    with pytest.raises(ImportError, match="PPO, APPO, IMPALA, DQN or SAC"):
        find("ray.rllib.algorithms.td3")


def test_schedules_and_replay_are_written_as_today():
    lr = [[0, 1e-3], [1000, 1e-4]]
    assert translated("PPO", PPOConfig().training(lr=lr).resolved).settings["algorithm.lr"] == Piecewise(
        ((0, 1e-3), (1000, 1e-4))
    )
    buffer = {"type": "EpisodeReplayBuffer", "capacity": 900}
    config = DQNConfig().training(epsilon=[(0, 1.0), (500, 0.1)], replay_buffer_config=buffer, hiddens=[32])
    settings = translated("DQN", config.resolved).settings
    assert settings["algorithm.exploration.epsilon"] == Piecewise(((0, 1.0), (500, 0.1)))
    assert (settings["algorithm.replay.kind"], settings["algorithm.replay.capacity"]) == ("uniform", 900)
    config = SACConfig().training(actor_lr=1e-3, critic_lr=1e-3, alpha_lr=1e-3)
    config = config.training(num_steps_sampled_before_learning_starts=9)
    settings = translated("SAC", config.resolved).settings
    assert (settings["algorithm.lr"], settings["algorithm.learning_starts"]) == (1e-3, 9)


def test_policies_of_today():
    config = PPOConfig().multi_agent(
        policies={"a", "b"},
        policy_mapping_fn=lambda agent_id, episode, **kwargs: agent_id,
        algorithm_config_overrides_per_module={"b": PPOConfig.overrides(lr=1e-3)},
    )
    translation = translated("PPO", config.resolved)
    assert translation.policies["a"].settings == {}
    assert translation.policies["b"].settings == {"lr": 1e-3}
    assert translation.policy_mapping("b", None) == "b"


@pytest.mark.parametrize(
    ("say", "text"),
    [
        (lambda: PPOConfig().training(lrr=3), r"PPOConfig.training\(lrr = 3\): there is no such.*did you mean 'lr'"),
        (lambda: PPOConfig().env_runners(lr=3), r"did you mean training\(lr=...\)"),
        (lambda: PPOConfig().training(dueling=True), "there is no such argument"),
        (lambda: PPOConfig().training(learner_class=dict), "learner_class.*docs/how-to/own-algorithm.md"),
        (lambda: PPOConfig().evaluation(evaluation_duration="auto"), "give a number"),
        (lambda: PPOConfig().environment("CartPole-v1", {}), "takes its arguments by name"),
        (lambda: SACConfig().training(lr=1e-3), "actor_lr, critic_lr and alpha_lr"),
        (lambda: DQNConfig().training(replay_buffer_config={"capacty": 3}), "did you mean 'capacity'"),
        (lambda: DQNConfig().training(tau=0.5), "the target network of DQN is copied"),
    ],
)
def test_what_is_not_there_is_refused_with_the_seam(say, text):
    with pytest.raises(ConfigError, match=text):
        say()


def test_each_argument_that_is_a_key_is_one_of_the_table():
    everywhere = {key for algorithm in DEFAULT_CONFIGS for key in rows_of(algorithm)}
    everywhere |= {key.split(".")[0] for key in everywhere}
    everywhere |= {f"later_callbacks.{hook}" for hook in LATER_HOOKS}
    everywhere |= {"model_config", "rl_module_spec"}
    groups = [arguments(method, algorithm) for algorithm in CONFIGS for method in METHODS]
    groups += [*TRAINING.values(), *LATER_ARGUMENTS.values()]
    assert not {taken for group in groups for taken in group.values() if isinstance(taken, str)} - everywhere


@pytest.mark.parametrize("cls", CONFIGS.values(), ids=list(CONFIGS))
def test_each_argument_of_training_is_a_key_of_the_algorithm(cls):
    here = arguments("training", cls.algorithm)
    assert not {taken for taken in here.values() if isinstance(taken, str)} - set(DEFAULT_CONFIGS[cls.algorithm])


def test_arguments_that_were_not_passed_set_nothing_and_copies_are_apart():
    first = PPOConfig().training(lr=NotProvided, gamma=0.5)
    second = first.copy().training(gamma=0.6)
    assert (first["gamma"], second["gamma"], first["lr"]) == (0.5, 0.6, 5e-5)
    assert first.update_from_dict({"lr": 1e-3}).get("lr") == 1e-3
    first.num_env_runners = 3
    assert first.given["num_workers"] == first["num_env_runners"] == first.get("num_rollout_workers") == 3


def test_a_dict_of_a_whole_configuration_sets_what_was_changed_in_it():
    whole = PPOConfig().environment("CartPole-v1").to_dict()
    assert PPOConfig.from_dict({**whole, "lr": 1e-3, "num_env_runners": 0}).given == {
        "env": "CartPole-v1",
        "lr": 1e-3,
        "num_workers": 0,
    }


def settings_of(config) -> dict:
    """Returns the settings of an algorithm that is built with a configuration."""
    algorithm = config.environment("CartPole-v1" if config.algorithm != "SAC" else "Pendulum-v1").build_algo()
    try:
        return algorithm.translation.settings
    finally:
        algorithm.stop()


SAMPLING = ("sampling.num_envs", "sampling.iteration_steps")

DEFAULTS = {
    # rllib.md 1.2, of the sources of 2.60: our settings
    PPOConfig: {
        "lr": 5e-5, "gamma": 0.99, "gae_lambda": 1.0, "clip": 0.3, "value_clip": None, "value_loss_clip": 10.0,
        "value_coef": 1.0,
        "entropy_coef": 0.0, "kl_coef": 0.2, "kl_target": 0.01, "epochs": 30, "minibatch_size": 128,
        "fragment_length": 2000, "max_grad_norm": None, "model.hidden": (256, 256), "model.activation": "tanh",
        "model.shared_trunk": False,
    },
    IMPALAConfig: {
        "lr": 5e-4, "gamma": 0.99, "fragment_length": 50, "entropy_coef": 0.01, "rho_bar": 1.0,
    },
    APPOConfig: {
        "lr": 5e-4, "clip": 0.4, "fragment_length": 50, "entropy_coef": 0.01, "kl_coef": 0.0, "kl_target": 0.01,
        "buffered_batches": 8, "batch_uses": 2, "max_grad_norm": 40.0,
    },
    DQNConfig: {
        "lr": 5e-4, "batch_size": 32, "train_every": 1, "updates_per_step": 1.0, "learning_starts": 1000,
        "max_grad_norm": 40.0, "adam_eps": 1e-8, "double": True, "dueling": True, "dueling_hidden": (), "n_step": 1,
        "replay.kind": "prioritized", "replay.capacity": 50000, "replay.alpha": 0.6, "replay.beta": 0.4,
        "target.every_env_steps": 500, "values.kind": "mean",
        "exploration.epsilon": Piecewise(((0, 1.0), (10000, 0.05))),
    },
    SACConfig: {
        "lr": 3e-4, "actor_lr": 3e-5, "alpha_lr": None, "batch_size": 256, "tau": 5e-3,
        "alpha_init": 1.0, "target_entropy": None, "learning_starts": 1500,
        "n_step": 1, "replay.kind": "prioritized", "replay.capacity": 1_000_000, "replay.alpha": 0.6,
        "replay.beta": 0.4, "train_every": 1, "updates_per_step": 1.0, "max_grad_norm": None, "critic.number": 2,
    },
}  # fmt: skip


@pytest.mark.parametrize("cls", DEFAULTS, ids=lambda cls: cls.algorithm)
def test_defaults_are_those_of_2_60(cls, tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path))
    found = settings_of(cls())
    assert {name: found[f"algorithm.{name}"] for name in DEFAULTS[cls]} == DEFAULTS[cls]
    lanes = 2 if cls in (PPOConfig, IMPALAConfig, APPOConfig) else 1
    assert found["sampling.num_envs"] == lanes


def test_the_old_stack_has_defaults_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path))
    found = settings_of(DQNConfig().api_stack(False, False))
    assert found["algorithm.dueling_hidden"] == (256,)
    assert found["algorithm.exploration.epsilon"].end == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("MARWIL", {"lr": 1e-4, "beta": 1.0, "batch_size": 2000}),
        ("BC", {"lr": 1e-4, "batch_size": 2000}),
        ("CQL", {"lr": 1e-3, "actor_lr": 1e-4, "cloning_steps": 20000, "conservative_weight": 5.0, "batch_size": 256}),
    ],
)
def test_defaults_of_algorithms_that_learn_from_data(name, expected):
    found = translated(name, CONFIGS[name]().resolved).settings
    assert {key: found[f"algorithm.{key}"] for key in expected} == expected
