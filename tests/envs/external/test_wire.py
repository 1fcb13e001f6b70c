import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.envs.external.client import DTYPES, MessageError, pack, unpack
from rookery.envs.external.wire import MAX_TEXT, MessageReader

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, st.lists(st.integers(1, 60), max_size=20))
def test_messages_come_back_however_they_are_cut(value, cuts):
    packed, reader = pack({"value": value}) * 2, MessageReader(1 << 20)
    found, at = [], 0
    for cut in [*cuts, len(packed)]:
        found += reader.feed(packed[at : at + cut])
        at += cut
    assert found == [{"value": value}] * 2 and reader.is_between


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_come_back_with_their_types_and_shapes(dtype):
    rng = np.random.default_rng(0)
    arrays = [(rng.random(shape) * 100).astype(dtype) for shape in ((3,), (2, 0, 4), (2, 3, 4), (1,))]
    found = unpack(pack({"tree": {"a": arrays[:2], "b": (arrays[2], arrays[3].astype(dtype).T)}})[8:])["tree"]
    for before, after in zip(arrays, [*found["a"], *found["b"]], strict=True):
        assert after.dtype == before.dtype and after.shape == before.shape and (after == before).all()
        after[...] = 0  # it belongs to no other process


def test_numbers_of_numpy_are_numbers_and_other_things_are_refused():
    assert unpack(pack({"a": np.float32(0.5), "b": np.array(3), "c": np.bool_(True)})[8:]) == {
        "a": 0.5,
        "b": 3,
        "c": True,
    }
    for wrong in (object(), b"bytes", {1, 2}, np.array(["text"]), np.array([None])):
        with pytest.raises(MessageError):
            pack({"value": wrong})


def test_the_bytes_are_those_of_the_page():
    text = b'{"op":"get_action","obs":{"$array":0},"arrays":[["float32",[2]]]}'
    packed = pack({"op": "get_action", "obs": np.array([1.0, -2.0], np.float32)})
    assert packed == struct.pack("<QI", 4 + len(text) + 8, len(text)) + text + bytes.fromhex("0000803f000000c0")


def framed(text, raw=b""):
    text = text if isinstance(text, bytes) else json.dumps(text).encode()
    return struct.pack("<QI", 4 + len(text) + len(raw), len(text)) + text + raw


@pytest.mark.parametrize(
    ("packed", "wanted"),
    [
        (struct.pack("<Q", 2**40), "1,099,511,627,776 bytes, where"),
        (struct.pack("<Q", 2**64 - 1), "where 1,048,576 are the limit"),
        (struct.pack("<Q", 3) + b"abc", "without the length"),
        (struct.pack("<QI", 10, 100) + b"123456", "a text of 100 bytes"),
        (struct.pack("<QI", 10, MAX_TEXT + 1), "longer than"),
        (framed(b"\xff\xfe"), "not JSON"),
        (framed(b"[" * 100_000), "not JSON|nested"),
        (framed(b'{"a":' * 300 + b"1" + b"}" * 300), ""),
        (framed(b"[1]"), "expected an object"),
        (framed(b'{"a":' + b"9" * 5000 + b"}"), "not JSON"),
        (framed({"arrays": 3}), "expected a list"),
        (framed({"arrays": [["float32", [2**40, 2**20]]]}), "are left in the message"),
        (framed({"arrays": [["float64", [0, 2**47, 2**47]]]}), "an array of shape"),
        (framed({"arrays": [["uint8", [2**47] * 7 + [0]]]}), "an array of shape"),
        (framed({"arrays": [["object", [1]]]}, b"x" * 8), "an array is described as"),
        (framed({"arrays": [["float32", [-1]]]}), "an array is described as"),
        (framed({"arrays": [["float32", [True]]]}), "an array is described as"),
        (framed({"arrays": [["float32", [1] * 9]]}, b"1234"), "an array is described as"),
        (framed({"arrays": [["float32", [1]]]}, b"12345"), "1 bytes after the last"),
        (framed({"a": {"$array": 0}, "arrays": []}), "array 0 of a message that has 0"),
        (framed({"a": {"$array": "x" * 1000}, "arrays": []}), "of a message that has 0"),
    ],
)
def test_what_is_no_message_is_refused_in_words(packed, wanted):
    if not wanted:
        MessageReader(1 << 20).feed(packed)
        return
    with pytest.raises(MessageError, match=wanted) as caught:
        MessageReader(1 << 20).feed(packed)
    assert len(str(caught.value)) < 300


@given(st.binary(max_size=200), st.integers(0, 80), st.integers(0, 255))
def test_garbage_ends_in_an_error_of_ours_or_in_waiting(garbage, place, byte):
    packed = bytearray(pack({"op": "x", "obs": np.arange(6.0), "tree": [1, {"a": None}]}))
    packed[place] = byte
    for message in (garbage, bytes(packed), bytes(packed) + garbage):
        try:
            MessageReader(1 << 16).feed(message)
        except MessageError:
            pass
