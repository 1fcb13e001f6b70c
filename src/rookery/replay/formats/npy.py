"""Arrays in NumPy's format, read without pickle and with a check of their size: `read_header`, `array_of`."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import IO

import numpy as np


@dataclass(frozen=True)
class Header:
    """Header of an array.

    Attributes:
        shape: Shape of the array.
        by_columns: Whether its values are in Fortran order.
        dtype: Type of the values.
    """

    shape: tuple[int, ...]
    by_columns: bool
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        """Size of the values in bytes; raises a ValueError for objects, which are pickles."""
        if self.dtype.hasobject:
            raise ValueError("Object arrays cannot be loaded when allow_pickle=False")
        return math.prod(self.shape) * self.dtype.itemsize

    def array(self, content: bytes) -> np.ndarray:
        """Returns the array of these bytes.

        Raises:
            ValueError: If they are too few, or the array contains objects.
        """
        if len(content) < self.nbytes:
            raise ValueError(f"{len(content):,} bytes of an array of {self.nbytes:,}")
        flat = np.frombuffer(content, self.dtype, math.prod(self.shape))
        return flat.reshape(self.shape[::-1]).T if self.by_columns else flat.reshape(self.shape)


def read_header(file: IO[bytes]) -> Header:
    """Reads the header of an array, up to its values.

    Raises:
        ValueError: If there is none.
    """
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        header = Header(*read(file))
    except ValueError:
        raise
    except Exception as error:  # NumPy evaluates the text of a header, which can raise any error
        raise ValueError(f"a header that cannot be read ({type(error).__name__}: {error})") from None
    if not header.dtype.itemsize or min(header.shape, default=0) < 0:
        raise ValueError(f"an array of {header.dtype} of the shape {header.shape}")
    return header


def array_of(content: bytes) -> np.ndarray:
    """Returns the array of a complete file ``.npy``.

    Raises:
        ValueError: If it is not an array, or is incomplete.
    """
    file = io.BytesIO(content)
    header = read_header(file)
    return header.array(file.read())
