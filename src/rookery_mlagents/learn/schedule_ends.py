"""Ends of linear schedules and of lessons by progress, which follow a changed ``max_steps`` of a behaviour in a resumed
run.

Only a larger ``max_steps`` moves the end of schedules. Progress is the part of ``max_steps`` that is over, so lessons
by progress follow any other ``max_steps``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from rookery.face import DECISIONS, Linear, Settings, Trainer, change, flow, read_schedule, yaml_layer


class StoredEnds:
    """Ends of a run's schedules before it is resumed.

    Args:
        folder: The run.

    Attributes:
        last: `max_decisions` of each policy that has one.
        schedules: Linear schedules by decisions, by policy and setting.
        lessons: Lessons of each course, by path.
    """

    def __init__(self, folder: Path) -> None:
        values = yaml_layer(folder / "config.yaml").values
        self.last: dict[str, int] = {}
        self.schedules: dict[tuple[str, str], Linear] = {}
        for name, entry in _section(values, "policies").items():
            if isinstance(entry, Mapping) and isinstance(entry.get("max_decisions"), int):
                self.last[name] = entry["max_decisions"]
                for setting, value in entry.items():
                    found = read_schedule(value) if isinstance(value, Mapping) and {"start", "end"} <= {*value} else 0
                    if isinstance(found, Linear) and found.by == DECISIONS:
                        self.schedules[name, setting] = found
        courses = _section(values, "curriculum")
        self.lessons = {f"curriculum.{name}.lessons": course.get("lessons") for name, course in courses.items()}

    def settle(self, values: dict[str, Any], kept: Iterable[str], keep_schedules: bool) -> dict[str, str]:
        """Sets the ends of schedules in the resumed run.

        Args:
            values: Settings that change, by path; schedules among them are replaced, or left out where nothing of them
                changes, and those are added that end later only.
            kept: Paths of settings that keep their value.
            keep_schedules: Whether no end is to move.

        Returns:
            For each path that was added, the path of the setting that moves its end.
        """
        added: dict[str, str] = {}
        for (name, setting), old in self.schedules.items():
            path, limit = f"policies.{name}.{setting}", f"policies.{name}.max_decisions"
            before, after = self.last[name], values.get(limit, self.last[name])
            moves = not keep_schedules and after is not None and after > before
            assert old.steps is not None
            now = values.get(path)
            if isinstance(now, Linear) and now.by == DECISIONS:
                end = max(after, old.steps) if moves else old.steps
                values[path] = Linear(now.start, now.end, end, DECISIONS)
                if values[path] == old:
                    del values[path]
            elif path in kept and moves and old.steps == before:
                values[path], added[path] = Linear(old.start, old.end, after, DECISIONS), limit
        return added

    def rescaled(self, values: Mapping[str, Any]) -> set[str]:
        """Returns the paths of lessons among changed settings that differ only by another ``max_steps``."""
        after = {name: values.get(f"policies.{name}.max_decisions", last) for name, last in self.last.items()}
        found = set()
        for path in values.keys() & self.lessons.keys():
            now, old = values[path], self.lessons[path]
            if isinstance(old, Sequence) and len(now) == len(old):
                scaled = [self._scaled(lesson, after) for lesson in old]
                if all(_alike(one, other) for one, other in zip(now, scaled, strict=True)):
                    found.add(path)
        return found

    def _scaled(self, lesson: Mapping[str, Any], after: Mapping[str, int | None]) -> dict[str, Any]:
        """Returns a lesson with its threshold in decisions of another ``max_steps``."""
        name = str(lesson.get("measure", "")).removeprefix("policies/").removesuffix("/decisions")
        last = after.get(name)
        scaled = {} if last is None else {"threshold": lesson["threshold"] * last / self.last[name]}
        return {**lesson, **scaled}

    def notes(self, trainer: Trainer) -> list[str]:
        """Returns a line for each policy of the resumed run whose schedules have a new end."""
        moved: dict[str, list[str]] = {}
        for (name, setting), old in self.schedules.items():
            cfg: Settings = trainer.config.policies[name].algorithm
            now = attrgetter(setting)(cfg)
            if isinstance(now, Linear) and now.steps != old.steps:
                at = trainer._decisions.get(name, 0)
                line = f"schedules end at {now.steps:,} decisions instead of {old.steps:,}"
                moved.setdefault(line, []).append(
                    change(f"policies.{name}.{setting}", old.at(at, None), now.at(at, None))
                )
        return [f"{line}: {'; '.join(changes)}" for line, changes in moved.items()]


def _section(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Returns a section of settings; an empty one if there is none."""
    section = values.get(name)
    return section if isinstance(section, Mapping) else {}


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Returns whether two lessons are equal, thresholds up to rounding."""
    limit, other_limit = one.get("threshold"), other.get("threshold")
    rest = [flow({key: value for key, value in lesson.items() if key != "threshold"}) for lesson in (one, other)]
    if isinstance(limit, int | float) and isinstance(other_limit, int | float):
        return rest[0] == rest[1] and math.isclose(limit, other_limit)
    return rest[0] == rest[1] and limit == other_limit
