"""Large arrays as safetensors files that are written piece by piece and read as memory maps.

The format is that of the safetensors library (a header of JSON with the place of each array, then the arrays), which
holds a file in memory as a whole while it writes it. Nothing that is read can run.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rookery.core.errors import RookeryError
from rookery.core.io.files import Stream
from rookery.core.io.json_text import parse_json

TYPES = {
    "BOOL": np.dtype(bool),
    "U8": np.dtype(np.uint8),
    "I8": np.dtype(np.int8),
    "I16": np.dtype("<i2"),
    "U16": np.dtype("<u2"),
    "I32": np.dtype("<i4"),
    "U32": np.dtype("<u4"),
    "I64": np.dtype("<i8"),
    "U64": np.dtype("<u8"),
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
}
"""Types of arrays by their names in such a file."""

NAMES = {dtype: name for name, dtype in TYPES.items()}

METADATA = "__metadata__"
"""Key of the header for texts that describe the file."""

ALIGNMENT = 8
"""Alignment of arrays in bytes, so that a memory map of the file can be viewed as numbers."""

LARGEST_HEADER = 100_000_000
"""Largest header in bytes; a longer one is invalid, as in the safetensors library."""


class ArrayFileError(RookeryError):
    """The content is not a file of arrays."""


def array_stream(arrays: Mapping[str, Sequence[np.ndarray]], metadata: Mapping[str, str]) -> Stream:
    """A safetensors file to be written.

    Args:
        arrays: By name, each in parts that follow each other along the first axis, at least one. They are read when
            the file is written, and must not change before.
        metadata: Texts that describe the file.
    """
    header: dict[str, Any] = {METADATA: dict(metadata)}
    # wide types first, as the library does it: so each array is aligned to its own numbers
    order = sorted(arrays, key=lambda name: (-arrays[name][0].dtype.itemsize, name))
    end = 0
    for name in order:
        parts = arrays[name]
        start, end = end, end + sum(part.nbytes for part in parts)
        shape = [sum(map(len, parts)), *parts[0].shape[1:]]
        header[name] = {"dtype": NAMES[parts[0].dtype], "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT)

    def chunks() -> Iterator[bytes | memoryview]:
        yield struct.pack("<Q", len(text)) + text
        for name in order:
            for part in arrays[name]:
                yield np.ascontiguousarray(part).reshape(-1).view(np.uint8).data

    return Stream(8 + len(text) + end, chunks)


def read_arrays(content: memoryview) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Returns the arrays of a safetensors file, as read-only views of its content, and its metadata.

    Raises:
        ArrayFileError: If it is invalid, or its parts are not contiguous; names the problem.
    """
    try:
        (size,) = struct.unpack_from("<Q", content)
        if not 2 <= size <= min(LARGEST_HEADER, len(content) - 8):
            raise ArrayFileError(f"a header of {size:,} bytes in a file of {len(content):,}")
        header = parse_json(bytes(content[8 : 8 + size]))
        metadata = header.pop(METADATA, {})
        if not all(isinstance(text, str) for text in metadata.values()):
            raise ArrayFileError("metadata that are no texts")
        places = [_place(name, one) for name, one in header.items()]
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ArrayFileError(f"not a safetensors file ({type(error).__name__}: {error})") from None
    data = content[8 + size :]
    arrays, end = {}, 0
    for start, stop, name, dtype, shape in sorted(places, key=lambda place: place[:2]):
        if start != end or stop > len(data):
            raise ArrayFileError(f"{name} lies at bytes {start:,} to {stop:,} of {len(data):,}, not after {end:,}")
        arrays[name] = np.frombuffer(data[start:stop], dtype).reshape(shape)
        end = stop
    if end != len(data):
        raise ArrayFileError(f"{len(data) - end:,} bytes that belong to no array")
    return arrays, metadata


def _place(name: str, entry: Mapping[str, Any]) -> tuple[int, int, str, np.dtype[Any], tuple[int, ...]]:
    """Returns location, type and shape of an array; raises ArrayFileError if they do not match."""
    dtype, shape, (start, stop) = TYPES[entry["dtype"]], tuple(entry["shape"]), entry["data_offsets"]
    if not all(type(number) is int and number >= 0 for number in (*shape, start, stop)):
        raise ArrayFileError(f"{name}: shape {shape} at bytes {start} to {stop}")
    if stop - start != math.prod(shape) * dtype.itemsize:
        raise ArrayFileError(f"{name}: shape {shape} of {dtype} in {stop - start:,} bytes")
    return start, stop, name, dtype, shape
