"""Sets of entities: their space, and how they are laid out in memory."""

from copy import deepcopy

import numpy as np
import pytest
from gymnasium import spaces

from rookery.core.errors import SpaceError
from rookery.core.spaces.arrays import obs_spec
from rookery.core.spaces.entity_set import EntitySet, bounded

TWO = spaces.Discrete(2)
PAIR = spaces.Box(-1, 1, (2,))
ANY = spaces.Box(-np.inf, np.inf, (2,))


def stored(space, value):
    """The rows that a set is stored in, over what an earlier one left there."""
    spec = obs_spec(space, TWO)
    tree = spec.allocate(1)
    tree["obs"][:] = 7
    spec.write(value, tree, 0)
    return tree["obs"][0].tolist()


def test_entities_stand_first_with_a_one_before_their_numbers_and_the_rest_is_zeros():
    rows = stored(EntitySet(PAIR, 3), ((0.5, 0.25), (0.0, -1.0)))
    assert rows == [[1, 0.5, 0.25], [1, 0, -1], [0, 0, 0]]
    assert stored(EntitySet(PAIR, 2), ()) == [[0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize(
    ("element", "value", "columns"),
    [
        (spaces.Discrete(3, start=5), 6, [0, 1, 0]),
        (spaces.MultiDiscrete([2, 3], start=[1, 0]), np.array([2, 0]), [0, 1, 1, 0, 0]),
        (spaces.MultiBinary(2), np.array([1, 0], np.int8), [1, 0]),
        (spaces.Box(0, 255, (2, 2), np.uint8), np.array([[0, 255], [51, 0]], np.uint8), [0, 1, 0.2, 0]),
        (spaces.Box(-5, 5, (), np.float64), 2.5, [2.5]),
        (spaces.Dict(at=PAIR, kind=TWO), {"kind": 1, "at": np.array([0.5, -0.5])}, [0.5, -0.5, 0, 1]),
        (spaces.Tuple((TWO, spaces.Dict(n=TWO))), (0, {"n": 1}), [1, 0, 0, 1]),
    ],
)
def test_elements_of_every_kind_are_numbers_side_by_side_with_categories_as_one_hots(element, value, columns):
    rows = stored(EntitySet(element, 2), (value,))
    np.testing.assert_allclose(rows, [[1, *columns], [0] * (1 + len(columns))], rtol=1e-6)


@pytest.mark.parametrize(
    "element",
    [PAIR, TWO, spaces.MultiDiscrete([2, 3]), spaces.Dict(a=PAIR, b=spaces.Tuple((TWO, spaces.MultiBinary(3))))],
)
def test_a_stacked_set_is_stored_like_one_that_comes_as_a_tuple(element):
    loose, stacked = EntitySet(element, 9), EntitySet(deepcopy(element), 9, stack=True)
    for seed in range(20):
        loose.seed(seed)
        stacked.seed(seed)
        one, other = loose.sample(), stacked.sample()
        assert loose.contains(one)
        assert stacked.contains(other)
        assert stored(loose, one) == stored(stacked, other)


def test_a_set_with_too_many_names_the_number_and_the_setting():
    with pytest.raises(SpaceError, match=r"obs: 4 entities where there is room for 3; set env.max_entities=4 or more"):
        stored(EntitySet(PAIR, 3), ((0, 0),) * 4)


@pytest.mark.parametrize(
    ("element", "value", "problem"),
    [
        (PAIR, ((0, 0, 0),), r"its entities have shape \(1, 3\) where the space says \(n, 2\)"),
        (PAIR, ((0, 0), (0, 0, 0)), "its entities cannot be read from all entities"),
        (PAIR, 3.0, r"have shape \(\)"),
        (PAIR, (("a", "b"),), "have dtype <U1, expected numbers"),
        (TWO, (0.5,), "have dtype float64, expected categories"),
        (spaces.Discrete(2, start=3), (3, 5), "category 5 is outside the space"),
        (spaces.Dict(at=PAIR), ({"where": (0, 0)},), "'at' of its entities cannot be read .*KeyError"),
    ],
)
def test_an_element_that_does_not_fit_is_refused_with_its_place(element, value, problem):
    with pytest.raises(SpaceError, match=f"obs: .*{problem}|obs: {problem}"):
        stored(EntitySet(element, 3), value)


def test_parts_of_a_stacked_set_must_be_of_one_length():
    with pytest.raises(SpaceError, match="obs: 1 and 2 entities in different parts of one set"):
        stored(EntitySet(spaces.Dict(a=PAIR, b=TWO), 3, stack=True), {"a": np.zeros((2, 2)), "b": np.zeros(1, int)})


def test_a_number_that_is_not_finite_is_found():
    spec = obs_spec(EntitySet(ANY, 3), TWO)
    tree = spec.allocate(2)
    spec.write(((0, np.nan),), tree, 1)
    assert spec.check(tree, slice(0, 1)) == ""
    assert spec.check(tree, slice(None)) == "obs: non-finite observation nan (expected finite numbers)"


def test_a_sequence_without_a_bound_is_refused_and_gets_one_from_the_setting():
    space = spaces.Dict(b=spaces.Sequence(PAIR, stack=True), a=spaces.Tuple((PAIR, spaces.Sequence(TWO))))
    with pytest.raises(SpaceError, match=r"b: a Sequence does not say how many .* set env.max_entities"):
        obs_spec(space, TWO)
    shapes = {leaf.path: leaf.shape for leaf in obs_spec(bounded(space, 5), TWO).leaves}
    assert shapes == {"a/0": (2,), "a/1": (5, 3), "b": (5, 3)}
    assert bounded(space, 5)["b"].stack


def test_a_bound_that_the_environment_gives_is_kept_and_other_spaces_are_the_same_objects():
    space = spaces.Dict(z=EntitySet(PAIR, 2), a=PAIR)
    assert bounded(space, 5) is space
    assert bounded(PAIR, 5) is PAIR
    ordered = bounded(spaces.Dict([("z", spaces.Sequence(PAIR)), ("a", PAIR)]), 5)
    assert list(ordered) == ["z", "a"]


def test_a_set_of_what_cannot_be_observed_is_left_out():
    spec = obs_spec(spaces.Dict(a=PAIR, words=spaces.Sequence(spaces.Text(3))), TWO)
    assert [leaf.path for leaf in spec.leaves] == ["a"]
    assert "words: sets of Text" in spec.dropped[0]


def test_samples_have_from_none_to_all_and_too_many_are_no_member():
    space = EntitySet(PAIR, 3, seed=0)
    assert {len(space.sample()) for _ in range(100)} == {0, 1, 2, 3}
    assert len(space.sample(mask=(np.int64(9), None))) == 3
    assert not space.contains((np.zeros(2, np.float32),) * 4)
    assert not EntitySet(PAIR, 3, stack=True).contains(np.zeros((4, 2), np.float32))


def test_sets_are_equal_if_elements_bound_and_stacking_are():
    assert EntitySet(PAIR, 3) == EntitySet(PAIR, 3)
    others = [EntitySet(PAIR, 4), EntitySet(TWO, 3), EntitySet(PAIR, 3, stack=True), spaces.Sequence(PAIR)]
    assert not [other for other in others if EntitySet(PAIR, 3) == other]


@pytest.mark.parametrize("bound", [0, -1, 2.0, True])
def test_a_bound_is_a_positive_integer(bound):
    with pytest.raises(ValueError, match="max_entities is"):
        EntitySet(PAIR, bound)


def test_one_observation_or_a_batch_of_ragged_sets_is_read():
    some, none = ((0.5, 0.5), (0.25, 0.0)), ()
    spec = obs_spec(spaces.Dict(own=PAIR, near=EntitySet(PAIR, 2)), TWO)
    tree, is_batch = spec.read({"own": (1, 1), "near": some})
    assert (tree["near"].tolist(), is_batch) == ([[[1, 0.5, 0.5], [1, 0.25, 0]]], False)
    tree, is_batch = spec.read({"own": np.ones((2, 2)), "near": [none, some]})
    assert (tree["near"][:, :, 0].tolist(), is_batch) == ([[0, 0], [1, 1]], True)
    with pytest.raises(SpaceError, match="near: 3 sets in a batch of 2 observations"):
        spec.read({"own": np.ones((2, 2)), "near": [none, some, none]})


def test_where_nothing_but_a_set_is_observed_a_batch_is_what_is_no_set():
    spec = obs_spec(EntitySet(PAIR, 2), TWO)
    one = (np.zeros(2), np.ones(2))
    assert [spec.read(obs)[1] for obs in (one, (), [one], [one, ()], [(), ()])] == [False, False, True, True, True]
    assert len(spec.read([one, (), one])[0]["obs"]) == 3
    with pytest.raises(SpaceError, match=r"obs: its entities have shape \(\)"):
        spec.read(3)
