"""Search with a Gumbel root: its formulas by hand, its trees against exhaustive play, its rows one by one."""

from dataclasses import replace

import numpy as np
import pytest

from rookery.core.seeding import Role, Streams
from rookery.envs.game_rules import Moved
from rookery.search.gumbel import SearchSpec, completed, gumbel_noise, halving_plan, halving_plans, search
from rookery.search.tree import Trees
from rookery.tasks.games.board_games import TicTacToe

SPEC = SearchSpec(simulations=16, considered_actions=4, c_visit=50.0, c_scale=1.0, low=-1.0, high=1.0, discount=1.0)

LONG = replace(SPEC, simulations=400)


class OneMove:
    """A game of one player and one action, whose reward depends on the action."""

    symmetries = ()

    def __init__(self, rewards):
        self.rewards = np.asarray(rewards)

    def move(self, state, action):
        return Moved(state + 1, self.rewards[action], np.ones(len(state), bool))

    def player(self, state):
        return np.zeros(len(state), np.int64)

    def observe(self, state):
        return {"state": state}


def uniform(actions):
    def evaluate(obs):
        count = len(next(iter(obs.values())))
        return np.zeros((count, actions), np.float32), np.zeros(count)

    return evaluate


def board(own="", other="", plies=None):
    """Returns a state of tic-tac-toe, with stones on cells given as digits; the first player is to move."""
    bits = [sum(1 << int(cell) for cell in cells) for cells in (own, other)]
    return [*bits, 2 * len(own) if plies is None else plies]


@pytest.fixture
def game():
    env = TicTacToe(2)
    env.reset(Streams(0).episodes(Role.ENV))
    return env


def test_sequential_halving_visits_all_actions_equally_and_then_the_better_half():
    assert halving_plan(4, 16) == [0] * 4 + [1] * 4 + [2, 2, 3, 3, 4, 4, 5, 5]
    assert halving_plan(1, 3) == [0, 1, 2]
    assert halving_plan(9, 4) == [0, 0, 0, 0]  # fewer simulations than actions: the first four by noise and prior
    assert halving_plans(4, 16).shape == (5, 16)


def test_values_of_actions_without_visits_are_completed_by_the_mixed_value():
    trees = Trees(OneMove([0.0, 0.0]), uniform(2), np.zeros((1, 1)), 4, 1.0)
    trees.prior[0], trees.value[0] = [0.25, 0.75], 0.2
    trees.visits[0], trees.total[0] = [3.0, 0.0], [1.8, 0.0]
    scaled, value = completed(trees, SPEC, np.array([0]))
    mixed = (0.2 + 3 * 0.6) / 4  # one visited action, so that its prior cancels
    assert value[0] == pytest.approx([0.6, mixed])
    assert scaled[0] == pytest.approx([(50 + 3) * (0.6 + 1) / 2, (50 + 3) * (mixed + 1) / 2])


def test_mixed_values_weight_visited_actions_by_their_prior():
    trees = Trees(OneMove([0.0] * 3), uniform(3), np.zeros((1, 1)), 4, 1.0)
    trees.prior[0], trees.value[0] = [0.2, 0.6, 0.2], -0.5
    trees.visits[0], trees.total[0] = [1.0, 3.0, 0.0], [0.4, -0.3, 0.0]
    value = completed(trees, SPEC, np.array([0]))[1]
    known = (0.2 * 0.4 + 0.6 * -0.1) / 0.8
    assert value[0, 2] == pytest.approx((-0.5 + 4 * known) / 5)


def test_improved_policies_are_better_than_their_priors_for_any_values():
    rng = np.random.default_rng(0)
    worse = 0
    for _ in range(30):
        rewards, logits = rng.uniform(-1, 1, 8), rng.normal(size=8)
        prior = np.exp(logits) / np.exp(logits).sum()
        value = prior @ rewards  # a perfect evaluation
        found = search(
            OneMove(rewards),
            lambda obs, logits=logits, value=value: (
                np.tile(logits, (len(obs["state"]), 1)),
                np.full(len(obs["state"]), value),
            ),
            np.zeros((1, 1)),
            gumbel_noise(rng.random((1, 8))),
            SPEC,
        )
        assert found.policy[0] @ rewards > value
        worse += rewards[found.action[0]] < value
    assert worse == 0  # the chosen action has the largest value of those considered, or more than the mean


@pytest.mark.parametrize(
    ("state", "best"),
    [
        pytest.param(board("01", "34"), 2, id="win"),
        pytest.param(board("08", "34"), 5, id="block"),
        pytest.param(board("04", "18"), 3, id="fork"),
    ],
)
def test_search_finds_what_must_be_played(game, state, best):
    found = search(game, uniform(9), np.array([state]), None, LONG)
    allowed = {best} if best != 3 else {3, 6}  # both make two open lines
    assert int(found.action[0]) in allowed
    assert found.value[0] == pytest.approx(1.0, abs=0.1) if best != 5 else found.value[0] < 0.5


def test_a_won_game_counts_for_the_winner_and_against_the_other(game):
    won = search(game, uniform(9), np.array([board("01", "34")]), None, SPEC)
    lost = search(game, uniform(9), np.array([board("014", "35", plies=5)]), None, LONG)  # two open lines
    assert won.value[0] > 0.9
    assert lost.value[0] < -0.9


def test_each_row_is_searched_as_if_alone(game):
    states = np.array([board(), board("01", "34"), board("0", "4"), board("04", "18")])
    noise = gumbel_noise(np.random.default_rng(1).random((4, 9)))
    together = search(game, uniform(9), states, noise, SPEC)
    for row in range(4):
        alone = search(game, uniform(9), states[row : row + 1], noise[row : row + 1], SPEC)
        assert int(alone.action[0]) == int(together.action[row])
        np.testing.assert_array_equal(alone.policy[0], together.policy[row])
        np.testing.assert_array_equal(alone.visits[0], together.visits[row])


def test_forbidden_actions_are_neither_visited_nor_in_the_policy(game):
    states = np.array([board("01", "34")])
    found = search(game, uniform(9), states, gumbel_noise(np.random.default_rng(2).random((1, 9))), SPEC)
    assert (found.visits[0, [0, 1, 3, 4]] == 0).all()
    assert (found.policy[0, [0, 1, 3, 4]] == 0).all()
    assert found.policy.sum() == pytest.approx(1.0)
    assert found.visits.sum() == SPEC.simulations


def test_rewards_are_discounted_by_the_decisions_of_the_same_player():
    class Chain(OneMove):
        def move(self, state, action):
            return Moved(state + 1, np.where(state[:, 0] == 1, 1.0, 0.0), state[:, 0] == 1)

    found = search(Chain([0.0]), uniform(1), np.zeros((1, 1)), None, replace(SPEC, discount=0.5))
    assert found.value[0] == pytest.approx(0.5 * 1.0 * (SPEC.simulations - 1) / SPEC.simulations, abs=1e-6)
