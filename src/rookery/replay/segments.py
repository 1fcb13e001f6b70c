"""Replay buffers as files: sealed segments of rows, written once, shared by all directories that need them.

A memory lies in a directory as ``memory-POLICY-FIRST.safetensors``, a file for every stretch of rows that was new when
a directory was written; FIRST is the serial number of its first row. The directory's manifest (`core/io/files.py`) has
their hashes and, under ``memories``, which rows count. A segment is complete in itself and never changes: a later
directory has it as a second name of the same file, and it is gone when the last directory is that needs it.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
from gymnasium import spaces

from rookery.core.errors import ConfigError, RookeryError, SpaceError, nearest
from rookery.core.io.array_files import ArrayFileError, array_stream, read_arrays
from rookery.core.io.files import (
    FileError,
    Linked,
    Stream,
    find_checkpoint,
    map_file,
    mapped_files,
    read_manifest,
    split_name,
)
from rookery.core.settings.starting_folder import shown
from rookery.core.spaces.arrays import MASK, ActionSpec, ObsSpec, action_spec, obs_spec
from rookery.core.spaces.space_files import space_from_json, space_to_json
from rookery.replay.buffer import ReplayBuffer
from rookery.replay.pieces import Piece, part_of, rows_in

FORMAT = 1
"""Grows when what is written changes; older ones stay readable."""

FACTS = "memories"
"""Key of a manifest under which it says what memories the directory holds."""

NAME = re.compile(r"memory-(.+)-(\d{12,})\.safetensors")

RAW = "action_raw"
"""Column of squashed actions ``[n, k]`` float32, which not every segment has: the k numbers that tanh was taken of, NaN
where one is not known. Near a bound float32 does not tell them from the action."""

ORIGIN = ("missing", "taken", "dropped", "notes", "imported")
"""What a manifest may say of where a memory comes from, each in several texts."""

SEGMENT_BYTES = 1 << 26
"""About how large a segment may be: what is held twice while it is written, and kept for its last row."""


@dataclass(frozen=True)
class Segment:
    """A file with rows of a memory.

    Attributes:
        first: Serial number of its first row.
        last: Serial number after that of its last row.
        file: Where it lies.
    """

    first: int
    last: int
    file: Linked

    @property
    def is_there(self) -> bool:
        """Whether the file still lies where it did, as long as it was."""
        try:
            return self.file.path.stat().st_size == self.file.size
        except OSError:
            return False


@dataclass(frozen=True)
class Spaces:
    """What the rows of a memory are made of.

    Attributes:
        obs: Layout of observations.
        action: Layout of actions.
        memory_size: Numbers that the policy remembered of a slot.
    """

    obs: ObsSpec
    action: ActionSpec
    memory_size: int

    def to_json(self) -> str:
        """As text, for the header of a segment."""
        space = self.obs.space
        in_info = self.obs.has_mask and not (isinstance(space, spaces.Dict) and MASK in space.spaces)
        return json.dumps(
            {
                "obs_space": space_to_json(space),
                "action_space": space_to_json(self.action.space),
                "info_mask": in_info,
                "memory_size": self.memory_size,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Spaces:
        """What `to_json` wrote; raises a SpaceError if it was not."""
        try:
            said = json.loads(text)
            action = space_from_json(said["action_space"])
            obs = obs_spec(space_from_json(said["obs_space"]), action, info_mask=bool(said["info_mask"]))
            return cls(obs, action_spec(action), int(said["memory_size"]))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            raise SpaceError(f"no spaces of a replay buffer: {type(error).__name__}: {error}") from None

    def __str__(self) -> str:
        return f"observations {self.obs.space} and actions {self.action.space}"


def spaces_of(memory: ReplayBuffer) -> Spaces:
    """What the rows of a memory are made of."""
    return Spaces(memory.obs_spec, memory.action_spec, memory.memory_size)


def segment_name(policy: str, first: int) -> str:
    """What a segment is called."""
    return f"memory-{quote(policy, safe='')}-{first:012d}.safetensors"


def segment_stream(piece: Piece, spaces_: Spaces, *, first: int, continues: bool, written: float) -> Stream:
    """A segment to be written.

    Args:
        piece: Its rows.
        spaces_: What they are made of.
        first: Serial number of its first row.
        continues: Whether the rows follow those of the segment before; else slots of the same number are others.
        written: When its rows were first written, in seconds since 1970.
    """
    metadata = {
        "format": f"rookery replay buffer {FORMAT}",
        "spaces": spaces_.to_json(),
        "first": str(first),
        "last": str(first + rows_in(piece)),
        "continues": str(continues).lower(),
        "written": str(written),
    }
    return array_stream({name: [array] for name, array in piece.items()}, metadata)


def new_segments(memory: ReplayBuffer, policy: str, first: int, last: int) -> dict[str, Stream]:
    """The rows with serial numbers from `first` up to but not `last`, as segments to be written, by name.

    Rows are copied from the memory when they are written, a segment at a time.
    """
    if first == last:
        return {}
    count = min(len(memory), 64)
    newest = memory.rows_between(memory.total - count, memory.total)
    size = -(-sum(array.nbytes for array in newest.values()) // count)  # about what a row takes in a file
    most = SEGMENT_BYTES if memory.shelf.limit is None else min(SEGMENT_BYTES, memory.shelf.limit // 8)
    number = max(most // size, 1)
    spaces_, now = spaces_of(memory), time.time()

    def stream(start: int, end: int) -> Stream:
        def pieces() -> Iterator[bytes | memoryview]:
            rows = memory.rows_between(start, end)
            yield from segment_stream(rows, spaces_, first=start, continues=start > 0, written=now).pieces()

        return Stream((end - start) * size, pieces)

    starts = range(first, last, number)
    return {segment_name(policy, start): stream(start, min(start + number, last)) for start in starts}


@dataclass(frozen=True)
class StoredReplay:
    """A memory as it lies in a directory.

    Attributes:
        place: The directory.
        policy: Whose it is.
        segments: In the order of time, each beginning where the one before it ends.
        first: Serial number of the first row that counts.
        capacity: Rows it had room for; None if it has grown to what it is by merging.
        missing: What nobody knows of its rows, names of `replay/recording.py:MISSING`; nothing where a run has played
            them itself.
        taken: What became of the columns of the files that it was imported from, in words.
        dropped: Columns of these files of which nothing was made.
        notes: What else is to be known of these files, for people.
        imported: The files that it was imported from.
    """

    place: Path
    policy: str
    segments: tuple[Segment, ...]
    first: int
    capacity: int | None
    missing: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    imported: tuple[str, ...] = ()

    @property
    def said(self) -> dict[str, list[str]]:
        """What a manifest says of its origin."""
        texts: dict[str, tuple[str, ...]] = {name: getattr(self, name) for name in ORIGIN}
        return {name: list(found) for name, found in texts.items() if found}

    def __len__(self) -> int:
        return self.last - self.first

    def __str__(self) -> str:
        return f"{shown(self.place)}:{self.policy}"

    @property
    def last(self) -> int:
        """Serial number after that of its newest row."""
        return self.segments[-1].last if self.segments else self.first

    @property
    def bytes(self) -> int:
        """Its size on the disk."""
        return sum(segment.file.size for segment in self.segments)

    @property
    def mark(self) -> str:
        """A text that is another one if its rows are."""
        hashes = "".join(segment.file.sha256 for segment in self.segments)
        return hashlib.sha256(f"{hashes} from {self.first}".encode()).hexdigest()

    @cached_property
    def spaces(self) -> Spaces:
        """What its rows are made of.

        Raises:
            FileError: If its newest segment is broken.
        """
        return open_segment(self.segments[-1]).spaces

    def pieces(self) -> Iterator[OpenSegment]:
        """Its rows, a segment at a time, as they are mapped from the disk; rows that do not count are left out.

        Raises:
            FileError: If a segment is missing, broken or foreign; names it.
        """
        return (self.open(segment) for segment in self.segments if segment.last > self.first)

    def open(self, segment: Segment) -> OpenSegment:
        """The rows of one segment, without those that do not count; raises as `pieces` does."""
        found = open_segment(segment)
        if found.spaces != self.spaces:
            raise FileError(f"{segment.file.path}: holds {found.spaces}, and others of {self} {self.spaces}")
        if segment.first >= self.first:
            return found
        return replace(found, rows=part_of(found.rows, self.first - segment.first, rows_in(found.rows)))


@dataclass(frozen=True)
class OpenSegment:
    """What a segment holds.

    Attributes:
        rows: The rows, mapped from the disk.
        spaces: What they are made of.
        continues: Whether they follow those of the segment before.
        written: When they were first written, in seconds since 1970.
        mapped: The map that they are views of.
    """

    rows: Piece
    spaces: Spaces
    continues: bool
    written: float
    mapped: object = None


def open_segment(segment: Segment) -> OpenSegment:
    """Maps a segment and looks whether it is what it says it is.

    Raises:
        FileError: If it is missing, broken, foreign or of a newer format; names it.
    """
    path = segment.file.path
    content = map_file(segment.file)
    try:
        rows, said = read_arrays(content)
        kind, _, number = said.get("format", "").rpartition(" ")
        if kind != "rookery replay buffer":
            raise FileError(f"{path}: is no segment of a replay buffer")
        if int(number) > FORMAT:
            raise FileError(
                f"{path}: has format {number}, which this version of Rookery cannot read (up to {FORMAT}); a newer one "
                "wrote it"
            )
        if (int(said["first"]), int(said["last"])) != (segment.first, segment.last):
            raise FileError(
                f"{path}: holds the rows {said['first']} to {said['last']}, not {segment.first} to {segment.last}"
            )
        spaces_, written = Spaces.from_json(said["spaces"]), float(said["written"])
        found = OpenSegment(rows, spaces_, said["continues"] == "true", written, content.obj)
        if rows_in(rows) != segment.last - segment.first:
            raise FileError(f"{path}: has {rows_in(rows)} rows where {segment.last - segment.first} should be")
    except (ArrayFileError, SpaceError, ValueError, KeyError, TypeError) as error:
        raise FileError(f"{path}: is no segment of a replay buffer: {error}") from None
    return found


def segments_of(files: Mapping[str, Linked], facts: Mapping[str, Any]) -> dict[str, list[Segment]]:
    """The segments of each policy among the mapped files of a directory, in the order of time."""
    starts: dict[str, list[tuple[int, Linked]]] = {}
    for name, file in files.items():
        match = NAME.fullmatch(name)
        if match:
            starts.setdefault(unquote(match[1]), []).append((int(match[2]), file))
    found: dict[str, list[Segment]] = {}
    for policy, said in facts.get(FACTS, {}).items():
        parts = sorted(starts.get(policy, ()), key=lambda part: part[0])
        ends = [*(start for start, _ in parts[1:]), said["last"]]
        found[policy] = [Segment(start, end, file) for (start, file), end in zip(parts, ends, strict=False)]
    return found


def facts_of(memory: ReplayBuffer) -> dict[str, Any]:
    """What the manifest of a directory says of a memory."""
    return {"first": memory.first, "last": memory.total, "capacity": memory.cfg.capacity}


def stored_replays(path: Path) -> dict[str, StoredReplay]:
    """The memories that lie in a directory, by policy; those of a run are those of its last checkpoint.

    Raises:
        FileError: If there is no such directory, or it holds none; says why it might not.
    """
    place = find_checkpoint(path)
    manifest = read_manifest(place)
    files = mapped_files(place, manifest)
    found = {}
    for policy, segments in segments_of(files, manifest).items():
        said = manifest[FACTS][policy]
        if not segments:  # nothing was played yet
            continue
        texts = {name: tuple(said.get(name, ())) for name in ORIGIN}
        found[policy] = StoredReplay(place, policy, tuple(segments), said["first"], said["capacity"], **texts)
    if not found:
        raise FileError(
            f"{place}: holds no replay buffer: its algorithms learn from none, it was saved with replay.save = false, "
            "or nothing was played yet"
        )
    return found


def find_replay(source: str | Path, policy: str | None = None) -> StoredReplay:
    """The memory that a text means: ``PATH``, or ``PATH:policy`` where there are several.

    Args:
        source: A run, a checkpoint or a replay directory, with the policy behind its last colon.
        policy: Whose memory it is if the text does not say so and there are several.

    Raises:
        FileError: If there is none.
        ConfigError: If it is not clear which one is meant.
    """
    place, named = split_name(source)
    found = stored_replays(place)
    wanted = named or (next(iter(found)) if len(found) == 1 else policy)
    if wanted not in found:
        hint = nearest(wanted, list(found)) if wanted else f"; say which, as in {place}:{next(iter(found))}"
        raise ConfigError(f"{source}: policy {wanted!r} is not one of {', '.join(found)}{hint}")
    return found[wanted]


def check_spaces(stored: StoredReplay, wanted: Spaces, whose: str) -> None:
    """Makes sure that the rows of a memory fit to the spaces that are wanted; the message says whose these are.

    Raises:
        SpaceError: If they do not; names both, and what differs.
    """
    mine = stored.spaces
    problems = []
    if mine.obs != wanted.obs:
        problems.append(f"it holds observations {mine.obs.space}, {whose} has {wanted.obs.space}")
    if mine.action != wanted.action:
        problems.append(f"it holds actions {mine.action.space}, {whose} has {wanted.action.space}")
    if wanted.memory_size and mine.memory_size != wanted.memory_size:
        problems.append(
            f"it was played by a policy that remembers {mine.memory_size} numbers, {whose} remembers "
            f"{wanted.memory_size}"
        )
    if problems:
        raise SpaceError(f"{stored}: this replay buffer does not fit: {'; '.join(problems)}")


def copy_rows(stored: StoredReplay, memory: ReplayBuffer) -> int:
    """Adds the rows of a stored memory to another one, the newest that fit; gives their number.

    Raises:
        FileError: If a segment is missing, broken or foreign; names it.
        RookeryError: If they do not fit to the memory's policy.
    """
    newest = replace(stored, first=max(stored.first, stored.last - memory.cfg.capacity))
    for number, piece in enumerate(newest.pieces()):
        with memory.shelf.reading(piece.mapped):
            try:
                memory.append(piece.rows, continues=piece.continues and number > 0)
            except (RookeryError, IndexError, ValueError) as error:  # numbers of frames that there are not, for example
                raise FileError(f"{stored}: is damaged, or of other rows: {error}") from None
    return len(newest)


def raw_actions(stored: StoredReplay) -> np.ndarray | None:
    """Returns the column `RAW` of all rows ``[N, k]``, in the order of time; None where no segment has it.

    Raises:
        FileError: If a segment is missing, broken or foreign; names it.
    """
    width, parts, is_known = stored.spaces.action.num_numbers, [], False
    for segment in stored.segments:
        if segment.last > stored.first:
            rows = stored.open(segment).rows
            found = rows.get(RAW)
            is_known |= found is not None
            if found is not None and (found.shape != (rows_in(rows), width) or found.dtype != np.float32):
                raise FileError(f"{segment.file.path}: its {RAW} are {found.dtype} of shape {found.shape}")
            parts.append(unknown_raw(rows_in(rows), width) if found is None else np.array(found))
    return np.concatenate(parts) if is_known else None


def unknown_raw(rows: int, width: int) -> np.ndarray:
    """Returns a column `RAW` of which nothing is known."""
    return np.full((rows, width), np.nan, np.float32)
