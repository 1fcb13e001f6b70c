"""MiniGrid's views as flags."""

import gymnasium
import numpy as np
import pytest

from rookery import EnvError
from rookery.envs.make import make_env
from rookery.tasks.grids import OneHotView


def test_a_view_becomes_one_flag_for_thing_colour_and_state_of_each_cell_and_one_for_the_direction():
    pytest.importorskip("minigrid")
    plain = gymnasium.make("MiniGrid-MemoryS7-v0")
    seen, _ = plain.reset(seed=3)
    env = OneHotView(plain)
    flags, _ = env.reset(seed=3)
    assert env.observation_space.contains(flags)
    cells, direction = flags[:-4].reshape(7, 7, 20), flags[-4:]
    assert np.array_equal(cells[..., :11].argmax(-1), seen["image"][..., 0])
    assert np.array_equal(cells[..., 11:17].argmax(-1), seen["image"][..., 1])
    assert np.array_equal(cells[..., 17:].argmax(-1), seen["image"][..., 2])
    assert direction.argmax() == seen["direction"]
    assert flags.sum() == 3 * 49 + 1


def test_it_is_named_by_its_import_path_and_gives_a_vector():
    pytest.importorskip("minigrid")
    env = make_env("MiniGrid-MemoryS7-v0", None, ["rookery.tasks.grids:OneHotView"], 2, "serial")
    assert env.kinds[0].obs.leaves[0].shape == (7 * 7 * 20 + 4,)
    env.close()


def test_it_refuses_what_is_no_view_of_a_grid():
    with pytest.raises(EnvError, match="not those of a MiniGrid task"):
        OneHotView(gymnasium.make("CartPole-v1"))
