"""Keys of every algorithm: the environment, the learner, evaluation, results, resources, policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from rookery.face import nearest
from rookery_rllib.base.deprecation import DEPRECATED_VALUE
from rookery_rllib.config.algorithms import (
    ALGORITHMS,
    BANDITS,
    CLONING_KIND,
    DDPG_KIND,
    EVOLUTION,
    ON_POLICY,
    Q_KIND,
    SAC_KIND,
    A,
    M,
)
from rookery_rllib.config.reader import Reader, Values
from rookery_rllib.config.rows import NO_DEFAULT, by, ignored, on_cluster, refused, to, used
from rookery_rllib.config.sampling_keys import lanes
from rookery_rllib.config.scheduled_values import scheduled
from rookery_rllib.env.episode_ends import EndlessTask, Horizon

LEAST_CPUS = 0.01
"""Cores that a worker with num_cpus 0 reserves: Ray requires more than none."""


def episode_ends(reader: Reader) -> Values:
    """Translates the keys that change how episodes end, to wrappers."""
    wrappers: list[Any] = []
    if reader.get("no_done_at_end"):
        wrappers.append(EndlessTask())
    if reader.get("horizon") is not None:
        wrappers.append(Horizon(reader.whole("horizon", 1), bool(reader.get("soft_horizon"))))
    return {"env.wrappers": tuple(wrappers)}


def observation_filter(reader: Reader) -> Values:
    value = reader.get("observation_filter")
    if callable(value):
        reader.notes.append(
            "observation_filter: a filter of the script is not in checkpoints: after restore it starts anew"
        )
    elif value not in ("NoFilter", "MeanStdFilter", "ConcurrentMeanStdFilter"):
        near = nearest(str(value), ["NoFilter", "MeanStdFilter"])
        reader.refuse("observation_filter", f"must be 'NoFilter', 'MeanStdFilter' or a function of the shape{near}")
    used = value != "NoFilter" and not callable(value)
    return {"algorithm.model.normalize_obs": used, "sampling.warmup_steps": 512 if used else 0}


def device(reader: Reader) -> Values:
    gpus = reader.get("num_gpus") or 0
    if isinstance(gpus, bool) or not isinstance(gpus, int | float) or gpus < 0:
        reader.refuse("num_gpus", "must be a number of at least 0")
        return {"device": "cpu"}
    no_gpu_requested = "num_gpus" not in reader.given and not torch.cuda.is_available()
    if not gpus or reader.get("_fake_gpus") or no_gpu_requested:
        return {"device": "cpu"}
    if not torch.cuda.is_available():
        reader.refuse(
            "num_gpus",
            "torch finds no GPU here; set num_gpus = 0, or install a torch with CUDA (docs/how-to/install.md)",
        )
        return {"device": "cpu"}
    if gpus > 1:
        reader.notes.append(
            f"num_gpus = {gpus:g}: these trainers learn on one GPU; several learners are "
            "cluster.learners of Rookery's own (docs/how-to/several-learners.md)"
        )
    return {"device": "cuda"}


def learning_rate(reader: Reader) -> Values:
    has_schedule = "lr_schedule" in reader.config
    return {"algorithm.lr": scheduled(reader, "lr", "lr_schedule") if has_schedule else reader.number("lr")}


def measuring(reader: Reader) -> Values:
    explore = reader.get("evaluation_config.explore")
    explore = reader.get("explore") if explore is None else explore
    workers = reader.whole("evaluation_num_workers") if reader.cluster and not reader.get("custom_eval_function") else 0
    return {
        "evaluation.every": 0,
        "evaluation.workers": workers,
        "evaluation.episodes": reader.whole("evaluation_num_episodes", 1),
        "evaluation.deterministic": not explore or reader.algorithm in EVOLUTION,
    }


def worker_resources(reader: Reader) -> Values:
    cpus, gpus = reader.number("num_cpus_per_worker"), reader.number("num_gpus_per_worker")
    for key, number in (("num_cpus_per_worker", cpus), ("num_gpus_per_worker", gpus)):
        if number < 0:
            reader.refuse(key, "must be a number of at least 0")
    return {"cluster.worker_cpus": max(cpus, LEAST_CPUS), "cluster.worker_gpus": max(gpus, 0.0)}


def placement(reader: Reader) -> Values:
    value = reader.get("placement_strategy")
    known = {"PACK": "pack", "STRICT_PACK": "pack", "SPREAD": "spread", "STRICT_SPREAD": "spread"}
    if value not in known:
        reader.refuse("placement_strategy", f"must be one of {', '.join(known)}{nearest(str(value), list(known))}")
    elif value.startswith("STRICT"):
        reader.notes.append(f"placement_strategy = {value!r} is {known[value]!r}: workers go where resources are free")
    return {"cluster.placement": known.get(value, "pack")}


def worker_environment(reader: Reader) -> Values:
    value = reader.get("extra_python_environs_for_worker")
    if not isinstance(value, Mapping):
        reader.refuse("extra_python_environs_for_worker", "must be a dict of environment variables")
        return {}
    if not reader.cluster:
        if value:
            reader.refuse(
                "extra_python_environs_for_worker",
                "environments run in this process: set the variables before it starts",
            )
        return {}
    return {"cluster.environment": {str(name): str(part) for name, part in value.items()}}


ENVIRONMENT = [
    used({"env": None}, "Environment: an id, a registered name or a class.", rl2="environment"),
    used({"env_config": {}}, "Arguments of the environment, passed as an EnvContext.", rl2="environment"),
    by(episode_ends, {"horizon": None, "soft_horizon": False, "no_done_at_end": False}, "env.wrappers",
       "Episodes are truncated after horizon steps. soft_horizon: the next one then continues from the state of the "
       "environment, which is not reset. no_done_at_end: every end of an episode counts as truncated.",
       rl2="env_runners"),
    used({"env_task_fn": None},
         "Function (result, env, env_context), called after each iteration; it returns the next task.",
         rl2="environment"),
    ignored({"render_env": False}, "no windows are opened; use rookery record or Trainer.record for a video",
            rl2="environment"),
    refused({"record_env": False, "monitor": DEPRECATED_VALUE},
            "no videos are recorded during training; use rookery record or Trainer.record",
            fine=(False, None, DEPRECATED_VALUE)),
    ignored({"normalize_actions": False}, "actions of bounded boxes are always normalized to [-1, 1]",
            rl2="environment"),
    used({"clip_rewards": None},
         "True: rewards are replaced by their sign; a number x: rewards are clipped to [-x, x].",
         rl2="environment"),
    refused({"clip_actions": True},
            "actions are always within the bounds of their box; leave it out, or set normalize_actions = True",
            rl2="environment"),
    refused({"preprocessor_pref": "deepmind"},
            "Atari images are always preprocessed as by DeepMind; for others wrap the environment", rl2="env_runners"),
    used({"callbacks": None}, "Class of the callbacks.", rl2="callbacks"),
    used({"explore": True},
         "False: compute_action returns the most likely action, and DQN, DDPG and TD3 train without exploration.",
         rl2="env_runners"),
]  # fmt: skip

SESSION = {
    "intra_op_parallelism_threads": 2,
    "inter_op_parallelism_threads": 2,
    "gpu_options": {"allow_growth": True},
    "log_device_placement": False,
    "device_count": {"CPU": 1},
    "allow_soft_placement": True,
}
THREADS = {"intra_op_parallelism_threads": 8, "inter_op_parallelism_threads": 8}
"""Keys of TensorFlow sessions."""

LEARNING = [
    to({"gamma": 0.99}, f"{A}gamma", "Discount factor.",
       tuple(name for name in ALGORITHMS if name not in ("BC", *EVOLUTION, *BANDITS)), rl2="training"),
    ignored("gamma", "behavioural cloning has no rewards", ("BC",)),
    by(learning_rate, {"lr": 0.0001}, f"{A}lr", "Learning rate.", (*ON_POLICY, "PG", *Q_KIND, *CLONING_KIND)),
    by(learning_rate, {"lr_schedule": None}, f"{A}lr", "Learning rate by env steps, [[step, rate], ...].",
       (*ON_POLICY, *Q_KIND), rl2="training"),
    ignored("lr", "learning rates of actor and critics have their own keys (optimization, actor_lr, critic_lr)",
            (*SAC_KIND, *DDPG_KIND)),
    ignored({"optimizer": {}}, "no algorithm reads it; use lr and grad_clip",
            rl2="training"),
    by(device, {"num_gpus": 0, "_fake_gpus": False}, "device",
       "num_gpus above 0: networks learn on one GPU. _fake_gpus: on the CPU.", rl2="resources"),
    to({"seed": None}, "seed", "Seed of all random streams; None = drawn once and stored.", rl2="debugging"),
    by(observation_filter, {"observation_filter": "NoFilter"}, f"{M}normalize_obs sampling.warmup_steps",
       "MeanStdFilter: observations are normalized by their running mean and standard deviation. A function of the "
       "shape makes a filter for an environment of one agent, which gets each observation, preprocessed.",
       rl2="env_runners"),
    ignored({"synchronize_filters": True}, "each policy has one filter, which needs no synchronization",
            rl2="env_runners"),
    ignored({"framework": "tf", "eager_tracing": False, "tf_session_args": SESSION, "local_tf_session_args": THREADS},
            "networks always use torch",
            fine=("tf", "tf1", "tf2", "tfe", "torch", "jax", None), rl2="framework"),
    ignored({"simple_optimizer": DEPRECATED_VALUE}, "there is one optimizer"),
]  # fmt: skip

EVALUATION = [
    used({"evaluation_interval": None}, "Iterations between evaluations; None = no evaluations.", rl2="evaluation"),
    by(measuring, {"evaluation_num_episodes": 10, "evaluation_config.explore": NO_DEFAULT},
       "evaluation.episodes evaluation.deterministic",
       "Episodes per evaluation, and whether their actions are sampled (None = as explore).",
       rl2={"evaluation_num_episodes": "evaluation"}),
    used({"evaluation_config": {}}, "Keys that differ during evaluations, such as env_config.",
         rl2="evaluation"),
    used({"custom_eval_function": None}, "Function (trainer, workers) that replaces the evaluation.", rl2="evaluation"),
    by(measuring, {"evaluation_num_workers": 0}, "evaluation.workers",
       "Number of workers that custom_eval_function gets; without such a function, number of workers on a joined "
       "cluster that run the episodes. Above 0, the default of evaluation_interval is 1.", rl2="evaluation"),
    on_cluster(None, {"evaluation_parallel_to_training": False}, "",
               "True: evaluation_num_workers workers on the cluster evaluate the initial weights of an iteration while "
               "it runs; otherwise evaluations run between iterations.", rl2="evaluation"),
    ignored({"in_evaluation": False}, "it is a mark of evaluation workers that nothing reads here"),
]  # fmt: skip

REPORTING = [
    used({"metrics_smoothing_episodes": 100}, "Number of latest episodes for mean, minimum and maximum of returns.",
         rl2="reporting"),
    used({"log_level": "WARN"}, "Level of Python's logger ray.rllib, which scripts may use.", rl2="debugging"),
    used({"log_sys_usage": True}, "Whether results have the section perf.", rl2="debugging"),
    used({"logger_config": None}, "Configuration of Tune's loggers.", rl2="debugging"),
    ignored({"collect_metrics_timeout": 180}, "metrics are collected without waiting"),
    on_cluster(worker_resources, {"num_cpus_per_worker": 1, "num_gpus_per_worker": 0},
               "cluster.worker_cpus cluster.worker_gpus", "Cores and GPUs that Ray reserves for each worker.",
               rl2="env_runners resources"),
    on_cluster(placement, {"placement_strategy": "PACK"}, "cluster.placement",
               "PACK: many workers on few machines; SPREAD: workers spread over all machines.", rl2="resources"),
    ignored({"custom_resources_per_worker": {}}, "workers are placed by cores and GPUs only",
            rl2="env_runners resources"),
    ignored({"num_cpus_for_driver": 1}, "set resources_per_trial of tune.run"),
    refused({"extra_python_environs_for_driver": {}}, "set the environment variables before this process starts"),
    by(worker_environment, {"extra_python_environs_for_worker": {}}, "cluster.environment",
       "Environment variables of workers on a cluster; refused if environments run in this process."),
    used({"input": "sampler"},
         "Recorded experience of MARWIL, BC and CQL: a directory, a file, a pattern, a list, a registered name, or a "
         "function that returns an InputReader; for other algorithms 'sampler', or a function that returns a "
         "PolicyServerInput.", rl2="offline_data"),
    used({"output": None},
         "Directory for experience as JSON lines, 'logdir' for the directory of the trial, or a function of an "
         "IOContext that returns an OutputWriter.", rl2="offline_data"),
    used({"output_compress_columns": ["obs", "new_obs"]}, "Columns of output files that are compressed.",
         rl2="offline_data"),
    used({"output_max_file_size": 64 * 1024 * 1024}, "Bytes after which a new output file is started.",
         rl2="offline_data"),
    used({"input_evaluation": ["is", "wis"]},
         "Off-policy estimates of MARWIL, BC and CQL in results, from recorded episodes with action_prob: is, wis. "
         "rookery evaluate RUN --replay DATA has intervals, and more estimators.", rl2="offline_data"),
    ignored({"postprocess_inputs": False, "shuffle_buffer_size": 0}, "data are read whole", rl2="offline_data"),
]  # fmt: skip

MULTIAGENT = [
    used({"multiagent.policies": {}}, "Policies by name: (class or None, observation space or None, action space or "
         "None, keys), or a list of names.",
         rl2="multi_agent"),
    used({"multiagent.policy_mapping_fn": None},
         "Function of the agent, and optionally of the episode, that returns the name of its policy; None = the only "
         "policy, or the policy with the name of the agent.", rl2="multi_agent"),
    used({"multiagent.policies_to_train": None},
         "Names of the policies that learn, or a function of the name that is called once for each; None = all.",
         rl2="multi_agent"),
    by(lanes, {"multiagent.count_steps_by": "env_steps"}, f"{A}rollout_size",
       "Unit of train_batch_size: env_steps or agent_steps. Where all agents have the only policy default_policy, it "
       "is always rows of agents, as is that of timesteps.", rl2="multi_agent"),
    used({"multiagent.observation_fn": None},
         "Function (agent_obs, worker, base_env, policies, episode) that replaces the observations of each step.",
         rl2="multi_agent"),
    refused({"multiagent.replay_mode": "independent"},
            "each policy samples only its own decisions from replay; use 'independent'",
            rl2="multi_agent"),
]  # fmt: skip
