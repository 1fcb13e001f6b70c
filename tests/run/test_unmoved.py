"""Lines at the end of a training whose return never moved."""

from __future__ import annotations

import json

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rookery import MultiAgentArena, PPOConfig, Trainer
from rookery.report.metrics_file import iter_rows, read_rows
from rookery.run.checks.unmoved import FEWEST, is_unmoved, unmoved_lines
from rookery.run.choose_algorithm import alternatives

FAST = {"fragment_length": 8, "epochs": 1, "minibatch_size": 64}


class Flat(gymnasium.Env):
    """Episodes of 4 steps with a reward of -1 each; but for `best`, an episode whose last reward is 0."""

    observation_space, action_space = spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(2)

    def __init__(self, best=None):
        self.best, self.episode = best, -1

    def reset(self, *, seed=None, options=None):
        self.episode, self.time = self.episode + 1, 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.time += 1
        reward = 0.0 if self.time == 4 and self.episode == self.best else -1.0
        return np.zeros(2, np.float32), reward, self.time == 4, False, {}


def lines(tmp_path, env=Flat, steps=320, evaluate=0, algorithm=None, stop=None, **settings):
    algorithm = algorithm or PPOConfig(**FAST)
    with Trainer(env, algorithm, num_envs=2, seed=0, run_dir=tmp_path / "run", **settings) as trainer:
        result = trainer.train(stop or {"env_steps": steps})
        evaluation = trainer.evaluate(evaluate) if evaluate else None
        return unmoved_lines(trainer, result, evaluation, tmp_path / "run", tmp_path / "my run")


@pytest.mark.parametrize("evaluate", [0, 4])
def test_a_return_that_never_moved_is_named_with_what_to_try(tmp_path, evaluate):
    stayed, options, longer = lines(tmp_path, evaluate=evaluate)
    assert stayed == "the return stayed at -4.00 through 80 episodes: none was better than another"
    assert options == (
        "to try, in this order: --algo dqn; 'algorithm.signals.rnd={}' or 'algorithm.signals.curiosity={}';"
    )
    assert longer == (
        f"rookery resume '{tmp_path / 'my run'}' --stop env_steps=640; a reward for progress (env.wrappers)"
    )


def test_the_options_are_settings_that_exist(tmp_path):
    for option in ("algorithm.signals.rnd", "algorithm.signals.curiosity"):
        with Trainer(Flat, config={option: {}}, num_envs=2) as trainer:
            assert trainer.config.algorithm.signals.others
    for algorithm in alternatives("Flat", Flat.action_space, "ppo"):
        with Trainer(Flat, algorithm, num_envs=2) as trainer:
            assert trainer.learners


def test_one_better_episode_is_enough_to_say_nothing(tmp_path):
    assert lines(tmp_path, env_config={"best": 3}) == []


def test_few_episodes_say_nothing(tmp_path):
    assert lines(tmp_path, steps=4 * (FEWEST - 4)) == []


def test_a_return_that_was_to_be_reached_is_no_failure(tmp_path):
    assert lines(tmp_path, stop={"return_mean": -4, "env_steps": 320}) == []


def test_an_exploration_signal_in_use_is_not_advised_and_neither_is_the_algorithm(tmp_path):
    cfg = PPOConfig(**FAST, signals={"rnd": {}})
    assert lines(tmp_path, algorithm=cfg)[1] == "to try, in this order: --algo dqn;"


def test_agents_that_win_what_others_lose_have_moved():
    zero_sum = [{"return_min": 0.0, "return_max": 0.0, "agents/a/return_mean": x, "agents/b/return_mean": -x}
                for x in (0.0, 0.5)]  # fmt: skip
    assert not is_unmoved(zero_sum)
    assert is_unmoved(zero_sum[:1] * 2)
    assert is_unmoved([{"return_min": None, "return_max": None}, {"return_min": 0.1, "return_max": 0.1}])
    assert not is_unmoved([{"return_min": 0.1, "return_max": 0.1}, {"return_min": 0.2, "return_max": 0.2}])


def test_several_policies_get_no_advice_on_the_algorithm(tmp_path):
    with Trainer(MultiAgentArena, PPOConfig(**FAST), policies=["agent1", "agent2"], num_envs=2) as trainer:
        result = trainer.train({"env_steps": 64})
        flat = result.__class__(**{**vars(result), "episodes": 50, "return_mean": 1.0, "return_min": 1.0,
                                   "return_max": 1.0})  # fmt: skip
        assert unmoved_lines(trainer, flat, None, tmp_path, tmp_path)[1] == "to try, in this order:"


@pytest.mark.parametrize(
    ("env", "action", "current", "expected"),
    [
        ("MountainCarContinuous-v0", spaces.Box(-1, 1, (1,)), "ppo", ["sac"]),
        ("MinAtar/Breakout-v1", spaces.Discrete(3), "ppo", ["pqn", "dqn"]),
        ("Mine-v0", spaces.Discrete(3), "dqn", ["ppo"]),
        ("Mine-v0", spaces.Box(-1, 1, (1,)), "ppo", ["sac"]),
        ("Mine-v0", spaces.MultiDiscrete([2, 2]), "ppo", []),
    ],
)
def test_alternatives_are_those_of_the_rule(env, action, current, expected):
    assert alternatives(env, action, current) == expected


def test_rows_are_read_one_by_one_and_as_a_whole(tmp_path):
    rows = [{"iteration": 1, "return_min": 0.0}, {"iteration": 2, "return_min": 1.0}]
    assert read_rows(tmp_path) == []
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)) + '\n[1]\n{"iteration": 3, "retu')
    assert read_rows(tmp_path) == rows
    reading = iter_rows(tmp_path)
    assert next(reading) == rows[0]
    reading.close()
