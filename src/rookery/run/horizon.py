"""Horizon of a run: the environment step at which schedules without their own length end.

It is `stop.env_steps` of the settings, else that of the first `train(stop=)` with one; checkpoints keep it. Only
`Trainer.load` with a larger `stop.env_steps` moves it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from rookery.algorithms.algorithm import Algorithm
from rookery.core.config import Resolved
from rookery.run.lessons.curriculum import PROGRESS
from rookery.run.parts import RunPart
from rookery.run.run import Run
from rookery.run.settings import RunConfig
from rookery.run.stopping import ENV_STEPS, newly_given


def endless_schedules(learners: Mapping[str, Algorithm[Any]]) -> list[str]:
    """Returns a line for each policy with schedules that last until the end of a run, for a run without one. Schedules
    that are defaults stay constant without a line.
    """
    open_ones: dict[str, list[str]] = {}
    for name, learner in learners.items():
        cfg, default = learner.cfg, type(learner.cfg)()
        changed = [path for path in cfg.open_schedules() if attrgetter(path)(cfg) != attrgetter(path)(default)]
        open_ones[name] = changed
    return [
        f"policies.{name}: {', '.join(endless)} would change until stop.env_steps, which is not set: constant"
        for name, endless in open_ones.items()
        if endless
    ]


def values_now(run: Run, horizon: float | None) -> dict[str, float]:
    """Returns the present values that depend on a horizon: schedules by path, and the progress of lessons."""
    found: dict[str, float] = {}
    for name, learner in run.learners.items():
        now = learner.cfg.at(run.env_steps, horizon)
        found |= {f"policies.{name}.{path}": attrgetter(path)(now) for path in learner.cfg.open_schedules()}
    for name, course in run._curriculum.courses.items():
        if horizon is not None and course.plan.measure == PROGRESS:
            found[f"progress of curriculum.{name}"] = run.env_steps / horizon
    return found


def move_horizon(run: Run, resolved: Resolved[RunConfig], source: str, keep: bool) -> None:
    """Moves the horizon of a loaded run where a larger `stop.env_steps` is given, and notes the resulting changes.

    Args:
        run: The run, loaded from its checkpoint.
        resolved: Its settings, those of the checkpoint and those given now.
        source: The source of those of the checkpoint.
        keep: Leave schedules unchanged; those of a run without a horizon stay constant.
    """
    before, env_steps = run._horizon, newly_given(resolved, resolved.config.stop, source).get(ENV_STEPS)
    has_end = before is not None and math.isfinite(before)
    if env_steps is None or (before is not None and has_end and env_steps <= max(before, run.env_steps)):
        return
    if keep:
        run._horizon = math.inf if before is None else before
        return
    run._horizon = int(env_steps)
    for learner in run.learners.values():
        learner.horizon = run._horizon
    was, now = values_now(run, before), values_now(run, run._horizon)
    lines = [change(path, value, now[path]) for path, value in was.items()]
    if lines:
        instead = f" instead of {before:,}" if has_end else ""
        run._note(f"schedules end at {run._horizon:,} environment steps{instead}: {'; '.join(lines)}")


def change(path: str, now: float, then: float) -> str:
    """Returns a note on the change of a value by a new end of its schedule."""
    return f"{path} now {now:.4g}, becomes {then:.4g}" if now != then else f"{path} stays {now:.4g} for now"


class HorizonNotes(RunPart):
    """Sets the horizon when a training begins, and notes once that schedules do not change, or no longer."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._ended = False

    def begin(self, criteria: Mapping[str, float]) -> None:
        """Takes the horizon of a run without one from the criteria that end a training."""
        run = self._run
        if run._horizon is None and ENV_STEPS in criteria:
            run._horizon = int(criteria[ENV_STEPS])
        if run._horizon is None:
            for line in endless_schedules(run.learners):
                run._note(line)

    def before_call(self, call: str, task: Any) -> Any:
        """Notes once, before an iteration beyond the horizon, which schedules have ended and how to move their end."""
        run = self._run
        is_new = call == "train_iteration" and run._progress is None
        if self._ended or not is_new or run._horizon is None or run.env_steps < run._horizon:
            return task
        self._ended = True
        stay = [f"{path} stays {value:.4g}" for path, value in values_now(run, run._horizon).items()
                if path.startswith("policies.")]  # fmt: skip
        if stay:
            run._note(
                f"schedules have ended at {run._horizon:,} environment steps: {', '.join(stay)}; a larger "
                "stop.env_steps moves their end: rookery resume RUN --stop env_steps=N, or "
                'Trainer.load(RUN, config={"stop.env_steps": N})'
            )
        return task
