import numpy as np
from ray.rllib.algorithms.callbacks import DefaultCallbacks
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env import BaseEnv
from ray.rllib.evaluation import Episode, RolloutWorker
from ray.rllib.policy import Policy


class MyCallbacks(DefaultCallbacks):
    def on_episode_start(
        self,
        *,
        worker: RolloutWorker,
        base_env: BaseEnv,
        policies: dict[str, Policy],
        episode: Episode,
        env_index: int,
        **kwargs,
    ):
        assert episode.length <= 0
        episode.user_data["pole_angles"] = []
        episode.hist_data["pole_angles"] = []

    def on_episode_step(self, *, worker, base_env, policies, episode, env_index, **kwargs):
        pole_angle = abs(episode.last_observation_for()[2])
        raw_angle = abs(episode.last_raw_obs_for()[2])
        assert pole_angle == raw_angle
        episode.user_data["pole_angles"].append(pole_angle)

    def on_episode_end(self, *, worker, base_env, policies, episode, env_index, **kwargs):
        episode.custom_metrics["pole_angle"] = np.mean(episode.user_data["pole_angles"])
        episode.hist_data["pole_angles"] = episode.user_data["pole_angles"]

    def on_train_result(self, *, algorithm, result: dict, **kwargs):
        result["callback_ok"] = True

    def on_learn_on_batch(self, *, policy, train_batch, result: dict, **kwargs) -> None:
        result["sum_actions_in_train_batch"] = np.sum(train_batch["actions"])


algo = (
    PPOConfig()
    .environment("CartPole-v1")
    .rollouts(num_rollout_workers=0, num_envs_per_worker=2)
    .training(train_batch_size=200, sgd_minibatch_size=100, num_sgd_iter=1)
    .callbacks(MyCallbacks)
    .build()
)
result = algo.train()
assert result["callback_ok"] and 0 < result["custom_metrics"]["pole_angle_mean"] < 1
assert "sum_actions_in_train_batch" in result["info"]["learner"]["default_policy"]["custom_metrics"]
