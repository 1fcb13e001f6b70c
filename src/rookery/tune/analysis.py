"""What came of an experiment, read from its folder: running, finished or killed, it makes no difference.

analysis = tune.Analysis("runs/lr")
analysis.best().params
analysis.dataframe()
"""

from __future__ import annotations

import fcntl
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.core.errors import ConfigError, nearest
from rookery.core.files import FOLDER, checkpoint_number, list_checkpoints
from rookery.core.layers import flow, yaml_layer
from rookery.native.actor import load_policy
from rookery.policies.policy import Policy
from rookery.training.metrics_file import read_rows
from rookery.training.panel import number
from rookery.training.results import interval
from rookery.training.trainer import Trainer
from rookery.tune.journal import FILE, History, read
from rookery.tune.trial import SCOPES, Row, Status, Trial, is_number, score_of

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Judge:
    """What a trial is judged by.

    Attributes:
        metric: A column.
        mode: ``max`` or ``min``: which numbers are better.
        scope: Which rows count: ``last``, ``best``, ``mean``, ``last-5``, ``last-10``.
    """

    metric: str
    mode: str
    scope: str

    def worth(self, score: float) -> float:
        """The score, such that more is better."""
        return score if self.mode == "max" else -score


class TrialResult:
    """One trial, and what it came to.

    Args:
        trial: Where it stands.
        judge: What it is judged by.
        template: The experiment's configuration, with domains where `params` belong.

    Attributes:
        name: ``00003``; with repeats over seeds ``00003-1``.
        number: Which suggestion of the search it is.
        params: What was chosen for it, by path; of a clone, what it goes on with.
        seed: Names its random streams.
        status: Where it stands.
        iteration: The last it reported.
        reason: Why it ended, in words.
        error: Its last failure, in one line; the tracebacks are in `error.txt` of its folder.
        folder: Where its files are.
        parents: Whom it was cloned from: (its iteration then, donor), oldest first.
    """

    def __init__(self, trial: Trial, judge: Judge, template: Mapping[str, Any]) -> None:
        self.name = trial.name
        self.number = trial.number
        self.params = dict(trial.params)
        self.seed = trial.seed
        self.status: Status = trial.status
        self.iteration = trial.iteration
        self.reason = trial.reason
        self.error = trial.error
        self.folder = trial.folder
        self.parents = list(trial.parents)
        self.judge = judge
        self.trial = trial
        self._template = template

    def __repr__(self) -> str:
        return f"<trial {self.name}: {self.status.value}, {self.judge.metric} {self.score}, {self.params}>"

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """All of its `metrics.jsonl`, oldest first; empty if it has not reported yet."""
        return read_rows(self.folder)

    @property
    def history(self) -> list[Row]:
        """Its rows with the metric in them: those of the journal if that has it, else those of `metrics.jsonl`."""
        journal = self.trial.rows
        return journal if any(self.judge.metric in row for row in journal) else list(self.rows)

    @cached_property
    def score(self) -> float | None:
        """What it came to; None if it has not reported a number yet."""
        return score_of(self.history, self.judge.metric, self.judge.mode, self.judge.scope)

    @cached_property
    def row(self) -> dict[str, Any]:
        """The row that its score is of: its best for the scope ``best``, else the last with a number, or at all."""
        known = [row for row in self.history if is_number(row.get(self.judge.metric))]
        if not known:
            return self._whole(self.trial.row)
        if self.judge.scope == "best":
            return self._whole(max(known, key=lambda row: self.judge.worth(row[self.judge.metric])))
        return self._whole(known[-1])

    def _whole(self, row: Row) -> dict[str, Any]:
        """A row of the journal with all columns of `metrics.jsonl`."""
        found = (other for other in reversed(self.rows) if other["iteration"] == row.get("iteration"))
        return {**next(found, {}), **row}

    @cached_property
    def config(self) -> dict[str, Any]:
        """All its settings, nested; of a training that has begun, as they were resolved."""
        if self.is_training:
            return dict(yaml_layer(self.folder / "config.yaml").values)
        return dict(filled(self._template, self.params))

    @property
    def checkpoint(self) -> Path | None:
        """The last checkpoint; for the scope ``best`` the one nearest to the best row, of two as near the later.

        None if there is none. How near that can be is a matter of `checkpoint.every` and `checkpoint.keep_last`.
        """
        found = list_checkpoints(self.folder / FOLDER)
        if self.judge.scope != "best" or not found:
            return found[-1] if found else None
        wanted = int(self.row.get("iteration", 0))
        return min(reversed(found), key=lambda path: abs((checkpoint_number(path.name) or (0, 0))[0] - wanted))

    def load(self, **keywords: Any) -> Trainer:
        """The training as its checkpoint has it; keywords are those of `Trainer.load`.

        Raises:
            ConfigError: If it is no training, or has no checkpoint yet.
        """
        return Trainer.load(self._to_load(), **keywords)

    def policy(self, name: str | None = None) -> Policy:
        """A policy of its checkpoint, to act with; the name is needed where there are several.

        Raises:
            ConfigError: If it is no training, or has no checkpoint yet.
        """
        return load_policy(self._to_load(), name)

    @property
    def is_training(self) -> bool:
        """Whether it is a training, and has begun."""
        return (self.folder / "config.yaml").is_file()

    def _to_load(self) -> Path:
        place = self.checkpoint
        if place is None:
            raise ConfigError(f"{self.folder}: holds no checkpoint yet")
        if not self.is_training:
            raise ConfigError(f"{place}: is no checkpoint of a Trainer: this trial is a class or a function of yours; "
                              "its own load_checkpoint reads what its save_checkpoint wrote")  # fmt: skip
        return place


@dataclass(frozen=True)
class Suggestion:
    """Parameters, and what came of them with all seeds.

    Attributes:
        number: Which suggestion of the search it is.
        params: What was chosen, by path.
        trials: One for each seed.
        values: For each metric the mean over trials with a number.
        intervals: For each metric the 95 % interval of that mean (Student's t).
    """

    number: int
    params: dict[str, Any]
    trials: tuple[TrialResult, ...]
    values: tuple[float, ...]
    intervals: tuple[tuple[float, float], ...]

    @property
    def score(self) -> float:
        """The mean of the first metric."""
        return self.values[0]


class Analysis:
    """An experiment as its folder tells it.

    Args:
        folder: Of the experiment.
        metric: Another column to judge by than the experiment's own.
        mode: ``max`` or ``min``, for it.
        scope: Other rows to judge by.

    Attributes:
        trials: All of them, in the order they were made.
        experiment: The first record of the journal: search space, job, section tune, seed.
        records: All records.

    Raises:
        ConfigError: If there is no experiment, or it knows no such metric.
        FileError: If its journal is damaged.
    """

    def __init__(
        self, folder: str | Path, metric: str | None = None, mode: str | None = None, scope: str | None = None
    ) -> None:
        self.folder = Path(folder)
        if not (self.folder / FILE).is_file():
            raise ConfigError(f"{self.folder}: is not the folder of an experiment (there is no {FILE} in it)")
        self.records = read(self.folder)
        if not self.records:
            raise ConfigError(f"{self.folder}: this experiment was killed before it began; run it again")
        self.experiment: dict[str, Any] = self.records[0]
        tune = self.experiment["tune"]
        metrics = (tune["metric"],) if isinstance(tune["metric"], str) else tuple(tune["metric"])
        modes = (tune["mode"],) if isinstance(tune["mode"], str) else tuple(tune["mode"])
        self._judges = [
            Judge(name, way, tune["scope"])
            for name, way in zip(metrics, modes * len(metrics) if len(modes) == 1 else modes, strict=True)
        ]
        self._template: Mapping[str, Any] = self.experiment.get("spec", {}).get("config") or {}
        self._history = History.of(self.folder, self.records)
        self._made = self._history.trials
        for trial in [] if self.is_running else self._history.with_status(Status.RUNNING):
            trial.status = Status.PENDING  # nobody works on it any more
        self.trials = [self._result(trial, self._judges[0]) for trial in self._made.values()]
        self._judges = self.judges(metric, mode, scope)
        self.trials = [self._result(trial, self._judges[0]) for trial in self._made.values()]

    def __len__(self) -> int:
        return len(self.trials)

    def __repr__(self) -> str:
        state = "running" if self.is_running else "finished" if self.is_finished else "not finished"
        return f"<experiment {self.folder}: {len(self)} trials, {state}>"

    def __getitem__(self, name: str) -> TrialResult:
        """A trial by its name.

        Raises:
            ConfigError: If there is none.
        """
        for trial in self.trials:
            if trial.name == name:
                return trial
        names = [trial.name for trial in self.trials]
        there = f"there are {names[0]} to {names[-1]}" if names else "there is none yet"
        raise ConfigError(f"{self.folder}: there is no trial {name!r}{nearest(name, names)}; {there}")

    @property
    def metrics(self) -> tuple[str, ...]:
        """What trials are judged by."""
        return tuple(judge.metric for judge in self._judges)

    @property
    def modes(self) -> tuple[str, ...]:
        """Whether more is better or less, for each metric."""
        return tuple(judge.mode for judge in self._judges)

    @property
    def scope(self) -> str:
        """Which rows count."""
        return self._judges[0].scope

    @property
    def space(self) -> dict[str, Any]:
        """What each parameter may be: ``{"algorithm.lr": {"loguniform": [0.0001, 0.01]}}``."""
        return dict(self.experiment["space"])

    @property
    def is_running(self) -> bool:
        """Whether somebody is writing its journal now."""
        with (self.folder / FILE).open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return True
        return False

    @property
    def is_finished(self) -> bool:
        """Whether all trials are over, and no other will come."""
        return self._history.is_exhausted and all(trial.status.is_over for trial in self.trials)

    # --- the best -----------------------------------------------------------------------------------------------------

    def best(self, metric: str | None = None, mode: str | None = None, scope: str | None = None) -> TrialResult:
        """The best trial. With repeats over seeds, the best one of the best suggestion: no lucky seed decides.

        Args:
            metric: A column of `metrics.jsonl`; None = what the experiment was judged by.
            mode: ``max`` or ``min``; needed for a metric that the experiment was not judged by.
            scope: ``last``, ``best``, ``mean``, ``last-5`` or ``last-10``; None = the experiment's.

        Raises:
            ConfigError: If there is no such metric, or no trial has a number yet.
        """
        judge = self.judges(metric, mode, scope)[0]
        leading = self.suggestions(metric, mode, scope)[0]
        return max(_scored(leading.trials, judge), key=lambda pair: pair[0])[1]

    def suggestions(
        self, metric: str | None = None, mode: str | None = None, scope: str | None = None
    ) -> list[Suggestion]:
        """Suggestions with their means over seeds, the best first; those that lack a seed's number come after the rest.

        Raises:
            ConfigError: As `best`.
        """
        judges = self.judges(metric, mode, scope)
        groups: dict[int, list[Trial]] = {}
        for trial in self._made.values():
            groups.setdefault(trial.number, []).append(trial)
        found = [one for trials in groups.values() if (one := self._suggestion(trials, judges)) is not None]
        if not found:
            raise ConfigError(f"{self.folder}: no trial has a number of {judges[0].metric} yet")
        seeds = {one.number: len(_scored(one.trials, judges[0])) for one in found}
        return sorted(found, key=lambda one: (-seeds[one.number], -judges[0].worth(one.score)))

    def _suggestion(self, trials: Sequence[Trial], judges: Sequence[Judge]) -> Suggestion | None:
        """What came of the trials of one suggestion; None if a metric has no number."""
        values, intervals = [], []
        for judge in judges:
            scores = [score for trial in trials if (score := self._result(trial, judge).score) is not None]
            if not scores:
                return None
            values.append(math.fsum(scores) / len(scores))
            intervals.append(interval(tuple(scores)))
        results = tuple(self._result(trial, judges[0]) for trial in trials)
        return Suggestion(trials[0].number, dict(trials[0].params), results, tuple(values), tuple(intervals))

    def pareto(self) -> list[Suggestion]:
        """Suggestions that no other beats in one metric without losing in another; for one metric, the best.

        Raises:
            ConfigError: If no trial has numbers yet.
        """
        found = self.suggestions()
        worths = [[judge.worth(value) for judge, value in zip(self._judges, one.values, strict=True)] for one in found]

        def beaten(mine: Sequence[float]) -> bool:
            return any(
                all(theirs >= own for theirs, own in zip(other, mine, strict=True)) and list(other) != list(mine)
                for other in worths
            )

        return [one for one, mine in zip(found, worths, strict=True) if not beaten(mine)]

    @property
    def best_trial(self) -> TrialResult:
        """As `best`."""
        return self.best()

    @property
    def best_suggestion(self) -> Suggestion:
        """The first of `suggestions`."""
        return self.suggestions()[0]

    @property
    def best_config(self) -> dict[str, Any]:
        """All settings of the best trial."""
        return self.best().config

    @property
    def best_checkpoint(self) -> Path | None:
        """A checkpoint of the best trial."""
        return self.best().checkpoint

    # --- all of them --------------------------------------------------------------------------------------------------

    @property
    def configs(self) -> dict[str, dict[str, Any]]:
        """All settings of each trial."""
        return {trial.name: trial.config for trial in self.trials}

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        """The last row of each trial that has reported."""
        return {trial.name: trial._whole(trial.trial.row) for trial in self.trials if trial.trial.row}

    def rows(
        self, metric: str | None = None, mode: str | None = None, scope: str | None = None
    ) -> list[dict[str, Any]]:
        """A dict a trial: name, status, score, the columns of its row (see `TrialResult.row`), ``config/PATH``.

        Raises:
            ConfigError: If there is no such metric.
        """
        judge = self.judges(metric, mode, scope)[0]
        rows = []
        for trial in self._made.values():
            result = self._result(trial, judge)
            about = {
                "trial": result.name,
                "number": result.number,
                "seed": result.seed,
                "status": result.status.value,
                "score": result.score,
            }
            params = {f"config/{path}": value for path, value in result.params.items()}
            after = {"reason": result.reason, "error": result.error, "folder": str(result.folder)}
            rows.append({**about, **result.row, **params, **after})
        return rows

    def dataframe(self, metric: str | None = None, mode: str | None = None, scope: str | None = None) -> DataFrame:
        """`rows` as a table of pandas.

        Raises:
            ConfigError: If there is no such metric, or pandas is not installed.
        """
        return _frame(self.rows(metric, mode, scope)).set_index("trial", drop=False)

    @property
    def trial_dataframes(self) -> dict[str, DataFrame]:
        """All rows of each trial that has reported, by its name.

        Raises:
            ConfigError: If pandas is not installed.
        """
        return {trial.name: _frame(trial.rows) for trial in self.trials if trial.rows}

    def outcome(self) -> str:
        """The best trial, and what can be done now, a command a line."""
        place = self.folder
        lines = []
        if any(trial.score is not None for trial in self.trials):
            best, leading = self.best(), self.suggestions()[0]
            lines.append(f"best: trial {best.name}, {best.judge.metric} {number(best.score)}")
            if len(leading.trials) > 1:
                low, high = map(number, leading.intervals[0])
                lines[-1] += (
                    f"; mean of its {len(leading.trials)} seeds {number(leading.score)}, {low} to {high} (95 %)"
                )
            if best.params:
                given = " ".join(shlex.quote(f"{path}={flow(value)}") for path, value in best.params.items())
                lines.append(f"its parameters:  {given}")
            if best.checkpoint is not None and best.is_training:
                lines.append(f"measure it:      rookery evaluate {best.folder}")
                lines.append(f"film it:         rookery record {best.folder}")
            lines.append(f"pictures of all: rookery tune show {place} -o report.html")
        if self.is_running:
            lines.append("it is running")
        elif not self.is_finished:
            lines.append(f"not finished:    rookery tune resume {place}")
        return "\n".join(lines)

    # --- what is judged by --------------------------------------------------------------------------------------------

    def judges(self, metric: str | None, mode: str | None, scope: str | None) -> list[Judge]:
        """What to judge by: the one metric that is asked for, else those of the experiment.

        Raises:
            ConfigError: If there is no such metric, mode or scope.
        """
        if mode not in (None, "max", "min"):
            raise ConfigError(f"mode = {mode!r}: must be max or min{nearest(str(mode), ['max', 'min'])}")
        if scope is not None and scope not in SCOPES:
            raise ConfigError(f"scope = {scope!r}: must be one of {', '.join(SCOPES)}{nearest(scope, list(SCOPES))}")
        if metric is None:
            judges = self._judges
        else:
            column = self.column(metric)
            same = [judge for judge in self._judges if judge.metric == column]
            if not same and mode is None:
                raise ConfigError(
                    f"metric = {metric}: the experiment was not judged by it, so say whether more is better: "
                    "mode = max or min"
                )
            judges = same or [Judge(column, mode or "", self.scope)]
        return [replace(judge, mode=mode or judge.mode, scope=scope or judge.scope) for judge in judges]

    def column(self, metric: str) -> str:
        """The column that a metric means, which may be written with dots for slashes.

        Raises:
            ConfigError: If no trial has reported such a column; names the nearest.
        """
        columns = dict.fromkeys(key for trial in self._made.values() for row in trial.rows[-1:] for key in row)
        for trial in self.trials:
            if metric in columns:
                return metric
            columns.update(dict.fromkeys(key for row in trial.rows for key in row))
        for name in (metric, metric.replace(".", "/")):
            if name in columns:
                return name
        known = list(columns)
        raise ConfigError(
            f"{self.folder}: metric = {metric}: the trials report no such number{nearest(metric, known)}; "
            f"{'there are ' + ', '.join(known) if known else 'no iteration is over yet'}"
        )

    def _result(self, trial: Trial, judge: Judge) -> TrialResult:
        return TrialResult(trial, judge, self._template)


def filled(template: Any, params: Mapping[str, Any]) -> Any:
    """A copy of a configuration with parameters in place.

    Args:
        template: Nested dicts and lists.
        params: By dotted path; keys of a list are numbers.
    """
    if not params:
        return template
    if "" in params:
        return params[""]
    below: dict[str, dict[str, Any]] = {}
    for path, value in params.items():
        key, _, rest = path.partition(".")
        below.setdefault(key, {})[rest] = value
    if isinstance(template, Sequence) and not isinstance(template, str):
        return [filled(item, below.get(str(place), {})) for place, item in enumerate(template)]
    tree = dict(template) if isinstance(template, Mapping) else {}
    return tree | {key: filled(tree.get(key), inside) for key, inside in below.items()}


def _scored(trials: Sequence[TrialResult], judge: Judge) -> list[tuple[float, TrialResult]]:
    """Trials with a number, behind their worth."""
    return [(judge.worth(trial.score), trial) for trial in trials if trial.score is not None]


def _frame(rows: list[dict[str, Any]]) -> DataFrame:
    try:
        from pandas import DataFrame
    except ImportError:
        raise ConfigError("tables of an Analysis need pandas: pip install 'rookery[tune]'") from None
    return DataFrame(rows)
