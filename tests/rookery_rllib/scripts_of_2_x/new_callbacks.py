from collections import defaultdict

import numpy as np
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger


class Angles(RLlibCallback):
    def __init__(self):
        super().__init__()
        self.angles = defaultdict(list)

    def on_episode_step(self, *, episode: SingleAgentEpisode, env, **kwargs) -> None:
        self.angles[episode.id_].append(abs(episode.get_observations(-1)[2]))
        assert env.envs[0].unwrapped.gravity == 9.8

    def on_episode_end(
        self, *, episode, env_runner, metrics_logger: MetricsLogger, env, env_index, rl_module, **kwargs
    ):
        metrics_logger.log_value("angle", np.mean(self.angles.pop(episode.id_)), window=10)
        metrics_logger.log_value("longest", len(episode), reduce="max")
        assert episode.get_return() == len(episode)


algo = (
    PPOConfig()
    .environment("CartPole-v1")
    .env_runners(num_env_runners=0)
    .training(train_batch_size_per_learner=200, minibatch_size=100, num_epochs=1)
    .callbacks(
        Angles,
        on_train_result=lambda *, algorithm, metrics_logger, result, **kwargs: result.update(seen=True),
    )
    .build_algo()
)
result = algo.train()
assert result["seen"] and 0 < result["env_runners"]["angle"] < 0.3
assert result["env_runners"]["longest"] == result["env_runners"]["episode_len_max"]
