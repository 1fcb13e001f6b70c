"""Rows of a trial of `tune.run` of 2021 (``result.json``), in the columns of `metrics.jsonl` that rules read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rookery.core.io.json_text import parse_json
from rookery.run.findings.catalog import MAIN

RESULTS = "result.json"

OF_RUN = {
    "iteration": "training_iteration",
    "env_steps": "timesteps_total",
    "episodes": "episodes_total",
    "return_mean": "episode_reward_mean",
    "return_min": "episode_reward_min",
    "return_max": "episode_reward_max",
    "length_mean": "episode_len_mean",
    "time/seconds": "time_total_s",
}
"""Key of a result by column."""

OF_POLICY = {
    "policy_loss": "policy_loss",
    "value_loss": "vf_loss",
    "entropy": "entropy",
    "kl": "kl",
    "grad_norm": "grad_gnorm",
    "explained_variance": "vf_explained_var",
    "lr": "cur_lr",
    "q_mean": "mean_q",
}
"""Key of a policy's statistics by column."""

KEYS = {
    "lr": "lr",
    "gamma": "gamma",
    "gae_lambda": "lambda",
    "clip": "clip_param",
    "epochs": "num_sgd_iter",
    "minibatch_size": "sgd_minibatch_size",
    "fragment_length": "rollout_fragment_length",
    "entropy_coef": "entropy_coeff",
    "value_coef": "vf_loss_coeff",
    "max_grad_norm": "grad_clip",
    "learning_starts": "learning_starts",
    "target.every": "target_network_update_freq",
    "replay.capacity": "buffer_size",
    "tau": "tau",
    "model.hidden": "model.fcnet_hiddens",
}
"""Key of a trial's ``config`` by the setting of an algorithm, where both mean the same in the same unit or count of
decisions. The target's key counts env steps.
"""

DEFAULT = "default_policy"
"""Name of the only policy of a trial, in place of `MAIN`."""


def read_results(folder: Path) -> list[dict[str, Any]]:
    """Returns the results of a trial as rows, oldest first, without a line that a kill cut short."""
    return list(_rows(folder / RESULTS))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            found: Any = None
            with suppress(ValueError):
                found = parse_json(line)
            if isinstance(found, dict) and isinstance(found.get("training_iteration"), int):
                yield row_of(found)


def row_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the row of a result; numbers that are missing or not finite are None."""
    row: dict[str, Any] = {column: number(result.get(key)) for column, key in OF_RUN.items()}
    row |= {"episodes": row["episodes"] or 0, "env_steps": row["env_steps"] or 0, "running_length": 0.0}
    learner = (result.get("info") or {}).get("learner") or {}
    for name, found in learner.items():
        statistics = found.get("learner_stats") if isinstance(found, Mapping) else None
        if isinstance(statistics, Mapping):
            at = f"policies/{MAIN if name == DEFAULT else name}"
            row |= {f"{at}/{column}": number(statistics.get(key)) for column, key in OF_POLICY.items()}
            row[f"{at}/decisions"] = row["env_steps"]
    return row


def number(value: Any) -> float | int | None:
    """Returns a finite number; None for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and value - value == 0 else None
