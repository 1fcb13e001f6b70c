"""LinUCB and LinTS of 2021: what RLlib's keys make of them, and what results report."""

import random

import numpy as np
import pytest

from rookery.core.errors import ConfigError
from rookery_rllib.base import machine
from rookery_rllib.config.translation import translated
from rookery_rllib.examples.bandit_envs import LinearDiscreteEnv, ParametricItemRecoEnv, WheelBanditEnv
from rookery_rllib.gym.core import Env
from rookery_rllib.gym.spaces import Box, Discrete
from rookery_rllib.trainer.trainers import LinTSTrainer, LinUCBTrainer, get_trainer_class

SMALL = {"timesteps_per_iteration": 30, "seed": 3}


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path / "results"))
    machine.use_machine(local_mode=True, num_cpus=None)
    yield
    machine.use_machine(local_mode=False, num_cpus=None)


class ThreeArms(Env):
    """As RLlib's simple example: the first or the last of three arms is the best, by the context."""

    def __init__(self, config=None):
        self.action_space, self.observation_space = Discrete(3), Box(-1.0, 1.0, (2,))

    def reset(self):
        self.sign = random.choice([-1.0, 1.0])
        return np.array([self.sign, -self.sign])

    def step(self, action):
        reward = [0.0, 0.5, 1.0][action] if self.sign < 0 else [1.0, 0.5, 0.0][action]
        return np.array([-self.sign, self.sign]), reward, True, {"regret": 1 - reward}


@pytest.mark.parametrize("kind", [LinUCBTrainer, LinTSTrainer])
def test_the_better_arm_is_found_and_the_regret_reported(kind):
    trainer = kind(config={**SMALL, "env": ThreeArms})
    first, second = (trainer.train() for _ in range(2))
    assert first["timesteps_this_iter"] == 30 and first["episodes_this_iter"] == 30
    regrets = [each["info"]["learner"]["default_policy"]["learner_stats"]["cumulative_regret"]
               for each in (first, second)]  # fmt: skip
    earned = sum(first["hist_stats"]["episode_reward"][:30])
    assert regrets[0] == pytest.approx(30 - earned)
    assert regrets[0] <= regrets[1] < 20
    assert trainer.compute_action(np.array([1.0, -1.0]), explore=False) == 0
    assert trainer.compute_action(np.array([-1.0, 1.0]), explore=False) == 2


def test_models_of_arms_are_shown_and_restored():
    trainer = LinTSTrainer(config={**SMALL, "env": WheelBanditEnv})
    trainer.train()
    saved, arms = trainer.save(), trainer.get_policy().model.arms
    assert [arm.theta.shape for arm in arms] == [(2,)] * 5
    assert all((np.linalg.eigvalsh(arm.covariance.numpy()) > 0).all() for arm in arms)
    again = LinTSTrainer(config={**SMALL, "env": WheelBanditEnv})
    again.restore(saved)
    assert [arm.theta.tolist() for arm in again.get_policy().model.arms] == [arm.theta.tolist() for arm in arms]
    expected = trainer.train()["info"]["learner"]["default_policy"]["learner_stats"]["cumulative_regret"]
    assert again.train()["info"]["learner"]["default_policy"]["learner_stats"]["cumulative_regret"] == expected


def test_items_are_features_of_actions():
    trainer = LinUCBTrainer(config={**SMALL, "env": ParametricItemRecoEnv, "env_config": {"num_candidates": 5}})
    cfg = trainer.rookery.learners["default_policy"].cfg
    assert (cfg.arm_features, cfg.exploration_scale, cfg.prior_precision, cfg.intercept) == ("item", 0.3, 0.1, False)
    trainer.train()
    assert trainer.get_policy().model.arm.theta.shape == (16,)


def test_keys_of_models_set_the_scale_and_the_prior():
    settings = translated("LinTS", {"env": "CartPole-v0", "model": {"alpha": 4, "lambda_": 0.5}}).settings
    assert settings["algorithm.exploration_scale"] == 2.0
    assert settings["algorithm.prior_precision"] == 0.5
    assert settings["sampling.iteration_steps"] == 100


@pytest.mark.parametrize(
    ("kind", "config", "message"),
    [
        ("LinUCB", {"exploration_config": {"type": "ThompsonSampling"}}, "contrib/LinTS"),
        ("LinTS", {"exploration_config": {"type": "EpsilonGreedy"}}, "bandits.exploration.ThompsonSampling"),
        ("LinUCB", {"model": {"lambda_": 0}}, "lambda_"),
        ("LinUCB", {"model": {"use_lstm": True}}, "use_lstm"),
    ],
)
def test_keys_that_do_not_fit_are_refused(kind, config, message):
    with pytest.raises(ConfigError, match=message):
        translated(kind, {"env": "CartPole-v0", **config})


def test_trainers_have_the_names_of_contrib():
    assert get_trainer_class("contrib/LinUCB") is LinUCBTrainer
    assert get_trainer_class("contrib/LinTS", return_config=True)[1]["timesteps_per_iteration"] == 100


@pytest.mark.parametrize("make", [LinearDiscreteEnv, WheelBanditEnv])
def test_environments_report_the_regret_of_the_arm(make):
    env = make()
    env.reset()
    _, reward, done, info = env.step(0)
    assert done and info["regret"] >= 0
    if make is LinearDiscreteEnv:
        assert np.allclose(np.linalg.norm(env.thetas, axis=1), 1)
    else:
        assert reward + info["regret"] == pytest.approx(50 if info["opt_action"] else 1.2, abs=0.1)
