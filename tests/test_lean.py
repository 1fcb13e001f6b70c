"""Limits on the cost of a vector step and a gradient step, counted instead of timed: tensor operations, new tensors,
bytes that operations write, and calls of functions, Python's and C's.

The counts are the same on every machine. One that has grown is a loss of speed that needs a reason; one that has shrunk
is a gain to be written down here.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rookery import A2CConfig, DQNConfig, MultiAgentArena, PPOConfig, SACConfig, Trainer
from rookery.core.native import SWITCH, best_build
from rookery.core.optim import gradient_step

FORMER = {
    "n_step": 1,
    "batch_size": 64,
    "train_every": 4,
    "updates_per_step": 0.25,
    "target": {"every": 250},
    "model": {"hidden": (64, 64), "activation": "relu"},
}
"""Sizes of DQN that the limits are of."""

ATTEMPTS = 3
"""How often a cost may be measured."""


@dataclass
class Cost:
    ops: int = 0
    tensors: int = 0
    bytes_written: int = 0
    calls: int = 0

    def within(self, limit: Cost) -> bool:
        return all(mine <= theirs for mine, theirs in zip(vars(self).values(), vars(limit).values(), strict=True))


class Counting(TorchDispatchMode):
    """Counts operations that reach a kernel, and what they write; views write nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.cost = Cost()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = {t.untyped_storage().data_ptr() for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)}
        self.cost.ops += 1
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                fresh = tensor.untyped_storage().data_ptr() not in given
                self.cost.tensors += fresh
                if fresh or func._schema.is_mutable:
                    self.cost.bytes_written += tensor.nbytes
        return result


def cost_of(function) -> Cost:
    """Returns the cost of one call of `function`; it is called twice, because counting calls and counting operations
    disturb each other.
    """
    with Counting() as counting:
        function()
    calls = 0

    def note(frame, event, argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    gc.disable()  # a collection runs callbacks, and comes at any time
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
        gc.enable()
    counting.cost.calls = calls
    return counting.cost


def least_cost(limit: Cost, measure: Callable[[], Cost]) -> Cost:
    """Returns a cost, measured again with everything made anew where it is above a limit: calls from outside while
    calls are counted, such as a signal's handler or the end of another test's object, can only add some, and do not
    come three times. The cost of the code itself is the same each time.
    """
    for _ in range(ATTEMPTS):
        cost = measure()
        if cost.within(limit):
            break
    return cost


def quiet_step(trainer: Trainer):
    """A vector step in which no episode ends and no fragment begins: the first few steps of the run have been made."""
    worker = trainer._pool.worker
    worker.sample(2 * trainer.env.num_lanes)

    def step() -> None:
        worker.python_loop.play(worker, 1)
        assert not worker.now.ended.any()

    return step


class Idle(gymnasium.Env):
    """Does nothing, so that only what is around it is counted."""

    observation_space, action_space = spaces.Box(-1.0, 1.0, (4,)), spaces.Discrete(2)
    seen = np.zeros(4, np.float32)

    def reset(self, *, seed=None, options=None):
        return self.seen, {}

    def step(self, action):
        return self.seen, 1.0, False, False, {}


STEPS = {
    "CartPole, 8 copies": (
        lambda: Trainer("CartPole-v1", PPOConfig(), num_envs=8, seed=3),
        Cost(calls=61),
        Cost(ops=20, tensors=11, bytes_written=8_672, calls=87),
    ),
    "an environment in Python, 8 copies": (
        lambda: Trainer(Idle, PPOConfig(), num_envs=8, seed=0, config={"env.implementation": "serial"}),
        Cost(calls=106),
        Cost(ops=20, tensors=11, bytes_written=8_672, calls=132),
    ),
    "arena, 8 copies, two agents of one policy": (
        lambda: Trainer(MultiAgentArena, PPOConfig(), num_envs=8, seed=0),
        Cost(calls=61),
        Cost(ops=24, tensors=17, bytes_written=22_720, calls=125),
    ),
}
"""For each what makes it, and what a vector step may cost on kernels and by torch."""


@pytest.fixture(params=["kernels", "torch"])
def computes(request, monkeypatch):
    """Computes on kernels or in torch; returns which."""
    if request.param == "kernels":
        if best_build() is None:
            pytest.skip("no kernels here")
        yield request.param
        return
    monkeypatch.setenv(SWITCH, "0")
    best_build.cache_clear()
    yield request.param
    monkeypatch.undo()
    best_build.cache_clear()


@pytest.mark.parametrize("name", STEPS)
def test_a_vector_step_costs_no_more_than_it_did(name, computes):
    make, on_kernels, by_torch = STEPS[name]
    limit = on_kernels if computes == "kernels" else by_torch

    def measure() -> Cost:
        with make() as trainer:
            return cost_of(quiet_step(trainer))

    cost = least_cost(limit, measure)
    assert cost.within(limit), f"{cost} is above {limit}"


def test_a_cost_that_is_above_its_limit_each_time_stays_there():
    costs = iter([Cost(calls=9), Cost(calls=8), Cost(calls=8), Cost(calls=7)])
    assert least_cost(Cost(calls=7), lambda: next(costs)) == Cost(calls=8)
    costs = iter([Cost(calls=9), Cost(calls=7)])
    assert least_cost(Cost(calls=7), lambda: next(costs)) == Cost(calls=7)


@pytest.mark.usefixtures("computes")
def test_twice_the_copies_cost_no_more_operations_and_calls():
    def measure(copies: int) -> tuple[int, int, int]:
        with Trainer("CartPole-v1", PPOConfig(), num_envs=copies, seed=3) as trainer:
            cost = cost_of(quiet_step(trainer))
            return cost.calls, cost.ops, cost.tensors

    few, many = measure(8), measure(16)
    for _ in range(ATTEMPTS - 1):
        if few != many:  # something else was called meanwhile
            few, many = min(few, measure(8)), min(many, measure(16))
    assert few == many


MINIBATCHES = {
    "ppo": (
        PPOConfig(minibatch_size=256),
        Cost(ops=8, tensors=4, bytes_written=39_693, calls=42),
        Cost(ops=196, tensors=121, bytes_written=2_272_665, calls=166),
    ),
    "a2c": (
        A2CConfig(fragment_length=32),
        Cost(ops=164, tensors=72, bytes_written=102_980, calls=471),
        Cost(ops=327, tensors=160, bytes_written=3_075_106, calls=503),
    ),
}
"""Of each the settings, and what learning from a minibatch may cost on kernels and by torch."""


@pytest.mark.parametrize("name", MINIBATCHES)
def test_a_gradient_step_costs_no_more_than_it_did(name, computes):
    cfg, on_kernels, by_torch = MINIBATCHES[name]
    limit = on_kernels if computes == "kernels" else by_torch

    def measure() -> Cost:
        with Trainer("CartPole-v1", cfg, num_envs=8, seed=0) as trainer:
            learner = trainer.learners["main"]
            rollout = trainer._pool.sample(10_000).rollouts["main"]
            if name == "a2c":
                return cost_of(lambda: learner.training_step(rollout))
            batch = next(learner.targets(rollout).shuffled(256, learner.rng))
            given = learner.forward, learner.loss, batch, learner.optimizer, learner.now(), learner.closed_form
            return cost_of(lambda: gradient_step(*given))

    cost = least_cost(limit, measure)
    assert cost.within(limit), f"{cost} is above {limit}"


FROM_REPLAY = {
    "sac": (
        "Pendulum-v1",
        SACConfig(learning_starts=64, batch_size=64),
        Cost(ops=49, tensors=33, bytes_written=553_764, calls=472),
        Cost(ops=363, tensors=181, bytes_written=6_402_323, calls=778),
    ),
    "dqn": (
        "CartPole-v1",
        DQNConfig(learning_starts=64, **FORMER),
        Cost(ops=8, tensors=1, bytes_written=18_696, calls=121),
        Cost(ops=102, tensors=46, bytes_written=322_645, calls=294),
    ),
}
"""Of each environment and settings, and what drawing a batch and learning from it may cost on kernels and by torch."""


@pytest.mark.parametrize("name", FROM_REPLAY)
def test_learning_from_replay_costs_no_more_than_it_did(name, computes):
    env, cfg, on_kernels, by_torch = FROM_REPLAY[name]
    limit = on_kernels if computes == "kernels" else by_torch

    def measure() -> Cost:
        with Trainer(env, cfg, num_envs=1, seed=0) as trainer:
            learner = trainer.learners["main"]
            while learner.replay.is_warming_up:
                learner.replay.store(trainer._pool.sample(64).rollouts["main"])
            learner.learn(1)
            return cost_of(lambda: learner.learn(1))

    cost = least_cost(limit, measure)
    assert cost.within(limit), f"{cost} is above {limit}"
