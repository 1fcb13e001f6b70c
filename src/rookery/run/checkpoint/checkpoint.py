"""Checkpoints: everything that a run needs to resume exactly, in one directory that is written atomically.

checkpoints/000012/
  state.json, arrays.safetensors         state of every object of the trainer (`core/state.py`)
  policies.json, policies.safetensors    each policy by itself, for `load_policy`
  config.json                            every setting and its source
  memory-main-000000000000.safetensors   replay of a policy (`replay/segments.py`), shared by many checkpoints
  manifest.json                          sizes and hashes of the files; facts about the run at this time
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rookery.core.config import DEFAULT, Resolved, current_history
from rookery.core.errors import ConfigError
from rookery.core.io.encoding import EncodingError, decode, encode
from rookery.core.io.files import (
    BEST,
    FOLDER,
    Content,
    FileError,
    Linked,
    best_name,
    checkpoint_number,
    is_own,
    list_checkpoints,
    mapped_files,
    read_checkpoint_files,
    read_manifest,
    remove_directory,
    with_last_good,
    write_directory,
    write_file,
)
from rookery.core.io.json_text import parse_json
from rookery.core.schedules import Schedule, write_schedule
from rookery.core.settings.fields import Fixed, object_name
from rookery.core.settings.layers import Layer, import_object, nested, writable
from rookery.core.settings.script_objects import PREFIX, ScriptRecord
from rookery.core.settings.secrets import NOT_STORED, Secret
from rookery.core.settings.starting_folder import shown
from rookery.core.settings.trust import OBJECT
from rookery.envs.base import VectorEnv
from rookery.envs.choice import MEASURED
from rookery.envs.placeholder_env import PlaceholderEnv
from rookery.envs.vector.specs import register_again
from rookery.report.metrics_file import sync_rows
from rookery.run.checkpoint.earlier_settings import kept_defaults, note_of
from rookery.run.checkpoint.path_folders import folders_of
from rookery.run.checkpoint.script_file import script_record, with_classes
from rookery.run.settings import RunConfig

FORMAT = 2
"""Version of the files of a checkpoint; format 1, which has no versions in states, is read as well.

States of objects in these files have versions of their own (`core/state.py`)."""

ENV = ("env.name", "env.wrappers")

CALL = "~call"
"""Key of the arguments of a `functools.partial` in saved settings, which are read in the user's own checkpoints."""


@dataclass(frozen=True)
class Saved:
    """Contents of a checkpoint.

    Attributes:
        path: The directory of the checkpoint.
        state: The trainer's state.
        values: Settings of the resumed run by path; classes and functions as their import paths.
        missing: Paths of settings that could not be written, with their values as text: they must be given again.
        history: Every value of each setting, with its source; objects as their names.
        facts: The manifest.
        memories: Files of replay by name, not read yet.
        notes: Lines to show when it is loaded.
        folders: Folders that the relative paths of settings refer to, by path of the setting; read if the checkpoint
            is the user's own.
        script: The script that defines classes and functions among the settings, or registers the environment; read
            if the checkpoint is the user's own, else None.
        in_script: The missing settings that it defines, with names of its classes and functions, or that contain a
            `functools.partial`; empty if the checkpoint is of another user.
    """

    path: Path
    state: dict[str, Any]
    values: dict[str, Any]
    missing: dict[str, str]
    history: dict[str, list[tuple[str, Any]]]
    facts: dict[str, Any]
    memories: dict[str, Linked]
    notes: tuple[str, ...] = ()
    folders: Mapping[str, str] = field(default_factory=dict)
    script: ScriptRecord | None = None
    in_script: Mapping[str, Any] = field(default_factory=dict)

    @property
    def env_name(self) -> Any:
        """Name of the environment, or its class or function as written in the file; None if it has none."""
        return self.values.get("env.name", self.in_script.get("env.name"))

    def find(self, name: str) -> Any:
        """Returns the class or function of an import path, which may be one of the script.

        Raises:
            ConfigError: If there is none.
        """
        if self.script is not None and name.startswith(PREFIX):
            return self.script.find(name)
        return import_object(name)


def config_file(resolved: Resolved[RunConfig], seed: int) -> bytes:
    """Returns the settings as JSON: values for a resumed run, settings that could not be written, and the history.

    The values leave out those that a policy has from the section `algorithm`, so that it follows changes there, and
    those that are read once, from files that may be gone later.

    Args:
        resolved: The settings of the run.
        seed: The seed of the run.
    """
    values: dict[str, Any] = {}
    missing: dict[str, str] = {}
    in_script: dict[str, Any] = {}
    script = script_record(resolved)
    for path, given in resolved.history.items():
        if path in resolved.inherited or resolved.why_fixed(path) is Fixed.AT_START:
            continue
        try:
            values[path] = _plain(given[-1][1])
        except EncodingError:
            missing[path] = repr(given[-1][1])
            with suppress(EncodingError):
                in_script[path] = _plain(given[-1][1], calls=True, of_script=script is not None)
    values["seed"] = seed
    history = {path: [[source, writable(value)] for source, value in given] for path, given in resolved.history.items()}
    facts = {"values": values, "missing": missing, "history": history, "folders": folders_of(resolved)}
    if script is not None:
        facts["script"] = {**script.facts(), "values": in_script}
    elif in_script:
        facts["own"] = in_script
    return json.dumps(facts, indent=1).encode()


def _plain(value: Any, calls: bool = False, of_script: bool = False) -> Any:
    """Returns a value of a setting for JSON; classes and functions as their import paths.

    Args:
        value: The value.
        calls: Whether it may contain a `functools.partial`, which only the user's own checkpoints may call.
        of_script: Whether classes and functions may be those of the running script.

    Raises:
        EncodingError: If it cannot be found again by name.
    """
    if isinstance(value, Schedule):
        return write_schedule(value)
    if isinstance(value, Secret):
        return NOT_STORED
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item, calls, of_script) for item in value]
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) and key != OBJECT for key in value):
            raise EncodingError(f"{value!r} has keys that are not texts")
        return {key: _plain(item, calls, of_script) for key, item in value.items()}
    if calls and isinstance(value, partial):
        call = [_plain(item, calls, of_script) for item in (value.args, value.keywords)]
        return {**_plain(value.func, calls, of_script), CALL: call}
    name = object_name(value)
    if not name or "<" in name or (name.startswith(PREFIX) and not of_script):
        raise EncodingError(f"{value!r} cannot be found again by name")
    return {OBJECT: name}


def _read(value: Any, find: Callable[[str], Any], calls: bool = False) -> Any:
    """Inverts `_plain`, with `find` for the import paths of classes and functions."""
    if isinstance(value, list):
        return [_read(item, find, calls) for item in value]
    if not isinstance(value, dict):
        return value
    if OBJECT not in value:
        return {key: _read(item, find, calls) for key, item in value.items()}
    found = find(value[OBJECT])
    if not (calls and CALL in value and callable(found)):
        return found
    arguments, keywords = _read(value[CALL], find, calls)
    return partial(found, *arguments, **keywords)


def write_checkpoint(path: Path, state: dict[str, Any], extra: Mapping[str, Content], facts: Mapping[str, Any]) -> None:
    """Writes a checkpoint.

    Args:
        path: The directory to write; must not exist.
        state: The trainer's state.
        extra: More files by name.
        facts: Facts about the run for the manifest.

    Raises:
        FileError: If it cannot be written.
        EncodingError: If the state holds anything but plain values and arrays.
    """
    if path.parent.name == FOLDER:  # a power cut must not lose rows that the checkpoint counts
        sync_rows(path.parent.parent)
    structure, arrays = encode(state)
    files = {"state.json": json.dumps(structure).encode(), "arrays.safetensors": arrays, **extra}
    write_directory(path, files, {"format": FORMAT, **facts})


def read_checkpoint(path: Path) -> Saved:
    """Reads a checkpoint, or the last one of a run, and verifies the hashes of its files.

    Raises:
        FileError: If there is none, or it is broken, foreign or of a newer format; names the last good one.
    """
    place, files, facts = read_checkpoint_files(path)
    try:
        lost = {"state.json", "arrays.safetensors", "config.json"} - files.keys()
        if lost:
            raise FileError(f"{place}: not a checkpoint of Rookery: it has no {', '.join(sorted(lost))}")
        if facts.get("format") not in range(1, FORMAT + 1):
            raise FileError(
                f"{place}: has format {facts.get('format')}, which this version of Rookery cannot read "
                f"(up to {FORMAT}); a newer one wrote it"
            )
        state = decode(parse_json(files["state.json"]), files["arrays.safetensors"])
        config = parse_json(files["config.json"])
        history = {path: [(source, value) for source, value in given] for path, given in config["history"].items()}
        kept = {path: value for path, value in kept_defaults(history).items() if path not in config["values"]}
        values, notes = config["values"] | kept, note_of(kept, history)
        folders = dict(config.get("folders", {})) if is_own(facts) else {}
        script, in_script = None, {}
        if "script" in config and is_own(facts):
            script, in_script = ScriptRecord.read(config["script"]), config["script"]["values"]
            notes += [script.note] if script.note else []
        elif is_own(facts):
            in_script = config.get("own", {})
        memories = mapped_files(place, facts)
        return Saved(
            place, state, values, config["missing"], history, facts, memories, tuple(notes), folders, script, in_script
        )
    except (FileError, EncodingError) as error:
        raise with_last_good(error, place) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise with_last_good(FileError(f"{place}: incomplete: {type(error).__name__}: {error}"), place) from None


def next_name(folder: Path, iteration: int) -> str:
    """Returns the name of a checkpoint after `iteration`; a further one after the same iteration ends in a number."""
    taken = {path.name for path in list_checkpoints(folder)}
    name, number = f"{iteration:06d}", 0
    while name in taken:
        number += 1
        name = f"{iteration:06d}-{number}"
    return name


def note_best(folder: Path, name: str, score: float | None) -> bool:
    """Marks a checkpoint as the best if its score exceeds the best so far; returns whether it does."""
    if score is None:
        return False
    best = best_name(folder)
    if best is not None:
        held = parse_json((folder / BEST).read_text(encoding="utf-8")).get("score")
        if held is not None and held >= score:
            return False
    write_file(folder / BEST, json.dumps({"name": name, "score": score}).encode())
    return True


def tidy(folder: Path, keep_last: int) -> None:
    """Removes checkpoints that are neither among the last, nor the best, nor pinned; called after each write.

    None is removed if it cannot be read which is the best.
    """
    found, best = list_checkpoints(folder), best_name(folder)
    if best is None and (folder / BEST).exists():
        return
    kept = {path.name for path in found[-keep_last:]} | {best}
    for path in found[:-keep_last]:
        try:
            pinned = bool(read_manifest(path).get("pinned"))
        except FileError:
            pinned = False
        if path.name not in kept and not pinned:
            remove_directory(path)
    remove_orphan_shards(folder)


def shard_of(path: Path, rank: int) -> Path:
    """Returns the path of the shard of a checkpoint of a rank other than 0."""
    return path.with_name(f"{path.name}.rank{rank}")


def remove_orphan_shards(folder: Path) -> None:
    """Removes shards whose checkpoint was removed or never completed."""
    for path in folder.glob("*.rank*"):
        name, _, rank = path.name.rpartition(".rank")
        if rank.isdigit() and checkpoint_number(name) and not (folder / name).is_dir():
            remove_directory(path)


def joined_history(saved: Saved, resolved: Resolved[RunConfig]) -> dict[str, list[tuple[str, Any]]]:
    """Returns the history of each setting: its stored history, followed by the values since the run was loaded."""
    joined = dict(resolved.history)
    sections = {path[:dot] for path in joined for dot in range(len(path)) if path[dot] == "."}
    for path, before in current_history(resolved.config, saved.history).items():
        if path in sections:  # a section that was empty, such as the arguments of an environment
            continue
        now = joined.get(path, [])
        saved_at = max((at for at, (source, _) in enumerate(now) if source.startswith(str(saved.path))), default=-1)
        joined[path] = [*before, *(entry for entry in now[saved_at + 1 :] if entry[0] != DEFAULT)]
        if now and resolved.why_fixed(path) is not Fixed.AT_START:
            # uses the object itself, not its name
            joined[path][-1] = (joined[path][-1][0], now[-1][1])
    return joined


def run_of(path: Path) -> Path:
    """Returns the directory of a run from its own path or from the path of one of its checkpoints.

    Raises:
        ConfigError: If the path is neither.
    """
    if (path / FOLDER).is_dir():
        return path
    if path.parent.name == FOLDER and checkpoint_number(path.name):
        return path.parent.parent
    raise ConfigError(
        f"resume: {shown(path)} is neither the directory of a run nor one of its checkpoints; leave resume out to "
        "continue without a run directory"
    )


def delete_later_checkpoints(place: Path) -> None:
    """Deletes checkpoints newer than the one being resumed."""
    folder = place.parent
    found = list_checkpoints(folder)
    kept, later = found[: found.index(place) + 1], found[found.index(place) + 1 :]
    if best_name(folder) in {path.name for path in later}:  # a worse checkpoint may get its name
        (folder / BEST).unlink()
        for path in kept:
            with suppress(FileError):
                note_best(folder, path.name, read_manifest(path).get("score"))
    for path in later:
        remove_directory(path)
    remove_orphan_shards(folder)


def layer_to_load(saved: Saved, given: Collection[str], play: bool | VectorEnv) -> Layer:
    """Returns the saved settings as a layer, with classes and functions in place of their import paths; measured
    values keep their source.

    Args:
        saved: The checkpoint.
        given: Paths that the caller sets.
        play: Import the environment; else its name and wrappers stay names, which need not exist here.

    Raises:
        ConfigError: If objects made in code cannot be found by name and are not given; names each of them.
    """
    values: dict[str, Any] = {}
    lost = {path: f"{path} was {text}" for path, text in saved.missing.items()}
    for path, value in {**saved.values, **saved.in_script}.items():
        if path in given and path in lost:
            continue
        try:
            if path == "env.name" and isinstance(value, str) and saved.script is not None and play:
                register_again(saved.script, value)
            is_used = bool(play) or path not in ENV
            value = with_classes(value, saved.script, path) if is_used else value
            values[path] = _read(value, saved.find if is_used else lambda name: name, path in saved.in_script)
            lost.pop(path, None)
        except ConfigError as error:
            lost[path] = f"{path} was {error}"
    wanted = {
        path: text
        for path, text in lost.items()
        if not any(path == known or path.startswith(f"{known}.") for known in given)
    }
    if wanted:
        again = ", ".join(map(argument_at, wanted))
        raise ConfigError(
            f"{shown(saved.path)}: these were made in code and cannot be found by name; give them again, as in "
            f"Trainer.load(..., {again}): {'; '.join(wanted.values())}"
        )
    measured = [path for path, history in saved.history.items() if history[-1][0] == MEASURED]
    lines = dict.fromkeys(measured, f"{saved.path}: {MEASURED}")
    return Layer(str(saved.path), values, lines, stored_folders=saved.folders, stored=True)


def argument_at(path: str) -> str:
    """Returns the argument of `Trainer.load` that gives a setting again."""
    known = {"env.name": "env=MyEnv", "env.wrappers": "wrappers=[...]", "policy_mapping": "policy_mapping=..."}
    return known.get(path) or f"config={{{path!r}: ...}}"


def stand_in_of(saved: Saved, play: bool | VectorEnv, layers: Iterable[Layer]) -> VectorEnv | None:
    """Returns the placeholder for the environment of a checkpoint if nothing is sampled, or existing vectorized
    environments; None if environments must be created.

    Args:
        saved: The checkpoint.
        play: Whether the loaded run samples, or existing vectorized environments.
        layers: Settings over those of the checkpoint.

    Raises:
        ConfigError: If the checkpoint does not describe its environment.
    """
    if not isinstance(play, bool):
        return play
    env_values = [nested(layer.values).get("env", {}) for layer in layers]
    named = [values.get("name") if isinstance(values, Mapping) else values.name for values in env_values]
    if play and any(name is not None for name in [saved.env_name, *named]):
        return None
    if "env" not in saved.facts:
        raise ConfigError(f"{shown(saved.path)}: this checkpoint does not describe its environment; use play=True")
    return PlaceholderEnv(saved.facts["env"])
