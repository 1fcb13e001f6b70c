"""Curricula and samplers of ML-Agents 0.13 to 0.18, read and checked.

A curriculum was a directory with a JSON file for each behaviour (0.13), later one YAML file for all. A sampler file
draws parameters of the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rookery.face import ConfigError, nearest
from rookery_mlagents.old.old_files import CALLED, OldFile, kind_of, read_file

CURRICULUM = {
    "measure": "reward|progress", "thresholds": "numbers", "min_lesson_length": "whole", "signal_smoothing": "flag",
    "parameters": "section",
}  # fmt: skip
"""Keys of a curriculum; these releases required all of them."""

SAMPLERS = {
    "uniform": ("uniform", ("min_value", "max_value")),
    "gaussian": ("gaussian", ("mean", "st_dev")),
    "multirange_uniform": ("multirangeuniform", ("intervals",)),
}
"""Old samplers: the present name of each, and its parameters."""


# -- curricula ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OldCurriculum:
    """A curriculum of one behaviour.

    Attributes:
        behavior: The behaviour that is measured.
        criteria: How it is measured, by today's keys.
        thresholds: Where each lesson but the last ends.
        parameters: A value for each lesson, by parameter.
        place: ``file:line``.
        lone: Whether it has a file of its own, called like the behaviour, as in 0.13.
    """

    behavior: str
    criteria: dict[str, object]
    thresholds: list[float]
    parameters: dict[str, list[float]]
    place: str
    lone: bool


def read_curricula(path: str | Path) -> list[OldCurriculum]:
    """Reads a curriculum file, or a directory of them.

    Raises:
        ConfigError: If one is not right, or there is none.
    """
    place = Path(path)
    if place.is_dir():
        files = sorted(one for one in place.iterdir() if one.suffix.lower() == ".json")
        if not files:
            raise ConfigError(f"{path}: there is no .json file in this directory: curricula are called BEHAVIOUR.json")
        return [_lone_curriculum(one, read_file(one)) for one in files]
    file = read_file(place)
    _refuse_other(file, "curriculum")
    if set(CURRICULUM) & {str(key) for key in file.values}:
        return [_lone_curriculum(place, file)]
    return curricula_of(file, file.values)


def _lone_curriculum(path: Path, file: OldFile) -> OldCurriculum:
    found = _curriculum(file, path.stem, "", file.values, lone=True)
    file.check()
    return found


def curricula_of(file: OldFile, values: Mapping[Any, object], above: str = "") -> list[OldCurriculum]:
    """Returns the curricula of a file with those of several behaviours."""
    found = []
    for name, value in values.items():
        at = f"{above}{name}"
        found.append(_curriculum(file, str(name), at, file.section(at, value), lone=False))
    file.check()
    if not found:
        raise ConfigError(f"{file.source}: there is no curriculum in it")
    return found


def _curriculum(file: OldFile, behavior: str, at: str, values: Mapping[Any, object], *, lone: bool) -> OldCurriculum:
    read = file.keys(at, values, CURRICULUM)
    for key in CURRICULUM:
        if key not in values:
            file.problems.append(f"{file.place(at)}: curriculum of {behavior}: {key} is missing")
    above = f"{at}." if at else ""
    criteria = {
        "measure": read.get("measure"),
        "behavior": behavior,
        "signal_smoothing": read.get("signal_smoothing"),
        "min_lesson_length": read.get("min_lesson_length"),
    }
    thresholds, parameters = read.get("thresholds"), read.get("parameters")
    steps: list[float] = thresholds if isinstance(thresholds, list) else []
    if criteria["measure"] == "progress" and not all(0 <= one <= 1 for one in steps):
        file.wrong(f"{above}thresholds", f" = {steps}: progress is between 0 and 1")
    lessons: dict[str, list[float]] = {}
    for name, value in parameters.items() if isinstance(parameters, Mapping) else ():
        each = file.read(f"{above}parameters.{name}", value, "numbers")
        if isinstance(each, list):
            lessons[str(name)] = each
            if len(each) != len(steps) + 1:
                text = f": has {len(each)} values; {len(steps)} thresholds make {len(steps) + 1} lessons"
                file.wrong(f"{above}parameters.{name}", text)
    return OldCurriculum(behavior, criteria, steps, lessons, file.place(at), lone)


# -- samplers ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OldSamplers:
    """The content of a sampler file.

    Attributes:
        interval: Steps between two drawings; None = not given.
        samplers: Today's sampler by parameter.
        changes: Changes made to them.
        places: ``file:line`` by parameter.
    """

    interval: int | None
    samplers: dict[str, dict[str, object]]
    changes: list[str]
    places: dict[str, str]


def read_samplers(path: str | Path) -> OldSamplers:
    """Reads a sampler file.

    Raises:
        ConfigError: If it is not right.
    """
    file = read_file(path)
    _refuse_other(file, "sampler")
    return samplers_of(file, file.values)


def _refuse_other(file: OldFile, wanted: str) -> None:
    """Raises an error for a file that is clearly of another kind than its option."""
    kind = kind_of(file.values)
    if kind in CALLED and kind != wanted:
        place = "as the first file" if kind == "trainer" else f"as --{kind}"
        raise ConfigError(f"--{wanted} {file.source}: this is {CALLED[kind]}, not {CALLED[wanted]}: give it {place}")


def samplers_of(file: OldFile, values: Mapping[Any, object], above: str = "") -> OldSamplers:
    """Returns the samplers of a mapping, with ``sampler-type`` (up to 0.17) or ``sampler_type`` (0.18) in each.

    Raises:
        ConfigError: If it is not right.
    """
    interval: object = None
    found: dict[str, dict[str, object]] = {}
    for name, value in values.items():
        path = f"{above}{name}"
        if name == "resampling-interval":
            interval = file.read(path, value, "whole")
            if isinstance(interval, int) and interval <= 0:
                file.wrong(path, f" = {interval}: must be 1 or more")
        elif nearest(str(name).lower().replace("_", "-"), ["resampling-interval"]):
            file.wrong(path, ": there is no such key; did you mean 'resampling-interval'?")
        else:
            found[str(name)] = _sampler(file, path, file.section(path, value))
    file.check()
    places = {name: file.place(f"{above}{name}") for name in found}
    return OldSamplers(interval if isinstance(interval, int) else None, found, file.notes, places)


def _sampler(file: OldFile, path: str, values: Mapping[Any, object]) -> dict[str, object]:
    """Converts a sampler to the present format."""
    inner = file.section(f"{path}.sampler_parameters", values.get("sampler_parameters"))
    flat = {**{key: one for key, one in values.items() if key != "sampler_parameters"}, **inner}
    kind = flat.pop("sampler-type", flat.pop("sampler_type", None))
    if kind is None:
        near = next((f"; did you mean 'sampler-type' instead of {key!r}?" for key in flat if "type" in str(key)), "")
        file.wrong(path, f": sampler-type is missing: one of {', '.join(SAMPLERS)}{near}")
        return {}
    known = {**SAMPLERS, "multirangeuniform": SAMPLERS["multirange_uniform"]}
    if str(kind) not in known:
        near = nearest(str(kind), list(SAMPLERS))
        file.wrong(
            f"{path}.sampler-type",
            f" = {kind!r}: must be one of {', '.join(SAMPLERS)}{near}; a sampler that was registered in Python has no "
            "counterpart in this file: write the distribution as one of these, or draw it in the environment",
        )
        return {}
    today, parameters = known[str(kind)]
    read: dict[str, object] = {}
    for key in parameters:
        if key not in flat:
            file.wrong(path, f": {key} is missing: {kind} needs {' and '.join(parameters)}")
        elif key == "intervals":
            read[key] = _intervals(file, f"{path}.{key}", flat[key])
        else:
            read[key] = file.read(f"{path}.{key}", flat[key], "number")
    for other in flat:
        if other not in parameters and other != "seed":
            file.unknown(path, other, ("sampler-type", *parameters))
    low, high = read.get("min_value"), read.get("max_value")
    if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
        read["min_value"], read["max_value"] = high, low
        file.notes.append(f"{file.place(path)}: {path}: min_value was above max_value; they change places")
    return {"sampler_type": today, "sampler_parameters": read}


def _intervals(file: OldFile, path: str, value: object) -> list[list[float]]:
    found: list[list[float]] = []
    for one in value if isinstance(value, list) else [None]:
        each = file.read(path, one, "numbers") if isinstance(one, list) and len(one) == 2 else None
        if not isinstance(each, list):
            file.wrong(path, f" = {value!r}: must be a list of pairs, such as [[1, 2], [5, 6]]")
            return []
        if each[0] > each[1]:
            file.notes.append(f"{file.place(path)}: {path}: {each} goes downwards; its ends change places")
        found.append(sorted(each))
    return found
