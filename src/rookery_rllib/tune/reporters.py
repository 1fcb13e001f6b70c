"""Progress in Tune's form: a status table of trials, and their results."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum
from importlib import import_module
from typing import Any

from rookery.face import ConfigError
from rookery_rllib.base.notices import say
from rookery_rllib.trainer.trial.loggers import pretty_print
from rookery_rllib.trainer.trial.result_keys import (
    AUTO_RESULT_KEYS,
    EPISODE_REWARD_MEAN,
    MEAN_ACCURACY,
    MEAN_LOSS,
    TIME_TOTAL_S,
    TIMESTEPS_TOTAL,
    TRAINING_ITERATION,
)
from rookery_rllib.tune.callback import Callback
from rookery_rllib.tune.stopper import value_at
from rookery_rllib.tune.trial import Trial

ORDER = (Trial.RUNNING, Trial.PAUSED, Trial.PENDING, Trial.TERMINATED, Trial.ERROR)
"""Order of statuses in a table."""

RESULT_SECONDS = 30.0
"""Minimum interval of printed results of a trial, in seconds."""


class Verbosity(IntEnum):
    """Verbosity levels."""

    V0_MINIMAL = 0
    V1_EXPERIMENT = 1
    V2_TRIAL_NORM = 2
    V3_TRIAL_DETAILS = 3


class _Level:
    """The verbosity of the experiment that runs."""

    now = Verbosity.V3_TRIAL_DETAILS


def set_verbosity(level: int) -> None:
    """Sets the verbosity, 0 to 3."""
    _Level.now = Verbosity(min(max(int(level), 0), 3))


def has_verbosity(level: int) -> bool:
    """Returns whether the verbosity is at least `level`."""
    return _Level.now >= level


def is_notebook() -> bool:
    """Returns whether the output goes to a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


class ProgressReporter:
    """Shows the state of trials. Subclasses implement `should_report` and `report`."""

    def should_report(self, trials: list[Trial], done: bool = False) -> bool:
        """Returns whether to report now."""
        raise NotImplementedError

    def report(self, trials: list[Trial], done: bool, *sys_info: str) -> None:
        """Shows all trials."""
        raise NotImplementedError

    def set_search_properties(self, metric: str | None, mode: str | None) -> bool:
        return True

    def set_total_samples(self, total_samples: int) -> None:
        """Sets the total number of trials."""


class TuneReporterBase(ProgressReporter):
    """Makes the table."""

    DEFAULT_COLUMNS: Mapping[str, str] = {
        MEAN_ACCURACY: "acc",
        MEAN_LOSS: "loss",
        TRAINING_ITERATION: "iter",
        TIME_TOTAL_S: "total time (s)",
        TIMESTEPS_TOTAL: "ts",
        EPISODE_REWARD_MEAN: "reward",
    }

    def __init__(
        self,
        metric_columns: Sequence[str] | Mapping[str, str] | None = None,
        parameter_columns: Sequence[str] | Mapping[str, str] | None = None,
        total_samples: int | None = None,
        max_progress_rows: int = 20,
        max_error_rows: int = 20,
        max_report_frequency: float = 5,
        infer_limit: int = 3,
        print_intermediate_tables: bool | None = None,
        metric: str | None = None,
        mode: str | None = None,
    ) -> None:
        self._given = metric_columns is not None
        self._metric_columns = named(self.DEFAULT_COLUMNS if metric_columns is None else metric_columns)
        self._parameter_columns = named(parameter_columns or {})
        self._total_samples, self._max_progress_rows, self._max_error_rows = (
            total_samples, max_progress_rows, max_error_rows
        )  # fmt: skip
        self._max_report_frequency, self._infer_limit = max_report_frequency, infer_limit
        self._tables = print_intermediate_tables
        self._metric, self._mode = metric, mode
        self._inferred: dict[str, str] = {}
        self._last_report_time = -float("inf")

    def set_search_properties(self, metric: str | None, mode: str | None) -> bool:
        """Sets the objective of trials; returns whether it was not set before."""
        if (self._metric and metric) or (self._mode and mode):
            return False
        self._metric, self._mode = self._metric or metric, self._mode or mode
        return True

    def set_total_samples(self, total_samples: int) -> None:
        self._total_samples = total_samples

    def should_report(self, trials: list[Trial], done: bool = False) -> bool:
        """Returns True at the end, and every few seconds."""
        if not done and time.monotonic() - self._last_report_time <= self._max_report_frequency:
            return False
        self._last_report_time = time.monotonic()
        return True

    def add_metric_column(self, metric: str, representation: str | None = None) -> None:
        if metric in self._metric_columns:
            raise ConfigError(f"add_metric_column: {metric} is shown already")
        self._metric_columns[metric] = representation or metric

    def add_parameter_column(self, parameter: str, representation: str | None = None) -> None:
        if parameter in self._parameter_columns:
            raise ConfigError(f"add_parameter_column: {parameter} is shown already")
        self._parameter_columns[parameter] = representation or parameter

    def _progress_str(self, trials: list[Trial], done: bool, *sys_info: str, fmt: str = "psql") -> str:
        """Returns everything as a text."""
        if not self._given:
            self._infer(trials)
        lines = ["== Status ==", *sys_info]
        best = self._best(trials)
        if best is not None:
            keys = self._parameter_columns or best.evaluated_params
            shown = {key: value_at(best.config, key) for key in keys}
            value = value_at(best.last_result, str(self._metric))
            lines.append(f"Current best trial: {best.trial_id} with {self._metric}={value} and parameters={shown}")
        if has_verbosity(Verbosity.V1_EXPERIMENT):
            lines += self._counts(trials)
            wanted = has_verbosity(Verbosity.V3_TRIAL_DETAILS) if self._tables is None else self._tables
            if wanted or (done and has_verbosity(Verbosity.V2_TRIAL_NORM)):
                lines += self._table(trials, None if done else self._max_progress_rows, fmt)
            lines += self._errors(trials, None if done else self._max_error_rows, fmt)
        return ("<br>" if fmt == "html" else "\n").join(lines) + "\n"

    def _infer(self, trials: list[Trial]) -> None:
        """Finds a few more numbers worth showing."""
        for trial in trials:
            for key, value in trial.last_result.items():
                if len(self._inferred) >= self._infer_limit:
                    return
                if key in self.DEFAULT_COLUMNS or key in AUTO_RESULT_KEYS or key in self._inferred:
                    continue
                if type(value) in (int, float) or (type(value).__module__ == "numpy" and hasattr(value, "__float__")):
                    self._inferred[key] = self._metric_columns[key] = key

    def _best(self, trials: list[Trial]) -> Trial | None:
        """Returns the trial whose last result is best."""
        if not self._metric or not self._mode:
            return None
        sign = 1.0 if self._mode == "max" else -1.0
        scored = [(value_at(trial.last_result, self._metric), trial) for trial in trials]
        numbers = [(sign * float(value), trial) for value, trial in scored if isinstance(value, int | float)]
        return max(numbers, key=lambda pair: pair[0])[1] if numbers else None

    def _counts(self, trials: list[Trial]) -> list[str]:
        """Returns the directory of results, and the number of trials of each status."""
        counts = Counter(trial.status for trial in trials)
        if not trials:
            return []
        total = f"/{self._total_samples}" if self._total_samples else ""
        by_status = ", ".join(f"{counts[status]} {status}" for status in sorted(counts))
        folders = [f"Result logdir: {folder}" for folder in sorted({trial.local_dir for trial in trials})]
        return [*folders, f"Number of trials: {len(trials)}{total} ({by_status})"]

    def _table(self, trials: list[Trial], most: int | None, fmt: str) -> list[str]:
        """Returns the table of trials, and a note about omitted ones."""
        if not trials:
            return []
        ordered = [trial for status in ORDER for trial in trials if trial.status == status]
        shown = ordered[:most]
        keys = [
            key for key in self._metric_columns if any(value_at(trial.last_result, key) is not None for trial in shown)
        ]
        chosen = sorted({path for trial in shown for path in trial.evaluated_params})
        parameters = self._parameter_columns or {path: path for path in chosen}
        head = ["Trial name", "status", "loc", *parameters.values(), *(self._metric_columns[key] for key in keys)]
        rows = [
            [
                str(trial),
                trial.status,
                str(trial.location) if trial.status == Trial.RUNNING else "",
                *(value_at(trial.config, path) for path in parameters),
                *(value_at(trial.last_result, key) for key in keys),
            ]
            for trial in shown
        ]
        left = Counter(trial.status for trial in ordered[len(shown) :])
        more = ", ".join(f"{number} {status}" for status, number in sorted(left.items()))
        return [table(head, rows, fmt), *([f"... {sum(left.values())} more trials not shown ({more})"] if left else [])]

    def _errors(self, trials: list[Trial], most: int | None, fmt: str) -> list[str]:
        """Returns the table of failures."""
        failed = [trial for trial in trials if trial.error_file]
        if not failed:
            return []
        rows = [[str(trial), trial.num_failures, trial.error_file] for trial in failed[:most]]
        return [
            f"Number of errored trials: {len(failed)}",
            table(["Trial name", "# failures", "error file"], rows, fmt),
        ]


class CLIReporter(TuneReporterBase):
    """Prints the table; arguments as of `TuneReporterBase`."""

    def report(self, trials: list[Trial], done: bool, *sys_info: str) -> None:
        say(self._progress_str(trials, done, *sys_info))


class JupyterNotebookReporter(TuneReporterBase):
    """Shows the table in a notebook; elsewhere prints it."""

    def __init__(self, overwrite: bool = True, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._overwrite = overwrite

    def report(self, trials: list[Trial], done: bool, *sys_info: str) -> None:
        if not is_notebook():
            say(self._progress_str(trials, done, *sys_info))
            return
        shell = import_module("IPython.display")
        if self._overwrite:
            shell.clear_output(wait=True)
        shell.display(shell.HTML(self._progress_str(trials, done, *sys_info, fmt="html")))


def default_reporter() -> TuneReporterBase:
    """Returns the reporter for a notebook or a terminal."""
    return JupyterNotebookReporter() if is_notebook() else CLIReporter()


def named(columns: Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """Returns the column titles by key."""
    return dict(columns) if isinstance(columns, Mapping) else {key: key for key in columns}


def table(head: Sequence[str], rows: Sequence[Sequence[Any]], fmt: str = "psql") -> str:
    """Returns a table with frames, or as HTML; numbers are right-aligned."""
    texts = [[cell(value) for value in row] for row in rows]
    if fmt == "html":
        lines = ["".join(f"<td>{text}</td>" for text in row) for row in texts]
        top = "".join(f"<th>{text}</th>" for text in head)
        return "<table><tr>" + top + "</tr>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"
    widths = [max(map(len, column)) for column in zip(head, *texts, strict=True)]
    right = [
        all(isinstance(value, int | float) or value is None for value in column) for column in zip(*rows, strict=True)
    ]

    def line(parts: Sequence[str]) -> str:
        padded = [
            part.rjust(width) if to_right else part.ljust(width)
            for part, width, to_right in zip(parts, widths, right, strict=True)
        ]
        return f"| {' | '.join(padded)} |"

    frame = "+".join(["", *("-" * (width + 2) for width in widths), ""])
    below = "|" + "+".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([frame, line(list(head)), below, *(line(row) for row in texts), frame])


def cell(value: Any) -> str:
    """Formats a value of a table: numbers with six digits."""
    if value is None:
        return ""
    if isinstance(value, float) or type(value).__module__ == "numpy":
        try:
            return f"{float(value):g}"
        except (TypeError, ValueError):
            return str(value)
    return str(value)


class TrialProgressCallback(Callback):
    """Prints results of trials: complete, or a line each, by verbosity."""

    def __init__(self, metric: str | None = None) -> None:
        self._metric = metric
        self._printed: dict[Any, float] = {}
        self._ended: set[Any] = set()

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: Any, **info: Any) -> None:
        """Prints a result, at most every half minute for each trial, and the last one."""
        self._print(trial, result, failed=False)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._print(trial, trial.last_result, failed=True)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Prints that a trial is complete, if its last result was not printed."""
        if trial not in self._ended and has_verbosity(Verbosity.V2_TRIAL_NORM):
            self._ended.add(trial)
            say(f"Trial {trial} completed. Last result: {self._line(trial.last_result)}")

    def _print(self, trial: Any, result: Mapping[str, Any], failed: bool) -> None:
        over = bool(result.get("done"))
        due = time.monotonic() - self._printed.get(trial, -RESULT_SECONDS) >= RESULT_SECONDS
        if not (over or failed or due):
            return
        self._printed[trial] = time.monotonic()
        if over:
            self._ended.add(trial)
        if has_verbosity(Verbosity.V3_TRIAL_DETAILS):
            if result:
                lines = pretty_print(result).replace("\n", "\n  ")
                say(f"Result for {trial}:\n  {lines}")
        elif has_verbosity(Verbosity.V2_TRIAL_NORM):
            value = result.get(self._metric) if self._metric else None
            shown = f"{self._metric}={value:.2f}" if isinstance(value, int | float) else self._line(result)
            end = " This trial completed." if over else ""
            say(f"Trial {trial} reported {shown} with parameters={trial.evaluated_params}.{end}")
        if failed:
            say(f"Trial {trial} failed: {trial.error_msg} (see {trial.error_file})")

    def _line(self, result: Mapping[str, Any]) -> str:
        """Returns a result in one line."""
        hidden = {*AUTO_RESULT_KEYS, "hist_stats", "trial_id", "experiment_tag", "done"}
        return ",".join(f"{key}={value}" for key, value in result.items() if key not in hidden)
