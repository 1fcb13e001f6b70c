"""Recorded experience in files: batches as lines of JSON, written by `JsonWriter` and read by `JsonReader`."""

from __future__ import annotations

import glob
import json
import os
import random
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from rookery.face import SINGLE, ConfigError, FileError, WriteError, read_line
from rookery_rllib.batch.compression import pack, unpack
from rookery_rllib.batch.sample_batch import MultiAgentBatch, SampleBatch

PACKED = ("obs", "new_obs")


class IOContext:
    def __init__(
        self, log_dir: str | None = None, config: Mapping[str, Any] | None = None, worker_index: int = 0,
        worker: Any = None,
    ) -> None:  # fmt: skip
        self.log_dir = log_dir or os.getcwd()
        self.config = dict(config or {})
        self.worker_index = worker_index
        self.worker = worker


class InputReader:
    def next(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no next()")


class OutputWriter:
    def write(self, sample_batch: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no write()")


class NoopOutput(OutputWriter):
    def write(self, sample_batch: Any) -> None: ...


class JsonWriter(OutputWriter):
    def __init__(
        self, path: str, ioctx: IOContext | None = None, max_file_size: int = 64 * 1024 * 1024,
        compress_columns: Iterable[str] = PACKED,
    ) -> None:  # fmt: skip
        self.ioctx = ioctx or IOContext()
        self.max_file_size, self.compress_columns = max_file_size, tuple(compress_columns)
        self.path = Path(path).expanduser().absolute()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WriteError(f"{self.path} cannot be made: {error.strerror}") from None
        self._file: Path | None = None
        self._number = self._written = 0

    def write(self, sample_batch: Any) -> None:
        if self._file is None or self._written >= self.max_file_size:
            moment = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
            self._file = self.path / f"output-{moment}_worker-{self.ioctx.worker_index}_{self._number}.json"
            self._number, self._written = self._number + 1, 0
        line = json.dumps(self._as_row(sample_batch)) + "\n"
        with self._file.open("a", encoding="utf-8") as file:
            file.write(line)
        self._written += len(line)

    def _as_row(self, batch: Any) -> dict[str, Any]:
        if isinstance(batch, MultiAgentBatch):
            inside = {name: self._columns(part) for name, part in batch.policy_batches.items()}
            return {"type": "MultiAgentBatch", "count": batch.count, "policy_batches": inside}
        return {"type": "SampleBatch", **self._columns(batch)}

    def _columns(self, batch: SampleBatch) -> dict[str, Any]:
        found = {}
        for name, column in batch.items():
            array = np.asarray(column)
            found[name] = pack(array) if name in self.compress_columns and not array.dtype.hasobject else _plain(column)
        return found


def _plain(value: Any) -> Any:
    """Returns a value as JSON; objects without a JSON form become text."""
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value if isinstance(value, int | float | str | None) else str(value)


class JsonReader(InputReader):
    def __init__(self, inputs: str | Sequence[str], ioctx: IOContext | None = None) -> None:
        self.ioctx = ioctx or IOContext()
        if isinstance(inputs, str | os.PathLike):
            place = Path(inputs).expanduser().absolute()
            self.files = sorted(glob.glob(str(place / "*.json" if place.is_dir() else place)))
        else:
            self.files = [str(Path(each).expanduser().absolute()) for each in inputs]
        if not self.files:
            raise FileError(f"there are no files {inputs}: give a file, a directory, a pattern or a list of files")
        self._rng = random.Random(0)  # so that equal runs read files in the same order
        self._lines: Iterator[Any] = iter(())

    def next(self) -> Any:
        for _ in range(2 * len(self.files) + 1):
            batch = next(self._lines, None)
            if batch is not None:
                return batch
            self._lines = batches_in(self._rng.choice(self.files))
        raise FileError(f"there are no batches in {', '.join(self.files)}")

    def read_all_files(self) -> Iterator[Any]:
        for path in self.files:
            yield from batches_in(path)


def batches_in(path: str) -> Iterator[Any]:
    """Yields the batches of a file."""
    with Path(path).open(encoding="utf-8") as file:
        yield from (batch_of(line, path) for line in file if line.strip())


def batch_of(line: str, path: str) -> Any:
    """Returns the batch of a line; raises a ConfigError if a column is a pickle, which is not read."""
    count, parts = read_line(line, path, unpack)
    batches = {
        name: SampleBatch({key: np.array(column) for key, column in part.items()}) for name, part in parts.items()
    }
    return batches[SINGLE] if count is None else MultiAgentBatch(batches, count)


class MixedInput(InputReader):
    def __init__(self, dist: Mapping[Any, float], ioctx: IOContext | None = None) -> None:
        if abs(sum(dist.values()) - 1.0) > 1e-6:
            raise ConfigError(f"MixedInput: probabilities are {list(dist.values())}, must sum to 1")
        self._readers = [each if isinstance(each, InputReader) else JsonReader(each, ioctx) for each in dist]
        self._shares = list(dist.values())
        self._rng = random.Random(0)

    def next(self) -> Any:
        return self._rng.choices(self._readers, self._shares)[0].next()


class ShuffledInput(InputReader):
    def __init__(self, child: InputReader, n: int = 0) -> None:
        self._child, self._size = child, n
        self._kept: list[Any] = []
        self._rng = random.Random(0)

    def next(self) -> Any:
        if self._size <= 1:
            return self._child.next()
        while len(self._kept) < self._size:
            self._kept.append(self._child.next())
        place = self._rng.randrange(self._size)
        found, self._kept[place] = self._kept[place], self._child.next()
        return found


def get_user_temp_dir() -> str:
    return tempfile.gettempdir()
