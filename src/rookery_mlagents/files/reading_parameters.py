"""The section ``environment_parameters``: numbers, distributions and lessons, `read_parameter`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rookery.face import nearest
from rookery_mlagents.files.reading import Reader
from rookery_mlagents.files.sections import (
    CriteriaOptions,
    LessonOptions,
    ParameterOptions,
    Plain,
    SamplerOptions,
)
from rookery_mlagents.files.yaml_file import Node, number_of

SAMPLERS: dict[str, dict[str, Plain]] = {
    "constant": {"seed": -1, "value": 0.0},
    "uniform": {"seed": -1, "min_value": 0.0, "max_value": 1.0},
    "gaussian": {"seed": -1, "mean": 1.0, "st_dev": 1.0},
    "multirangeuniform": {"seed": -1, "intervals": [[0.0, 1.0]]},
}
"""Distributions by ``sampler_type``, with the keys and defaults of their ``sampler_parameters``."""

OLD_NAMES = {"multirange_uniform": "multirangeuniform", "normal": "gaussian"}
"""Former and foreign names of distributions."""

EXAMPLE = "{sampler_type: uniform, sampler_parameters: {min_value: 0.5, max_value: 10}}"


def read_parameter(
    reader: Reader, name: str, node: Node, behaviors: Sequence[str], has_default: bool
) -> ParameterOptions:
    """Reads a parameter of the environment.

    Args:
        reader: Collects mistakes and places.
        name: The parameter's name.
        node: A number, a distribution, or a curriculum.
        behaviors: The behaviours that the file names.
        has_default: Whether there may be others, which have ``default_settings``.
    """
    path = f"environment_parameters.{name}"
    inside = node.section if isinstance(node.value, Mapping) else None
    if inside is None or "curriculum" not in inside:
        return ParameterOptions((LessonOptions(name, _sampler(reader, node, path)),))
    reader.note_place(path, node)
    reader.refuse_unknown(inside, ["curriculum"], path)
    entries = inside["curriculum"].value
    if not isinstance(entries, list) or not entries:
        reader.refuse(inside["curriculum"], f"{path}.curriculum", "must be a list of lessons, each `- name: ...`")
        return ParameterOptions((LessonOptions(name, SamplerOptions("constant", dict(SAMPLERS["constant"]))),))
    lessons = []
    for number, entry in enumerate(entries):
        is_last = number + 1 == len(entries)
        entry = _named_lesson(reader, entry, f"{path}.curriculum.{number}")
        lessons.append(_lesson(reader, entry, f"{path}.curriculum.{number}", is_last, behaviors, has_default))
    return ParameterOptions(tuple(lessons))


def _named_lesson(reader: Reader, node: Node, path: str) -> Node:
    """Returns a lesson with its name among its keys, if it is written as ``- Lesson0: {...}``: ML-Agents' own upgrade
    of old files wrote this form, which no version reads.
    """
    inside = node.section if isinstance(node.value, Mapping) else None
    if inside is None or len(inside) != 1:
        return node
    ((name, lesson),) = inside.items()
    if name in ("name", "value", "completion_criteria") or not isinstance(lesson.value, Mapping):
        return node
    reader.notes.append(f"{lesson.place}: {path}: a lesson is written `- name: {name}` with its keys below")
    return Node({"name": Node(name, lesson.place), **lesson.value}, lesson.place)


def _lesson(
    reader: Reader, node: Node, path: str, is_last: bool, behaviors: Sequence[str], has_default: bool
) -> LessonOptions:
    inside = reader.mapping(node, path)
    reader.refuse_unknown(inside, ["name", "value", "completion_criteria"], path)
    for key in ("name", "value"):
        if key not in inside:
            reader.problems.append(f"{node.place}: {path}: {key} is missing: a lesson has a name and a value")
    value = SamplerOptions("constant", dict(SAMPLERS["constant"]))
    if "value" in inside:
        value = _sampler(reader, inside["value"], f"{path}.value")
    name = str(inside["name"].value) if "name" in inside else ""
    criteria = inside.get("completion_criteria")
    if criteria is None or criteria.value is None:
        if not is_last:
            reader.problems.append(
                f"{node.place}: {path}: completion_criteria is missing: nothing would ever end this lesson, and others "
                "follow"
            )
        return LessonOptions(name, value)
    if is_last:
        reader.notes.append(f"{criteria.place}: {path}.completion_criteria: no lesson follows the last: passed over")
        return LessonOptions(name, value)
    here = f"{path}.completion_criteria"
    if "behavior" not in reader.mapping(criteria, here):
        reader.refuse(criteria, here, "behavior is missing: say whose reward or progress ends the lesson")
        return LessonOptions(name, value)
    inside = dict(reader.mapping(criteria, here))
    measure = inside.get("measure")
    if measure is not None and isinstance(measure.value, str) and measure.value.lower() in ("elo", "group_reward"):
        inside["measure"] = Node(measure.value.lower(), measure.place)
    found = reader.section(CriteriaOptions, Node(inside, criteria.place), here)
    if found.behavior not in behaviors and not has_default:
        near = nearest(found.behavior, list(behaviors))
        node = (criteria.section or {})["behavior"]
        reader.refuse(node, f"{here}.behavior", f"the file has no such behaviour{near}; it has {', '.join(behaviors)}")
    if found.measure == "progress" and not 0 <= found.threshold <= 1:
        reader.refuse(
            (criteria.section or {})["threshold"],
            f"{here}.threshold",
            "must be a number from 0 to 1: progress is the part of max_steps that is over",
        )
    return LessonOptions(name, value, found)


def _sampler(reader: Reader, node: Node, path: str) -> SamplerOptions:
    """Reads a number or a distribution."""
    reader.note_place(path, node)
    constant = dict(SAMPLERS["constant"])
    value = number_of(node.value) if isinstance(node.value, str) else node.value
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return SamplerOptions("constant", {**constant, "value": float(value)})
    inside = node.section if isinstance(node.value, Mapping) else None
    if inside is None:
        reader.refuse(node, path, f"must be a number, a distribution such as {EXAMPLE}, or a curriculum")
        return SamplerOptions("constant", constant)
    reader.refuse_unknown(inside, ["sampler_type", "sampler_parameters"], path)
    for key in ("sampler_type", "sampler_parameters"):
        if key not in inside:
            reader.problems.append(f"{node.place}: {path}: {key} is missing, as in {EXAMPLE}")
            return SamplerOptions("constant", constant)
    kind = str(inside["sampler_type"].value)
    if kind not in SAMPLERS:
        near = f"; did you mean {OLD_NAMES[kind]!r}?" if kind in OLD_NAMES else nearest(kind, list(SAMPLERS))
        reader.refuse(inside["sampler_type"], f"{path}.sampler_type", f"there are {', '.join(SAMPLERS)}{near}")
        return SamplerOptions("constant", constant)
    here = f"{path}.sampler_parameters"
    given = reader.mapping(inside["sampler_parameters"], here)
    reader.refuse_unknown(given, list(SAMPLERS[kind]), here)
    values = dict(SAMPLERS[kind])
    for key in [key for key in values if key in given]:
        found = _parameter(reader, key, given[key], f"{here}.{key}")
        if found is not None:
            values[key] = found
    low, high = values.get("min_value"), values.get("max_value")
    if isinstance(low, float) and isinstance(high, float) and low > high:
        reader.refuse(inside["sampler_parameters"], here, f"min_value {low:g} is above max_value {high:g}")
    return SamplerOptions(kind, values)


def _parameter(reader: Reader, key: str, node: Node, path: str) -> Plain:
    """Reads a setting of a distribution; None if it is wrong."""
    hint: Any = {"seed": int, "intervals": tuple[tuple[float, float], ...]}.get(key, float)
    if key == "intervals":
        return _intervals(reader, node, path)
    found = reader.value(hint, node, path)
    return found if isinstance(found, int | float) else None


def _intervals(reader: Reader, node: Node, path: str) -> Plain:
    written = node.written()
    pairs: list[Plain] = []
    for pair in written if isinstance(written, list) else [None]:
        numbers = pair if isinstance(pair, list) and len(pair) == 2 else []
        ends = [float(one) for one in numbers if isinstance(one, int | float) and not isinstance(one, bool)]
        if len(ends) != 2 or not all(map(math.isfinite, ends)) or ends[0] > ends[1]:
            reader.refuse(node, path, "must be a list of [low, high], as in [[0.5, 1], [4, 5]]")
            return None
        pairs.append([ends[0], ends[1]])
    reader.note_place(path, node)
    return pairs
