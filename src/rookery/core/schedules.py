"""Schedules of numbers over a training: Linear, Exponential, Piecewise, and their form in files and command lines.

A schedule is a pure function of a step: an env step of the run, or, with ``by: decisions``, a decision that the policy
has learned from. The caller passes the length of a run in env steps.

    lr: {start: 3e-4, end: 0}                        # linear, over the whole run
    lr: {start: 3e-4, end: 1e-6, shape: exponential, steps: 100000}
    clip: {points: [[0, 0.3], [50000, 0.2], [200000, 0.1]]}
    lr: {start: 3e-4, end: 0, steps: 100000, by: decisions}
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from typing import Any

from rookery.core.errors import ConfigError, nearest

ENV_STEPS, DECISIONS = "env_steps", "decisions"
"""Units of the steps of a schedule."""


@dataclass(frozen=True)
class _Ramp:
    """Base of Linear and Exponential: a transition from one value to another, constant afterwards.

    Attributes:
        start: Value at step 0.
        end: Value from step `steps` on.
        steps: Length in steps; None for the horizon of the run.
        by: Unit of a step: the run's ``env_steps``, or the policy's ``decisions``, which have no horizon.
    """

    start: float
    end: float
    steps: int | None = None
    by: str = ENV_STEPS

    def __post_init__(self) -> None:
        name = f"{type(self).__name__.lower()} schedule"
        object.__setattr__(self, "start", _number(name, "start", self.start))
        object.__setattr__(self, "end", _number(name, "end", self.end))
        if self.steps is not None:
            steps = _number(name, "steps", self.steps)
            if steps < 1 or not steps.is_integer():
                raise ConfigError(f"{name}: steps must be a whole number of at least 1, not {self.steps}")
            object.__setattr__(self, "steps", int(steps))
        _check_unit(name, self.by)
        if self.by == DECISIONS and self.steps is None:
            raise ConfigError(f"{name}: by decisions it lacks steps: the number of decisions of a run is not known")

    @property
    def values(self) -> tuple[float, ...]:
        """Extreme values of the schedule."""
        return (self.start, self.end)

    def part(self, step: float, horizon: float | None) -> float:
        """Returns the progress at `step`, in [0, 1]; 0 if neither `steps` nor the horizon is known."""
        steps = self.steps or horizon
        if steps is None:
            return 0.0
        return min(max(step / steps, 0.0), 1.0) if steps > 0 else 1.0


class Linear(_Ramp):
    """Changes linearly from `start` at step 0 to `end` at step `steps` (None: the end of the run), constant
    afterwards.
    """

    def at(self, step: float, horizon: float | None) -> float:
        """Returns the value at `step`; always `start` if neither `steps` nor the horizon is known."""
        part = self.part(step, horizon)
        return self.end if part == 1.0 else self.start + (self.end - self.start) * part


class Exponential(_Ramp):
    """Changes like Linear, but by a constant factor per step; `start` and `end` are above 0."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.start > 0 and self.end > 0):
            raise ConfigError(
                f"exponential schedule: start and end must be above 0, not {self.start} and {self.end}; "
                "a linear schedule may reach 0"
            )

    def at(self, step: float, horizon: float | None) -> float:
        """Returns the value at `step`; always `start` if neither `steps` nor the horizon is known."""
        part = self.part(step, horizon)
        return float(self.start ** (1.0 - part) * self.end**part)


@dataclass(frozen=True)
class Piecewise:
    """Linear interpolation between points, constant before the first and after the last; needs no horizon.

    Attributes:
        points: ``((step, value), ...)`` with ascending steps.
        by: Unit of a step, ``env_steps`` or ``decisions``.
    """

    points: tuple[tuple[float, float], ...]
    by: str = ENV_STEPS

    def __post_init__(self) -> None:
        name = "piecewise schedule"
        pairs = self.points
        shaped = isinstance(pairs, tuple | list) and all(isinstance(pair, tuple | list) for pair in pairs)
        if not shaped or not pairs or any(len(pair) != 2 for pair in pairs):
            raise ConfigError(f"{name}: points must be a list of [step, value], for example [[0, 1e-3], [1e5, 0]]")
        points = tuple((_number(name, "step", x), _number(name, "value", y)) for x, y in pairs)
        steps = [x for x, _ in points]
        if steps[0] < 0 or any(a >= b for a, b in pairwise(steps)):
            raise ConfigError(f"{name}: steps must ascend from 0 or later, not {', '.join(f'{x:g}' for x in steps)}")
        object.__setattr__(self, "points", points)
        _check_unit(name, self.by)

    @property
    def values(self) -> tuple[float, ...]:
        """Values at the points, which include the extreme ones."""
        return tuple(y for _, y in self.points)

    def at(self, step: float, horizon: float | None) -> float:
        """Returns the value at `step`."""
        after = bisect_right(self.points, step, key=lambda point: point[0])
        if after == 0 or after == len(self.points):
            return self.points[max(after - 1, 0)][1]
        (x0, y0), (x1, y1) = self.points[after - 1], self.points[after]
        return y0 + (y1 - y0) * (step - x0) / (x1 - x0)


Schedule = Linear | Exponential | Piecewise
"""Any schedule."""

_SHAPES: dict[str, type[Linear | Exponential]] = {"linear": Linear, "exponential": Exponential}
_KEYS = ("start", "end", "steps", "shape", "points", "by")


def read_schedule(written: Mapping[Any, Any]) -> Schedule:
    """Reads the schedule that a mapping from a file or the command line describes.

    Raises:
        ConfigError: If keys are missing or unknown, or a value is wrong.
    """
    for key in written:
        if key not in _KEYS:
            raise ConfigError(f"a schedule has no {key!r}{nearest(str(key), _KEYS)}; it has {', '.join(_KEYS)}")
    if "points" in written:
        if set(written) - {"points", "by"}:
            raise ConfigError("a schedule has either points, or start and end")
        return Piecewise(written["points"], written.get("by", ENV_STEPS))
    if missing := [key for key in ("start", "end") if key not in written]:
        raise ConfigError(f"the schedule lacks {' and '.join(missing)}; for example {{start: 1e-3, end: 0}}")
    shape = written.get("shape", "linear")
    if not isinstance(shape, str) or shape not in _SHAPES:
        raise ConfigError(
            f"schedule shape {shape!r} must be one of: {', '.join(_SHAPES)}{nearest(str(shape), tuple(_SHAPES))}"
        )
    return _SHAPES[shape](written["start"], written["end"], written.get("steps"), written.get("by", ENV_STEPS))


def write_schedule(schedule: Schedule) -> dict[str, Any]:
    """Returns the mapping that `read_schedule` converts back to an equal schedule."""
    by = {} if schedule.by == ENV_STEPS else {"by": schedule.by}
    if isinstance(schedule, Piecewise):
        return {"points": [list(point) for point in schedule.points], **by}
    written: dict[str, Any] = {"start": schedule.start, "end": schedule.end, **by}
    if isinstance(schedule, Exponential):
        written["shape"] = "exponential"
    if schedule.steps is not None:
        written["steps"] = schedule.steps
    return written


def _check_unit(name: str, by: Any) -> None:
    if by not in (ENV_STEPS, DECISIONS):
        near = nearest(str(by), (ENV_STEPS, DECISIONS))
        raise ConfigError(f"{name}: by must be {ENV_STEPS} or {DECISIONS}, not {by!r}{near}")


def _number(name: str, key: str, value: Any) -> float:
    if isinstance(value, Real) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise ConfigError(f"{name}: {key} must be a finite number, not {value!r}")
