"""Detects the ML-Agents release of an old file, and lists the changes made in it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rookery.face import ConfigError, nearest
from rookery_mlagents.old.old_files import OldFile, Section, number_of
from rookery_mlagents.old.old_flags import OLD_FLAGS, FlagsRead
from rookery_mlagents.old.old_keys import (
    CLONING,
    HINTS,
    IMITATION,
    KEYS,
    SIGNALS_OF_OLD,
    SIGNS,
    SINCE_014,
    SPOKEN,
    VERSIONS,
)
from rookery_mlagents.old.old_parameters import OldCurriculum, OldSamplers


@dataclass
class Changes:
    """Changes without duplicates, with the names of the affected behaviours."""

    changes: dict[str, list[str]] = field(default_factory=dict)

    def add(self, text: str, who: str = "") -> None:
        """Adds a change, of one behaviour or of the whole file."""
        names = self.changes.setdefault(text, [])
        if who and who not in names:
            names.append(who)

    def lines(self) -> list[str]:
        """Returns a line for each change."""
        return [f"{listed(names)}: {text}" if names else text for text, names in self.changes.items()]


def listed(names: Sequence[str], most: int = 4) -> str:
    """Returns names as a list, the first few of them."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


ALL = ""
"""Key of the number of agents of every behaviour."""


@dataclass
class Facts:
    """Facts known about old files.

    Attributes:
        file: The trainer configuration, or a file of 0.17 or 0.18, which holds curricula and samplers itself.
        curricula: Curricula of behaviours.
        samplers: Samplers of parameters; None = no such file.
        flags: The flags of the old command.
        lesson: The lesson to begin with.
        agents: Agents of a behaviour in one environment, by behaviour; `ALL` = of any other. Releases to 0.13 counted
            steps of the environment, today's files those of agents.
        demo: Demonstration for behaviours that ``online_bc`` had imitate a player; None = none.
        version: The release whose meaning the keys have; empty = not found out yet.
        changes: What changed so far.
    """

    file: OldFile
    curricula: Sequence[OldCurriculum]
    samplers: OldSamplers | None
    flags: FlagsRead
    lesson: int
    agents: Mapping[str, int]
    demo: str | None
    version: str = ""
    changes: Changes = field(default_factory=Changes)

    def agents_of(self, name: str) -> int | None:
        """Returns the number of agents of a behaviour; None if it was not given."""
        return self.agents.get(name, self.agents.get(ALL))


def release_of(facts: Facts, version: str | None, below: Section | None, behaviors: Mapping[str, Section]) -> str:
    """Returns the release of a file, or the newest possible one, and adds a line about it."""
    changes = facts.changes
    if version is not None:
        if version not in VERSIONS:
            raise ConfigError(f"--version {version}: must be one of {', '.join(VERSIONS)}{_instead_of(version)}")
        return version
    possible, why = set(VERSIONS), ""
    for reason, releases in _evidence(facts, behaviors).items():
        if not possible.intersection(releases):
            raise ConfigError(
                f"{facts.file.source}: {reason} is of {listed(sorted(releases))}, and {why} is not: give the release, "
                f"for example --version {max(releases)}; keys that it did not read are left out"
            )
        if possible.difference(releases):
            possible, why = possible.intersection(releases), f"{why}, {reason}" if why else reason
    if len(possible) == 1:
        changes.add(f"taken as a file of {max(possible)}, because of {why}")
        return max(possible)
    numbers = {key: number_of(given.value) for key, given in (below or {}).items()}
    for reason, came_with, releases in HINTS:
        is_that = all(numbers.get(key) == number for key, number in came_with.items())
        if is_that and possible.intersection(releases) and possible.difference(releases):
            possible, why = possible.intersection(releases), f"{why}, {reason}" if why else reason
    newest = max(possible)
    if len(possible) == 1:
        changes.add(f"taken as a file of {newest}, going by {why}; --version says otherwise")
        return newest
    because = f"others are ruled out by {why}" if why else "nothing in it says more"
    text = f"taken as a file of {newest}; {listed(sorted(possible))} are possible: {because}"
    if "0.13" in possible:
        text += (
            ". In 0.13 max_steps, summary_freq and other counts of steps were steps of an environment, and are now "
            "steps of agents: for a file of 0.13 give --version 0.13 --agents N, N agents in a scene"
        )
    if possible & {"0.13", "0.14"} and newest in ("0.15", "0.16") and _has_memory(behaviors):
        text += ". memory_size meant something else before 0.15: for a file of 0.14 give --version 0.14"
    changes.add(text)
    return newest


def _evidence(facts: Facts, behaviors: Mapping[str, Section]) -> dict[str, Sequence[str]]:
    """Returns the releases that each sign indicates."""
    found: dict[str, Sequence[str]] = {}
    for section in behaviors.values():
        for key, given in section.items():
            if key in KEYS:
                found[key] = KEYS[key].versions
            if key in SIGNALS_OF_OLD and "reward_signals" not in section:
                found[f"{key} without reward_signals"] = ("0.13",)
            if key == "pretraining" or (key == "trainer" and given.value in (*CLONING, IMITATION)):
                found[str(given.value) if key == "trainer" else key] = ("0.13",)
            inner = given.value if isinstance(given.value, Mapping) else {}
            found |= {name: releases for name, releases in SIGNS.get(key, {}).items() if name in inner}
    if facts.curricula and facts.curricula[0].lone:
        found["a curriculum file for each behaviour"] = ("0.13",)
    elif facts.curricula:
        found["a curriculum file for several behaviours"] = SINCE_014
    for name in facts.flags.given:
        first, last = OLD_FLAGS[name].versions
        found[name] = [one for one in VERSIONS if first <= one <= last]
    return found


def _has_memory(behaviors: Mapping[str, Section]) -> bool:
    values = [str(section["use_recurrent"].value) for section in behaviors.values() if "use_recurrent" in section]
    return any(SPOKEN.get(word.lower()) for word in values)


def _instead_of(version: str) -> str:
    """Returns a suggestion for a release that is not in `VERSIONS`."""
    found = re.fullmatch(r"0\.(\d+)(\.\d+)*", version)
    if found is None:
        return nearest(version, VERSIONS)
    if f"0.{found[1]}" in VERSIONS:
        return f"; give --version 0.{found[1]}"
    if int(found[1]) < 13:
        return (
            "; files of older releases are not read for what they meant: --version 0.13 takes them as the nearest "
            "there is, so look at every line that is said to have changed"
        )
    if int(found[1]) in (17, 18):
        return f"; a file of 0.{found[1]} is known by its form: leave --version out"
    return "; a file of that release needs no conversion: rookery mlagents learn reads it"
