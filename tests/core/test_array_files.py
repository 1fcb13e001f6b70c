"""Files of arrays: the safetensors library reads what is written, and what is no such file is refused in words."""

from __future__ import annotations

import json
import random
import struct

import numpy as np
import pytest
from safetensors.numpy import load, save

from rookery.core.io.array_files import NAMES, ArrayFileError, array_stream, read_arrays

RNG = np.random.default_rng(3)
EXAMPLE = {
    **{f"a {name}": RNG.integers(0, 2, (3, 2)).astype(dtype) for dtype, name in NAMES.items()},
    "none": np.zeros((0, 4), np.float32),
    "camera/left": RNG.integers(0, 256, (5, 3, 3), dtype=np.uint8),
}


def written(arrays, metadata=None):
    """The bytes of a file."""
    stream = array_stream({name: [array] for name, array in arrays.items()}, metadata or {})
    content = b"".join(bytes(piece) for piece in stream.chunks())
    assert len(content) == stream.size
    return content


def equal(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert (array.dtype, array.shape) == (other[name].dtype, other[name].shape), name
        assert array.tobytes() == other[name].tobytes(), name


def test_the_library_reads_what_is_written_and_the_other_way_round():
    equal(load(written(EXAMPLE, {"format": "x"})), EXAMPLE)
    arrays, metadata = read_arrays(memoryview(save(EXAMPLE, {"format": "x"})))
    equal(arrays, EXAMPLE)
    assert metadata == {"format": "x"}


def test_parts_follow_each_other_without_being_joined():
    long = RNG.normal(size=(10, 3))
    stream = array_stream({"long": [long[:4], long[4:4], long[4:]], "bits": [np.array([True]), np.array([False])]}, {})
    arrays, _ = read_arrays(memoryview(b"".join(bytes(piece) for piece in stream.chunks())))
    equal(arrays, {"long": long, "bits": np.array([True, False])})


def test_parts_that_are_not_contiguous_are_written_in_their_order():
    grid = np.arange(24).reshape(4, 6)
    equal(read_arrays(memoryview(written({"a": grid[:, ::2], "b": grid.T})))[0], {"a": grid[:, ::2], "b": grid.T})


def test_what_is_read_cannot_be_written_to_and_is_no_copy():
    content = written(EXAMPLE)
    arrays, _ = read_arrays(memoryview(content))
    with pytest.raises(ValueError, match="read-only"):
        arrays["camera/left"][0] = 0
    start = content.index(EXAMPLE["camera/left"].tobytes())
    inside = np.frombuffer(content, np.uint8)
    assert arrays["camera/left"].ctypes.data == inside.ctypes.data + start


def file_of(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


PLACE = {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}


@pytest.mark.parametrize(
    "content",
    [
        b"", b"1234567", b"\xff" * 64, b"PK\x03\x04" + bytes(60), b"\x80\x04\x95" + bytes(20),
        struct.pack("<Q", 1 << 40) + b"{}", file_of(b"{"), file_of([]), file_of({"a": 3}), file_of({"a": {}}),
        file_of(b"[" * 100_000),
        file_of({"a": PLACE}), file_of({"a": PLACE}, b"123"), file_of({"a": PLACE}, b"12345"),
        file_of({"a": {**PLACE, "dtype": "object"}}, b"1234"),
        file_of({"a": {**PLACE, "shape": [2]}}, b"1234"),
        file_of({"a": {**PLACE, "shape": [-4]}}, b"1234"),
        file_of({"a": {**PLACE, "shape": [True, 4]}}, b"1234"),
        file_of({"a": {**PLACE, "shape": [1 << 40, 1 << 40]}}, b"1234"),
        file_of({"a": {**PLACE, "shape": [4.0]}}, b"1234"),
        file_of({"a": {**PLACE, "data_offsets": [0, 4, 4]}}, b"1234"),
        file_of({"a": {**PLACE, "data_offsets": [1, 5]}}, b"12345"),
        file_of({"a": PLACE, "b": PLACE}, b"1234"),  # two arrays in one place
        file_of({"__metadata__": {"a": 3}}),
    ],
    ids=lambda content: repr(content[:40]),
)  # fmt: skip
def test_what_is_no_such_file_is_refused_in_words(content):
    with pytest.raises(ArrayFileError):
        read_arrays(memoryview(content))


def test_random_damage_gives_arrays_or_an_error_of_ours():
    rng, content = random.Random(5), written(EXAMPLE, {"format": "x"})
    header = 8 + struct.unpack_from("<Q", content)[0]
    refused = 0
    for _ in range(2000):
        changed = bytearray(content)
        bit = rng.randrange(8 * header)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            read_arrays(memoryview(bytes(changed)))
        except ArrayFileError:
            refused += 1
    assert refused > 1000
