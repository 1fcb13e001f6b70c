"""What settings are called elsewhere: names of Stable-Baselines3, RLlib and ML-Agents, and ours for the same thing.

The table gives hints only. Nobody's name is taken for ours, because values may mean something else: ML-Agents counts
`buffer_size` in decisions of an update, Stable-Baselines3 in decisions that are kept.
"""

from __future__ import annotations

OTHER_NAMES: dict[str, tuple[str, ...]] = {
    # the same word in several libraries
    "learning_rate": ("lr",),
    "buffer_size": ("replay.capacity", "batch_size"),
    # Stable-Baselines3
    "n_steps": ("fragment_length", "n_step"),
    "batch_size": ("minibatch_size", "batch_size"),
    "n_epochs": ("epochs",),
    "ent_coef": ("entropy_coef", "alpha"),
    "vf_coef": ("value_coef",),
    "clip_range": ("clip",),
    "clip_range_vf": ("value_clip",),
    "n_envs": ("num_envs",),
    "total_timesteps": ("stop.env_steps", "stop"),
    "gradient_steps": ("updates_per_step",),
    "train_freq": ("train_every",),
    "target_update_interval": ("target.every_env_steps", "every_env_steps"),
    "exploration_fraction": ("exploration.epsilon", "exploration"),
    "net_arch": ("model.hidden", "hidden"),
    "policy_kwargs": ("model",),
    "use_sde": ("exploration.kind", "exploration"),
    # RLlib
    "workers": ("sampling.workers", "place"),
    "lambda": ("gae_lambda", "trace_lambda"),
    "lambda_": ("gae_lambda", "trace_lambda"),
    "train_batch_size": ("batch_size",),
    "train_batch_size_per_learner": ("batch_size",),
    "num_sgd_iter": ("epochs",),
    "num_epochs": ("epochs",),
    "sgd_minibatch_size": ("minibatch_size", "batch_size"),
    "clip_param": ("clip",),
    "vf_clip_param": ("value_clip",),
    "vf_loss_coeff": ("value_coef",),
    "entropy_coeff": ("entropy_coef", "alpha"),
    "kl_coeff": ("kl_coef",),
    "grad_clip": ("max_grad_norm",),
    "num_env_runners": ("sampling.workers", "workers", "helpers"),
    "num_workers": ("sampling.workers", "workers", "helpers"),
    "num_envs_per_env_runner": ("num_envs",),
    "num_envs_per_worker": ("num_envs",),
    "rollout_fragment_length": ("fragment_length", "train_every"),
    "num_steps_sampled_before_learning_starts": ("learning_starts",),
    "target_network_update_freq": ("target.every_env_steps", "every_env_steps"),
    "fcnet_hiddens": ("model.hidden", "hidden"),
    "fcnet_activation": ("model.activation", "activation"),
    "vf_share_layers": ("model.shared_trunk", "shared_trunk"),
    "policy_mapping_fn": ("policy_mapping",),
    "evaluation_interval": ("evaluation.every", "every"),
    "evaluation_duration": ("evaluation.episodes", "episodes"),
    # ML-Agents
    "beta": ("entropy_coef",),
    "epsilon": ("clip", "exploration.epsilon"),
    "lambd": ("gae_lambda", "trace_lambda"),
    "num_epoch": ("epochs",),
    "time_horizon": ("fragment_length",),
    "hidden_units": ("model.hidden", "hidden"),
    "num_layers": ("model.hidden", "hidden"),
    "normalize": ("model.normalize_obs", "normalize_obs"),
    "max_steps": ("stop.env_steps", "stop"),
    "init_path": ("init_from",),
    "trainer_type": ("name",),
    "buffer_init_steps": ("learning_starts",),
    "steps_per_update": ("updates_per_step",),
}
"""Our paths for a name of another library, the likeliest first; which one is meant depends on the algorithm."""
