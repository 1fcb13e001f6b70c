"""Asynchronous sampling: stale by one update, repeatable, and resumed where it was stopped."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
import traceback

import numpy as np
import pytest
import torch
from gymnasium import spaces
from lived_in import Walk
from lives import CASES, FAST, digest, make, rows, weights

from each_step import after_each_step
from rookery import Callback, EnvError, PPOConfig, Trainer
from rookery.core.process.interrupt import Interrupted
from rookery.rollout import pool
from selection import slow, slow_except

ITERATIONS = 4
AHEAD = {"sampling.staleness": 1}
HERE = "serial"
"""No helper processes: this is about threads."""


def overlapping(env, **arguments):
    """A trainer that plays ahead."""
    return make(env, **{**arguments, "config": {"env.implementation": HERE, **arguments.get("config", {}), **AHEAD}})


def slowed(trainer, learning=0.0, playing=0.0):
    """Makes learning or playing slow, which must not change what comes out."""
    for learner in trainer.learners.values():

        def step(rollout, own=learner.training_step):
            time.sleep(learning)
            return own(rollout)

        learner.training_step = step
    if playing:
        after_each_step(trainer._pool.worker, lambda worker: time.sleep(playing))
    return trainer


def logp_of(policy, rollout):
    obs = {path: leaf.flatten(0, 1) for path, leaf in rollout.obs.items()}
    with torch.no_grad():
        return policy(obs).log_prob(rollout.action.flatten(0, 1)).view_as(rollout.logp)


# --- how old the weights are ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("staleness", [0, 1])
def test_each_rollout_is_played_by_the_weights_before_the_last_update_if_staleness_is_1(staleness):
    ages = []
    cfg = FAST.replace(lr=0.01, model={"normalize_obs": True})
    with make("Pendulum-v1", cfg=cfg, config={"sampling.staleness": staleness}) as trainer:
        (learner,) = trainer.learners.values()
        step, before = learner.training_step, []

        def note(rollout):
            before.append({name: value.clone() for name, value in learner.policy.state_dict().items()})
            fits = []
            for state in before:
                learner.policy.load_state_dict(state)
                fits.append(bool(torch.allclose(logp_of(learner.policy, rollout), rollout.logp, atol=1e-4)))
            ages.append(fits[::-1].index(True))
            assert sum(fits) == 1
            return step(rollout)

        learner.training_step = note
        results = [trainer.train_iteration() for _ in range(4)]
    assert ages == ([0, 1, 1, 1] if staleness else [0, 0, 0, 0])
    if staleness:
        assert [result.policies["main"].stale_fraction for result in results] == [0, 1, 1, 1]
        assert all(result.policies["main"].importance_mean == pytest.approx(1, abs=0.5) for result in results)
        assert results[0].policies["main"].importance_std < 1e-4 < 0.01 < results[1].policies["main"].importance_std
    else:
        assert "stale_fraction" not in results[0].policies["main"].learning


def test_it_is_off_unless_asked_for_and_then_no_thread_is_started():
    before = threading.active_count()
    with make("CartPole-v1") as trainer:
        assert trainer.config.sampling.staleness == 0
        trainer.train_iteration()
        assert threading.active_count() == before
        assert "play_ahead" not in trainer.timers.root.children


def test_steps_and_episodes_are_counted_when_their_rollout_is_handed_over():
    with overlapping("CartPole-v1") as trainer:
        for iteration in range(1, 4):
            result = trainer.train_iteration()
            trainer._pool.settle()
            assert trainer._pool.worker.env_steps == (iteration + 1) * 24 * 3
            assert result.env_steps == trainer.env_steps == trainer.learners["main"].env_steps == iteration * 24 * 3
            assert trainer._finished == []


def test_no_episode_is_lost_or_counted_twice():
    with overlapping("CartPole-v1") as trainer:
        for _ in range(6):
            result = trainer.train_iteration()
        trainer._pool.settle()
        waiting = len(trainer._pool.ready.finished)
        assert result.episodes + waiting == int(trainer.env.episode.sum())


# --- the same from run to run -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["normalizers, evaluation", slow("random mapping, serial")])
def test_nothing_depends_on_who_is_faster(name):
    found = []
    for delays in ({}, {"learning": 0.02}, {"playing": 0.0005}):
        with slowed(overlapping(**CASES[name]), **delays) as trainer:
            for _ in range(ITERATIONS):
                result = trainer.train_iteration()
            kept = (result.env_steps, result.episodes, result.return_mean, result.running_length, dict(result.counters))
            found.append((kept, digest(trainer)))
    assert found[0] == found[1] == found[2]


class Picture(Walk):
    """Shows images that no policy needs to distinguish."""

    observation_space = spaces.Box(0, 255, (36, 36, 1), np.uint8)

    def reset(self, **given):
        super().reset(**given)
        return np.zeros((36, 36, 1), np.uint8), {}

    def step(self, action):
        return np.zeros((36, 36, 1), np.uint8), *super().step(action)[1:]


@pytest.mark.parametrize(("env", "threads"), [("CartPole-v1", 1), (Picture, 2)])
def test_playing_ahead_has_the_threads_of_acting_however_late_it_begins(env, threads, monkeypatch):
    run, found = pool._PlayAhead.run, []

    def late(ahead):
        time.sleep(0.05)  # by now learning has begun
        after_each_step(ahead.worker, lambda worker: found.append(torch.get_num_threads()))
        run(ahead)

    monkeypatch.setattr(pool._PlayAhead, "run", late)
    with slowed(overlapping(env, threads=2), learning=0.1) as trainer:
        trainer.train_iteration()
        trainer._pool.settle()
    assert set(found) == {threads}


class Arrivals:
    """Two of different kinds act in every step; from the fourth episode on a third does too."""

    SIZES = {"x": 2, "y": 3, "z": 2}
    possible_agents = list(SIZES)
    observation_spaces = {name: spaces.Box(-np.inf, np.inf, (size,), np.float32) for name, size in SIZES.items()}
    action_spaces = dict.fromkeys(SIZES, spaces.Discrete(3))
    episodes = 0

    def reset(self, *, seed=None, options=None):
        self.rng, self.t = np.random.default_rng(seed), 0
        self.episodes += 1
        return self.seen(), {}

    def seen(self):
        names = ["x", "y", "z"] if self.episodes > 3 else ["x", "y"]
        return {name: self.rng.normal(size=self.SIZES[name]).astype(np.float32) for name in names}

    def step(self, actions):
        self.t += 1
        rewards = {name: float(action) for name, action in actions.items()}
        return self.seen(), rewards, {"__all__": self.t == 13}, {"__all__": False}, {}


def by_name(agent, episode):
    return {"x": "a", "y": "b", "z": "c"}[agent]


def test_a_policy_met_while_playing_ahead_is_made_by_the_trainers_thread_when_it_waits():
    found = []
    for delays in ({}, {"learning": 0.05}):
        arguments = {"policies": {"a": FAST, "b": FAST, "c": FAST}, "policy_mapping": by_name}
        with slowed(overlapping(Arrivals, **arguments), **delays) as trainer:
            threads = {}
            introduce = trainer._introduce

            def note(kinds, introduce=introduce, threads=threads):
                threads.update(dict.fromkeys(kinds, threading.current_thread()))
                introduce(kinds)

            trainer._introduce = note
            known = []
            for _ in range(6):
                trainer.train_iteration()
                known.append(sorted(trainer.learners))
            assert threads["c"] is threading.main_thread()
            assert "c" not in known[0]
            assert "c" in known[-1]
            found.append((known, digest(trainer)))
    assert found[0] == found[1]


# --- stopping and resuming --------------------------------------------------------------------------------------------

RESUMED = [
    "one policy",
    "normalizers, evaluation",
    "random mapping, serial",
    "iterations of fixed length",
    "turns, late agents",
    "a2c",
    "impala and appo",
]


@pytest.mark.parametrize("name", slow_except("turns, late agents", of=RESUMED))
def test_stopping_anywhere_changes_nothing(name, tmp_path):
    outcomes = []
    # the first step; the last of a fragment of 24; twice in a later rollout
    for number, stops in enumerate([(), (1, 24, 61, 70)]):
        folder = tmp_path / str(number)
        trainer = overlapping(run_dir=folder, **CASES[name])
        for stop in stops:
            with trainer:

                def come(worker, trainer=trainer, stop=stop):
                    if worker.vector_steps == stop:
                        trainer._interrupt.number = signal.SIGINT

                after_each_step(trainer._pool.worker, come)
                with contextlib.suppress(Interrupted):
                    trainer.train({"iterations": ITERATIONS})
            trainer = Trainer.load(folder, resume=True)
        with trainer:
            trainer.train({"iterations": ITERATIONS})
            assert trainer.iteration == ITERATIONS
            outcomes.append((digest(trainer), weights(trainer), rows(folder)))
    assert outcomes[0] == outcomes[1]


def test_stopping_between_iterations_keeps_what_was_played_ahead(tmp_path):
    with overlapping("CartPole-v1", run_dir=tmp_path / "whole") as trainer:
        trainer.train({"iterations": ITERATIONS})
        expected = digest(trainer)
    with overlapping("CartPole-v1", run_dir=tmp_path / "parts") as trainer:
        trainer.train({"iterations": 2})
        trainer._pool.settle()
        (ready,) = trainer._pool.ready.rollouts.values()
    for iteration in range(3, ITERATIONS + 1):
        with Trainer.load(tmp_path / "parts", resume=True) as trainer:
            if iteration == 3:
                (kept,) = trainer._pool.ready.rollouts.values()
                assert torch.equal(kept.logp, ready.logp)
                assert torch.equal(kept.obs["obs"], ready.obs["obs"])
                assert trainer._pool.waiting == ["main"]
            trainer.train({"iterations": iteration})
            found = digest(trainer)
    assert found == expected


class Counting(Callback):
    """Counts episodes that ended."""

    def __init__(self):
        self.episodes = 0

    def on_episode_end(self, episode):
        self.episodes += 1

    def state_dict(self):
        return {"episodes": self.episodes}

    def load_state_dict(self, state):
        self.episodes = state["episodes"]


def test_what_a_callback_counts_while_playing_ahead_is_saved_with_it(tmp_path):
    counted = []
    for stops in ((), (2, 4)):
        folder = tmp_path / str(len(stops))
        callback = Counting()
        trainer = overlapping(Walk, run_dir=folder, callbacks=[callback])
        for stop in stops:
            with slowed(trainer, playing=0.001):
                trainer.train({"iterations": stop})
            callback = Counting()
            trainer = Trainer.load(folder, resume=True, callbacks=[callback])
        with trainer:
            trainer.train({"iterations": 6})
            assert callback.episodes == int(trainer.env.episode.sum())
        counted.append((callback.episodes, rows(folder)))
    assert counted[0] == counted[1]


# --- errors, ends, reports --------------------------------------------------------------------------------------------


UNTRIED = {"config": {"sampling.warmup_steps": 0}}


class Breaking(Walk):
    """Fails at the thirtieth step of its first episode or later."""

    steps = 0

    def step(self, action):
        self.steps += 1
        if self.steps == 30:
            raise ZeroDivisionError("out of paper")
        return super().step(action)


def test_an_error_while_playing_ahead_is_raised_once_where_it_is_waited_for_with_its_own_traceback():
    trainer = overlapping(Breaking, **UNTRIED)
    trainer.train_iteration()  # 24 steps; the next rollout fails
    with pytest.raises(EnvError, match="out of paper") as caught:
        trainer.train_iteration()
    assert "ZeroDivisionError" in "".join(traceback.format_exception(caught.value))
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert {"train_iteration", "sample", "play"} <= set(frames)
    trainer.close()


def test_an_error_nobody_waited_for_does_not_stop_close():
    before = threading.active_count()
    trainer = overlapping(Breaking, **UNTRIED)
    trainer.train_iteration()
    trainer.close()
    assert threading.active_count() == before


def test_close_ends_playing_ahead_after_the_step_under_way():
    trainer = overlapping(Walk, cfg=FAST.replace(fragment_length=2000, minibatch_size=6000, epochs=1))
    here = threading.current_thread()
    # 2000 of them would take 10 s
    after_each_step(
        trainer._pool.worker, lambda worker: time.sleep(0.0 if threading.current_thread() is here else 0.005)
    )
    trainer.train_iteration()
    playing = trainer._pool._ahead
    trainer.close()
    assert not playing.is_alive()
    assert trainer._pool.worker.vector_steps < 3500


def test_playing_ahead_is_timed_apart_from_the_loop():
    with overlapping("CartPole-v1") as trainer:
        for _ in range(4):
            trainer.train_iteration()
        trainer._pool.settle()
        tree = trainer.timers.state_dict()["children"]
    assert list(tree) == ["train_iteration", "play_ahead"]
    assert tree["train_iteration"]["children"]["sample"]["children"]["act"]["count"] == 24  # the first rollout
    assert tree["play_ahead"]["count"] == 4
    assert tree["play_ahead"]["children"]["act"]["count"] == 4 * 24


# --- learning ---------------------------------------------------------------------------------------------------------


def test_cartpole_is_learned_with_stale_weights():
    with Trainer("CartPole-v1", preset="auto", seed=1, config=AHEAD) as trainer:
        begin = trainer._pool.play_ahead

        def play_ahead(budget):
            begin(budget)
            trainer._pool.settle()  # the same rollouts, by a test that does not strain two cores

        trainer._pool.play_ahead = play_ahead
        result = trainer.train({"return_mean": 195, "env_steps": 80_000})
    assert result.return_mean >= 195


def test_demands_of_different_size_are_met_while_playing_ahead():
    cfgs = {"a": PPOConfig(fragment_length=20, epochs=1), "b": PPOConfig(fragment_length=50, epochs=1)}
    mapping = {"x": "a", "z": "a", "y": "b"}
    with overlapping(Arrivals, policies=cfgs, policy_mapping=mapping) as trainer:
        sizes = {name: [] for name in cfgs}
        for name, learner in trainer.learners.items():

            def note(rollout, name=name, own=learner.training_step):
                sizes[name].append(rollout.num_decisions)
                return own(rollout)

            learner.training_step = note
        for _ in range(3):
            trainer.train_iteration()
    assert sizes["b"] == [150, 150, 150]
    assert all(size >= 60 for size in sizes["a"])
    assert len(sizes["a"]) > 3
