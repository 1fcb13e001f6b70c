"""`converted_files`, `text_of`: convert files of ML-Agents 0.13 to 0.18 to one file of the present format.

The result loads in ML-Agents 1.1.0 as well. Each change that is more than a new place is a line of `Converted`.
"""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from rookery.face import ConfigError, nearest
from rookery_mlagents.old.old_behaviors import SIGNAL_STEPS, Values, new_behavior
from rookery_mlagents.old.old_files import OldFile, has_flat_behaviors, kind_of, read_trainer, sections
from rookery_mlagents.old.old_flags import OLD_FLAGS, read_flags
from rookery_mlagents.old.old_keys import SPOKEN, VERSIONS
from rookery_mlagents.old.old_parameters import (
    OldCurriculum,
    curricula_of,
    read_curricula,
    read_samplers,
    samplers_of,
)
from rookery_mlagents.old.old_release import ALL, Changes, Facts, listed, release_of

ORDER = (
    "trainer_type", "hyperparameters", "network_settings", "reward_signals", "behavioral_cloning", "self_play",
    "keep_checkpoints", "checkpoint_interval", "max_steps", "time_horizon", "summary_freq", "threaded",
)  # fmt: skip
"""Order in which the keys of a behaviour are written."""

DEFAULT = "default"
"""Section with default keys of behaviours; it is no behaviour itself."""

NULLABLE = ("memory", "self_play", "behavioral_cloning")
"""Sections that a behaviour can remove from ``default_settings`` by null."""


@dataclass(frozen=True)
class Converted:
    """Converted file of the present format.

    Attributes:
        current: Its sections.
        changes: Changes, assumptions and omissions, a line each.
        version: The release whose meaning the keys were given.
    """

    current: Values
    changes: list[str]
    version: str


def converted_files(
    old: Path,
    curriculum: Path | None = None,
    sampler: Path | None = None,
    *,
    lesson: int | None = None,
    version: str | None = None,
    agents: Sequence[str] = (),
    demo: str | None = None,
    words: Sequence[str] = (),
) -> tuple[Converted, list[str]]:
    """Converts files, which may also be given as arguments of the old command.

    Args:
        old: Path of the trainer configuration.
        curriculum: Path of its curriculum file, or of a directory of them; None = none, or as `words` say.
        sampler: Path of its sampler file.
        lesson: The lesson to begin with.
        version: The release; None = found out.
        agents: Numbers of agents, ``12`` or ``Behaviour=12`` each.
        demo: Demonstration for ``online_bc``.
        words: Flags of the old command.

    Returns:
        The file of today, and words for the command that runs it.

    Raises:
        ConfigError: If a file or a word is not right.
    """
    flags = read_flags(words)
    if curriculum is None and (path := flags.files.get("curriculum")):
        curriculum = Path(path)
    if sampler is None and (path := flags.files.get("sampler")):
        sampler = Path(path)
    if lesson is None:
        lesson = _lesson(flags.files.get("lesson", "0"))
    facts = Facts(
        file=read_trainer(old),
        curricula=read_curricula(curriculum) if curriculum else [],
        samplers=read_samplers(sampler) if sampler else None,
        flags=flags,
        lesson=lesson,
        agents=_agents(agents),
        demo=demo,
    )
    return _converted(facts, version), flags.today


def _lesson(text: str) -> int:
    if not text.isdecimal():
        raise ConfigError(f"--lesson {text}: must be a whole number, 0 or more")
    return int(text)


def _agents(texts: Sequence[str]) -> dict[str, int]:
    found = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        if not number.isdecimal() or not int(number) or (equals and not name):
            raise ConfigError(f"--agents {text}: must be a number of agents, such as 12 or 3DBall=12")
        found[name or ALL] = int(number)
    return found


def _converted(facts: Facts, version: str | None) -> Converted:
    """Returns the converted file; `version` is the given release, None = it must be detected."""
    for text in facts.file.notes:
        facts.changes.add(text)
    beside: Values = {}
    if kind_of(facts.file.values) == "between":
        beside = _without_parameters(facts)
        if not has_flat_behaviors(beside):
            return _between(facts, beside)
        beside.pop("behaviors")
        facts.file, version = _unfolded(facts.file), version or VERSIONS[-1]
        facts.changes.add(f"taken as a file of 0.17, whose behaviours have the keys of {VERSIONS[-1]}")
    below, behaviors = sections(facts.file)
    facts.version = release_of(facts, version, below, behaviors)
    for name in facts.agents:
        if name and name not in behaviors:
            raise ConfigError(f"--agents {name}: no behaviour is called like this{nearest(name, list(behaviors))}")
    found = {name: new_behavior(facts, name, section) for name, section in behaviors.items()}
    named = list(found)
    if below and "trainer" in below:
        found[DEFAULT] = new_behavior(facts, DEFAULT, below)
    elif below:
        facts.changes.add("default has no trainer and cannot stand as default_settings; behaviours hold its keys")
    facts.file.check()
    _apply_flags(facts, found)
    _settle(found.values(), facts.changes)
    current = _over_default(found, facts.changes) | beside
    if parameters := _parameters(facts, named, DEFAULT in found):
        current["environment_parameters"] = parameters
    elif facts.lesson:
        raise ConfigError(f"--lesson {facts.lesson}: there are no lessons without --curriculum")
    return Converted(current, [*facts.changes.lines(), *facts.flags.changes], facts.version)


# -- files of 0.17 and 0.18 --------------------------------------------------------------------------------------------


def _without_parameters(facts: Facts) -> Values:
    """Removes curricula and samplers from the file; returns the rest.

    Raises:
        ConfigError: If it holds some and others are given beside it, or one is not right.
    """
    file = facts.file
    values = {str(key): value for key, value in file.values.items()}
    lessons, drawn = values.pop("curriculum", None), values.pop("parameter_randomization", None)
    if (lessons and facts.curricula) or (drawn and facts.samplers):
        raise ConfigError(f"{file.source}: holds curricula or samplers itself: give no file of them beside it")
    if lessons:
        facts.curricula = curricula_of(file, file.section("curriculum", lessons), "curriculum.")
    if drawn:
        section = file.section("parameter_randomization", drawn)
        facts.samplers = samplers_of(file, section, "parameter_randomization.")
    file.check()
    return values


def _between(facts: Facts, values: Values) -> Converted:
    """Returns a file whose behaviours are unchanged, and whose curricula and samplers are converted."""
    behaviors = values.get("behaviors")
    named = [str(name) for name in behaviors] if isinstance(behaviors, Mapping) else []
    facts.changes.add(
        "taken as a file of 0.17 or 0.18: behaviours stay as they are; curriculum and parameter_randomization are now "
        "environment_parameters"
    )
    parameters = _parameters(facts, named, "default_settings" in values)
    return Converted({**values, "environment_parameters": parameters}, facts.changes.lines(), "0.18")


def _unfolded(file: OldFile) -> OldFile:
    """Returns the behaviours of a 0.17 file in the form of a 0.16 trainer configuration."""
    above = "behaviors."
    lines = {path.removeprefix(above): place for path, place in file.lines.items() if path.startswith(above)}
    values = file.section("behaviors", file.values["behaviors"])
    return OldFile(file.source, values, lines, file.problems, file.notes, file.path)


# -- behaviours together -----------------------------------------------------------------------------------------------


def _apply_flags(facts: Facts, behaviors: Mapping[str, Values]) -> None:
    """Sets the keys of behaviours that were given as flags in all behaviours."""
    flags = facts.flags
    for key, value in flags.keys.items():
        for name, behavior in behaviors.items():
            behavior[key] = value * (facts.agents_of(name) or 1) if key == "checkpoint_interval" else value
        flag = next(name for name, one in OLD_FLAGS.items() if one.key == key)
        text = f"{key} {value} stands in every behaviour, as {flag} said"
        if key == "checkpoint_interval":
            text += "; it counts steps of agents, and counted steps of an environment"
            text += ": times the number of agents, as --agents said" if facts.agents else ": --agents N multiplies it"
        facts.changes.add(text)
    plays_only = flags.given and "--train" not in flags.given and facts.version != "0.16"
    if plays_only:
        facts.changes.add("without --train the old command played and did not learn: add --resume --inference for that")


def _settle(behaviors: Collection[Values], changes: Changes) -> None:
    """Removes keys that equal the present defaults, and adds schedules that differ from them.

    Either is done in all behaviours or in none, so that they still lie over ``default_settings``.
    """
    hypers: list[Values] = [cast(Values, one.setdefault("hyperparameters", {})) for one in behaviors]
    if len({(hyper[SIGNAL_STEPS], hyper.get("steps_per_update")) for hyper in hypers if SIGNAL_STEPS in hyper}) == 1:
        for hyper in hypers:
            if hyper.get(SIGNAL_STEPS) == hyper.get("steps_per_update"):
                hyper.pop(SIGNAL_STEPS, None)
    of_ppo = [hyper for one, hyper in zip(behaviors, hypers, strict=True) if one["trainer_type"] == "ppo"]
    if any(hyper.get("learning_rate_schedule") == "constant" for hyper in of_ppo):
        for hyper in of_ppo:
            hyper |= {"beta_schedule": "linear", "epsilon_schedule": "linear"}
        changes.add(
            "beta_schedule and epsilon_schedule are written down: these releases kept both linear; today's follow "
            "learning_rate_schedule"
        )


def _over_default(behaviors: Mapping[str, Values], changes: Changes) -> Values:
    """Returns behaviours as differences from `DEFAULT`, which becomes ``default_settings``, if possible for all."""
    whole = {name: {key: one[key] for key in ORDER if one.get(key, {}) != {}} for name, one in behaviors.items()}
    default = whole.pop(DEFAULT, None)
    if default is None:
        return {"behaviors": whole}
    parts = {name: _difference(default, one) for name, one in whole.items()}
    if apart := [name for name, part in parts.items() if part is None]:
        changes.add(
            f"default is written into each behaviour and not as default_settings, because {listed(apart)} had less "
            "than it, which default_settings cannot say; a behaviour that this file does not name needs a section"
        )
        return {"behaviors": whole}
    found: Values = {"default_settings": default}
    if parts:
        trainer = {"trainer_type": default["trainer_type"]}
        found["behaviors"] = {name: trainer | (part or {}) for name, part in parts.items()}
    return found


def _difference(default: Values, behavior: Values) -> Values | None:
    """Returns the difference of a behaviour from ``default_settings``, which ML-Agents first completes with its
    defaults.
    """
    if default["trainer_type"] != behavior["trainer_type"]:
        return None
    if "reward_signals" in behavior and "reward_signals" not in default:
        default = {**default, "reward_signals": {"extrinsic": {}}}
    return over(default, behavior)


def over(below: Mapping[str, object], whole: Mapping[str, object]) -> Values | None:
    """Returns the section that, merged over `below`, results in `whole`; None if there is none."""
    found: Values = {}
    for key in below:
        if key not in whole:
            if key not in NULLABLE:
                return None
            found[key] = None
    for key, value in whole.items():
        base = below.get(key)
        if isinstance(value, dict) and isinstance(base, dict):
            part = over(base, value)
            if part is None:
                return None
            if part:
                found[key] = part
        elif key not in below or value != base:
            found[key] = value
    return found


# -- parameters of the environment -------------------------------------------------------------------------------------


def _parameters(facts: Facts, named: list[str], others: bool) -> Values:
    """Returns ``environment_parameters``.

    Args:
        facts: The old files.
        named: Behaviours that have a section.
        others: Whether there may be others, because the file has ``default``.
    """
    lesson, changes = facts.lesson, facts.changes
    if lesson < 0:
        raise ConfigError(f"--lesson {lesson}: must be 0 or more; lessons are counted from 0")
    found: Values = {}
    for one in facts.curricula:
        if not others and one.behavior not in named:
            raise ConfigError(
                f"{one.place}: curriculum of {one.behavior!r}: {facts.file.source} has no such behaviour and no default"
                f"{nearest(one.behavior, named)}"
            )
        if one.behavior not in named:
            text = "has default but no section for the behaviour of this curriculum"
            changes.add(f"{one.place}: {facts.file.source} {text}{nearest(one.behavior, named)}", one.behavior)
        start = min(lesson, len(one.thresholds))
        if lesson > start:
            changes.add(f"--lesson {lesson} is the last one, {start}, of this curriculum", one.behavior)
        elif start:
            changes.add(f"lessons before {start} are left out, as --lesson said", one.behavior)
        for parameter, values in one.parameters.items():
            if parameter in found:
                changes.add(f"{parameter} has several curricula, which was undefined: that of {one.behavior} stands")
            found[parameter] = _lessons(one, values, start)
    if facts.curricula:
        changes.add(
            "require_reset: true stands in each lesson, because a new lesson broke all episodes off; without it, "
            "episodes go to their end with the values they began with"
        )
    if samplers := facts.samplers:
        for parameter, sampler in samplers.samplers.items():
            if parameter in found:
                where = samplers.places[parameter]
                changes.add(f"{where}: {parameter} has a curriculum, which stands; its sampler is left out")
            else:
                found[parameter] = sampler
        for text in samplers.changes:
            changes.add(text)
        if samplers.interval is not None:
            changes.add(
                f"resampling-interval {samplers.interval} is left out: every episode draws its own values; before, one "
                f"draw held for {samplers.interval} steps in all environments, and the next broke all episodes off"
            )
    return found


def _lessons(curriculum: OldCurriculum, values: Sequence[float], start: int) -> object:
    """Returns the lessons of a parameter; a number if only the last one is left."""
    if start == len(curriculum.thresholds):
        return values[-1]
    found: list[Values] = []
    for number in range(start, len(values)):
        one: Values = {"name": f"Lesson{number}"}
        if number < len(curriculum.thresholds):
            threshold = {"threshold": curriculum.thresholds[number], "require_reset": True}
            one["completion_criteria"] = {**curriculum.criteria, **threshold}
        found.append({**one, "value": values[number]})
    return {"curriculum": found}


# -- as text -----------------------------------------------------------------------------------------------------------


def text_of(current: Mapping[str, object], comment: str = "") -> str:
    """Returns a present-format file as YAML that readers of YAML 1.1 and 1.2 read alike.

    Args:
        current: Its sections.
        comment: First line of the file, without the mark; empty = none.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedSeq
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    def written(value: object) -> object:
        if isinstance(value, Mapping):
            return {written(str(key)): written(inner) for key, inner in value.items()}
        if isinstance(value, list):
            each = CommentedSeq([written(inner) for inner in value])
            if not any(isinstance(inner, Mapping) for inner in value):
                each.fa.set_flow_style()
            return each
        return DoubleQuotedScalarString(value) if isinstance(value, str) and _misread(value) else value

    writer = YAML()
    writer.indent(mapping=2, sequence=4, offset=2)
    writer.width = 1 << 16
    writer.representer.add_representer(
        float, lambda node, value: node.represent_scalar("tag:yaml.org,2002:float", float_text(value))
    )
    stream = io.StringIO()
    writer.dump(written(current), stream)
    return (f"# {comment}\n" if comment else "") + stream.getvalue()


def float_text(value: float) -> str:
    """Returns a number in the form of YAML 1.1: ``1.0e-05``, with a point and a sign."""
    text = repr(value)
    return text if "." in text or "e" not in text else text.replace("e", ".0e")


def _misread(text: str) -> bool:
    """Returns whether YAML 1.1 would misread a text without quotes."""
    number = r"[-+]?(0[xob])?[\d_.,:]+(e[-+]?\d+)?|\d{4}-\d\d?-\d\d?.*"
    return text.lower() in (*SPOKEN, "y", "n", "null", "~", "") or re.fullmatch(number, text, re.I) is not None


def first_line(converted: Converted, source: str | Path) -> str:
    """Returns the first line of a converted file."""
    return f"Made by rookery mlagents convert from {Path(source).name}, read as a file of ML-Agents {converted.version}"
