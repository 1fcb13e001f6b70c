"""State comes back as it was, whatever it is made of; and nothing that is read can run."""

from __future__ import annotations

import json
import math
import pickle
import sys
from collections import OrderedDict, deque, namedtuple
from fractions import Fraction

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.core.io.encoding import TAG, EncodingError, decode, encode


def again(tree):
    """Returns a value after a round trip through text."""
    structure, stored = encode(tree)
    return decode(json.loads(json.dumps(structure)), stored)


def same(a, b):
    """Equal in type, order, type of numbers and every bit."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and bytes_of(a) == bytes_of(b)
    if isinstance(a, np.ndarray | np.generic):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return len(a) == len(b) and all(
            same(k, m) and same(v, w) for (k, v), (m, w) in zip(a.items(), b.items(), strict=True)
        )
    if isinstance(a, deque) and a.maxlen != b.maxlen:
        return False
    if isinstance(a, list | tuple | deque):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return np.float64(a).tobytes() == np.float64(b).tobytes() or (math.isnan(a) and math.isnan(b))
    return a == b


def bytes_of(tensor):
    return (
        tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.numel() and tensor.ndim else tensor.tolist()
    )


DTYPES = st.one_of(
    arrays.boolean_dtypes(),
    arrays.integer_dtypes(endianness="="),
    arrays.unsigned_integer_dtypes(endianness="="),
    arrays.floating_dtypes(endianness="=", sizes=(16, 32, 64)),
)
ARRAYS = arrays.arrays(DTYPES, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
TENSORS = ARRAYS.filter(lambda a: a.dtype not in (np.uint16, np.uint32, np.uint64)).map(
    lambda a: torch.from_numpy(a.copy())
)
NUMBERS = DTYPES.flatmap(lambda dtype: arrays.from_dtype(dtype))
PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=-(1 << 5000), max_value=1 << 5000),
    st.floats(),
    st.text(),
    st.sampled_from([TAG, "", "dict", "\ud800", "1"]),
)
KEYS = st.recursive(
    st.one_of(PLAIN.filter(lambda k: k == k), NUMBERS.filter(lambda k: k == k)),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=3,
)
TREES = st.recursive(
    st.one_of(PLAIN, ARRAYS, TENSORS, NUMBERS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.builds(deque, st.lists(inner, max_size=4), maxlen=st.sampled_from([None, 4, 9])),
        st.dictionaries(st.text(), inner, max_size=4),
        st.dictionaries(st.one_of(KEYS, st.just(TAG)), inner, max_size=4),
    ),
    max_leaves=12,
)


@settings(derandomize=True)
@given(TREES)
def test_any_tree_comes_back_as_it_was(tree):
    assert same(again(tree), tree)


@pytest.mark.parametrize(
    "tree",
    [
        {TAG: "tuple", "items": [1, 2]},
        {TAG: 3, "a": {TAG: "dict"}},
        {(1, "a"): {None: 1, True: 2, 2.5: 3}},
        {1: "int", "1": "text"},
        [(), [], {}, deque(), deque([1], maxlen=1), ((),)],
        [float("inf"), float("-inf"), -0.0, 5e-324],
        [0, -1, 2**63, -(2**64), 1 << 1000, -(1 << 20_000)],
        [torch.tensor(3.5), torch.tensor(True), torch.zeros(0), torch.zeros(3, 0, 2), torch.tensor(7)],
        [torch.ones(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.float16), torch.ones(1, dtype=torch.uint8)],
        [np.array(3), np.zeros((0, 5), np.int16), np.array([np.nan, -np.inf]), np.bool_(True), np.float32(0.1)],
    ],
    ids=["tag", "tags", "keys", "int and text", "empty", "floats", "long", "0-d tensors", "small types", "arrays"],
)
def test_what_is_easily_lost_is_not(tree):
    assert same(again(tree), tree)


def test_nan_stays_nan_with_all_its_bits():
    odd = np.frombuffer(np.uint64(0x7FF8_0000_DEAD_BEEF).tobytes(), np.float64)
    assert again(odd).tobytes() == odd.tobytes()
    assert again(odd[0]).tobytes() == odd.tobytes()
    assert math.isnan(again(float("nan")))


def test_random_generators_go_on_where_they_were():
    for kind in (np.random.PCG64, np.random.MT19937, np.random.SFC64, np.random.Philox):
        rng = np.random.Generator(kind(3))
        rng.random(5, dtype=np.float32)  # leaves half a number for later
        other = np.random.Generator(kind(4))
        other.bit_generator.state = again(rng.bit_generator.state)
        assert other.random(9).tolist() == rng.random(9).tolist()
        assert other.random(3, dtype=np.float32).tolist() == rng.random(3, dtype=np.float32).tolist()


def test_arrays_in_any_layout_come_back_in_order():
    array = np.arange(24).reshape(2, 3, 4)
    for view in (
        array.T,
        array[:, ::-1],
        array[..., ::2],
        np.asfortranarray(array),
        np.broadcast_to(array[0], (2, 3, 4)),
    ):
        assert again(view).tolist() == view.tolist()
    tensor = torch.arange(24).reshape(2, 3, 4)
    for view in (tensor.permute(2, 0, 1), tensor[..., ::2], tensor[0].expand(5, 3, 4), tensor.float().requires_grad_()):
        assert again(view).tolist() == view.tolist()


def test_equal_arrays_are_stored_once_and_come_back_apart():
    array = np.arange(10_000.0)
    structure, stored = encode([array, array.copy(), {"again": array}])
    assert len(stored) < 81_000  # 80,000 bytes of numbers and a header
    first, second, _ = decode(structure, stored)
    first[0] = 7.0
    assert second[0] == 0.0


def test_the_same_bytes_of_another_type_or_shape_are_another_array():
    zeros = [np.zeros(4, np.int32), np.zeros(2, np.int64), np.zeros((2, 2), np.int32), np.zeros(4, np.float32)]
    assert same(again(zeros), zeros)


def test_what_comes_back_can_be_written_to():
    array, tensor = again([np.zeros(3), torch.zeros(3)])
    array[0] = tensor[0] = 1.0


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (Fraction(1, 2), "a Fraction"),
        (b"bytes", "a bytes"),
        ({1, 2}, "a set"),
        (lambda: None, "a function"),
        (Point(1, 2), "a Point"),
        (1j, "a complex"),
        (np.array([1j]), "an array of complex128"),
        (np.array(["a"]), "an array of <U1"),
        (np.array([None]), "an array of object"),
        (np.array(["2020-01-01"], "datetime64[D]"), "an array of datetime64[D]"),
        (np.zeros(2, ">f4"), "an array of >f4"),
        (np.zeros(1, np.longdouble), f"an array of {np.dtype(np.longdouble)}"),
        (np.str_("a"), "a number of type <U1"),
        (torch.zeros(2, dtype=torch.complex64), "a tensor of complex64"),
        (torch.zeros(2, 2).to_sparse(), "a tensor of float32"),
    ],
)
def test_what_cannot_be_saved_is_named_with_its_place(value, name):
    with pytest.raises(EncodingError) as caught:
        encode({"worker": [{"a": 1}, (0, value)]})
    assert str(caught.value) == f"state.worker[1][1]: {name} cannot be saved"


def test_a_dict_with_an_order_of_its_own_becomes_a_plain_one():
    assert again(OrderedDict(b=1, a=2)) == {"b": 1, "a": 2}


# --- bad input ----------------------------------------------------------------------------------------------------


class Bomb:
    """Opens a file that must never be opened."""

    def __reduce__(self):
        return open, ("/nonexistent/bomb", "w")


BAD = [
    {TAG: "array", "key": "none"},
    {TAG: "array"},
    {TAG: "tensor", "key": 3},
    {TAG: "pickle", "bytes": "gASVIAAAAA=="},
    {TAG: "python/object/apply:os.system", "items": ["touch /tmp/x"]},
    {TAG: "number", "dtype": "O", "bytes": "AAAAAAAAAAA="},
    {TAG: "number", "dtype": "<f8", "bytes": "AAA="},
    {TAG: "number", "dtype": "<f8", "bytes": ""},
    {TAG: "number", "dtype": "<f8", "bytes": "!"},
    {TAG: "number", "dtype": "V1000000000", "bytes": ""},
    {TAG: "tuple"},
    {TAG: "tuple", "items": 3},
    {TAG: "deque", "items": [], "maxlen": "x"},
    {TAG: "deque", "items": [], "maxlen": -1},
    {TAG: "dict", "items": [[1]]},
    {TAG: "dict", "items": [[[1], 2]]},
    {TAG: "int", "hex": "__import__('os')"},
    {TAG: "int", "hex": 3},
    {TAG: ["list"]},
]


@pytest.mark.parametrize("structure", BAD, ids=repr)
def test_a_structure_that_encode_never_gives_is_refused(structure):
    _, stored = encode({"array": np.zeros(2)})
    for wrapped in (structure, [structure], {"a": {"b": structure}}):
        with pytest.raises(EncodingError):
            decode(wrapped, stored)


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"{}",
        pickle.dumps(Bomb()),
        b"\xff" * 40,
        b"\x08" + b"\0" * 7 + b"{}      ",
        (1 << 60).to_bytes(8, "little"),
    ],
    ids=["empty", "short", "pickle", "ones", "no arrays", "huge header"],
)
def test_a_file_that_is_not_of_arrays_is_refused(stored):
    with pytest.raises(EncodingError):
        decode({TAG: "array", "key": "a"}, stored)


WATCHED = {"exec", "compile", "import", "open", "pickle.find_class", "os.system", "subprocess.Popen", "ctypes.dlopen"}


def test_reading_bad_input_runs_nothing():
    ran, listening = [], True
    sys.addaudithook(
        lambda event, arguments: ran.append((event, arguments)) if listening and event in WATCHED else None
    )
    random = np.random.default_rng(0)
    good, stored = encode({"a": [np.arange(5), (1, 2)], "b": {1: torch.zeros(2)}})
    text = json.dumps(good).encode()
    refused = 0
    try:
        decode(good, stored)
        ran.clear()
        for _ in range(2000):
            changed, file = bytearray(text), bytearray(stored)
            for target in (changed, file):
                for _ in range(random.integers(0, 4)):
                    target[random.integers(len(target))] = random.integers(256)
            try:
                decode(json.loads(changed), bytes(file))
            except (EncodingError, ValueError):  # json.loads gives ValueErrors
                refused += 1
        assert ran == []
        pickle.loads(pickle.dumps(Fraction(1, 2)))
        assert "pickle.find_class" in {event for event, _ in ran}  # it would have been seen
    finally:
        listening = False
    assert refused > 500
