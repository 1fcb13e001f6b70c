"""``Tuner(...).fit()`` of Ray 2.x, a thin form over `run`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rookery.face import ConfigError
from rookery_rllib.base import release
from rookery_rllib.trainer.trial.checkpoints import checkpoints_in
from rookery_rllib.trainer.trial.result_keys import TRAINING_ITERATION
from rookery_rllib.tune.analysis import ExperimentAnalysis, is_finite, read_results
from rookery_rllib.tune.experiment import run
from rookery_rllib.tune.stopper import value_at
from rookery_rllib.tune.trial import Checkpoint, Trial


@dataclass
class TuneConfig:
    """Search, scheduler and objective; `reuse_actors` has no meaning here."""

    metric: str | None = None
    mode: str | None = None
    search_alg: Any = None
    scheduler: Any = None
    num_samples: int = 1
    max_concurrent_trials: int | None = None
    time_budget_s: Any = None
    reuse_actors: bool = False
    trial_name_creator: Callable[[Trial], str] | None = None
    trial_dirname_creator: Callable[[Trial], str] | None = None


@dataclass
class CheckpointConfig:
    """Frequency and number of checkpoints."""

    num_to_keep: int | None = None
    checkpoint_score_attribute: str | None = None
    checkpoint_score_order: str = "max"
    checkpoint_frequency: int = 0
    checkpoint_at_end: bool | None = None


@dataclass
class FailureConfig:
    """Handling of failures."""

    max_failures: int = 0
    fail_fast: bool | str = False


@dataclass
class RunConfig:
    """Result directory and stop criteria; a `sync_config` without an ``upload_dir`` has no effect."""

    name: str | None = None
    storage_path: str | None = None
    local_dir: str | None = None
    callbacks: Sequence[Any] | None = None
    stop: Any = None
    failure_config: FailureConfig = field(default_factory=FailureConfig)
    checkpoint_config: CheckpointConfig = field(default_factory=CheckpointConfig)
    sync_config: Any = None
    verbose: int = 3
    progress_reporter: Any = None
    log_to_file: Any = False


@dataclass(frozen=True)
class Result:
    """Result of one trial."""

    metrics: Mapping[str, Any]
    config: Mapping[str, Any]
    checkpoint: Checkpoint | None
    error: str | None
    path: str

    @property
    def log_dir(self) -> str:
        return self.path

    @property
    def metrics_dataframe(self) -> Any:
        """A row for each result; needs pandas."""
        return ExperimentAnalysis(self.path).trial_dataframes.get(self.path.rstrip("/"))

    @property
    def best_checkpoints(self) -> list[tuple[Checkpoint, Mapping[str, Any]]]:
        """The stored checkpoints, each with the result before it."""
        results = {result.get(TRAINING_ITERATION): result for result in read_results(self.path)}
        return [(Checkpoint(path), results.get(number, {})) for number, path in checkpoints_in(self.path)]

    def get_best_checkpoint(self, metric: str, mode: str) -> Checkpoint | None:
        """Returns the stored checkpoint with the best result; None without one."""
        found = [pair for pair in self.best_checkpoints if is_finite(value_at(pair[1], metric))]
        choose = max if mode == "max" else min
        return choose(found, key=lambda pair: value_at(pair[1], metric))[0] if found else None


class ResultGrid:
    """Results of all trials."""

    def __init__(self, analysis: ExperimentAnalysis) -> None:
        self._experiment_analysis = analysis
        self._results = [_result_of(trial) for trial in analysis.trials]

    def __len__(self) -> int:
        return len(self._results)

    def __getitem__(self, place: int) -> Result:
        return self._results[place]

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results)

    @property
    def errors(self) -> list[str]:
        return [result.error for result in self._results if result.error]

    @property
    def num_errors(self) -> int:
        return len(self.errors)

    @property
    def num_terminated(self) -> int:
        return len(self._results) - self.num_errors

    @property
    def experiment_path(self) -> str:
        return str(self._experiment_analysis._experiment_dir)

    def get_best_result(
        self,
        metric: str | None = None,
        mode: str | None = None,
        scope: str = "last",
        filter_nan_and_inf: bool = True,
    ) -> Result:
        """Returns the best trial; arguments as of ``ExperimentAnalysis.get_best_trial``.

        Raises:
            ConfigError: If no trial has a number.
        """
        best = self._experiment_analysis.get_best_trial(metric, mode, scope)
        if best is None:
            raise ConfigError(
                f"get_best_result: no trial reports {metric or self._experiment_analysis.default_metric!r}"
            )
        return _result_of(best)

    def get_dataframe(self, filter_metric: str | None = None, filter_mode: str | None = None) -> Any:
        """Returns a row for each trial; needs pandas."""
        return self._experiment_analysis.dataframe(filter_metric, filter_mode)


def _result_of(trial: Trial) -> Result:
    checkpoint = trial.checkpoint
    failed = trial.error_msg if trial.status == Trial.ERROR else None
    return Result(
        trial.last_result, trial.config, checkpoint if checkpoint.value is not None else None, failed, trial.logdir
    )


class Tuner:
    """Runs trials when `fit` is called."""

    def __init__(
        self,
        trainable: Any = None,
        *,
        param_space: Any = None,
        tune_config: TuneConfig | None = None,
        run_config: RunConfig | None = None,
    ) -> None:
        release.note_import(("ray.tune.Tuner",))
        self._trainable, self._space = trainable, param_space
        self._tune, self._run = tune_config or TuneConfig(), run_config or RunConfig()
        self._resume = False

    @classmethod
    def restore(cls, path: str, trainable: Any, param_space: Mapping[str, Any] | None = None, **others: Any) -> Tuner:
        """Returns a tuner that resumes the experiment in a directory."""
        place, _, name = path.rstrip("/").rpartition("/")
        made = cls(trainable, param_space=param_space, **others)
        made._run.name, made._run.storage_path, made._resume = name, place, True
        return made

    def fit(self) -> ResultGrid:
        tune, made, kept = self._tune, self._run, self._run.checkpoint_config
        attribute = kept.checkpoint_score_attribute
        if attribute and kept.checkpoint_score_order == "min":
            attribute = f"min-{attribute}"
        shared = {name: getattr(tune, name) for name in inspect.signature(run).parameters if hasattr(tune, name)}
        shared |= {name: getattr(made, name) for name in ("name", "callbacks", "stop", "sync_config", "verbose",
                                                          "progress_reporter", "log_to_file")}  # fmt: skip
        analysis = run(
            self._trainable, config=self._space, local_dir=made.storage_path or made.local_dir, resume=self._resume,
            max_failures=made.failure_config.max_failures, fail_fast=made.failure_config.fail_fast,
            keep_checkpoints_num=kept.num_to_keep, checkpoint_freq=kept.checkpoint_frequency,
            checkpoint_score_attr=attribute,
            checkpoint_at_end=bool(kept.checkpoint_at_end), raise_on_failed_trial=False,
            max_concurrent_trials=tune.max_concurrent_trials, **shared,
        )  # fmt: skip
        return ResultGrid(analysis)
