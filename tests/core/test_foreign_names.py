"""Attributes, arguments and metrics of RLlib are answered with what stands for them here."""

import pickle

import pytest

import rookery
from rookery import Callback, PPOConfig, Trainer
from rookery.core.errors import ConfigError
from rookery.core.settings.hints import ATTRIBUTES, METRICS, ForeignNames


class Owner(ForeignNames):
    @property
    def predict(self):
        return self.missing


def test_attributes_of_another_library_are_answered():
    with Trainer("CartPole-v1", PPOConfig(model={"hidden": (8,)}, rollout_size=64, epochs=1), seed=0) as trainer:
        result = trainer.train_iteration()
        for owner, name in (
            (trainer, "compute_single_action"),
            (result, "episode_reward_mean"),
            (PPOConfig(), "build"),
        ):
            with pytest.raises(AttributeError, match="object has no attribute") as caught:
                getattr(owner, name)
            assert str(caught.value).endswith(ATTRIBUTES[name])
        with pytest.raises(ConfigError, match="did you mean 'iterations'"):
            trainer.train(stop={"training_iteration": 3})
    assert not hasattr(trainer, "nothing_of_this_name") and pickle.loads(pickle.dumps(result)) == result


def test_an_error_inside_of_a_property_is_not_replaced():
    with pytest.raises(AttributeError, match="'missing'"):
        Owner().predict


def test_metrics_for_those_of_rllib_exist(tmp_path):
    with Trainer("CartPole-v1", PPOConfig(model={"hidden": (8,)}, rollout_size=64, epochs=1), seed=0) as trainer:
        for name in set(METRICS.values()) - {"evaluation/return_mean"}:  # that needs evaluations
            trainer.train(stop={name: 0.001 if name == "seconds" else 1})


@pytest.mark.parametrize("name", ["num_workers", "policies_to_train", "multiagent", "input", "num_gpus", "framework"])
def test_arguments_of_rllib_are_answered(name):
    with pytest.raises(ConfigError, match="Trainer has no such argument; (?!did you mean)"):
        Trainer("CartPole-v1", PPOConfig(), **{name: 2})


def test_a_callback_method_of_rllib_is_answered():
    with pytest.raises(ConfigError, match=r"write on_iteration\(self, trainer, result\)"):
        type("Old", (Callback,), {"on_train_result": lambda self, *, algorithm, result, **kwargs: None})


def test_an_episode_of_a_callback_and_the_package_answer_too():
    class Old(Callback):
        def on_episode_end(self, episode):
            episode.custom_metrics["x"] = 1

    with (
        Trainer("CartPole-v1", PPOConfig(model={"hidden": (8,)}), seed=0, callbacks=[Old()]) as trainer,
        pytest.raises(AttributeError, match="episode.metrics"),
    ):
        trainer.train_iteration()
    with pytest.raises(AttributeError, match="rookery rllib run"):
        rookery.PPOTrainer  # noqa: B018
