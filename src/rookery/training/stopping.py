"""Criteria that end a training: thresholds of any number in a result, over the whole life of the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rookery.core.errors import ConfigError, nearest
from rookery.report.results import WINDOW, IterationResult

StopFunction = Callable[[IterationResult], bool]


class Stop:
    """The rule that ends a training: the first criterion that is reached.

    Args:
        criteria: Threshold of each budget or metric. Metrics are named as in `metrics.jsonl`, with dots or slashes
            (``policies.main.return_mean``, ``evaluation/return_mean``).
        function: Function that is asked after each iteration too, or None.

    Raises:
        ConfigError: If a threshold is not a number.
    """

    def __init__(self, criteria: Mapping[str, float], function: StopFunction | None = None) -> None:
        wrong = [
            f"stop.{name} = {value!r}: not a number"
            for name, value in criteria.items()
            if isinstance(value, bool) or not isinstance(value, int | float)
        ]
        if wrong:
            raise ConfigError(*wrong)
        self.criteria = dict(criteria)
        self.function = function

    def reason(self, result: IterationResult) -> str:
        """Returns in words why training ends after `result`; an empty text if it goes on.

        Raises:
            ConfigError: If a criterion names no metric of this run.
        """
        row = result.row()
        values = {"iterations": result.iteration, "seconds": result.seconds, **row}
        for name, threshold in self.criteria.items():
            key = name.replace(".", "/")
            if key not in values:
                if _may_come(key, result):
                    continue
                known = sorted((set(values) | {"evaluation/return_mean"}) - {"exact"})
                raise ConfigError(
                    f"stop.{name}: this run has no such metric; known are {', '.join(known)}{nearest(key, known)}"
                )
            value = values[key]
            if value is not None and value >= threshold:
                return f"{name} {_short(value)} reached {_short(threshold)}"
        if self.function is not None and self.function(result):
            return "the stop function said so"
        return ""


def stop_rule(
    stop: Mapping[str, float] | StopFunction | None,
    standing: Mapping[str, float],
    function: StopFunction | None,
    evaluation_every: int,
) -> Stop:
    """Returns the rule that ends a training.

    Args:
        stop: Criteria, or a stop function, of the caller; None = neither.
        standing: Criteria that hold besides.
        function: Stop function that was given before, which holds if `stop` is none.
        evaluation_every: Iterations between evaluations; 0 = no evaluations.

    Raises:
        ConfigError: If nothing would ever end the training, or a criterion can never be met.
    """
    criteria = dict(standing)
    if callable(stop):
        function = stop
    elif isinstance(stop, Mapping):
        criteria |= stop
    elif stop is not None:
        raise ConfigError(f'stop = {stop!r}: use criteria like {{"env_steps": 100_000}}, or a function of a result')
    rule = Stop(criteria, function)
    if not rule.criteria and rule.function is None:
        raise ConfigError('stop: nothing ends this training; say when, as in train(stop={"env_steps": 100_000})')
    measured = [name for name in criteria if name.startswith("evaluation")]
    if measured and not evaluation_every:
        raise ConfigError(f"stop.{measured[0]}: nothing is evaluated in training; set evaluation.every, to 5 say")
    return rule


def _may_come(key: str, result: IterationResult) -> bool:
    """Says whether a metric that is not there yet can still appear: agents join late, policies have to learn first."""
    group, _, rest = key.partition("/")
    if group == "evaluation":
        return result.evaluation is None
    policy = result.policies.get(rest.rpartition("/")[0]) if group == "policies" else None
    if policy is not None and policy.learning:
        return False
    return group in ("agents", "policies") and result.episodes < WINDOW


def _short(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}".rstrip("0").rstrip(".")
