"""Pool of remote workers: each plays a share of the run's lanes, and the pool joins their experience.

Synchronous sampling asks every worker for as many vector steps as cannot overshoot a learner's demand, and waits for
all of them: experience and weights are those of one worker. Candidates of evolution strategies are divided among the
workers, each of which plays until its part is complete. Asynchronous sampling takes what has arrived, from workers
that play on with the weights they have (docs/how-to/workers.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from time import monotonic
from typing import Any

import cloudpickle
import numpy as np

from rookery.core.batch import Demand, Rollout, joined
from rookery.core.errors import ConfigError, WorkerLostError
from rookery.core.process.interrupt import Interrupt
from rookery.core.process.waits import wait_until
from rookery.core.state import Stateful
from rookery.core.timers import Timers
from rookery.envs.base import Kind, VectorEnv
from rookery.envs.remote_env_stub import RemoteEnvStub
from rookery.models.candidates import CandidateHead
from rookery.native.actor import native_actor
from rookery.policies.policy import Policy
from rookery.rollout.hooks import EpisodeResult
from rookery.rollout.order import in_order
from rookery.rollout.remote.hosts import Hosts
from rookery.rollout.remote.shares import LaneShare, PlayReport, ShareWorker, packed_weights
from rookery.rollout.remote.wait_times import WaitTimes
from rookery.rollout.worker import RolloutWorker, Sample

CALL_SECONDS = 2.0
"""Approximate longest duration of a worker's call, so that an interrupt or a loss is soon noticed."""

FIRST_STEPS = 4
"""Vector steps of the first calls, which measure how many steps take `CALL_SECONDS`."""

WAIT_SECONDS = 0.5
"""Longest wait for asynchronous workers before other work is done."""

STOPPING_SECONDS = 1.0
"""Seconds that a stopping run waits for workers before a note is written."""


@dataclass
class ShareStanding:
    """Counters of a share, as last reported.

    Attributes:
        share: The share.
        vector_steps: Vector steps made.
        ordered: Vector steps after all its calls are over.
        complete: Complete decisions of each policy that are not handed out.
        pending: Decisions of these policies that wait for their outcome.
        slots: Slots of each policy that learns.
        kinds: Number of the kind of each policy's agents.
        episode: ``[lanes]`` running episode of each lane.
        resting: Whether all its environments rest.
        running: Summed lengths of its running episodes, and their number.
        counters: Counters of data that could not be learned from.
        version: Number of the weights that were sent last, by policy.
        pace: Seconds per vector step; None before it is measured.
        calls: Tickets of its open calls, the oldest first.
        acted: Decisions made.
        is_absent: Whether the share has no worker; it gets one with its next order to play.
    """

    share: LaneShare
    vector_steps: int = 0
    ordered: int = 0
    complete: dict[str, int] = field(default_factory=dict)
    pending: int = 0
    slots: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)
    episode: np.ndarray | None = None
    resting: bool = False
    running: tuple[int, int] = (0, 0)
    counters: dict[str, int] = field(default_factory=dict)
    version: dict[str, int] = field(default_factory=dict)
    pace: float | None = None
    calls: list[Any] = field(default_factory=list)
    acted: int = 0
    is_absent: bool = False


class RemotePool(Stateful):
    """Pool of the workers of shares, wherever they run.

    Args:
        hosts: Hosts of the workers.
        shares: Lanes of each worker.
        make: Creates the worker of a share, without policies; it is pickled, and called on the share's host.
        env: Stand-in for the remote environment.
        timers: Timers to add to.
        interrupt: Sampling ends early after a signal.
        inference_batch_envs: Lanes whose agents decide together where torch computes a policy; None = all of a share.
        asynchronous: Whether workers play on without being waited for.
        max_requests_in_flight: Fragments requested from each worker ahead, in asynchronous sampling.
        max_policy_lag: Largest number of updates between the weights that played a rollout and the present ones; older
            rollouts are left out, and counted. None = any.
        max_losses: Lost workers after which the run ends.
        note: Function that receives a line which a user should read.

    Attributes:
        threads: Torch threads with which each worker acts.
        plays_ahead: Whether to call `play_ahead`; never.
    """

    state_version = 2
    saved = ("version", "env_steps", "lane_steps", "counted", "finished", "vector_steps", "lessons", "parts")
    fixed = ("hosts", "make", "env", "timers", "interrupt", "inference_batch_envs", "asynchronous",
             "max_requests_in_flight", "max_policy_lag",
             "max_losses", "note", "threads", "policies", "demands", "standing", "held", "weights", "retired",
             "waiting", "moving", "_stopping_since", "_has_noted")  # fmt: skip
    plays_ahead = False

    def __init__(
        self,
        hosts: Hosts,
        shares: Sequence[LaneShare],
        make: Callable[[LaneShare], RolloutWorker],
        env: RemoteEnvStub,
        timers: Timers,
        interrupt: Interrupt,
        *,
        inference_batch_envs: int | None,
        asynchronous: bool,
        max_requests_in_flight: int,
        max_policy_lag: int | None,
        max_losses: int,
        note: Callable[[str], None],
    ) -> None:
        self.hosts, self.make, self.env, self.timers, self.interrupt = hosts, make, env, timers, interrupt
        self.inference_batch_envs, self.asynchronous = inference_batch_envs, asynchronous
        self.max_requests_in_flight, self.max_policy_lag = max_requests_in_flight, max_policy_lag
        self.max_losses, self.note = max_losses, note
        self._stopping_since: float | None = None
        self._has_noted = False
        self.threads = 1
        self.policies: dict[str, Policy] = {}
        self.demands: dict[str, Demand | None] = {}
        self.retired: list[str] = []
        self.version = 0
        self.env_steps = self.lane_steps = self.vector_steps = 0
        self.counted: dict[str, int] = {}
        """Counters of lost or dropped data, and of workers that are gone."""
        self.finished: list[EpisodeResult] = []
        """Finished episodes that were not returned yet."""
        self.held: dict[str, list[Rollout]] = {}
        """Received experience that was not returned yet, by policy."""
        self.parts: dict[str, list[int]] = {}
        """Shares whose part of the generation was received, by policy with candidates."""
        self.weights: dict[str, tuple[int, Any]] = {}
        """Number of the weights of each policy that was sent, and their reference at the hosts."""
        self.lessons: dict[str, int] | None = None
        """Lessons that were sent last, for workers that take over lanes."""
        self.waiting = WaitTimes(timers)
        self.moving: set[int] = set()
        """Shares that move to another host once their open calls are over."""
        self.standing = [ShareStanding(share) for share in shares]
        for one in self.standing:
            self._begin(one)

    def upgrade(self, state: dict[str, Any], version: int) -> dict[str, Any]:
        """Adds to states of version 1 that no policy has candidates."""
        return {"parts": {}, **state}

    # --- workers ------------------------------------------------------------------------------------------------------

    def _begin(self, one: ShareStanding, vector_step: int = 0) -> None:
        """Creates the worker of a share."""
        self.hosts.begin(one.share.number, cloudpickle.dumps(partial(ShareWorker, one.share, self.make, vector_step)))

    def _wait_for(self, tickets: Sequence[Any], within: float = math.inf) -> list[Any]:
        """Waits until at least one call is over, or its worker is lost; returns the finished ones."""
        return wait_until(lambda left: self.hosts.ready(tickets, left) or None, within, self._check_stop) or []

    def _result(self, ticket: Any) -> Any:
        """Waits for the result of a call; raises as `Hosts.result`."""
        self._wait_for([ticket])
        return self.hosts.result(ticket)

    def _check_stop(self) -> None:
        """Makes workers stop early after a signal; notes the workers that a stopping run waits for."""
        if not self.interrupt.number:  # none, or the time limit, which may pass within a round
            return
        if self._stopping_since is None:
            self._stopping_since = monotonic()
            self.hosts.hurry(True)
        elif not self._has_noted and monotonic() - self._stopping_since > STOPPING_SECONDS:
            self._has_noted = True
            names = ", ".join(str(one.share.number) for one in self.standing if one.calls)
            self.note(
                f"stopping after the current step{names and f' of worker {names}'}; one that hangs is given up, and "
                "its environments begin their next episodes when the run is resumed; Ctrl-C again stops at once"
            )

    def _clear_stop(self) -> None:
        """Resets a request to stop that was handled."""
        if self._stopping_since is not None and self.interrupt.number is None:
            self._stopping_since, self._has_noted = None, False
            self.hosts.hurry(False)

    def _call_all(self, method: str, *arguments: Any) -> None:
        """Calls a method of all workers and waits until all have returned; a worker that was replaced meanwhile, or
        comes later, begins with the present state of the run, so it needs no such call.
        """
        present = [one for one in self.standing if not one.is_absent]
        for one, ticket in [(one, self.hosts.call(one.share.number, method, *arguments)) for one in present]:
            try:
                self._result(ticket)
            except WorkerLostError as error:
                self._replace(one, error)

    def _replace(self, one: ShareStanding, error: WorkerLostError) -> None:
        """Replaces a lost worker, whose lanes begin their next episodes; counts the lost data.

        Raises:
            WorkerLostError: If too many are lost already.
        """
        self._count("workers_lost", 1)
        self.waiting.lost(one.share.number)
        self._count_lost(sum(one.complete.values()) + one.pending, self._most_under_way(one))
        if self.counted["workers_lost"] > self.max_losses:
            raise WorkerLostError(
                f"{error}; {self.counted['workers_lost']} workers were lost, and sampling.max_restarts = "
                f"{self.max_losses}"
            ) from error
        then = "when the run is resumed" if self.interrupt.number else "with another worker"
        self.note(f"{error}; its environments begin their next episodes {then}")
        self._begin_anew(one)

    def _most_under_way(self, one: ShareStanding) -> int:
        """Returns the largest number of decisions that a worker can have made in its open calls."""
        agents = sum(len(kind.agents) for kind in self.env.kinds) * one.share.lanes
        return max(one.ordered - one.vector_steps, 0) * max(sum(one.slots.values()), agents)

    def _count_lost(self, reported: int, under_way: int = 0) -> None:
        """Counts decisions that will not be learned from: those that workers have reported, and at most `under_way`
        that they may have made since.
        """
        self._count("decisions_lost", reported)
        self._count("decisions_lost_at_most", reported + under_way)

    def _move(self, one: ShareStanding) -> None:
        """Moves the lanes of an idle worker to another host, where they begin their next episodes; its experience is
        fetched first.
        """
        for name in [name for name, number in one.complete.items() if number and name not in self.retired]:
            rollout = self._result(self.hosts.call(one.share.number, "take", [name]))[name]
            one.complete[name] = 0
            self.waiting.received(rollout)
            self._hold(name, rollout)
        self.hosts.call(one.share.number, "close")
        self._count("workers_moved", 1)
        self.waiting.lost(one.share.number)
        self._begin_anew(one)

    def _begin_anew(self, one: ShareStanding) -> None:
        """Creates a worker whose lanes continue with their next episodes, in place of one that is lost or moves."""
        self.moving.discard(one.share.number)
        for name, number in one.counters.items():
            self._count(name, number)
        self.env.exact = False
        begun = one.share.skipped if one.episode is None else tuple(int(number) for number in one.episode)
        share = replace(one.share, skipped=tuple(number + 1 for number in begun))
        at = max(one.ordered, one.vector_steps)
        slots, kinds = dict(one.slots), dict(one.kinds)
        fresh = ShareStanding(share, at, at, slots=slots, kinds=kinds, episode=np.array(begun) + 1, is_absent=True)
        vars(one).update(vars(fresh))
        if not self.interrupt.number:  # else only a checkpoint is written, which needs no new worker
            self._bring_in(one)

    def _bring_in(self, one: ShareStanding) -> None:
        """Creates the worker of a share that has none, in the present state of the run; the share stays without one if
        the run has to stop.
        """
        try:
            self._begin(one, one.vector_steps)
        except WorkerLostError:
            if self.interrupt.number:
                return
            raise
        one.is_absent = False
        for name in self.policies:
            self._introduce(one, name)
        if self.lessons is not None:
            self.hosts.call(one.share.number, "change_lessons", self.lessons, False)

    def _count(self, name: str, number: int) -> None:
        self.counted[name] = self.counted.get(name, 0) + number

    def _introduce(self, one: ShareStanding, name: str) -> Any:
        """Adds a policy to a worker, with its present weights."""
        demand = None if name in self.retired else self.demands[name]
        one.version[name] = self.version
        return self.hosts.call(
            one.share.number, "add_policy", name, self.policies[name], demand, self.inference_batch_envs
        )

    # --- policies -----------------------------------------------------------------------------------------------------

    def add_policy(self, name: str, policy: Policy, demand: Demand | None) -> None:
        """Adds a policy to every worker; `demand` None = frozen."""
        self.policies[name], self.demands[name] = policy, demand
        if demand is not None and isinstance(policy.head_spec, CandidateHead):
            self.parts[name] = []
            self.env.exact = self.env.exact and len(self.standing) == 1  # who plays which episode depends on the parts
        if len(self.standing) > 1 and self.inference_batch_envs is None and native_actor(policy) is None:
            self.env.exact = False  # last bits of torch depend on the number of rows
        present = [one for one in self.standing if not one.is_absent]
        for one, ticket in [(one, self._introduce(one, name)) for one in present]:
            try:
                self._result(ticket)
            except WorkerLostError as error:
                self._replace(one, error)

    def delivered(self, name: str, rollout: Rollout) -> int:
        """Returns the number of decisions of a rollout: there is one learner."""
        return rollout.num_decisions

    def undelivered(self, name: str) -> int:
        """Returns the number of complete decisions of a policy not handed out yet."""
        held = sum(rollout.num_decisions for rollout in self.held.get(name, ()))
        return held + sum(one.complete.get(name, 0) for one in self.standing)

    def retire(self, name: str) -> None:
        """Stops recording a policy, which continues to play."""
        self.retired.append(name)
        self.held.pop(name, None)
        self.parts.pop(name, None)
        self._call_all("retire", name)

    def add_opponents(self, of: str, policy: Policy, snapshots: MutableMapping[int, Policy]) -> None:
        """Raises an error: opponents play in one process for now."""
        raise ConfigError(
            f"self_play.{of}: opponents are played in this process only: set sampling.workers=0, and let "
            "sampling.env_processes step the environments"
        )

    def change_opponents(self, lineup: dict[str, Any] | None) -> None:
        """Does nothing: there are no opponents."""

    def set_weights(self, policies: Mapping[str, Policy]) -> None:
        """Sends weights and normalizers with the next call of each worker, once per machine."""
        if not policies:
            return
        with self.timers["set_weights"]:
            self.version += 1
            for name, policy in policies.items():
                self.weights[name] = self.version, self.hosts.publish(packed_weights(policy))

    def change_lessons(self, lessons: Mapping[str, int], restart: bool) -> None:
        """Sends lessons; see `RolloutWorker.change_lessons`."""
        self.lessons = dict(lessons)
        self._call_all("change_lessons", self.lessons, restart)

    @contextmanager
    def lent(self) -> Iterator[VectorEnv]:
        """Raises an error: only the workers have environments."""
        raise ConfigError("sampling.workers: the environments are with the workers, and cannot be lent")
        yield self.env

    # --- playing ------------------------------------------------------------------------------------------------------

    def sample(self, max_env_steps: int) -> Sample:
        """Plays, see `WorkerPool.sample`; asynchronous sampling returns experience that has arrived."""
        self._clear_stop()
        limit = self.lane_steps + max_env_steps
        body = self._collect if self.asynchronous else self._play_parts if self.parts else self._round
        rollouts: dict[str, Rollout] = {}
        while True:
            newcomers = body(limit)
            if newcomers:
                break
            rollouts = self._ready()
            resting = all(one.resting for one in self.standing)
            if rollouts or self.lane_steps >= limit or resting or self.interrupt.number is not None:
                break
        finished, self.finished = sorted(self.finished, key=lambda one: (one.vector_step, one.lane)), []
        running, count = (sum(numbers) for numbers in zip(*(one.running for one in self.standing), strict=True))
        resting = all(one.resting for one in self.standing)
        length = running / max(1, count)
        return Sample(rollouts, newcomers, finished, self.env_steps, self.lane_steps, resting, length, self.counters())

    def _round(self, limit: int) -> dict[str, Kind]:
        """Makes all workers play as many steps as cannot overshoot a demand or a limit; returns missing policies."""
        start = max(one.vector_steps for one in self.standing)  # a share behind has met a missing policy
        behind = any(one.vector_steps < start for one in self.standing)
        steps = 0 if behind else self._most_steps(limit)
        expected = {} if behind else self._expected(steps)
        for one in self.standing:
            mine = {name: one.complete.get(name, 0) + steps * one.slots.get(name, 0) for name in expected}
            self._order(one, start + steps, mine)
        return self._answers()

    def _answers(self) -> dict[str, Kind]:
        """Waits for the answers of all workers; returns missing policies."""
        newcomers: dict[str, Kind] = {}
        with self.timers["workers"]:
            for one in self.standing:
                while one.calls:
                    with self.waiting.wait():
                        self._wait_for(one.calls[:1])
                    report = self._answer(one)
                    newcomers.update({} if report is None else report.newcomers)
        self.vector_steps = max(one.vector_steps for one in self.standing)
        return newcomers

    def _play_parts(self, limit: int) -> dict[str, Kind]:
        """Makes the workers play that have not handed over their part of a generation; each stops once it has."""
        steps = self._soon_over(-(-(limit - self.lane_steps) // self.env.num_lanes))
        for one in self.standing:
            if any(one.share.number not in numbers for numbers in self.parts.values()):
                self._order(one, one.vector_steps + steps, {})
        newcomers = self._answers()
        for one in self.standing:
            one.ordered = one.vector_steps
        return newcomers

    def _most_steps(self, limit: int) -> int:
        """Returns vector steps that overshoot no demand and no limit, and do not take too long."""
        steps = -(-(limit - self.lane_steps) // self.env.num_lanes)
        for name in self._learning():
            slots = sum(one.slots.get(name, 0) for one in self.standing)
            missing = self._wanted(name) - self.undelivered(name)
            steps = min(steps, -(-missing // slots) if slots else 1)
        return self._soon_over(steps)

    def _soon_over(self, steps: int) -> int:
        """Returns a number of vector steps, or fewer that do not take too long."""
        paces = [one.pace for one in self.standing if one.pace is not None]
        longest = int(CALL_SECONDS / max(max(paces), 1e-9)) if paces else FIRST_STEPS
        return max(1, min(steps, longest))

    def _expected(self, steps: int) -> list[str]:
        """Returns policies whose demand is met after `steps` vector steps if all their agents decide in each."""
        met = []
        for name in self._learning():
            slots = sum(one.slots.get(name, 0) for one in self.standing)
            if slots and self.undelivered(name) + steps * slots >= self._wanted(name):
                met.append(name)
        return met

    def _learning(self) -> list[str]:
        return [name for name, demand in self.demands.items() if demand is not None and name not in self.retired]

    def _wanted(self, name: str) -> int:
        """Returns decisions per update of a policy; 0 while this is not known."""
        demand = self.demands[name]
        assert demand is not None
        return demand.decisions or demand.fragment_length * sum(one.slots.get(name, 0) for one in self.standing)

    def _ready(self) -> dict[str, Rollout]:
        """Returns complete experience of the policies whose demand is met, including experience that is still with
        their workers.
        """
        rollouts = {}
        for name in self._learning():
            held = self.held.get(name, [])
            if name in self.parts:
                if len(self.parts[name]) == len(self.standing):
                    self.parts[name] = []
                    with self.waiting.join():
                        rollouts[name] = in_order(joined(self.held.pop(name)))
                continue
            total = sum(rollout.num_decisions for rollout in held) if self.asynchronous else self.undelivered(name)
            if not 0 < self._wanted(name) <= total:
                continue
            if not self.asynchronous:
                held += self._taken(name)
            self.held.pop(name, None)
            if held:  # not lost meanwhile
                with self.waiting.join():
                    rollouts[name] = in_order(joined(held))
        return rollouts

    def _taken(self, name: str) -> list[Rollout]:
        """Fetches experience of a policy that workers still have."""
        found = []
        workers = [one for one in self.standing if one.complete.get(name)]
        tickets = [self.hosts.call(one.share.number, "take", [name]) for one in workers]
        for one, ticket in zip(workers, tickets, strict=True):
            try:
                with self.waiting.fetch():
                    found.append(self._result(ticket)[name])
                self.waiting.received(found[-1])
                one.complete[name] = 0
            except WorkerLostError as error:
                self._replace(one, error)
        return found

    def _order(self, one: ShareStanding, until: int, expected: Mapping[str, int] | None) -> None:
        """Asks a worker to play until it has made `until` vector steps, with the present weights."""
        if one.is_absent:
            self._bring_in(one)
        if one.is_absent:
            return
        names = [name for name, (version, _) in self.weights.items() if version > one.version.get(name, 0)]
        for name in names:
            one.version[name] = self.weights[name][0]
        sent = [self.weights[name][1] for name in names]
        given = until, expected, self.threads, self.version, names
        self.waiting.requested(one.share.number)
        one.calls.append(self.hosts.call(one.share.number, "play", *given, *sent))
        one.ordered = until

    def _answer(self, one: ShareStanding) -> PlayReport | None:
        """Takes the oldest answer of a worker; None if it is lost, and another has its lanes now."""
        ticket = one.calls.pop(0)
        try:
            with self.waiting.fetch():
                report: PlayReport = self.hosts.result(ticket)
        except WorkerLostError as error:
            self._replace(one, error)
            return None
        self.waiting.answered(one.share.number, report.seconds)
        steps = report.vector_steps - one.vector_steps
        if steps > 0:
            one.pace = report.seconds / steps
        one.vector_steps = report.vector_steps
        if self.interrupt.number and not one.calls:  # it was stopped before it was done
            one.ordered = one.vector_steps
        one.complete, one.slots, one.episode = report.complete, report.slots, report.episode
        one.pending, one.kinds, one.acted = report.pending, report.kinds, report.acted
        one.resting, one.running, one.counters = report.resting, report.running, report.counters
        self.env_steps += report.env_steps
        self.lane_steps += report.lane_steps
        self.finished += report.finished
        for name, (how, numbers) in report.reported.items():
            for number in numbers:
                self.env.reported.add(name, number, how)
        for name, rollout in report.rollouts.items():
            self.waiting.received(rollout)
            if name not in self.retired:
                self._hold(name, rollout)
            if name in self.parts:
                self.parts[name].append(one.share.number)
        self.env.exact = self.env.exact and (report.all_joined or not steps)
        times = Timers()
        times.load_state_dict(report.timers)
        self.timers.current.include(times.root, 1.0 / len(self.standing))
        return report

    # --- asynchronously -----------------------------------------------------------------------------------------------

    def _collect(self, limit: int) -> dict[str, Kind]:
        """Keeps all workers busy, and takes the experience of at least one of them."""
        self.moving.update(self.hosts.vacancies())
        for one in self.standing:
            self._keep_busy(one)
        newcomers: dict[str, Kind] = {}
        with self.timers["workers"]:
            oldest = {id(one.calls[0]): one for one in self.standing if one.calls}
            tickets = [one.calls[0] for one in oldest.values()]
            with self.waiting.wait():
                over = self._wait_for(tickets, WAIT_SECONDS)
            for ticket in over:
                report = self._answer(oldest[id(ticket)])
                newcomers.update({} if report is None else report.newcomers)
        return newcomers

    def _keep_busy(self, one: ShareStanding) -> None:
        """Orders fragments from a worker up to the limit in flight; one that moves finishes its orders first."""
        if one.share.number in self.moving:
            if one.calls:
                return
            try:
                self._move(one)
            except WorkerLostError as error:
                self._replace(one, error)
        lengths = [demand.fragment_length for demand in self.demands.values() if demand is not None]
        for _ in range(self.max_requests_in_flight - len(one.calls)):
            self._order(one, max(one.ordered, one.vector_steps) + min(lengths, default=FIRST_STEPS), None)

    def _hold(self, name: str, rollout: Rollout) -> None:
        """Keeps received experience until it is learned from; drops experience that is too old."""
        if self.max_policy_lag is not None and self.asynchronous:
            fresh = (self.version - rollout.version) <= self.max_policy_lag
            if not bool(fresh.all()):
                self._count("decisions_too_old", rollout.num_decisions)
                return
        self.held.setdefault(name, []).append(rollout)

    def play_ahead(self, max_env_steps: int) -> None:
        """Does nothing: asynchronous workers continue to play by themselves."""

    def lag(self, name: str, rollout: Rollout) -> dict[str, float]:
        """Returns by how many updates weights have changed since a rollout was played: the mean over its decisions and
        the maximum; nothing where workers wait for weights.
        """
        if not self.asynchronous:
            return {}
        behind = self.version - rollout.version
        decisions = rollout.length.double()
        stale = float((decisions * (behind > 0)).sum() / decisions.sum())
        mean = float((decisions * behind).sum() / decisions.sum())
        return {"stale_fraction": stale, "lag_mean": mean, "lag_max": float(behind.max())}

    def waits(self) -> dict[str, float]:
        """Returns the waiting times of this process so far, by name; see `WaitTimes.row`."""
        return self.waiting.row()

    def acted(self) -> int:
        """Returns the number of decisions of all policies since they were added, unrecorded ones included."""
        return sum(one.acted for one in self.standing)

    def counters(self) -> dict[str, int]:
        """Returns counters of data that could not be learned from, over all workers; of lost and dropped data."""
        total = dict(self.counted)
        for one in self.standing:
            for name, number in one.counters.items():
                total[name] = total.get(name, 0) + number
        return total

    # --- state --------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Waits until every worker has finished its orders and has the present weights; its experience is kept."""
        for one in self.standing:
            behind = any(version > one.version.get(name, 0) for name, (version, _) in self.weights.items())
            if behind and not one.is_absent:
                self._order(one, one.ordered, {})
        for one in self.standing:
            while one.calls:
                with self.waiting.wait():
                    self._wait_for(one.calls[:1])
                self._answer(one)

    def state_dict(self) -> dict[str, Any]:
        """Returns everything that changes. Received experience is not part of it, only its amount. A share whose worker
        is lost or hangs restarts its episodes when the state is restored.
        """
        self.settle()
        tickets = [None if one.is_absent else self.hosts.call(one.share.number, "state_dict") for one in self.standing]
        shares = [self._state_of(one, ticket) for one, ticket in zip(self.standing, tickets, strict=True)]
        held: dict[str, Any] = {}
        lost = sum(rollout.num_decisions for rollouts in self.held.values() for rollout in rollouts)
        if lost and not self.asynchronous:  # some workers were done with their orders when the others were stopped
            lost, held = 0, {"held": {name: [vars(one) for one in rollouts] for name, rollouts in self.held.items()}}
        return {**super().state_dict(), "finished": [], "in_transit": lost, "shares": shares, **held}

    def _state_of(self, one: ShareStanding, ticket: Any) -> dict[str, Any]:
        """Waits for the state of a share; for one that restarts, only its starting point."""
        try:
            if ticket is not None:
                state: dict[str, Any] = self._result(ticket)
                return state
        except WorkerLostError as error:
            self._replace(one, error)
        numbers = {"before": one.vector_steps, "slots": dict(one.slots), "kinds": dict(one.kinds)}
        return {"share": asdict(one.share), "worker": None, **numbers}

    def load_env(self, state: dict[str, Any]) -> dict[str, Kind]:
        """Restores the environments of a state; see `RolloutWorker.load_env`.

        Raises:
            ConfigError: If its lanes are divided otherwise.
        """
        there = len(state["shares"]) if "shares" in state else 0
        if there != len(self.standing):
            raise ConfigError(
                f"sampling.workers = {len(self.standing)}: the run was played by {there or 'no'} workers, and "
                "resumes with as many; they may be on fewer machines"
            )
        newcomers: dict[str, Kind] = {}
        tickets = []
        for one, mine in zip(self.standing, state["shares"], strict=True):
            share = mine["share"]
            one.share = replace(one.share, skipped=tuple(share["skipped"]))
            if mine["worker"] is not None:
                tickets.append(self.hosts.call(one.share.number, "load_env", mine))
                continue
            self.hosts.call(one.share.number, "close")
            one.is_absent, self.env.exact = True, False
            known = {name: number for name, number in mine["kinds"].items() if name not in self.policies}
            newcomers.update({name: self.env.kinds[number] for name, number in known.items()})
        for ticket in tickets:
            newcomers.update(self._result(ticket))
        return newcomers

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the result of `state_dict`, after `load_env`."""
        state = dict(state)
        shares, lost, held = state.pop("shares"), state.pop("in_transit"), state.pop("held", {})
        super().load_state_dict(state)
        if lost:
            self._count_lost(lost)
        there = [(one, mine) for one, mine in zip(self.standing, shares, strict=True) if not one.is_absent]
        tickets = [self.hosts.call(one.share.number, "load_state_dict", mine) for one, mine in there]
        for (one, _), ticket in zip(there, tickets, strict=True):
            self._result(ticket)
            one.version = dict.fromkeys(self.policies, self.version)
            one.vector_steps = one.ordered = self.vector_steps
        self.held = {name: [Rollout(**one) for one in rollouts] for name, rollouts in held.items()}
        for one, mine in zip(self.standing, shares, strict=True):
            if one.is_absent:
                one.vector_steps = one.ordered = mine["before"]
                one.slots, one.kinds = mine["slots"], mine["kinds"]
        for one, _ in there:  # only reports their counters
            self._order(one, 0, {})
        for one, _ in there:
            self._wait_for(one.calls[:1])
            self._answer(one)

    def close(self) -> None:
        """Closes the environments."""
        self.hosts.close(at_once=bool(self.interrupt.number) and any(one.calls for one in self.standing))
