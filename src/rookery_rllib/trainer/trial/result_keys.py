"""Keys and directories of results, under the names of ``ray.tune.result``."""

from __future__ import annotations

import os
import tempfile
from datetime import datetime
from pathlib import Path

DONE = "done"
SHOULD_CHECKPOINT = "should_checkpoint"
HOSTNAME = "hostname"
TRIAL_ID = "trial_id"
EXPERIMENT_TAG = "experiment_tag"
NODE_IP = "node_ip"
PID = "pid"
DEFAULT_METRIC = "_metric"
EPISODE_REWARD_MEAN = "episode_reward_mean"
MEAN_LOSS = "mean_loss"
NEG_MEAN_LOSS = "neg_mean_loss"
MEAN_ACCURACY = "mean_accuracy"
EPISODES_THIS_ITER = "episodes_this_iter"
EPISODES_TOTAL = "episodes_total"
TIMESTEPS_THIS_ITER = "timesteps_this_iter"
TIMESTEPS_TOTAL = "timesteps_total"
TIME_THIS_ITER_S = "time_this_iter_s"
TIME_TOTAL_S = "time_total_s"
TRAINING_ITERATION = "training_iteration"
RESULT_DUPLICATE = "__duplicate__"
TRIAL_INFO = "__trial_info__"
STDOUT_FILE = "__stdout_file__"
STDERR_FILE = "__stderr_file__"
EXPR_PARAM_FILE = "params.json"
EXPR_PROGRESS_FILE = "progress.csv"
EXPR_RESULT_FILE = "result.json"

DATE = "%Y-%m-%d_%H-%M-%S"
"""Format of times in names and results."""

AUTO_RESULT_KEYS = (
    TRAINING_ITERATION, TIME_TOTAL_S, EPISODES_TOTAL, TIMESTEPS_TOTAL, NODE_IP, HOSTNAME, PID, TIME_THIS_ITER_S,
    "timestamp", "experiment_id", "date", "time_since_restore", "iterations_since_restore", "timesteps_since_restore",
    "config",
)  # fmt: skip
"""Keys that `Trainable.train` adds to the result of a step."""


def results_directory() -> str:
    """Returns the default directory of results: ``TUNE_RESULT_DIR``, else ``~/ray_results``."""
    return os.environ.get("TEST_TMPDIR") or os.environ.get("TUNE_RESULT_DIR") or os.path.expanduser("~/ray_results")


def new_directory(prefix: str = "", parent: str | None = None) -> str:
    """Makes a new directory, ``PPO_MultiAgentArena_2021-05-25_13-07-562s553d7d``, and returns its path."""
    place = Path(parent or results_directory()).expanduser()
    place.mkdir(parents=True, exist_ok=True)
    moment = datetime.now().strftime(DATE)
    return tempfile.mkdtemp(prefix=f"{prefix}_{moment}" if prefix else moment, dir=place)


def __getattr__(name: str) -> str:
    if name == "DEFAULT_RESULTS_DIR":  # read late, so that TUNE_RESULT_DIR may be set in a script
        return results_directory()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
