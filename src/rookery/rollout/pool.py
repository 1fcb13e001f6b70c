"""Where the workers are: one in this process.

The trainer speaks to the pool only, so that more workers elsewhere change nothing. The pool can also play ahead: the
next rollouts, in a thread, while the trainer learns from the last (docs/how-to/overlap.md).
"""

from __future__ import annotations

import signal
from concurrent.futures import Future, wait
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread, main_thread
from typing import Any

import torch

from rookery.core.batch import Demand, Rollout
from rookery.core.interrupt import Interrupt
from rookery.core.runtime import torch_threads
from rookery.core.state import Stateful
from rookery.core.timers import Timers
from rookery.envs.base import Kind
from rookery.policies.policy import Policy
from rookery.rollout.hooks import EpisodeResult
from rookery.rollout.worker import RolloutWorker


class WorkerPool(Stateful):
    """One local worker.

    What the pool says of it (steps, episodes, counters) is of the moment when rollouts were last handed over: it does
    not depend on how far a thread has come.

    Args:
        worker: Plays.
        staleness: 1 if `play_ahead` will be called: rollouts are then copies, because playing goes on.

    Attributes:
        env_steps: Environment steps up to the rollouts handed over last.
        lane_steps: These, and those in which copies rested.
        resting: Whether all copies rested then, so that nothing comes of playing for now.
        running_length: Mean length of the episodes that were running then.
        threads: Threads of torch to act with.
    """

    saved = (
        "worker",
        "env_steps",
        "lane_steps",
        "resting",
        "running_length",
        "num_finished",
        "tally",
        "limit",
        "due",
        "ready",
    )
    fixed = ("staleness", "policies", "threads", "_ahead")

    def __init__(self, worker: RolloutWorker, staleness: int) -> None:
        self.worker = worker
        self.staleness = staleness
        self.threads = 1
        self.policies: dict[str, Policy] = {}
        self.limit: int | None = None
        """Steps of copies at which playing ahead ends; None if nothing is played ahead."""
        self.ready: dict[str, Rollout] = {}
        """What it brought."""
        self.due: list[str] = []
        """Policies whose weights wait until that is handed over."""
        self._ahead: _Ahead | None = None
        self._note()

    def state_dict(self) -> dict[str, Any]:
        """Everything, once what is played ahead is ready or was interrupted."""
        self.settle()
        state = super().state_dict()
        return {**state, "ready": {name: vars(rollout) for name, rollout in state["ready"].items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave."""
        self.settle()
        super().load_state_dict({**state, "ready": {}})
        self.ready = _copied({name: Rollout(**rollout) for name, rollout in state["ready"].items()})

    def add_policy(self, name: str, policy: Policy, demand: Demand | None) -> None:
        """Seats a policy at every worker; `demand` None = frozen."""
        self.policies[name] = policy
        self.worker.add_policy(name, policy, demand)

    # --- playing ------------------------------------------------------------------------------------------------------

    def sample(self, max_env_steps: int) -> dict[str, Rollout]:
        """Plays until a learner's demand is met, `max_env_steps` have passed (those at rest included), or all copies
        rest; what was played ahead comes first.
        """
        self.settle()
        limit = self.worker.lane_steps + max_env_steps if self.limit is None else self.limit
        rollouts, self.ready = self.ready, {}
        if not rollouts and self.worker.lane_steps < limit:  # nothing was played ahead, or it did not come to an end
            with torch_threads(self.threads):
                rollouts = self.worker.sample(limit - self.worker.lane_steps)
            if self.staleness:
                rollouts = _copied(rollouts)
        if self.limit is not None:
            if not rollouts and self.worker.lane_steps < limit:
                self.resting = self.worker.resting
                if self.resting:
                    self._note()
                return {}  # interrupted again, or all rest: it will go on with the weights it has
            self.limit = None
            self.worker.set_weights({name: self.policies[name] for name in self.due})
            self.due = []
        self._note()
        return rollouts

    def play_ahead(self, max_env_steps: int) -> None:
        """Begins to play, in a thread, what the next `sample` returns: with the weights that the worker has now."""
        self.limit = self.worker.lane_steps + max_env_steps
        self._ahead = _Ahead(self.worker, max_env_steps, self.threads)
        self._ahead.start()

    def settle(self) -> None:
        """Waits until nothing is being played. An error of the thread is raised here, once."""
        if self._ahead is None:
            return
        self._ahead.serve()
        ahead, self._ahead = self._ahead, None
        self.ready = ahead.result()

    def set_weights(self, policies: dict[str, Policy]) -> None:
        """Hands out weights and normalizers: at once, or with what is played ahead, which still has the old ones."""
        if self.limit is None:
            self.worker.set_weights(policies)
        else:
            self.due += [name for name in policies if name not in self.due]

    def stale_fraction(self, name: str, rollout: Rollout) -> float:
        """Share of a rollout's decisions that other weights made than those its policy has now.

        Of a fragment that began before the weights changed, all decisions count.
        """
        store = self.worker.seats[name].store
        assert store is not None
        stale = rollout.version < store.version
        return int(rollout.length[stale].sum()) / rollout.num_decisions

    # --- what happened ------------------------------------------------------------------------------------------------

    def _note(self) -> None:
        worker = self.worker
        self.env_steps, self.lane_steps, self.resting = worker.env_steps, worker.lane_steps, worker.resting
        self.running_length = int(worker.lengths.sum()) / len(worker.lengths)
        self.num_finished = len(worker.finished)
        self.tally = worker.counters()

    def drain_finished(self) -> list[EpisodeResult]:
        """Episodes finished since the last call, in the order they ended."""
        finished = self.worker.finished[: self.num_finished]
        del self.worker.finished[: self.num_finished]
        self.num_finished = 0
        return finished

    def counters(self) -> dict[str, int]:
        """What could not be learned from as it should, so far."""
        return dict(self.tally)

    def close(self) -> None:
        """Frees the environments."""
        if self._ahead is not None:
            self._ahead.stop()
        self.worker.env.close()


class _Ahead(Thread):
    """Plays once, in a thread of its own. A trainer that ends without `close` waits for it, a rollout at most."""

    def __init__(self, worker: RolloutWorker, max_env_steps: int, threads: int) -> None:
        super().__init__(name="rookery-play-ahead")
        self.worker = worker
        self.max_env_steps = max_env_steps
        self.introduce, self.timers = worker.introduce, worker.timers
        self.own_timers = Timers()  # a tree of timers serves one thread
        self.threads = threads
        self.requests: SimpleQueue[tuple[str, Kind, Future[None]] | None] = SimpleQueue()
        self.rollouts: dict[str, Rollout] = {}
        self.error: BaseException | None = None

    def run(self) -> None:
        """Plays; the end is announced by a None among the requests."""
        worker, timers = self.worker, self.own_timers
        worker.introduce, worker.timers = self.request, timers
        torch.set_num_threads(self.threads)  # a new thread would else take what learning has at this moment
        try:
            with timers["play_ahead"]:
                self.rollouts = _copied(worker.sample(self.max_env_steps))
        except BaseException as error:  # whatever it is, it belongs to who waits for the rollouts
            self.error = error
        finally:
            worker.introduce, worker.timers = self.introduce, self.timers
            self.requests.put(None)

    def request(self, name: str, kind: Kind) -> None:
        """Lets the trainer's thread introduce a policy when it waits: at a moment that does not depend on speed."""
        introduced: Future[None] = Future()
        self.requests.put((name, kind, introduced))
        while wait([introduced], timeout=1.0).not_done and main_thread().is_alive():
            pass  # a program that has ended without `close` will not answer, and must not hang
        introduced.result(timeout=0)

    def serve(self) -> None:
        """Introduces who must be introduced, until all is played; called by the trainer's thread."""
        while (request := self.requests.get()) is not None:
            name, kind, introduced = request
            try:
                self.introduce(name, kind)
            except Exception as error:
                introduced.set_exception(error)
            else:
                introduced.set_result(None)
        self.join()

    def result(self) -> dict[str, Rollout]:
        """The rollouts, after `serve`; or the error that came instead is raised."""
        self.timers.include(self.own_timers)
        if self.error is not None:
            raise self.error
        return self.rollouts

    def stop(self) -> None:
        """Ends it after the vector step under way; nobody wants the rollouts any more."""
        self.worker.interrupt = Interrupt()
        self.worker.interrupt.number = signal.SIGTERM
        while self.is_alive():
            with suppress(Empty):
                request = self.requests.get(timeout=0.1)
                if request is None:
                    self.join()
                else:
                    request[2].cancel()


def _copied(rollouts: dict[str, Rollout]) -> dict[str, Rollout]:
    """Rollouts on memory of their own, which playing on does not write over."""
    return {name: rollout.map(lambda _, tensor: tensor.clone()) for name, rollout in rollouts.items()}
