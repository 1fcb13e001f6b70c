"""Lossless compression of columns: an array as deflated bytes in a text."""

from __future__ import annotations

from typing import Any

import numpy as np

from rookery.face import pack as pack
from rookery.face import unpack as unpack


def compression_supported() -> bool:
    return True


def pack_if_needed(data: Any) -> Any:
    return pack(data) if isinstance(data, np.ndarray) else data


def unpack_if_needed(data: Any) -> Any:
    """Unpacks a text or bytes; raises a ConfigError if it is not a packed column."""
    return unpack(data) if is_compressed(data) else data


def is_compressed(data: Any) -> bool:
    """Returns whether a value is compressed: any text and any bytes are, as in 2021."""
    return isinstance(data, bytes | str)
