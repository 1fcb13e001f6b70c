"""Stored actions as environments of tensors take them: the bits of `ActionSpec.to_env`, in memory of their own."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery.core.spaces.arrays import action_spec
from rookery.tensor_envs.actions import TensorActions

inf = np.inf
SPACES = [
    spaces.Discrete(4),
    spaces.Discrete(4, start=3),
    spaces.Discrete(4, start=-2),
    spaces.MultiDiscrete([2, 3]),
    spaces.MultiDiscrete([2, 3], start=[5, 0]),
    spaces.MultiDiscrete([[2, 3], [4, 5]]),
    spaces.MultiBinary(3),
    spaces.MultiBinary((2, 2)),
    spaces.Box(-1.0, 1.0, (3,)),
    spaces.Box(-2.0, 2.0, (1,)),
    spaces.Box(np.array([-0.3, 0.0, -7.0], np.float32), np.array([0.1, 1.0, 11.0], np.float32)),
    spaces.Box(np.array([-inf, 0.0, -0.7], np.float32), np.array([0.3, inf, 0.9], np.float32)),
    spaces.Box(-inf, inf, (2, 2)),
    spaces.Box(-2.0, 2.0, (2,), np.float64),
    spaces.Box(0, 255, (3,), np.uint8),
]


def stored(spec, num, rng):
    if spec.kind == "box":
        drawn = rng.normal(0.0, 1.5, (num, *spec.shape)).astype(np.float32)
        drawn[0] = 1.0
        return drawn
    if spec.num_flags:
        return rng.integers(0, 2, (num, *spec.shape))
    return rng.integers(0, np.reshape(spec.sizes, spec.shape), (num, *spec.shape))


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_actions_are_those_of_arrays_to_the_bit_and_nobody_elses_memory(space):
    spec = action_spec(space)
    given = stored(spec, 50, np.random.default_rng(0))
    wanted = spec.to_env(given)
    tensor = torch.from_numpy(given.copy())
    found = TensorActions(spec, torch.device("cpu"))(tensor)
    assert found.numpy().dtype == wanted.dtype
    assert found.numpy().tobytes() == wanted.tobytes()
    assert found.shape == (50, *(space.shape or ()))
    kept = found.clone()
    tensor.fill_(1)
    assert torch.equal(found, kept)
