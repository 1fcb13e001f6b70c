"""Files of recorded sessions: all messages between a player and a trainer, with times.

After a first line that names the format, each message has the seconds since the start, its speaker, its length and its
bytes, as ``<dBI`` of `struct` and the content.
"""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from rookery.face import FileError, WriteError

FIRST_LINE = b"rookery: session of a Unity player, 1\n"

HEAD = struct.Struct("<dBI")

Speaker = Literal["player", "trainer", "nobody"]
SPEAKERS: tuple[Speaker, ...] = ("player", "trainer", "nobody")
"""Senders in the order of their numbers; `nobody` for a broken connection."""


@dataclass(frozen=True)
class SessionMessage:
    """A message of a session.

    Attributes:
        seconds: Since the start of the file.
        speaker: Its sender.
        content: Its bytes; the reason, in letters, where a line broke.
    """

    seconds: float
    speaker: Speaker
    content: bytes


class SessionWriter:
    """Writes messages to a file as they arrive, so that the file is valid after a crash.

    Args:
        path: The file; one that is there is replaced.

    Raises:
        FileError: If it cannot be written.
    """

    def __init__(self, path: str | Path) -> None:
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            self._file: BinaryIO = Path(path).open("wb", buffering=0)  # noqa: SIM115 (open as long as the session)
        except OSError as error:
            raise WriteError(f"{path}: cannot be written: {error.strerror or error}") from None
        self._start = time.perf_counter()
        self._file.write(FIRST_LINE)

    def write(self, speaker: Speaker, content: bytes) -> None:
        """Adds a message."""
        head = HEAD.pack(time.perf_counter() - self._start, SPEAKERS.index(speaker), len(content))
        self._file.write(head + content)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def read_session(path: str | Path) -> list[SessionMessage]:
    """Reads all messages of a file; an incomplete last one is left out.

    Raises:
        FileError: If it cannot be read, or is not a session.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not content.startswith(FIRST_LINE):
        raise FileError(f"{path}: is not a session of a Unity player that Rookery has recorded")
    found, place = [], len(FIRST_LINE)
    while place + HEAD.size <= len(content):
        seconds, speaker, size = HEAD.unpack_from(content, place)
        start, place = place + HEAD.size, place + HEAD.size + size
        if speaker >= len(SPEAKERS):
            raise FileError(f"{path}: byte {start - HEAD.size:,}: no speaker has the number {speaker}")
        if place <= len(content):
            found.append(SessionMessage(seconds, SPEAKERS[speaker], content[start:place]))
    return found
