import numpy as np
from ray.rllib.algorithms.sac.sac import SACConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from torch import nn

config = (
    SACConfig()
    .environment("Pendulum-v1")
    .training(
        initial_alpha=1.001,
        actor_lr=1e-3,
        critic_lr=1e-3,
        alpha_lr=1e-3,
        lr=None,
        target_entropy="auto",
        n_step=1,
        tau=0.005,
        train_batch_size_per_learner=16,
        target_network_update_freq=0,
        replay_buffer_config={
            "type": "PrioritizedEpisodeReplayBuffer",
            "capacity": 100000,
            "alpha": 1.0,
            "beta": 0.0,
        },
        num_steps_sampled_before_learning_starts=50,
    )
    .rl_module(
        model_config=DefaultModelConfig(
            fcnet_hiddens=[16],
            fcnet_activation="relu",
            fcnet_kernel_initializer=nn.init.xavier_uniform_,
            head_fcnet_hiddens=[],
        )
    )
    .reporting(metrics_num_episodes_for_smoothing=5, min_sample_timesteps_per_iteration=250)
)
algo = config.build_algo()
result = algo.train()
assert result["env_runners"]["episode_return_mean"] < 0 and result["learners"]["default_policy"]["alpha_value"] > 0
action = algo.compute_single_action(np.zeros(3, np.float32), explore=False)
assert action.shape == (1,) and -2 <= action[0] <= 2
