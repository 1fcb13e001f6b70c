"""The fluent form gives configurations of 2021."""

import pytest

from rookery.core.errors import ConfigError
from rookery.core.schedules import Piecewise
from rookery_rllib.base.imports import find
from rookery_rllib.config.defaults import DEFAULT_CONFIGS
from rookery_rllib.config.key_names import LATER_ARGUMENTS
from rookery_rllib.config.table import rows_of
from rookery_rllib.config.translation import translated
from rookery_rllib.trainer.fluent import METHODS, DQNConfig, NotProvided, PPOConfig, SACConfig, arguments


def said(config) -> dict:
    """Returns the values of a configuration that differ from the defaults."""
    defaults = DEFAULT_CONFIGS[config.algorithm]
    return {key: value for key, value in config.to_dict().items() if value != defaults[key]}


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
    assert said(config) == {
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
    }


def test_modules_of_rllib_2_have_the_fluent_form_and_the_trainers():
    ppo = find("ray.rllib.algorithms.ppo")
    assert (ppo.PPOConfig, ppo.PPO) == (PPOConfig, find("ray.rllib.agents.ppo").PPOTrainer)
    assert find("ray.rllib.algorithms.dqn.dqn").DQNConfig is DQNConfig
    assert find("ray.rllib.algorithms").AlgorithmConfig is find("ray.rllib.algorithms.algorithm_config").AlgorithmConfig
    assert dict(PPOConfig().training(lr=0.5))["lr"] == 0.5
    with pytest.raises(ImportError, match="PPO, DQN and SAC"):
        find("ray.rllib.algorithms.impala")


def test_a_policy_spec_and_the_later_name_of_a_callbacks_argument():
    spec = find("ray.rllib.policy.policy").PolicySpec
    seen = []

    class Watching(find("ray.rllib.algorithms.callbacks").DefaultCallbacks):
        def on_train_result(self, *, algorithm, result, **kwargs):
            seen.append((algorithm, result["training_iteration"]))

    config = PPOConfig().environment("CartPole-v1").training(train_batch_size=64, sgd_minibatch_size=32)
    config = config.rollouts(rollout_fragment_length=64).callbacks(Watching).multi_agent(policies={"p": spec()})
    trainer = config.multi_agent(policy_mapping_fn=lambda agent, *args, **kwargs: "p").build()
    trainer.train()
    assert seen == [(trainer, 1)]


def test_an_automatic_fragment_is_a_copys_share_of_a_batch():
    config = PPOConfig().rollouts(num_rollout_workers=2, rollout_fragment_length="auto").training(train_batch_size=900)
    assert config.to_dict()["rollout_fragment_length"] == 450
    assert translated("PPO", config.to_dict()).settings["algorithm.rollout_size"] is None


def test_schedules_and_replay_are_written_as_today():
    lr = [[0, 1e-3], [1000, 1e-4]]
    assert translated("PPO", PPOConfig().training(lr=lr).to_dict()).settings["algorithm.lr"] == Piecewise(
        ((0, 1e-3), (1000, 1e-4))
    )
    buffer = {"type": "EpisodeReplayBuffer", "capacity": 900}
    config = DQNConfig().training(epsilon=[(0, 1.0), (500, 0.1)], replay_buffer_config=buffer, hiddens=[32])
    settings = translated("DQN", config.to_dict()).settings
    assert settings["algorithm.exploration.epsilon"] == Piecewise(((0, 1.0), (500, 0.1)))
    assert (settings["algorithm.replay.kind"], settings["algorithm.replay.capacity"]) == ("uniform", 900)
    config = SACConfig().training(actor_lr=1e-3, critic_lr=1e-3, alpha_lr=1e-3)
    config = config.training(num_steps_sampled_before_learning_starts=9)
    settings = translated("SAC", config.to_dict()).settings
    assert (settings["algorithm.lr"], settings["algorithm.learning_starts"]) == (1e-3, 9)


def test_policies_of_today():
    config = PPOConfig().multi_agent(
        policies={"a", "b"},
        policy_mapping_fn=lambda agent_id, episode, **kwargs: agent_id,
        algorithm_config_overrides_per_module={"b": PPOConfig.overrides(lr=1e-3)},
    )
    translation = translated("PPO", config.to_dict())
    assert translation.policies["a"].settings == {}
    assert translation.policies["b"].settings == {"lr": 1e-3}
    assert translation.policy_mapping("b", None) == "b"


@pytest.mark.parametrize(
    ("say", "text"),
    [
        (lambda: PPOConfig().training(lrr=3), r"PPOConfig.training\(lrr = 3\): there is no such.*did you mean 'lr'"),
        (lambda: PPOConfig().env_runners(lr=3), r"did you mean training\(lr=...\)"),
        (lambda: PPOConfig().training(dueling=True), "there is no such argument"),
        (lambda: PPOConfig().rl_module(rl_module_spec=object()), "rl_module_spec.*ModelCatalog.*model.module"),
        (lambda: PPOConfig().training(learner_class=dict), "learner_class.*docs/how-to/own-algorithm.md"),
        (lambda: PPOConfig().env_runners(env_to_module_connector=len), "env_to_module_connector.*on_postprocess"),
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
    classes = (PPOConfig, DQNConfig, SACConfig)
    groups = [arguments(method, cls.algorithm) for cls in classes for method in METHODS]
    groups += [cls.own for cls in classes] + [LATER_ARGUMENTS[method] for method in LATER_ARGUMENTS]
    assert not {taken for group in groups for taken in group.values() if isinstance(taken, str)} - everywhere


@pytest.mark.parametrize("cls", [PPOConfig, DQNConfig, SACConfig])
def test_each_key_is_one_of_the_algorithm_or_of_no_use_to_it(cls):
    here = {**arguments("training", cls.algorithm), **cls.own}
    assert not {taken for taken in here.values() if isinstance(taken, str)} - set(DEFAULT_CONFIGS[cls.algorithm])


def test_what_nobody_gave_says_nothing_and_copies_are_apart():
    first = PPOConfig().training(lr=NotProvided, gamma=0.5)
    second = first.copy().training(gamma=0.6)
    assert (first["gamma"], second["gamma"], first["lr"]) == (0.5, 0.6, 5e-5)
    assert first.update_from_dict({"lr": 1e-3}).get("lr") == 1e-3
