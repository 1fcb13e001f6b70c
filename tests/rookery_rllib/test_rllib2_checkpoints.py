"""Checkpoints of RLlib 2.x: an algorithm is made of one again, and continues as if it had never been stopped."""

import json
import os

import gymnasium
import numpy as np
import pytest
import torch

from rookery.core.errors import ConfigError
from rookery.core.io.files import FileError
from rookery_rllib.base.imports import find
from rookery_rllib.base.registrations import ENVIRONMENTS, register_env
from rookery_rllib.env.envs import make_multi_agent
from rookery_rllib.policy.policies import PolicySpec
from rookery_rllib.rllib2 import stored_configs
from rookery_rllib.rllib2.algorithm import Algorithm
from rookery_rllib.rllib2.algorithm_classes import PPO, PPOConfig
from rookery_rllib.rllib2.modules.rl_modules import RLModule


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path / "results"))
    before = dict(ENVIRONMENTS)
    yield
    ENVIRONMENTS.clear()
    ENVIRONMENTS.update(before)


@pytest.fixture
def elsewhere(monkeypatch):
    """Another process: it has made no configurations."""
    return lambda: monkeypatch.setattr(stored_configs, "_made", {})


def small(config=None):
    config = (config or PPOConfig()).environment("CartPole-v1").env_runners(num_env_runners=0).debugging(seed=1)
    return config.training(train_batch_size=40, minibatch_size=20, num_epochs=1, model={"fcnet_hiddens": [8]})


def test_an_algorithm_of_a_checkpoint_continues_exactly(tmp_path, elsewhere):
    algo = small().build_algo()
    algo.train()
    path = algo.save_to_path(tmp_path / "saved")
    expected = algo.train()
    elsewhere()
    again = Algorithm.from_checkpoint(path)
    assert isinstance(again, PPO) and again.config.train_batch_size == 40
    found = again.train()
    assert found["learners"] == expected["learners"] and found["training_iteration"] == 2
    assert found["num_env_steps_sampled_lifetime"] == 80


@pytest.mark.parametrize("as_given", [lambda saved: saved, lambda saved: saved.checkpoint, lambda saved: saved.path])
def test_what_save_returns_is_a_path_and_a_result(as_given):
    algo = small().build_algo()
    algo.train()
    saved = algo.save()
    assert PPO.from_checkpoint(as_given(saved)).iteration == 1
    other = small().build_algo()
    other.restore(as_given(saved))
    assert other.iteration == 1


def test_weights_of_a_module_alone(tmp_path):
    algo = small().build_algo()
    algo.train()
    path = algo.save_to_path(str(tmp_path / "saved"))
    other = small().debugging(seed=2).build_algo()
    other.restore_from_path(os.path.join(path, "learner_group", "learner", "rl_module", "default_policy"))
    assert other.iteration == 0
    obs = np.array([0.1, -0.2, 0.3, 0.4], np.float32)
    logits = [each.get_module().forward_inference({"obs": torch.from_numpy(obs[None])}) for each in (algo, other)]
    assert torch.equal(logits[0]["action_dist_inputs"], logits[1]["action_dist_inputs"])
    with pytest.raises(ConfigError, match="only modules"):
        other.restore_from_path(path, component="learner_group/learner/optimizer")


def test_modules_and_policies_of_a_checkpoint(tmp_path, elsewhere):
    register_env("my_env", lambda config: gymnasium.make("CartPole-v1"))
    algo = small().environment("my_env").build_algo()
    path = algo.save_to_path(tmp_path / "saved")
    elsewhere()
    module = RLModule.from_checkpoint(os.path.join(path, "learner_group", "learner", "rl_module", "default_policy"))
    obs = np.array([0.1, -0.2, 0.3, 0.4], np.float32)
    chosen = int(module.forward_inference({"obs": torch.from_numpy(obs[None])})["action_dist_inputs"].argmax())
    policy = find("ray.rllib.policy.policy").Policy.from_checkpoint(path)["default_policy"]
    assert policy.compute_single_action(obs, explore=False)[0] == chosen
    policy = find("ray.rllib.policy.policy").Policy.from_checkpoint(os.path.join(path, "policies", "default_policy"))
    assert policy.compute_single_action(obs, explore=False)[0] == chosen


def test_functions_without_a_name_are_given_again_in_another_process(tmp_path, elsewhere):
    def config():
        made = small().environment(make_multi_agent("CartPole-v1"), env_config={"num_agents": 2})
        return made.multi_agent(
            policies={"a": PolicySpec(config={"lr": 1e-3}), "b": PolicySpec()},
            policy_mapping_fn=lambda agent_id, episode, **kwargs: "ab"[agent_id],
        )

    register_env("two", lambda config: make_multi_agent("CartPole-v1")({"num_agents": 2}))
    algo = config().environment("two").build_algo()
    path = algo.save_to_path(tmp_path / "saved")
    assert set(Algorithm.from_checkpoint(path).policy_facades) == {"a", "b"}
    elsewhere()
    with pytest.raises(ConfigError, match=r"multiagent.policy_mapping_fn = <function.*restore_from_path"):
        Algorithm.from_checkpoint(path)
    again = Algorithm.from_checkpoint(path, policy_mapping_fn=lambda agent_id, episode, **kwargs: "ab"[agent_id])
    assert again.translation.policies["a"].config == {"lr": 1e-3}


def test_functions_without_a_name_are_found_by_their_place_if_another_process_wrote_the_checkpoint(tmp_path, elsewhere):
    config = small().environment(make_multi_agent("CartPole-v1"), env_config={"num_agents": 1})
    config = config.multi_agent(policies={"a"}, policy_mapping_fn=lambda agent_id, episode, **kwargs: "a")
    path = config.build_algo().save_to_path(tmp_path / "saved")
    elsewhere()
    assert config.param_space["multiagent"]["policies"] == {"a"}  # given to Tune, whose trial has written it
    assert Algorithm.from_checkpoint(path).config["multiagent"]["policy_mapping_fn"](0, None) == "a"


def test_a_checkpoint_names_no_code_outside_of_the_script(tmp_path, elsewhere):
    algo = small().build_algo()
    path = algo.save_to_path(tmp_path / "saved")
    file = tmp_path / "saved" / stored_configs.FILE
    content = json.loads(file.read_text())
    content["config"]["dict"]["env"] = {"object": ["os", "system"]}
    file.write_text(json.dumps(content))
    elsewhere()
    with pytest.raises(ConfigError, match="env = os.system, which is not in this script"):
        Algorithm.from_checkpoint(path)


def test_a_path_that_is_no_checkpoint_is_refused(tmp_path):
    with pytest.raises(FileError, match="is in no checkpoint of an algorithm"):
        Algorithm.from_checkpoint(tmp_path)
