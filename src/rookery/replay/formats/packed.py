"""Columns packed into texts: arrays as Rookery packs them, and RLlib's pickles."""

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
"""Prefix of a text with an array instead of a pickle."""

LZ4 = b"\x04\x22\x4d\x18"
"""First bytes of data compressed by the package lz4."""


class PackedError(FileError):
    """A packed column is damaged."""


def pack(data: Any) -> str:
    """Packs an array into a text.

    Args:
        data: Numbers, flags or texts in any shape.

    Raises:
        ValueError: If it contains objects.
    """
    array = np.asarray(data)
    if array.dtype.hasobject:
        raise ValueError(f"only arrays of numbers can be packed, this one has the type {array.dtype}")
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return MARK + base64.b64encode(zlib.compress(file.getvalue(), 1)).decode("ascii")


def unpack(data: str, growth: Growth | None = None) -> np.ndarray:
    """Returns the array of a text of `pack`.

    Args:
        data: The text.
        growth: Counter of unpacked bytes of the file; None = the text is its own file.

    Raises:
        ConfigError: If the text was not packed by Rookery: RLlib packs pickles, which can run code and are not read.
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
    """Returns the content of a text, which may be a pickle that can run any code: only for trusted files.

    Args:
        data: The text.
        growth: Counter of unpacked bytes of the file; None = the text is its own file.

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
        raise ConfigError(f"this column is a text but not a packed column ({error})") from None
    if raw.startswith(LZ4):
        try:
            from lz4.frame import LZ4FrameDecompressor
        except ImportError:
            raise ConfigError("this column was compressed with lz4, which is not installed: pip install lz4") from None
        try:
            raw = LZ4FrameDecompressor().decompress(raw, max_length=growth.left + 1)
        except (RuntimeError, EOFError) as error:
            raise PackedError(f"a column compressed with lz4 is damaged ({error})") from None
        growth.take(len(raw))
    try:
        return pickle.loads(raw)
    except Exception as error:  # any error of loading a pickle
        raise ConfigError(f"this column cannot be read as a pickle ({type(error).__name__}: {error})") from None
