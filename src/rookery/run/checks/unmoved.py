"""Lines for the end of a training whose return never moved, with what to try."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rookery.envs.make import env_name
from rookery.report.metrics_file import iter_rows
from rookery.report.results import EvaluationResult, IterationResult
from rookery.run.choose_algorithm import algorithms_with_preset, alternatives
from rookery.run.run import Run
from rookery.run.settings import algorithm_name

FEWEST = 20
"""Finished episodes from which on a return that never moved is reported."""


def unmoved_lines(
    run: Run, result: IterationResult, evaluation: EvaluationResult | None, folder: Path, shown: Path
) -> list[str]:
    """Returns at most three lines if all returns of a training are equal, with what to try; else an empty list.

    Args:
        run: The run.
        result: Its last result.
        evaluation: Its final evaluation, if any.
        folder: Directory of the run, whose rows are read up to the first that differs.
        shown: The same as in commands.
    """
    value = result.return_mean
    reached = result.stop_reason.startswith(("return", "evaluation"))
    if value is None or result.episodes < FEWEST or reached:
        return []
    ends = [result.return_min, result.return_max]
    ends += [] if evaluation is None else [evaluation.return_min, evaluation.return_max]
    if not all(end is not None and _is_equal(end, value) for end in ends) or not is_unmoved(iter_rows(folder)):
        return []
    return [
        f"the return stayed at {value:.2f} through {result.episodes:,} episodes: none was better than another",
        f"to try, in this order: {'; '.join(_of_settings(run))};" if _of_settings(run) else "to try, in this order:",
        f"rookery resume {shlex.quote(str(shown))} --stop env_steps={2 * result.env_steps}; "
        "a reward for progress (env.wrappers)",
    ]


def is_unmoved(rows: Iterable[Mapping[str, Any]]) -> bool:
    """Returns whether the returns in rows of metrics are all equal: those of episodes, and those of each agent."""
    known: dict[str, float] = {}
    for row in rows:
        lowest, highest = row.get("return_min"), row.get("return_max")
        if lowest is None or highest is None:
            continue
        means = {
            key: value
            for key, value in row.items()
            if key.startswith(("agents/", "policies/")) and key.endswith("/return_mean") and value is not None
        }
        for key, value in {**means, "return": lowest}.items():
            if not _is_equal(known.setdefault(key, value), value):
                return False
        if not _is_equal(lowest, highest):
            return False
    return True


def _of_settings(run: Run) -> list[str]:
    """Returns options of a new training to try, if the run has one policy that learns."""
    if len(run.policies) != 1 or not run.learners:
        return []
    ((name, learner),) = run.learners.items()
    policy, env, algorithm = run.policies[name], env_name(run.config.env.name), algorithm_name(learner.cfg)
    given = run.resolved.history.values()
    has_preset = any(source.startswith("preset ") for values in given for source, _ in values)
    found = ["--preset auto"] if not has_preset and algorithm in algorithms_with_preset(env) else []
    others = alternatives(env, policy.action_spec.space, algorithm)
    if others and not policy.memory_size:
        found.append(f"--algo {others[0]}")
    signals = getattr(learner.cfg, "signals", None)
    if signals is not None and not signals.others:
        found.append("'algorithm.signals.rnd={}' or 'algorithm.signals.curiosity={}'")
    return found


def _is_equal(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
