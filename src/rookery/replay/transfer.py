"""Merging of stored replay buffers, and export to plain arrays for other programs."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from rookery.core.io.files import Content, Stream, WriteError
from rookery.core.io.leftovers import sweep, take_lock, temporary_in
from rookery.core.io.open_files import replace_file
from rookery.replay.frames import observations_of
from rookery.replay.segment_arrays import SegmentArrays, rows_in
from rookery.replay.segments import (
    FACTS,
    RAW,
    Segment,
    StoredReplay,
    check_spaces,
    segment_name,
    segment_stream,
    unknown_raw,
)

ABOUT = "rookery"
"""Name of the text in an ``.npz`` file that describes the rows."""

Advance = Callable[[int], object]
"""Called with the number of newly written rows."""


def linked(memories: Sequence[StoredReplay]) -> tuple[dict[str, Content], dict[str, Any]]:
    """Returns a directory with these buffers unchanged: its files by name, and the entries of its manifest."""
    files: dict[str, Content] = {}
    facts: dict[str, dict[str, Any]] = {}
    for memory in memories:
        files |= {one.file.path.name: one.file for one in memory.segments if one.last > memory.first}
        facts[memory.policy] = {
            "first": memory.first,
            "last": memory.last,
            "capacity": memory.capacity,
            **memory.origin,
        }
    return files, {FACTS: facts}


def merged(
    memories: Sequence[StoredReplay], policy: str, advance: Advance
) -> tuple[dict[str, Content], dict[str, Any]]:
    """Returns a directory with the rows of all buffers, one after the other, as one buffer.

    Raises:
        SpaceError: If their spaces differ; names both.
    """
    for memory in memories[1:]:
        check_spaces(memory, memories[0].spaces, str(memories[0]))
    files: dict[str, Content] = {}
    total = 0
    for memory in memories:
        counting = [segment for segment in memory.segments if segment.last > memory.first]
        for number, segment in enumerate(counting):
            files[segment_name(policy, total)] = _moved(memory, segment, total, number > 0, advance)
            total += segment.last - max(segment.first, memory.first)
    origin: dict[str, list[str]] = {}
    for memory in memories:
        for name, texts in memory.origin.items():
            origin[name] = sorted({*origin.get(name, ()), *texts})
    facts = {"first": 0, "last": total, "capacity": None, **origin}
    return files, {FACTS: {policy: facts}}


def _moved(memory: StoredReplay, segment: Segment, first: int, follows: bool, advance: Advance) -> Stream:
    """Returns a segment with other serial numbers, for writing."""

    def chunks() -> Iterator[bytes | memoryview]:
        found = memory.open(segment)
        rows = {**found.rows, "serial": np.array([first])}
        continues = found.continues and follows
        yield from segment_stream(rows, found.spaces, first=first, continues=continues, written=found.written).chunks()
        advance(rows_in(rows))

    return Stream(segment.file.size, chunks)


def write_arrays(memory: StoredReplay, path: Path, advance: Advance) -> None:
    """Writes a stored buffer as an ``.npz`` file, which `numpy.load` reads without pickle.

    It has ``action``, ``reward``, ``logp``, ``terminated``, ``truncated``, ``begins``, ``slot`` and ``clock``, and for
    each leaf of the observations ``obs`` (or ``obs/PATH``) and ``next_obs``, zeros where the episode terminated.
    ``action_raw`` exists if a segment has it (`RAW`), with NaN in rows of others. ``rookery`` is a text, JSON: the
    spaces, and the names of unknown columns.

    Args:
        memory: The stored buffer.
        path: The file; an existing one is replaced when the new one is complete.
        advance: Progress; each row counts once for every array of `columns`.

    Raises:
        FileError: If a segment is broken, or the file cannot be written.
    """
    sweep(path.parent)
    temporary = temporary_in(path.parent)
    segments = [segment.rows for segment in memory.open_segments()]  # hashed once; mapped files take no RAM
    try:
        with temporary.open("xb") as whole:
            take_lock(whole.fileno(), 0.0)
            with zipfile.ZipFile(whole, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
                for name, column in columns(memory).items():
                    _write_column(archive, name, column, segments, advance)
                if any(RAW in segment for segment in segments):
                    width = memory.spaces.action.num_numbers
                    _write_column(archive, RAW, partial(raw_of_segment, width=width), segments, lambda rows: None)
                with archive.open(f"{ABOUT}.npy", "w") as file:
                    about = {"spaces": json.loads(memory.spaces.to_json()), "missing": list(memory.missing)}
                    np.lib.format.write_array(file, np.array(json.dumps(about)), allow_pickle=False)
            whole.flush()
            os.fsync(whole.fileno())
        replace_file(temporary, path)
    except OSError as error:
        raise WriteError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        with suppress(OSError):  # read-only disk
            temporary.unlink(missing_ok=True)


def _write_column(
    archive: zipfile.ZipFile,
    name: str,
    column: Callable[[SegmentArrays], np.ndarray],
    segments: Sequence[SegmentArrays],
    advance: Advance,
) -> None:
    started, number = False, sum(map(rows_in, segments))
    with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
        for segment in segments:
            array = np.ascontiguousarray(column(segment))
            if not started:
                shape = (number, *array.shape[1:])
                header = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
                started = True
            file.write(array.reshape(-1).view(np.uint8).data)
            advance(len(array))


def columns(memory: StoredReplay) -> dict[str, Callable[[SegmentArrays], np.ndarray]]:
    """Returns the arrays that `write_arrays` always writes, by name, as functions of a segment."""
    plain = ("action", "reward", "logp", "terminated", "truncated", "begins", "slot", "clock")
    found: dict[str, Callable[[SegmentArrays], np.ndarray]] = {name: itemgetter(name) for name in plain}
    for leaf in memory.spaces.obs.leaves:
        own = "" if leaf.path == "obs" else f"/{leaf.path}"
        found[f"obs{own}"] = partial(observations_of, path=leaf.path)
        found[f"next_obs{own}"] = partial(next_observations, path=leaf.path)
    return found


def raw_of_segment(segment: SegmentArrays, width: int) -> np.ndarray:
    """Returns the column `RAW` of a segment ``[n, width]``, NaN if it has none."""
    return segment[RAW] if RAW in segment else unknown_raw(rows_in(segment), width)


def next_observations(segment: SegmentArrays, path: str) -> np.ndarray:
    """Returns the next observation of each row of a segment ``[n, ...]``; zeros where the episode terminated."""
    obs = observations_of(segment, path)
    following, aside = following_rows(segment)
    found = np.zeros_like(obs)
    found[following >= 0] = obs[following[following >= 0]]
    found[aside >= 0] = observations_of(segment, path, "next_")[aside[aside >= 0]]
    return found


def following_rows(segment: SegmentArrays) -> tuple[np.ndarray, np.ndarray]:
    """Returns the places of the next observations of all rows of a complete segment.

    Returns:
        The row ``[n]`` of the episode's next decision, or -1; and the index ``[n]`` in the segment's own next
        observations, or -1. Both are -1 where the episode terminated.
    """
    row = np.arange(rows_in(segment))
    previous = row - segment["before"]
    linked_ = (segment["before"] > 0) & (previous >= 0) & ~segment["begins"]
    following, aside = np.full(len(row), -1), np.full(len(row), -1)
    following[previous[linked_]] = row[linked_]
    following[segment["terminated"] | segment["truncated"]] = -1
    following[segment["next_row"]] = -1
    aside[segment["next_row"]] = np.arange(len(segment["next_row"]))
    return following, aside
