"""Columns of batches packed without loss: an array as deflated bytes in a text."""

from __future__ import annotations

import base64
import io
import zlib
from typing import Any

import numpy as np

from rookery.core.errors import ConfigError

_MARK = "rookery-npy:"


def compression_supported() -> bool:
    """Says that packing is possible, which it always is."""
    return True


def pack(data: Any) -> str:
    """Packs an array, or what becomes one, into a text.

    Args:
        data: Numbers, flags or texts in any shape.

    Raises:
        ValueError: If it has objects in it.
    """
    array = np.asarray(data)
    if array.dtype.hasobject:
        raise ValueError(f"only arrays of numbers can be packed, this one has the type {array.dtype}")
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return _MARK + base64.b64encode(zlib.compress(file.getvalue(), 1)).decode("ascii")


def unpack(data: str) -> np.ndarray:
    """Returns the array that `pack` was given.

    Raises:
        ConfigError: If the text was not packed here: RLlib packs pickles, which can run code and are not read.
    """
    if not isinstance(data, str) or not data.startswith(_MARK):
        raise ConfigError(
            "this column was packed by RLlib as a pickle, which is not read because it can run code; write the "
            "batches anew there without compression (output_compress_columns: [])"
        )
    raw = zlib.decompress(base64.b64decode(data[len(_MARK) :]))
    array: np.ndarray = np.load(io.BytesIO(raw), allow_pickle=False)
    return array


def pack_if_needed(data: Any) -> Any:
    """Packs an array; all else stays as it is."""
    return pack(data) if isinstance(data, np.ndarray) else data


def unpack_if_needed(data: Any) -> Any:
    """Unpacks what is packed; all else stays as it is."""
    return unpack(data) if is_compressed(data) else data


def is_compressed(data: Any) -> bool:
    """Says whether something is packed: whether it is a text."""
    return isinstance(data, bytes | str)
