"""All settings there are, with type, default and help, read from their declarations (docs/reference/settings.md)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from rookery.algorithms.names import ALGORITHMS
from rookery.core.config import mapping_hint, polymorphic
from rookery.core.settings.fields import (
    Settings,
    default_of,
    describe,
    fields_of,
    hints_of,
    object_name,
    settings_class,
)
from rookery.core.settings.layers import flow, import_object
from rookery.core.source import field_texts
from rookery.run.settings import RunConfig
from rookery.tune.names import SCHEDULERS, SEARCHES
from rookery.tune.settings import ExperimentFile

CLASSES: Mapping[str, Mapping[str, str]] = {
    "algorithm": ALGORITHMS.own,
    "tune.search": SEARCHES,
    "tune.scheduler": SCHEDULERS,
}
"""Import paths of the classes of a section that its key ``name`` chooses, by short name."""

RULE = " At the command line the default is chosen for the environment (docs/how-to/choose-an-algorithm.md)."

REQUIRED = "has to be given"
"""Default of a setting without one."""


@dataclass(frozen=True)
class Setting:
    """A setting, or a section of settings.

    Attributes:
        path: Path, as on the command line; NAME stands for a name of the user.
        kind: Possible values, in words.
        default: Default as YAML; empty for a section.
        text: Help.
        only: Name of the algorithm, search or scheduler that has it; empty if it does not depend on one.
        is_section: Whether it is a section.
    """

    path: str
    kind: str
    default: str
    text: str
    only: str = ""
    is_section: bool = False


def settings_in(cls: type, prefix: str = "", only: str = "") -> list[Setting]:
    """Returns the settings of a config class, without those of its sections.

    Args:
        cls: The class.
        prefix: Path of its section, with a dot at its end.
        only: Name of the algorithm, search or scheduler that has them.
    """
    texts, hints, found = field_texts(object_name(cls)), hints_of(cls), []
    for name, field in fields_of(cls).items():
        default: Any = default_of(field)
        is_section = settings_class(hints[name]) is not None
        if default is dataclasses.MISSING:
            shown = REQUIRED
        else:
            shown = "" if isinstance(default, Settings) else flow(default)
        text = texts.get(name, "").replace("``", "`")
        found.append(Setting(f"{prefix}{name}", describe(hints[name]), shown, text, only, is_section))
    return found


def settings_below(cls: type, prefix: str = "", only: str = "") -> Iterator[Setting]:
    """Yields the settings of a config class and of all its sections; arguments are those of `settings_in`."""
    for setting in settings_in(cls, prefix, only):
        name, inside = setting.path.removeprefix(prefix), f"{setting.path}."
        hint = hints_of(cls)[name]
        marker, mapping, section = polymorphic(hint), mapping_hint(hint), settings_class(hint)
        if setting.path in CLASSES:
            yield dataclasses.replace(setting, is_section=True)
            names = CLASSES[setting.path]
            yield Setting(f"{inside}name", "a name, or module:Name", flow(marker.default if marker else ""),
                          f"Chooses the settings: {', '.join(names)}.{RULE * (inside == 'algorithm.')}")  # fmt: skip
            for short, path in names.items():
                yield from settings_below(import_object(path), inside, short)
        elif mapping and (entry := marker.entry if marker else settings_class(mapping[1])):
            yield dataclasses.replace(setting, is_section=True)
            skipped = f"{inside}NAME.{marker.inherits if marker else ''}"
            rows = settings_below(entry, f"{inside}NAME.", only)
            yield from (row for row in rows if row.path != skipped)
        else:
            yield setting
            if section is not None and "__dataclass_fields__" in vars(section):
                yield from settings_below(section, inside, only)


@cache
def all_settings() -> Mapping[str, tuple[Setting, ...]]:
    """Returns the settings of runs and experiments by path; several for a path that depends on an algorithm."""
    found: dict[str, tuple[Setting, ...]] = {}
    for cls in (RunConfig, ExperimentFile):
        for setting in settings_below(cls):
            found[setting.path] = (*found.get(setting.path, ()), setting)
    return found


def paths_text() -> str:
    """Returns the text of ``core/settings/paths.txt``: the paths of all settings, those of sections with a dot."""
    return "".join(f"{path}{'.' * found[0].is_section}\n" for path, found in all_settings().items())
