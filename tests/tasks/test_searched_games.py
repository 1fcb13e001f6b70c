"""Rules of the board games as functions of states, and their symmetries."""

import numpy as np
import pytest

from rookery.core.seeding import Role, Streams
from rookery.core.spaces.arrays import MASK
from rookery.tasks.games.board_games import ConnectFour, TicTacToe


@pytest.fixture(params=[TicTacToe, ConnectFour])
def env(request):
    made = request.param(16)
    made.reset(Streams(3).episodes(Role.ENV))
    return made


def test_rules_lead_to_the_states_observations_and_rewards_of_the_environment(env):
    rng, lanes = np.random.default_rng(0), np.arange(16)
    for _ in range(60):
        state = env.get_state(lanes)
        seen, mover = env.observe(state), env.player(state)
        rows = lanes * 2 + mover
        for path, leaf in env._rows.obs.items():
            np.testing.assert_array_equal(seen[path], leaf[rows])
            assert seen[path].dtype == leaf.dtype
        action = np.array([rng.choice(np.flatnonzero(mask)) for mask in seen[MASK]])
        moved = env.move(state, action)
        np.testing.assert_array_equal(state, env.get_state(lanes))  # nothing has changed yet
        step = env.step([action])
        np.testing.assert_array_equal(step.ended, moved.over)
        np.testing.assert_array_equal(step.rows[0].reward[rows], moved.reward)
        np.testing.assert_array_equal(env.get_state(lanes)[~moved.over], moved.state[~moved.over])
    assert env.episode.sum() > 16


def test_a_state_can_be_restored(env):
    lanes = np.arange(4)
    before = env.get_state(lanes)
    env.step([np.full(16, 2)])
    assert (env.get_state(lanes) != before).any()
    env.set_state(lanes, before)
    np.testing.assert_array_equal(env.get_state(lanes), before)


def test_a_move_and_its_image_under_a_symmetry_lead_to_images_of_each_other(env):
    rng, lanes = np.random.default_rng(1), np.arange(16)
    for _ in range(6):  # states in the middle of games
        env.step([np.array([rng.choice(np.flatnonzero(mask)) for mask in env.observe(env.get_state(lanes))[MASK]])])
    state = env.get_state(lanes)
    for symmetry in env.symmetries:
        image = _image(env, state, symmetry)
        for j in range(env._num_actions):
            allowed = env.observe(image)[MASK][:, j] > 0
            np.testing.assert_array_equal(allowed, env.observe(state)[MASK][:, symmetry.action[j]] > 0)
            moved = env.move(state[allowed], np.full(allowed.sum(), symmetry.action[j]))
            mirrored = env.move(image[allowed], np.full(allowed.sum(), j))
            np.testing.assert_array_equal(_image(env, moved.state, symmetry), mirrored.state)
            np.testing.assert_array_equal(moved.over, mirrored.over)
    assert len(env.symmetries) == (8 if isinstance(env, TicTacToe) else 2)


def _image(env, state, symmetry):
    """Returns states whose boards are those seen under a symmetry."""
    places = symmetry.obs["board"][: len(env._bits)]
    planes = (state[:, :2, None] >> env._bits) & 1
    stones = (planes[:, :, places] << env._bits).sum(axis=2)
    return np.concatenate((stones, state[:, 2:]), axis=1)
