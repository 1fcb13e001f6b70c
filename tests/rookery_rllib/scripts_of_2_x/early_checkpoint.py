import os
import tempfile

import gymnasium as gym
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.policy.policy import Policy

config = PPOConfig().environment("CartPole-v1").rollouts(num_rollout_workers=0)
config = config.training(train_batch_size=100, sgd_minibatch_size=50, num_sgd_iter=1)
algo = config.build()
algo.train()
place = algo.save(os.path.join(tempfile.mkdtemp(), "checkpoint"))

restored = Algorithm.from_checkpoint(place)
assert restored.iteration == 1
policy = Policy.from_checkpoint(place)["default_policy"]
env = gym.make("CartPole-v1")
obs, info = env.reset(seed=1)
terminated = truncated = False
total = 0.0
while not terminated and not truncated:
    action = restored.compute_single_action(obs, explore=False)
    assert action == policy.compute_single_action(obs, explore=False)[0]
    obs, reward, terminated, truncated, info = env.step(action)
    total += reward
assert total > 0
restored.train()
