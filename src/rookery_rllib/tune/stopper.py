"""Stoppers: objects that end trials, or the whole experiment, by its results."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import numpy as np

from rookery.face import ConfigError
from rookery_rllib.trainer.trial.loggers import flatten_dict


class Stopper:
    """Decides after each result. Subclasses implement both methods."""

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        raise NotImplementedError

    def stop_all(self) -> bool:
        raise NotImplementedError


class NoopStopper(Stopper):
    """Ends nothing."""

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        return False


class CombinedStopper(Stopper):
    """Ends a trial when any of several stoppers does."""

    def __init__(self, *stoppers: Stopper) -> None:
        self._stoppers = stoppers

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Calls all stoppers, so that each gets every result."""
        stops = [stopper(trial_id, result) for stopper in self._stoppers]
        return any(stops)

    def stop_all(self) -> bool:
        stops = [stopper.stop_all() for stopper in self._stoppers]
        return any(stops)


class FunctionStopper(NoopStopper):
    """Ends a trial when a function of its id and result returns true."""

    def __init__(self, function: Callable[[str, dict[str, Any]], bool]) -> None:
        if not callable(function) or isinstance(function, Stopper):
            raise ConfigError("stop: takes criteria, a function of (trial_id, result), or a Stopper")
        self._fn = function

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return bool(self._fn(trial_id, result))

    @classmethod
    def is_valid_function(cls, fn: Any) -> bool:
        return callable(fn) and not isinstance(fn, Stopper)


class MaximumIterationStopper(NoopStopper):
    """Ends each trial after a number of results."""

    def __init__(self, max_iter: int) -> None:
        self._max_iter = max_iter
        self._iter: defaultdict[str, int] = defaultdict(int)

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        self._iter[trial_id] += 1
        return self._iter[trial_id] >= self._max_iter


class TimeoutStopper(NoopStopper):
    """Ends all trials after some time, measured from the first call."""

    def __init__(self, timeout: float | timedelta) -> None:
        if not isinstance(timeout, int | float | timedelta) or isinstance(timeout, bool):
            raise ConfigError(f"time_budget_s = {timeout!r}: must be seconds, or a timedelta")
        self._timeout_seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
        self._start: float | None = None

    def stop_all(self) -> bool:
        if self._start is None:
            self._start = time.monotonic()
        return time.monotonic() - self._start > self._timeout_seconds


class TrialPlateauStopper(NoopStopper):
    """Ends a trial whose metric does not change any more."""

    def __init__(
        self,
        metric: str,
        std: float = 0.01,
        num_results: int = 4,
        grace_period: int = 4,
        metric_threshold: float | None = None,
        mode: str | None = None,
    ) -> None:
        if metric_threshold is not None and mode not in ("min", "max"):
            raise ConfigError(f"TrialPlateauStopper: mode = {mode!r}: must be min or max where there is a threshold")
        self._metric, self._mode, self._std = metric, mode, std
        self._num_results, self._grace_period, self._metric_threshold = num_results, grace_period, metric_threshold
        self._seen: defaultdict[str, int] = defaultdict(int)
        self._last: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=num_results))

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        value = value_at(result, self._metric)
        if value is None:
            return False
        self._seen[trial_id] += 1
        last = self._last[trial_id]
        last.append(float(value))
        if self._seen[trial_id] < self._grace_period or len(last) < self._num_results:
            return False
        if self._metric_threshold is not None:
            beyond = value - self._metric_threshold if self._mode == "min" else self._metric_threshold - value
            if beyond > 0:
                return False
        return float(np.std(last)) < self._std


class ExperimentPlateauStopper(Stopper):
    """Ends the experiment when the best results of all trials do not change any more."""

    def __init__(self, metric: str, std: float = 0.001, top: int = 10, mode: str = "min", patience: int = 0) -> None:
        wrong = {
            f"mode = {mode!r}: must be min or max": mode not in ("min", "max"),
            f"top = {top!r}: must be a whole number above 1": not isinstance(top, int) or top <= 1,
            f"patience = {patience!r}: must be a whole number, not below 0": not isinstance(patience, int)
            or patience < 0,
            f"std = {std!r}: must be a number above 0": not isinstance(std, float) or std <= 0,
        }
        for line, applies in wrong.items():
            if applies:
                raise ConfigError(f"ExperimentPlateauStopper: {line}")
        self._metric, self._std, self._top, self._mode, self._patience = metric, std, top, mode, patience
        self._iterations = 0
        self._top_values: list[float] = []

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        value = value_at(result, self._metric)
        if value is not None:
            self._top_values = sorted([*self._top_values, float(value)], reverse=self._mode == "max")[: self._top]
        self._iterations = self._iterations + 1 if self.has_plateaued() else 0
        return self.stop_all()

    def has_plateaued(self) -> bool:
        return len(self._top_values) == self._top and float(np.std(self._top_values)) <= self._std

    def stop_all(self) -> bool:
        return self.has_plateaued() and self._iterations >= self._patience


EarlyStopping = ExperimentPlateauStopper


class CriteriaStopper(NoopStopper):
    """Ends a trial when one of several results reaches its number.

    Args:
        criteria: Numbers by key; nested keys are written ``info/learner``.
    """

    def __init__(self, criteria: Mapping[str, Any]) -> None:
        for key, number in criteria.items():
            if isinstance(number, Mapping):
                raise ConfigError(f"stop: {key} = {dict(number)}: write nested results as one key, '{key}/...'")
            if not isinstance(number, int | float | np.number):
                raise ConfigError(f"stop: {key} = {number!r}: must be a number that the result has to reach")
        self.criteria = dict(criteria)

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Returns whether a criterion is met; raises a ConfigError for an unknown result."""
        for key, number in self.criteria.items():
            value = value_at(result, key, missing=self)
            if value is self:
                keys = [name for name in flatten_dict(result) if not name.startswith(("config/", "hist_stats/"))]
                raise ConfigError(f"stop: {key}: trials report no such result; there are {', '.join(keys)}")
            if isinstance(value, int | float | np.number) and value >= number:
                return True
        return False


def value_at(result: Mapping[str, Any], key: str, missing: Any = None) -> Any:
    """Returns a result by its key, nested ones with slashes."""
    if key in result:
        return result[key]
    node: Any = result
    for part in key.split("/"):
        if not isinstance(node, Mapping):
            return missing
        if part in node:
            node = node[part]
        else:
            same = [known for known in node if str(known) == part]
            if not same:
                return missing
            node = node[same[0]]
    return node


_NOTHING = object()


def unflattened_lookup(flat_key: str, lookup: Mapping[str, Any], delimiter: str = "/", **kwargs: Any) -> Any:
    """Returns the value in nested dicts at a path, or `default` if it is given.

    Raises:
        KeyError: If there is no value and no default.
    """
    value = value_at(lookup, flat_key.replace(delimiter, "/"), missing=_NOTHING)
    if value is not _NOTHING:
        return value
    if "default" in kwargs:
        return kwargs["default"]
    raise KeyError(flat_key)


def stopper_of(stop: Any) -> Stopper:
    """Returns the stopper of the argument ``stop=``."""
    if stop is None:
        return NoopStopper()
    if isinstance(stop, Stopper):
        return stop
    if isinstance(stop, Mapping):
        return CriteriaStopper(stop)
    return FunctionStopper(stop)
