import ray
from ray import air, tune
from ray.rllib.algorithms.ppo import PPOConfig

ray.init(ignore_reinit_error=True, local_mode=True)
config = (
    PPOConfig()
    .environment("CartPole-v1")
    .rollouts(num_rollout_workers=0)
    .training(
        lr=tune.grid_search([1e-3, 1e-4]),
        train_batch_size=100,
        sgd_minibatch_size=50,
        num_sgd_iter=1,
        model={"fcnet_hiddens": [8]},
    )
)
tuner = tune.Tuner(
    "PPO",
    param_space=config.to_dict(),
    run_config=air.RunConfig(
        stop={"training_iteration": 2, "timesteps_total": 10_000},
        checkpoint_config=air.CheckpointConfig(checkpoint_at_end=True),
        verbose=0,
    ),
)
results = tuner.fit()
best = results.get_best_result("episode_reward_mean", "max")
assert best.metrics["training_iteration"] == 2 and best.config["lr"] in (1e-3, 1e-4)
assert len(results) == 2
