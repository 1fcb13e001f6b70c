"""RLlib's preprocessors, one observation at a time and many at once."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple

from rookery.core.spaces.arrays import obs_spec
from rookery_rllib.batch.repeated_values import RepeatedValues
from rookery_rllib.gym.rllib_spaces import Repeated, UnsupportedSpaceException
from rookery_rllib.model.preprocessors import (
    NoPreprocessor,
    RowPreprocessor,
    get_preprocessor,
    preprocess_rows,
    restore_original_dimensions,
    restore_rows,
)

NESTED = Dict(
    {
        "b": Discrete(3),
        "a": Box(0, 255, (4, 4, 1), np.uint8),
        "action_mask": Box(0, 1, (4,)),
        "t": Tuple([MultiBinary(3), MultiDiscrete([2, 3])]),
        "r": Repeated(Dict({"x": Discrete(4), "y": Box(0, 9, (2,), np.uint8)}), 3),
    }
)
SPACES = [
    MultiDiscrete([100, 100]),
    MultiDiscrete([[2, 3], [4, 5]]),
    Discrete(5, start=2),
    Box(-1, 1, (3,)),
    Box(0, 255, (128,), np.uint8),
    NESTED,
    Tuple([Repeated(Box(-1, 1, (2,)), 4), Discrete(2)]),
    MultiBinary(4),
]


def stored(space, num):
    """Random observations, and the same as Rookery stores them."""
    space.seed(0)
    observations = [space.sample() for _ in range(num)]
    for observation in observations:
        if isinstance(observation, dict):
            observation["action_mask"] = np.array([1, 0, 1, 0], np.float32)
    spec = obs_spec(space, Discrete(4))
    tree = spec.allocate(num)
    for row, observation in enumerate(observations):
        spec.write(observation, tree, row)
    return observations, tree


def test_the_arena_is_seen_as_two_hundred_numbers():
    preprocessor = get_preprocessor(MultiDiscrete([100, 100]))(MultiDiscrete([100, 100]))
    assert str(preprocessor.observation_space) == "Box(-1.0, 1.0, (200,), float32)"
    assert preprocessor.observation_space.original_space == MultiDiscrete([100, 100])
    assert np.flatnonzero(preprocessor.transform([0, 99])).tolist() == [0, 199]
    assert (preprocessor.shape, preprocessor.size) == ((200,), 200)


def test_parts_stand_in_the_order_of_the_space():
    space = Dict({"y": Discrete(2), "x": Tuple([Box(-5, 5, (2,)), Discrete(3, start=1)])})
    vector = get_preprocessor(space)(space).transform({"y": 1, "x": (np.array([3.0, -4.0]), 2)})
    assert vector.tolist() == [3, -4, 0, 1, 0, 0, 1]  # keys sorted: x before y


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_many_rows_are_what_single_observations_are(space):
    observations, tree = stored(space, 7)
    preprocessor = get_preprocessor(space)(space)
    single = np.stack([np.asarray(preprocessor.transform(one), np.float32) for one in observations])
    tensors = {path: torch.as_tensor(array) for path, array in tree.items()}
    np.testing.assert_allclose(preprocess_rows(space, tree), single, atol=1e-5)
    np.testing.assert_allclose(preprocess_rows(space, tensors).numpy(), single, atol=1e-5)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_rows_are_turned_back_into_what_was_stored(space):
    _, tree = stored(space, 7)
    tensors = {path: torch.as_tensor(array) for path, array in tree.items()}
    restored = [restore_rows(space, preprocess_rows(space, tree))]
    restored.append({path: x.numpy() for path, x in restore_rows(space, preprocess_rows(space, tensors)).items()})
    for back in restored:
        assert back.keys() == tree.keys()
        for path, array in tree.items():
            assert (back[path].dtype, back[path].shape) == (array.dtype, array.shape)
            np.testing.assert_allclose(back[path], array, atol=1e-5)


def test_pictures_of_atari_games_are_shrunk_alike_one_by_one_and_together():
    space = Box(0, 255, (210, 160, 3), np.uint8)
    space.seed(0)
    pictures = np.stack([space.sample() for _ in range(2)])
    for options, shape in (({}, (84, 84, 3)), ({"dim": 42, "grayscale": True, "zero_mean": False}, (42, 42, 1))):
        layout = RowPreprocessor(space, options)
        rows = layout.rows({"obs": pictures})
        assert rows.shape == (2, *shape) == (2, *layout.observation_space.shape)
        np.testing.assert_allclose(rows[1], get_preprocessor(space)(space, options).transform(pictures[1]), atol=1e-6)
        assert (rows.min() >= 0) == bool(options) and rows.max() <= 1
    flat = np.full((1, 210, 160, 3), 200, np.uint8)
    np.testing.assert_allclose(RowPreprocessor(space).rows({"obs": flat}), (200 - 128) / 128)
    with pytest.raises(UnsupportedSpaceException, match="resized image"):
        layout.restore(rows)


def test_an_observation_outside_its_space_is_refused_with_both():
    box = get_preprocessor(Box(-1, 1, (2,)))(Box(-1, 1, (2,)))
    assert isinstance(box, NoPreprocessor)
    assert box.transform([0.5, 0.5]) == [0.5, 0.5]  # lists and float64 were fine in 2021
    other = get_preprocessor(Box(-1, 1, (2,)))(Box(-1, 1, (2,)))
    with pytest.raises(ValueError, match=r"outside of the space"):
        other.transform(np.array([2.0, 0.0]))
    repeated = Repeated(Discrete(2), 2)
    with pytest.raises(ValueError, match="at most 2 fit"):
        get_preprocessor(repeated)(repeated).transform([0, 1, 1])
    with pytest.raises(UnsupportedSpaceException, match="Text"):
        get_preprocessor(Text(3))(Text(3))


def test_flat_observations_come_back_in_the_form_of_their_space():
    space = Dict({"hot": Discrete(3), "picture": Box(0, 1, (2, 2)), "items": Repeated(Box(-9, 9, (2,)), 3)})
    preprocessor = get_preprocessor(space)(space)
    items = [np.array([1.0, 2.0]), np.array([3.0, 4.0])]
    flat = preprocessor.transform({"hot": 1, "picture": np.eye(2, dtype=np.float32), "items": items})
    for batch in (flat[None].repeat(2, 0), torch.as_tensor(flat)[None].repeat(2, 1)):
        found = restore_original_dimensions(batch, preprocessor.observation_space, "torch")
        assert found["hot"].tolist() == [[0, 1, 0]] * 2
        assert found["picture"].tolist() == [[[1, 0], [0, 1]]] * 2
        assert isinstance(found["items"], RepeatedValues)
        assert [[one.tolist() for one in row] for row in found["items"].unbatch_all()] == [[[1, 2], [3, 4]]] * 2
        assert [one.shape[0] for one in found["items"].unbatch_repeat_dim()] == [2, 2, 2]
    with pytest.raises(ValueError, match="expected"):
        restore_original_dimensions(flat[None, :-1], preprocessor.observation_space)


def test_lists_within_lists_are_taken_apart():
    space = Repeated(Dict({"items": Repeated(Discrete(2), 2), "place": Box(-9, 9, (1,))}), 2)
    preprocessor = get_preprocessor(space)(space)
    flat = preprocessor.transform([{"items": [1], "place": np.array([5.0])}])
    assert flat.tolist() == [1, 1, 0, 1, 0, 0, 5, 0, 0, 0, 0, 0, 0]
    found = restore_original_dimensions(flat[None], preprocessor.observation_space)
    ((player,),) = found.unbatch_all()
    assert player["place"].tolist() == [5]
    assert [one.tolist() for one in player["items"]] == [[0, 1]]
    with pytest.raises(UnsupportedSpaceException, match="no layout"):
        RowPreprocessor(space)
