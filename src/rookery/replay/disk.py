"""Rows of a replay buffer on the disk: one that is larger than the RAM it may take keeps its large arrays in files.

The files have no names and are gone when the buffer is. They are mapped, so that whoever draws from a buffer reads
arrays as ever; pages that were looked at count as RAM of this process until they are given back, which happens
whenever they may have come to the limit.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from rookery.core.errors import ConfigError
from rookery.core.io.files import release

AROUND = 1 << 16
"""Bytes around a row that the operating system maps with it: what a row that is drawn alone takes at most."""


class Shelf:
    """Makes the arrays of a buffer: in RAM while they fit into half of a limit, the others in files.

    Args:
        limit: Bytes of RAM that the arrays may take; None = any, and all lie in RAM.

    Attributes:
        limit: See above.
        in_files: Bytes that lie in files.
    """

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.in_files = 0
        self._room = 0 if limit is None else limit // 2
        self._maps: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()
        self._beside: list[object] = []
        self._row = 0  # bytes that a row, looked at alone, takes at most in all files
        self._seen = 0  # bytes that were looked at, at most, since they were last given back

    def empty(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Makes an array ``[rows, ...]`` of any content.

        Raises:
            ConfigError: If the disk has no room for it; says where it was to lie.
        """
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        if self.limit is None or size <= self._room or not size:
            self._room -= size
            return np.empty(shape, dtype)
        mapped = _mapped(size)
        self._maps.add(mapped)
        self.in_files += size
        self._row += min(size // shape[0] + AROUND, size)
        return np.frombuffer(mapped, dtype).reshape(shape)

    @property
    def left(self) -> int:
        """Bytes of pages that may be in RAM at a time."""
        return 0 if self.limit is None else self.limit // 4 + self._room

    def rows_at_once(self, row_bytes: int) -> int | None:
        """Says how many rows of so many bytes are to be written before their pages are given back; None = any."""
        return max(self.left // (4 * max(row_bytes, 1)), 1) if self._maps else None

    def look(self, rows: int) -> None:
        """Takes note that so many rows are about to be looked at, and gives pages back before they are too many."""
        if self.limit is None or not self._maps:
            return
        size = min(rows * self._row, self.in_files)
        if self._seen + size > self.left:
            self.give_back()
        self._seen += size

    def give_back(self) -> None:
        """Lets go of all pages; what was written to them is in the files."""
        self._seen = 0
        for mapped in (*self._maps, *self._beside):
            release(mapped)

    @contextlib.contextmanager
    def reading(self, mapped: object) -> Iterator[None]:
        """Lets go of the pages of this map too, from which rows are copied meanwhile."""
        self._beside.append(mapped)
        try:
            yield
        finally:
            self._beside.pop()
            if self._maps:
                release(mapped)


def _mapped(size: int) -> mmap.mmap:
    """A map of a new file without a name, whose place on the disk is taken at once."""
    folder = tempfile.gettempdir()
    try:
        with tempfile.TemporaryFile(dir=folder, prefix="rookery-replay-") as file:
            if hasattr(os, "posix_fallocate"):  # a file with holes would fail when one is written, with a signal
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
            mapped = mmap.mmap(file.fileno(), size)
    except OSError as error:
        free = shutil.disk_usage(folder).free
        raise ConfigError(
            f"replay.memory_mb: {size / 1e9:.3g} GB of rows are to lie in {folder}, where {free / 1e9:.3g} GB are free "
            f"({error.strerror or error}); set TMPDIR to a folder with more room, or replay.capacity to fewer rows"
        ) from None
    if hasattr(mmap, "MADV_RANDOM"):  # else the system keeps large pieces of the file, and maps all of one for a row
        mapped.madvise(mmap.MADV_RANDOM)
    return mapped
