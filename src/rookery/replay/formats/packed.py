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
from rookery.core.io.files import FileError
from rookery.replay.formats.growth import Growth
from rookery.replay.formats.npy import array_of

MARK = "rookery-npy:"
"""What a text begins with that is an array and no pickle."""

LZ4 = b"\x04\x22\x4d\x18"
"""What bytes begin with that the package lz4 has made smaller."""


class PackedError(FileError):
    """A packed column is damaged."""


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


def unpack(data: str, growth: Growth | None = None) -> np.ndarray:
    """Returns the array that `pack` was given.

    Args:
        data: The text.
        growth: Counts what is unpacked of the file that it stands in; None = it is a file of its own.

    Raises:
        ConfigError: If the text was not packed here: RLlib packs pickles, which can run code and are not read.
        FileError: If it is damaged, or too large.
    """
    if not isinstance(data, str) or not data.startswith(MARK):
        raise ConfigError(
            "this column was packed by RLlib as a pickle, which is not read because it can run code; write the "
            "batches anew there without compression (output_compress_columns: [])"
        )
    growth = growth or Growth("a packed column", len(data))
    try:
        inflating = zlib.decompressobj()
        raw = inflating.decompress(base64.b64decode(data[len(MARK) :]), growth.left + 1)
        growth.take(len(raw))
        if not inflating.eof:
            raise ValueError("it ends too early")
        return array_of(raw)
    except (ValueError, zlib.error) as error:
        raise PackedError(f"a packed column is damaged ({error})") from None


def unpack_trusted(data: str, growth: Growth | None = None) -> Any:
    """Returns what a text holds, also where it is a pickle, which can run any code: for files of people one trusts.

    Args:
        data: The text.
        growth: Counts what is unpacked of the file that it stands in; None = it is a file of its own.

    Raises:
        ConfigError: If it cannot be read, or needs the package lz4.
        FileError: If it is damaged, or too large.
    """
    if data.startswith(MARK):
        return unpack(data, growth)
    growth = growth or Growth("a packed column", len(data))
    try:
        raw = base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise ConfigError(f"this column is a text that is no packed column ({error})") from None
    if raw.startswith(LZ4):
        try:
            from lz4.frame import LZ4FrameDecompressor
        except ImportError:
            raise ConfigError(
                "this column was made smaller with lz4, which is not installed: pip install lz4"
            ) from None
        try:
            raw = LZ4FrameDecompressor().decompress(raw, max_length=growth.left + 1)
        except (RuntimeError, EOFError) as error:
            raise PackedError(f"a column that lz4 has packed is damaged ({error})") from None
        growth.take(len(raw))
    try:
        return pickle.loads(raw)
    except Exception as error:  # whatever loading a pickle raises
        raise ConfigError(f"this column is no pickle that can be read ({type(error).__name__}: {error})") from None
