"""Columns packed into texts: arrays without loss, as Rookery packs them, and the pickles that RLlib makes."""

from __future__ import annotations

import base64
import binascii
import io
import pickle
import zlib
from typing import Any

import numpy as np

from rookery.core.errors import ConfigError

MARK = "rookery-npy:"
"""What a text begins with that is an array and no pickle."""

LZ4 = b"\x04\x22\x4d\x18"
"""What bytes begin with that the package lz4 has made smaller."""


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
    return MARK + base64.b64encode(zlib.compress(file.getvalue(), 1)).decode("ascii")


def unpack(data: str) -> np.ndarray:
    """Returns the array that `pack` was given.

    Raises:
        ConfigError: If the text was not packed here: RLlib packs pickles, which can run code and are not read.
    """
    if not isinstance(data, str) or not data.startswith(MARK):
        raise ConfigError(
            "this column was packed by RLlib as a pickle, which is not read because it can run code; write the "
            "batches anew there without compression (output_compress_columns: [])"
        )
    raw = zlib.decompress(base64.b64decode(data[len(MARK) :]))
    array: np.ndarray = np.load(io.BytesIO(raw), allow_pickle=False)
    return array


def unpack_trusted(data: str) -> Any:
    """Returns what a text holds, also where it is a pickle, which can run any code: for files of people one trusts.

    Raises:
        ConfigError: If it cannot be read, or needs the package lz4.
    """
    if data.startswith(MARK):
        return unpack(data)
    try:
        raw = base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise ConfigError(f"this column is a text that is no packed column ({error})") from None
    if raw.startswith(LZ4):
        try:
            from lz4.frame import decompress
        except ImportError:
            raise ConfigError(
                "this column was made smaller with lz4, which is not installed: pip install lz4"
            ) from None
        raw = decompress(raw)
    try:
        return pickle.loads(raw)
    except Exception as error:  # whatever loading a pickle raises
        raise ConfigError(f"this column is no pickle that can be read ({type(error).__name__}: {error})") from None
