"""Workers elsewhere: each plays a share of the run's lanes, and one pool asks them and puts together what they play.

Synchronous playing asks every worker for as many vector steps as cannot overshoot what a learner wants, and waits for
all of them: the experience, and so the weights, are those of one worker. Asynchronous playing takes what comes, from
workers that play on with the weights they have (docs/how-to/workers.md).
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
from rookery.native.actor import native_actor
from rookery.policies.policy import Policy
from rookery.rollout.hooks import EpisodeResult
from rookery.rollout.order import in_order
from rookery.rollout.remote.hosts import Hosts
from rookery.rollout.remote.shares import LaneShare, PlayReport, ShareWorker, packed_weights
from rookery.rollout.remote.wait_times import WaitTimes
from rookery.rollout.worker import RolloutWorker, Sample

CALL_SECONDS = 2.0
"""About the longest that a call of a worker takes, so that an interrupt or a loss is soon known."""

FIRST_STEPS = 4
"""Vector steps of the first calls, by which it is measured how many make so many seconds."""

WAIT_SECONDS = 0.5
"""Longest wait for asynchronous workers, before what else there is to do."""

STOPPING_SECONDS = 1.0
"""How long a run that is to stop waits for workers before a note says so."""


@dataclass
class ShareStanding:
    """How far a share has come, as it said last.

    Attributes:
        share: The share.
        vector_steps: Vector steps that it has made.
        ordered: Those that it has made when all that it was asked for is over.
        complete: Complete decisions of each policy that it has not handed over.
        pending: Decisions of these policies that are made and wait for what comes of them.
        slots: Slots of each policy that learns.
        kinds: Number of the kind of agents that each policy plays.
        episode: ``[lanes]`` running episode of each of its lanes.
        resting: Whether all its copies rest.
        running: Summed lengths of its running episodes, and how many these are.
        counters: What could not be learned from there.
        version: Number of the weights that it was sent last, by policy.
        pace: Seconds of a vector step there; None before it is measured.
        calls: Tickets of what it was asked for and has not answered, the oldest first.
        acted: Decisions that it has made.
        is_absent: Whether the share has no worker; it gets one when it is next asked to play.
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
    """Workers of shares, wherever they are.

    Args:
        hosts: Keep the workers.
        shares: The lanes of each of them.
        make: Makes the worker of a share, without policies; it is pickled, and called where the share is.
        env: What stands for the environment here.
        timers: Where to count time.
        interrupt: Sampling ends early when a signal has come.
        lane_group: Lanes whose agents decide together where torch computes a policy; None = all of a share.
        asynchronous: Whether workers play on while nobody waits for them.
        in_flight: Fragments that each of them is asked for ahead, where playing is asynchronous.
        max_lag: Updates by which weights may have changed since they played what is learned from; what is older is
            left out, and counted. None = any.
        max_losses: How often a worker may be lost before the run ends.
        note: Function that is given a line which a user should read.

    Attributes:
        threads: Threads of torch to act with, of each worker.
        plays_ahead: Whether `play_ahead` is to be called; never.
    """

    saved = ("version", "env_steps", "lane_steps", "counted", "finished", "vector_steps", "lessons")
    fixed = ("hosts", "make", "env", "timers", "interrupt", "lane_group", "asynchronous", "in_flight", "max_lag",
             "max_losses", "note", "threads", "policies", "demands", "standing", "held", "weights", "retired",
             "waiting", "moving", "_stopping_since", "_has_told")  # fmt: skip
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
        lane_group: int | None,
        asynchronous: bool,
        in_flight: int,
        max_lag: int | None,
        max_losses: int,
        note: Callable[[str], None],
    ) -> None:
        self.hosts, self.make, self.env, self.timers, self.interrupt = hosts, make, env, timers, interrupt
        self.lane_group, self.asynchronous = lane_group, asynchronous
        self.in_flight, self.max_lag, self.max_losses, self.note = in_flight, max_lag, max_losses, note
        self._stopping_since: float | None = None
        self._has_told = False
        self.threads = 1
        self.policies: dict[str, Policy] = {}
        self.demands: dict[str, Demand | None] = {}
        self.retired: list[str] = []
        self.version = 0
        self.env_steps = self.lane_steps = self.vector_steps = 0
        self.counted: dict[str, int] = {}
        """What was lost or left out so far, and counters of workers that are gone."""
        self.finished: list[EpisodeResult] = []
        """Episodes that nobody has been told of yet."""
        self.held: dict[str, list[Rollout]] = {}
        """Experience that has come and has not been given to anybody, by policy."""
        self.weights: dict[str, tuple[int, Any]] = {}
        """Of each policy that has been handed out, the number of its weights and what stands for them at hosts."""
        self.lessons: dict[str, int] | None = None
        """Lessons that were handed out last, for workers that take over lanes."""
        self.waiting = WaitTimes(timers)
        self.moving: set[int] = set()
        """Shares that go to another host as soon as they have done what they were asked for."""
        self.standing = [ShareStanding(share) for share in shares]
        for one in self.standing:
            self._begin(one)

    # --- workers ------------------------------------------------------------------------------------------------------

    def _begin(self, one: ShareStanding, vector_step: int = 0) -> None:
        """Makes the worker of a share."""
        self.hosts.begin(one.share.number, cloudpickle.dumps(partial(ShareWorker, one.share, self.make, vector_step)))

    def _over(self, tickets: Sequence[Any], within: float = math.inf) -> list[Any]:
        """Waits until at least one of some calls is over, or its worker is lost, and returns those that are."""
        return wait_until(lambda left: self.hosts.ready(tickets, left) or None, within, self._heed) or []

    def _result(self, ticket: Any) -> Any:
        """Waits for what a call returns; raises as `Hosts.result`."""
        self._over([ticket])
        return self.hosts.result(ticket)

    def _heed(self) -> None:
        """Lets workers stop early after a signal; tells a user who waits what for."""
        if not self.interrupt.number:  # none, or the end of the time, which a round may outlast
            return
        if self._stopping_since is None:
            self._stopping_since = monotonic()
            self.hosts.hurry(True)
        elif not self._has_told and monotonic() - self._stopping_since > STOPPING_SECONDS:
            self._has_told = True
            names = ", ".join(str(one.share.number) for one in self.standing if one.calls)
            self.note(
                f"stopping after the step under way{names and f' of worker {names}'}; one that hangs is given up, and "
                "its copies begin their next episodes when the run is resumed; Ctrl-C again stops at once"
            )

    def _go_on(self) -> None:
        """Forgets a request to stop that was acted on."""
        if self._stopping_since is not None and self.interrupt.number is None:
            self._stopping_since, self._has_told = None, False
            self.hosts.hurry(False)

    def _everywhere(self, method: str, *arguments: Any) -> None:
        """Calls a method of all workers and waits until all have done it; one that has been replaced meanwhile, or
        comes later, begins with the standing of the run, so that it needs no such call.
        """
        present = [one for one in self.standing if not one.is_absent]
        for one, ticket in [(one, self.hosts.call(one.share.number, method, *arguments)) for one in present]:
            try:
                self._result(ticket)
            except WorkerLostError as error:
                self._replace(one, error)

    def _replace(self, one: ShareStanding, error: WorkerLostError) -> None:
        """Lets the lanes of a worker that is gone begin their next episodes elsewhere; counts what is lost with it.

        Raises:
            WorkerLostError: If too many are gone already.
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
        self.note(f"{error}; its copies begin their next episodes {then}")
        self._begin_anew(one)

    def _most_under_way(self, one: ShareStanding) -> int:
        """Returns how many decisions a worker can have made at most in what it was asked for and has not answered."""
        agents = sum(len(kind.agents) for kind in self.env.kinds) * one.share.lanes
        return max(one.ordered - one.vector_steps, 0) * max(sum(one.slots.values()), agents)

    def _count_lost(self, reported: int, under_way: int = 0) -> None:
        """Counts decisions that nothing will be learned from: those that workers have reported, and at most so many
        that they may have made since.
        """
        self._count("decisions_lost", reported)
        self._count("decisions_lost_at_most", reported + under_way)

    def _move(self, one: ShareStanding) -> None:
        """Lets the lanes of a worker that has nothing to do begin their next episodes on another host; what it has
        played comes first.
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
        """Makes a worker whose lanes go on with their next episodes, in place of one that is gone or moves."""
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
        if not self.interrupt.number:  # else only a checkpoint is to be written, which needs no new worker
            self._bring_in(one)

    def _bring_in(self, one: ShareStanding) -> None:
        """Makes the worker of a share that has none, with all that the run has told the others; the share stays
        without one if the run is to stop.
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
        """Adds a policy to a worker, with the weights that it has now."""
        demand = None if name in self.retired else self.demands[name]
        one.version[name] = self.version
        return self.hosts.call(one.share.number, "add_policy", name, self.policies[name], demand, self.lane_group)

    # --- policies -----------------------------------------------------------------------------------------------------

    def add_policy(self, name: str, policy: Policy, demand: Demand | None) -> None:
        """Adds a policy to every worker; `demand` None = frozen."""
        self.policies[name], self.demands[name] = policy, demand
        if len(self.standing) > 1 and self.lane_group is None and native_actor(policy) is None:
            self.env.exact = False  # last bits of torch depend on how many rows there are
        present = [one for one in self.standing if not one.is_absent]
        for one, ticket in [(one, self._introduce(one, name)) for one in present]:
            try:
                self._result(ticket)
            except WorkerLostError as error:
                self._replace(one, error)

    def delivered(self, name: str, rollout: Rollout) -> int:
        """Counts the decisions of a rollout: there is one learner."""
        return rollout.num_decisions

    def undelivered(self, name: str) -> int:
        """Counts the complete decisions of a policy that nobody has been given yet."""
        held = sum(rollout.num_decisions for rollout in self.held.get(name, ()))
        return held + sum(one.complete.get(name, 0) for one in self.standing)

    def retire(self, name: str) -> None:
        """Lets a policy play on without anything being kept of it."""
        self.retired.append(name)
        self.held.pop(name, None)
        self._everywhere("retire", name)

    def add_opponents(self, of: str, policy: Policy, snapshots: MutableMapping[int, Policy]) -> None:
        """Refuses: opponents play in one process for now."""
        raise ConfigError(
            f"self_play.{of}: opponents are played in this process only: set sampling.workers=0, and let "
            "sampling.env_processes step the copies"
        )

    def change_opponents(self, lineup: dict[str, Any] | None) -> None:
        """Does nothing: there are none."""

    def set_weights(self, policies: Mapping[str, Policy]) -> None:
        """Hands out weights and normalizers: with the next call of each worker, and once to each machine."""
        if not policies:
            return
        with self.timers["set_weights"]:
            self.version += 1
            for name, policy in policies.items():
                self.weights[name] = self.version, self.hosts.publish(packed_weights(policy))

    def change_lessons(self, lessons: Mapping[str, int], restart: bool) -> None:
        """Hands out lessons; see `RolloutWorker.change_lessons`."""
        self.lessons = dict(lessons)
        self._everywhere("change_lessons", self.lessons, restart)

    @contextmanager
    def lent(self) -> Iterator[VectorEnv]:
        """Refuses: whoever has the only copies there are has them here."""
        raise ConfigError("sampling.workers: the copies of the environment are with the workers, and cannot be lent")
        yield self.env

    # --- playing ------------------------------------------------------------------------------------------------------

    def sample(self, max_env_steps: int) -> Sample:
        """Plays, see `WorkerPool.sample`; or takes what has been played, where playing is asynchronous."""
        self._go_on()
        limit = self.lane_steps + max_env_steps
        body = self._collect if self.asynchronous else self._round
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
        """Lets all workers play as many vector steps as cannot overshoot a demand or a limit; returns newcomers."""
        start = max(one.vector_steps for one in self.standing)  # one behind has met a newcomer
        behind = any(one.vector_steps < start for one in self.standing)
        steps = 0 if behind else self._most_steps(limit)
        expected = {} if behind else self._expected(steps)
        for one in self.standing:
            mine = {name: one.complete.get(name, 0) + steps * one.slots.get(name, 0) for name in expected}
            self._order(one, start + steps, mine)
        newcomers: dict[str, Kind] = {}
        with self.timers["workers"]:
            for one in self.standing:
                while one.calls:
                    with self.waiting.wait():
                        self._over(one.calls[:1])
                    report = self._answer(one)
                    newcomers.update({} if report is None else report.newcomers)
        self.vector_steps = max(one.vector_steps for one in self.standing)
        return newcomers

    def _most_steps(self, limit: int) -> int:
        """Vector steps after which no demand and no limit has been passed, and a call does not last too long."""
        steps = -(-(limit - self.lane_steps) // self.env.num_lanes)
        for name in self._learning():
            slots = sum(one.slots.get(name, 0) for one in self.standing)
            missing = self._wanted(name) - self.undelivered(name)
            steps = min(steps, -(-missing // slots) if slots else 1)
        paces = [one.pace for one in self.standing if one.pace is not None]
        longest = int(CALL_SECONDS / max(max(paces), 1e-9)) if paces else FIRST_STEPS
        return max(1, min(steps, longest))

    def _expected(self, steps: int) -> list[str]:
        """Policies whose demand is met after so many vector steps if all their agents decide in each of them."""
        met = []
        for name in self._learning():
            slots = sum(one.slots.get(name, 0) for one in self.standing)
            if slots and self.undelivered(name) + steps * slots >= self._wanted(name):
                met.append(name)
        return met

    def _learning(self) -> list[str]:
        return [name for name, demand in self.demands.items() if demand is not None and name not in self.retired]

    def _wanted(self, name: str) -> int:
        """Decisions that make an update of a policy; 0 while that is not known."""
        demand = self.demands[name]
        assert demand is not None
        return demand.decisions or demand.fragment_length * sum(one.slots.get(name, 0) for one in self.standing)

    def _ready(self) -> dict[str, Rollout]:
        """What is complete of the policies whose demand is met, everything that workers have of it included."""
        rollouts = {}
        for name in self._learning():
            held = self.held.get(name, [])
            total = sum(rollout.num_decisions for rollout in held) if self.asynchronous else self.undelivered(name)
            if not 0 < self._wanted(name) <= total:
                continue
            if not self.asynchronous:
                held += self._taken(name)
            self.held.pop(name, None)
            if held:  # not lost at this moment
                with self.waiting.join():
                    rollouts[name] = in_order(joined(held))
        return rollouts

    def _taken(self, name: str) -> list[Rollout]:
        """What workers still have of a policy."""
        found = []
        asked = [one for one in self.standing if one.complete.get(name)]
        tickets = [self.hosts.call(one.share.number, "take", [name]) for one in asked]
        for one, ticket in zip(asked, tickets, strict=True):
            try:
                with self.waiting.fetch():
                    found.append(self._result(ticket)[name])
                self.waiting.received(found[-1])
                one.complete[name] = 0
            except WorkerLostError as error:
                self._replace(one, error)
        return found

    def _order(self, one: ShareStanding, until: int, expected: Mapping[str, int] | None) -> None:
        """Asks a worker to play until it has made so many vector steps, with the weights of now."""
        if one.is_absent:
            self._bring_in(one)
        if one.is_absent:
            return
        names = [name for name, (version, _) in self.weights.items() if version > one.version.get(name, 0)]
        for name in names:
            one.version[name] = self.weights[name][0]
        sent = [self.weights[name][1] for name in names]
        given = until, expected, self.threads, self.version, names
        self.waiting.asked(one.share.number)
        one.calls.append(self.hosts.call(one.share.number, "play", *given, *sent))
        one.ordered = until

    def _answer(self, one: ShareStanding) -> PlayReport | None:
        """Takes the oldest answer of a worker; None if it is gone, and another has its lanes by now."""
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
        if self.interrupt.number and not one.calls:  # it was asked to stop before it has done all
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
        self.env.exact = self.env.exact and (report.all_joined or not steps)
        times = Timers()
        times.load_state_dict(report.timers)
        self.timers.current.include(times.root, 1.0 / len(self.standing))
        return report

    # --- asynchronously -----------------------------------------------------------------------------------------------

    def _collect(self, limit: int) -> dict[str, Kind]:
        """Keeps all workers at work, and takes what at least one of them has played."""
        self.moving.update(self.hosts.vacancies())
        for one in self.standing:
            self._keep_busy(one)
        newcomers: dict[str, Kind] = {}
        with self.timers["workers"]:
            oldest = {id(one.calls[0]): one for one in self.standing if one.calls}
            tickets = [one.calls[0] for one in oldest.values()]
            with self.waiting.wait():
                over = self._over(tickets, WAIT_SECONDS)
            for ticket in over:
                report = self._answer(oldest[id(ticket)])
                newcomers.update({} if report is None else report.newcomers)
        return newcomers

    def _keep_busy(self, one: ShareStanding) -> None:
        """Asks a worker for fragments until so many are under way as may be; one that is to move does these first."""
        if one.share.number in self.moving:
            if one.calls:
                return
            try:
                self._move(one)
            except WorkerLostError as error:
                self._replace(one, error)
        lengths = [demand.fragment_length for demand in self.demands.values() if demand is not None]
        for _ in range(self.in_flight - len(one.calls)):
            self._order(one, max(one.ordered, one.vector_steps) + min(lengths, default=FIRST_STEPS), None)

    def _hold(self, name: str, rollout: Rollout) -> None:
        """Keeps what has come until it is learned from; leaves out what is too old."""
        if self.max_lag is not None and self.asynchronous:
            fresh = (self.version - rollout.version) <= self.max_lag
            if not bool(fresh.all()):
                self._count("decisions_too_old", rollout.num_decisions)
                return
        self.held.setdefault(name, []).append(rollout)

    def play_ahead(self, max_env_steps: int) -> None:
        """Does nothing: workers play on by themselves where playing is asynchronous."""

    def lag(self, name: str, rollout: Rollout) -> dict[str, float]:
        """Says by how many updates weights have changed since they played a rollout that is learned from now: the mean
        over its decisions and the most; nothing where workers wait for weights.
        """
        if not self.asynchronous:
            return {}
        behind = self.version - rollout.version
        decisions = rollout.length.double()
        stale = float((decisions * (behind > 0)).sum() / decisions.sum())
        mean = float((decisions * behind).sum() / decisions.sum())
        return {"stale_fraction": stale, "lag_mean": mean, "lag_max": float(behind.max())}

    def waits(self) -> dict[str, float]:
        """Says what this process has waited for since it began, by name; see `WaitTimes.row`."""
        return self.waiting.row()

    def acted(self) -> int:
        """Counts the decisions of all policies since they were added, those included that nobody learns from."""
        return sum(one.acted for one in self.standing)

    def counters(self) -> dict[str, int]:
        """What could not be learned from as it should, so far, over all workers; what was lost or left out."""
        total = dict(self.counted)
        for one in self.standing:
            for name, number in one.counters.items():
                total[name] = total.get(name, 0) + number
        return total

    # --- state --------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Waits until every worker has done what it was asked for, and has the weights of now; what it has played is
        kept.
        """
        for one in self.standing:
            behind = any(version > one.version.get(name, 0) for name, (version, _) in self.weights.items())
            if behind and not one.is_absent:
                self._order(one, one.ordered, {})
        for one in self.standing:
            while one.calls:
                with self.waiting.wait():
                    self._over(one.calls[:1])
                self._answer(one)

    def state_dict(self) -> dict[str, Any]:
        """Everything that changes. What has come and waits stays here and is not part of it, but how much it is. A
        share whose worker is lost or hangs begins anew where the state is taken up.
        """
        self.settle()
        tickets = [None if one.is_absent else self.hosts.call(one.share.number, "state_dict") for one in self.standing]
        shares = [self._state_of(one, ticket) for one, ticket in zip(self.standing, tickets, strict=True)]
        held: dict[str, Any] = {}
        lost = sum(rollout.num_decisions for rollouts in self.held.values() for rollout in rollouts)
        if lost and not self.asynchronous:  # some workers had done all they were asked for when the others were stopped
            lost, held = 0, {"held": {name: [vars(one) for one in rollouts] for name, rollouts in self.held.items()}}
        return {**super().state_dict(), "finished": [], "in_transit": lost, "shares": shares, **held}

    def _state_of(self, one: ShareStanding, ticket: Any) -> dict[str, Any]:
        """Waits for the state of a share; of one that begins anew only where it begins."""
        try:
            if ticket is not None:
                state: dict[str, Any] = self._result(ticket)
                return state
        except WorkerLostError as error:
            self._replace(one, error)
        numbers = {"before": one.vector_steps, "slots": dict(one.slots), "kinds": dict(one.kinds)}
        return {"share": asdict(one.share), "worker": None, **numbers}

    def load_env(self, state: dict[str, Any]) -> dict[str, Kind]:
        """Takes up the environments of a state; see `RolloutWorker.load_env`.

        Raises:
            ConfigError: If lanes are divided otherwise there.
        """
        there = len(state["shares"]) if "shares" in state else 0
        if there != len(self.standing):
            raise ConfigError(
                f"sampling.workers = {len(self.standing)}: the run was played by {there or 'no'} workers, and "
                "goes on with as many; they may be on fewer machines"
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
        """Takes over what `state_dict` gave, after `load_env`."""
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
        for one, _ in there:  # where they stand
            self._order(one, 0, {})
        for one, _ in there:
            self._over(one.calls[:1])
            self._answer(one)

    def close(self) -> None:
        """Frees the environments."""
        self.hosts.close(at_once=bool(self.interrupt.number) and any(one.calls for one in self.standing))
