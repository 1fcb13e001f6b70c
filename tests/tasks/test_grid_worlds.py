"""GoalGrid and PushBlock: their rules on states made by hand, what is seen, best ways counted out and walked."""

import numpy as np
import pytest

from rookery.core.spaces.arrays import MASK
from rookery.tasks import goal_grid, push_block
from rookery.tasks.games.players import goal_grid_best, push_block_best
from rookery.tasks.goal_grid import DOWN, GoalGrid
from rookery.tasks.push_block import BACK, FORWARD, LEFT, RAYS, RIGHT, STAY, TURN_LEFT, TURN_RIGHT, PushBlock


def plan(lane, episode):
    return lane * 1000 + episode


# --- the goal ---------------------------------------------------------------------------------------------------------


def grid(place, plus, cross, goal, **settings):
    env = GoalGrid(1, **settings)
    env.reset(plan)
    env._place[0], env._things[0], env._goal[0] = place, (plus, cross), goal
    env._show()
    return env


@pytest.mark.parametrize(("goal", "paid"), [(0, 1.0), (1, -1.0)])
def test_to_come_to_one_of_both_ends_the_episode_and_pays_by_the_goal(goal, paid):
    env = grid((0, 0), (0, 2), (3, 3), goal)
    rows = env.step([np.array([goal_grid.RIGHT])]).rows[0]
    assert rows.reward.tolist() == [-0.01]
    assert not rows.terminated.any()
    rows = env.step([np.array([goal_grid.RIGHT])]).rows[0]
    assert rows.reward.tolist() == [paid]
    assert rows.terminated.all()


def test_the_mask_has_exactly_what_no_wall_stops():
    for place, allowed in (((0, 0), [1, 0, 1, 0, 1]), ((4, 4), [1, 1, 0, 1, 0]), ((2, 0), [1, 1, 1, 0, 1])):
        env = grid(place, (1, 1), (3, 3), 0)
        assert env._rows.obs[MASK][0].tolist() == allowed
        for action in np.flatnonzero(allowed):
            env = grid(place, (1, 1), (3, 3), 0)
            env.step([np.array([action])])
            np.testing.assert_array_equal(env._place[0], np.array(place) + goal_grid.WAY[action])


def test_a_grid_is_seen_as_flags_or_as_a_picture_of_the_same():
    env = grid((0, 1), (2, 0), (4, 3), 1, observation="one_hot")
    flags = env._rows.obs["grid"].reshape(5, 5, 3)
    assert np.argwhere(flags).tolist() == [[0, 1, 2], [2, 0, 0], [4, 3, 1]]
    assert env._rows.obs["goal"].tolist() == [[0, 1]]
    env = grid((0, 1), (2, 0), (4, 3), 1)
    picture = env._rows.obs["picture"][0]
    assert picture.shape == (40, 40, 3)
    cells = picture.reshape(5, 8, 5, 8, 3).swapaxes(1, 2)
    drawn = [[row, column] for row, column in np.ndindex(5, 5) if (cells[row, column] != 255).any()]
    assert drawn == [[0, 1], [2, 0], [4, 3]]
    icons = goal_grid.icons()
    np.testing.assert_array_equal(cells[2, 0], icons[goal_grid.PLUS])
    assert len({icon.tobytes() for icon in icons}) == 4


def test_beginnings_are_drawn_apart_and_both_goals_alike():
    env = GoalGrid(400)
    env.reset(plan)
    cells = np.concatenate([env._place[:, None], env._things], axis=1) @ (5, 1)
    assert all(len(set(row)) == 3 for row in cells.tolist())
    assert abs(env._goal.mean() - 0.5) < 0.1
    assert len(np.unique(cells)) == 25


def test_the_best_way_is_walked_and_is_as_long_as_was_counted():
    env = grid((2, 0), (2, 3), (2, 1), 0, observation="one_hot")
    rng, total = np.random.default_rng(0), 0.0
    for _ in range(5):  # around the cross
        rows = env.step([goal_grid_best(env._rows.obs, rng)]).rows[0]
        total += rows.reward[0]
    assert total == pytest.approx(0.96)
    assert rows.terminated.all()

    env = GoalGrid(600, observation="one_hot")
    shown, earned, first = env.reset(plan), np.zeros(600), np.ones(600, dtype=bool)
    while first.any():
        shown = env.step([goal_grid_best(shown.rows[0].obs, rng)])
        earned += shown.rows[0].reward * first
        first &= ~shown.ended
    best = goal_grid.best_return(5)
    assert best == pytest.approx(0.9764, abs=1e-4)
    assert earned.mean() == pytest.approx(best, abs=0.002)


def test_the_goal_grid_is_cut_off_and_chance_gets_less_than_nothing():
    env, rng = GoalGrid(300, observation="one_hot"), np.random.default_rng(0)
    shown, earned, first, cut = env.reset(plan), np.zeros(300), np.ones(300, dtype=bool), 0
    for _ in range(100):
        mask = shown.rows[0].obs[MASK]
        shown = env.step([np.where(mask, rng.random(mask.shape), -1).argmax(axis=1)])
        earned += shown.rows[0].reward * first
        first &= ~shown.ended
        cut += shown.rows[0].truncated.sum()
    assert not first.any()
    assert cut > 0
    assert earned.mean() == pytest.approx(-0.28, abs=0.15)
    env = grid((2, 2), (0, 0), (4, 4), 0, max_steps=1)
    rows = env.step([np.array([DOWN])]).rows[0]
    assert rows.truncated.all()
    assert rows.final_obs["picture"].shape == (1, 40, 40, 3)


# --- the block --------------------------------------------------------------------------------------------------------


def room(place, block, side=0, looks=0, **settings):
    env = PushBlock(1, **settings)
    env.reset(plan)
    env._place[0], env._block[0], env._side[0], env._looks[0] = place, block, side, looks
    env._show()
    return env


@pytest.mark.parametrize(
    ("looks", "ways"),
    [
        (0, [(-1, 0), (1, 0), (0, -1), (0, 1)]),
        (1, [(0, 1), (0, -1), (-1, 0), (1, 0)]),
        (2, [(1, 0), (-1, 0), (0, 1), (0, -1)]),
        (3, [(0, -1), (0, 1), (1, 0), (-1, 0)]),
    ],
)
def test_the_agent_moves_as_it_looks(looks, ways):
    for action, way in zip((FORWARD, BACK, LEFT, RIGHT), ways, strict=True):
        env = room((4, 4), (7, 7), looks=looks)
        rows = env.step([np.array([action])]).rows[0]
        assert env._place[0].tolist() == [4 + way[0], 4 + way[1]]
        assert rows.reward.tolist() == [-1 / 200]
    for action, turned in ((STAY, 0), (TURN_RIGHT, 1), (TURN_LEFT, 3)):
        env = room((4, 4), (7, 7), looks=looks)
        env.step([np.array([action])])
        assert env._looks[0] == (looks + turned) % 4
        assert env._place[0].tolist() == [4, 4]


def test_a_block_is_pushed_unless_a_wall_stops_it():
    env = room((5, 4), (4, 4))
    env.step([np.array([FORWARD])])
    assert (env._place[0].tolist(), env._block[0].tolist()) == ([4, 4], [3, 4])
    env.step([np.array([BACK])])
    assert (env._place[0].tolist(), env._block[0].tolist()) == ([5, 4], [3, 4]), "nobody pulls"
    env = room((4, 7), (4, 8))
    env.step([np.array([RIGHT])])
    assert (env._place[0].tolist(), env._block[0].tolist()) == ([4, 7], [4, 8])
    env = room((4, 0), (7, 7))
    env.step([np.array([LEFT])])
    assert env._place[0].tolist() == [4, 0]


@pytest.mark.parametrize(("side", "way"), [(0, (-1, 0)), (1, (0, 1)), (2, (1, 0)), (3, (0, -1))])
def test_a_block_on_the_goal_pays_five_and_ends_the_episode(side, way):
    middle = np.array([4, 4])
    env = room(middle + 2 * np.array(way), middle + 3 * np.array(way), side=side, looks=side)
    rows = env.step([np.array([FORWARD])]).rows[0]
    assert rows.reward.tolist() == [pytest.approx(5 - 1 / 200)]
    assert rows.terminated.all()
    env = room((4, 4), (5, 5), side=side, max_steps=1)
    rows = env.step([np.array([STAY])]).rows[0]
    assert rows.truncated.all()
    assert rows.reward.tolist() == [-1.0]


@pytest.mark.parametrize("looks", range(4))
def test_the_view_is_turned_with_the_agent(looks):
    turn = push_block.QUARTERS[looks]
    ahead, right = np.array((-1, 0)) @ turn, np.array((0, 1)) @ turn
    env = room((4, 4), np.array([4, 4]) + 2 * ahead + right, looks=looks, observation="grid")
    view = env._rows.obs["grid"][0]
    assert view.shape == (17, 17, 3)
    assert np.argwhere(view[:, :, push_block.BLOCK - 1]).tolist() == [[8 - 2, 8 + 1]]
    assert view[:, :, push_block.GOAL - 1].sum() == 9
    assert view[:, :, push_block.WALL - 1].sum() == 17 * 17 - 81
    env = room((4, 4), np.array([4, 4]) + 2 * ahead, looks=looks)
    rays = env._rows.obs["rays"].reshape(RAYS, 5)
    assert rays[0].tolist() == [1, 0, 0, 0, 1.5 / 8]
    assert (rays[1:, 0] == 0).all()
    assert (rays[:, :4].sum(axis=1) == 1).all()


def test_rays_say_what_they_meet_first_and_how_far_that_is():
    env = room((2, 4), (6, 4))
    rays = env._rows.obs["rays"].reshape(RAYS, 5)
    assert rays[0].tolist() == [0, 1, 0, 0, 1.5 / 8], "the edge of the goal, two cells ahead"
    assert rays[7].tolist() == [1, 0, 0, 0, 3.5 / 8], "the block behind"
    assert rays[4, 2] == rays[10, 2] == 1, "walls at the sides"
    env = room((3, 4), (4, 4))
    rays = env._rows.obs["rays"].reshape(RAYS, 5)
    assert rays[7].tolist() == [1, 0, 0, 0, 1 / 8], "the block right behind"
    assert rays[4].tolist() == [0, 0, 1, 0, 5 / 8], "4.5 / sin 103 degrees, to the next half"


def test_a_block_at_the_far_side_is_lost_and_the_fewest_steps_are_those_that_are_needed():
    fewest = push_block.distances(9).reshape(9, 9, 9, 9)
    assert np.isinf(fewest[2, 2, 8, 4])
    assert fewest[5, 4, 4, 4] == 4, "four pushes from right behind"
    assert fewest[3, 4, 4, 4] == 4 + 4, "around it first"
    assert fewest[4, 4, 3, 0] == 4 + 3, "along a side wall"
    assert (fewest[:, :, 0] == 0).all()


def test_the_shortest_way_is_walked_and_is_as_long_as_was_counted():
    env, rng = PushBlock(150, observation="grid"), np.random.default_rng(0)
    shown, earned, first = env.reset(plan), np.zeros(150), np.ones(150, dtype=bool)
    while first.any():
        shown = env.step([push_block_best(shown.rows[0].obs, rng)])
        earned += shown.rows[0].reward * first
        first &= ~shown.ended
    best = push_block.best_return(9, 200)
    assert best == pytest.approx(4.9558, abs=1e-4)
    assert earned.mean() == pytest.approx(best, abs=0.003)
    assert earned.min() > 4.9


def test_blocks_begin_away_from_the_sides_and_chance_brings_few_home():
    env, rng = PushBlock(200), np.random.default_rng(0)
    env.reset(plan)
    assert env._block.min() == 2
    assert env._block.max() == 6
    assert sorted(set(env._side.tolist())) == sorted(set(env._looks.tolist())) == [0, 1, 2, 3]
    assert not env._on_goal(env._place).any()
    assert (env._place != env._block).any(axis=1).all()
    earned, first = np.zeros(200), np.ones(200, dtype=bool)
    for _ in range(200):
        shown = env.step([rng.integers(0, 7, 200)])
        earned += shown.rows[0].reward * first
        first &= ~shown.ended
    assert earned.mean() == pytest.approx(-0.89, abs=0.2)
