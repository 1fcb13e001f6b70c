"""Stored replay buffers: immutable segments of rows, shared by all directories that need them.

A buffer is stored in a directory as ``memory-POLICY-FIRST.safetensors``, one file for the rows that were new when a
directory was written; FIRST is the serial number of its first row. The directory's manifest (`core/io/files.py`)
has their hashes and, under ``memories``, the range of valid rows. A segment is complete and never changes: a later
directory links to the same file, which exists until its last directory is deleted.
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
from rookery.replay.segment_arrays import SegmentArrays, part_of, rows_in

FORMAT = 1
"""Version of the format; older versions stay readable."""

FACTS = "memories"
"""Key of the manifest's entry about stored buffers."""

NAME = re.compile(r"memory-(.+)-(\d{12,})\.safetensors")

RAW = "action_raw"
"""Column of squashed actions ``[n, k]`` float32, which not every segment has: the k inputs of tanh, NaN where unknown.
Near a bound they cannot be computed from the action in float32.
"""

ORIGIN = ("missing", "taken", "dropped", "notes", "imported")
"""Entries of a manifest on the origin of a buffer, lists of texts."""

SEGMENT_BYTES = 1 << 26
"""Approximate largest size of a segment, which is held twice in RAM while it is written."""


@dataclass(frozen=True)
class Segment:
    """A file with rows of a stored buffer.

    Attributes:
        first: Serial number of its first row.
        last: Serial number of its last row plus 1.
        file: The file.
    """

    first: int
    last: int
    file: Linked

    @property
    def is_there(self) -> bool:
        """Whether the file still exists with its size."""
        try:
            return self.file.path.stat().st_size == self.file.size
        except OSError:
            return False


@dataclass(frozen=True)
class Spaces:
    """Spaces of the rows of a buffer.

    Attributes:
        obs: Layout of observations.
        action: Layout of actions.
        memory_size: Size of the policy's memory for a slot.
    """

    obs: ObsSpec
    action: ActionSpec
    memory_size: int

    def to_json(self) -> str:
        """Returns the spaces as JSON, for the header of a segment."""
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
        """Reads the JSON of `to_json`; raises a SpaceError for any other text."""
        try:
            entry = json.loads(text)
            action = space_from_json(entry["action_space"])
            obs = obs_spec(space_from_json(entry["obs_space"]), action, info_mask=bool(entry["info_mask"]))
            return cls(obs, action_spec(action), int(entry["memory_size"]))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            raise SpaceError(f"no spaces of a replay buffer: {type(error).__name__}: {error}") from None

    def __str__(self) -> str:
        return f"observations {self.obs.space} and actions {self.action.space}"


def spaces_of(memory: ReplayBuffer) -> Spaces:
    """Spaces of the rows of a buffer."""
    return Spaces(memory.obs_spec, memory.action_spec, memory.memory_size)


def segment_name(policy: str, first: int) -> str:
    """Returns the file name of a segment."""
    return f"memory-{quote(policy, safe='')}-{first:012d}.safetensors"


def segment_stream(arrays: SegmentArrays, spaces_: Spaces, *, first: int, continues: bool, written: float) -> Stream:
    """Returns the content of a segment for writing.

    Args:
        arrays: Its rows.
        spaces_: Their spaces.
        first: Serial number of its first row.
        continues: Whether the rows follow those of the previous segment; else equal slot numbers are different slots.
        written: Time when its rows were first written, in seconds since 1970.
    """
    metadata = {
        "format": f"rookery replay buffer {FORMAT}",
        "spaces": spaces_.to_json(),
        "first": str(first),
        "last": str(first + rows_in(arrays)),
        "continues": str(continues).lower(),
        "written": str(written),
    }
    return array_stream({name: [array] for name, array in arrays.items()}, metadata)


def new_segments(memory: ReplayBuffer, policy: str, first: int, last: int) -> dict[str, Stream]:
    """Returns the rows with serial numbers from `first` up to but not including `last`, as segments for writing, by
    name.

    Rows are copied from the buffer when they are written, one segment at a time.
    """
    if first == last:
        return {}
    count = min(len(memory), 64)
    newest = memory.rows_between(memory.total - count, memory.total)
    size = -(-sum(array.nbytes for array in newest.values()) // count)  # approximate bytes of a row in a file
    most = SEGMENT_BYTES if memory.memmaps.limit is None else min(SEGMENT_BYTES, memory.memmaps.limit // 8)
    number = max(most // size, 1)
    spaces_, now = spaces_of(memory), time.time()

    def stream(start: int, end: int) -> Stream:
        def chunks() -> Iterator[bytes | memoryview]:
            rows = memory.rows_between(start, end)
            yield from segment_stream(rows, spaces_, first=start, continues=start > 0, written=now).chunks()

        return Stream((end - start) * size, chunks)

    starts = range(first, last, number)
    return {segment_name(policy, start): stream(start, min(start + number, last)) for start in starts}


@dataclass(frozen=True)
class StoredReplay:
    """A replay buffer stored in a directory.

    Attributes:
        place: The directory.
        policy: Name of the policy.
        segments: In the order of time, each beginning at the end of the previous one.
        first: Serial number of the first valid row.
        capacity: Capacity of the buffer; None if it was merged or imported.
        missing: Unknown columns, names of `replay/recording.py:MISSING`; empty for a run's own experience.
        taken: Roles of the columns of the imported files, as text.
        dropped: Unused columns of these files.
        notes: Further notes on these files.
        imported: The imported files.
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
    def origin(self) -> dict[str, list[str]]:
        """Entries of the manifest on its origin."""
        texts: dict[str, tuple[str, ...]] = {name: getattr(self, name) for name in ORIGIN}
        return {name: list(found) for name, found in texts.items() if found}

    def __len__(self) -> int:
        return self.last - self.first

    def __str__(self) -> str:
        return f"{shown(self.place)}:{self.policy}"

    @property
    def last(self) -> int:
        """Serial number of its newest row plus 1."""
        return self.segments[-1].last if self.segments else self.first

    @property
    def bytes(self) -> int:
        """Size on disk."""
        return sum(segment.file.size for segment in self.segments)

    @property
    def mark(self) -> str:
        """Text that identifies its rows."""
        hashes = "".join(segment.file.sha256 for segment in self.segments)
        return hashlib.sha256(f"{hashes} from {self.first}".encode()).hexdigest()

    @cached_property
    def spaces(self) -> Spaces:
        """Spaces of its rows.

        Raises:
            FileError: If its newest segment is broken.
        """
        return open_segment(self.segments[-1]).spaces

    def open_segments(self) -> Iterator[OpenSegment]:
        """Yields its valid rows, one memory-mapped segment at a time.

        Raises:
            FileError: If a segment is missing, broken or foreign; names it.
        """
        return (self.open(segment) for segment in self.segments if segment.last > self.first)

    def open(self, segment: Segment) -> OpenSegment:
        """Returns the valid rows of one segment; raises as `open_segments`."""
        found = open_segment(segment)
        if found.spaces != self.spaces:
            raise FileError(f"{segment.file.path}: holds {found.spaces}, and others of {self} {self.spaces}")
        if segment.first >= self.first:
            return found
        return replace(found, rows=part_of(found.rows, self.first - segment.first, rows_in(found.rows)))


@dataclass(frozen=True)
class OpenSegment:
    """Content of a segment.

    Attributes:
        rows: The rows, memory-mapped.
        spaces: Their spaces.
        continues: Whether they follow those of the previous segment.
        written: Time when they were first written, in seconds since 1970.
        mapped: The memory map behind the rows.
    """

    rows: SegmentArrays
    spaces: Spaces
    continues: bool
    written: float
    mapped: object = None


def open_segment(segment: Segment) -> OpenSegment:
    """Maps a segment and checks its header.

    Raises:
        FileError: If it is missing, broken, foreign or of a newer format; names it.
    """
    path = segment.file.path
    content = map_file(segment.file)
    try:
        rows, entry = read_arrays(content)
        kind, _, number = entry.get("format", "").rpartition(" ")
        if kind != "rookery replay buffer":
            raise FileError(f"{path}: is not a segment of a replay buffer")
        if int(number) > FORMAT:
            raise FileError(
                f"{path}: has format {number}, which this version of Rookery cannot read (up to {FORMAT}); a newer one "
                "wrote it"
            )
        if (int(entry["first"]), int(entry["last"])) != (segment.first, segment.last):
            raise FileError(
                f"{path}: holds the rows {entry['first']} to {entry['last']}, not {segment.first} to {segment.last}"
            )
        spaces_, written = Spaces.from_json(entry["spaces"]), float(entry["written"])
        found = OpenSegment(rows, spaces_, entry["continues"] == "true", written, content.obj)
        if rows_in(rows) != segment.last - segment.first:
            raise FileError(f"{path}: has {rows_in(rows)} rows where {segment.last - segment.first} should be")
    except (ArrayFileError, SpaceError, ValueError, KeyError, TypeError) as error:
        raise FileError(f"{path}: is not a segment of a replay buffer: {error}") from None
    return found


def segments_of(files: Mapping[str, Linked], facts: Mapping[str, Any]) -> dict[str, list[Segment]]:
    """Returns the segments of each policy among the files of a directory, in the order of time."""
    starts: dict[str, list[tuple[int, Linked]]] = {}
    for name, file in files.items():
        match = NAME.fullmatch(name)
        if match:
            starts.setdefault(unquote(match[1]), []).append((int(match[2]), file))
    found: dict[str, list[Segment]] = {}
    for policy, entry in facts.get(FACTS, {}).items():
        parts = sorted(starts.get(policy, ()), key=lambda part: part[0])
        ends = [*(start for start, _ in parts[1:]), entry["last"]]
        found[policy] = [Segment(start, end, file) for (start, file), end in zip(parts, ends, strict=False)]
    return found


def facts_of(memory: ReplayBuffer) -> dict[str, Any]:
    """Returns a manifest's entry about a buffer."""
    return {"first": memory.first, "last": memory.total, "capacity": memory.cfg.capacity}


def stored_replays(path: Path) -> dict[str, StoredReplay]:
    """Returns the stored buffers of a directory, by policy; for a run those of its last checkpoint.

    Raises:
        FileError: If the directory does not exist, or has none; the message has possible reasons.
    """
    place = find_checkpoint(path)
    manifest = read_manifest(place)
    files = mapped_files(place, manifest)
    found = {}
    for policy, segments in segments_of(files, manifest).items():
        entry = manifest[FACTS][policy]
        if not segments:  # nothing was sampled yet
            continue
        texts = {name: tuple(entry.get(name, ())) for name in ORIGIN}
        found[policy] = StoredReplay(place, policy, tuple(segments), entry["first"], entry["capacity"], **texts)
    if not found:
        raise FileError(
            f"{place}: holds no replay buffer: its algorithms use no replay, it was saved with replay.save = false, "
            f"or nothing was sampled yet; rookery replay record --from {place} -o DIRECTORY records episodes of its "
            "policies"
        )
    return found


def find_replay(source: str | Path, policy: str | None = None) -> StoredReplay:
    """Returns the stored buffer that a text names: ``PATH``, or ``PATH:policy`` if there are several.

    Args:
        source: A run, a checkpoint or a replay directory, with the policy behind its last colon.
        policy: Name of the policy if the text has none and there are several.

    Raises:
        FileError: If there is no stored buffer.
        ConfigError: If the policy is ambiguous or unknown.
    """
    place, named = split_name(source)
    found = stored_replays(place)
    wanted = named or (next(iter(found)) if len(found) == 1 else policy)
    if wanted not in found:
        hint = nearest(wanted, list(found)) if wanted else f"; name one, as in {place}:{next(iter(found))}"
        raise ConfigError(f"{source}: policy {wanted!r} is not one of {', '.join(found)}{hint}")
    return found[wanted]


def check_spaces(stored: StoredReplay, wanted: Spaces, whose: str) -> None:
    """Checks that the rows of a stored buffer have the wanted spaces; `whose` names their owner in the message.

    Raises:
        SpaceError: If they do not; names both.
    """
    mine = stored.spaces
    problems = []
    if mine.obs != wanted.obs:
        problems.append(f"it holds observations {mine.obs.space}, {whose} has {wanted.obs.space}")
    if mine.action != wanted.action:
        problems.append(f"it holds actions {mine.action.space}, {whose} has {wanted.action.space}")
    if wanted.memory_size and mine.memory_size != wanted.memory_size:
        problems.append(
            f"its policy has a memory of size {mine.memory_size}, that of {whose} has size {wanted.memory_size}"
        )
    if problems:
        raise SpaceError(f"{stored}: this replay buffer does not fit: {'; '.join(problems)}")


def copy_rows(stored: StoredReplay, memory: ReplayBuffer) -> int:
    """Adds the rows of a stored buffer to another one, the newest that fit; returns their number.

    Raises:
        FileError: If a segment is missing, broken or foreign; names it.
        RookeryError: If they do not fit the buffer's policy.
    """
    newest = replace(stored, first=max(stored.first, stored.last - memory.cfg.capacity))
    for number, opened in enumerate(newest.open_segments()):
        with memory.memmaps.reading(opened.mapped):
            try:
                memory.append(opened.rows, continues=opened.continues and number > 0)
            except (RookeryError, IndexError, ValueError) as error:  # invalid frame numbers, for example
                raise FileError(f"{stored}: is damaged, or has other rows: {error}") from None
    return len(newest)


def raw_actions(stored: StoredReplay) -> np.ndarray | None:
    """Returns the column `RAW` of all rows ``[N, k]``, in the order of time; None if no segment has it.

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
    """Returns a column `RAW` of unknown values."""
    return np.full((rows, width), np.nan, np.float32)
