"""Arrays as NumPy writes them, read without pickle and only as far as their bytes go: `read_header`, `array_of`."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import IO

import numpy as np


@dataclass(frozen=True)
class Header:
    """What stands before the numbers of an array.

    Attributes:
        shape: Shape of the array.
        by_columns: Whether its numbers stand in the order of Fortran.
        dtype: Their type.
    """

    shape: tuple[int, ...]
    by_columns: bool
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers; raises a ValueError for objects, which are pickles."""
        if self.dtype.hasobject:
            raise ValueError("Object arrays cannot be loaded when allow_pickle=False")
        return math.prod(self.shape) * self.dtype.itemsize

    def array(self, content: bytes) -> np.ndarray:
        """Returns the array whose numbers these bytes are.

        Raises:
            ValueError: If they are too few, or it is one of objects.
        """
        if len(content) < self.nbytes:
            raise ValueError(f"{len(content):,} bytes of an array of {self.nbytes:,}")
        flat = np.frombuffer(content, self.dtype, math.prod(self.shape))
        return flat.reshape(self.shape[::-1]).T if self.by_columns else flat.reshape(self.shape)


def read_header(file: IO[bytes]) -> Header:
    """Reads the header of an array, up to where its numbers begin.

    Raises:
        ValueError: If there is none.
    """
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        header = Header(*read(file))
    except ValueError:
        raise
    except Exception as error:  # NumPy evaluates the text of a header, which can fail in any way
        raise ValueError(f"a header that cannot be read ({type(error).__name__}: {error})") from None
    if not header.dtype.itemsize or min(header.shape, default=0) < 0:
        raise ValueError(f"an array of {header.dtype} of the shape {header.shape}")
    return header


def array_of(content: bytes) -> np.ndarray:
    """Returns the array of a whole file ``.npy``.

    Raises:
        ValueError: If it is none, or its numbers are not all there.
    """
    file = io.BytesIO(content)
    header = read_header(file)
    return header.array(file.read())
