"""FoodCollector: moving, eating, lasers, frozen agents, what is seen, parameters, and what players gather."""

import numpy as np
import pytest

from rookery.core.errors import EnvError
from rookery.envs.parameters import Draws, EpisodePlan
from rookery.envs.random_play import random_answers
from rookery.envs.samplers import ConstantSampler
from rookery.tasks.games.food_collector import (
    AGENTS,
    BEAM,
    FOOD,
    FROZEN,
    INERTIA,
    OTHER,
    OTHER_FROZEN,
    POISON,
    RANGE,
    SPEED,
    WALL,
    FoodCollector,
)
from rookery.tasks.games.players import food_collector_script

FAR = [(-30.0, 30.0), (-30.0, -30.0), (30.0, -30.0), (30.0, 30.0)]
"""Places of the other agents."""


def plan(lane, episode):
    return lane * 1000 + episode


def arena(place=(0.0, 0.0), heading=0.0, meals=(), others=FAR, **values):
    """One arena with an agent, food where `meals` are and poison behind, and four others."""
    samplers = {name: ConstantSampler(value) for name, value in values.items()}
    env = FoodCollector(1, food=2, poison=1)
    env.reset(EpisodePlan(plan, Draws(samplers), lambda lane, episode, name: np.random.default_rng(0), {}))
    env._place[0], env._heading[0] = [place, *others], 0.0
    env._heading[0, 0] = heading
    env._meals[0] = [*meals, *[(39.0, 0.0), (0.0, 39.0), (0.0, -39.0)][len(meals) :]]
    env._show()
    return env


def acts(*moves):
    """Actions of all agents: for the first ones laser, forward, right, turn; nothing for the others."""
    actions = np.empty(len(AGENTS), dtype=object)
    for number in range(len(AGENTS)):
        laser, *move = moves[number] if number < len(moves) else (0, 0.0, 0.0, 0.0)
        actions[number] = {"laser": laser, "move": np.array(move, np.float32)}
    return [actions]


def test_an_agent_moves_as_it_looks_with_inertia_and_not_faster_than_it_can():
    env = arena(heading=np.pi / 2)
    env.step(acts((0, 1.0, 0.0, 0.0)))
    np.testing.assert_allclose(env._place[0, 0], [0, SPEED * (1 - INERTIA)], atol=1e-12)
    for _ in range(30):
        env.step(acts((0, 1.0, 1.0, 0.0)))
    assert np.linalg.norm(env._speed[0, 0]) == pytest.approx(SPEED)
    assert env._speed[0, 0, 0] == pytest.approx(SPEED / np.sqrt(2)), "looking up, the right is along x"
    env = arena()
    env.step(acts((0, 0.0, 0.0, 0.5)))
    assert np.rad2deg(env._heading[0, 0]) == pytest.approx(15.0), "counterclockwise"
    env = arena((39.9, 0.0), others=FAR)
    for _ in range(4):
        env.step(acts((0, 1.0, 0.0, 0.0)))
    assert env._place[0, 0].tolist() == [RANGE, 0.0]


def test_food_pays_poison_costs_and_both_come_back_elsewhere():
    env = arena(meals=[(1.4, 0.0), (20.0, 20.0), (0.0, 1.3)])
    rows = env.step(acts()).rows[0]
    assert rows.reward.tolist() == [0.0, 0.0, 0.0, 0.0, 0.0], "one of each"
    env = arena(meals=[(1.4, 0.0), (20.0, 20.0), (0.0, 1.6)])
    rows = env.step(acts()).rows[0]
    assert rows.reward.tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert np.linalg.norm(env._meals[0, 0]) > 1.5
    assert env._meals[0, 1].tolist() == [20.0, 20.0]
    assert (np.abs(env._meals) <= RANGE).all()
    env = arena(meals=[(1.0, 0.0)], others=[(1.5, 0.0), *FAR[1:]])
    rows = env.step(acts()).rows[0]
    assert rows.reward.tolist() == [0.0, 1.0, 0.0, 0.0, 0.0], "the nearest one eats"


def test_a_laser_freezes_the_first_agent_in_its_beam_for_a_while():
    env = arena(others=[(10.0, 1.0), (20.0, 0.0), (10.0, 5.0), (-10.0, 0.0)])
    env.step(acts((1, 0.0, 0.0, 0.0)))
    assert env._frozen[0].tolist() == [0, FROZEN, 0, 0, 0]
    seen = env._rows.obs["own"]
    assert seen[:, 2].tolist() == [0, 1, 0, 0, 0]
    assert seen[:, 3].tolist() == [1, 0, 0, 0, 0]
    before = env._place[0, 1].copy()
    moving = (1, 1.0, 0.0, 1.0)
    for left in range(FROZEN, 0, -1):
        assert env._frozen[0, 1] == left
        env.step(acts((0, 0.0, 0.0, 0.0), moving))
        np.testing.assert_array_equal(env._place[0, 1], before)
    assert not env._frozen.any(), "nor did the frozen one shoot"
    env.step(acts((0, 0.0, 0.0, 0.0), moving))
    assert (env._place[0, 1] != before).any()


def test_shooting_halves_the_push_and_a_frozen_agent_is_not_frozen_longer():
    env = arena()
    env.step(acts((1, 1.0, 0.0, 0.0)))
    assert env._speed[0, 0, 0] == pytest.approx(SPEED * (1 - INERTIA) / 2)
    env = arena(others=[(10.0, 0.0), *FAR[1:]])
    for _ in range(3):
        env.step(acts((1, 0.0, 0.0, 0.0)))
    assert env._frozen[0, 1] == FROZEN - 2


@pytest.mark.parametrize("length", [0.2, 1.0])
def test_parameters_change_the_beam_and_how_near_food_must_be(length):
    env = arena(others=[(BEAM * length + 0.5, 0.0), *FAR[1:]], laser_length=length)
    env.step(acts((1, 0.0, 0.0, 0.0)))
    assert not env._frozen.any()
    env._place[0, 1, 0] -= 1.0
    env.step(acts((1, 0.0, 0.0, 0.0)))
    assert env._frozen[0, 1] == FROZEN
    for scale, paid in ((1.0, 0.0), (3.0, 1.0)):
        env = arena(meals=[(3.0, 0.0)], agent_scale=scale)
        assert env.step(acts()).rows[0].reward[0] == paid


def test_the_view_is_that_of_the_agent_which_looks_up_in_it():
    env = arena(heading=np.pi / 2, meals=[(3.0, 9.0), (-25.0, 0.0), (-5.0, -7.0)], others=[(0.5, 15.0), *FAR[1:]])
    view = env._rows.obs["view"][0]
    assert view.shape == (20, 20, 5)
    assert np.argwhere(view[:, :, FOOD]).tolist() == [[5, 11]], "9 ahead, 3 to the right, in cells of 2"
    assert np.argwhere(view[:, :, POISON]).tolist() == [[13, 7]]
    assert np.argwhere(view[:, :, OTHER]).tolist() == [[2, 10]]
    assert not view[:, :, OTHER_FROZEN].any()
    assert not view[:, :, WALL].any()
    env = arena(heading=0.0, meals=[(9.0, -3.0)], others=[(15.0, -0.5), *FAR[1:]])
    view = env._rows.obs["view"][0]
    assert np.argwhere(view[:, :, FOOD]).tolist() == [[5, 11]], "turned with it"
    env.step(acts((1, 0.0, 0.0, 0.0)))
    view = env._rows.obs["view"][0]
    assert np.argwhere(view[:, :, OTHER_FROZEN]).tolist() == [[2, 10]]
    assert not view[:, :, OTHER].any()
    env = arena((0.0, 35.0), heading=np.pi / 2)
    walls = env._rows.obs["view"][0][:, :, WALL]
    assert np.flatnonzero(walls.all(axis=1)).tolist() == list(range(7)), "middles 19 to 7 ahead, the wall is 5 ahead"
    assert not walls[7:].any()


def test_actions_that_are_none_are_refused():
    env = FoodCollector(2)
    with pytest.raises(EnvError, match=r"step\(\) before reset"):
        env.step(acts())
    env.reset(plan)
    with pytest.raises(EnvError, match=r"actions of shape \(5,\); expected \(10,\) of Dict"):
        env.step(acts())
    wrong = np.concatenate([acts()[0], acts((2, 0.0, 0.0, 0.0))[0]])
    with pytest.raises(EnvError, match=r"an action is not of Dict"):
        env.step([wrong])
    wrong[5] = {"laser": 0}
    with pytest.raises(EnvError, match="an action is not of Dict"):
        env.step([wrong])


def test_the_scripted_player_gathers_and_chance_gets_nothing():
    env, rng = FoodCollector(8, max_steps=150), np.random.default_rng(0)
    shown, total = env.reset(plan), np.zeros(40)
    for _ in range(150):
        shown = env.step([food_collector_script(shown.rows[0].obs, rng)])
        total += shown.rows[0].reward
    assert shown.rows[0].truncated.all()
    assert total.mean() > 1.5
    shown, total = env.reset(plan), np.zeros(40)
    for _ in range(150):
        shown = env.step(random_answers(env, shown, rng))
        total += shown.rows[0].reward
    assert abs(total.mean()) < 0.6
