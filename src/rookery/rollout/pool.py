"""Pools of workers: the protocol, and the pool of one worker in this process.

The trainer uses a pool only, so remote workers change nothing for it. The local pool can also play ahead: it plays the
next rollouts in a thread, while the trainer learns from the last (docs/how-to/asynchronous-sampling.md).
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, fields, replace
from threading import Thread
from typing import Any, ClassVar, Protocol

import torch

from rookery.core.batch import Demand, Rollout
from rookery.core.process.interrupt import Interrupt
from rookery.core.process.torch_modes import captured_modes, own_modes, torch_threads
from rookery.core.state import Stateful
from rookery.core.timers import Timers
from rookery.envs.base import Kind, VectorEnv
from rookery.envs.vector.closing import close_env
from rookery.policies.policy import Policy
from rookery.rollout.hooks import EpisodeResult
from rookery.rollout.worker import RolloutWorker, Sample


class WorkerPool(Protocol):
    """Pool of workers, local or remote, as a trainer uses it.

    Attributes:
        threads: Torch threads with which each worker acts.
        plays_ahead: Whether to call `play_ahead` after rollouts were returned.
    """

    threads: int
    plays_ahead: bool

    def add_policy(self, name: str, policy: Policy, demand: Demand | None) -> None:
        """Adds a policy to every worker; `demand` None = frozen."""
        ...

    def undelivered(self, name: str) -> int:
        """Returns the number of complete decisions of a policy not handed out yet, without those played ahead."""
        ...

    def delivered(self, name: str, rollout: Rollout) -> int:
        """Returns the number of decisions that all learners of a policy received together with a rollout."""
        ...

    def retire(self, name: str) -> None:
        """Stops recording a policy, which continues to play."""
        ...

    def add_opponents(self, of: str, policy: Policy, snapshots: MutableMapping[int, Policy]) -> None:
        """Adds the opponents derived from a policy to every worker; see `RolloutWorker.add_opponents`."""
        ...

    def sample(self, max_env_steps: int) -> Sample:
        """Plays until a learner's demand is met, `max_env_steps` have passed (resting lanes included), all environments
        rest, or a policy is missing.
        """
        ...

    def set_weights(self, policies: Mapping[str, Policy]) -> None:
        """Sends weights and normalizers to the workers."""
        ...

    def change_lessons(self, lessons: Mapping[str, int], restart: bool) -> None:
        """Sends lessons to the workers, for episodes that begin from then on; `restart` ends the running episodes."""
        ...

    def change_opponents(self, lineup: dict[str, Any]) -> None:
        """Sends the possible opponents to the workers, for episodes that begin from then on."""
        ...

    def load_env(self, state: dict[str, Any]) -> dict[str, Kind]:
        """Restores the environments of a state; returns policies that must be added before `load_state_dict`, with the
        kind of agents of each.
        """
        ...

    def lent(self) -> AbstractContextManager[VectorEnv]:
        """Lends the environments to a caller that plays in them meanwhile; see `RolloutWorker.lent`."""
        ...

    def counters(self) -> dict[str, int]:
        """Returns counters of data that could not be learned from, so far."""
        ...

    def acted(self) -> int:
        """Returns the number of decisions of all policies since they were added, unrecorded ones included."""
        ...

    def play_ahead(self, max_env_steps: int) -> None:
        """Starts to play the next result of `sample`; called where `plays_ahead` is True."""
        ...

    def lag(self, name: str, rollout: Rollout) -> dict[str, float]:
        """Returns how far weights have changed since a rollout was played; empty if workers always wait for weights."""
        ...

    def waits(self) -> dict[str, float]:
        """Returns the waiting times so far, by name: seconds, bytes and shares; empty without remote workers."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Returns everything that changes."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the result of `state_dict`."""
        ...

    def close(self) -> None:
        """Closes the environments."""
        ...


class LocalPool(Stateful):
    """Pool of one worker in this process.

    Args:
        worker: The worker.
        staleness: 1 if `play_ahead` will be called: rollouts are then copies, because the worker continues to play.
        inference_batch_envs: Lanes whose agents decide together where torch computes a policy; None = all of them.

    Attributes:
        threads: Torch threads to act with.
    """

    state_version = 2
    saved: ClassVar[tuple[str, ...]] = ("worker", "limit", "waiting", "ready", "lessons", "lineup")
    fixed: ClassVar[tuple[str, ...]] = (
        "staleness",
        "plays_ahead",
        "inference_batch_envs",
        "policies",
        "threads",
        "_ahead",
    )

    def __init__(self, worker: RolloutWorker, staleness: int, inference_batch_envs: int | None = None) -> None:
        self.worker = worker
        self.staleness = staleness
        self.plays_ahead = staleness > 0
        self.inference_batch_envs = inference_batch_envs
        self.threads = 1
        self.policies: dict[str, Policy] = {}
        self.limit: int | None = None
        """Lane steps at which playing ahead ends; None if nothing is played ahead."""
        self.ready: Sample | None = None
        """Sample that was played ahead."""
        self.waiting: list[str] = []
        """Policies whose weights wait until that sample is returned."""
        self.lessons: dict[str, Any] | None = None
        """Lessons that wait until the sample played ahead is complete; None if none do."""
        self.lineup: dict[str, Any] | None = None
        """Opponents that wait, too; they change together with the weights."""
        self._ahead: _PlayAhead | None = None

    def upgrade(self, state: dict[str, Any], version: int) -> dict[str, Any]:
        """Adds lessons and opponents that wait for a sample played ahead to states of version 1, which had neither."""
        return {"lessons": None, "lineup": None, **state}

    def state_dict(self) -> dict[str, Any]:
        """Returns everything, once the sample played ahead is ready or was interrupted."""
        self.settle()
        return {**super().state_dict(), "ready": None if self.ready is None else _packed(self.ready)}

    def load_env(self, state: dict[str, Any]) -> dict[str, Kind]:
        """Restores the environments of a state; see `RolloutWorker.load_env`."""
        self.settle()
        return self.worker.load_env(state["worker"])

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the result of `state_dict`, after `load_env`."""
        absent = {"standing"} - {*self._saved_names()}  # of a run with several learners, evaluated by one
        own = {name: value for name, value in state.items() if name not in absent}
        super().load_state_dict({**own, "ready": None})
        self.ready = None if state["ready"] is None else _unpacked(state["ready"])

    def add_policy(self, name: str, policy: Policy, demand: Demand | None) -> None:
        """Adds a policy to the worker; `demand` None = frozen."""
        self.policies[name] = policy
        self.worker.add_policy(name, policy, demand, inference_batch_envs=self.inference_batch_envs)

    def delivered(self, name: str, rollout: Rollout) -> int:
        """Returns the number of decisions of a rollout: there is one learner."""
        return rollout.num_decisions

    def undelivered(self, name: str) -> int:
        """Returns the number of complete decisions of a policy not handed out yet, without those played ahead."""
        store = self.worker.policies[name].store
        return 0 if store is None or self.staleness else store.complete

    def retire(self, name: str) -> None:
        """Stops recording a policy, which continues to play; its decisions played ahead are dropped."""
        self.settle()
        self.worker.retire(name)
        if self.ready is not None and name in self.ready.rollouts:
            rest = {other: rollout for other, rollout in self.ready.rollouts.items() if other != name}
            self.ready = replace(self.ready, rollouts=rest)

    def add_opponents(self, of: str, policy: Policy, snapshots: MutableMapping[int, Policy]) -> None:
        """Adds the opponents derived from a policy to the worker."""
        self.worker.add_opponents(of, policy, snapshots)

    @property
    def passed(self) -> int:
        """Lane steps so far."""
        return self.worker.lane_steps

    def play(self, max_env_steps: int) -> Sample:
        """Plays, regardless of a sample that was played ahead."""
        return self.worker.sample(max_env_steps)

    def sample(self, max_env_steps: int) -> Sample:
        """Plays, see `WorkerPool.sample`; a sample that was played ahead is returned first."""
        if self.limit is not None:
            return self._sample_ahead(self.limit)
        with torch_threads(self.threads):
            sample = self.play(max(max_env_steps, 0))
        return _copied(sample) if self.staleness else sample

    def _sample_ahead(self, limit: int) -> Sample:
        """Returns the sample that was played ahead; continues it if it was interrupted."""
        self.settle()
        sample, self.ready = self.ready, None
        if sample is None or not (sample.rollouts or sample.newcomers or self.passed >= limit):
            before = sample
            with torch_threads(self.threads):
                sample = self.play(max(limit - self.passed, 0))
            if self.staleness:
                sample = _copied(sample)
            if before is not None:
                sample.finished[:0] = before.finished
        if sample.rollouts or self.passed >= limit:
            self.limit = None  # else it continues with its present weights
            self.worker.set_weights({name: self.policies[name] for name in self.waiting})
            self.waiting, lineup, self.lineup = [], self.lineup, None
            self.change_opponents(lineup)
        return sample

    def play_ahead(self, max_env_steps: int) -> None:
        """Starts to play the next result of `sample` in a thread, with the worker's present weights."""
        if self.lessons is not None:
            self.worker.change_lessons(**self.lessons)
            self.lessons = None
        self.limit = self.passed + max_env_steps
        self._ahead = _PlayAhead(self.worker, self.play, max_env_steps, self.threads)
        self._ahead.start()

    def settle(self) -> None:
        """Waits until the thread has ended. An error of the thread is raised here, once."""
        if self._ahead is not None:
            ahead, self._ahead = self._ahead, None
            self.ready = ahead.result()

    def set_weights(self, policies: Mapping[str, Policy]) -> None:
        """Sends weights and normalizers: at once, or after the sample that is played ahead with the old ones."""
        if self.limit is None and policies:
            self.worker.set_weights(policies)
        else:
            self.waiting += [name for name in policies if name not in self.waiting]

    def change_lessons(self, lessons: Mapping[str, int], restart: bool) -> None:
        """Sends lessons: at once, or before more is played ahead, so that weights and lessons change together."""
        if self.limit is None:
            self.worker.change_lessons(lessons, restart or (self.lessons or {}).get("restart", False))
            self.lessons = None
        else:
            restart = restart or (self.lessons is not None and self.lessons["restart"])
            self.lessons = {"lessons": dict(lessons), "restart": restart}

    def change_opponents(self, lineup: dict[str, Any] | None) -> None:
        """Sends the possible opponents, None = unchanged: at once, or with the weights that wait."""
        if self.limit is not None:
            self.lineup = lineup
        elif lineup is not None:
            self.worker.change_opponents(lineup)

    @contextmanager
    def lent(self) -> Iterator[VectorEnv]:
        """Lends the environments, once the sample played ahead is ready; see `RolloutWorker.lent`."""
        self.settle()
        with self.worker.lent() as env:
            yield env

    def counters(self) -> dict[str, int]:
        """Returns counters of data that could not be learned from, so far."""
        return self.worker.counters()

    def acted(self) -> int:
        """Returns the number of decisions of all policies since they were added, unrecorded ones included."""
        return sum(policy.acted for policy in self.worker.policies.values())

    def lag(self, name: str, rollout: Rollout) -> dict[str, float]:
        """Returns the share of a rollout's decisions that older weights made, where the worker plays ahead. Of a
        fragment that began before the weights changed, all decisions count.
        """
        if not self.staleness:
            return {}
        store = self.worker.policies[name].store
        assert store is not None
        stale = rollout.version < store.version
        return {"stale_fraction": int(rollout.length[stale].sum()) / max(rollout.num_decisions, 1)}

    def waits(self) -> dict[str, float]:
        """Returns nothing: the only worker is in this process."""
        return {}

    def close(self) -> None:
        """Closes the environments."""
        if self._ahead is not None:
            self._ahead.stop()
        close_env(self.worker.env, self.worker.env.name)


class _PlayAhead(Thread):
    """Plays once, in a separate thread. A trainer that ends without `close` waits for it, for one rollout at most."""

    def __init__(self, worker: RolloutWorker, play: Callable[[int], Sample], max_env_steps: int, threads: int) -> None:
        super().__init__(name="rookery-play-ahead")
        self.worker = worker
        self.play = play
        self.max_env_steps = max_env_steps
        self.timers = worker.timers
        self.own_timers = Timers()  # a tree of timers serves one thread
        self.threads = threads
        self.take_over = captured_modes()
        self.sample: Sample | None = None
        self.error: BaseException | None = None

    def run(self) -> None:
        """Plays."""
        worker, timers = self.worker, self.own_timers
        worker.timers = timers
        torch.set_num_threads(self.threads)  # else a new thread would take the number used for learning
        try:
            with timers["play_ahead"], self.take_over(), own_modes():
                self.sample = _copied(self.play(self.max_env_steps))
        except BaseException as error:  # raised where the rollouts are requested
            self.error = error
        finally:
            worker.timers = self.timers

    def result(self) -> Sample | None:
        """Waits for the sample; an error of the thread is raised."""
        self.join()
        self.timers.include(self.own_timers)
        if self.error is not None:
            raise self.error
        return self.sample

    def stop(self) -> None:
        """Ends the thread after the current vector step; its rollouts are no longer needed."""
        self.worker.interrupt = Interrupt()
        self.worker.interrupt.number = signal.SIGTERM
        self.join()


def _copied(sample: Sample) -> Sample:
    """Returns a copy of a sample that is not overwritten by further playing."""
    rollouts = {name: rollout.map(lambda _, tensor: tensor.clone()) for name, rollout in sample.rollouts.items()}
    return replace(sample, rollouts=rollouts)


def _packed(sample: Sample) -> dict[str, Any]:
    """Returns a sample for a checkpoint. Missing policies will be found again."""
    return {
        **{item.name: getattr(sample, item.name) for item in fields(sample)},
        "rollouts": {name: vars(rollout) for name, rollout in sample.rollouts.items()},
        "finished": [asdict(episode) for episode in sample.finished],
        "newcomers": {},
    }


def _unpacked(state: dict[str, Any]) -> Sample:
    """Returns the sample that `_packed` received."""
    rollouts = {name: Rollout(**rollout) for name, rollout in state["rollouts"].items()}
    finished = [EpisodeResult(**episode) for episode in state["finished"]]
    return _copied(Sample(**{**state, "rollouts": rollouts, "finished": finished}))
