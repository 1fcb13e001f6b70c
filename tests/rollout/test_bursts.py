"""Bursts, in which helper processes decide by themselves: the bits of step after step, and what goes wrong in one."""

from __future__ import annotations

import hashlib
import itertools
import time

import bursting
import numpy as np
import pytest

from rookery import DQNConfig, PPOConfig, Trainer
from rookery.core.errors import EnvError
from rookery.core.native import best_build
from rookery.rollout.loops import helper_process as playing_bursts
from selection import slow

pytestmark = [
    pytest.mark.skipif(best_build() is None, reason="no kernels are built here"),
    pytest.mark.filterwarnings("ignore:.*a new one takes over"),
]

PPO = PPOConfig(fragment_length=32, epochs=2, minibatch_size=64, model={"hidden": (16,), "normalize_obs": True})
HERE = {"env.implementation": "serial"}


def helpers(number):
    """Settings for so many helper processes."""
    return {"env.implementation": "processes", "sampling.env_processes": number}


def digest(state):
    """A hash of all that a state says, however deep."""
    found = hashlib.sha256()

    def take(value):
        if isinstance(value, dict):
            for key in sorted(value, key=str):
                found.update(str(key).encode())
                take(value[key])
        elif isinstance(value, list | tuple):
            found.update(str(len(value)).encode())
            for each in value:
                take(each)
        elif hasattr(value, "numpy"):
            take(value.numpy())
        else:
            found.update(
                np.ascontiguousarray(value).tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
            )

    take(state)
    return found.hexdigest()


def told(trainer, results):
    """Result of a run: learned weights, and results of its episodes."""
    weights = {name: policy.state_dict() for name, policy in trainer.policies.items()}
    said = [(each.env_steps, each.episodes, each.return_mean, each.length_mean) for each in results]
    return digest(weights), said, results[-1].counters


def played(env, settings, at_once=True, iterations=4, algorithm=PPO, whole=False, **more):
    """Returns the result of a run, with the worker's state if wanted, and its number of bursts."""
    with Trainer(env, algorithm, seed=3, config=[settings], **{"num_envs": 5, **more}) as trainer:
        if not at_once:
            trainer._pool.worker.fast_loop = None
        results = [trainer.train_iteration() for _ in range(iterations)]
        bursts = next((row.count for row in trainer.timers.rows() if row.label == "fragments"), 0)
        state = digest(trainer._pool.worker.state_dict()) if whole else ""
        return (*told(trainer, results), state), bursts


@pytest.mark.parametrize(
    ("env", "number", "more"),
    [
        (bursting.Drift, 2, {"algorithm": PPO.replace(model={"hidden": (16,)})}),
        (bursting.Plain, 1, {"iteration_steps": 50}),  # ends within fragments
        slow("CartPole-v1", 1, {}),
        slow("Pendulum-v1", 2, {"algorithm": PPO.replace(rollout_size=100)}),
    ],
)
def test_bursts_are_the_bits_of_step_after_step(env, number, more):
    in_bursts, bursts = played(env, helpers(number), whole=True, **more)
    one_by_one, none = played(env, helpers(number), at_once=False, whole=True, **more)
    assert in_bursts == one_by_one
    assert played(env, HERE, **more)[0][:3] == in_bursts[:3]
    assert bursts > 0 == none


def test_steps_that_are_too_few_are_made_one_by_one():
    learner = DQNConfig(learning_starts=64, train_every=1, batch_size=16, model={"hidden": (16,)})
    assert played("CartPole-v1", helpers(1), algorithm=learner, iterations=1, iteration_steps=100)[1] == 0


def test_a_run_that_goes_on_comes_to_the_same(tmp_path):
    whole, _ = played(bursting.Plain, HERE)
    with Trainer(bursting.Plain, PPO, seed=3, num_envs=5, config=[helpers(1)], run_dir=tmp_path / "run") as trainer:
        before = [trainer.train_iteration() for _ in range(2)]
        trainer.save()
    with Trainer.load(tmp_path / "run") as trainer:
        after = [trainer.train_iteration() for _ in range(2)]
        assert told(trainer, before + after) == whole[:3]


def test_a_helper_that_dies_in_a_burst_is_replaced_and_its_lanes_play_the_burst_again(tmp_path):
    config = {"file": str(tmp_path / "died")}
    (weights, said, counters, _), bursts = played(bursting.Dying, helpers(1), env_config=config)
    assert (tmp_path / "died").exists() and bursts
    assert counters.pop("helper_restarts") == 1
    assert (weights, said, counters) == played(bursting.Plain, HERE)[0][:3]


def test_lanes_that_go_on_where_another_rests_are_put_back():
    (resting, bursts), (plain, _) = played(bursting.Pausing, helpers(1)), played(bursting.Pausing, HERE)
    assert bursts and resting[:3] == plain[:3]
    assert plain[2]["resting_steps"] > 0


@pytest.mark.regression("wrong result", "The pace of bursts counts the steps that were made, also where a lane rests")
def test_the_pace_is_that_of_the_steps_that_were_made(monkeypatch):
    clock, short = itertools.count(), 0
    monkeypatch.setattr(playing_bursts, "perf_counter", lambda: float(next(clock)))
    with Trainer(bursting.Pausing, PPO, seed=3, num_envs=5, config=[helpers(1)]) as trainer:
        player = trainer._pool.worker.fast_loop
        play = player._play

        def noted(mine, steps, *rest):
            nonlocal short
            before = player._pace
            found = play(mine, steps, *rest)
            short += found[0] < steps
            assert player._pace == (1 / found[0] if found[0] else before)  # of this clock, a burst takes a second
            player._pace = before  # else bursts of a second a step are single steps
            return found

        player._play = noted
        for _ in range(2):
            trainer.train_iteration()
    assert short


def test_episodes_that_break_in_a_burst_are_given_up_as_ever():
    bearing = {"env.on_error": "restart"}
    in_bursts, bursts = played(bursting.Breaking, helpers(1) | bearing, whole=True)
    assert in_bursts == played(bursting.Breaking, helpers(1) | bearing, at_once=False, whole=True)[0]
    assert bursts and in_bursts[2]["episodes_broken"] > 0


def test_an_error_in_a_burst_says_where_it_was():
    said = []
    for at_once in (True, False):
        with pytest.raises(EnvError) as caught:
            played(bursting.Breaking, helpers(1), at_once=at_once)
        said.append(str(caught.value))
    assert said[0] == said[1] and "step 13" in said[0] and "dropped" in said[0]


@pytest.mark.slow
def test_a_helper_that_hangs_in_a_burst_is_ended_after_the_time_of_a_step():
    began, limits = time.monotonic(), {"sampling.step_timeout_seconds": 0.5, "sampling.max_restarts": 0}
    with pytest.raises(EnvError, match=r"a step took longer than sampling\.step_timeout_seconds"):
        played(bursting.Hanging, helpers(1) | limits)
    assert time.monotonic() - began < 20


@pytest.mark.slow
def test_drawn_parameters_reach_episodes_that_begin_in_a_burst():
    more = {"config": [{"env.parameters": {"length": {"sampler": "uniform", "low": 0.3, "high": 0.7}}}]}
    runs = []
    for settings in (helpers(1), HERE):
        with Trainer("CartPole-v1", PPO, seed=3, num_envs=4, config=[settings, *more["config"]]) as trainer:
            runs.append(told(trainer, [trainer.train_iteration() for _ in range(2)]))
    assert runs[0] == runs[1]
