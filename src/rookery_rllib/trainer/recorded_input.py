"""The key ``input`` of MARWIL, BC and CQL: recorded experience, as replay that a trainer starts from."""

from __future__ import annotations

import glob
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rookery.face import ConfigError, Spaces, Wanted, action_spec, obs_spec, read_recordings, show, write_recordings
from rookery_rllib.base.notices import say_once
from rookery_rllib.base.registrations import registered_input
from rookery_rllib.batch.offline import InputReader, IOContext, JsonReader, JsonWriter
from rookery_rllib.config.algorithms import DEFAULT_POLICY_ID

ROWS = 20_000
"""Rows that are read from a reader of a script, which has no end."""


def replay_of(config: Mapping[str, Any], folder: str, spaces: tuple[Any, Any]) -> tuple[str, list[str]]:
    """Converts the key ``input`` to replay; returns its directory, and the files that were read.

    Args:
        config: The configuration, with ``input``: files, a directory, a pattern, a list of them, a dict of them with
            weights, a registered name, or a function of an `IOContext` that returns an `InputReader`.
        folder: Directory of results; empty = a temporary one.
        spaces: Observation and action space of the environment.

    Raises:
        ConfigError: If it is something else, or ``sampler``.
        FileError: If there are no files, or one cannot be read.
    """
    place = Path(folder or tempfile.mkdtemp(prefix="rookery-")).absolute()
    files = files_of(config, place)
    wanted = Wanted(
        Spaces(obs_spec(spaces[0], spaces[1]), action_spec(spaces[1]), 0),
        policy=DEFAULT_POLICY_ID,
        cut_at_jumps=True,
        clip_actions=True,
    )
    recordings = read_recordings(files, wanted, "rllib")
    if set(recordings) != {DEFAULT_POLICY_ID}:
        raise ConfigError(
            f"rllib config: input: the files have the policies {', '.join(recordings)}; data of one policy are learned "
            "from here, and of several by rookery replay import and rookery train"
        )
    write_recordings(place / "replay", recordings, replace=True, written=None, imported=files)
    return str(place / "replay"), files


def files_of(config: Mapping[str, Any], place: Path) -> list[str]:
    """Returns the files of the key ``input``; those of a script's reader are written to `place`."""
    source = config["input"]
    known = registered_input(source) if isinstance(source, str) else None
    if known is not None or callable(source):
        worker = SimpleNamespace(num_workers=0, worker_index=0, env=None)
        made = known or source
        reader = made(IOContext(str(place), config, 0, worker))
        if isinstance(reader, JsonReader):
            return reader.files
        return written(reader, place)
    if isinstance(source, Mapping):
        say_once("input: all files of the dict are learned from, each row with the same probability")
        source = list(source)
    if isinstance(source, str):
        source = [source]
    if not isinstance(source, Sequence) or not all(isinstance(each, str) for each in source) or "sampler" in source:
        raise ConfigError(
            f"rllib config: input = {show(config['input'])}: this algorithm learns from recorded experience: name the "
            "directory that 'output' wrote, a file, a pattern, a list of files, or a function that returns an "
            "InputReader"
        )
    found: list[str] = []
    for each in source:
        path = Path(each).expanduser().absolute()
        found += sorted(glob.glob(str(path / "*.json" if path.is_dir() else path))) or [str(path)]
    return found


def written(reader: Any, place: Path) -> list[str]:
    """Writes `ROWS` rows of a script's reader to a file, and returns its path.

    Raises:
        ConfigError: If the object is not a reader.
    """
    if not isinstance(reader, InputReader):
        raise ConfigError(
            f"rllib config: input: the function returned {type(reader).__name__}, expected an InputReader or, for "
            "clients, a PolicyServerInput"
        )
    say_once(f"input: {ROWS:,} rows of {type(reader).__name__} are read at the start, and learned from")
    folder = place / "input"
    writer = JsonWriter(str(folder), compress_columns=())
    rows = 0
    while rows < ROWS:
        batch = reader.next()
        writer.write(batch)
        rows += batch.count
    return sorted(map(str, folder.glob("*.json")))
