"""Where the workers are: one in this process.

The trainer speaks to a pool only, so that workers elsewhere change nothing. The local one can also play ahead: the next
rollouts, in a thread, while the trainer learns from the last (docs/how-to/asynchronous-sampling.md).
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
    """Workers, wherever they are, as a trainer sees them.

    Attributes:
        threads: Threads of torch that each worker acts with.
        plays_ahead: Whether to call `play_ahead` when rollouts have come.
    """

    threads: int
    plays_ahead: bool

    def add_policy(self, name: str, policy: Policy, demand: Demand | None) -> None:
        """Adds a policy to every worker; `demand` None = frozen."""
        ...

    def undelivered(self, name: str) -> int:
        """Counts the complete decisions of a policy that nobody has been given yet, those played ahead left out."""
        ...

    def delivered(self, name: str, rollout: Rollout) -> int:
        """Counts the decisions that all learners of a policy have been given together with a rollout."""
        ...

    def retire(self, name: str) -> None:
        """Lets a policy play on without anything being kept of it."""
        ...

    def add_opponents(self, of: str, policy: Policy, snapshots: MutableMapping[int, Policy]) -> None:
        """Adds to every worker those who meet a policy as opponents; see `RolloutWorker.add_opponents`."""
        ...

    def sample(self, max_env_steps: int) -> Sample:
        """Plays until a learner's demand is met, `max_env_steps` have passed (those at rest included), all copies rest,
        or a policy is missing.
        """
        ...

    def set_weights(self, policies: Mapping[str, Policy]) -> None:
        """Hands out weights and normalizers."""
        ...

    def change_lessons(self, lessons: Mapping[str, int], restart: bool) -> None:
        """Hands out lessons, which episodes have that begin from then on; `restart` gives up those that run."""
        ...

    def change_opponents(self, lineup: dict[str, Any]) -> None:
        """Hands out who may meet whom, which holds for episodes that begin from then on."""
        ...

    def load_env(self, state: dict[str, Any]) -> dict[str, Kind]:
        """Takes up the environments of a state; returns policies that must be added before `load_state_dict`, with the
        kind of agents that each plays.
        """
        ...

    def lent(self) -> AbstractContextManager[VectorEnv]:
        """Lends the copies of the environment to somebody who plays in them meanwhile; see `RolloutWorker.lent`."""
        ...

    def counters(self) -> dict[str, int]:
        """What could not be learned from as it should, so far."""
        ...

    def acted(self) -> int:
        """Counts the decisions of all policies since they were added, those included that nobody learns from."""
        ...

    def play_ahead(self, max_env_steps: int) -> None:
        """Begins to play what the next `sample` returns, where `plays_ahead` says that somebody should ask for it."""
        ...

    def lag(self, name: str, rollout: Rollout) -> dict[str, float]:
        """Says how far weights have moved on since they played a rollout that is learned from now; empty if not."""
        ...

    def waits(self) -> dict[str, float]:
        """Says what was waited for so far, by name: seconds, bytes and shares; empty if nobody is elsewhere."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything that changes."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave."""
        ...

    def close(self) -> None:
        """Frees the environments."""
        ...


class LocalPool(Stateful):
    """One worker in this process.

    Args:
        worker: Plays.
        staleness: 1 if `play_ahead` will be called: rollouts are then copies, because playing goes on.
        lane_group: Lanes whose agents decide together where torch computes a policy; None = all of them.

    Attributes:
        threads: Threads of torch to act with.
    """

    state_version = 2
    saved: ClassVar[tuple[str, ...]] = ("worker", "limit", "waiting", "ready", "lessons", "lineup")
    fixed: ClassVar[tuple[str, ...]] = ("staleness", "plays_ahead", "lane_group", "policies", "threads", "_ahead")

    def __init__(self, worker: RolloutWorker, staleness: int, lane_group: int | None = None) -> None:
        self.worker = worker
        self.staleness = staleness
        self.plays_ahead = staleness > 0
        self.lane_group = lane_group
        self.threads = 1
        self.policies: dict[str, Policy] = {}
        self.limit: int | None = None
        """Steps of copies at which playing ahead ends; None if nothing is played ahead."""
        self.ready: Sample | None = None
        """What playing ahead has brought."""
        self.waiting: list[str] = []
        """Policies whose weights wait until that is handed over."""
        self.lessons: dict[str, Any] | None = None
        """Lessons that wait until what is played ahead has come to its end; None if none do."""
        self.lineup: dict[str, Any] | None = None
        """Opponents that wait likewise; they change together with weights."""
        self._ahead: _PlayAhead | None = None

    def upgrade(self, state: dict[str, Any], version: int) -> dict[str, Any]:
        """Adds to states of version 1 what waits until playing ahead ends: pools had neither lessons nor opponents."""
        return {"lessons": None, "lineup": None, **state}

    def state_dict(self) -> dict[str, Any]:
        """Everything, once what is played ahead is ready or was interrupted."""
        self.settle()
        return {**super().state_dict(), "ready": None if self.ready is None else _packed(self.ready)}

    def load_env(self, state: dict[str, Any]) -> dict[str, Kind]:
        """Takes up the environments of a state; see `RolloutWorker.load_env`."""
        self.settle()
        return self.worker.load_env(state["worker"])

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave, after `load_env`."""
        absent = {"standing"} - {*self.saved_names()}  # of several learners, where one alone looks at what they learned
        own = {name: value for name, value in state.items() if name not in absent}
        super().load_state_dict({**own, "ready": None})
        self.ready = None if state["ready"] is None else _unpacked(state["ready"])

    def add_policy(self, name: str, policy: Policy, demand: Demand | None) -> None:
        """Adds a policy to the worker; `demand` None = frozen."""
        self.policies[name] = policy
        self.worker.add_policy(name, policy, demand, lane_group=self.lane_group)

    def delivered(self, name: str, rollout: Rollout) -> int:
        """Counts the decisions of a rollout: there is one learner."""
        return rollout.num_decisions

    def undelivered(self, name: str) -> int:
        """Counts the complete decisions of a policy that nobody has been given yet, those played ahead left out."""
        store = self.worker.policies[name].store
        return 0 if store is None or self.staleness else store.complete

    def retire(self, name: str) -> None:
        """Lets a policy play on without anything being kept of it, what was played ahead included."""
        self.settle()
        self.worker.retire(name)
        if self.ready is not None and name in self.ready.rollouts:
            rest = {other: rollout for other, rollout in self.ready.rollouts.items() if other != name}
            self.ready = replace(self.ready, rollouts=rest)

    def add_opponents(self, of: str, policy: Policy, snapshots: MutableMapping[int, Policy]) -> None:
        """Adds to the worker those who meet a policy as opponents."""
        self.worker.add_opponents(of, policy, snapshots)

    @property
    def passed(self) -> int:
        """Steps of all copies so far."""
        return self.worker.lane_steps

    def play(self, max_env_steps: int) -> Sample:
        """Plays, whatever was played ahead."""
        return self.worker.sample(max_env_steps)

    def sample(self, max_env_steps: int) -> Sample:
        """Plays, see `WorkerPool.sample`; what was played ahead comes first."""
        if self.limit is not None:
            return self._sample_ahead(self.limit)
        with torch_threads(self.threads):
            sample = self.play(max(max_env_steps, 0))
        return _copied(sample) if self.staleness else sample

    def _sample_ahead(self, limit: int) -> Sample:
        """Returns what was played ahead; where that did not come to an end, plays on."""
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
            self.limit = None  # else it will go on with the weights it has
            self.worker.set_weights({name: self.policies[name] for name in self.waiting})
            self.waiting, lineup, self.lineup = [], self.lineup, None
            self.change_opponents(lineup)
        return sample

    def play_ahead(self, max_env_steps: int) -> None:
        """Begins to play, in a thread, what the next `sample` returns: with the weights that the worker has now."""
        if self.lessons is not None:
            self.worker.change_lessons(**self.lessons)
            self.lessons = None
        self.limit = self.passed + max_env_steps
        self._ahead = _PlayAhead(self.worker, self.play, max_env_steps, self.threads)
        self._ahead.start()

    def settle(self) -> None:
        """Waits until nothing is being played. An error of the thread is raised here, once."""
        if self._ahead is not None:
            ahead, self._ahead = self._ahead, None
            self.ready = ahead.result()

    def set_weights(self, policies: Mapping[str, Policy]) -> None:
        """Hands out weights and normalizers: at once, or with what is played ahead, which still has the old ones."""
        if self.limit is None and policies:
            self.worker.set_weights(policies)
        else:
            self.waiting += [name for name in policies if name not in self.waiting]

    def change_lessons(self, lessons: Mapping[str, int], restart: bool) -> None:
        """Hands out lessons: at once, or before more is played ahead, so that weights and lessons change together."""
        if self.limit is None:
            self.worker.change_lessons(lessons, restart or (self.lessons or {}).get("restart", False))
            self.lessons = None
        else:
            restart = restart or (self.lessons is not None and self.lessons["restart"])
            self.lessons = {"lessons": dict(lessons), "restart": restart}

    def change_opponents(self, lineup: dict[str, Any] | None) -> None:
        """Hands out who may meet whom, None = as before: at once, or with the weights that wait."""
        if self.limit is not None:
            self.lineup = lineup
        elif lineup is not None:
            self.worker.change_opponents(lineup)

    @contextmanager
    def lent(self) -> Iterator[VectorEnv]:
        """Lends the copies, once what is played ahead is ready; see `RolloutWorker.lent`."""
        self.settle()
        with self.worker.lent() as env:
            yield env

    def counters(self) -> dict[str, int]:
        """What could not be learned from as it should, so far."""
        return self.worker.counters()

    def acted(self) -> int:
        """Counts the decisions of all policies since they were added, those included that nobody learns from."""
        return sum(policy.acted for policy in self.worker.policies.values())

    def lag(self, name: str, rollout: Rollout) -> dict[str, float]:
        """Gives the share of a rollout's decisions that other weights made than those its policy has now, where playing
        goes on meanwhile. Of a fragment that began before the weights changed, all decisions count.
        """
        if not self.staleness:
            return {}
        store = self.worker.policies[name].store
        assert store is not None
        stale = rollout.version < store.version
        return {"stale_fraction": int(rollout.length[stale].sum()) / max(rollout.num_decisions, 1)}

    def waits(self) -> dict[str, float]:
        """Says nothing: the only worker is here."""
        return {}

    def close(self) -> None:
        """Frees the environments."""
        if self._ahead is not None:
            self._ahead.stop()
        close_env(self.worker.env, self.worker.env.name)


class _PlayAhead(Thread):
    """Plays once, in a thread of its own. A trainer that ends without `close` waits for it, a rollout at most."""

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
        torch.set_num_threads(self.threads)  # a new thread would else take what learning has at this moment
        try:
            with timers["play_ahead"], self.take_over(), own_modes():
                self.sample = _copied(self.play(self.max_env_steps))
        except BaseException as error:  # whatever it is, it belongs to who waits for the rollouts
            self.error = error
        finally:
            worker.timers = self.timers

    def result(self) -> Sample | None:
        """Waits for what came of playing; an error that came instead is raised."""
        self.join()
        self.timers.include(self.own_timers)
        if self.error is not None:
            raise self.error
        return self.sample

    def stop(self) -> None:
        """Ends it after the vector step under way; nobody wants the rollouts any more."""
        self.worker.interrupt = Interrupt()
        self.worker.interrupt.number = signal.SIGTERM
        self.join()


def _copied(sample: Sample) -> Sample:
    """A sample on memory of its own, which playing on does not write over."""
    rollouts = {name: rollout.map(lambda _, tensor: tensor.clone()) for name, rollout in sample.rollouts.items()}
    return replace(sample, rollouts=rollouts)


def _packed(sample: Sample) -> dict[str, Any]:
    """A sample for a checkpoint. Who is missing will be found out again."""
    return {
        **{item.name: getattr(sample, item.name) for item in fields(sample)},
        "rollouts": {name: vars(rollout) for name, rollout in sample.rollouts.items()},
        "finished": [asdict(episode) for episode in sample.finished],
        "newcomers": {},
    }


def _unpacked(state: dict[str, Any]) -> Sample:
    """The sample that `_packed` was given."""
    rollouts = {name: Rollout(**rollout) for name, rollout in state["rollouts"].items()}
    finished = [EpisodeResult(**episode) for episode in state["finished"]]
    return _copied(Sample(**{**state, "rollouts": rollouts, "finished": finished}))
