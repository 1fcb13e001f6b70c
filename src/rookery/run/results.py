"""Results of a run after an iteration."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from rookery.core.process.interrupt import TimeUp
from rookery.report.results import IterationResult, Number, PolicyResult
from rookery.run.run import Progress, Run
from rookery.run.stopping import Stop


def result_of(run: Run, progress: Progress) -> IterationResult:
    """Returns the result of a run after an iteration, or without an iteration.

    Args:
        run: The run.
        progress: The iteration; one that begins now for none.
    """
    windows = run._windows
    policies = {}
    for name in run.policies:
        valid, cut = progress.sizes.get(name, (0, 0))
        policies[name] = PolicyResult(
            return_mean=mean(windows.policies.get(name, ())),
            episodes=windows.agent_episodes.get(name, 0),
            decisions=run._decisions.get(name, 0),
            valid_rows=valid,
            cut_fragments=cut,
            learning=run._last_learning.get(name, {}),
        )
    played, seconds = run.env_steps - progress.env_steps, run._seconds - progress.seconds
    result = IterationResult(
        iteration=run.iteration,
        env_steps=run.env_steps,
        episodes=windows.episodes,
        return_mean=mean(windows.totals),
        return_min=min(windows.totals, default=None),
        return_max=max(windows.totals, default=None),
        length_mean=mean(windows.lengths),
        running_length=run._running_length,
        agents={agent: value for agent, values in windows.agents.items() if (value := mean(values)) is not None},
        policies=policies,
        evaluation=None,
        seconds=run._seconds,
        steps_per_second=played / max(seconds, 1e-9),
        exact=run.env.exact,
        counters=dict(run._counters),
        metrics={name: (min(v), math.fsum(v) / len(v), max(v)) for name, v in windows.current_metrics.items()},
        parameters={name: (min(v), math.fsum(v) / len(v), max(v)) for name, v in windows.parameters.items()},
        histograms=dict(windows.histograms),
        reported=dict(windows.reported),
        groups={group: math.fsum(values) / len(values) for group, values in windows.groups.items()},
        sampling=run._lane_steps > progress.lane_steps,
        finished_policies=len(run._retired),
        finished_share=len(run._retired) / max(1, len(run.learners)),
    )
    for add in run._parts.in_result:
        result = add(result)
    return result


def iteration_within(run: Run, make: Callable[[], IterationResult], rule: Stop) -> tuple[IterationResult, str]:
    """Makes an iteration, or a part of it if the time is up; returns its result, and the reason if the run ends.

    Args:
        run: The run.
        make: Makes the iteration.
        rule: The stop rule of the training.
    """
    try:
        result = make()
        return result, rule.reason(result)
    except TimeUp:
        result = replace(result_of(run, run._under_way or run._begin_iteration()), whole=False)
        return result, f"{rule.late(run._seconds)}, in the middle of iteration {run.iteration + 1}"


def mean(values: Iterable[float]) -> float | None:
    """Returns the mean; None for no values."""
    known = list(values)
    return math.fsum(known) / len(known) if known else None


def mean_rows(rows: list[dict[str, Any]]) -> dict[str, Number]:
    """Returns the mean over rows for each key, without missing numbers; counts such as `updates` keep the last."""
    merged: dict[str, Number] = {}
    for key in rows[-1] if rows else ():
        values = [row[key] for row in rows if row.get(key) is not None]
        if not values:
            merged[key] = None
        elif isinstance(values[-1], int):
            merged[key] = values[-1]
        else:
            merged[key] = math.fsum(values) / len(values)
    return merged
