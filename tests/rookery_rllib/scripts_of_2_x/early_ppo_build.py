from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune.logger import pretty_print

config = PPOConfig()
config = config.training(gamma=0.9, lr=0.01, kl_coeff=0.3, train_batch_size=128)
config = config.resources(num_gpus=0)
config = config.rollouts(num_rollout_workers=1)

algo = config.build(env="CartPole-v1")
for _ in range(2):
    result = algo.train()
print(pretty_print({"reward": result["episode_reward_mean"], "length": result["episode_len_mean"]}))
assert result["timesteps_total"] == result["num_env_steps_sampled"] == 256
assert "total_loss" in result["info"]["learner"]["default_policy"]["learner_stats"]
checkpoint_dir = algo.save()
algo.stop()
