"""Writes the numbers of a run for TensorBoard: scalars and histograms, over environment steps.

Tags are the keys of `metrics.jsonl`. Events are written here, record by record, and not by TensorBoard's own writer:
that one loads TensorFlow where it finds it, and keeps a thread with what has not reached the file yet.
"""

from __future__ import annotations

import itertools
import os
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

FLUSH_SECONDS = 10.0
"""Longest time that a written row waits in memory for the next one."""

BINS = 30
"""Bars of a histogram."""

_numbers = itertools.count()


class TensorBoard:
    """Writes an event file in the folder of a run. A resumed run adds a file, and `resume` hides what it replays.

    Args:
        folder: Folder of the run; made if it is missing.
    """

    def __init__(self, folder: Path) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary

        self._event, self._session, self._summary = Event, SessionLog, Summary
        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time():017.6f}.{socket.gethostname()}.{os.getpid()}.{next(_numbers)}"
        self.path = folder / name
        self._file = self.path.open("xb")
        self._flushed = time.monotonic()
        self._add(Event(wall_time=time.time(), file_version="brain.Event:2"))
        self.flush()

    def resume(self, step: int) -> None:
        """Makes readers forget what earlier files of the folder say of environment steps after `step`."""
        log = self._session(status=self._session.START)
        self._add(self._event(wall_time=time.time(), step=step + 1, session_log=log))

    def add_plugin_data(self, plugin: str, tag: str, content: bytes) -> None:
        """Writes data that a plugin of TensorBoard reads and nobody draws.

        Args:
            plugin: Name of the plugin.
            tag: Tag under which the plugin looks.
            content: Serialized message of the plugin's own format.
        """
        value = self._summary.Value(tag=tag)
        value.metadata.plugin_data.plugin_name = plugin
        value.metadata.plugin_data.content = content
        value.tensor.dtype = 1  # DT_FLOAT, of no elements: the value itself says nothing
        value.tensor.tensor_shape.dim.add(size=0)
        self._add_values([value], 0)

    def add_row(self, row: Mapping[str, Any]) -> None:
        """Writes the numbers of a row of `metrics.jsonl` at its `env_steps`; other values are left out."""
        values = [
            self._summary.Value(tag=tag, simple_value=float(value))
            for tag, value in row.items()
            if isinstance(value, int | float) and tag != "env_steps"
        ]
        self._add_values(values, row["env_steps"])
        if time.monotonic() - self._flushed >= FLUSH_SECONDS:
            self.flush()

    def add_histogram(self, histograms: Mapping[str, Sequence[float]], step: int) -> None:
        """Writes a histogram of the finite values of each tag; tags without any are left out."""
        values = []
        for tag, numbers in histograms.items():
            found = np.asarray(numbers, dtype=np.float64).ravel()
            found = found[np.isfinite(found)]
            if not len(found):
                continue
            counts, edges = np.histogram(found, bins=BINS)
            value = self._summary.Value(tag=tag)
            value.histo.min, value.histo.max = float(found.min()), float(found.max())
            value.histo.num, value.histo.sum = len(found), float(found.sum())
            value.histo.sum_squares = float(np.square(found).sum())
            # a bar is known by its right edge, so an empty one on the left says where the first begins
            value.histo.bucket_limit.extend(edges.tolist())
            value.histo.bucket.extend([0.0, *counts.tolist()])
            values.append(value)
        self._add_values(values, step)

    def flush(self) -> None:
        """Writes everything so far to the file, for readers to see."""
        self._file.flush()
        self._flushed = time.monotonic()

    def close(self) -> None:
        """Flushes and closes the file; a second call does nothing."""
        self._file.close()

    def _add_values(self, values: list[Any], step: int) -> None:
        if values:
            self._add(self._event(wall_time=time.time(), step=step, summary=self._summary(value=values)))

    def _add(self, event: Any) -> None:
        """Writes a record: length, its checksum, the event, its checksum."""
        content: bytes = event.SerializeToString()
        length = struct.pack("<Q", len(content))
        parts = (length, struct.pack("<I", _masked(length)), content, struct.pack("<I", _masked(content)))
        self._file.write(b"".join(parts))


def _masked(content: bytes) -> int:
    """Returns the CRC-32C of bytes, rotated and shifted as the record format demands."""
    table, crc = _table(), 0xFFFFFFFF
    for byte in content:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


@cache
def _table() -> list[int]:
    """Returns the CRC-32C of each byte (Castagnoli's polynomial, bits reversed)."""
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table
