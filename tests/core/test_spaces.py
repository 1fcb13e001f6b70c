"""The layout of observations and actions."""

import numpy as np
import pytest
from gymnasium import spaces

from rookery.core.errors import SpaceError
from rookery.core.spaces.arrays import action_spec, mask_width, obs_spec

TWO = spaces.Discrete(2)
NUMBER = spaces.Box(-1, 1, (1,))


def stored(space, obs, action=TWO, **kwargs):
    spec = obs_spec(space, action)
    tree = spec.allocate(2)
    spec.write(obs, tree, 1, **kwargs)
    return {path: array[1].tolist() for path, array in tree.items()}


def test_a_plain_space_has_one_leaf_called_obs():
    (leaf,) = obs_spec(spaces.Box(-1, 1, (3,), np.float64), TWO).leaves
    assert (leaf.path, leaf.kind, leaf.shape, leaf.dtype) == ("obs", "box", (3,), np.float32)


def test_writing_a_row_touches_no_other():
    spec = obs_spec(NUMBER, TWO)
    tree = spec.allocate(3)
    spec.write(np.array([0.5]), tree, 1)
    assert tree["obs"].tolist() == [[0], [0.5], [0]]


def test_small_and_unsigned_types_do_not_wrap_around_when_the_start_is_subtracted():
    assert stored(spaces.Discrete(300, start=-10), np.uint8(200)) == {"obs": 210}
    assert stored(spaces.Discrete(3, start=-1), np.uint8(1)) == {"obs": 2}
    assert stored(spaces.MultiDiscrete([9, 9], start=[-5, 5]), np.array([0, 5], np.uint8)) == {"obs": [5, 0]}
    assert stored(spaces.Discrete(2), np.True_) == {"obs": 1}


def test_keys_with_a_slash_or_numbers_as_keys_are_found():
    space = spaces.Dict({"a/b": NUMBER, "c": spaces.Dict({"d/e": NUMBER})})
    assert stored(space, {"a/b": [0.5], "c": {"d/e": [0.25]}}) == {"a/b": [0.5], "c/d/e": [0.25]}
    assert stored(spaces.Tuple([spaces.Tuple([NUMBER, TWO])]), (([0.5], 1),)) == {"0/0": [0.5], "0/1": 1}


def test_a_dict_with_a_part_called_obs_is_no_plain_space():
    assert stored(spaces.Dict(obs=NUMBER, other=TWO), {"obs": [0.5], "other": 1}) == {"obs": [0.5], "other": 1}


def test_a_mask_is_the_last_leaf_and_starts_as_all_allowed():
    spec = obs_spec(spaces.Dict(action_mask=spaces.MultiBinary(2), obs=NUMBER), TWO)
    assert [leaf.kind for leaf in spec.leaves] == ["box", "mask"]
    assert spec.has_mask
    assert spec.allocate(1)["action_mask"].tolist() == [[True, True]]


def test_a_mask_may_come_from_the_info_or_in_parts():
    spec = obs_spec(NUMBER, spaces.MultiDiscrete([2, 3]), info_mask=True)
    tree = spec.allocate(1)
    spec.write(np.zeros(1), tree, 0, mask=(np.array([1, 0]), np.array([0, 1, 1])))
    assert tree["action_mask"].tolist() == [[True, False, False, True, True]]


def test_something_called_action_mask_that_does_not_fit_the_actions_is_refused():
    numbers = spaces.Box(-1, 1, (2,))
    assert mask_width(numbers) == 0
    with pytest.raises(SpaceError, match=r"action_mask: MultiBinary\(3\) is no mask of .* needs 2 flags.*another name"):
        obs_spec(spaces.Dict(action_mask=spaces.MultiBinary(3)), TWO)
    with pytest.raises(SpaceError, match=r"action_mask: actions of Box.* have no choices that a mask could allow"):
        obs_spec(spaces.Dict(obs=NUMBER, action_mask=spaces.MultiBinary(2)), numbers)


def test_spaces_without_an_element_are_refused():
    nothing = spaces.Box(-1, 1, (0,))
    with pytest.raises(SpaceError, match=r"no part of the observation space .* can be used; it is empty: .*Discrete"):
        obs_spec(nothing, TWO)
    with pytest.raises(SpaceError, match=r"action space Box.* is empty: use Discrete"):
        action_spec(nothing)
    assert [leaf.path for leaf in obs_spec(spaces.Dict(a=nothing, b=NUMBER), TWO).leaves] == ["a", "b"]
    assert action_spec(spaces.Dict(a=nothing, b=TWO)).shape == (1,)


def test_each_element_of_an_action_needs_an_allowed_choice():
    spec = obs_spec(NUMBER, spaces.MultiDiscrete([2, 3]), info_mask=True)
    tree = spec.allocate(2)
    tree["action_mask"][:] = [[1, 0, 0, 1, 0], [1, 1, 0, 0, 0]]
    assert spec.check(tree, slice(0, 1)) == ""
    assert spec.check(tree, slice(None)) == "action_mask: no action is allowed (expected at least one)"


def test_parts_that_cannot_be_used_are_dropped_with_their_reason():
    spec = obs_spec(spaces.Dict(obs=NUMBER, text=spaces.Text(3)), TWO)
    assert [leaf.path for leaf in spec.leaves] == ["obs"]
    assert spec.dropped == ("text: Text observations cannot be used",)
    with pytest.raises(SpaceError, match="no part of the observation space"):
        obs_spec(spaces.Dict(text=spaces.Text(3)), TWO)


@pytest.mark.parametrize(("high", "scale"), [(255, 255.0), (1, 1.0), (10, 10.0), (0, 1.0)])
def test_a_uint8_box_is_scaled_by_its_bound(high, scale):
    (leaf,) = obs_spec(spaces.Box(0, high, (4, 4, 3), np.uint8), TWO).leaves
    assert leaf.scale == scale
    assert leaf.is_image
    assert leaf.dtype == np.uint8


@pytest.mark.parametrize(
    ("space", "obs"),
    [
        (spaces.Box(0, 255, (2,), np.uint8), np.array([300, 2], np.uint16)),
        (spaces.Box(0, 255, (2,), np.uint8), np.array([1.5, 2.0])),
        (spaces.MultiBinary(2), np.array([0.5, 1.0])),
        (TWO, 0.5),
        (NUMBER, np.array([None])),
    ],
)
def test_a_type_that_would_lose_numbers_is_refused(space, obs):
    with pytest.raises(SpaceError, match="dtype"):
        stored(space, obs)


def test_specs_are_equal_if_their_leaves_are():
    assert obs_spec(NUMBER, TWO) == obs_spec(spaces.Box(-9, 9, (1,)), spaces.Discrete(5))
    assert obs_spec(NUMBER, TWO) != obs_spec(spaces.Box(-1, 1, (2,)), TWO)
    assert hash(obs_spec(NUMBER, TWO)) == hash(obs_spec(spaces.Box(-9, 9, (1,)), TWO))
    assert action_spec(TWO) == action_spec(spaces.Discrete(2)) != action_spec(spaces.Discrete(2, start=1))


def test_box_actions_are_rescaled_to_finite_bounds_and_clipped_to_others():
    low, high = np.array([0, -np.inf, -3], np.float32), np.array([4, 1, np.inf], np.float32)
    spec = action_spec(spaces.Box(low, high))
    given = np.array([[-1, 5, -5], [0.5, -5, 5]], np.float32)
    assert spec.to_env(given).tolist() == [[0, 1, -3], [3, -5, 5]]  # 2 + 2 * -1; 2 + 2 * 0.5


def test_bounds_as_wide_as_the_type_do_not_overflow():
    wide = np.finfo(np.float64).max
    spec = action_spec(spaces.Box(-wide, wide, (1,), np.float64))
    assert spec.to_env(np.array([[0.5]])).tolist() == [[wide / 2]]


def test_actions_keep_the_shape_type_and_start_of_their_space():
    box = spaces.Box(-2, 2, (2, 2), np.int16)
    assert action_spec(box).to_env(np.array([[-1, 0, 0.4, 1]])).tolist() == [[[-2, 0], [1, 2]]]
    assert action_spec(box).to_env(np.zeros((1, 4))).dtype == np.int16
    assert action_spec(spaces.Discrete(3, start=5)).to_env(np.array([0, 2])).tolist() == [5, 7]
    many = spaces.MultiDiscrete([[2, 3]], start=[[1, -1]])
    assert action_spec(many).to_env(np.array([[1, 2]])).tolist() == [[[2, 1]]]
    flags = spaces.MultiBinary((2, 2))
    assert action_spec(flags).to_env(np.array([[1, 0, 0, 1]])).tolist() == [[[1, 0], [0, 1]]]
    assert action_spec(flags).to_env(np.zeros((1, 4), np.int64)).dtype == np.int8


NESTED = spaces.Dict(
    {
        "arm": spaces.Tuple((spaces.Box(0, 4, (2,), np.float64), spaces.MultiBinary(2))),
        "gear": spaces.Discrete(3, start=-1),
        "keys": spaces.MultiDiscrete([[2], [300]], start=[[0], [10]]),
    }
)


def test_a_composite_action_is_all_choices_then_all_flags_then_all_numbers():
    spec = action_spec(NESTED)
    assert (spec.kind, spec.shape, spec.dtype) == ("composite", (7,), np.float32)
    assert (spec.sizes, spec.num_flags, spec.num_numbers) == ((3, 2, 300), 2, 2)
    assert [part.kind for part, _ in spec.parts] == ["box", "multi_binary", "discrete", "multi_discrete"]
    assert [(mine.start, mine.stop) for _, mine in spec.parts] == [(5, 7), (3, 5), (0, 1), (1, 3)]


def test_a_composite_action_reaches_the_environment_in_the_structure_and_types_of_its_space():
    stored = np.array([[2, 1, 299, 0, 1, -1, 0.5], [0, 0, 7, 1, 1, 9, -9]], np.float32)
    first, second = action_spec(NESTED).to_env(stored)
    assert NESTED.contains(first)
    assert NESTED.contains(second)
    assert list(first) == ["arm", "gear", "keys"]
    assert isinstance(first["arm"], tuple)
    assert [part.tolist() for part in first["arm"]] == [[0, 3], [0, 1]]  # 2 + 2 * -1, 2 + 2 * 0.5
    assert [part.dtype for part in first["arm"]] == [np.float64, np.int8]
    assert (first["gear"], second["gear"]) == (1, -1)
    assert first["keys"].tolist() == [[1], [309]]
    assert second["arm"][0].tolist() == [4, 0]


def test_composite_actions_share_no_memory_with_each_other_or_with_what_is_stored():
    spec = action_spec(spaces.Tuple((NUMBER, NUMBER)))
    stored = np.array([[0.5, 0.25], [-0.5, 0.75]], np.float32)
    first, second = spec.to_env(stored)
    first[0][:] = 9
    assert stored.tolist() == [[0.5, 0.25], [-0.5, 0.75]]
    assert (first[1].tolist(), second[0].tolist()) == ([0.25], [-0.5])
    assert spec.to_env(stored[:0]).shape == (0,)


def test_a_composite_keeps_every_choice_up_to_2_to_the_24_exactly():
    spec = action_spec(spaces.Tuple((spaces.Discrete(2**24), TWO)))
    assert spec.to_env(np.array([[2**24 - 1, 1]], np.float32))[0] == (2**24 - 1, 1)
    with pytest.raises(SpaceError, match="part '0' of the action space: .* has more than 16,777,216 choices"):
        action_spec(spaces.Tuple((spaces.Discrete(2**24 + 1), TWO)))


def test_the_mask_of_a_composite_has_the_flags_of_its_choices_in_order():
    assert mask_width(NESTED) == 3 + 2 + 300
    assert mask_width(spaces.MultiBinary(3)) == 0
    action = spaces.Dict({"b": spaces.MultiDiscrete([2, 2]), "a": TWO, "c": NUMBER})
    observed = spaces.Dict({"action_mask": spaces.MultiBinary(6), "obs": NUMBER})
    leaf = obs_spec(observed, action).leaves[-1]
    assert (leaf.kind, leaf.sizes) == ("mask", action_spec(action).sizes)


@pytest.mark.parametrize(
    ("space", "problem"),
    [
        (spaces.Text(3), "^action space Text.*: use Discrete, MultiDiscrete, MultiBinary or Box, or Dict and Tuple"),
        (spaces.Dict(a=spaces.Tuple((TWO, spaces.Text(3)))), "part 'a/1' of the action space: action space Text"),
        (spaces.Tuple(()), "is empty: use Discrete"),
    ],
    ids=str,
)
def test_an_action_space_without_a_layout_is_refused_with_those_that_have_one(space, problem):
    with pytest.raises(SpaceError, match=problem):
        action_spec(space)


def test_a_dictionary_by_agent_in_place_of_an_observation_is_named():
    spec = obs_spec(spaces.Box(-1, 1, (2,), np.float32), TWO)
    said = r"shape \(\).*it is a dictionary with 'a', 'b': an observation is that of one agent.*possible_agents"
    by_agent = {"a": np.zeros(2, np.float32), "b": np.zeros(2, np.float32)}
    with pytest.raises(SpaceError, match=said):
        spec.read(by_agent)
    with pytest.raises(SpaceError, match=said):
        spec.write(by_agent, spec.allocate(1), 0)
    with pytest.raises(SpaceError, match=r"shape \(3,\) where the space says \(2,\)$"):
        spec.write(np.zeros(3, np.float32), spec.allocate(1), 0)
