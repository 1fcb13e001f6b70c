"""Schedules over env steps, in the forms of keys of 2021.

Steps of RLlib may be rows of agents (`Reader.rows_per_step`): they are divided here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from rookery.face import Linear, Piecewise
from rookery_rllib.config.reader import Reader


def scheduled(reader: Reader, key: str, schedule_key: str) -> Any:
    """Returns the value of a key, or the schedule that replaces it: ``[[env steps, value], ...]``."""
    points = reader.get(schedule_key)
    if points is None:
        return reader.number(key)
    if schedule_key == "entropy_coeff_schedule" and isinstance(points, int | float):
        points = [[0, reader.number(key)], [points, 0.0]]
    return piecewise(reader, schedule_key, points)


def piecewise(reader: Reader, key: str, points: Any) -> Any:
    """Returns a piecewise linear schedule through ``[[steps, value], ...]``."""
    shaped = isinstance(points, list | tuple) and bool(points)
    if not shaped or not all(isinstance(point, list | tuple) and len(point) == 2 for point in points):
        reader.refuse(key, "must be a list of [env steps, value], for example [[0, 1e-3], [100000, 1e-5]]")
        return 1.0
    steps = [point[0] for point in points]
    if any(low >= high for low, high in pairwise(steps)) or steps[0] < 0:
        reader.refuse(key, "env steps must ascend from 0 or later")
        return 1.0
    return Piecewise(tuple((step / reader.rows_per_step, float(value)) for step, value in points))


def ramp(reader: Reader, start: float, end: float, steps: float, after: float = 0.0) -> Any:
    """Returns a linear schedule from one value to another, from step `after` on; a number if both are equal."""
    if start == end or steps <= 0:
        return end
    steps, after = steps / reader.rows_per_step, after / reader.rows_per_step
    if after <= 0:
        return Linear(start, end, int(steps))
    return Piecewise(((0.0, start), (after, start), (after + steps, end)))


def written_schedule(reader: Reader, key: str, schedule: Any) -> Any:
    """Returns the schedule of a dict ``{"type": ...}``, a list of points, or a schedule object of 2021."""
    if isinstance(schedule, int | float):
        return float(schedule)
    if isinstance(schedule, list | tuple):
        return piecewise(reader, key, schedule)
    parts = schedule if isinstance(schedule, Mapping) else {"type": type(schedule).__name__, **vars(schedule)}
    kind = str(parts.get("type", "")).rpartition(".")[2].removesuffix("Schedule")
    if kind == "Constant":
        return float(parts.get("value", parts.get("_v", 0.0)))
    if kind == "Linear" or (kind == "Polynomial" and parts.get("power", 2.0) == 1.0):
        return ramp(reader, parts.get("initial_p", 1.0), parts.get("final_p", 0.0), parts.get("schedule_timesteps", 0))
    if kind == "Piecewise":
        return piecewise(reader, key, parts.get("endpoints"))
    reader.refuse(key, "must be a ConstantSchedule, LinearSchedule or PiecewiseSchedule")
    return 1.0


def points_of(schedule: Any) -> Sequence[tuple[float, float]]:
    if isinstance(schedule, Linear):
        return [(0.0, schedule.start), (float(schedule.steps or 1), schedule.end)]
    return list(schedule.points)
