"""Match3: swaps, lines, falling cells, chains and boards without moves, against rules written cell by cell."""

import numpy as np
import pytest

from rookery.core.spaces.arrays import MASK
from rookery.tasks.games.players import match3_greedy
from rookery.tasks.match3 import (
    EMPTY,
    OUTSIDE,
    POINTS,
    Match3,
    allowed,
    fallen,
    in_lines,
    move_points,
    num_moves,
    swaps,
)


def plan(lane, episode):
    return lane * 1000 + episode


def line_cells(board):
    """The cells of lines of three or more, one by one; `board` is a list of rows."""
    rows, columns, found = len(board), len(board[0]), set()
    for r in range(rows):
        for c in range(columns):
            for down, right in ((0, 1), (1, 0)):
                run = [(r, c)]
                while True:
                    nr, nc = run[-1][0] + down, run[-1][1] + right
                    if nr >= rows or nc >= columns or board[nr][nc] != board[r][c] or board[r][c] < 0:
                        break
                    run.append((nr, nc))
                if len(run) >= 3:
                    found |= set(run)
    return found


def swapped(board, move):
    """A board after a move, and the two cells that have been swapped."""
    rows, columns = len(board), len(board[0])
    one, other = swaps(rows, columns)[move].tolist()
    new = [list(row) for row in board]
    (r, c), (nr, nc) = divmod(one, columns), divmod(other, columns)
    new[r][c], new[nr][nc] = new[nr][nc], new[r][c]
    return new, (board[r][c], board[nr][nc])


def test_moves_are_numbered_as_in_ml_agents():
    assert num_moves(9, 8) == 9 * 7 + 8 * 8 == 127
    pairs = swaps(3, 4)
    assert len(pairs) == num_moves(3, 4) == 17
    assert pairs[0].tolist() == [0, 1]
    assert pairs[3].tolist() == [4, 5], "the second row, after three swaps to the right of the first"
    assert pairs[9].tolist() == [0, 4], "then swaps with the cell above"
    assert pairs[-1].tolist() == [7, 11]


def test_the_mask_and_the_points_of_moves_are_exactly_those_of_the_rules():
    rng = np.random.default_rng(0)
    env = Match3(12, rows=6, columns=5, types=4)
    env.reset(plan)
    for _ in range(4):
        cells, special = env._cells.copy(), env._special.copy()
        assert not in_lines(cells).any()
        points = move_points(cells, special)
        np.testing.assert_array_equal(env._rows.obs[MASK], points > 0)
        for lane in range(12):
            board, ways = cells[lane].tolist(), special[lane].tolist()
            for move in range(num_moves(6, 5)):
                new, (one, other) = swapped(board, move)
                moved_ways, _ = swapped(ways, move)
                lines = line_cells(new) if one != other else set()
                assert points[lane, move] == sum(POINTS[moved_ways[r][c]] for r, c in lines)
        env.step([np.where(points > 0, rng.random(points.shape), -1).argmax(axis=1)])


def test_lines_are_those_of_three_or_more_in_rows_and_columns():
    rng = np.random.default_rng(1)
    boards = rng.integers(-1, 3, (30, 6, 7)).astype(np.int8)
    found = in_lines(boards)
    for board, marks in zip(boards, found, strict=True):
        assert {tuple(cell) for cell in np.argwhere(marks).tolist()} == line_cells(board.tolist())


def test_cells_fall_to_the_lowest_row_and_keep_their_order():
    board = np.array([[[0, EMPTY], [EMPTY, EMPTY], [1, 2], [2, OUTSIDE]]], dtype=np.int8)
    special = np.array([[[1, 0], [0, 0], [2, 1], [0, 0]]], dtype=np.int8)
    cells, ways = fallen(board, special)
    assert cells[0].tolist() == [[0, 2], [1, EMPTY], [2, EMPTY], [EMPTY, OUTSIDE]]
    assert ways[0].tolist() == [[1, 1], [2, 0], [0, 0], [0, 0]]


def prepared(*rows, special=(), **settings):
    """One board, its highest row first, and all plain but for some cells (row from below, column, way)."""
    cells = np.array([[int(kind) for kind in row] for row in rows[::-1]], dtype=np.int8)
    env = Match3(1, rows=len(rows), columns=len(rows[0]), **settings)
    env.reset(plan)
    env._cells[0], env._special[0] = cells, 0
    for row, column, way in special:
        env._special[0, row, column] = way
    env._make_playable(env._lanes)
    env._show()
    return env


def test_a_line_pays_for_its_cells_and_more_for_special_ones():
    env = prepared("0123", "1032", "2301", "0012", special=[(0, 0, 1), (0, 1, 2)], types=4)
    assert not in_lines(env._cells).any()
    move = int(np.flatnonzero((swaps(4, 4) == (2, 6)).all(axis=1))[0])  # a 0 comes down beside two others
    assert env._rows.obs[MASK][0, move]
    drawn = []
    env._fill = lambda lanes: drawn.append(env._cells[lanes].copy()) or Match3._fill(env, lanes)
    points = move_points(env._cells, env._special)[0, move]
    assert points == 1 + 2 + 3
    reward = env.step([np.array([move])]).rows[0].reward[0]
    first = drawn[0][0]
    assert (first[3, :3] == EMPTY).all(), "three cells are missing at the top, and nowhere else"
    assert (first >= 0).sum() == 13
    assert first[0].tolist() == [2, 3, 1, 2], "what lay above came down"
    assert reward >= 0.06 - 1e-12
    assert round(reward * 100) == pytest.approx(reward * 100), "more only for lines that came of it"


def test_lines_that_come_of_falling_are_cleared_and_paid_too():
    env = prepared("1230", "2301", "0023", "3302", "1120", "0013", types=4)
    paid = []
    for seed in range(40):
        env.reset(lambda lane, episode, seed=seed: seed)
        before = env._cells.copy()
        points = move_points(before, env._special)
        move = int(points[0].argmax())
        reward = env.step([np.array([move])]).rows[0].reward[0]
        assert not in_lines(env._cells).any()
        assert (env._cells >= 0).all()
        paid.append(round(reward * 100) - points[0, move])
    assert min(paid) == 0
    assert max(paid) >= 3, "a chain"


def test_a_board_without_moves_is_drawn_anew_and_pays_nothing():
    env = Match3(1, rows=4, columns=4, types=9)
    env.reset(plan)
    env._cells[0] = np.array([[0, 1, 2, 3], [4, 5, 6, 7], [8, 0, 1, 2], [3, 4, 5, 6]])
    assert not allowed(env._cells).any()
    before = env._cells.copy()
    env._make_playable(env._lanes)
    assert env._mask.any()
    assert (env._cells != before).any()
    np.testing.assert_array_equal(env._mask, allowed(env._cells))
    env = Match3(60, rows=4, columns=4, types=9, max_moves=20)
    shown = env.reset(plan)
    assert shown.rows[0].obs[MASK].any(axis=1).all(), "few boards of nine kinds have a move"


def test_special_cells_are_drawn_with_their_chances_and_kinds_alike():
    env = Match3(200)
    env.reset(plan)
    ways = np.bincount(env._special.ravel()) / env._special.size
    np.testing.assert_allclose(ways, [0.7, 0.2, 0.1], atol=0.02)
    kinds = np.bincount(env._cells.ravel()) / env._cells.size
    np.testing.assert_allclose(kinds, 1 / 6, atol=0.02)


@pytest.mark.parametrize("observation", ["vector", "visual"])
def test_a_board_is_seen_as_flags_and_smaller_boards_leave_the_rest_empty(observation):
    env = Match3(30, types=5, observation=observation, min_rows=6, min_columns=6)
    obs = env.reset(plan).rows[0].obs
    assert obs["cells"].shape == ((30, 360) if observation == "vector" else (30, 9, 8, 5))
    cells, special = obs["cells"].reshape(30, 9, 8, 5), obs["special"].reshape(30, 9, 8, 3)
    inside = env._cells != OUTSIDE
    np.testing.assert_array_equal(cells.sum(axis=3), inside)
    np.testing.assert_array_equal(special.sum(axis=3), inside)
    np.testing.assert_array_equal(cells.argmax(axis=3)[inside], env._cells[inside])
    np.testing.assert_array_equal(special.argmax(axis=3)[inside], env._special[inside])
    sizes = {(int(board.any(axis=1).sum()), int(board.any(axis=0).sum())) for board in inside}
    assert {rows for rows, _ in sizes} == {6, 7, 8, 9}
    assert {columns for _, columns in sizes} == {6, 7, 8}
    for board, (rows, columns) in ((board, (board.any(axis=1).sum(), board.any(axis=0).sum())) for board in inside):
        assert board[:rows, :columns].all()
    outer = swaps(9, 8)
    flat = inside.reshape(30, -1)
    assert not (obs[MASK] & ~(flat[:, outer[:, 0]] & flat[:, outer[:, 1]])).any()


def test_an_episode_is_cut_off_after_its_moves():
    env = Match3(3, max_moves=2)
    shown = env.reset(plan)
    for last in (False, True):
        shown = env.step([shown.rows[0].obs[MASK].argmax(axis=1)])
        assert shown.rows[0].truncated.all() == last
    assert not shown.rows[0].terminated.any()


def test_the_greedy_player_gets_more_than_chance_and_both_as_much_as_ml_agents_states():
    rng, earned = np.random.default_rng(0), {}
    for name in ("chance", "greedy"):
        env = Match3(60, observation="visual")
        shown, total = env.reset(plan), np.zeros(60)
        for move in range(100):
            obs = shown.rows[0].obs
            drawn = np.where(obs[MASK], rng.random(obs[MASK].shape), -1).argmax(axis=1)
            shown = env.step([match3_greedy(obs, rng) if name == "greedy" else drawn])
            total += shown.rows[0].reward * (move >= 40)  # the first moves find cells that were not taken yet
        earned[name] = total.mean() * 500 / 60  # of 500 moves
    assert earned["chance"] == pytest.approx(34.2, abs=1.5)
    assert earned["greedy"] == pytest.approx(37.0, abs=1.5)
    assert earned["greedy"] - earned["chance"] > 1.0
