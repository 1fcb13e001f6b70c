"""Finds the replay buffers that a command names, and checks and writes replay directories."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.cli.runs import find_run
from rookery.core.errors import ConfigError

if TYPE_CHECKING:
    from rookery.replay.segments import StoredReplay


def sources(words: Sequence[str]) -> list[StoredReplay]:
    """Returns the named replay buffers; a path without a policy means all of them."""
    from rookery.core.io.files import beside, split_name
    from rookery.core.io.leftovers import restore
    from rookery.replay.segments import find_replay, stored_replays

    found: list[StoredReplay] = []
    for word in words:
        place, policy = split_name(word)
        if not restore(place):
            try:
                place = find_run(place)
            except ConfigError:
                if hint := beside(place):
                    raise ConfigError(f"{place}: there is no such run or replay directory{hint}") from None
                raise
        found += [find_replay(f"{place}:{policy}")] if policy else stored_replays(place).values()
    return found


def check_free(out: Path, force: bool) -> None:
    """Checks that a directory can be written.

    Raises:
        ConfigError: If it exists and may not be replaced.
    """
    from rookery.core.io.files import FileError
    from rookery.core.io.leftovers import restore
    from rookery.replay.segments import stored_replays

    if not restore(out):
        return
    if not force:
        raise ConfigError(f"--output {out}: the directory exists; add --force to replace it, or give another name")
    try:
        is_replay = out.is_dir() and bool(stored_replays(out)) and not (out / "state.json").exists()
    except FileError:
        is_replay = False
    if not is_replay or not (out / "manifest.json").is_file():
        raise ConfigError(f"--force: {out} is not a directory of replay buffers, so it is not replaced; give another")


def write(out: Path, files: dict[str, Any], facts: dict[str, Any]) -> None:
    """Writes a replay directory, or replaces one that `check_free` has accepted."""
    from rookery.core.io.files import make_folder, write_directory

    make_folder(out.parent)
    write_directory(out, files, facts, replace=True)
