"""The hazard grid: its rules, and its best use of a limit on costs, by hand and by linear programming."""

import numpy as np
import pytest

from rookery.tasks.hazard_grid import COLUMNS, ROWS, HazardGrid

UP, RIGHT, DOWN, LEFT = range(4)
STATES = ROWS * COLUMNS


def optimum(limit):
    """Best mean return at a mean cost: across from the lowest rows first, each for a cost of 6 in a sixth of episodes,
    and from the last of them with a probability.
    """
    total = 0.0
    for row in range(ROWS - 1, -1, -1):
        across = min(max(limit, 0.0), 1.0) if row else 0.0
        limit -= 1.0
        total += (0.4 - 0.05 * row + across * 0.1 * row) / ROWS
    return total


def best_policy(risky):
    """Across from the rows in `risky`, around from the others; the way is chosen at the left wall."""
    policy = np.zeros((STATES, 4))
    for row in range(ROWS):
        for column in range(COLUMNS):
            if column == COLUMNS - 1:
                action = DOWN
            elif row == 0 or column or row in risky:
                action = RIGHT
            else:
                action = UP
            policy[row * COLUMNS + column, action] = 1.0
    return policy


def walk(env, actions, row):
    env.reset(seed=0)
    env._state = row * COLUMNS
    reward = cost = 0.0
    for action in actions:
        _, earned, terminated, truncated, info = env.step(action)
        reward, cost = reward + earned, cost + info["cost"]
    return reward, cost, terminated, truncated


@pytest.mark.parametrize("row", range(ROWS))
def test_the_ways_across_and_around(row):
    env = HazardGrid()
    across = [RIGHT] * 7 + [DOWN] * (5 - row)
    reward, cost, terminated, truncated = walk(env, across, row)
    assert reward == pytest.approx(1 - 0.05 * (12 - row)) and cost == (6 if row else 0)
    assert terminated and not truncated
    around = [UP] * row + [RIGHT] * 7 + [DOWN] * 5
    assert walk(env, around, row) == (pytest.approx(1 - 0.05 * (12 + row)), 0, True, False)


def test_walls_stop_the_walker_and_an_episode_is_truncated():
    env = HazardGrid()
    reward, cost, terminated, truncated = walk(env, [LEFT] * 59 + [UP], 2)
    assert (reward, cost, terminated, truncated) == (pytest.approx(-3.0), 0, False, True)
    starts = {int(env.reset(seed=seed)[0][0]) for seed in range(60)}
    assert starts == set(range(ROWS))


@pytest.mark.parametrize(("risky", "expected"), [
    ((), (0.275, 0.0)), ((5, 4), (0.425, 2.0)), ((5, 4, 3, 2, 1), (0.525, 5.0)),
])  # fmt: skip
def test_the_means_of_the_best_policies(risky, expected):
    assert HazardGrid().means(best_policy(risky)) == pytest.approx(expected)
    assert optimum(expected[1]) == pytest.approx(expected[0])
    assert optimum(2.25) == pytest.approx(0.4375)  # of the claim in benchmarks/learning.py


def test_means_are_those_of_episodes():
    env, rng = HazardGrid(), np.random.default_rng(0)
    policy = 0.8 * best_policy((5, 4)) + 0.05
    totals = []
    for episode in range(1500):
        env.reset(seed=episode)
        reward = cost = 0.0
        over = False
        while not over:
            _, earned, terminated, truncated, info = env.step(int(rng.choice(4, p=policy[env._state])))
            reward, cost, over = reward + earned, cost + info["cost"], terminated or truncated
        totals.append((reward, cost))
    error = np.std(totals, axis=0) / np.sqrt(len(totals))
    assert np.all(np.abs(np.mean(totals, axis=0) - env.means(policy)) < 4 * error)


@pytest.mark.parametrize("limit", [0.0, 0.5, 2.0, 2.5, 4.0, 6.0])
def test_the_optimum_is_that_of_linear_programming(limit):
    # Over visits x[s, a]: inflow of each state is its starts and what leads there; the goal ends all.
    linprog = pytest.importorskip("scipy.optimize").linprog
    env = HazardGrid()
    rules = env.rules
    flow = np.zeros((STATES, STATES * 4))
    for state in range(STATES):
        for action in range(4):
            flow[state, state * 4 + action] += 1.0
            if not rules.ends[state, action]:
                flow[rules.next[state, action], state * 4 + action] -= 1.0
    starts = np.zeros(STATES)
    starts[np.arange(ROWS) * COLUMNS] = 1 / ROWS
    found = linprog(
        -rules.reward.ravel(), A_ub=env.cost.reshape(1, -1), b_ub=[limit], A_eq=flow, b_eq=starts, method="highs"
    )
    assert found.status == 0 and -found.fun == pytest.approx(optimum(limit), abs=1e-9)


def test_pictures_and_letters():
    env = HazardGrid(render_mode="rgb_array")
    env.reset(seed=1)
    assert env.render().shape[2] == 3 and env.letters(0).splitlines()[5].endswith("G")
    assert env.letters(17).splitlines()[2] == ". @ # # # # # ."
