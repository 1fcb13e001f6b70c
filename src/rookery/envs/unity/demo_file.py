"""Files ``.demo`` of Unity's ML-Agents: what a recorder in the game wrote down, message after message.

Such a file has a `DemonstrationMetaProto` at its start, zeros up to byte 33, a `BrainParametersProto`, and then an
`AgentInfoActionPairProto` for each decision and each end of an episode; all have their lengths before them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rookery.core.files import FileError, write_file
from rookery.envs.unity.messages import AgentInfoActionPairProto, BrainParametersProto, DemonstrationMetaProto
from rookery.envs.unity.wire import WireError, delimited, read_delimited

START = 33
"""Where the messages after the first one begin."""

API_VERSIONS = (0, 1)
"""Versions of the format that there are."""

LONGEST_NAME = 16
"""Characters of a demonstration's name, as recorders cut it."""


@dataclass(frozen=True)
class DemoFile:
    """The messages of a demonstration.

    Attributes:
        meta: What it says of itself.
        brain: The behaviour that was recorded.
        pairs: Its rows.
    """

    meta: DemonstrationMetaProto
    brain: BrainParametersProto
    pairs: tuple[AgentInfoActionPairProto, ...]


def read_demo(path: Path) -> DemoFile:
    """Reads a file.

    Raises:
        FileError: If it cannot be read, is empty, is no demonstration, or ends too early; says where.
    """
    try:
        content = memoryview(path.read_bytes())
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not len(content):
        raise FileError(f"{path}: is empty: nothing was recorded, or its recorder was never closed")
    pairs: list[AgentInfoActionPairProto] = []
    try:
        meta, _ = read_delimited(DemonstrationMetaProto, content, 0)
        if meta.api_version not in API_VERSIONS:
            known = " and ".join(map(str, API_VERSIONS))
            raise FileError(f"{path}: is of version {meta.api_version} of the format; {known} can be read")
        brain, place = read_delimited(BrainParametersProto, content, START)
        while place < len(content) and (not meta.number_steps or len(pairs) < meta.number_steps):
            try:
                pair, place = read_delimited(AgentInfoActionPairProto, content, place)
            except WireError:
                if meta.number_steps:
                    raise
                break  # the recorder was stopped without an end: what it wrote last is not whole
            pairs.append(pair)
    except WireError as error:
        had = f", after {len(pairs):,} whole rows" if pairs else ""
        raise FileError(f"{path}: is no whole demonstration{had}: {error}") from None
    if len(pairs) < meta.number_steps:
        raise FileError(f"{path}: ends after {len(pairs):,} of the {meta.number_steps:,} rows that it says it has")
    return DemoFile(meta, brain, tuple(pairs))


def write_demo(path: Path, name: str, brain: BrainParametersProto, pairs: Sequence[AgentInfoActionPairProto]) -> None:
    """Writes a file; one that is there is replaced.

    Args:
        path: Where.
        name: What the demonstration is called; letters, digits and ``-`` of it are kept, 16 at most.
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
