"""A space comes back from its description equal: in bounds, types, order of keys, and in what is laid out for it."""

from __future__ import annotations

import json
from collections import OrderedDict

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.core.errors import SpaceError
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.core.spaces.entity_set import EntitySet
from rookery.core.spaces.space_files import space_from_json, space_to_json


def again(space):
    """Returns a value after a round trip through text."""
    return space_from_json(json.loads(json.dumps(space_to_json(space))))


def same(a, b):
    """Equal to the last bit of every bound, where Gymnasium asks only for closeness."""
    if type(a) is not type(b):
        return False
    if isinstance(a, spaces.Box):
        return a == b and a.dtype == b.dtype and np.array_equal(a.low, b.low) and np.array_equal(a.high, b.high)
    if isinstance(a, spaces.Dict):
        return list(a.spaces) == list(b.spaces) and all(same(a[key], b[key]) for key in a.spaces)
    if isinstance(a, spaces.Tuple):
        return len(a.spaces) == len(b.spaces) and all(map(same, a.spaces, b.spaces))
    if isinstance(a, spaces.MultiDiscrete):
        return a == b and a.dtype == b.dtype and np.array_equal(a.start, b.start)
    return a == b


SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@st.composite
def boxes(draw):
    shape = draw(SHAPES)
    size = int(np.prod(shape))
    dtype = np.dtype(draw(st.sampled_from(["float32", "float64", "uint8", "int8", "int64", "float16"])))
    if dtype.kind == "f":
        numbers = st.floats(width=8 * dtype.itemsize, allow_nan=False)
    else:
        numbers = st.integers(int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    pairs = draw(st.lists(st.tuples(numbers, numbers), min_size=size, max_size=size))
    if draw(st.booleans()) and pairs:
        pairs = [pairs[0]] * size  # one bound for all
    low, high = (np.array([pick(pair) for pair in pairs], dtype).reshape(shape) for pick in (min, max))
    low, high = np.where(low == np.inf, dtype.type(0), low), np.where(high == -np.inf, dtype.type(0), high)
    return spaces.Box(low.astype(dtype), high.astype(dtype), shape, dtype.type)


DISCRETE = st.builds(
    lambda n, start: spaces.Discrete(n, start=start), st.integers(1, 2**40), st.integers(-(2**40), 2**40)
)
MULTI = st.lists(st.tuples(st.integers(1, 99), st.integers(-9, 9)), min_size=1, max_size=4).map(
    lambda pairs: spaces.MultiDiscrete([n for n, _ in pairs], start=[start for _, start in pairs])
)
BINARY = st.one_of(st.integers(1, 9), st.lists(st.integers(1, 3), min_size=1, max_size=3)).map(spaces.MultiBinary)
LEAVES = st.one_of(boxes(), DISCRETE, MULTI, BINARY)
KEYS = st.text(max_size=3)
SPACES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(spaces.Tuple),
        st.lists(st.tuples(KEYS, inner), max_size=3).map(lambda pairs: spaces.Dict(OrderedDict(pairs))),
    ),
    max_leaves=6,
)


@settings(derandomize=True)
@given(SPACES)
def test_any_space_comes_back_equal(space):
    assert same(again(space), space)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-np.inf, np.inf, (2, 3)),
        spaces.Box(np.array([-1, -np.inf], np.float32), np.array([np.inf, 0.1], np.float32)),
        spaces.Box(0, 255, (4, 4, 3), np.uint8),
        spaces.Box(np.iinfo(np.int64).min, np.iinfo(np.int64).max, (2,), np.int64),
        spaces.Box(0.1, 1.0, (), np.float64),
        spaces.Discrete(3, start=-1),
        spaces.MultiDiscrete([[2, 3], [4, 5]]),
        spaces.MultiDiscrete([2, 3], dtype=np.int32),
        spaces.MultiBinary(4),
        spaces.MultiBinary([2, 2]),
        EntitySet(spaces.Dict(a=spaces.Discrete(2), b=spaces.Box(0, 1, (3,))), 7),
        EntitySet(spaces.MultiBinary(4), 2, stack=True),
        spaces.Dict(OrderedDict(z=spaces.Discrete(2), a=spaces.Discrete(3))),
        spaces.Dict({"b": spaces.Dict({"~": spaces.Discrete(2)}), "a/b": spaces.Tuple([])}),
    ],
    ids=str,
)
def test_what_is_easily_lost_is_not(space):
    assert same(again(space), space)


def test_the_layout_of_observations_and_actions_comes_back_with_the_space():
    # the order of leaves is the order of a network's inputs
    space = spaces.Dict(
        OrderedDict(
            speed=spaces.Box(-1, 1, (2,)), camera=spaces.Box(0, 255, (8, 8, 3), np.uint8), gear=spaces.Discrete(5)
        )
    )
    assert [leaf.path for leaf in obs_spec(again(space), spaces.Discrete(2)).leaves] == ["speed", "camera", "gear"]
    assert obs_spec(again(space), spaces.Discrete(2)) == obs_spec(space, spaces.Discrete(2))
    for action in (spaces.Discrete(4, start=2), spaces.Box(-2, 2, (3,)), spaces.MultiDiscrete([2, 3])):
        assert action_spec(again(action)) == action_spec(action)
        assert again(action).contains(action.sample())


def test_spaces_that_cannot_be_observed_are_left_out_as_before():
    class Mission(spaces.Text):
        """An environment's own kind."""

    number = spaces.Box(-1, 1, (2,))
    others = {
        "text": spaces.Text(20, charset="ab"),
        "own": Mission(9),
        "graph": spaces.Graph(number, None),
        "list": spaces.Sequence(spaces.Text(3)),
    }
    space = spaces.Dict({"number": number, **others})
    before, after = obs_spec(space, spaces.Discrete(2)), obs_spec(again(space), spaces.Discrete(2))
    assert after == before
    assert len(after.dropped) == len(before.dropped) == 4


def test_a_description_of_no_known_kind_is_refused():
    with pytest.raises(SpaceError, match="a space of unknown kind 'Sphere'"):
        space_from_json({"kind": "Sphere"})
    with pytest.raises(SpaceError, match="a space of unknown kind None"):
        space_from_json({})
