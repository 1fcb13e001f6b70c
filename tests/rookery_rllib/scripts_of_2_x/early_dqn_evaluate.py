from ray.rllib.algorithms.dqn import DQNConfig

config = (
    DQNConfig()
    .environment("CartPole-v1")
    .rollouts(num_rollout_workers=1, num_envs_per_worker=2)
    .framework("torch")
    .training(
        model={"fcnet_hiddens": [16]},
        train_batch_size=8,
        replay_buffer_config={
            "type": "MultiAgentPrioritizedReplayBuffer",
            "capacity": 1000,
            "prioritized_replay_alpha": 0.5,
        },
        num_steps_sampled_before_learning_starts=20,
        target_network_update_freq=100,
    )
    .exploration(explore=True, exploration_config={"type": "EpsilonGreedy", "epsilon_timesteps": 100})
    .reporting(min_sample_timesteps_per_iteration=50)
    .evaluation(evaluation_num_workers=1, evaluation_duration=2, evaluation_config={"explore": False})
)
algo = config.build()
for _ in range(2):
    result = algo.train()
found = algo.evaluate()
assert found["evaluation"]["episodes_this_iter"] == 2
assert result["sampler_results"]["episode_len_mean"] > 0
