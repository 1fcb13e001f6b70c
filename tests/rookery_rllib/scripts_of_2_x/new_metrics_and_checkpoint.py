import os
import tempfile

import gymnasium as gym
import torch
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.core import COMPONENT_LEARNER, COMPONENT_LEARNER_GROUP, COMPONENT_RL_MODULE, DEFAULT_MODULE_ID, Columns
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.utils.metrics import (
    ENV_RUNNER_RESULTS,
    EPISODE_RETURN_MEAN,
    LEARNER_RESULTS,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
)

config = (
    DQNConfig()
    .environment("CartPole-v1")
    .training(
        lr=[[0, 1e-3], [1000, 1e-4]],
        train_batch_size_per_learner=8,
        num_steps_sampled_before_learning_starts=20,
        replay_buffer_config={"type": "PrioritizedEpisodeReplayBuffer", "capacity": 1000, "alpha": 0.6, "beta": 0.4},
        epsilon=[(0, 1.0), (100, 0.05)],
        n_step=3,
        double_q=True,
        dueling=True,
    )
    .rl_module(model_config={"fcnet_hiddens": [16], "fcnet_activation": "relu", "head_fcnet_hiddens": [8]})
    .reporting(min_sample_timesteps_per_iteration=100)
)
algo = config.build_algo()
result = algo.train()
assert result[ENV_RUNNER_RESULTS][EPISODE_RETURN_MEAN] > 0 and result[NUM_ENV_STEPS_SAMPLED_LIFETIME] >= 100
assert "qf_mean" in result[LEARNER_RESULTS][DEFAULT_MODULE_ID]
path = algo.save_to_path(tempfile.mkdtemp())
part = os.path.join(path, COMPONENT_LEARNER_GROUP, COMPONENT_LEARNER, COMPONENT_RL_MODULE, DEFAULT_MODULE_ID)
module = RLModule.from_checkpoint(part)
obs, _ = gym.make("CartPole-v1").reset(seed=0)
action = module.forward_inference({Columns.OBS: torch.from_numpy(obs).unsqueeze(0)})[Columns.ACTIONS][0].item()
assert action in (0, 1)
again = Algorithm.from_checkpoint(path)
assert again.train()["training_iteration"] == 2
algo.restore_from_path(path)
assert algo.iteration == 1
