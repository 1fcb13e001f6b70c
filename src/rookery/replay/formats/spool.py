"""Spooled columns: data of a sequential file, copied to temporary binary files for random access to rows.

They are in the folder for temporary files (``TMPDIR``) as long as they are referenced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

import numpy as np


class SpooledColumn:
    """A column in a temporary file, in parts of possibly different types and equal row shape.

    Args:
        path: The file to create.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._parts: list[tuple[np.dtype, int]] = []  # type and offset in the file of each
        self._starts = [0]
        self._size = 0
        self._shape: tuple[int, ...] = ()
        self._open: BinaryIO | None = None

    def __len__(self) -> int:
        return self._starts[-1]

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows and shape of a row."""
        return (len(self), *self._shape)

    @property
    def dtype(self) -> np.dtype:
        """Common type of all parts."""
        return np.result_type(*dict.fromkeys(dtype for dtype, _ in self._parts)) if self._parts else np.dtype(float)

    def append(self, rows: np.ndarray) -> None:
        """Adds rows, ``[n, ...]``.

        Raises:
            ValueError: If their shape differs from earlier ones.
        """
        if self._parts and rows.shape[1:] != self._shape:
            raise ValueError(f"rows of shape {rows.shape[1:]} after rows of shape {self._shape}")
        if self._open is None:
            self._open = self._path.open("wb")
        self._shape = rows.shape[1:]
        self._parts.append((rows.dtype, self._size))
        self._starts.append(len(self) + len(rows))
        self._open.write(np.ascontiguousarray(rows).data)
        self._size += rows.nbytes

    def close(self) -> None:
        """Closes the file for writing."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Reads rows from ``start`` to ``stop``."""
        start, stop, _ = rows.indices(len(self))
        found = np.empty((max(stop - start, 0), *self._shape), self.dtype)
        first = int(np.searchsorted(self._starts, start, "right")) - 1
        with self._path.open("rb") as file:
            for number in range(first, len(self._parts)):
                begin, end = self._starts[number], self._starts[number + 1]
                if begin >= stop:
                    break
                dtype, place = self._parts[number]
                low, high = max(start, begin), min(stop, end)
                width = int(np.prod(self._shape, dtype=np.int64))
                file.seek(place + (low - begin) * width * dtype.itemsize)
                flat = np.fromfile(file, dtype, (high - low) * width)
                found[low - start : high - start] = flat.reshape(high - low, *self._shape)
        return found


class SpooledColumns:
    """Spooled columns by name."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="rookery-import-")
        self.columns: dict[str, SpooledColumn] = {}

    def append(self, name: str, rows: np.ndarray) -> None:
        """Adds rows to a column; raises a ValueError if their shape differs from earlier ones."""
        if name not in self.columns:
            self.columns[name] = SpooledColumn(Path(self._folder.name) / str(len(self.columns)))
        self.columns[name].append(rows)

    def close(self) -> None:
        """Closes all columns."""
        for column in self.columns.values():
            column.close()

    @contextmanager
    def opened(self) -> Iterator[Mapping[str, SpooledColumn]]:
        """Yields the columns by name."""
        yield self.columns
