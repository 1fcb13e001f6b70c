"""Tune of Ray 2.x with algorithms of RLlib 2.x: `Tuner`, nested metrics, checkpoints."""

import gymnasium
import numpy as np
import pytest

from rookery_rllib.base import machine
from rookery_rllib.base.imports import find
from rookery_rllib.rllib2.algorithm_classes import PPO, PPOConfig
from rookery_rllib.tune.space import grid_search
from rookery_rllib.tune.tuner import CheckpointConfig, RunConfig, TuneConfig, Tuner

RETURN = "env_runners/episode_return_mean"


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path / "results"))
    machine.use_machine(local_mode=True, num_cpus=None)
    yield tmp_path / "results"
    machine.use_machine(local_mode=False, num_cpus=None)


class Paying(gymnasium.Env):
    """Episodes of four steps, each with the reward of the settings."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, config):
        self.reward, self.steps = config.get("reward", 1.0), 0

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(2, np.float32), self.reward, self.steps == 4, False, {}


def small() -> PPOConfig:
    config = PPOConfig().environment(Paying).env_runners(num_env_runners=0)
    return config.training(train_batch_size=40, minibatch_size=20, num_epochs=1, model={"fcnet_hiddens": [8]})


def test_a_tuner_searches_and_finds_the_best_by_a_nested_metric():
    config = small().environment(env_config={"reward": grid_search([1.0, 3.0])})
    tuner = Tuner(
        "PPO",
        param_space=config,
        tune_config=TuneConfig(metric=RETURN, mode="max", num_samples=1),
        run_config=RunConfig(
            stop={"training_iteration": 2}, checkpoint_config=CheckpointConfig(checkpoint_at_end=True)
        ),
    )
    grid = tuner.fit()
    assert (len(grid), grid.num_errors) == (2, 0)
    best = grid.get_best_result()
    assert best.metrics["env_runners"]["episode_return_mean"] == 12.0
    assert best.config["env_config"] == {"reward": 3.0}
    assert best.metrics["num_env_steps_sampled_lifetime"] == 80
    assert best.checkpoint.path.startswith(best.path) and best.get_best_checkpoint(RETURN, "max") is not None
    again = small().build_algo()
    again.restore(best.checkpoint.path)
    assert again.train()["training_iteration"] == 3


@pytest.mark.parametrize(
    ("stop", "iterations"),
    [({RETURN: 4.0}, 1), ({"num_env_steps_sampled_lifetime": 120}, 3), ({"env_runners/num_episodes_lifetime": 20}, 2)],
)
def test_a_trial_stops_at_a_nested_metric(stop, iterations):
    grid = Tuner(PPO, param_space=small().to_dict(), run_config=RunConfig(stop={**stop, "training_iteration": 9})).fit()
    assert grid[0].metrics["training_iteration"] == iterations


def test_a_flat_dict_with_names_of_today_is_a_space():
    space = {
        "env": Paying, "num_env_runners": 0, "train_batch_size_per_learner": 20, "minibatch_size": 10, "num_epochs": 1,
        "lr": grid_search([1e-3, 1e-4]),
    }  # fmt: skip
    grid = Tuner("PPO", param_space=space, run_config=RunConfig(stop={"training_iteration": 1})).fit()
    assert sorted(result.config["lr"] for result in grid) == [1e-4, 1e-3]
    assert {result.metrics["learners"]["default_policy"]["default_optimizer_learning_rate"] for result in grid} == {
        1e-3, 1e-4,
    }  # fmt: skip


def test_run_takes_the_dict_of_a_configuration():
    from rookery_rllib.script.finder import find_for_script

    find_for_script("ray.rllib.algorithms.ppo")
    run = find("ray.tune.run")
    analysis = run(
        "PPO", config=small().to_dict(), stop={"episode_reward_mean": 1.0, "training_iteration": 3}, verbose=0
    )
    assert analysis.trials[0].last_result["training_iteration"] == 1


def test_a_function_reports_a_dict_and_a_checkpoint(tmp_path):
    train = find("ray.train")

    def learn(config):
        place = tmp_path / "written"
        place.mkdir(exist_ok=True)
        for step in range(2):
            (place / "step").write_text(str(step))
            train.report({"score": config["x"] + step}, checkpoint=train.Checkpoint.from_directory(str(place)))

    grid = Tuner(learn, param_space={"x": 3}, tune_config=TuneConfig(metric="score", mode="max")).fit()
    best = grid.get_best_result()
    assert best.metrics["score"] == 4
    with best.checkpoint.as_directory() as folder:
        assert open(f"{folder}/step").read() == "1"
