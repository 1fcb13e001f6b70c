"""Operations of execution plans that report results."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rookery_rllib.execution.counters import (
    AGENT_STEPS_SAMPLED_COUNTER,
    STEPS_SAMPLED_COUNTER,
    _get_shared_metrics,
)
from rookery_rllib.execution.iterators import LocalIterator


def StandardMetricsReporting(
    train_op: LocalIterator, workers: Any, config: Mapping[str, Any], selected_workers: Sequence[Any] | None = None
) -> LocalIterator:
    """Returns a stream of results: one when ``timesteps_per_iteration`` and ``min_iter_time_s`` have passed.

    Args:
        train_op: The stream that trains; its items are not used.
        workers: A `WorkerSet`, whose episodes are reported.
        config: The trainer's configuration.
        selected_workers: Remote workers whose episodes are reported; None = all.
    """
    collect = CollectMetrics(
        workers,
        min_history=config["metrics_smoothing_episodes"],
        timeout_seconds=config["collect_metrics_timeout"],
        selected_workers=selected_workers,
    )
    steps, seconds = config["timesteps_per_iteration"], config["min_iter_time_s"]
    return train_op.filter(OncePerTimestepsElapsed(steps)).filter(OncePerTimeInterval(seconds)).for_each(collect)


class CollectMetrics:
    """Returns the result of an iteration; arguments as of RLlib."""

    def __init__(
        self,
        workers: Any,
        min_history: int = 100,
        timeout_seconds: float = 180,
        selected_workers: Sequence[Any] | None = None,
    ) -> None:
        self.workers = workers
        self.summary = workers.episode_summary(min_history, selected_workers, timeout_seconds)

    def __call__(self, _: Any) -> dict[str, Any]:
        metrics = _get_shared_metrics()
        found: dict[str, Any] = self.summary()
        told = metrics.info.pop("custom_metrics", {})
        timers: dict[str, float] = {}
        for name, timer in metrics.timers.items():
            timers[f"{name}_time_ms"] = round(timer.mean * 1000, 3)
            if timer.has_units_processed():
                timers[f"{name}_throughput"] = round(timer.mean_throughput, 3)
        return {
            **found,
            "custom_metrics": {**found["custom_metrics"], **told},
            "num_healthy_workers": len(self.workers.remote_workers()),
            "timesteps_total": metrics.counters[STEPS_SAMPLED_COUNTER],
            "agent_timesteps_total": metrics.counters[AGENT_STEPS_SAMPLED_COUNTER],
            "timers": timers,
            "info": {**metrics.info, **metrics.counters},
        }


class OncePerTimeInterval:
    """Is True once in `delay` seconds, for `filter`."""

    def __init__(self, delay: float) -> None:
        self.delay, self.last_called = delay, 0.0

    def __call__(self, item: Any) -> bool:
        now = time.monotonic()
        if self.delay > 0 and self.last_called and now - self.last_called <= self.delay:
            return False
        self.last_called = now
        return True


class OncePerTimestepsElapsed:
    """Is True once in `delay_steps` sampled steps, for `filter`."""

    def __init__(self, delay_steps: int) -> None:
        self.delay_steps, self.last_called = delay_steps, 0

    def __call__(self, item: Any) -> bool:
        now = _get_shared_metrics().counters[STEPS_SAMPLED_COUNTER]
        if self.delay_steps > 0 and now - self.last_called < self.delay_steps:
            return False
        self.last_called = now
        return True
