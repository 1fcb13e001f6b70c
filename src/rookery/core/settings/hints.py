"""Hints for unknown names: a typing mistake, another section, or a name of another library."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from itertools import takewhile
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from rookery.core.errors import ConfigError, nearest

P = ParamSpec("P")
T = TypeVar("T")

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
    "goal_selection_strategy": ("replay.hindsight.strategy", "hindsight.strategy"),
    "n_sampled_goal": ("replay.hindsight.relabeled", "hindsight.relabeled"),
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
    **dict.fromkeys(("replay_buffer_class", "replay_buffer_kwargs"), ("replay.hindsight", "hindsight")),
    "every_steps": ("evaluation.every", "every"),
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
    "num_env_runners": ("sampling.num_envs", "num_envs"),
    "num_workers": ("sampling.num_envs", "num_envs"),
    "lr_schedule": ("lr",),
    "entropy_coeff_schedule": ("entropy_coef",),
    "use_gae": ("gae_lambda",),
    "batch_mode": ("fragment_length",),
    "use_lstm": ("memory.kind",),
    "lstm_cell_size": ("memory.size",),
    "max_seq_len": ("sequence_length",),
    "custom_model": ("model.module", "module"),
    "conv_filters": ("model.cnn", "cnn"),
    "observation_filter": ("model.normalize_obs", "normalize_obs"),
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
    "hyperparameters": ("algorithm",),
    "network_settings": ("algorithm.model", "model"),
    "vis_encode_type": ("model.cnn", "cnn"),
    "use_recurrent": ("model.memory.kind", "memory.kind"),
    "memory_size": ("model.memory.size", "memory.size"),
    "reward_signals": ("algorithm.signals", "signals"),
    "encoding_size": ("num_features", "model.hidden"),
    "demo_path": ("replay",),
    "behavioral_cloning": ("algorithm.imitation", "imitation"),
    "environment_parameters": ("env.parameters",),
    "env_settings": ("env.config",),
    "engine_settings": ("env.config",),
    "env_path": ("env.name",),
    "summary_freq": ("sampling.iteration_steps",),
    "checkpoint_interval": ("checkpoint.every",),
    "keep_checkpoints": ("checkpoint.keep_last",),
    "threaded": ("sampling.staleness",),
    "save_steps": ("snapshot_every",),
    "swap_steps": ("swap_every",),
    "team_change": ("team_change_every",),
    "play_against_latest_model_ratio": ("latest_ratio",),
    "initial_elo": ("initial_rating",),
    "min_lesson_length": ("min_episodes",),
    "signal_smoothing": ("smoothing",),
}
"""Rookery's paths for names of another library, the likeliest first; the right one depends on the algorithm.

The table gives hints only: values may mean something else. ML-Agents counts `buffer_size` in decisions of an update,
Stable-Baselines3 in decisions that are kept.
"""

FILES: dict[str, str] = {
    **dict.fromkeys(
        ("behaviors", "default_settings", "env_settings", "engine_settings"),
        "configurations of ML-Agents are run by rookery mlagents learn FILE.yaml",
    ),
}
"""Remedies for files of other programs, by a section that only these have."""

ARGUMENTS: dict[str, str] = {
    **dict.fromkeys(
        ("total_timesteps", "timesteps", "max_steps", "env_steps", "iterations", "minutes", "seconds", "episodes"),
        'criteria end a training: stop={"env_steps": 100_000}, or iterations, episodes, seconds, minutes, any metric',
    ),
    "progress_bar": 'verbose=True shows progress; or console="live", "plain", "quiet", "json"',
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
    "environment_parameters": "parameters= takes values and samplers, curriculum= lessons: docs/how-to/randomize.md",
    "behaviors": "policies= takes settings by policy; rookery mlagents learn FILE.yaml runs a file of ML-Agents",
    "policy_mapping_fn": "policy_mapping takes a function (agent, episode) -> policy, or a dict",
    **dict.fromkeys(
        ("num_workers", "num_env_runners", "num_envs_per_worker", "num_envs_per_env_runner"),
        "num_envs is the number of all environments; workers=2 are processes on a Ray cluster that share them",
    ),
    "policies_to_train": 'an entry of policies={"p0": None, "p1": {"frozen": True}} acts and does not learn',
    "multiagent": 'policies={"p0": None, "p1": PPOConfig(lr=1e-4)} and policy_mapping={"agent": "p0"}',
    **dict.fromkeys(("num_gpus", "num_gpus_per_learner"), 'device="cuda" learns on a GPU'),
    **dict.fromkeys(
        ("state", "lstm_states", "episode_start", "episode_starts"),
        "action, memory = policy.predict(obs, memory) is one step of a policy with memory; no memory begins an episode",
    ),
    "framework": "networks are torch modules, and there is no other framework; leave it out",
    "horizon": "a wrapper such as gymnasium's TimeLimit truncates episodes: docs/how-to/own-environment.md",
    "observation_filter": 'model={"normalize_obs": True} normalizes observations',
    "output": "rookery replay record, or replay export, writes experience: docs/how-to/demonstrations.md",
    **dict.fromkeys(
        ("input", "input_", "offline_data"),
        'replay="DATA" with an offline algorithm learns from data: docs/how-to/learn-from-data.md',
    ),
    **dict.fromkeys(
        ("input_evaluation", "off_policy_estimation_methods"),
        "rookery.evaluate_offline(RUN, DATA) estimates returns: docs/how-to/off-policy-evaluation.md",
    ),
    "policy_kwargs": 'model={"hidden": (64, 64), "activation": "tanh"}',
    "eval_env": "evaluations create their own environments: evaluation_every=5",
    "eval_freq": "evaluation_every=5 evaluates every 5 iterations",
    "n_eval_episodes": 'evaluation={"every": 5, "episodes": 10}, or trainer.evaluate(episodes=10)',
    "save_freq": "checkpoint_every=10 writes a checkpoint every 10 iterations",
    "env_kwargs": 'env_config={"size": 10} are the arguments of the environment',
    "vec_env_cls": 'config={"env.implementation": "processes"}; by default a measurement decides',
    "policy": "networks are chosen by the spaces; model= changes them",
    "stats_window_size": "returns are means over the last 100 episodes",
    "use_sde": 'state-dependent noise is a setting of SAC: exploration={"kind": "gsde"}',
}  # fmt: skip
"""Remedies for arguments of other libraries, or for values in the wrong place, by argument name."""

METRICS: dict[str, str] = {
    **dict.fromkeys(
        ("total_timesteps", "num_timesteps", "timesteps", "timesteps_total", "time/total_timesteps"), "env_steps"
    ),
    **dict.fromkeys(
        ("ep_rew_mean", "rollout/ep_rew_mean", "mean_reward", "reward_mean", "reward_threshold", "episode_reward_mean",
         "episode_return_mean", "env_runners/episode_reward_mean", "env_runners/episode_return_mean"),
        "return_mean",
    ),
    "num_env_steps_sampled_lifetime": "env_steps",
    "time_total_s": "seconds",
    "episodes_total": "episodes",
    "eval/mean_reward": "evaluation/return_mean",
    **dict.fromkeys(("ep_len_mean", "rollout/ep_len_mean", "episode_len_mean"), "length_mean"),
    "training_iteration": "iterations",
}  # fmt: skip
"""Rookery's metrics by their names in other libraries."""

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
    **dict.fromkeys(("iqn", "implicit_quantile"), "write dqn, with algorithm.values.kind=implicit"),
    **dict.fromkeys(
        ("m-dqn", "mdqn", "munchausen"), "write dqn, with algorithm.munchausen.weight=0.9 algorithm.n_step=1"
    ),
    "redq": "write sac, with algorithm.critic.number=10 algorithm.target_critics=2 algorithm.updates_per_step=20 "
    "algorithm.policy_delay=20",
    "droq": "write sac, with algorithm.critic.dropout=0.01 algorithm.critic.norm=layer algorithm.target_critics=2 "
    "algorithm.updates_per_step=20 algorithm.policy_delay=20",
    "crossq": "write sac, with algorithm.critic.norm=batch",
    "trpo": "ppo, with its kl_coef, is the nearest",
}
"""Remedies for names of algorithms in other libraries."""

OPTIONS: dict[str, str] = {
    "--run": "--algo ppo names the algorithm; `rookery rllib train` takes the options of RLlib",
    "--config": "settings are words, algorithm.lr=1e-3, or a settings file; `rookery rllib train` takes JSON of RLlib",
    "--num-workers": "--num-envs 8 is the number of environments; --workers 2 are processes on a Ray cluster",
    "--checkpoint-freq": "checkpoint.every=10 writes a checkpoint every 10 iterations",
    "--checkpoint-at-end": "a checkpoint at the end is always written; leave it out",
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
"""Remedies for command-line options of RL Zoo and CleanRL."""

OTHER_VERBS: dict[str, str] = {
    "enjoy": "rookery record RUN writes a video, rookery evaluate RUN plays episodes",
    **dict.fromkeys(("record-video", "record_video"), "rookery record RUN"),
    **dict.fromkeys(("all-plots", "all_plots", "plot-train", "plot_train"), "rookery plot RUN..."),
    "version": "rookery --version",
    "rollout": "rookery evaluate RUN plays episodes; `rookery rllib rollout` takes the options of RLlib",
}
"""Remedies for commands of RL Zoo and for a frequent guess."""

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
    "MultiAgentEnv": "no base class is needed: reset and step use dicts by agent (docs/how-to/own-environment.md)",
    "PolicySpec": 'policies={"p0": PPOConfig(lr=1e-4)}; spaces come from the environment',
    "register_env": 'pass the class itself, Trainer(MyEnv), or an import path, "my.module:MyEnv"',
    "AlgorithmConfig": "rookery.PPOConfig and others; rookery.extend.AlgorithmConfig is the base of your own",
    **dict.fromkeys(
        ("PPOTrainer", "DQNTrainer", "SACTrainer", "A2CTrainer", "ImpalaTrainer", "APPOTrainer", "TD3Trainer"),
        "rookery.Trainer(env, PPOConfig()); scripts of RLlib run by `rookery rllib run script.py`",
    ),
    "Algorithm": "rookery.Trainer trains; rookery.extend.Algorithm is the base of your own algorithms",
    **dict.fromkeys(("Tuner", "run"), "rookery.tune.run tries settings"),
}
"""Remedies for names of other libraries that a user may look for in ``rookery``."""

ATTRIBUTES: dict[str, str] = {
    **dict.fromkeys(
        ("compute_single_action", "compute_action", "compute_actions", "predict"),
        'trainer.policies["main"].predict(obs) chooses an action',
    ),
    **dict.fromkeys(
        ("get_policy", "get_module", "get_weights", "set_weights", "model"),
        'trainer.policies["main"] is the policy, a torch module; init_from starts from stored weights',
    ),
    **dict.fromkeys(("restore", "from_checkpoint", "restore_from_path", "load_checkpoint"), "Trainer.load(path)"),
    **dict.fromkeys(("save_checkpoint", "save_to_path"), "trainer.save(path)"),
    **dict.fromkeys(
        ("workers", "env_runner_group", "env_runner"),
        "callbacks see the episodes of all environments: docs/how-to/own-callback.md",
    ),
    **dict.fromkeys(
        ("save_replay_buffer", "load_replay_buffer", "replay_buffer"),
        'trainer.replays["main"] is the replay buffer, and part of every checkpoint',
    ),
    **dict.fromkeys(("num_timesteps", "_total_timesteps"), "trainer.env_steps"),
    "logger": 'episode.metrics["x"] = 3 in a callback: docs/how-to/own-callback.md',
    **dict.fromkeys(("get_env", "get_vec_normalize_env", "training_env"), "trainer.env steps the environments"),
    "n_calls": "result.iteration",
    "set_env": "Trainer.load(RUN, env=MyEnv, other_env=True) continues in another environment",
    "set_parameters": "Trainer.load(path), or init_from for the weights alone",
    "stop": "train(stop=lambda result: ...) ends a training by your own rule; trainer.close() frees what it holds",
    **dict.fromkeys(("episode_reward_mean", "episode_return_mean"), "result.return_mean"),
    **dict.fromkeys(("episode_reward_min", "episode_reward_max"), "result.return_min and return_max"),
    "episode_len_mean": "result.length_mean",
    **dict.fromkeys(("policy_reward_mean", "env_runners"), 'result.return_mean, result.policies["main"].return_mean'),
    **dict.fromkeys(("timesteps_total", "num_env_steps_sampled_lifetime"), "result.env_steps"),
    "training_iteration": "result.iteration",
    "custom_metrics": 'episode.metrics["x"] = 3 in a callback, then result.metrics["x"]',
    **dict.fromkeys(("hist_data", "hist_stats"), 'episode.histograms["x"] = [...] in a callback'),
    **dict.fromkeys(("agent_rewards", "total_reward"), "episode.returns[agent]; their sum is that of the episode"),
    **dict.fromkeys(
        ("last_observation_for", "last_info_for", "last_action_for"), "episode.obs, .info, .action, by agent"
    ),
    **dict.fromkeys(("environment", "build", "build_algo"), "Trainer(env, PPOConfig(...)) builds a trainer"),
    **dict.fromkeys(("training", "to_dict"), "settings are arguments, PPOConfig(lr=1e-3), or config.replace(lr=1e-3)"),
    **dict.fromkeys(
        ("env_runners", "rollouts", "multi_agent", "evaluation", "callbacks", "framework", "resources", "debugging"),
        "arguments of Trainer: num_envs, policies, policy_mapping, evaluation_every, callbacks, device",
    ),
}
"""Remedies for attributes of objects in other libraries, by name."""


def no_attribute(owner: object, name: str) -> AttributeError:
    """Returns the error for a missing attribute of `owner`, with a remedy if another library has such an attribute."""
    remedy = f": {ATTRIBUTES[name]}" if name in ATTRIBUTES else ""
    message = f"{type(owner).__name__!r} object has no attribute {name!r}{remedy}"
    return AttributeError(message, name=name, obj=owner)


def with_argument_hints(method: Callable[P, T]) -> Callable[P, T]:
    """Returns a method that answers arguments of other libraries with a remedy."""
    known = inspect.signature(method).parameters

    @functools.wraps(method)
    def called(*values: P.args, **named: P.kwargs) -> T:
        for name in named:
            if name not in known and name in ARGUMENTS:
                raise ConfigError(f"{method.__name__}({name}=...): there is no such argument; {ARGUMENTS[name]}")
        return method(*values, **named)

    return called


class ForeignNames:
    """Base of classes that answer attributes of other libraries with a remedy."""

    if not TYPE_CHECKING:  # a type checker keeps on refusing unknown attributes

        def __getattr__(self, name: str) -> object:
            if name in ATTRIBUTES and not hasattr(type(self), name):
                raise no_attribute(self, name)
            return object.__getattribute__(self, name)  # raises the original error again, also one inside a property


def suggestion(path: str, known: Iterable[str]) -> str:
    """Returns a hint such as ``; did you mean 'algorithm.lr'?``, or an empty text if no known name is close.

    Args:
        path: The given path.
        known: Paths of the settings there are.
    """
    if path in FILES:
        return f"; {FILES[path]}"
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
    """Returns a hint for an unknown argument of `Trainer`; an empty text if no known name is close.

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
    """Returns the paths by each of their suffixes of one or more names."""
    found: dict[str, list[str]] = {}
    for path in paths:
        names = path.split(".")
        for n in range(len(names)):
            found.setdefault(".".join(names[n:]), []).append(path)
    return found


def _first(ending: Mapping[str, list[str]], ends: Iterable[str]) -> list[str]:
    """Returns the paths that end in the first of `ends` that matches any."""
    return next((ending[end] for end in ends if end in ending), [])
