"""Workers on two Ray nodes of this machine: one worker's weights, and what is left when workers and nodes are lost."""

from __future__ import annotations

import hashlib
import os
import signal
import threading

import gymnasium
import numpy as np
import pytest

from rookery import A2CConfig, PPOConfig, Trainer

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow

from nodes_of_ray import Nodes, eventually, is_alive  # noqa: E402

AT_LENGTH = "ROOKERY_FAULTS" in os.environ
KILLS = 30 if AT_LENGTH else 1
ENOUGH = 195.0
"""Mean return that a run which loses its workers again and again has to reach all the same."""

SMALL = PPOConfig(fragment_length=32, epochs=2, minibatch_size=64, model={"hidden": (16,)})
KINDS = {"kernels": SMALL, "torch": SMALL.replace(model={"hidden": (16,), "native": False})}


@pytest.fixture(scope="module")
def nodes():
    made = Nodes()
    made.add()
    eventually(lambda: sum(node["Alive"] for node in ray.nodes()) == 2)
    yield made
    made.close()
    eventually(lambda: not any(map(is_alive, made.begun)))


def weights_after(iterations, workers, algorithm, together=1):
    """A hash of the weights that so many workers come to, of which some share a process."""
    sampling, cluster = (
        {"num_envs": 6, "workers": workers, "inference_batch_envs": 2},
        {"workers_per_process": together},
    )
    if together > 1:
        cluster["worker_cpus"] = 1 / together
    with Trainer("CartPole-v1", algorithm, seed=5, sampling=sampling, cluster=cluster) as trainer:
        for _ in range(iterations):
            result = trainer.train_iteration()
        assert result.exact
        found = hashlib.sha256()
        for tensor in [*trainer.policies["main"].parameters(), *trainer.policies["main"].buffers()]:
            found.update(tensor.detach().numpy().tobytes())
        return found.hexdigest()


@pytest.mark.parametrize("kind", KINDS)
def test_workers_on_two_nodes_come_to_the_weights_of_one_worker_here(nodes, kind, measured):
    here = weights_after(3, 0, KINDS[kind])
    assert all(weights_after(3, workers, KINDS[kind]) == here for workers in (1, 2, 3))
    assert weights_after(3, 3, KINDS[kind], together=2) == here
    measured(f"synchronous workers on two Ray nodes, {kind}", 4, "weights of 1, 2 and 3 workers equal those of none")


class Ledger:
    """Notes which decision of which slot every rollout has brought."""

    def __init__(self, learner):
        self.seen, self.doubles = set(), 0
        step = learner.training_step

        def note(rollout):
            headers = (rollout.slot.tolist(), rollout.clock.tolist(), rollout.length.tolist())
            for slot, clock, length in zip(*headers, strict=True):
                for at in range(clock, clock + length):
                    self.doubles += (slot, at) in self.seen
                    self.seen.add((slot, at))
            return step(rollout)

        learner.training_step = note


def lose_something(nodes, other, pool, rng):
    """Kills a worker's process, or ends the second node in order, or kills its raylet; returns the second node."""
    how = ("worker", "removed", "killed")[int(rng.integers(3))] if AT_LENGTH else "worker"
    if how == "worker":
        os.kill(pool.hosts.home(int(rng.integers(2))).process, signal.SIGKILL)
        return other
    nodes.lose(other, how)
    return nodes.add()


class Meeting(gymnasium.Env):
    """An environment whose step ends when two of them are in a step at once."""

    observation_space = action_space = gymnasium.spaces.Discrete(2)
    barrier = threading.Barrier(2)

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        self.barrier.wait(20)
        return 0, 1.0, False, False, {}


def test_workers_of_one_process_play_beside_each_other(nodes):
    cluster = {"workers_per_process": 2, "worker_cpus": 0.5}
    sampling = {"num_envs": 2, "workers": 2, "warmup_steps": 0}
    with Trainer(Meeting, SMALL, seed=1, sampling=sampling, cluster=cluster) as trainer:
        assert trainer.train_iteration().env_steps == 64
        assert trainer._pool.hosts.home(0) is trainer._pool.hosts.home(1)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_run_that_loses_workers_and_nodes_reaches_its_return(nodes, asynchronous, measured):
    rng, kills = np.random.default_rng(1), KILLS
    other = nodes.add()
    sampling = {"num_envs": 4, "workers": 2, "asynchronous": asynchronous, "iteration_steps": 2000, "max_restarts": 200}
    algorithm = PPOConfig(fragment_length=128) if not asynchronous else A2CConfig(fragment_length=16, rollout_size=256)
    with Trainer("CartPole-v1", algorithm, seed=5, sampling=sampling) as trainer:
        ledger, best = Ledger(trainer.learners["main"]), 0.0
        for number in range(400):
            result = trainer.train_iteration()
            best = max(best, result.return_mean or 0.0)
            if kills and number % 3 == 2:
                other, kills = lose_something(nodes, other, trainer._pool, rng), kills - 1
            if best >= ENOUGH and not kills:
                break
        lost = result.counters["workers_lost"]
    assert best >= ENOUGH
    assert lost >= 1
    assert ledger.doubles == 0
    dropped = result.counters["decisions_lost"]
    kept = result.env_steps - len(ledger.seen) - dropped
    assert 0 <= kept <= 2 * sampling["num_envs"] * 128  # what was still with workers at the end
    kind = "asynchronous" if asynchronous else "synchronous"
    told = f"return {best:.0f}; {lost} workers lost, {dropped} decisions lost, none twice"
    measured(f"{kind} run that loses workers, raylets and nodes at random", KILLS, told)
