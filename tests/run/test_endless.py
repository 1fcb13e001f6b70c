"""Endless episodes: evaluations cut them, and training shows a note."""

import re

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rookery import DQNConfig, ModelConfig, PPOConfig, Trainer
from rookery.core.errors import EnvError
from rookery.report import console
from rookery.run import watch
from rookery.run.evaluate import episode_limit as endless
from rookery.run.evaluate.episode_limit import EndlessNote
from rookery.run.evaluate.evaluation import limit_of

FAST = PPOConfig(fragment_length=8, epochs=1, minibatch_size=64)


class Sometimes(gymnasium.Env):
    """Ends after 3 steps, unless it was reset with a seed that is a multiple of `every`."""

    observation_space, action_space = spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(2)

    def __init__(self, every=2, seeds=None):
        self.every, self.seeds = every, [] if seeds is None else seeds

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        self.endless, self.time = seed % self.every == 0, 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.time += 1
        return np.zeros(2, np.float32), 1.0, not self.endless and self.time == 3, False, {}


def trainer(limit=10, **changes):
    settings = {"evaluation.max_episode_steps": limit, "evaluation.num_envs": 3, "sampling.warmup_steps": 0}
    return Trainer(Sometimes, FAST, num_envs=2, seed=3, config=settings | changes)


def test_an_evaluation_of_an_environment_that_never_ends_ends(capsys):
    with trainer(**{"env.config.every": 1}) as made:
        result = made.evaluate(7)
    assert result.returns == (10.0,) * 7
    assert (result.episodes, result.episodes_cut, result.length_mean) == (7, 7, 10.0)
    note = "7 of 7 episodes had not ended after 10 steps (evaluation.max_episode_steps) and count as truncated there"
    assert note in capsys.readouterr().err


def test_every_episode_is_played_once_with_its_own_seed_whichever_were_cut():
    with trainer(**{"env.config.seeds": (seeds := [])}) as made:
        seeds.clear()
        result = made.evaluate(20)
        assert result == made.evaluate(20)
    with trainer(**{"env.config.every": 10**12, "env.config.seeds": (plain := [])}) as made:  # only a seed of 0
        plain.clear()
        made.evaluate(20)
    wanted = plain[1:21]  # the first reset looks at the spaces
    by_lanes = [seed for lane in range(3) for seed in wanted[lane::3]]
    assert sorted(by_lanes) == sorted(wanted)
    ended = [3.0 if seed % 2 else 10.0 for seed in sorted(wanted)]
    assert sorted(result.returns) == sorted(ended)
    assert result.episodes_cut == ended.count(10.0) > 2
    assert set(wanted) <= set(seeds)


def test_an_episode_that_ends_in_the_very_step_of_the_limit_has_ended():
    with trainer(limit=3, **{"env.config.every": 10**12}) as made:
        result = made.evaluate(6)
    assert (result.episodes_cut, result.length_mean) == (0, 3.0)


def test_lanes_that_go_on_do_not_wait_long_for_one_that_does_not(monkeypatch):
    monkeypatch.setattr(endless, "LOOK_EVERY", 4)
    with trainer(limit=50) as made:
        result = made.evaluate(20)
        with trainer(limit=50) as other:
            monkeypatch.setattr(endless, "LOOK_EVERY", 1000)
            assert other.evaluate(20) == result  # how often is looked changes nothing


def test_a_mapping_function_is_told_the_number_of_the_episode_after_a_cut_too():
    asked = []

    def mapping(agent, episode):
        asked.append((episode.lane, episode.index))
        return "main"

    settings = {"evaluation.max_episode_steps": 5, "evaluation.num_envs": 2, "env.config.every": 1}
    with Trainer(
        Sometimes, FAST, policies=["main"], policy_mapping=mapping, num_envs=1, seed=0, config=settings
    ) as made:
        made.evaluate(1)
        asked.clear()
        made.evaluate(6)
    assert asked == [(lane, index) for index in range(3) for lane in range(2)]


def test_what_was_cut_is_a_number_of_the_row():
    with trainer(**{"env.config.every": 1, "evaluation.every": 1, "evaluation.episodes": 4}) as made:
        row = made.train_iteration().row()
    assert (row["evaluation/episodes"], row["evaluation/episodes_cut"]) == (4, 4)


@pytest.mark.parametrize("every", [1, 10**12])
def test_training_says_once_that_no_episode_ends(every, capsys, monkeypatch):
    monkeypatch.setattr(endless, "NOTE_AFTER", 20)
    with trainer(**{"env.config.every": every}) as made:
        made.train({"iterations": 6})
    told = capsys.readouterr().err
    assert told.count("no episode has ended yet, after 24 steps of each environment") == (every == 1)
    assert told.count("max_episode_steps") == 2 * (every == 1)


def test_an_environment_that_raises_in_every_episode_is_an_error_still():
    class Raising(Sometimes):
        def step(self, action):
            raise RuntimeError("no")

    with pytest.raises(EnvError, match="no"):
        Trainer(Raising, FAST, num_envs=1, seed=0).evaluate(2)
    assert EndlessNote()._shown is False


BOUNDED = pytest.mark.regression(
    "no end", "An evaluation of an environment that never ends an episode says so and ends"
)


@BOUNDED
def test_an_evaluation_is_bounded_while_no_episode_of_training_has_ended(monkeypatch, capsys):
    monkeypatch.setattr("rookery.run.evaluate.evaluation.UNKNOWN_LIMIT", 50)
    settings = {"evaluation.num_envs": 3, "evaluation.episodes": 4, "evaluation.every": 1, "env.config.every": 1}
    with Trainer(Sometimes, FAST, num_envs=2, seed=3, config={"sampling.warmup_steps": 0, **settings}) as made:
        row = made.train({"iterations": 1}).row()
    assert (row["evaluation/length_mean"], row["evaluation/episodes_cut"]) == (50.0, 4)
    note = "had not ended after 50 steps (no episode of training has ended so far; evaluation.max_episode_steps=N sets"
    assert note in capsys.readouterr().err


@BOUNDED
@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ({"env.config.every": 1}, 5000),
        ({"env.config.every": 1, "evaluation.max_episode_steps": 27_000}, 27_000),  # set by the user
        ({"env.config.every": 10**12}, 27_000),  # episodes end
    ],
)
def test_the_limit_of_an_evaluation_is_the_setting_where_it_is_given_or_an_episode_has_ended(settings, limit):
    with Trainer(Sometimes, FAST, num_envs=2, seed=3, config={"sampling.warmup_steps": 0, **settings}) as made:
        assert limit_of(made) == settings.get("evaluation.max_episode_steps", 27_000)  # nothing has been played
        made.train({"iterations": 1})
        assert limit_of(made) == limit


@pytest.mark.regression("wrong result", "Returns beyond C51's atoms are noted, with the settings to change")
def test_a_run_tells_once_of_returns_beyond_the_atoms(capsys):
    cfg = DQNConfig(
        learning_starts=32, train_every=16, updates_per_step=3, batch_size=512, model=ModelConfig(hidden=(8,))
    )
    config = {"algorithm.values": {"kind": "categorical", "low": 0, "high": 1, "atoms": 5}, "logging.console": "plain"}
    with Trainer(Sometimes, cfg, num_envs=2, seed=3, config=config | {"sampling.iteration_steps": 16}) as made:
        made.train({"env_steps": 96})
    lines = [line for line in capsys.readouterr().out.splitlines() if "lie beyond the atoms" in line]
    assert len(lines) == 1 and "policies.main.values.high" in lines[0]


@BOUNDED
def test_an_evaluation_says_how_far_it_is(monkeypatch, capsys):
    monkeypatch.setattr(console, "SILENCE", 0.0)
    monkeypatch.setattr(watch, "LOOK_SECONDS", 0.001)  # a few of the thousands of steps are made between two looks
    with trainer(limit=4000, **{"env.config.every": 1, "logging.console": "plain"}) as made:
        made.evaluate(3)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("evaluation: ")]
    assert lines
    pattern = (
        r"evaluation: [0-3] of 3 episodes have ended \| the longest under way has [\d,]+ steps, and is cut at 4,000"
    )
    assert re.match(pattern, lines[0])
