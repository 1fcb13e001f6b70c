"""Files ``.demo`` of Unity's ML-Agents: the messages written by a recorder in the game.

Such a file has a `DemonstrationMetaProto` at its start, zeros up to byte 33, a `BrainParametersProto`, and then an
`AgentInfoActionPairProto` for each decision and each end of an episode; all have their lengths before them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from rookery.face import FileError, write_file
from rookery_mlagents.link.messages import AgentInfoActionPairProto, BrainParametersProto, DemonstrationMetaProto
from rookery_mlagents.link.protobuf_wire import WireError, delimited, has_field, read_delimited, read_varint

START = 33
"""Offset of the messages after the first one."""

API_VERSIONS = (0, 1)
"""Supported versions of the format."""

AGENT_INFO, ACTION_MASK = 1, 11
"""Field numbers of the agent's observations in a row, and of the mask of forbidden actions in these."""

LONGEST_NAME = 16
"""Maximum length of a demonstration's name in characters; recorders truncate longer ones."""


@dataclass(frozen=True)
class DemoFile:
    """A demonstration whose rows are read on demand.

    Attributes:
        path: Where it lies.
        meta: Header of the demonstration.
        brain: The behaviour that was recorded.
        content: All its bytes.
        start: Where its rows begin.
    """

    path: Path
    meta: DemonstrationMetaProto
    brain: BrainParametersProto
    content: memoryview
    start: int

    @property
    def pairs(self) -> tuple[AgentInfoActionPairProto, ...]:
        """Returns all rows."""
        return tuple(self.rows())

    def rows(self) -> Iterator[AgentInfoActionPairProto]:
        """Yields the rows.

        Raises:
            FileError: If it ends too early; says where.
        """
        number, place = 0, self.start
        while place < len(self.content) and (not self.meta.number_steps or number < self.meta.number_steps):
            try:
                pair, place = read_delimited(AgentInfoActionPairProto, self.content, place)
            except WireError as error:
                if self.meta.number_steps:
                    had = f", after {number:,} whole rows" if number else ""
                    raise FileError(f"{self.path}: is no whole demonstration{had}: {error}") from None
                break  # the recorder was killed: its last row is not whole
            yield pair
            number += 1
        if number < self.meta.number_steps:
            raise FileError(
                f"{self.path}: ends after {number:,} of the {self.meta.number_steps:,} rows that it says it has"
            )

    def has_masks(self) -> bool:
        """Returns whether any row has an action mask; no other part of the rows is read."""
        place = self.start
        with suppress(WireError):
            while place < len(self.content):
                size, place = read_varint(self.content, place)
                if has_field(self.content[place : place + size], AGENT_INFO, ACTION_MASK):
                    return True
                place += size
        return False


def read_demo(path: Path) -> DemoFile:
    """Reads a file up to its rows.

    Raises:
        FileError: If it cannot be read, is empty or is no demonstration; says where.
    """
    try:
        content = memoryview(path.read_bytes())
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not len(content):
        raise FileError(f"{path}: is empty: nothing was recorded, or its recorder was never closed")
    try:
        meta, _ = read_delimited(DemonstrationMetaProto, content, 0)
        if meta.api_version not in API_VERSIONS:
            known = " and ".join(map(str, API_VERSIONS))
            raise FileError(f"{path}: is of version {meta.api_version} of the format; {known} can be read")
        brain, place = read_delimited(BrainParametersProto, content, START)
    except WireError as error:
        raise FileError(f"{path}: is no whole demonstration: {error}") from None
    return DemoFile(path, meta, brain, content, place)


def write_demo(path: Path, name: str, brain: BrainParametersProto, pairs: Sequence[AgentInfoActionPairProto]) -> None:
    """Writes a file; replaces an existing one.

    Args:
        path: Where.
        name: Name of the demonstration; letters, digits and ``-`` of it are kept, 16 at most.
        brain: The behaviour.
        pairs: Its rows.

    Raises:
        FileError: If it cannot be written.
    """
    infos = [pair.agent_info for pair in pairs if pair.agent_info is not None]
    episodes = sum(info.ended for info in infos)
    mean = sum(info.reward for info in infos) / max(episodes, 1)
    meta = DemonstrationMetaProto(1, re.sub(r"[^A-Za-z0-9-]", "", name)[:LONGEST_NAME], len(pairs), episodes, mean)
    while len(head := delimited(meta)) > START:
        meta = replace(meta, demonstration_name=meta.demonstration_name[:-1])
    write_file(path, b"".join([head.ljust(START, b"\0"), delimited(brain), *_rows(pairs)]))


def _rows(pairs: Iterable[AgentInfoActionPairProto]) -> Iterable[bytes]:
    return (delimited(pair) for pair in pairs)
