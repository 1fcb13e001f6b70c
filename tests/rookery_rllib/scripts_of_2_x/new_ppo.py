from pprint import pprint

import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.connectors.env_to_module import FlattenObservations

config = (
    PPOConfig()
    .environment("FrozenLake-v1")
    .env_runners(num_env_runners=2, env_to_module_connector=lambda env: FlattenObservations())
    .training(train_batch_size_per_learner=200, minibatch_size=100, num_epochs=1, lr=0.0004)
    .evaluation(evaluation_num_env_runners=1, evaluation_interval=1, evaluation_duration=3)
)
algo = config.build_algo()
for _ in range(2):
    result = algo.train()
pprint(result["env_runners"]["episode_len_mean"])
assert result["evaluation"]["env_runners"]["num_episodes"] == 3
module = algo.get_module("default_policy")
out = module.forward_inference({"obs": torch.nn.functional.one_hot(torch.tensor([3]), 16).float()})
assert out["action_dist_inputs"].shape == (1, 4)
algo.stop()
