"""Plain Monte Carlo tree search as a player of the board games."""

import numpy as np
import pytest

from rookery.core.seeding import Role, Streams
from rookery.core.spaces.arrays import MASK
from rookery.tasks.games import uct
from rookery.tasks.games.board_games import ConnectFour, TicTacToe


def observed(cls, moves):
    """Returns the observation of the player to move after some moves."""
    env = cls(1)
    env.reset(Streams(0).episodes(Role.ENV))
    state = env.get_state(np.arange(1))
    for move in moves:
        state = env.move(state, np.array([move])).state
    return env.observe(state)


@pytest.mark.parametrize(
    ("cls", "player", "moves", "best"),
    [
        pytest.param(TicTacToe, uct.tic_tac_toe, (0, 3, 1, 4), {2}, id="tic-tac-toe: win"),
        pytest.param(TicTacToe, uct.tic_tac_toe, (0, 4, 1), {2}, id="tic-tac-toe: block"),
        pytest.param(ConnectFour, uct.connect_four, (3, 0, 3, 0, 3, 0), {3}, id="connect four: win upwards"),
        pytest.param(ConnectFour, uct.connect_four, (2, 0, 3, 0, 4), {1, 5}, id="connect four: block"),
    ],
)
def test_it_wins_or_blocks_where_it_must(cls, player, moves, best):
    assert int(player(observed(cls, moves), np.random.default_rng(0))[0]) in best


@pytest.mark.parametrize(("cls", "rules"), [(TicTacToe, uct.TIC_TAC_TOE), (ConnectFour, uct.CONNECT_FOUR)])
def test_its_rules_are_those_of_the_environment(cls, rules):
    env, rng = cls(1), np.random.default_rng(1)
    env.reset(Streams(0).episodes(Role.ENV))
    for _ in range(20):
        state, over = env.get_state(np.arange(1)) * 0, False
        while not over:
            own, other = state[0, state[0, 2] % 2], state[0, 1 - state[0, 2] % 2]
            allowed = np.flatnonzero(env.observe(state)[MASK][0])
            moves = dict(rules.moves(int(own | other)))
            assert list(moves) == allowed.tolist()
            move = int(rng.choice(allowed))
            state, reward, ended = env.move(state, np.array([move]))
            assert int(own) | moves[move] == state[0, (state[0, 2] - 1) % 2]
            assert rules.wins(int(own) | moves[move]) == bool(reward[0])
            over = bool(ended[0])
