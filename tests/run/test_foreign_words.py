"""Names of other libraries: the error names the equivalent here."""

import gymnasium
import pytest
import torch

import rookery
from rookery import Callback, ConfigError, EnvError, PPOConfig, Trainer

ARGUMENTS = {
    "total_timesteps": 'stop={"env_steps": 100_000}',
    "minutes": 'stop={"env_steps": 100_000}',
    "progress_bar": "verbose=True",
    "tensorboard_log": "run_dir=",
    "callback": "callbacks=[MyCallback()]",
    "on_episode_end": "callbacks=[MyCallback()]",
    "policy_mapping_fn": "policy_mapping takes a function",
    "policy_kwargs": 'model={"hidden"',
    "privileged": "docs/how-to/central-critics.md",
    "asymmetric": "docs/how-to/central-critics.md",
    "n_envs": "did you mean 'num_envs'",
}
NAMES = {
    "make_vec_env": "num_envs=8",
    "VecNormalize": "normalize_obs",
    "VecFrameStack": "frame_stack",
    "EvalCallback": "evaluation_every=5",
    "Monitor": "returns and lengths",
    "evaluate_policy": "trainer.evaluate",
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_an_argument_of_another_library_is_refused_with_its_remedy(name):
    with pytest.raises(ConfigError, match=f"{name} = .*Trainer has no such argument") as error:
        Trainer("CartPole-v1", **{name: 1})
    assert ARGUMENTS[name] in str(error.value)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_another_library_is_missing_with_its_remedy(name):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'") as error:
        getattr(rookery, name)
    assert NAMES[name] in str(error.value)
    with pytest.raises(AttributeError, match="no attribute 'vecnorm'$"):
        _ = rookery.vecnorm


def test_methods_that_other_libraries_call_otherwise_say_so():
    with Trainer("CartPole-v1", PPOConfig(model={"hidden": (4,)}), num_envs=1, env_processes=0, seed=0) as trainer:
        with pytest.raises(ConfigError, match=r"trainer\.train\(stop=\{\.\.\.\}\) plays and learns"):
            trainer.learn(100_000)
        with pytest.raises(ConfigError, match=r"policy\.predict\(obs\)"):
            trainer.policies["main"].act({"obs": torch.zeros(1, 4)})
    with pytest.raises(ConfigError, match="frame_stack = 4 beside it stacks observations"):
        PPOConfig(model={"memory": {"kind": "stack"}})
    with pytest.raises(EnvError, match=r"log\.csv' is a data file: rookery replay import log\.csv"):
        Trainer("log.csv")


def test_a_callback_with_the_signature_of_rllib_is_refused_when_it_is_written():
    with pytest.raises(ConfigError, match=r"Old\.on_episode_end\(.*write on_episode_end\(self, episode\)"):

        class Old(Callback):
            def on_episode_end(self, *, worker, base_env, policies, episode, **kwargs):
                """As in 2021."""

    class Own(Callback):
        def on_episode_end(self, episode, more=None):
            """One argument more, with a default."""


def test_a_callback_of_stable_baselines3_is_refused_when_it_is_written():
    with pytest.raises(ConfigError, match=r"Old\._on_step: .*write on_episode_step\(self, episode\)"):

        class Old(Callback):
            def _on_step(self):
                return True


def test_a_name_of_another_library_is_refused_in_an_import_too():
    with pytest.raises(ImportError, match=r"cannot import name 'evaluate_policy' from 'rookery': trainer\.evaluate"):
        from rookery import evaluate_policy  # noqa: F401
    with pytest.raises(ImportError, match=r"cannot import name 'vecnorm' from 'rookery' \("):
        from rookery import vecnorm  # noqa: F401


def test_a_setting_of_the_algorithm_given_to_the_trainer_names_its_class():
    with pytest.raises(ConfigError, match="did you mean 'lr' of PPOConfig"):
        Trainer("CartPole-v1", PPOConfig(), learning_rate=1e-3)
    with pytest.raises(ConfigError, match="did you mean 'gamma' of PPOConfig"):
        Trainer("CartPole-v1", PPOConfig(), gamma=0.9)


def test_a_schedule_as_a_function_shows_the_form_here():
    with pytest.raises(ConfigError, match="a schedule of it, such as {'start': 0.001, 'end': 0}"):
        PPOConfig(lr=lambda left: left * 1e-3)


def test_an_instance_with_an_id_names_the_id():
    with pytest.raises(EnvError, match=r"did you mean 'CartPole-v1'\?"):
        Trainer(gymnasium.make("CartPole-v1"), PPOConfig())


def test_algorithms_and_metrics_of_other_libraries_have_a_remedy():
    with pytest.raises(ConfigError, match="'ppo_lstm': no such name; write ppo, with algorithm.model.memory.kind=lstm"):
        Trainer("CartPole-v1", "ppo_lstm")
    trainer = Trainer("CartPole-v1", PPOConfig(model={"hidden": (4,)}), num_envs=1, env_processes=0, seed=0)
    with trainer, pytest.raises(ConfigError, match="did you mean 'env_steps'"):
        trainer.train(stop={"total_timesteps": 100})


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (["train", "CartPole-v1", "--n-timesteps", "100"], "--stop env_steps=100000"),
        (["tune", "CartPole-v1", "--n-trials", "3"], "tune.search=optuna"),
        (["enjoy", "pole"], "rookery record RUN"),
    ],
)
def test_options_and_commands_of_rl_zoo_have_a_remedy(rookery, words, remedy):
    code, _, err = rookery(*words)
    assert code == 2
    assert remedy in err


def test_explain_names_an_algorithm(rookery):
    code, _, err = rookery("explain", "dqn")
    assert code == 2
    assert "dqn: this is an algorithm, but explain takes a run" in err


def test_the_return_of_a_policy_in_an_evaluation_is_a_number_with_attributes():
    with Trainer("CartPole-v1", PPOConfig(model={"hidden": (4,)}), num_envs=1, env_processes=0, seed=0) as trainer:
        measured = trainer.evaluate(2)
    main = measured.policies["main"]
    assert main == main.return_mean == measured.return_mean
    assert main.episodes == 2
    assert f"{main:.1f}" == f"{measured.return_mean:.1f}"
    assert main + 1 > measured.return_mean
