"""Results of an experiment, with the attributes and methods of ``ExperimentAnalysis``."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rookery.face import ConfigError, install_line
from rookery_rllib.base.notices import say
from rookery_rllib.trainer.trial.checkpoints import checkpoints_in
from rookery_rllib.trainer.trial.loggers import flatten_dict
from rookery_rllib.trainer.trial.result_keys import (
    DEFAULT_METRIC,
    EXPR_PARAM_FILE,
    EXPR_PROGRESS_FILE,
    EXPR_RESULT_FILE,
    TRAINING_ITERATION,
)
from rookery_rllib.trainer.trial.tune_errors import TuneError
from rookery_rllib.tune.stopper import value_at
from rookery_rllib.tune.trial import Trial

SCOPES = ("all", "last", "avg", "last-5-avg", "last-10-avg")


def pandas() -> Any:
    """Returns the package; raises a ConfigError if it is not installed."""
    try:
        import pandas as found
    except ModuleNotFoundError:
        raise ConfigError(f"data frames need pandas: {install_line('tune')}; `results` has the same as dicts") from None
    return found


class Analysis:
    """Reads the results in a directory."""

    def __init__(self, experiment_dir: str, default_metric: str | None = None, default_mode: str | None = None) -> None:
        folder = os.path.expanduser(experiment_dir)
        if not os.path.isdir(folder):
            raise ConfigError(f"{experiment_dir}: is not a directory")
        if default_mode not in (None, "min", "max"):
            raise ConfigError(f"default_mode = {default_mode!r}: must be min or max")
        self._experiment_dir = folder
        self.default_metric = DEFAULT_METRIC if default_mode and not default_metric else default_metric
        self.default_mode = default_mode
        self._frames: dict[str, Any] | None = None

    def _metric(self, metric: str | None) -> str:
        found = metric or self.default_metric
        if not found:
            raise ConfigError("metric: give one here, or to tune.run(metric=...)")
        return found

    def _mode(self, mode: str | None) -> str:
        found = mode or self.default_mode
        if found not in ("min", "max"):
            raise ConfigError(f"mode = {found!r}: give max or min here, or to tune.run(mode=...)")
        return found

    def _get_trial_paths(self) -> list[str]:
        found = sorted(str(path.parent) for path in Path(self._experiment_dir).rglob(EXPR_RESULT_FILE))
        if not found:
            raise TuneError(f"{self._experiment_dir}: holds no results of trials")
        return found

    # --- as data frames -----------------------------------------------------------------------------------------------

    @property
    def trial_dataframes(self) -> dict[str, Any]:
        return self.fetch_trial_dataframes() if self._frames is None else self._frames

    def fetch_trial_dataframes(self) -> dict[str, Any]:
        found = {}
        for path in self._get_trial_paths():
            file = Path(path, EXPR_PROGRESS_FILE)
            if file.exists() and file.stat().st_size:
                found[path] = pandas().read_csv(file)
        self._frames = found
        return found

    def dataframe(self, metric: str | None = None, mode: str | None = None) -> Any:
        """Returns a row for each trial, its last result or the best by a metric; needs pandas."""
        metric = self._metric(metric) if metric or self.default_metric else None
        mode = self._mode(mode) if mode or self.default_mode else None
        rows = self._retrieve_rows(metric, mode)
        for path, config in self.get_all_configs(prefix=True).items():
            if path in rows:
                rows[path].update(config, logdir=path)
        return pandas().DataFrame(list(rows.values()))

    def _retrieve_rows(self, metric: str | None, mode: str | None) -> dict[str, dict[str, Any]]:
        """Returns one result of each trial as a flat dict, by its directory."""
        rows: dict[str, dict[str, Any]] = {}
        for path in self._get_trial_paths():
            results = [flatten_dict(result) for result in read_results(path)]
            results = [{key: part for key, part in row.items() if not key.startswith("config/")} for row in results]
            if metric and mode:
                results = [row for row in results if is_finite(row.get(metric))]
                results.sort(key=lambda row: row[metric], reverse=mode == "min")
            if results:
                rows[path] = results[-1]
        return rows

    def get_all_configs(self, prefix: bool = False) -> dict[str, dict[str, Any]]:
        """Returns the stored configuration of each trial, by its directory."""
        found: dict[str, dict[str, Any]] = {}
        for path in self._get_trial_paths():
            file = Path(path, EXPR_PARAM_FILE)
            if file.exists():
                config = json.loads(file.read_text(encoding="utf-8"))
                found[path] = {f"config/{key}" if prefix else key: value for key, value in config.items()}
        return found

    # --- the best -----------------------------------------------------------------------------------------------------

    def get_best_config(self, metric: str | None = None, mode: str | None = None) -> dict[str, Any] | None:
        best = self.get_best_logdir(metric, mode)
        return None if best is None else self.get_all_configs()[best]

    def get_best_logdir(self, metric: str | None = None, mode: str | None = None) -> str | None:
        metric, mode = self._metric(metric), self._mode(mode)
        rows = self._retrieve_rows(metric, mode)
        if not rows:
            return None
        return (max if mode == "max" else min)(rows, key=lambda path: rows[path][metric])

    # --- checkpoints --------------------------------------------------------------------------------------------------

    def get_trial_checkpoints_paths(self, trial: Any, metric: str | None = None) -> list[tuple[str, Any]]:
        """Returns the checkpoints of a trial, each with a value of its result."""
        key = metric or self.default_metric or TRAINING_ITERATION
        folder = str(trial.logdir if isinstance(trial, Trial) else os.path.expanduser(trial))
        results = {result.get(TRAINING_ITERATION): result for result in read_results(folder)}
        return [
            (path, value_at(results.get(number, {TRAINING_ITERATION: number}), key))
            for number, path in checkpoints_in(folder)
        ]

    def get_best_checkpoint(self, trial: Any, metric: str | None = None, mode: str | None = None) -> str | None:
        mode = self._mode(mode)
        found = [pair for pair in self.get_trial_checkpoints_paths(trial, metric) if is_finite(pair[1])]
        if not found:
            say(f"{trial}: has no checkpoint with such a result; tune.run(checkpoint_freq=..., checkpoint_at_end=True)")
            return None
        return (max if mode == "max" else min)(found, key=lambda pair: pair[1])[0]

    def get_last_checkpoint(self, trial: Any = None, metric: str = TRAINING_ITERATION, mode: str = "max") -> str | None:
        """Returns the path of the newest checkpoint of a trial."""
        if trial is None:
            trial = self.get_best_logdir(metric, mode)
        return self.get_best_checkpoint(trial, TRAINING_ITERATION, "max")


class ExperimentAnalysis(Analysis):
    """Analyzes an experiment; data frames need pandas."""

    def __init__(
        self,
        experiment_checkpoint_path: str,
        trials: list[Trial] | None = None,
        default_metric: str | None = None,
        default_mode: str | None = None,
    ) -> None:
        path = Path(experiment_checkpoint_path).expanduser()
        if path.is_dir():
            states = sorted(path.glob("experiment_state-*.json"))
            if not states:
                raise ConfigError(f"{path}: holds no experiment_state-....json, which tune.run writes")
            path = states[-1]
        try:
            self._experiment_state = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{experiment_checkpoint_path}: is not a state of an experiment: {error}") from None
        super().__init__(str(path.parent), default_metric, default_mode)
        self.trials = trials_of(self._experiment_state) if trials is None else trials

    def _get_trial_paths(self) -> list[str]:
        found = [trial.logdir for trial in self.trials if trial.logdir]
        if not found:
            raise TuneError(f"{self._experiment_dir}: the experiment has no trials")
        return found

    @property
    def best_trial(self) -> Trial | None:
        return self.get_best_trial()

    @property
    def best_config(self) -> dict[str, Any] | None:
        return self.get_best_config()

    @property
    def best_checkpoint(self) -> str | None:
        best = self.get_best_trial()
        return None if best is None else self.get_best_checkpoint(best)

    @property
    def best_logdir(self) -> str | None:
        return self.get_best_logdir()

    @property
    def best_dataframe(self) -> Any:
        return self.trial_dataframes[str(self.get_best_logdir())]

    @property
    def best_result(self) -> dict[str, Any] | None:
        best = self.get_best_trial()
        return None if best is None else best.last_result

    @property
    def best_result_df(self) -> Any:
        return pandas().DataFrame.from_records([flatten_dict(self.best_result or {}, ".")], index="trial_id")

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        return {trial.trial_id: trial.last_result for trial in self.trials}

    @property
    def results_df(self) -> Any:
        rows = [flatten_dict(trial.last_result, ".") for trial in self.trials]
        return pandas().DataFrame.from_records(rows, index="trial_id")

    def get_best_trial(
        self,
        metric: str | None = None,
        mode: str | None = None,
        scope: str = "last",
        filter_nan_and_inf: bool = True,
    ) -> Trial | None:
        """Returns the best trial; None if no trial has a number."""
        key, mode = self._metric(metric), self._mode(mode)
        if scope not in SCOPES:
            raise ConfigError(f"scope = {scope!r}: must be one of {', '.join(SCOPES)}")
        column = mode if scope == "all" else scope
        scored = [(trial.metric_analysis[key][column], trial) for trial in self.trials if key in trial.metric_analysis]
        if filter_nan_and_inf:
            scored = [pair for pair in scored if is_finite(pair[0])]
        if not scored:
            known = sorted({name for trial in self.trials for name in trial.metric_analysis})
            say(f"no trial reports a number {key!r}; there are {', '.join(known) or 'none'}")
            return None
        return (max if mode == "max" else min)(scored, key=lambda pair: pair[0])[1]

    def get_best_config(
        self, metric: str | None = None, mode: str | None = None, scope: str = "last"
    ) -> dict[str, Any] | None:
        best = self.get_best_trial(metric, mode, scope)
        return None if best is None else best.config

    def get_best_logdir(self, metric: str | None = None, mode: str | None = None, scope: str = "last") -> str | None:
        best = self.get_best_trial(metric, mode, scope)
        return None if best is None else best.logdir

    def get_last_checkpoint(self, trial: Any = None, metric: str = TRAINING_ITERATION, mode: str = "max") -> str | None:
        if trial is None:
            trial = self.get_best_trial(metric, mode)
        return None if trial is None else self.get_best_checkpoint(trial, TRAINING_ITERATION, "max")

    def stats(self) -> dict[str, Any]:
        return dict(self._experiment_state.get("stats", {}))

    def runner_data(self) -> dict[str, Any]:
        return dict(self._experiment_state.get("runner_data", {}))


def read_results(folder: str) -> list[dict[str, Any]]:
    """Returns all results of a trial, oldest first; a torn last line is left out."""
    path = Path(folder, EXPR_RESULT_FILE)
    if not path.exists():
        return []
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def trials_of(state: Mapping[str, Any]) -> list[Trial]:
    """Returns the trials of an experiment's file, with their stored results."""
    found = []
    for facts in state.get("checkpoints", []):
        facts = json.loads(facts) if isinstance(facts, str) else facts
        trial = Trial(
            facts["trainable_name"], None, facts["trial_id"], facts["local_dir"], facts["evaluated_params"],
            facts["experiment_tag"],
        )  # fmt: skip
        trial.logdir, trial.status = facts["logdir"], facts["status"]
        trial.custom_trial_name = facts.get("custom_trial_name")
        file = Path(trial.logdir, EXPR_PARAM_FILE)
        trial.config = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        for result in read_results(trial.logdir):
            trial.update_last_result(result)
        found.append(trial)
    return found


def is_finite(value: Any) -> bool:
    """Returns whether a value is a finite number."""
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError):
        return False
