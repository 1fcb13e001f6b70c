"""Results of an experiment, read from its folder; the experiment may be running, finished or killed.

analysis = tune.Analysis("runs/lr")
analysis.best().params
analysis.dataframe()
"""

from __future__ import annotations

import copy
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.core.errors import ConfigError, nearest
from rookery.core.io.files import FOLDER, checkpoint_number, list_checkpoints
from rookery.core.io.open_files import lock_file
from rookery.core.packages import install_line
from rookery.core.settings.layers import flow, yaml_layer
from rookery.core.settings.starting_folder import absolute, shown
from rookery.core.settings.trust import TrustCode
from rookery.native.actor import load_policy
from rookery.policies.policy import Policy
from rookery.report.experiment import ExperimentSummary, Stage, Suggestion, TrialSummary, is_number
from rookery.report.experiment_page import write_page
from rookery.report.metrics_file import read_rows
from rookery.report.panel import number
from rookery.report.shown import ShownAsRows
from rookery.run.trainer import Trainer
from rookery.tune.journal import FILE, ExperimentState, Record, read
from rookery.tune.trial import SCOPES, Row, Status, Trial, per_metric, score_of

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, kw_only=True, eq=False)
class TrialResult(TrialSummary):
    """A trial with its results, files and policies; it has the attributes of `TrialSummary` too.

    Attributes:
        status: Status of the trial.
        seed: Seed of the trial's random streams.
        parents: Donors that the trial was cloned from: (iteration of the trial at that time, donor), oldest first.
        metric: Column that the trial is scored by.
        mode: ``max`` or ``min``.
        scope: Rows that enter the score: ``last``, ``best``, ``mean``, ``last-5``, ``last-10``.
        template: The experiment's configuration, with domains where `params` belong.
    """

    status: Status
    seed: int
    parents: Sequence[tuple[int, str]]
    metric: str
    mode: str
    scope: str
    template: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"<trial {self.name}: {self.status}, {self.metric} {self.score}, {self.params}>"

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """All rows of the trial's `metrics.jsonl`, oldest first; empty if it has not reported yet."""
        return read_rows(self.folder)

    @cached_property
    def row(self) -> dict[str, Any]:
        """The row of the score: the best for the scope ``best``, else the last with a number, else the last."""
        known = [row for row in self.history if is_number(row.get(self.metric))] or [self.last]
        row = known[-1]
        if self.scope == "best" and self.metric in row:
            row = (max if self.mode == "max" else min)(known, key=lambda row: float(row[self.metric]))
        same = (other for other in reversed(self.rows) if other["iteration"] == row.get("iteration"))
        return {**next(same, {}), **row}  # the journal keeps some of the columns

    @cached_property
    def config(self) -> dict[str, Any]:
        """All settings of the trial, nested; for a training that has begun, the resolved ones."""
        if self.is_training:
            return dict(yaml_layer(self.folder / "config.yaml").values)
        return fill_template(self.template, self.params)

    @property
    def checkpoint(self) -> Path | None:
        """The last checkpoint; for the scope ``best`` the one nearest to the best row, of two equally near the later.

        None if there is none. The distance depends on `checkpoint.every` and `checkpoint.keep_last`.
        """
        found = list_checkpoints(self.folder / FOLDER)
        if self.scope != "best" or not found:
            return found[-1] if found else None
        wanted = int(self.row.get("iteration", 0))
        return min(reversed(found), key=lambda path: abs((checkpoint_number(path.name) or (0, 0))[0] - wanted))

    def load(self, **keywords: Any) -> Trainer:
        """Loads the training from its checkpoint; takes the keywords of `Trainer.load`.

        Raises:
            ConfigError: If the trial is not a training, or has no checkpoint yet.
        """
        return Trainer.load(self._to_load(), **keywords)

    def policy(self, name: str | None = None, trust_code: TrustCode = False) -> Policy:
        """Loads a policy of the checkpoint for inference; `name` is needed if there are several. Takes the arguments of
        `load_policy`.

        Raises:
            ConfigError: If the trial is not a training, or has no checkpoint yet.
        """
        return load_policy(self._to_load(), name, trust_code)

    @property
    def is_training(self) -> bool:
        """Whether the trial is a training, and has begun."""
        return (self.folder / "config.yaml").is_file()

    def _to_load(self) -> Path:
        place = self.checkpoint
        if place is None:
            raise ConfigError(f"{self.folder}: the trial has no checkpoint yet")
        if not self.is_training:
            raise ConfigError(f"{place}: this is not a checkpoint of a Trainer: the trial is a class or a function; "
                              "its own load_checkpoint reads what its save_checkpoint wrote")  # fmt: skip
        return place


class Analysis(ShownAsRows):
    """Results of an experiment, read from its folder.

    Args:
        folder: Folder of the experiment.
        metric: Column to score trials by, in place of the experiment's own.
        mode: ``max`` or ``min``, for that column.
        scope: Rows that enter the score, in place of the experiment's own.

    Attributes:
        trials: All trials, in the order in which they were made.
        experiment: The first record of the journal: search space, job, section tune, seed.
        records: All records.
        metrics: Columns that trials are scored by.
        modes: ``max`` or ``min``, for each metric.
        scope: Rows of a trial that enter the score.

    Raises:
        ConfigError: If there is no experiment, or it has no such metric.
        FileError: If its journal is damaged.
    """

    def __init__(
        self, folder: str | Path, metric: str | None = None, mode: str | None = None, scope: str | None = None
    ) -> None:
        self.folder = absolute(folder)
        self.records = records_of(self.folder)
        self.experiment, tune = self.records[0], self.records[0]["tune"]
        self.metrics, self.modes = per_metric(tune["metric"], tune["mode"])
        self.scope: str = tune["scope"]
        self._state = ExperimentState.of(self.folder, self.records)
        if not self.is_running:
            self._state.stop_running()
        chosen = self.summary(metric, mode, scope)
        self.metrics, self.modes, self.scope = chosen.metrics, chosen.modes, chosen.scope
        self.trials: Sequence[TrialResult] = chosen.trials

    def __len__(self) -> int:
        return len(self.trials)

    def __repr__(self) -> str:
        state = "running" if self.is_running else "finished" if self.is_finished else "not finished"
        return f"<experiment {shown(self.folder)}: {len(self)} trials, {state}>"

    def __getitem__(self, name: str) -> TrialResult:
        """Returns a trial by its name.

        Raises:
            ConfigError: If no trial has this name.
        """
        for trial in self.trials:
            if trial.name == name:
                return trial
        names = [trial.name for trial in self.trials]
        there = f"there are {names[0]} to {names[-1]}" if names else "there is none yet"
        raise ConfigError(f"{self.folder}: there is no trial {name!r}{nearest(name, names)}; {there}")

    @property
    def space(self) -> dict[str, Any]:
        """The domain of each parameter: ``{"algorithm.lr": {"loguniform": [0.0001, 0.01]}}``."""
        return dict(self.experiment["space"])

    @property
    def is_running(self) -> bool:
        """Whether a process is writing the journal now."""
        with (self.folder / FILE).open("rb") as file:
            try:
                lock_file(file.fileno(), shared=True)
            except OSError:
                return True
        return False

    @property
    def is_finished(self) -> bool:
        """Whether all trials are over and the search is exhausted."""
        return self._state.is_exhausted and all(trial.status.is_over for trial in self.trials)

    def best(self, metric: str | None = None, mode: str | None = None, scope: str | None = None) -> TrialResult:
        """Returns the best trial. With repeats over seeds, the best trial of the best suggestion.

        So a lucky seed does not decide. The trial has the settings (``config``), the ``checkpoint`` and the ``policy``.

        Args:
            metric: A column of `metrics.jsonl`; None = the experiment's metric.
            mode: ``max`` or ``min``; needed for a metric other than the experiment's.
            scope: ``last``, ``best``, ``mean``, ``last-5`` or ``last-10``; None = the experiment's.

        Raises:
            ConfigError: If there is no such metric, or no trial has a number yet.
        """
        return self.summary(metric, mode, scope).best

    def suggestions(
        self, metric: str | None = None, mode: str | None = None, scope: str | None = None
    ) -> list[Suggestion[TrialResult]]:
        """Returns suggestions with their means over seeds, the best first; takes the arguments of `best`.

        Suggestions that lack the score of a seed come last, those without any score are left out.
        """
        return self.summary(metric, mode, scope).suggestions

    def pareto(self) -> list[Suggestion[TrialResult]]:
        """Returns the Pareto front: the suggestions that no other one beats in a metric without losing in another."""
        return self.summary().pareto()

    def rows(
        self, metric: str | None = None, mode: str | None = None, scope: str | None = None
    ) -> list[dict[str, Any]]:
        """Returns a dict for each trial: name, status, score, the columns of its row (`TrialResult.row`),
        ``config/PATH``. Takes the arguments of `best`.
        """
        return [
            {"trial": trial.name, "number": trial.number, "seed": trial.seed, "status": trial.status.value,
             "score": trial.score, **trial.row, **{f"config/{path}": value for path, value in trial.params.items()},
             "reason": trial.reason, "error": trial.error, "folder": str(trial.folder)}
            for trial in self.summary(metric, mode, scope).trials
        ]  # fmt: skip

    def dataframe(self, metric: str | None = None, mode: str | None = None, scope: str | None = None) -> DataFrame:
        """Returns `rows` as a pandas data frame.

        Raises:
            ConfigError: If there is no such metric, or pandas is not installed.
        """
        return _frame(self.rows(metric, mode, scope)).set_index("trial", drop=False)

    @property
    def trial_dataframes(self) -> dict[str, DataFrame]:
        """All rows of each trial that has reported, by its name, as pandas data frames."""
        return {trial.name: _frame(trial.rows) for trial in self.trials if trial.rows}

    def outcome(self) -> str:
        """Returns a text that names the best trial and the commands for next steps, one a line."""
        lines = []
        found = self.summary()
        if found.suggestions:
            best, leading = found.best, found.suggestions[0]
            lines.append(f"best: trial {best.name}, {best.metric} {number(best.score)}")
            if (seeds := len(leading.trials)) > 1:
                low, high = map(number, leading.intervals[0])
                lines[-1] += f"; mean of its {seeds} seeds {number(leading.score)}, {low} to {high} (95 %)"
            if best.params:
                given = " ".join(shlex.quote(f"{path}={flow(value)}") for path, value in best.params.items())
                lines.append(f"its parameters:  {given}")
            if best.checkpoint is not None and best.is_training:
                lines.append(f"measure it:      rookery evaluate {shown(best.folder)}")
                lines.append(f"record a video:  rookery record {shown(best.folder)}")
            lines.append(f"plots of all:    rookery tune show {shown(self.folder)} -o report.html")
        if self.is_running:
            lines.append("the experiment is running")
        elif not self.is_finished:
            lines.append(f"not finished:    rookery tune resume {shown(self.folder)}")
        return "\n".join(lines)

    # --- plain data ---------------------------------------------------------------------------------------------------

    def summary(
        self, metric: str | None = None, mode: str | None = None, scope: str | None = None
    ) -> ExperimentSummary[TrialResult]:
        """Returns the experiment for tables and plots; takes the arguments of `best`.

        Raises:
            ConfigError: If there is no such metric, mode or scope.
        """
        for name, given, known in (("mode", mode, ("max", "min")), ("scope", scope, SCOPES)):
            if given is not None and given not in known:
                meant = nearest(str(given), list(known))
                raise ConfigError(f"{name} = {given!r}: must be one of {', '.join(known)}{meant}")
        judged = dict(zip(self.metrics, self.modes, strict=True))
        if metric is not None:
            column = self._column(metric)
            way = judged.get(column, mode)
            if way is None:
                raise ConfigError(
                    f"metric = {metric}: this is not a metric of the experiment, so state whether more is better: "
                    "mode = max or min"
                )
            judged = {column: way}
        metrics, modes = tuple(judged), tuple(mode or way for way in judged.values())
        trials = [self._result(trial, metrics, modes, scope or self.scope) for trial in self._state.trials.values()]
        tune = {**self.experiment["tune"], "seed": self.experiment["seed"]}
        title = self.experiment.get("title") or self.experiment["job"].get("title") or self.folder.name
        clock = tune.get("scheduler", {}).get("time", "iteration")
        return ExperimentSummary(
            title=str(title), folder=str(self.folder), metrics=metrics, modes=modes, scope=scope or self.scope,
            trials=trials, space=self.space, settings=tune, stages=stages_of(self.records, clock),
        )  # fmt: skip

    def _result(self, trial: Trial, metrics: tuple[str, ...], modes: tuple[str, ...], scope: str) -> TrialResult:
        # The journal keeps the metrics of the experiment; others are in the trial's own file.
        own = any(metrics[0] in row for row in trial.rows)
        history: Sequence[Row] = trial.rows if own else read_rows(trial.folder)
        judged = zip(metrics, modes, strict=True)
        scores = tuple(score_of(history, metric, mode, scope) for metric, mode in judged)
        return TrialResult(
            **trial.facts, scores=scores, history=history, status=trial.status, seed=trial.seed, parents=trial.parents,
            metric=metrics[0], mode=modes[0], scope=scope, template=self.experiment.get("spec", {}).get("config") or {},
        )  # fmt: skip

    def _column(self, metric: str) -> str:
        """Returns the column of a metric, whose name may be written with dots for slashes."""
        trials = self._state.trials.values()
        known = dict.fromkeys(key for trial in trials for row in trial.rows[-1:] for key in row)
        if metric not in known:
            known |= dict.fromkeys(key for trial in trials for row in read_rows(trial.folder) for key in row)
        for name in (metric, metric.replace(".", "/")):
            if name in known:
                return name
        there = f"there are {', '.join(known)}" if known else "no iteration is over yet"
        raise ConfigError(
            f"{self.folder}: metric = {metric}: the trials report no such value{nearest(metric, list(known))}; {there}"
        )


def records_of(folder: Path) -> list[dict[str, Any]]:
    """Reads the journal of an experiment that has begun.

    Raises:
        ConfigError: If there is no journal.
        FileError: If the journal is damaged.
    """
    if not (folder / FILE).is_file():
        raise ConfigError(f"{folder}: this is not the folder of an experiment (there is no {FILE} in it)")
    records = read(folder)
    if not records:
        raise ConfigError(f"{folder}: this experiment was killed before it began; start it again")
    return records


def write_report(analysis: Analysis, target: str | Path) -> None:
    """Writes a report of an experiment: one self-contained ``.html`` page, or its plots alone as ``.png``.

    Args:
        analysis: Experiment to show.
        target: File to write; its folder is made if it is missing.

    Raises:
        ConfigError: If the file has another ending or cannot be written, matplotlib is not installed, or no trial has a
            score yet.
    """
    write_page(analysis.summary(), target)


def stages_of(records: Sequence[Record], clock: str) -> dict[str, list[Stage]]:
    """Returns the stages of every trial's life, oldest first.

    Args:
        records: All records of a journal.
        clock: Column of a row that holds the trial's age.
    """
    found: dict[str, list[Stage]] = {}
    for record in records:
        name = record.get("trial", "")
        if record["kind"] == "trial":
            found[name] = [Stage(name, 0.0, 0.0, dict(record["params"]))]
        elif record["kind"] == "result":
            age = record["row"].get(clock)
            found[name][-1].end = found[name][-1].end if age is None else float(age)
        for clone, action in record.get("actions", {}).items():
            if isinstance(action, Mapping):
                donor = found[action["donor"]][-1]
                found[clone].append(Stage(clone, donor.end, donor.end, dict(action["params"]), donor))
    return found


def fill_template(template: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a copy of a configuration with the values of its parameters.

    Args:
        template: Nested dicts and lists.
        params: Values by dotted path; keys of a list are indices.
    """
    tree = copy.deepcopy(dict(template))
    for path, value in params.items():
        *above, last = path.split(".")
        node: Any = tree
        for key in above:
            node = node[int(key)] if isinstance(node, list) else node.setdefault(key, {})
        node[int(last) if isinstance(node, list) else last] = value
    return tree


def _frame(rows: list[dict[str, Any]]) -> DataFrame:
    try:
        from pandas import DataFrame
    except ImportError:
        raise ConfigError(f"tables of an Analysis need pandas: {install_line('tune')}") from None
    return DataFrame(rows)
