"""Common properties of the tasks after ML-Agents' examples: exact episodes, states that resume, images, text."""

import numpy as np
import pytest

from rookery import tasks
from rookery.core.errors import ConfigError, EnvError
from rookery.core.spaces.arrays import MASK
from rookery.envs.check import check_env
from rookery.envs.make import make_env
from rookery.envs.parameters import Draws, EpisodePlan
from rookery.envs.random_play import random_answers
from rookery.envs.samplers import UniformSampler
from rookery.run.trainer import Trainer
from rookery.tasks.games import players

WORLDS = {
    "Basic": {"max_steps": 12},
    "BallPlate": {"max_steps": 25},
    "BallPlate, hard": {"hard": True, "max_steps": 25},
    "GoalGrid": {"max_steps": 15},
    "GoalGrid, one-hot": {"observation": "one_hot", "size": 4, "max_steps": 15},
    "PushBlock": {"max_steps": 15},
    "PushBlock, grid": {"observation": "grid", "size": 6, "max_steps": 15},
    "FoodCollector": {"max_steps": 15, "view": 8},
    "Match3": {"max_moves": 9},
    "Match3, visual": {"max_moves": 9, "observation": "visual", "min_rows": 7, "min_columns": 6, "types": 5},
}
DRAWN = {"BallPlate": ("gravity", 7.0, 12.0), "FoodCollector": ("laser_length", 0.5, 5.0)}
ARRAYS = ("reward", "terminated", "truncated", "waiting", "final_index")


def made(name, num_lanes):
    return getattr(tasks, name.split(",")[0])(num_lanes, **WORLDS[name])


def seeds(lane, episode):
    return (lane * 7919 + episode * 104729 + 13) % 2**31


def plan_of(name):
    """Seeds, and parameters of each episode's own where a task has some."""
    if name.split(",")[0] not in DRAWN:
        return seeds
    parameter, low, high = DRAWN[name.split(",")[0]]
    draws = Draws({parameter: UniformSampler(low, high)})
    return EpisodePlan(seeds, draws, lambda lane, episode, name, seed=None: np.random.default_rng([lane, episode]), {})


def shown_by(step, lanes):
    """All that a step shows of some lanes, as bytes."""
    rows = step.rows[0]
    agents = len(rows.reward) // len(step.ended)
    mine = np.concatenate([np.arange(lane * agents, (lane + 1) * agents) for lane in lanes])
    last = np.isin(rows.final_index, mine)
    return [
        *(rows.obs[path][mine].tobytes() for path in rows.obs),
        *(rows.final_obs[path][last].tobytes() for path in rows.final_obs),
        *(getattr(rows, name)[mine].tobytes() for name in ("reward", "terminated", "truncated", "waiting")),
        step.ended[lanes].tobytes(),
    ]


@pytest.mark.parametrize("name", WORLDS)
def test_a_lane_of_many_shows_what_it_shows_alone(name):
    many, alone, plan = made(name, 5), made(name, 1), plan_of(name)
    agents = len(many.kinds[0].agents)

    class Second:
        """The plan of lane 1."""

        def __call__(self, lane, episode):
            return plan(1, episode)

    second = Second()
    if isinstance(plan, EpisodePlan):
        second = EpisodePlan(
            lambda lane, episode: seeds(1, episode),
            plan._draws,
            lambda lane, episode, name, seed=None: np.random.default_rng([1, episode]),
            {},
        )
    shown, other = many.reset(plan), alone.reset(second)
    rng, ends = np.random.default_rng(0), 0
    for _ in range(40):
        assert shown_by(shown, [1]) == shown_by(other, [0])
        answers = random_answers(many, shown, rng)[0]
        shown, other = many.step([answers]), alone.step([answers[agents : 2 * agents]])
        ends += shown.ended.sum()
    assert ends >= 5


@pytest.mark.parametrize("name", WORLDS)
def test_a_state_goes_on_where_it_was_bit_for_bit(name):
    env, other, plan = made(name, 3), made(name, 3), plan_of(name)
    rng, shown = np.random.default_rng(1), env.reset(plan)
    for _ in range(7):
        shown = env.step(random_answers(env, shown, rng))
    state, kept = env.state_dict(), env.state_dict()
    other.reset(lambda lane, episode: 5)
    other.step(random_answers(other, other.restart(seeds), rng))
    again, lost = other.load_state_dict(state, plan)
    assert not lost.any()
    assert all(shown.rows[0].obs[path].tobytes() == again.rows[0].obs[path].tobytes() for path in again.rows[0].obs)
    for _ in range(25):
        answers = random_answers(env, shown, rng)
        shown, again = env.step(answers), other.step(answers)
        assert shown_by(shown, [0, 1, 2]) == shown_by(again, [0, 1, 2])
    assert all(np.array_equal(state[key], kept[key]) for key in state), "a state is a copy"


@pytest.mark.parametrize("name", WORLDS)
def test_ends_are_of_one_kind_and_what_was_seen_last_is_kept(name):
    env = made(name, 8)
    shown, rng, kinds = env.reset(seeds), np.random.default_rng(2), set()
    for _ in range(40):
        shown = env.step(random_answers(env, shown, rng))
        rows = shown.rows[0]
        assert rows.waiting.all()
        assert not (rows.terminated & rows.truncated).any()
        agents = len(rows.reward) // 8
        np.testing.assert_array_equal((rows.terminated | rows.truncated)[::agents], shown.ended)
        np.testing.assert_array_equal(rows.final_index, np.flatnonzero(rows.truncated))
        assert not env.kinds[0].obs.check(rows.obs, slice(None))
        kinds |= {"terminated"} if rows.terminated.any() else set()
        kinds |= {"truncated"} if rows.truncated.any() else set()
    only_cut = name.split(",")[0] in ("FoodCollector", "Match3", "PushBlock")  # no block gets to the goal by chance
    assert kinds == ({"truncated"} if only_cut else {"terminated", "truncated"})


@pytest.mark.parametrize("name", WORLDS)
def test_it_is_found_by_name_and_checked_without_a_word(name):
    findings = check_env(name.split(",")[0], WORLDS[name], (), episodes=2, max_steps=20, seed=0)
    assert {finding.severity for finding in findings} == {"note"}, findings
    assert type(make_env(f"rookery.tasks:{name.split(',')[0]}", WORLDS[name], (), 2, "batched")) is type(made(name, 2))


@pytest.mark.parametrize("name", WORLDS)
def test_it_is_drawn_and_told_in_letters(name):
    env = made(name, 2)
    shown, rng = env.reset(seeds), np.random.default_rng(3)
    first, told = env.render(1), env.text(1)
    assert first.dtype == np.uint8
    assert first.shape[2] == 3
    assert not any(side % 2 for side in first.shape[:2])
    assert max(len(line) for line in told.splitlines()) < 80
    for _ in range(4):
        shown = env.step(random_answers(env, shown, rng))
    assert env.render(1).shape == first.shape
    assert (env.render(1) != first).any()
    assert env.text(1) != told


@pytest.mark.parametrize("name", ["GoalGrid", "Match3"])
def test_a_move_that_the_mask_forbids_is_refused(name):
    env = made(name, 2)
    mask = env.reset(seeds).rows[0].obs[MASK]
    actions = mask.argmax(axis=1)
    actions[1] = (~mask[1]).argmax()
    with pytest.raises(EnvError, match=rf"environment 1, .* action {actions[1]} of agent is not allowed; allowed are"):
        env.step([actions])


@pytest.mark.parametrize(
    ("name", "player", "message"),
    [
        ("BallPlate, hard", players.ball_plate_script, "the hard task does not show"),
        ("GoalGrid", players.goal_grid_best, "env.config.observation=one_hot"),
        ("PushBlock", players.push_block_best, "env.config.observation=grid"),
        ("Match3", players.match3_greedy, "env.config.observation=visual"),
    ],
)
def test_a_scripted_player_says_what_it_needs_to_see(name, player, message):
    shown = made(name, 2).reset(seeds)
    with pytest.raises(ConfigError, match=message):
        player(shown.rows[0].obs, np.random.default_rng(0))


@pytest.mark.parametrize("name", ["BallPlate", "GoalGrid", "FoodCollector", "Match3"])
def test_it_is_trained_in(name):
    settings = {"fragment_length": 4, "minibatch_size": 16, "epochs": 1, "model": {"hidden": (8,)}}
    with Trainer(name, "ppo", env_config=WORLDS[name], config={"algorithm": settings}, num_envs=2, seed=0) as trainer:
        assert trainer.train_iteration().env_steps > 0
