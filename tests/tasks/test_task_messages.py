"""Tasks name what they cannot take: settings, actions, states of another task; copy and seed where there are many."""

import numpy as np
import pytest

from messages import check_error
from rookery import tasks
from rookery.envs.adapters.classic import BatchedCartPole
from rookery.envs.make import make_env
from rookery.tasks.deep_sea import DeepSea
from rookery.tasks.games.arena import BatchedArena, MultiAgentArena
from rookery.tasks.key_door import KeyDoor
from rookery.tasks.memory_tasks import (
    Autoencode,
    BatchedStatelessCartPole,
    CountRecall,
    CueCorridor,
    RepeatAfterMe,
    RepeatPrevious,
    StatelessCartPole,
    TwoCues,
)
from rookery.tasks.sorter import BatchedSorter, Sorter
from rookery.tensor_envs.classic import TensorCartPole, TensorPendulum


def unknown(task, **settings):
    return make_env(task, settings, (), 2, "auto")


SETTINGS = [
    (lambda: MultiAgentArena(width=0), "ValueError: width is 0, it must be an integer of at least 1"),
    (lambda: MultiAgentArena(height=2.0), "ValueError: height is 2.0, it must be an integer"),
    (lambda: MultiAgentArena(max_timesteps=True), "ValueError: max_timesteps is True"),
    (lambda: MultiAgentArena(width=1, height=1), "ValueError: leave one tile for two agents"),
    (lambda: MultiAgentArena(render_mode="human"), "ValueError: render_mode is 'human', it must be 'rgb_array'"),
    (lambda: MultiAgentArena(config={"widht": 3}), "ValueError: config has 'widht'; did you mean 'width'?"),
    (lambda: MultiAgentArena(config={"width": -1}), "ValueError: width is -1"),
    (lambda: BatchedArena(2, width=0), "ValueError: width is 0, it must be an integer of at least 1"),
    (lambda: BatchedArena(2, width=1, height=1), "ValueError: leave one tile for two agents"),
    (lambda: BatchedArena(2, config={"widht": 3}), "ValueError: config has 'widht'; did you mean 'width'?"),
    (lambda: BatchedArena(2, render_mode="human"), "ValueError: render_mode is 'human', it must be 'rgb_array'"),
    (lambda: DeepSea(size=1), "ValueError: DeepSea: size is 1, it must be an integer of at least 2"),
    (lambda: DeepSea(mapping_seed=-1), "ValueError: DeepSea: mapping_seed is -1"),
    (lambda: DeepSea(render_mode="human"), "ValueError: DeepSea: render_mode is 'human'"),
    (lambda: unknown("DeepSea", sise=2), "EnvError: did you mean 'size'?"),
    (lambda: tasks.Sacrifice(1, cost=1.5), "ValueError: cost is 1.5"),
    (lambda: tasks.Sacrifice(1, max_steps=0), "ValueError: max_steps is 0"),
    (lambda: KeyDoor(size=2), "ValueError: KeyDoor: size is 2, it must be an integer of at least 3"),
    (lambda: KeyDoor(max_steps=0), "ValueError: KeyDoor: max_steps is 0"),
    (lambda: KeyDoor(render_mode="human"), "ValueError: KeyDoor: render_mode is 'human'"),
    (lambda: tasks.LineSoccer(1, strikers=2), "ValueError: strikers but no goalies: ... say how many goalies"),
    (lambda: tasks.LineSoccer(1, goalies=1), "ValueError: goalies but no strikers: one team is missing"),
    (lambda: tasks.LineSoccer(1, players=0), "ValueError: players is 0"),
    (lambda: tasks.LineSoccer(1, time_cost=-1.0), "ValueError: time_cost is -1.0"),
    (lambda: tasks.LineSoccer(1, progress=1.0), "ValueError: progress is 1.0"),
    (lambda: RepeatAfterMe(delay=-1), "ValueError: RepeatAfterMe: delay is -1, it must be an integer of at"),
    (lambda: RepeatAfterMe(max_episode_steps=2.5), "ValueError: max_episode_steps is 2.5"),
    (lambda: unknown("RepeatAfterMe", dealy=2), "EnvError: 'dealy', ... mean 'delay'?; it takes delay,"),
    (lambda: RepeatPrevious(k=52), "ValueError: k is 52, it must be less than the 52 cards"),
    (lambda: RepeatPrevious(num_decks=0), "ValueError: num_decks is 0"),
    (lambda: Autoencode(True), "ValueError: num_decks is True"),
    (lambda: CountRecall(render_mode="human"), "ValueError: CountRecall: render_mode is 'human'"),
    (lambda: CueCorridor(5, min_length=6), "ValueError: CueCorridor: min_length 6 is more than length 5"),
    (lambda: CueCorridor(0), "ValueError: length is 0"),
    (lambda: TwoCues(length=0), "ValueError: length is 0"),
    (lambda: StatelessCartPole(max_episode_steps=0), "ValueError: StatelessCartPole: max_episode_steps is 0"),
    (lambda: StatelessCartPole(render_mode="human"), "ValueError: StatelessCartPole: render_mode is 'human'"),
    (lambda: BatchedStatelessCartPole(0), "ValueError: BatchedStatelessCartPole: num_lanes is 0"),
    (lambda: BatchedCartPole(0), "ValueError: num_lanes is 0"),
    (lambda: BatchedCartPole(1, max_episode_steps=2.5), "ValueError: max_episode_steps is 2.5"),
    (lambda: BatchedCartPole(1, render_mode="human"), "ValueError: render_mode is 'human'"),
    (lambda: TensorCartPole(2, max_episode_steps=0), "ValueError: TensorCartPole: max_episode_steps is 0"),
    (lambda: TensorPendulum(2, max_episode_steps=0), "ValueError: TensorPendulum: max_episode_steps is 0"),
    (lambda: tasks.OneDimension(1, numbers=0), "ValueError: there is nothing to do"),
    (lambda: tasks.OneDimension(1, vector=False), "ValueError: there is nothing to see"),
    (lambda: tasks.OneDimension(1, step_size=0.0), "ValueError: step_size is 0.0"),
    (lambda: tasks.OneDimension(1, agents=2), "ValueError: play is 'alone' with 2 agents"),
    (lambda: tasks.OneDimension(1, play="group"), "ValueError: play is 'group' with 1 agents"),
    (lambda: tasks.OneDimension(1, pictures=-1), "ValueError: pictures is -1"),
    (lambda: Sorter(max_tiles=1), "ValueError: max_tiles is 1, it must be an integer of at least 2"),
    (lambda: Sorter(numbers=5), "ValueError: numbers is 5, it must be an integer of at least 6"),
    (lambda: Sorter(max_tiles=9, side=3), "ValueError: side 3 has 9 places, ... make it 4 or more"),
    (lambda: Sorter(max_steps=0), "ValueError: max_steps is 0"),
    (lambda: BatchedSorter(2, max_tiles=1), "ValueError: max_tiles is 1, it must be an integer of at least 2"),
    (lambda: BatchedSorter(2, numbers=5), "ValueError: numbers is 5, it must be an integer of at least 6"),
    (lambda: BatchedSorter(2, max_tiles=9, side=3), "ValueError: side 3 has 9 places, ... make it 4 or more"),
    (lambda: BatchedSorter(2, max_steps=0), "ValueError: max_steps is 0"),
    (lambda: tasks.Basic(1, max_steps=0), "ValueError: max_steps is 0"),
    (lambda: tasks.BallPlate(1, max_steps=1.5), "ValueError: max_steps is 1.5"),
    (lambda: tasks.GoalGrid(1, size=1), "ValueError: size is 1"),
    (lambda: tasks.GoalGrid(1, observation="onehot"), "ValueError: observation is 'onehot'; did you mean 'one_hot'"),
    (lambda: tasks.PushBlock(1, size=4), "ValueError: size is 4"),
    (lambda: tasks.PushBlock(1, observation="ray"), "ValueError: did you mean 'rays'"),
    (lambda: tasks.FoodCollector(1, food=0), "ValueError: food is 0"),
    (lambda: tasks.FoodCollector(1, view=5), "ValueError: view is 5"),
    (lambda: tasks.Match3(1, types=3), "ValueError: types is 3"),
    (lambda: tasks.Match3(1, min_rows=10), "ValueError: min_rows is 10, it must be from 4 to 9, or 0"),
    (lambda: tasks.Match3(1, observation="visual", columns=6), "ValueError: 6 types on 9 x 6 cells: ... fewer types"),
]


@pytest.mark.parametrize(("make", "expected"), SETTINGS)
def test_settings_that_make_no_task_are_named(make, expected):
    check_error(expected, make)


def plan(lane, episode):
    return 1000 * lane + episode


def cards():
    return make_env("RepeatPrevious", None, (), 3, "batched")


def line(**settings):
    return tasks.OneDimension(1, **settings)


def soccer():
    return tasks.LineSoccer(2, players=2)


ONE, SIX, MOVES = np.zeros(3, int), np.zeros(6, int), np.zeros((8, 2))

ACTIONS = [
    (lambda: BatchedArena(3), [SIX[:5]], "actions of shape (5,) and type int64; expected (6,) integers"),
    (lambda: BatchedArena(3), [np.zeros(6)], "type float64; expected (6,) integers"),
    (lambda: BatchedArena(3), [SIX, SIX], "2 arrays of actions where there is one kind"),
    (lambda: BatchedArena(3), [np.array([0, 0, 0, 4, 0, 0])], "environment 1, seed 1000, ... action 4 of agent2"),
    (lambda: BatchedArena(3), [np.array([0, 0, 0, 0, -1, 0])], "environment 2, seed 2000, ... action -1 of agent1"),
    (lambda: BatchedCartPole(3), [ONE[:2]], "actions of shape (2,) and type int64; expected (3,) integers"),
    (lambda: BatchedCartPole(3), [np.zeros(3)], "type float64; expected (3,) integers"),
    (lambda: BatchedCartPole(3), [], "0 arrays of actions where there is one kind"),
    (
        lambda: BatchedCartPole(3),
        [np.array([0, 2, 0])],
        "environment 1, seed 1000, ... action 2 of agent is not from 0 to 1",
    ),
    (
        lambda: BatchedCartPole(3),
        [np.array([0, 0, -1])],
        "environment 2, seed 2000, ... action -1 of agent is not from 0",
    ),
    (cards, [ONE[:2]], "actions of shape (2,) and type int64; expected (3,) integers"),
    (cards, [np.zeros(3)], "type float64; expected (3,) integers"),
    (cards, [], "0 arrays of actions where there is one kind"),
    (cards, [np.array([0, 4, 0])], "environment 1, seed 1000, episode 0, step 0: action 4 of agent is not from 0 to 3"),
    (
        cards,
        [np.array([0, 0, -1])],
        "environment 2, seed 2000, episode 0, step 0: action -1 of agent is not from 0 to 3",
    ),
    (lambda: line(numbers=0, choices=1), [np.array([2])], "episode 0, step 0: action [2] of agent is not of 0 and 1"),
    (line, [np.array([[np.nan]])], "not finite"),
    (line, [np.zeros((1, 2))], "actions of shape (1, 2)"),
    (soccer, [np.zeros((4, 2))], "actions of shape (4, 2) ... expected (8, 2) numbers"),
    (soccer, [np.where(np.arange(16).reshape(8, 2) == 13, np.nan, MOVES)], "environment 1, ... of red_0 is not finite"),
    (soccer, [], "0 arrays of actions"),
    (lambda: tasks.Sacrifice(2), [np.array([0, 0, 0, 0, 3, 0])], "environment 1, ... action 3 of b is not from 0 to 2"),
    (lambda: tasks.Sacrifice(2), [np.zeros(6)], "expected (6,) integers"),
    (lambda: BatchedSorter(2), [np.array([0, 4])], "environment 1, seed 1000, episode 0, step 0: action 4 of agent"),
    (lambda: BatchedSorter(2), [np.zeros(2)], "expected (2,) integers"),
]


@pytest.mark.parametrize(("make", "actions", "expected"), ACTIONS)
def test_actions_that_cannot_be_played_are_named_with_their_copy(make, actions, expected):
    env = make()
    check_error("EnvError: step() before reset()", env.step, actions)
    env.reset(plan)
    check_error(f"EnvError: {expected}", env.step, actions)
