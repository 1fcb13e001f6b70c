"""TensorBoard writer: scalars, histograms and texts over steps, and the HParams page of an experiment.

Tags are the keys of `metrics.jsonl`. Events are written here, record by record, instead of by TensorBoard's own writer,
which loads TensorFlow if it is installed, and buffers events in a thread.

The HParams page shows parameters of an experiment beside metrics, one line a trial. It reads three messages: the
experiment, in its folder, lists parameters and metrics; in the folder of each trial, the start of its session holds the
chosen values, and the end its status. Repeats over seeds are one group, of which the page shows the mean. A trial
appears when it has ended: readers of an event file never return to an older one, so a file beside that of a running
training would hide later events.
"""

from __future__ import annotations

import itertools
import os
import socket
import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from rookery.core.io.files import WriteError
from rookery.report.experiment import format_value, is_number, short_names
from rookery.report.metrics_file import read_rows

FLUSH_SECONDS = 10.0
"""Longest time between two flushes."""

BINS = 30
"""Number of bars of a histogram."""

_numbers = itertools.count()


class TensorBoard:
    """Event file in the folder of a run. A resumed run adds a file, and `resume` hides the steps that are repeated."""

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
        """Makes readers discard events after `step` in earlier files of the folder."""
        log = self._session(status=self._session.START)
        self._add(self._event(wall_time=time.time(), step=step + 1, session_log=log))

    def add_hparams(self, kind: str, message: Any) -> None:
        """Writes a message for the HParams page: ``experiment``, ``session_start_info`` or ``session_end_info``."""
        from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

        value = self._summary.Value(tag=f"_hparams_/{kind}")
        value.metadata.plugin_data.plugin_name = "hparams"
        value.metadata.plugin_data.content = HParamsPluginData(version=0, **{kind: message}).SerializeToString()
        value.tensor.dtype = 1  # DT_FLOAT, without elements: the value itself is empty
        value.tensor.tensor_shape.dim.add(size=0)
        self._add_values([value], 0)

    def add_row(self, row: Mapping[str, Any], step: int) -> None:
        """Writes the numbers of a row of `metrics.jsonl` at a step; other values, and `env_steps`, are left out."""
        values = [
            self._summary.Value(tag=tag, simple_value=float(value))
            for tag, value in row.items()
            if isinstance(value, int | float) and tag != "env_steps"
        ]
        self._add_values(values, step)
        if time.monotonic() - self._flushed >= FLUSH_SECONDS:
            self.flush()

    def add_text(self, tag: str, text: str, step: int) -> None:
        """Writes a text, in Markdown, for the Text page."""
        value = self._summary.Value(tag=tag)
        value.metadata.plugin_data.plugin_name = "text"
        value.tensor.dtype = 7  # DT_STRING
        value.tensor.tensor_shape.dim.add(size=1)
        value.tensor.string_val.append(text.encode())
        self._add_values([value], step)

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
            # a bar is given by its right edge, so an empty bar on the left gives the first left edge
            value.histo.bucket_limit.extend(edges.tolist())
            value.histo.bucket.extend([0.0, *counts.tolist()])
            values.append(value)
        self._add_values(values, step)

    def flush(self) -> None:
        """Flushes all events so far to the file."""
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
    """Returns the CRC-32C of bytes, masked as in the record format."""
    table, crc = _table(), 0xFFFFFFFF
    for byte in content:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


@cache
def _table() -> list[int]:
    """Returns the CRC-32C of each byte (Castagnoli's polynomial, bits reversed)."""
    table = list(range(256))
    for _ in range(8):
        table = [(crc >> 1) ^ (0x82F63B78 if crc & 1 else 0) for crc in table]
    return table


# --- the HParams page -------------------------------------------------------------------------------------------------


def write_experiment(folder: Path, space: Mapping[str, Mapping[str, Any]], metrics: Iterable[str]) -> None:
    """Writes the parameters (with descriptions of their domains) and metrics of an experiment into its folder.

    Raises:
        FileError: If the disk is full.
    """
    from tensorboard.plugins.hparams.api_pb2 import DataType, Experiment, HParamInfo, MetricInfo, MetricName

    message = Experiment(time_created_secs=time.time())
    for path, name in short_names(space).items():
        ((kind, arguments),) = space[path].items()
        numeric = _is_numeric(space[path])
        info = HParamInfo(name=name, description=path)
        info.type = DataType.DATA_TYPE_FLOAT64 if numeric else DataType.DATA_TYPE_STRING
        for value in arguments if kind in ("choice", "grid_search") else ():
            _set(info.domain_discrete.values.add(), value, numeric)
        if "uniform" in kind or "randint" in kind:
            info.domain_interval.min_value, info.domain_interval.max_value = arguments[:2]
        message.hparam_infos.append(info)
    for metric in metrics:
        message.metric_infos.append(MetricInfo(name=MetricName(tag=metric.replace(".", "/")), display_name=metric))
    _write(folder, {"experiment": message})


def write_session(
    folder: Path, number: int, params: Mapping[str, Any], failed: bool, space: Mapping[str, Mapping[str, Any]]
) -> None:
    """Writes the parameters and status of a trial; and its rows, unless the trial is a training that wrote them itself.

    Raises:
        FileError: If the disk is full.
    """
    from tensorboard.plugins.hparams.api_pb2 import Status
    from tensorboard.plugins.hparams.plugin_data_pb2 import SessionEndInfo, SessionStartInfo

    began = (folder / "params.json").stat().st_mtime
    start = SessionStartInfo(group_name=f"{number:05d}", start_time_secs=began)
    for path, name in short_names(space).items():
        if path in params:
            _set(start.hparams[name], params[path], _is_numeric(space[path]))
    status = Status.STATUS_FAILURE if failed else Status.STATUS_SUCCESS
    end = SessionEndInfo(status=status, end_time_secs=time.time())
    rows = [] if any(folder.glob("events.out.tfevents.*")) else read_rows(folder)
    _write(folder, {"session_start_info": start, "session_end_info": end}, rows)


def _set(target: Any, value: Any, numeric: bool) -> None:
    """Sets a message's value, a number or a text."""
    if numeric and is_number(value):
        target.number_value = value
    else:
        target.string_value = format_value(value)


def _is_numeric(description: Mapping[str, Any]) -> bool:
    """Returns whether all values of a domain are numbers."""
    ((kind, arguments),) = description.items()
    return all(map(is_number, arguments)) if kind in ("choice", "grid_search") else kind != "sample_from"


def _write(folder: Path, messages: Mapping[str, Any], rows: Sequence[Mapping[str, Any]] = ()) -> None:
    try:
        board = TensorBoard(folder)
        for kind, message in messages.items():
            board.add_hparams(kind, message)
        for row in rows:
            board.add_row(row, row.get("env_steps", row["iteration"]))
        board.close()
    except OSError as error:
        raise WriteError(f"{folder}: TensorBoard's file cannot be written: {error.strerror}") from None
