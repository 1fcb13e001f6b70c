import gymnasium as gym
import numpy as np
import torch
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.tune.registry import get_trainable_cls, register_env


class Corridor(gym.Env):
    def __init__(self, config):
        self.end_pos = config["corridor_length"]
        self.cur_pos = 0
        self.action_space = gym.spaces.Discrete(2)
        self.observation_space = gym.spaces.Box(0.0, self.end_pos, shape=(1,), dtype=np.float32)

    def reset(self, *, seed=None, options=None):
        self.cur_pos = 0
        return np.array([self.cur_pos], np.float32), {}

    def step(self, action):
        self.cur_pos = max(self.cur_pos + (1 if action == 1 else -1), 0)
        done = self.cur_pos >= self.end_pos
        return np.array([self.cur_pos], np.float32), 1.0 if done else -0.1, done, False, {}


register_env("corridor_of_a_script", lambda config: Corridor(config))
config = (
    get_trainable_cls("IMPALA")
    .get_default_config()
    .api_stack(enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False)
    .environment("corridor_of_a_script", env_config={"corridor_length": 3})
    .env_runners(num_env_runners=1, rollout_fragment_length=25)
    .training(train_batch_size=50)
    .resources(num_gpus=1 if torch.cuda.is_available() else 0)
)
assert isinstance(config, IMPALAConfig)
algo = config.build()
assert algo.train()["episode_reward_mean"] > -100
