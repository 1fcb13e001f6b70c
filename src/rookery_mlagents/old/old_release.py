"""Which release of ML-Agents an old file is of, and what a reader is told of what became of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rookery.face import ConfigError, nearest
from rookery_mlagents.old.old_files import (
    CLONING,
    IMITATION,
    KEYS,
    SIGNAL_UPDATES,
    SIGNALS_OF_OLD,
    SINCE_014,
    VERSIONS,
    OldFile,
    Section,
)
from rookery_mlagents.old.old_flags import OLD_FLAGS, FlagsRead


@dataclass
class Changes:
    """What a reader has to know, each once, with the names of those it is true of."""

    said: dict[str, list[str]] = field(default_factory=dict)

    def add(self, text: str, who: str = "") -> None:
        """Says something, of a behaviour or of everything."""
        names = self.said.setdefault(text, [])
        if who and who not in names:
            names.append(who)

    def lines(self) -> list[str]:
        """Gives a line for each."""
        return [f"{listed(names)}: {text}" if names else text for text, names in self.said.items()]


def listed(names: Sequence[str], most: int = 4) -> str:
    """Gives names as a list, the first few of them."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def release_of(
    file: OldFile,
    below: Section | None,
    behaviors: Mapping[str, Section],
    form: str,
    flags: FlagsRead,
    version: str | None,
    changes: Changes,
) -> str:
    """Gives the release of a file, or the newest that it may be of; says so."""
    if version is not None:
        if version not in VERSIONS:
            raise ConfigError(f"--version {version}: must be one of {', '.join(VERSIONS)}{_instead_of(version)}")
        return version
    possible, why = set(VERSIONS), ""
    for reason, releases in _evidence(behaviors, form, flags).items():
        if not possible & releases:
            raise ConfigError(
                f"{file.source}: {reason} is of {listed(sorted(releases))}, and {why} is not: give the release, for "
                f"example --version {max(releases)}; keys that it did not read are left out"
            )
        if possible - releases:
            possible, why = possible & releases, f"{why}, {reason}" if why else reason
    if len(possible) == 1:
        changes.add(f"taken as a file of {max(possible)}, because of {why}")
        return max(possible)
    for reason, releases in _hints(below).items():
        if len(possible) > 1 and possible & releases and possible - releases:
            possible, why = possible & releases, f"{why}, {reason}" if why else reason
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


def _hints(below: Section | None) -> dict[str, set[str]]:
    """Gives the releases whose own ``default`` had the numbers of this one, where these changed."""
    numbers = {key: str(given.value) for key, given in (below or {}).items()}

    def same(key: str, number: float) -> bool:
        try:
            return float(numbers[key]) == number
        except (KeyError, ValueError):
            return False

    found = {}
    if same("max_steps", 5e4) and same("summary_freq", 1000):
        found["max_steps and summary_freq of default, which are those that 0.13 came with"] = {"0.13"}
    if same("max_steps", 5e5) and same("summary_freq", 10000):
        found["max_steps and summary_freq of default, which are those of releases from 0.14 on"] = set(SINCE_014)
    if same("memory_size", 256):
        found["memory_size of default, which is that of releases before 0.15"] = {"0.13", "0.14"}
    if same("memory_size", 128):
        found["memory_size of default, which is that of releases from 0.15 on"] = {"0.15", "0.16"}
    return found


def _evidence(behaviors: Mapping[str, Section], form: str, flags: FlagsRead) -> dict[str, set[str]]:
    """Gives the releases that each sign is of."""
    found: dict[str, set[str]] = {}
    for section in behaviors.values():
        for key, given in section.items():
            if key in KEYS and set(KEYS[key].versions) != set(VERSIONS):
                found[key] = set(KEYS[key].versions)
            if key in SIGNALS_OF_OLD and "reward_signals" not in section:
                found[f"{key} without reward_signals"] = {"0.13"}
            if key == "pretraining" or (key == "trainer" and given.value in (*CLONING, IMITATION)):
                found[str(given.value) if key == "trainer" else key] = {"0.13"}
            inner = given.value if isinstance(given.value, Mapping) else {}
            if key == "reward_signals":
                found |= {name: set(SIGNAL_UPDATES[name]) for name in SIGNAL_UPDATES if name in inner}
            if key == "self_play" and "play_against_current_self_ratio" in inner:
                found["play_against_current_self_ratio"] = {"0.14", "0.15"}
            for name in ("play_against_latest_model_ratio", "team_change"):
                if key == "self_play" and name in inner:
                    found[name] = {"0.16"}
    if form:
        lone = form == "lone"
        text = "a curriculum file for each behaviour" if lone else "a curriculum file for several behaviours"
        found[text] = {"0.13"} if lone else set(SINCE_014)
    for name in flags.given:
        first, last = OLD_FLAGS[name].versions
        if (first, last) != (VERSIONS[0], VERSIONS[-1]):
            found[name] = {one for one in VERSIONS if first <= one <= last}
    return found


def _has_memory(behaviors: Mapping[str, Section]) -> bool:
    return any(str(part["use_recurrent"].value).lower() in ("true", "yes", "on")
               for part in behaviors.values() if "use_recurrent" in part)  # fmt: skip


def _instead_of(version: str) -> str:
    """Says what to give for a release that is none of `VERSIONS`."""
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
