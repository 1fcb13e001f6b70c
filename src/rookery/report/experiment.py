"""An experiment of many trials as plain data, for tables, figures and pages.

This module reads no files. Callers build an `ExperimentSummary` of a running or stored experiment.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from rookery.core.errors import ConfigError
from rookery.core.settings.layers import flow
from rookery.report.statistics import mean_interval


@dataclass(frozen=True, kw_only=True, eq=False)
class TrialSummary:
    """A trial and its results.

    Attributes:
        name: ``00003``; with repeats over seeds ``00003-1``.
        number: Number of the suggestion with the trial's parameters; repeats over seeds share it.
        params: Parameters by path; of a clone, those that it continues with.
        status: PENDING, RUNNING, PAUSED, TERMINATED or ERROR.
        scores: The score for each metric; None if the trial has reported no number.
        last: The last row that the trial reported.
        history: Rows with the first metric, oldest first.
        reason: Why the trial ended, in words.
        error: The last failure in one line; the tracebacks are in ``error.txt`` of the trial's folder.
        folder: Folder of the trial's files.
    """

    name: str
    number: int
    params: Mapping[str, Any]
    status: str
    scores: tuple[float | None, ...]
    last: Mapping[str, Any] = field(default_factory=dict)
    history: Sequence[Mapping[str, Any]] = ()
    reason: str = ""
    error: str = ""
    folder: Path = Path()

    @property
    def score(self) -> float | None:
        """The score for the first metric."""
        return self.scores[0]

    @property
    def iteration(self) -> int:
        """Iterations reported so far."""
        return int(self.last.get("iteration", 0))


T = TypeVar("T", bound=TrialSummary, covariant=True)


@dataclass(frozen=True)
class Suggestion(Generic[T]):
    """Parameters with the results of all their trials.

    Attributes:
        number: Number of the suggestion, counted from 0.
        params: Parameters by path.
        trials: One trial for each seed.
        values: For each metric the mean over the trials that have a number.
        intervals: For each metric the 95 % interval of that mean, by `statistics.mean_interval`.
    """

    number: int
    params: Mapping[str, Any]
    trials: tuple[T, ...]
    values: tuple[float, ...]
    intervals: tuple[tuple[float, float], ...]

    @property
    def score(self) -> float:
        """The mean of the first metric."""
        return self.values[0]


@dataclass
class Stage:
    """A part of a trial's life with the same parameters.

    Attributes:
        trial: Name of the trial.
        begin: Age at which the stage began; of a clone, the age of its donor's checkpoint.
        end: Age at the last result.
        params: Parameters by path.
        parent: The stage whose weights this one continued; None if it began with new weights.
    """

    trial: str
    begin: float
    end: float
    params: dict[str, Any]
    parent: Stage | None = None


@dataclass(frozen=True, kw_only=True)
class ExperimentSummary(Generic[T]):
    """An experiment and its trials.

    Attributes:
        title: Title, such as ``CartPole-v1-ppo``.
        folder: Folder of the experiment.
        metrics: Columns that trials are compared by.
        modes: ``max`` or ``min``, for each metric.
        scope: Rows of a trial that its score is from.
        trials: All trials, in the order of their creation.
        total: Planned number of trials; None if the search decides.
        running: Number of running trials.
        cores: Cores of this machine that trials may use; 0 = not counted.
        cpus: Cores that a trial takes.
        columns: Further columns of a row to show.
        seconds: Time since the experiment was started.
        space: Description of each parameter's domain by path, ``{"algorithm.lr": {"loguniform": [0.0001, 0.01]}}``.
        settings: Section ``tune``, and the seed.
        stages: The stages of each trial's life by its name, oldest first.
    """

    title: str
    folder: str
    metrics: tuple[str, ...]
    modes: tuple[str, ...]
    scope: str
    trials: Sequence[T] = ()
    total: int | None = None
    running: int = 0
    cores: int = 0
    cpus: float = 1.0
    columns: tuple[str, ...] = ()
    seconds: float = 0.0
    space: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    stages: Mapping[str, Sequence[Stage]] = field(default_factory=dict)

    def worth(self, trial: TrialSummary) -> float:
        """Returns the first score of a trial, negated if lower is better; minus infinity if there is none."""
        return -math.inf if trial.score is None else _worth(trial.score, self.modes[0])

    @cached_property
    def suggestions(self) -> list[Suggestion[T]]:
        """Suggestions with a number for each metric, the best first.

        Suggestions that lack a seed's number come after the rest.
        """
        groups: dict[int, list[T]] = {}
        for trial in self.trials:
            groups.setdefault(trial.number, []).append(trial)
        found: list[Suggestion[T]] = []
        for number, trials in groups.items():
            columns = zip(*(trial.scores for trial in trials), strict=True)
            known = [tuple(score for score in column if score is not None) for column in columns]
            if all(known):
                values = tuple(math.fsum(scores) / len(scores) for scores in known)
                intervals = tuple(map(mean_interval, known))
                found.append(Suggestion(number, trials[0].params, tuple(trials), values, intervals))

        def place(one: Suggestion[T]) -> tuple[int, float]:
            return -sum(trial.score is not None for trial in one.trials), -_worth(one.score, self.modes[0])

        return sorted(found, key=place)

    @cached_property
    def varying(self) -> dict[str, str]:
        """Paths of the parameters whose values differ between trials, each with its short name."""
        return short_names(varying_paths([trial.params for trial in self.trials]))

    @property
    def best(self) -> T:
        """The best trial; with repeats over seeds the best one of the best suggestion, so that no lucky seed decides.

        Raises:
            ConfigError: If no trial has a number yet.
        """
        if not self.suggestions:
            raise ConfigError(f"{self.folder}: no trial has a number of {self.metrics[0]} yet")
        return max(self.suggestions[0].trials, key=self.worth)

    def pareto(self) -> list[Suggestion[T]]:
        """Returns the Pareto front: suggestions that no other beats in one metric without losing in another."""
        worths = [tuple(map(_worth, one.values, self.modes)) for one in self.suggestions]

        def is_beaten(worth: tuple[float, ...]) -> bool:
            others = (other for other in worths if other != worth)
            return any(
                all(other_value >= value for other_value, value in zip(other, worth, strict=True)) for other in others
            )

        return [one for one, worth in zip(self.suggestions, worths, strict=True) if not is_beaten(worth)]


def _worth(score: float, mode: str) -> float:
    return score if mode == "max" else -score


# --- formatting of parameters -----------------------------------------------------------------------------------------


def is_number(value: Any) -> bool:
    """Returns whether a value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """Returns for each path its shortest unique ending: ``lr`` for ``algorithm.lr``."""
    split = {path: path.split(".") for path in paths}

    def ending(path: str) -> str:
        parts, others = split[path], [other for known, other in split.items() if known != path]
        sizes = (size for size in range(1, len(parts)) if all(other[-size:] != parts[-size:] for other in others))
        return ".".join(parts[-next(sizes, len(parts)) :])

    return {path: ending(path) for path in split}


def varying_paths(params: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the paths whose values differ, in the order in which they first appear; all paths for fewer than two."""
    paths = dict.fromkeys(path for one in params for path in one)
    return [path for path in paths if len(params) < 2 or len({repr(one.get(path)) for one in params}) > 1]


def format_value(value: Any) -> str:
    """Returns a value in a few characters: four digits of a number, ``64,64`` for a list."""
    if isinstance(value, float):
        return f"{value:.4g}".replace("e-0", "e-").replace("e+0", "e+")
    if isinstance(value, list | tuple):
        return ",".join(map(format_value, value))
    return value if isinstance(value, str) else flow(value)


def format_params(params: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Returns the parameters of the named paths in one line: ``lr 0.0005, hidden 64,64``."""
    return ", ".join(f"{name} {format_value(params[path])}" for path, name in names.items() if path in params)


Item = TypeVar("Item")


def thinned(values: Sequence[Item], most: int) -> Sequence[Item]:
    """Returns at most `most` of the values, evenly spread, including the last."""
    if len(values) <= most:
        return values
    return [values[round((place + 1) * len(values) / most) - 1] for place in range(most)]
