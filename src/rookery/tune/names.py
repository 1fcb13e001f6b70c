"""Short names and import paths of searches, schedulers and executors; names of other libraries, for messages."""

from collections.abc import Iterable

from rookery.core.errors import nearest

SEARCHES = {
    "random": "rookery.tune.search:RandomConfig",
    "optuna": "rookery.tune.optuna_search:OptunaConfig",
}

SCHEDULERS = {
    "fifo": "rookery.tune.scheduler:FIFOConfig",
    "median": "rookery.tune.schedulers.median:MedianConfig",
    "asha": "rookery.tune.schedulers.asha:ASHAConfig",
    "hyperband": "rookery.tune.schedulers.hyperband:HyperBandConfig",
    "pbt": "rookery.tune.schedulers.pbt:PBTConfig",
    "pb2": "rookery.tune.schedulers.pb2:PB2Config",
}

EXECUTORS = {
    "here": "rookery.tune.executors.in_process:InProcessExecutor",
    "processes": "rookery.tune.executors.processes:ProcessExecutor",
    "ray": "rookery.tune.executors.ray_cluster:RayExecutor",
}

OTHER_LIBRARIES = {
    "resources_per_trial": "cpus, gpus",
    "max_concurrent_trials": "max_concurrent",
    "checkpoint_freq": "checkpoint_every",
    "checkpoint_at_end": "not needed: a checkpoint at the end is always written",
    "local_dir": "folder",
    "storage_path": "folder",
    "name": "folder",
    "restore": "policies={'main': {'init_from': 'runs/x'}}, or rookery resume",
    "search_alg": "search",
    "param_space": "config",
    "reuse_actors": "not needed: processes are always reused",
    "verbose": "console",
    "fail_fast": "not supported: a trial that fails ends alone",
    "keep_checkpoints_num": "config={'checkpoint.keep_last': 3}",
    "episode_reward_mean": "return_mean",
    "training_iteration": "iteration",
    "timesteps_total": "env_steps",
    "time_total_s": "seconds",
    "Tuner": "run",
    "with_resources": "run(..., cpus=...)",
    "ASHAScheduler": "ASHAConfig",
    "AsyncHyperBandScheduler": "ASHAConfig",
    "HyperBandScheduler": "HyperBandConfig",
    "MedianStoppingRule": "MedianConfig",
    "PopulationBasedTraining": "PBTConfig",
    "FIFOScheduler": "FIFOConfig",
    # Optuna
    "n_trials": "num_samples",
    "n_jobs": "max_concurrent",
    "sampler": "search=tune.OptunaConfig(sampler='tpe')",
    "pruner": "scheduler='median'",
    "direction": "mode",
    **dict.fromkeys(("storage", "study_name"), "folder"),
    "objective": "trainable",
    "create_study": "run",
    "suggest_float": "uniform or loguniform",
    "suggest_int": "randint or lograndint",
    "suggest_categorical": "choice",
}
"""Names of Ray Tune, RLlib and Optuna, with their equivalents, for messages."""


def hint_for(name: str, known: Iterable[str]) -> str:
    """Returns a hint at what an unknown name may mean, for the end of a message; empty if no name is similar."""
    return f"; here it is {OTHER_LIBRARIES[name]}" if name in OTHER_LIBRARIES else nearest(name, list(known))
