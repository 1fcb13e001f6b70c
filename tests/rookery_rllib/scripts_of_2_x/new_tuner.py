from ray import tune
from ray.rllib.algorithms.ppo import PPOConfig

config = (
    PPOConfig()
    .environment("CartPole-v1")
    .env_runners(num_env_runners=0)
    .training(
        lr=tune.grid_search([0.001, 0.0001]),
        train_batch_size_per_learner=100,
        minibatch_size=50,
        num_epochs=1,
    )
)
tuner = tune.Tuner(
    config.algo_class,
    param_space=config,
    run_config=tune.RunConfig(
        stop={"env_runners/episode_return_mean": 400.0, "num_env_steps_sampled_lifetime": 200},
        checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=True),
        verbose=0,
    ),
)
results = tuner.fit()
best = results.get_best_result(metric="env_runners/episode_return_mean", mode="max")
assert best.metrics["num_env_steps_sampled_lifetime"] == 200 and best.checkpoint.path
algo = config.training(lr=best.config["lr"]).build_algo()
algo.restore_from_path(best.checkpoint.path)
assert algo.iteration == 2
