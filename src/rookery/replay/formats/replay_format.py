"""`ReplayFormat`: a format of files that replay is read from and written to. The table is `REPLAY_FORMATS` of
`core/plugins.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rookery.replay.formats.columns import Wanted
from rookery.replay.recording import EpisodeSource, Recording, recording_of
from rookery.replay.segments import StoredReplay

Write = Callable[[StoredReplay, Any, str, Callable[[int], object]], None]
"""Writes a replay buffer: ``write(stored, place, name, advance)``, where name is that of the behaviour, and
``advance(n)`` is called for n numbers more that are written.
"""


@dataclass(frozen=True)
class ReplayFormat:
    """A format of files.

    Attributes:
        read: Reads a file or a directory of files: ``read(place, wanted)`` returns the episodes of each policy by name.
            The place is a `Path`, or what stands behind `prefix`.
        write: Writes a file; None if the format is read alone.
        suffixes: Ends of the names of its files, ``.csv``.
        prefix: Beginning of the names of data sets that are no files, ``minari:``; empty for files.
        read_only: Says that files are read and not written, and what to use instead.
    """

    read: Callable[[Any, Wanted], Mapping[str, EpisodeSource]]
    write: Write | None
    suffixes: tuple[str, ...] = ()
    prefix: str = ""
    read_only: str = "files of this format are read and not written"


def of_recording(write: Callable[[Recording, Any], None]) -> Write:
    """Returns what writes a replay buffer by a function that takes its episodes and a place."""

    def write_stored(stored: StoredReplay, place: Any, name: str, advance: Callable[[int], object]) -> None:
        write(recording_of(stored), place)

    return write_stored
