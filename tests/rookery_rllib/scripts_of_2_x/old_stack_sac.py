from ray.rllib.algorithms.sac import SACConfig

config = (
    SACConfig()
    .api_stack(enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False)
    .environment("Pendulum-v1")
    .env_runners(num_env_runners=0, rollout_fragment_length=1)
    .training(
        train_batch_size=16,
        tau=0.01,
        num_steps_sampled_before_learning_starts=20,
        replay_buffer_config={"type": "MultiAgentReplayBuffer", "capacity": 1000},
        q_model_config={"fcnet_hiddens": [16]},
        policy_model_config={"fcnet_hiddens": [16]},
        optimization_config={
            "actor_learning_rate": 1e-3,
            "critic_learning_rate": 1e-3,
            "entropy_learning_rate": 1e-3,
        },
    )
    .reporting(min_sample_timesteps_per_iteration=200)
)
algo = config.build()
result = algo.train()
stats = result["info"]["learner"]["default_policy"]["learner_stats"]
assert result["env_runners"]["episode_reward_mean"] < 0 and stats["alpha_value"] > 0
