"""Custom models with DDPG and TD3: features for the layers of actor and critics."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from torch import nn

from rookery.core.errors import ConfigError
from rookery_rllib.base import ray_core
from rookery_rllib.model.model_v2 import TorchModelV2
from rookery_rllib.trainer.trainers import DDPGTrainer, PPOTrainer, SACTrainer, TD3Trainer


class Features(TorchModelV2, nn.Module):
    def __init__(self, obs_space, action_space, num_outputs, model_config, name):
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)
        nn.Module.__init__(self)
        self.layer = nn.Linear(obs_space.shape[0], num_outputs)

    def forward(self, input_dict, state, seq_lens):
        return torch.tanh(self.layer(input_dict["obs"].float())), state


class Target:
    """Shows a number; an action earns the more, the nearer it is to half of that number. One step an episode."""

    observation_space, action_space = Box(-1.0, 1.0, (2,), np.float32), Box(-1.0, 1.0, (1,), np.float32)
    task = 0

    def __init__(self, config=None):
        self.rng = np.random.default_rng(0)

    def reset(self):
        self.obs = self.rng.uniform(-1, 1, 2).astype(np.float32)
        return self.obs

    def step(self, action):
        return self.obs, -float((action[0] - self.obs[0] / 2) ** 2), True, {}

    def set_task(self, task):
        self.task = task


SMALL = {
    "env": Target, "model": {"custom_model": Features}, "actor_hiddens": [16], "critic_hiddens": [16], "seed": 1,
    "learning_starts": 100, "train_batch_size": 64, "timesteps_per_iteration": 100, "tau": 0.05, "gamma": 0.0,
    "exploration_config": {"random_timesteps": 100},
}  # fmt: skip


@pytest.mark.parametrize("trainer_class", [DDPGTrainer, TD3Trainer])
def test_actor_and_critics_learn_with_models_of_the_script(trainer_class):
    trainer = trainer_class(config=SMALL)
    model = trainer.get_policy().model
    assert isinstance(model, Features) and (model.num_outputs, model.action_space) == (2, Target.action_space)
    before = model.layer.weight.clone()
    seen = np.array([[-0.8, 0.3], [0.0, -0.5], [0.8, 0.1]], np.float32)

    def error():
        return max(abs(trainer.compute_action(obs, explore=False)[0] - obs[0] / 2) for obs in seen)

    untrained = error()
    for _ in range(12):
        trainer.train()
    assert not bool((model.layer.weight == before).all())
    assert error() < 0.12 < untrained, (untrained, error())
    critics = [module for module in trainer.rookery.learners["default_policy"].critics.net.modules()
               if isinstance(module, Features)]  # fmt: skip
    assert len(critics) == (2 if trainer_class is TD3Trainer else 1) and model not in critics
    trainer.stop()


def test_what_has_no_such_models_says_so():
    with pytest.raises(ConfigError, match=r"the networks of SAC are made by settings.*use DDPG, TD3 or PPO"):
        SACTrainer(config={"env": Target, "model": {"custom_model": Features}})

    class Remembers(Features):
        def get_initial_state(self):
            return [np.zeros(3, np.float32)]

    with pytest.raises(ConfigError, match="DDPG and TD3 do not train policies with memory; use PPO"):
        DDPGTrainer(config={**SMALL, "model": {"custom_model": Remembers}})


def test_environments_with_remote_methods():
    small = {"env": Target, "train_batch_size": 20, "rollout_fragment_length": 10, "sgd_minibatch_size": 10}
    trainer = PPOTrainer(config={**small, "remote_worker_envs": True, "num_workers": 0, "num_envs_per_worker": 2})
    (refs,) = trainer.workers.foreach_env(lambda env: env.set_task.remote(3))
    assert ray_core.get(refs) == [None, None]
    assert trainer.workers.foreach_env(lambda env: env.task) == [[3, 3]]
    trainer.workers.foreach_env(lambda env: env.set_task(4))
    assert [env.task for env in trainer.env_maker.made] == [4, 4]
    trainer.stop()
