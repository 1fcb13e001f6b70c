"""Stop criteria: thresholds of budgets and metrics, over the whole life of the run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from rookery.core.config import DEFAULT, Resolved
from rookery.core.errors import ConfigError, nearest, refuse
from rookery.core.settings.hints import METRICS
from rookery.core.settings.thresholds import BUDGETS, AtMost, is_reached
from rookery.report.results import WINDOW, IterationResult
from rookery.run.settings import RunConfig

StopFunction = Callable[[IterationResult], bool]

C = TypeVar("C")

ENV_STEPS = "env_steps"
"""The criterion that also ends schedules."""

GIVEN = "train(stop)"
"""Source of a criterion given to `Trainer.train`."""


class Stop:
    """The rule that ends a training: the first criterion that is reached.

    Args:
        criteria: Threshold of each budget or metric, of an `AtMost` reached from above. Metrics are named as in
            `metrics.jsonl`, with dots or slashes (``policies.main.return_mean``, ``evaluation/return_mean``).
        function: Function of each result that returns True to stop, or None.

    Raises:
        ConfigError: If a threshold is not a number, or is reached before the first step.
    """

    def __init__(self, criteria: Mapping[str, float], function: StopFunction | None = None) -> None:
        refuse(
            f"stop.{name} = {value!r}: {problem}"
            for name, value in criteria.items()
            if (problem := _wrong(name, value))
        )
        self.criteria = {name: float(one) if isinstance(one, AtMost) else one for name, one in criteria.items()}
        self._thresholds = dict(criteria)
        self.function = function

    def reason(self, result: IterationResult) -> str:
        """Returns the reason for ending the training after `result`; an empty string if it continues.

        Raises:
            ConfigError: If a criterion names no metric of this run.
        """
        values = _values(result)
        self._refuse_unknown(values, result, {})
        for name, threshold in self._thresholds.items():
            value = values.get(name.replace(".", "/"))
            if value is not None and is_reached(value, threshold):
                return f"{name} {_short(value)} reached {_short(threshold)}"
        if self.function is not None and self.function(result):
            return "the stop function said so"
        return ""

    @property
    def limit(self) -> tuple[str, float] | None:
        """The criterion that limits the time of training, as text, and its seconds; None if there is none."""
        limits = [(f"{name}={_short(value)}", value * TIMES[in_settings(name)])
                  for name, value in self.criteria.items() if in_settings(name) in TIMES]  # fmt: skip
        return min(limits, key=lambda limit: limit[1], default=None)

    def late(self, seconds: float) -> str:
        """Returns the reason for ending the training after this many seconds; empty if it continues."""
        if self.limit is None or seconds < self.limit[1]:
            return ""
        return f"{_short(seconds)} seconds of training, and {self.limit[0]} ends it"

    def check(self, result: IterationResult, sources: Mapping[str, str] | None = None) -> None:
        """Refuses criteria that can never be reached, as far as a result shows it.

        Args:
            result: A result of the run, which may be one before its first iteration.
            sources: Source of each criterion, for messages; None if the caller of `Trainer.train` set them.

        Raises:
            ConfigError: If criteria name no metric of this run; names all of them.
        """
        self._refuse_unknown(_values(result), result, sources or {})

    def _refuse_unknown(self, values: Mapping[str, Any], result: IterationResult, sources: Mapping[str, str]) -> None:
        """Refuses criteria that are not among the values of a result and cannot appear later; see `check`."""
        problems = []
        for name in self.criteria:
            key = name.replace(".", "/")
            if key not in values and not _may_come(key, result):
                known = sorted((set(values) | {"evaluation/return_mean"}) - {"exact"})
                near = f"; did you mean {METRICS[key]!r}?" if key in METRICS else nearest(key, known)
                there = f"known are {', '.join(known)}{near}"
                source = f"{sources[name]}: " if name in sources else ""
                problems.append(f"{source}stop.{name}: this run has no such metric; {there}")
        refuse(problems)


def time_limits(criteria: Mapping[str, float]) -> dict[str, float]:
    """Returns the criteria that limit the time of training."""
    return {name: threshold for name, threshold in criteria.items() if in_settings(name) in TIMES}


def check_criteria(resolved: Resolved[RunConfig], result: IterationResult) -> None:
    """Refuses criteria of a configuration that can never be met, before a run starts.

    Args:
        resolved: Settings of the run.
        result: The result before its first iteration.

    Raises:
        ConfigError: If a criterion can never be met; names it and its source.
    """
    criteria = criteria_of(resolved.config.stop)
    sources = {name: _given(resolved, name)[-1][0] for name in criteria}
    every = resolved.config.evaluation.every
    refuse(
        f"{sources[name]}: stop.{name} = {value!r}: {problem}"
        for name, value in criteria.items()
        if (problem := _wrong(name, value) or _unmeasured(name, every))
    )
    Stop(criteria).check(result, sources)


def stop_rule(
    stop: Mapping[str, float] | StopFunction | None,
    standing: Mapping[str, float],
    function: StopFunction | None,
    evaluation_every: int,
) -> Stop:
    """Returns the rule that ends a training.

    Args:
        stop: Criteria, or a stop function, of the caller; None = neither.
        standing: Other criteria that apply.
        function: Stop function of the last call, which applies if `stop` is none.
        evaluation_every: Iterations between evaluations; 0 = no evaluations.

    Raises:
        ConfigError: If nothing would end the training, or a criterion can never be met.
    """
    criteria = dict(standing)
    if callable(stop):
        function = stop
    elif isinstance(stop, Mapping):
        criteria = without(standing, stop) | dict(stop)
    elif stop is not None:
        raise ConfigError(f'stop = {stop!r}: use criteria like {{"env_steps": 100_000}}, or a function of a result')
    rule = Stop(criteria, function)
    if not rule.criteria and rule.function is None:
        raise ConfigError('stop: nothing ends this training; set a criterion, as in train(stop={"env_steps": 100_000})')
    refuse(f"stop.{name}: {problem}" for name in criteria if (problem := _unmeasured(name, evaluation_every)))
    return rule


def criteria_of(settings: Mapping[str, float | None]) -> dict[str, float]:
    """Returns the criteria of the section `stop`, where none removes a criterion."""
    return {name: threshold for name, threshold in settings.items() if threshold is not None}


def horizon_of(settings: Mapping[str, float | None]) -> int | None:
    """Returns the end of schedules by the section `stop`, in environment steps; None if it sets none."""
    env_steps = settings.get(ENV_STEPS)
    return None if env_steps is None else int(env_steps)


def _given(resolved: Resolved[C], name: str) -> list[tuple[str, Any]]:
    """Returns every (source, value) of a criterion among settings; a section with dotted names is one value."""
    whole = resolved.history.get("stop", [("code", {})])
    return resolved.history.get(f"stop.{name}") or [(source, (value or {}).get(name)) for source, value in whole]


def without(criteria: Mapping[str, float], others: Mapping[str, float]) -> dict[str, float]:
    """Returns criteria without those that `others` has too, whether names have dots or slashes."""
    known = {in_settings(name) for name in others}
    return {name: threshold for name, threshold in criteria.items() if in_settings(name) not in known}


def in_settings(name: str) -> str:
    """Returns the name of a criterion in settings, where a dot would begin a section."""
    return name.replace(".", "/")


def resumed_criteria(
    before: Mapping[str, float], resolved: Resolved[C], settings: Mapping[str, float | None], source: str
) -> dict[str, float]:
    """Returns the criteria of a resumed run: its former ones, except those that are set again.

    Args:
        before: Criteria of the run so far.
        resolved: Settings of the resumed run.
        settings: Its section `stop`.
        source: Source of the run's former settings.
    """
    anew = newly_given(resolved, settings, source)
    return {**without(before, dict.fromkeys(anew, 0.0)), **criteria_of(anew)} if before else {}


def newly_given(resolved: Resolved[C], settings: Mapping[str, float | None], source: str) -> dict[str, float | None]:
    """Returns the settings of the section `stop` that were set when a run was loaded; see `resumed_criteria`."""
    return {name: threshold for name, threshold in settings.items()
            if _given(resolved, name)[-1][0] not in (source, DEFAULT)}  # fmt: skip


def history_of(
    resolved: Resolved[C], settings: Mapping[str, float | None], criteria: Mapping[str, float]
) -> dict[str, list[tuple[str, Any]]]:
    """Returns every (source, value) of each criterion, lowest layer first; the last one applies.

    Args:
        resolved: The settings of the run.
        settings: Their section `stop`.
        criteria: The criteria of the training, including those given to `Trainer.train`.
    """
    history = {f"stop.{in_settings(name)}": list(_given(resolved, name)) for name in settings}
    thresholds = {in_settings(name): threshold for name, threshold in settings.items()}
    for name, threshold in criteria.items():
        if thresholds.get(in_settings(name)) != threshold:
            history.setdefault(f"stop.{in_settings(name)}", []).append((GIVEN, threshold))
    return history


def _values(result: IterationResult) -> dict[str, Any]:
    """Returns the values that criteria are compared with, by name."""
    return {
        "iterations": result.iteration,
        "seconds": result.seconds,
        "minutes": result.seconds / 60,
        "decisions": sum(policy.decisions for policy in result.policies.values()),
        "finished_policies": result.finished_policies,
        "finished_share": result.finished_share,
        **result.row(),
    }


TIMES = {"seconds": 1.0, "minutes": 60.0, "time/seconds": 1.0}
"""Criteria that limit the time of training, and their units in seconds."""


def _wrong(name: str, value: Any) -> str:
    """Returns the problem of a threshold; an empty string if it is valid."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "not a number"
    if not math.isfinite(value):
        return "must be a finite number"
    return f"must be above 0, because {name} are counted from 0" if name in BUDGETS and value <= 0 else ""


def _unmeasured(name: str, evaluation_every: int) -> str:
    """Returns the reason if a criterion needs an evaluation and there is none; else an empty string."""
    if evaluation_every or not name.startswith("evaluation"):
        return ""
    return "there are no evaluations during training; set evaluation.every, to 5 for example"


def _may_come(key: str, result: IterationResult) -> bool:
    """Returns whether a missing metric can still appear: agents may join later, policies may not have learned yet."""
    group, _, rest = key.partition("/")
    if group == "evaluation":
        return result.evaluation is None
    policy = result.policies.get(rest.rpartition("/")[0]) if group == "policies" else None
    if policy is not None and policy.learning:
        return False
    return group in ("agents", "policies", "metrics") and result.episodes < WINDOW


def _short(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}".rstrip("0").rstrip(".")
