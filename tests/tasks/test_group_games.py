"""Sacrifice, carrying together, the two-step game: rules, best scores, and whom which kind of credit pays."""

import numpy as np
import pytest

from rookery.core.spaces.arrays import CENTRAL
from rookery.tasks.games.carry_together import COLUMNS, DOWN, HERE, LEFT, LIFT, LOADS, RIGHT, UP, WEIGHTS, CarryTogether
from rookery.tasks.games.matrix_game import PAYOFFS, MatrixGame
from rookery.tasks.games.players import carry_together_script, matrix_game_best, sacrifice_script
from rookery.tasks.games.sacrifice import CELLS, DOOR, STAY, Sacrifice


def plan(lane, episode):
    return lane * 1000 + episode


def by_chance(num):
    return lambda obs, rng: rng.integers(0, num, len(next(iter(obs.values()))))


def scores(env, player, episodes, seed=0):
    """Own and group rewards of each agent in whole episodes, and their lengths; of each lane equally many."""
    agents = len(env.kinds[0].agents)
    rng, shown = np.random.default_rng(seed), env.reset(plan)
    own, group = np.zeros((2, env.num_lanes, agents))
    steps, left, found = np.zeros(env.num_lanes, int), np.full(env.num_lanes, episodes), []
    while left.any():
        rows = shown.rows[0]
        shown = env.step([player({path: array[rows.waiting] for path, array in rows.obs.items()}, rng)])
        rows = shown.rows[0]
        own += rows.reward.reshape(own.shape)
        group += 0 if rows.group_reward is None else rows.group_reward.reshape(own.shape)
        steps += 1
        for lane in np.flatnonzero(shown.ended):
            if left[lane]:
                found.append((own[lane].copy(), group[lane].copy(), steps[lane]))
            own[lane], group[lane], steps[lane], left[lane] = 0, 0, 0, max(left[lane] - 1, 0)
    return [np.array(column) for column in zip(*found, strict=True)]


# --- sacrifice --------------------------------------------------------------------------------------------------------


def corridor(*cells, is_open=False, num_lanes=1):
    """Corridors whose agents are in these cells, 0 for who is gone."""
    env = Sacrifice(num_lanes)
    env.reset(plan)
    env._cell[:], env._alive[:], env._open[:] = cells, np.array(cells) > 0, is_open
    env._show()
    return env


def test_who_steps_on_the_altar_ends_and_opens_the_door():
    env = corridor(1, DOOR - 1, DOOR - 1)
    shown = env.step([np.array([0, 2, 2])])
    rows = shown.rows[0]
    assert rows.terminated.tolist() == [True, False, False]
    assert rows.waiting.tolist() == [False, True, True]
    assert rows.reward.tolist() == [-0.1, 0.0, 0.0]
    assert rows.group_reward.tolist() == [0.0] * 3
    assert not shown.ended.any()
    assert shown.any_end
    assert env.text(0) == "!   .   .   .   bc    .   .   .   >"
    seen = rows.obs["obs"][1]
    assert seen[-1] == 1
    assert np.flatnonzero(seen[:CELLS]).tolist() == [DOOR - 1]
    assert np.flatnonzero(seen[CELLS:-1]).tolist() == [DOOR - 1]
    for step in range(CELLS - DOOR):
        shown = env.step([np.array([2, STAY])])
        assert shown.ended.any() == (step == CELLS - DOOR - 1)
    rows = shown.rows[0]
    assert rows.terminated.tolist() == [False, True, True], "an agent ends once"
    assert rows.group_reward.tolist() == [1.0] * 3, "what the group earns later is told to the ended one, too"
    assert rows.waiting.all()


def test_a_second_sacrifice_halves_the_reward_and_a_third_ends_it():
    env = corridor(1, 1, CELLS - 2, is_open=True)
    env.step([np.array([0, 0, STAY])])
    assert env.step([np.array([2])]).rows[0].group_reward.tolist() == [0.5] * 3
    env = corridor(1, 1, 1)
    shown = env.step([np.zeros(3, int)])
    assert shown.ended.all()
    assert shown.rows[0].terminated.all()
    assert shown.rows[0].group_reward.tolist() == [0.0] * 3


def test_without_a_sacrifice_nobody_gets_out_and_time_cuts_it_off():
    env = Sacrifice(1, max_steps=12)
    env.reset(plan)
    for step in range(12):
        shown = env.step([np.full(3, 2)])
        assert shown.ended.all() == (step == 11)
    rows = shown.rows[0]
    assert rows.truncated.all()
    assert rows.final_index.tolist() == [0, 1, 2]
    assert (rows.final_obs["obs"][:, DOOR - 1] == 1).all()
    assert not rows.reward.any()
    assert not rows.group_reward.any()


def test_no_play_is_better_than_the_script():
    """All joint actions from all states that can be reached: the group gets 1 at best, after six steps or more."""
    joint = np.array(np.meshgrid(*[range(3)] * 3)).reshape(3, -1).T
    start = ((2, 3, 4), (True,) * 3, False)
    seen, frontier, earned = {start}, [start], {}
    for step in range(1, 8):
        ahead = []
        for cells, alive, is_open in frontier:
            env = corridor(*cells, is_open=is_open, num_lanes=len(joint))
            env._alive[:] = alive
            env._show()
            shown = env.step([joint[:, list(alive)].ravel()])
            for lane in range(len(joint)):
                if shown.ended[lane]:
                    earned.setdefault(float(shown.rows[0].group_reward[3 * lane]), step)
                    continue
                state = (tuple(env._cell[lane].tolist()), tuple(env._alive[lane].tolist()), bool(env._open[lane]))
                if state not in seen:
                    seen.add(state)
                    ahead.append(state)
        frontier = ahead
    assert earned[1.0] == 6
    assert max(earned) == 1.0
    own, group, steps = scores(Sacrifice(50), sacrifice_script, 2)
    assert (group == 1.0).all()
    assert (steps == 6).all()
    np.testing.assert_allclose(own.sum(axis=1), -0.1)


def test_only_credit_after_the_end_pays_for_a_sacrifice():
    """Whatever is played: with own rewards, and those of the group while it lives, to step on the altar costs."""
    gamma, rng = 0.99, np.random.default_rng(0)

    def mixed(obs, rng):
        return np.where(rng.random(len(obs["obs"])) < 0.7, sacrifice_script(obs, rng), by_chance(3)(obs, rng))

    for player in (by_chance(3), mixed, sacrifice_script):
        env = Sacrifice(50)
        shown = env.reset(plan)
        own, alive, after, altar = np.zeros((4, 50, 3))
        steps, told = np.zeros((50, 1)), []
        for _ in range(240):
            rows = shown.rows[0]
            lives, closed = env._alive.copy(), ~env._open[:, None]
            shown = env.step([player({"obs": rows.obs["obs"][rows.waiting]}, rng)])
            rows, discount = shown.rows[0], gamma**steps
            reward, group = rows.reward.reshape(50, 3), rows.group_reward.reshape(50, 3)
            gave = lives & (reward < 0)
            altar[gave] = 2
            altar[gave & closed] = 1  # who opened the door
            own += discount * reward
            alive += discount * (reward + group * lives)
            after += discount * (reward + group)
            steps += 1
            for lane in np.flatnonzero(shown.ended):
                told += list(zip(altar[lane], own[lane], alive[lane], after[lane], strict=True))
                for array in (own, alive, after, altar, steps):
                    array[lane] = 0
        gave, own, alive, after = np.array(told).T
        assert gave.sum() > 30
        assert (own[gave == 1] < 0).all()
        assert (own[gave == 0] == 0).all()
        assert (alive[gave == 1] < 0).all(), "an agent that leaves its group at its end sees only what it paid"
        assert (alive[gave == 0] >= 0).all()
        assert after[gave == 1].mean() > 0.05, "even by chance it pays, if what comes after counts"
    assert after[gave == 1].min() > 0.8


def test_what_sacrifice_scores_by_chance():
    own, group, _ = scores(Sacrifice(100), by_chance(3), 20)
    assert group[:, 0].mean() == pytest.approx(0.265, abs=0.03)


# --- carrying ---------------------------------------------------------------------------------------------------------


def grid(places, loads, there=(True,) * 3):
    env = CarryTogether(1)
    env.reset(plan)
    env._place[0], env._load[0], env._there[0] = places, loads, there
    env._far[0] = env._load[0, :, 1]
    env._show()
    return env


@pytest.mark.parametrize(
    ("load", "lifting", "moves"), [(0, 1, True), (1, 1, False), (1, 2, True), (2, 2, False), (2, 3, True)]
)
def test_a_load_moves_if_as_many_lift_as_it_weighs(load, lifting, moves):
    loads = [[0, 3], [1, 3], [2, 3]]
    env = grid([loads[load]] * 3, loads)
    actions = np.array([LIFT] * lifting + [UP] * (3 - lifting))
    shown = env.step([actions])
    assert env._load[0, load].tolist() == [load, 2 if moves else 3]
    assert env._place[0, 0].tolist() == [load, 2 if moves else 3]
    paid = WEIGHTS[load] / 6 / 3 if moves else 0.0  # for one of three columns
    np.testing.assert_allclose(shown.rows[0].group_reward, paid)


def test_what_is_brought_home_pays_its_weight_and_the_last_one_ends_the_episode():
    env = grid([[0, 1], [1, 1], [1, 1]], [[0, 1], [1, 1], [2, 1]])
    rows = env.step([np.full(3, LIFT)]).rows[0]
    assert rows.group_reward.tolist() == [3 / 6] * 3
    assert not rows.reward.any()
    env = grid([[2, 1]] * 3, [[0, 1], [1, 1], [2, 1]], (False, False, True))
    shown = env.step([np.full(3, LIFT)])
    assert shown.rows[0].group_reward.tolist() == [0.5] * 3
    assert shown.rows[0].terminated.all()
    assert WEIGHTS.sum() == 6


def test_agents_walk_and_see_loads_and_who_stands_with_them_but_nobody_else():
    env = grid([[0, 0], [0, 0], [3, 4]], [[0, 2], [1, 3], [3, 4]])
    seen = env._rows.obs["obs"]
    assert seen[:, HERE].tolist() == [[1, 0], [1, 0], [0, 0]]
    loads = seen[:, LOADS:].reshape(3, 3, 4)
    assert loads[2, 2].tolist() == [1, 1, 0, 0]
    np.testing.assert_allclose(loads[0, 0], [1, 0, 0, 0.5])
    elsewhere = grid([[0, 0], [0, 0], [2, 3]], [[0, 2], [1, 3], [3, 4]])
    np.testing.assert_array_equal(seen[:2], elsewhere._rows.obs["obs"][:2])
    env.step([np.array([UP, LEFT, DOWN])])
    assert env._place[0].tolist() == [[0, 0], [0, 0], [3, 4]], "walls stop moves"
    env.step([np.array([DOWN, RIGHT, LEFT])])
    assert env._place[0].tolist() == [[1, 0], [0, 1], [3, COLUMNS - 2]]


def test_of_two_loads_in_one_cell_the_heavier_is_lifted():
    env = grid([[1, 2]] * 3, [[1, 2], [1, 2], [2, 2]])
    env.step([np.full(3, LIFT)])
    assert env._load[0].tolist() == [[1, 2], [1, 1], [2, 2]]


def test_who_fetches_the_loads_together_brings_all_and_chance_little():
    _, group, steps = scores(CarryTogether(50), carry_together_script, 4)
    np.testing.assert_allclose(group, 1.0)
    assert steps.max() < 40
    _, group, _ = scores(CarryTogether(50), by_chance(5), 10)
    assert group[:, 0].mean() == pytest.approx(0.073, abs=0.03)


# --- the two-step game ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("game", [0, 1])
@pytest.mark.parametrize("second", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_the_first_action_of_a_chooses_the_game(game, second):
    env = MatrixGame(1)
    shown = env.reset(plan)
    assert shown.rows[0].obs["own"].tolist() == [[1, 0, 0, 1, 0], [1, 0, 0, 0, 1]]
    shown = env.step([np.array([game, 1 - game])])
    assert not shown.rows[0].reward.any()
    assert not shown.ended.any()
    assert shown.rows[0].obs[f"{CENTRAL}/state"].tolist() == [np.eye(3)[1 + game].tolist()] * 2
    assert shown.rows[0].obs["own"][:, :3].tolist() == [np.eye(3)[1 + game].tolist()] * 2
    shown = env.step([np.array(second)])
    assert shown.rows[0].reward.tolist() == [PAYOFFS[game][second] / 2] * 2
    assert shown.rows[0].terminated.all()
    assert env.episode.tolist() == [1]


def test_sums_of_values_play_for_seven_and_the_best_is_eight():
    # the best sum of one value of each agent for game 1, by least squares over actions drawn evenly
    design = np.array([[i == 0, i == 1, j == 0, j == 1] for i in range(2) for j in range(2)], float)
    values = np.linalg.lstsq(design, PAYOFFS[1].ravel(), rcond=None)[0]
    assert (design @ values).max() < 7.0, "so that game 0 looks better"
    own, _, _ = scores(MatrixGame(10), matrix_game_best, 2)
    np.testing.assert_allclose(own.sum(axis=1), 8.0)
    own, _, _ = scores(MatrixGame(100), by_chance(2), 40)
    assert own.sum(axis=1).mean() == pytest.approx(4.75, abs=0.2)


def test_groups_are_named():
    assert Sacrifice(1).groups == CarryTogether(1).groups == {"team": ("a", "b", "c")}
    assert MatrixGame(1).groups == {"team": ("a", "b")}
    assert MatrixGame(1).reset(plan).rows[0].group_reward is None
