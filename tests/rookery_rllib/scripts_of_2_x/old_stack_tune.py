from ray import train, tune
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.tune.schedulers import ASHAScheduler

config = (
    PPOConfig()
    .api_stack(enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False)
    .environment("CartPole-v1")
    .env_runners(num_env_runners=0)
    .training(train_batch_size=100, minibatch_size=50, num_epochs=1, lr=tune.loguniform(1e-4, 1e-2))
)
results = tune.Tuner(
    PPO,
    param_space=config,
    tune_config=tune.TuneConfig(
        metric="env_runners/episode_reward_mean",
        mode="max",
        num_samples=2,
        scheduler=ASHAScheduler(max_t=2),
    ),
    run_config=train.RunConfig(
        name="old_stack",
        stop={"training_iteration": 2},
        verbose=0,
        checkpoint_config=train.CheckpointConfig(checkpoint_frequency=1, num_to_keep=1),
    ),
).fit()
best = results.get_best_result()
assert best.metrics["env_runners"]["episode_reward_mean"] > 0
algo = PPO.from_checkpoint(best.checkpoint)
assert algo.iteration >= 1
