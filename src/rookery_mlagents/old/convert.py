"""Files of ML-Agents 0.13 to 0.18 as one file of today: `convert`, and `text_of`, which writes it.

What is written loads in ML-Agents 1.1.0 as well. Each change that is more than a new place is said in words.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rookery.face import ConfigError, nearest
from rookery_mlagents.old.old_files import (
    CLONING,
    CLONING_KEYS,
    IMITATION,
    KEYS,
    SELF_PLAY,
    SIGNAL_UPDATES,
    SIGNALS,
    SIGNALS_OF_OLD,
    SPOKEN,
    UNREAD,
    VERSIONS,
    Given,
    OldFile,
    Section,
    has_flat_behaviors,
    kind_of,
    sections,
)
from rookery_mlagents.old.old_flags import OLD_FLAGS, FlagsRead
from rookery_mlagents.old.old_parameters import OldCurriculum, OldSamplers, curricula_of, samplers_of
from rookery_mlagents.old.old_release import Changes, listed, release_of

ORDER = (
    "trainer_type", "hyperparameters", "network_settings", "reward_signals", "behavioral_cloning", "self_play",
    "keep_checkpoints", "checkpoint_interval", "max_steps", "time_horizon", "summary_freq", "threaded",
)  # fmt: skip
"""In which order keys of a behaviour are written."""

SCHEDULES = ("beta_schedule", "epsilon_schedule")
"""Schedules that these releases kept linear whatever ``learning_rate_schedule`` said."""

SIGNAL_STEPS = "reward_signal_steps_per_update"
"""Key of SAC that is what ``steps_per_update`` is where nothing is said."""

NULLABLE = ("memory", "self_play", "behavioral_cloning")
"""Sections that a behaviour can take back from ``default_settings``, by null."""

ALL = ""
"""Name under which the number of agents of every behaviour stands."""

CLONE = "rookery train --algo bc --replay DATA"
"""How a policy is cloned from demonstrations alone."""


@dataclass(frozen=True)
class Converted:
    """A file of today.

    Attributes:
        current: Its sections.
        changes: What was changed, assumed and left out, a line each.
        version: The release whose meaning the keys were given.
    """

    current: dict[str, object]
    changes: list[str]
    version: str


@dataclass
class Facts:
    """What is known of an old file beside its keys.

    Attributes:
        file: The file.
        version: The release whose meaning its keys have.
        agents: Agents of a behaviour in one environment, by behaviour; `ALL` = of any other.
        demo: Demonstration for ``online_bc``; None = none.
        changes: What is said so far.
    """

    file: OldFile
    version: str
    agents: Mapping[str, int]
    demo: str | None
    changes: Changes

    def agents_of(self, name: str) -> int | None:
        """Gives the number of agents of a behaviour; None = nobody said it."""
        return self.agents.get(name, self.agents.get(ALL))


def convert(
    trainer: OldFile,
    curricula: Sequence[OldCurriculum] = (),
    samplers: OldSamplers | None = None,
    *,
    each_in_a_file: bool = False,
    version: str | None = None,
    agents: Mapping[str, int] | None = None,
    lesson: int = 0,
    demo: str | None = None,
    flags: FlagsRead | None = None,
) -> Converted:
    """Gives the file of today that old ones make.

    Args:
        trainer: The trainer configuration, or a file of 0.17 or 0.18, which holds curricula and samplers itself.
        curricula: Curricula of behaviours.
        samplers: Samplers of parameters.
        each_in_a_file: Whether there was a curriculum file for each behaviour, as in 0.13.
        version: The release, of `VERSIONS`; None = found out, or assumed and said.
        agents: Agents of a behaviour in one environment, by name or for all others under `ALL`; releases to 0.13
            counted steps of the environment, today's files those of agents.
        lesson: The lesson to begin with.
        demo: Demonstration for behaviours that ``online_bc`` had imitate a player.
        flags: What the old command said.

    Raises:
        ConfigError: If a file is not right; with a line for each mistake.
    """
    changes, flags = Changes(), flags or FlagsRead()
    for text in trainer.notes:
        changes.add(text)
    beside: dict[str, object] = {}
    if kind_of(trainer.values) == "between":
        beside, curricula, samplers = _held(trainer, curricula, samplers)
        if not has_flat_behaviors(trainer.values):
            return _between(trainer, beside, curricula, samplers, lesson, changes)
        beside.pop("behaviors")
        trainer, version = _unfolded(trainer), version or VERSIONS[-1]
        changes.add(f"taken as a file of 0.17, whose behaviours have the keys of {VERSIONS[-1]}")
    below, behaviors = sections(trainer)
    form = ("lone" if each_in_a_file else "joined") if curricula else ""
    release = release_of(trainer, below, behaviors, form, flags, version, changes)
    facts = Facts(trainer, release, agents or {}, demo, changes)
    for name in facts.agents:
        if name and name not in behaviors:
            raise ConfigError(f"--agents {name}: no behaviour is called like this{nearest(name, list(behaviors))}")
    found = {name: _behavior(facts, name, section) for name, section in behaviors.items()}
    default = _default(facts, below)
    trainer.check()
    _apply_flags(facts, flags, found if default is None else {**found, ALL: default})
    current = _assembled(default, found, changes) | beside
    others = default is not None
    if parameters := _parameters(curricula, samplers, lesson, list(found), others, trainer.source, changes):
        current["environment_parameters"] = parameters
    elif lesson:
        raise ConfigError(f"--lesson {lesson}: there are no lessons without --curriculum")
    return Converted(current, [*changes.lines(), *flags.changes], release)


# -- a behaviour -----------------------------------------------------------------------------------


def _default(facts: Facts, below: Section | None) -> dict[str, object] | None:
    """Gives ``default`` as today's section, None where there is none or it says no trainer."""
    if below is None or "trainer" not in below:
        if below:
            facts.changes.add("default has no trainer and cannot stand as default_settings; behaviours hold its keys")
        return None
    return _behavior(facts, "default", below)


def _behavior(facts: Facts, name: str, section: Section) -> dict[str, object]:
    """Gives a section as it is written today."""
    file, changes = facts.file, facts.changes
    if "trainer" not in section:
        file.wrong(name, ": trainer is missing, here and in default: write trainer: ppo, or sac")
        return {}
    given = section["trainer"]
    named = "online_bc" if given.value == IMITATION else given.value
    trainer = file.read(given.path, named, KEYS["trainer"].kind)
    if not isinstance(trainer, str):
        return {}
    new: dict[str, object] = {"trainer_type": "ppo" if trainer in CLONING else trainer}
    read: dict[str, object] = {}
    unread: list[str] = []
    for key, given in section.items():
        if key in SIGNALS_OF_OLD and "reward_signals" not in section:
            read[key] = file.read(given.path, given.value, SIGNALS_OF_OLD[key])
        elif key in UNREAD:
            changes.add(f"{key} is left out: {UNREAD[key]}", name)
        elif key not in KEYS:
            file.unknown(given.path.rpartition(".")[0], key, KEYS)
        elif key == "trainer":
            continue  # which has been read
        elif trainer not in KEYS[key].trainers:
            unread.append(key)
        elif facts.version not in KEYS[key].versions:
            changes.add(f"{key} is left out: {facts.version} did not read it", name)
        elif KEYS[key].kind != "section":
            read[key] = file.read(given.path, given.value, KEYS[key].kind)
    if unread:
        changes.add(f"left out, because {trainer} did not read them: {', '.join(unread)}", name)
    missing = [key for key, one in KEYS.items() if one.needed and trainer in one.trainers and key not in section]
    if missing and trainer not in CLONING and not SIGNALS_OF_OLD.keys() & read.keys():
        changes.add(
            f"not given, which these releases refused; today's defaults stand for them: {', '.join(missing)}", name
        )
    for key, value in read.items():
        if key in KEYS and KEYS[key].path and value is not None:
            _put(new, KEYS[key].path, _scaled(facts, name, key, value) if KEYS[key].steps else value)
    _memory(facts, name, trainer, read, new)
    if trainer in CLONING:
        _cloned(facts, name, trainer, section, read, new)
    else:
        _signals(facts, name, section, new)
        _signals_of_old(facts, name, read, new)
        _cloning_beside(facts, name, trainer, section, read, new)
        _self_play(facts, name, section, new)
    if trainer == "ppo":
        for key in SCHEDULES:
            _put(new, f"hyperparameters.{key}", "linear")
    elif trainer == "sac":
        _updates(facts, name, section, read, new)
    network = new.get("network_settings")
    if "behavioral_cloning" in new and isinstance(network, dict) and "memory" in network:
        changes.add(
            "behavioral_cloning stands beside a memory, which rookery mlagents learn refuses: take "
            "network_settings.memory out of the new file, or imitate by gail alone",
            name,
        )
    return {key: new[key] for key in ORDER if key in new}


def _put(tree: dict[str, object], path: str, value: object) -> None:
    *above, last = path.split(".")
    for key in above:
        inner = tree.setdefault(key, {})
        assert isinstance(inner, dict)
        tree = inner
    tree[last] = value


def _scaled(facts: Facts, name: str, key: str, value: object) -> object:
    """Gives a number of steps as today's files count them: decisions of agents."""
    if facts.version != "0.13" or not isinstance(value, int) or value == 0:
        return value
    agents = facts.agents_of(name)
    if agents is None:
        facts.changes.add(
            "max_steps, summary_freq and other counts of steps keep their numbers, which counted steps of an "
            "environment in 0.13 and count steps of agents today: training ends sooner, by the number of agents; "
            "--agents N multiplies them"
        )
        return value
    facts.changes.add(f"counts of steps are {agents} times the old ones, which counted steps of an environment", name)
    return value * agents


def _memory(facts: Facts, name: str, trainer: str, read: Mapping[str, object], new: dict[str, object]) -> None:
    if read.get("use_recurrent") is not True:
        return
    memory = {key: read[key] for key in ("sequence_length", "memory_size") if read.get(key) is not None}
    size = memory.get("memory_size")
    if isinstance(size, int) and facts.version in ("0.13", "0.14") and trainer not in CLONING:
        parts = 4 if trainer == "sac" else 2
        memory["memory_size"] = new_size = max(2, 2 * round(size / parts / 2))
        text = (
            f"memory_size {size} becomes {new_size}: before 0.15 it was divided among {parts} networks, today it is "
            "the actor's"
        )
        if trainer == "ppo":
            text += f"; only with discrete actions all of it was the actor's: write {size} there"
        facts.changes.add(text, name)
    _put(new, "network_settings.memory", memory)


def _updates(facts: Facts, name: str, section: Section, read: Mapping[str, object], new: dict[str, object]) -> None:
    """Writes how many steps of agents pass between two updates of SAC."""
    signals = section["reward_signals"] if "reward_signals" in section else Given({}, name)
    inner = signals.value if isinstance(signals.value, Mapping) else {}
    extra = {
        key: facts.file.read(f"{signals.path}.{key}", inner[key], "number") for key in SIGNAL_UPDATES if key in inner
    }
    if facts.version == "0.16":
        own = extra.get("reward_signal_steps_per_update", read.get("steps_per_update"))
        if own is not None:
            _put(new, f"hyperparameters.{SIGNAL_STEPS}", own)
        return
    agents, interval = facts.agents_of(name), read.get("train_interval", 1)
    number = read.get("num_update")
    own = extra.get("reward_signal_num_update", number)
    for key, updates in (("steps_per_update", number), (SIGNAL_STEPS, own)):
        if isinstance(updates, int | float) and isinstance(interval, int):
            if updates <= 0:
                facts.file.wrong(f"{name}.num_update", f": {updates} updates are none: must be 1 or more")
                continue
            _put(new, f"hyperparameters.{key}", float(interval * (agents or 1) / updates))
            text = f"{key} = train_interval ({interval}) x agents ({agents or 1}) / updates ({updates})"
            text += "" if agents else "; all agents were one step before: --agents N says how many"
            if key != SIGNAL_STEPS or own != number:
                facts.changes.add(text, name)


def _signals(facts: Facts, name: str, section: Section, new: dict[str, object]) -> None:
    if "reward_signals" not in section:
        return
    file, given = facts.file, section["reward_signals"]
    found: dict[str, object] = {}
    for signal, value in file.section(given.path, given.value).items():
        path = f"{given.path}.{signal}"
        if signal in SIGNAL_UPDATES:
            if facts.version not in SIGNAL_UPDATES[str(signal)] or new["trainer_type"] != "sac":
                facts.changes.add(
                    f"{signal} is left out: {new['trainer_type']} of {facts.version} did not read it", name
                )
        elif signal in SIGNALS:
            found[str(signal)] = _signal(facts, name, str(signal), path, file.section(path, value))
        else:
            file.unknown(given.path, signal, [*SIGNALS, *SIGNAL_UPDATES])
    new["reward_signals"] = found


def _signals_of_old(facts: Facts, name: str, read: Mapping[str, object], new: dict[str, object]) -> None:
    """Writes the rewards of a file of before 0.9, which had their keys beside all others."""
    if not SIGNALS_OF_OLD.keys() & read.keys():
        return
    gamma = read.get("gamma", 0.99)
    signals: dict[str, object] = {"extrinsic": {"strength": 1.0, "gamma": gamma}}
    if read.get("use_curiosity") is True:
        signals["curiosity"] = {
            "strength": read.get("curiosity_strength", 0.01),
            "gamma": gamma,
            "network_settings": {"hidden_units": read.get("curiosity_enc_size", 128)},
        }
    new["reward_signals"] = signals
    facts.changes.add("gamma and curiosity stood outside of reward_signals, as before 0.9; they are in it now", name)


def _signal(facts: Facts, name: str, signal: str, path: str, values: Mapping[Any, object]) -> dict[str, object]:
    file, kinds = facts.file, SIGNALS[signal]
    read: dict[str, object] = {}
    for key, value in values.items():
        if key in kinds:
            read[str(key)] = file.read(f"{path}.{key}", value, kinds[str(key)])
        else:
            file.unknown(path, key, kinds)
    if signal == "gail" and "demo_path" not in read:
        file.wrong(path, ": demo_path is missing: gail learns from a demonstration")
    units = read.pop("encoding_size", 64 if signal == "gail" else None)  # 64: what gail had where nothing was said
    if units is not None:
        read["network_settings"] = {"hidden_units": units}
        facts.changes.add(f"{signal}: encoding_size is now network_settings.hidden_units of the signal", name)
    return {key: value for key, value in read.items() if value is not None}


def _cloning_beside(
    facts: Facts, name: str, trainer: str, section: Section, read: Mapping[str, object], new: dict[str, object]
) -> None:
    """Writes cloning that goes on beside rewards."""
    keys = [key for key in ("behavioral_cloning", "pretraining") if key in section]
    if not keys:
        return
    given, file = section[keys[0]], facts.file
    if keys[0] == "pretraining":
        facts.changes.add("pretraining is called behavioral_cloning, as from 0.13 on", name)
    found: dict[str, object] = {}
    for key, value in file.section(given.path, given.value).items():
        path = f"{given.path}.{key}"
        if key in CLONING_KEYS:
            number = file.read(path, value, CLONING_KEYS[str(key)])
            found[str(key)] = _scaled(facts, name, str(key), number) if key == "steps" else number
        else:
            file.unknown(given.path, key, CLONING_KEYS)
    if "demo_path" not in found:
        file.wrong(given.path, ": demo_path is missing: a file of demonstrations")
    batch = found.get("batch_size", read.get("batch_size"))
    if trainer == "sac" and facts.version in ("0.13", "0.14") and batch is not None:
        found.setdefault("samples_per_update", batch)
        found.setdefault("num_epoch", 1)
    new["behavioral_cloning"] = found


def _cloned(
    facts: Facts, name: str, trainer: str, section: Section, read: Mapping[str, object], new: dict[str, object]
) -> None:
    """Writes a trainer that learned from a demonstration, or a player, alone."""
    demo = read.get("demo_path") if trainer == "offline_bc" else facts.demo
    if demo is None:
        player = f" {read['brain_to_imitate']!r}" if "brain_to_imitate" in read else ""
        missing = (
            f"{trainer} imitated the player{player}, which no trainer does today: record a demonstration of it "
            "(DemonstrationRecorder in Unity, or rookery replay record) and give --demo FILE"
            if trainer == "online_bc"
            else "demo_path is missing: a file of demonstrations"
        )
        facts.file.problems.append(f"{facts.file.place(section['trainer'].path)}: {name}: {missing}")
        return
    cloning: dict[str, object] = {"demo_path": demo, "strength": 1.0, "steps": 0}
    batch, batches = read.get("batch_size"), read.get("batches_per_epoch")
    if isinstance(batch, int):
        cloning["batch_size"] = batch
        if isinstance(batches, int):
            cloning["samples_per_update"] = batch * batches
    new["behavioral_cloning"] = cloning
    if isinstance(hyper := new.get("hyperparameters"), dict):
        hyper.pop("batch_size", None)
    for key in SCHEDULES:
        _put(new, f"hyperparameters.{key}", "linear")
    facts.changes.add(
        f"{trainer} becomes ppo with behavioral_cloning, which learns from rewards too; what learns from a "
        f"demonstration alone, without an environment: {CLONE}",
        name,
    )


def _self_play(facts: Facts, name: str, section: Section, new: dict[str, object]) -> None:
    if "self_play" not in section or facts.version == "0.13":
        return
    file, given = facts.file, section["self_play"]
    found: dict[str, object] = {}
    for key, value in file.section(given.path, given.value).items():
        if key not in SELF_PLAY:
            file.unknown(given.path, key, SELF_PLAY)
            continue
        today = "play_against_latest_model_ratio" if key == "play_against_current_self_ratio" else str(key)
        if today != key:
            facts.changes.add(f"self_play: {key} is now called {today}", name)
        found[today] = file.read(f"{given.path}.{key}", value, SELF_PLAY[str(key)])
    if "swap_steps" not in found:
        found["swap_steps"] = 20000
        facts.changes.add("self_play: swap_steps 20000 is written down, which was the default; today's is 2000", name)
    if "team_change" not in found and facts.version == "0.16" and found.get("save_steps", 20000) != 20000:
        found["team_change"] = 100000
        facts.changes.add("self_play: team_change 100000 is written down, which was the default", name)
    new["self_play"] = found


# -- the whole -------------------------------------------------------------------------------------


def _apply_flags(facts: Facts, flags: FlagsRead, behaviors: Mapping[str, dict[str, object]]) -> None:
    """Writes what flags said of all behaviours, defaults among them under `ALL`; says what their absence meant."""
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


def _assembled(
    default: dict[str, object] | None, behaviors: Mapping[str, dict[str, object]], changes: Changes
) -> dict[str, object]:
    """Puts behaviours together, over ``default_settings`` if all of them can be said as what differs from it."""
    every = [*behaviors.values(), *([default] if default is not None else [])]
    hypers = [hyper for one in every if isinstance(hyper := one.get("hyperparameters"), dict)]
    if len({(hyper[SIGNAL_STEPS], hyper.get("steps_per_update")) for hyper in hypers if SIGNAL_STEPS in hyper}) == 1:
        for hyper in hypers:
            if hyper.get(SIGNAL_STEPS) == hyper.get("steps_per_update"):
                hyper.pop(SIGNAL_STEPS, None)
    if not any(hyper.get("learning_rate_schedule") == "constant" and SCHEDULES[0] in hyper for hyper in hypers):
        for hyper in hypers:
            for key in SCHEDULES:
                hyper.pop(key, None)
    else:
        changes.add(
            "beta_schedule and epsilon_schedule are written down: these releases kept both linear; today's follow "
            "learning_rate_schedule"
        )
    ordered = [_ordered(one) for one in every]
    if default is None:
        return {"behaviors": dict(zip(behaviors, ordered, strict=True))}
    whole = ordered[-1]
    parts = {name: _over_default(whole, one) for name, one in zip(behaviors, ordered, strict=False)}
    if any(part is None for part in parts.values()):
        apart = listed([name for name, part in parts.items() if part is None])
        changes.add(
            f"default is written into each behaviour and not as default_settings, because {apart} had less than it, "
            "which default_settings cannot say; a behaviour that this file does not name needs a section"
        )
        return {"behaviors": dict(zip(behaviors, ordered, strict=False))}
    found: dict[str, object] = {"default_settings": whole}
    if parts:
        found["behaviors"] = {
            name: {"trainer_type": whole["trainer_type"], **(part or {})} for name, part in parts.items()
        }
    return found


def _over_default(default: Mapping[str, object], behavior: Mapping[str, object]) -> dict[str, object] | None:
    """Gives what a behaviour says over ``default_settings``, which ML-Agents fills up with its defaults first."""
    if default["trainer_type"] != behavior["trainer_type"]:
        return None
    if "reward_signals" in behavior and "reward_signals" not in default:
        default = {**default, "reward_signals": {"extrinsic": {}}}
    return over(default, behavior)


def _ordered(behavior: dict[str, object]) -> dict[str, object]:
    return {key: behavior[key] for key in ORDER if key in behavior and behavior[key] != {}}


def over(below: Mapping[str, object], whole: Mapping[str, object]) -> dict[str, object] | None:
    """Gives what has to be laid over `below`, section by section, to get `whole`; None if nothing does."""
    found: dict[str, object] = {}
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


# -- parameters of the environment -----------------------------------------------------------------


def _parameters(
    curricula: Sequence[OldCurriculum],
    samplers: OldSamplers | None,
    lesson: int,
    named: list[str],
    others: bool,
    source: str,
    changes: Changes,
) -> dict[str, object]:
    """Gives ``environment_parameters``.

    Args:
        curricula: Curricula.
        samplers: Samplers.
        lesson: The lesson to begin with.
        named: Behaviours that have a section.
        others: Whether there may be others, because the file has ``default``.
        source: Name of the file they stand in.
        changes: What is said so far.
    """
    if lesson < 0:
        raise ConfigError(f"--lesson {lesson}: must be 0 or more; lessons are counted from 0")
    found: dict[str, object] = {}
    for one in curricula:
        if not others and one.behavior not in named:
            raise ConfigError(
                f"{one.place}: curriculum of {one.behavior!r}: {source} has no such behaviour and no default"
                f"{nearest(one.behavior, named)}"
            )
        if one.behavior not in named:
            near = nearest(one.behavior, named)
            changes.add(f"{one.place}: {source} has default but no section for the behaviour of this curriculum{near}",
                        one.behavior)  # fmt: skip
        start = min(lesson, len(one.thresholds))
        if lesson > start:
            changes.add(f"--lesson {lesson} is the last one, {start}, of this curriculum", one.behavior)
        elif start:
            changes.add(f"lessons before {start} are left out, as --lesson said", one.behavior)
        for parameter, values in one.parameters.items():
            if parameter in found:
                changes.add(f"{parameter} has several curricula, which was undefined: that of {one.behavior} stands")
            found[parameter] = _lessons(one, values, start)
    if curricula:
        changes.add(
            "require_reset: true stands in each lesson, because a new lesson broke all episodes off; without it, "
            "episodes go to their end with the values they began with"
        )
    if samplers is not None:
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
    """Gives the lessons of a parameter; a number if only the last is left."""
    if start == len(curriculum.thresholds):
        return values[-1]
    found: list[dict[str, object]] = []
    for number in range(start, len(values)):
        one: dict[str, object] = {"name": f"Lesson{number}"}
        if number < len(curriculum.thresholds):
            one["completion_criteria"] = {
                "measure": curriculum.measure,
                "behavior": curriculum.behavior,
                "signal_smoothing": curriculum.signal_smoothing,
                "min_lesson_length": curriculum.min_lesson_length,
                "threshold": curriculum.thresholds[number],
                "require_reset": True,
            }
        found.append({**one, "value": values[number]})
    return {"curriculum": found}


def _held(
    file: OldFile, curricula: Sequence[OldCurriculum], samplers: OldSamplers | None
) -> tuple[dict[str, object], Sequence[OldCurriculum], OldSamplers | None]:
    """Takes curricula and samplers out of a file of 0.17 or 0.18; gives what is left, and them.

    Raises:
        ConfigError: If it holds some and others are given beside it, or one is not right.
    """
    values = {str(key): value for key, value in file.values.items()}
    lessons, drawn = values.pop("curriculum", None), values.pop("parameter_randomization", None)
    if (lessons and curricula) or (drawn and samplers):
        raise ConfigError(f"{file.source}: holds curricula or samplers itself: give no file of them beside it")
    if lessons:
        curricula = curricula_of(file, file.section("curriculum", lessons), "curriculum.")
    if drawn:
        samplers = samplers_of(file, file.section("parameter_randomization", drawn), "parameter_randomization.")
    file.check()
    return values, curricula, samplers


def _unfolded(file: OldFile) -> OldFile:
    """Gives the behaviours of a file of 0.17 as the trainer configuration that 0.16 had."""
    above = "behaviors."
    lines = {path.removeprefix(above): place for path, place in file.lines.items() if path.startswith(above)}
    values = file.section("behaviors", file.values["behaviors"])
    return OldFile(file.source, values, lines, file.problems, file.notes, file.path)


def _between(
    file: OldFile,
    values: Mapping[str, object],
    curricula: Sequence[OldCurriculum],
    samplers: OldSamplers | None,
    lesson: int,
    changes: Changes,
) -> Converted:
    """Gives a file of 0.17 or 0.18 as one of today: behaviours stay, curricula and samplers are written anew."""
    behaviors = values.get("behaviors")
    known = [str(name) for name in behaviors] if isinstance(behaviors, Mapping) else []
    changes.add(
        "taken as a file of 0.17 or 0.18: behaviours stay as they are; curriculum and parameter_randomization are now "
        "environment_parameters"
    )
    current = dict(values)
    current["environment_parameters"] = _parameters(
        curricula, samplers, lesson, known, "default_settings" in values, file.source, changes
    )
    return Converted(current, changes.lines(), "0.18")


# -- as text ---------------------------------------------------------------------------------------


def text_of(current: Mapping[str, object], comment: str = "") -> str:
    """Gives a file of today as YAML, in a form that readers of YAML 1.1 and 1.2 take alike.

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
    """Gives a number as YAML 1.1 reads it: ``1.0e-05``, with a point and a sign."""
    text = repr(value)
    return text if "." in text or "e" not in text else text.replace("e", ".0e")


def _misread(text: str) -> bool:
    """Says whether YAML 1.1 would read a text without quotes as something else."""
    number = r"[-+]?(0[xob])?[\d_.,:]+(e[-+]?\d+)?|\d{4}-\d\d?-\d\d?.*"
    return text.lower() in (*SPOKEN, "y", "n", "null", "~", "") or re.fullmatch(number, text, re.I) is not None


def said(converted: Converted, source: str | Path) -> str:
    """Gives the first line of a file that was made of another."""
    return f"Made by rookery mlagents convert from {Path(source).name}, read as a file of ML-Agents {converted.version}"
