"""`ReplayFormat`: a file format for import and export of replay. The table is `REPLAY_FORMATS` of `core/plugins.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rookery.replay.formats.columns import Wanted
from rookery.replay.recording import EpisodeSource, Recording, recording_of
from rookery.replay.segments import StoredReplay

Write = Callable[[StoredReplay, Any, str, Callable[[int], object]], None]
"""Writes a replay buffer: ``write(stored, place, name, advance)``, with the name of the behaviour; it calls
``advance(n)`` after writing n values.
"""


@dataclass(frozen=True)
class ReplayFormat:
    """A file format.

    Attributes:
        read: Reads a file or a directory of files: ``read(place, wanted)`` returns the episodes of each policy by name.
            The place is a `Path`, or the text after `prefix`.
        write: Writes a file; None if the format is read-only.
        suffixes: Suffixes of its files, such as ``.csv``.
        prefix: Prefix of the names of data sets that are not files, ``minari:``; empty for files.
        read_only: Message that files are not written, with an alternative.
    """

    read: Callable[[Any, Wanted], Mapping[str, EpisodeSource]]
    write: Write | None
    suffixes: tuple[str, ...] = ()
    prefix: str = ""
    read_only: str = "files of this format are read and not written"


def of_recording(write: Callable[[Recording, Any], None]) -> Write:
    """Returns a `Write` from a function that takes a recording and a place."""

    def write_stored(stored: StoredReplay, place: Any, name: str, advance: Callable[[int], object]) -> None:
        write(recording_of(stored), place)

    return write_stored
