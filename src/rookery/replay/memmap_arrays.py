"""Memory-mapped arrays of replay buffers that are larger than their limit of RAM.

The files have no names and end with the buffer. Sampling reads the mapped arrays like any others; pages that were read
count as RAM of this process until they are released, which happens before they may reach the limit.
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
"""Bytes around a row that the operating system maps with it: the largest cost of reading one row."""


class MemmapArrays:
    """Allocates the arrays of a buffer: in RAM while they fit into half of a limit, the others in files.

    Args:
        limit: Bytes of RAM that the arrays may take; None = no limit, all in RAM.

    Attributes:
        limit: The limit.
        in_files: Bytes in files.
    """

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.in_files = 0
        self._room = 0 if limit is None else limit // 2
        self._maps: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()
        self._beside: list[object] = []
        self._row = 0  # largest cost in bytes of reading one row from all files
        self._seen = 0  # largest number of bytes read since the last release

    def empty(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Returns an uninitialized array ``[rows, ...]``.

        Raises:
            ConfigError: If the disk has no room for it; names the folder.
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
    def page_budget(self) -> int:
        """Largest number of bytes of mapped pages in RAM."""
        return 0 if self.limit is None else self.limit // 4 + self._room

    def rows_at_once(self, row_bytes: int) -> int | None:
        """Returns the number of rows of a size to write before their pages are released; None = no limit."""
        return max(self.page_budget // (4 * max(row_bytes, 1)), 1) if self._maps else None

    def note_reads(self, rows: int) -> None:
        """Records that rows are about to be read, and releases pages before they are too many."""
        if self.limit is None or not self._maps:
            return
        size = min(rows * self._row, self.in_files)
        if self._seen + size > self.page_budget:
            self.release_pages()
        self._seen += size

    def release_pages(self) -> None:
        """Releases all pages; their contents stay in the files."""
        self._seen = 0
        for mapped in (*self._maps, *self._beside):
            release(mapped)

    @contextlib.contextmanager
    def reading(self, mapped: object) -> Iterator[None]:
        """Also releases the pages of another map, from which rows are copied within the context."""
        self._beside.append(mapped)
        try:
            yield
        finally:
            self._beside.pop()
            if self._maps:
                release(mapped)


def _mapped(size: int) -> mmap.mmap:
    """Returns a map of a new unnamed file, whose disk space is allocated at once."""
    folder = tempfile.gettempdir()
    try:
        with tempfile.TemporaryFile(dir=folder, prefix="rookery-replay-") as file:
            if hasattr(os, "posix_fallocate"):  # writing a hole on a full disk would end the process by a signal
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
            mapped = mmap.mmap(file.fileno(), size)
    except OSError as error:
        free = shutil.disk_usage(folder).free
        raise ConfigError(
            f"replay.memory_mb: {size / 1e9:.3g} GB of rows need space in {folder}, where {free / 1e9:.3g} GB are free "
            f"({error.strerror or error}); set TMPDIR to a folder with more room, or replay.capacity to fewer rows"
        ) from None
    if hasattr(mmap, "MADV_RANDOM"):  # else the system reads ahead, and maps large parts for one row
        mapped.madvise(mmap.MADV_RANDOM)
    return mapped
