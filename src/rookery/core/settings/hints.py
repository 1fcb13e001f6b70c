"""Hints for names that do not exist: a typing mistake, another section, or a name of another library."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from itertools import takewhile

from rookery.core.errors import nearest

OTHER_NAMES: dict[str, tuple[str, ...]] = {
    # the same word in several libraries
    "learning_rate": ("lr",),
    "buffer_size": ("replay.capacity", "capacity", "rollout_size", "batch_size"),
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
    **dict.fromkeys(
        ("exploration_fraction", "exploration_initial_eps", "exploration_final_eps"),
        ("exploration.epsilon", "exploration"),
    ),
    "action_noise": ("exploration.std", "exploration.kind", "exploration"),
    "optimize_memory_usage": ("replay.frame_stacks", "frame_stacks"),
    "activation_fn": ("model.activation", "activation"),
    **dict.fromkeys(("features_extractor_class", "features_extractor"), ("model.module", "module")),
    "features_extractor_kwargs": ("model.module_config", "module_config"),
    "ent_coef_init": ("alpha_init",),
    "norm_obs": ("model.normalize_obs", "normalize_obs"),
    "norm_reward": ("scale_rewards",),
    "n_timesteps": ("stop.env_steps", "stop"),
    "eval_freq": ("evaluation.every", "every"),
    "n_eval_episodes": ("evaluation.episodes", "episodes"),
    "save_freq": ("checkpoint.every", "every"),
    "env_kwargs": ("env.config", "config"),
    "env_wrapper": ("env.wrappers", "wrappers"),
    "vec_env_cls": ("env.implementation", "implementation"),
    "net_arch": ("model.hidden", "hidden"),
    "policy_kwargs": ("model",),
    "use_sde": ("exploration.kind", "exploration"),
    # RLlib
    "workers": ("sampling.workers", "place"),
    "lambda": ("gae_lambda", "trace_lambda"),
    "lambda_": ("gae_lambda", "trace_lambda"),
    "train_batch_size": ("rollout_size", "batch_size"),
    "train_batch_size_per_learner": ("rollout_size", "batch_size"),
    "num_sgd_iter": ("epochs",),
    "num_epochs": ("epochs",),
    "sgd_minibatch_size": ("minibatch_size", "batch_size"),
    "clip_param": ("clip",),
    "vf_clip_param": ("value_clip",),
    "vf_loss_coeff": ("value_coef",),
    "entropy_coeff": ("entropy_coef", "alpha"),
    "kl_coeff": ("kl_coef",),
    "grad_clip": ("max_grad_norm",),
    "num_env_runners": ("sampling.workers", "workers", "env_processes"),
    "num_workers": ("sampling.workers", "workers", "env_processes"),
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
    "min_q_weight": ("conservative_weight",),
    "bc_iters": ("cloning_steps",),
    "lagrangian": ("lagrange_gap",),
    "lagrangian_thresh": ("lagrange_gap",),
    "temperature": ("conservative_temperature",),
    "critic_lr": ("lr",),
    "alpha_lr": ("lr",),
    "twin_q": ("critic.number",),
    # d3rlpy
    "n_action_samples": ("num_actions",),
    "n_critics": ("critic.number",),
    "alpha_threshold": ("lagrange_gap",),
    "weight_temp": ("beta",),
    "lam": ("gae_lambda", "trace_lambda", "advantage_lambda"),
    # former names of Rookery
    "helpers": ("sampling.env_processes", "env_processes"),
    "lane_group": ("sampling.inference_batch_envs", "inference_batch_envs"),
    "in_flight": ("sampling.max_requests_in_flight", "max_requests_in_flight"),
    "max_lag": ("sampling.max_policy_lag", "max_policy_lag"),
    "gives": ("model.output", "output"),
    "codes": ("model.categorical_images", "categorical_images"),
    "ladder": ("exploration.per_env_epsilon", "per_env_epsilon"),
    "frames": ("model.memory.frame_stack", "memory.frame_stack", "frame_stack"),
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
"""Our paths for a name of another library, the likeliest first; which one is meant depends on the algorithm.

The table gives hints only: values may mean something else. ML-Agents counts `buffer_size` in decisions of an update,
Stable-Baselines3 in decisions that are kept.
"""


ARGUMENTS: dict[str, str] = {
    **dict.fromkeys(
        ("total_timesteps", "timesteps", "max_steps", "env_steps", "iterations", "minutes", "seconds", "episodes"),
        'criteria end a training: stop={"env_steps": 100_000}, or iterations, episodes, seconds, minutes, any metric',
    ),
    **dict.fromkeys(("verbose", "progress_bar"), 'console="live" shows progress, or "plain", "quiet", "json"'),
    **dict.fromkeys(
        ("tensorboard_log", "log_dir", "logdir", "monitor_dir"), 'run_dir="runs/x" stores event files and metrics'
    ),
    **dict.fromkeys(
        ("callback", "on_episode_start", "on_episode_step", "on_episode_end", "on_iteration", "on_train_start",
         "on_train_end", "on_evaluate", "on_checkpoint"),
        "callbacks=[MyCallback()] takes objects of a class that derives from rookery.Callback and has such methods",
    ),
    **dict.fromkeys(
        ("privileged", "asymmetric", "state_space", "critic_obs"),
        "an environment shows critics more than policies by itself: docs/how-to/central-critics.md",
    ),
    "policy_mapping_fn": "policy_mapping takes a function (agent, episode) -> policy, or a dict",
    "policy_kwargs": 'model={"hidden": (64, 64), "activation": "tanh"}',
    "eval_env": "evaluations create their own environments: evaluation_every=5",
    "eval_freq": "evaluation_every=5 evaluates every 5 iterations",
    "n_eval_episodes": 'evaluation={"every": 5, "episodes": 10}',
    "save_freq": "checkpoint_every=10 writes a checkpoint every 10 iterations",
    "env_kwargs": 'env_config={"size": 10} are the arguments of the environment',
    "vec_env_cls": 'config={"env.implementation": "processes"}; by default a measurement decides',
    "policy": "networks are chosen by the spaces; model= changes them",
    "stats_window_size": "returns are means over the last 100 episodes",
    "use_sde": 'state-dependent noise is a setting of SAC: exploration={"kind": "gsde"}',
}  # fmt: skip
"""Remedies for arguments of other libraries, or for values in another place, by the name of the argument."""

METRICS: dict[str, str] = {
    **dict.fromkeys(
        ("total_timesteps", "num_timesteps", "timesteps", "timesteps_total", "time/total_timesteps"), "env_steps"
    ),
    **dict.fromkeys(
        ("ep_rew_mean", "rollout/ep_rew_mean", "mean_reward", "reward_mean", "reward_threshold", "episode_reward_mean"),
        "return_mean",
    ),
    "eval/mean_reward": "evaluation/return_mean",
    **dict.fromkeys(("ep_len_mean", "rollout/ep_len_mean", "episode_len_mean"), "length_mean"),
    "training_iteration": "iterations",
}
"""Our metrics by their names in other libraries."""

ALGORITHM_NAMES: dict[str, str] = {
    **dict.fromkeys(
        ("maskableppo", "maskable_ppo", "ppo_mask"),
        "write ppo: it reads info['action_mask'] of the environment",
    ),
    **dict.fromkeys(("recurrentppo", "recurrent_ppo", "ppo_lstm"), "write ppo, with algorithm.model.memory.kind=lstm"),
    **dict.fromkeys(("qrdqn", "qr_dqn"), "write dqn, with algorithm.values.kind=quantile"),
    "c51": "write dqn, with algorithm.values.kind=categorical",
    "rainbow": "write dqn, with its options in docs/algorithms/dqn.md",
    "tqc": "write sac, with algorithm.critic.quantiles=25",
    "crossq": "write sac, with algorithm.critic.norm=batch",
    "trpo": "ppo, with its kl_coef, is the nearest",
}
"""Remedies for names of algorithms in other libraries."""

OPTIONS: dict[str, str] = {
    **dict.fromkeys(
        ("-n", "--n-timesteps", "--total-timesteps", "--num-timesteps"), "--stop env_steps=100000 ends a training"
    ),
    "--eval-freq": "evaluation.every=5 evaluates every 5 iterations",
    **dict.fromkeys(("--eval-episodes", "--n-eval-episodes"), "evaluation.episodes=10 sets their number"),
    "--save-freq": "checkpoint.every=10 writes a checkpoint every 10 iterations",
    **dict.fromkeys(
        ("--tensorboard-log", "--tensorboard"), "every run writes TensorBoard files: tensorboard --logdir runs"
    ),
    **dict.fromkeys(
        ("--optimize", "--optimize-hyperparameters", "--n-trials", "--sampler", "--pruner"),
        "rookery tune ENV algorithm.lr='{loguniform: [1e-4, 1e-2]}' -n 50 tune.search=optuna tune.scheduler=median",
    ),
    **dict.fromkeys(("-p", "--hyperparams", "--hyperparameters"), "settings are words: algorithm.lr=1e-3"),
    "--learning-rate": "algorithm.lr=1e-3 sets it",
    **dict.fromkeys(("-c", "--conf-file"), "a settings file is a word: rookery train file.yaml"),
    "--env-kwargs": "env.config.size=10 is an argument of the environment",
    "--env-id": "--env CartPole-v1 names the environment",
    "--vec-env": "env.implementation=processes steps them in processes; by default a measurement decides",
    **dict.fromkeys(("-f", "--log-folder"), "--run-dir FOLDER is the parent of the run's folder"),
    **dict.fromkeys(
        ("-i", "--trained-agent"), "rookery resume RUN, or policies.main.init_from=RUN for the weights alone"
    ),
    "--device": "device=cuda selects the GPU",
    "--num-threads": "threads=1 sets their number",
    **dict.fromkeys(("-P", "--progress", "--verbose"), "progress is shown at a terminal; see --plain, --quiet, --json"),
    **dict.fromkeys(("--track", "--wandb-project-name"), "a callback can log elsewhere: docs/how-to/own-callback.md"),
    "--n-episodes": "--episodes 20 sets their number",
    **dict.fromkeys(("--render", "--capture-video"), "rookery record RUN writes a video"),
    "--load-best": "--checkpoint best selects it",
    "--load-last-checkpoint": "the last checkpoint is the default",
}
"""Remedies for options of RL Zoo and CleanRL."""

OTHER_VERBS: dict[str, str] = {
    "enjoy": "rookery record RUN writes a video, rookery evaluate RUN plays episodes",
    **dict.fromkeys(("record-video", "record_video"), "rookery record RUN"),
    **dict.fromkeys(("all-plots", "all_plots", "plot-train", "plot_train"), "rookery plot RUN..."),
    "version": "rookery --version",
}
"""Remedies for commands of RL Zoo, and a frequent guess."""

NAMES: dict[str, str] = {
    **dict.fromkeys(
        ("make_vec_env", "DummyVecEnv", "SubprocVecEnv", "VecEnv"),
        'Trainer("CartPole-v1", num_envs=8) creates its environments; env.implementation says how they are stepped',
    ),
    "VecNormalize": 'model={"normalize_obs": True} and scale_rewards=True normalize observations and rewards',
    "VecFrameStack": 'model={"memory": {"frame_stack": 4}} stacks observations',
    **dict.fromkeys(
        ("Monitor", "VecMonitor"), "returns and lengths of episodes are in every result, without a wrapper"
    ),
    "EvalCallback": "evaluation_every=5 evaluates, and the best checkpoint is kept",
    "CheckpointCallback": "checkpoint_every=10 writes a checkpoint every 10 iterations",
    "StopTrainingOnRewardThreshold": 'trainer.train(stop={"evaluation/return_mean": 475})',
    **dict.fromkeys(("VecVideoRecorder", "record_video"), 'trainer.record("video.webp")'),
    "evaluate_policy": "trainer.evaluate(episodes=20)",
    "check_env": "rookery envs check my_module:MyEnv, at the shell",
    "BaseFeaturesExtractor": "a torch.nn.Module with num_features: model={'module': MyModel}",
    **dict.fromkeys(("MaskablePPO", "ActionMasker"), 'PPO reads info["action_mask"] of the environment'),
    "RecurrentPPO": 'PPOConfig(model={"memory": {"kind": "lstm"}})',
    "QRDQN": 'DQNConfig(values={"kind": "quantile"})',
    "TQC": 'SACConfig(critic={"quantiles": 25})',
    "CrossQ": 'SACConfig(critic={"norm": "batch"})',
    "NormalActionNoise": "exploration.std of TD3Config and DDPGConfig",
    **dict.fromkeys(("BaseCallback", "DefaultCallbacks"), "derive from rookery.Callback"),
    "Algorithm": "rookery.Trainer trains; rookery.extend.Algorithm is the base of your own algorithms",
    **dict.fromkeys(("Tuner", "run"), "rookery.tune.run tries settings"),
}
"""Remedies for names of other libraries that a user may look for in ``rookery``."""


def suggestion(path: str, known: Iterable[str]) -> str:
    """Returns a hint such as ``; did you mean 'algorithm.lr'?``, or an empty text where nothing known is close.

    Args:
        path: What was written.
        known: Paths of the settings there are.
    """
    section, _, name = path.rpartition(".")
    paths = dict.fromkeys(".".join(p.split(".")[:n]) for p in known for n in range(1, p.count(".") + 2))
    here = [p.rpartition(".")[2] for p in paths if p.rpartition(".")[0] == section]
    everywhere = {p.rpartition(".")[2] for p in paths}
    ending = _by_ending(paths)
    elsewhere = {other: found for other, own_name in OTHER_NAMES.items() if (found := _first(ending, own_name))}
    meant: list[str] = []
    if name in everywhere:
        meant = ending[name]
    elif name in elsewhere or name not in OTHER_NAMES:  # else it is known, and there is no such thing here
        similar = get_close_matches(name, [*here, *elsewhere], n=1) or get_close_matches(name, everywhere, n=1)
        own = bool(similar) and similar[0] in everywhere
        meant = ending[similar[0]] if own else [p for other in similar for p in elsewhere[other]]

    def distance(other: str) -> tuple[int, int, int]:
        shared = takewhile(lambda pair: pair[0] == pair[1], zip(section.split("."), other.split("."), strict=False))
        return -len(list(shared)), other.count("."), len(other)

    nearest_first = sorted(meant, key=distance)
    if nearest_first:
        return f"; did you mean {nearest_first[0]!r}?"
    return f"; {ARGUMENTS[name]}" if name in ARGUMENTS else ""


def argument_hint(name: str, known: Iterable[str], algorithm: str, settings: Collection[str]) -> str:
    """Returns a hint for an unknown argument of `Trainer`; an empty text where nothing known is close.

    Args:
        name: The argument.
        known: The arguments there are.
        algorithm: Name of the class of settings that was given beside it; may be empty.
        settings: Paths of its settings.
    """
    if name in ARGUMENTS:
        return f"; {ARGUMENTS[name]}"
    meant = suggestion(name, settings) if name in OTHER_NAMES or name in settings else ""
    return f"{meant.removesuffix('?')} of {algorithm}?" if meant else nearest(name, list(known))


def _by_ending(paths: Iterable[str]) -> dict[str, list[str]]:
    """Returns the paths by each of their ends, of one name or more."""
    found: dict[str, list[str]] = {}
    for path in paths:
        names = path.split(".")
        for n in range(len(names)):
            found.setdefault(".".join(names[n:]), []).append(path)
    return found


def _first(ending: Mapping[str, list[str]], ends: Iterable[str]) -> list[str]:
    """Returns the paths that end in the first of `ends` in which any does."""
    return next((ending[end] for end in ends if end in ending), [])
