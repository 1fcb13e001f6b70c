from ray.rllib.algorithms.ppo import PPOConfig

config = (
    PPOConfig()
    .api_stack(enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False)
    .environment("CartPole-v1")
    .env_runners(num_env_runners=1, num_envs_per_env_runner=2, rollout_fragment_length="auto")
    .training(
        train_batch_size=200, minibatch_size=100, num_epochs=1, model={"fcnet_hiddens": [8], "vf_share_layers": True}
    )
)
config.normalize_actions = False
algo = config.build_algo()
result = algo.train()
assert result["env_runners"]["episode_reward_mean"] > 0
assert result["info"]["learner"]["default_policy"]["learner_stats"]["entropy"] > 0
assert result["num_env_steps_sampled_lifetime"] == 200
print(algo.compute_single_action([0.0, 0.0, 0.0, 0.0], explore=False))
