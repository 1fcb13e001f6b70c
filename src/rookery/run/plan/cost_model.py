"""A model of cost: how many env steps a second so many workers and learners make, and what holds them back.

`predict` puts together what parts of a training cost by themselves (`Costs`, which `run/plan/measured_costs.py` takes
on a machine) into what they allow side by side on so many cores and machines. Nothing here measures, plays or learns.

What is assumed: workers and learners are alike; a process has one core at most; work on a machine that has too few
cores takes as long as its processor seconds, shared evenly; workers are spread evenly over machines, and learners too;
a link carries both directions at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

PLAYING, CORES, TRANSFER, LEARNING, EXCHANGE = "playing", "cores", "transfer", "learning", "exchange"
"""What can hold a run back: environments and acting; cores for all processes; the driver's calls, rollouts and weights,
and the link that these take; updates; gradients that learners send each other.
"""


CROWD = 4
"""Processes for each core, among which `Costs.crowded` is measured."""


@dataclass(frozen=True)
class LinearCost:
    """A cost that grows by the same amount with each unit.

    Attributes:
        fixed: Seconds, however many units there are.
        each: Seconds of a unit.
    """

    fixed: float = 0.0
    each: float = 0.0

    def __call__(self, units: float) -> float:
        """Returns the seconds of so many units."""
        return self.fixed + self.each * units

    @classmethod
    def through(cls, *points: tuple[float, float]) -> LinearCost:
        """Makes the line through the first and the last of some points ``(units, seconds)``, in the order of units.

        Neither number gets below 0: a line that falls becomes level at its mean, one that begins below 0 begins at 0.
        Points with the same units become a cost of each unit alone.
        """
        (few, less), (many, more) = points[0], points[-1]
        if few == many:
            return cls(0.0, sum(seconds for _, seconds in points) / sum(units for units, _ in points))
        each = (more - less) / (many - few)
        if each < 0.0:
            return cls((less + more) / 2, 0.0)
        return cls(less - each * few, each) if less >= each * few else cls(0.0, more / many)


@dataclass(frozen=True)
class Costs:
    """What parts of a training cost by themselves: seconds of wall time, unless said to be the processor's.

    Attributes:
        vector_step: Of a worker's vector step of so many copies, acting and recording included.
        vector_step_cpu: Processor seconds of it, where a core has no other process.
        crowded: How many times as many it takes where `CROWD` processes share each core: what one finds in the caches
            is what the others have left.
        own_step: Of a vector step of so many copies where a learner plays by itself, with its helpers.
        rows: Decisions of a step of one copy.
        call: Of the driver for a call of a worker.
        call_elsewhere: Processor seconds of all other processes for it.
        round_trip: Until a call that asks for nothing is answered, on one machine.
        row: Of the driver for a decision that it fetches and puts beside others.
        row_elsewhere: Processor seconds of all other processes for it.
        row_bytes: Bytes of a decision.
        weights: Of the driver for handing out new weights once.
        weights_elsewhere: Of a worker for taking them over.
        weight_bytes: Bytes of the weights.
        learn: Of an update from so many decisions.
        learn_cores: Cores that learning keeps busy.
        exchanges: Messages that a learner waits for in an update, where there are several.
        exchange_rows: Decisions of that update; one from more has more gradient steps, and as many more messages.
        agree: Of what a learner computes for one of them.
        exchange: Of one of them between two learners of one machine.
        exchange_bytes: Bytes of all of them in an update.
        exchange_byte: Of one of these bytes.
        few: Learners up to which each sends to each; more of them sum in a ring.
    """

    vector_step: LinearCost
    vector_step_cpu: LinearCost
    own_step: LinearCost
    learn: LinearCost
    crowded: float = 1.0
    rows: float = 1.0
    call: float = 0.0
    call_elsewhere: float = 0.0
    round_trip: float = 0.0
    row: float = 0.0
    row_elsewhere: float = 0.0
    row_bytes: float = 0.0
    weights: float = 0.0
    weights_elsewhere: float = 0.0
    weight_bytes: float = 0.0
    learn_cores: float = 1.0
    exchanges: float = 0.0
    exchange_rows: float = 1.0
    agree: float = 0.0
    exchange: float = 0.0
    exchange_bytes: float = 0.0
    exchange_byte: float = 0.0
    few: int = 8


@dataclass(frozen=True)
class Workload:
    """What a training asks for, whatever it costs.

    Attributes:
        fragment_length: Decisions in a row of one slot.
        batch: Decisions of an update of one learner; None = `fragment_length` of each of its slots.
        asynchronous: Whether workers play on while nobody waits for them.
        in_flight: Fragments that each of them is asked for ahead then.
        longest_call: Seconds after which a synchronous call is answered, however much is still wanted.
        together: Workers that share a process.
    """

    fragment_length: int
    batch: int | None = None
    asynchronous: bool = False
    in_flight: int = 2
    longest_call: float = 2.0
    together: int = 1


@dataclass(frozen=True)
class Machines:
    """What there is to run on.

    Attributes:
        cores: Of each machine.
        count: How many machines.
        bandwidth: Bytes a second that a machine's link carries, each way.
        latency: Seconds of a message from one machine to another.
    """

    cores: float
    count: int = 1
    bandwidth: float = 1.25e9
    latency: float = 2e-4


@dataclass(frozen=True)
class Prediction:
    """What a number of workers and learners is predicted to reach.

    Attributes:
        workers: How many; 0 = each learner plays by itself.
        learners: How many.
        copies: Of the environment, of all of them together.
        steps_per_second: Env steps of all copies a second.
        bottleneck: What holds them back: `PLAYING`, `CORES`, `TRANSFER`, `LEARNING` or `EXCHANGE`.
        update_seconds: From one update to the next.
        parts: Seconds of an update that each of these takes by itself; beside each other where playing is asynchronous,
            else one after the other (`CORES` in the place of `PLAYING`).
    """

    workers: int
    learners: int
    copies: int
    steps_per_second: float
    bottleneck: str
    update_seconds: float
    parts: dict[str, float]

    def share(self, part: str) -> float:
        """Returns the share of an update's time that a part takes by itself, in [0, 1]."""
        return min(1.0, self.parts.get(part, 0.0) / self.update_seconds)


def predict(
    costs: Costs, workload: Workload, machines: Machines, workers: int, learners: int, copies: int
) -> Prediction:
    """Predicts what so many workers and learners reach.

    Args:
        costs: What parts cost by themselves.
        workload: What the training asks for.
        machines: What there is.
        workers: How many, divided among the learners; 0 = each learner plays by itself.
        learners: How many.
        copies: Of the environment, divided among the workers, or the learners where there are none.

    Raises:
        ValueError: If there is no learner, or fewer copies than workers or learners.
    """
    if learners < 1 or workers < 0 or copies < max(workers, learners) or 0 < workers < learners:
        raise ValueError(f"{workers} workers, {learners} learners and {copies} copies: each has one at least")
    group = _Group(costs, workload, machines, workers / learners, learners, copies / learners)
    if not workers:
        parts = group.alone()
    elif workload.asynchronous:
        parts = group.asynchronous()
    else:
        parts = group.synchronous()
    if workers and workload.asynchronous:
        seconds, bottleneck = group.pipelined(parts)
    else:
        seconds, bottleneck = sum(parts.values()), _largest(parts)
    rate = learners * group.batch / costs.rows / seconds
    return Prediction(workers, learners, copies, rate, bottleneck, seconds, parts)


class _Group:
    """A learner with its workers, one of several that are alike.

    Args:
        costs: What parts cost by themselves.
        workload: What the training asks for.
        machines: What all groups have.
        workers: Of this learner.
        learners: How many there are.
        copies: Of the environment, of this learner.
    """

    def __init__(
        self, costs: Costs, workload: Workload, machines: Machines, workers: float, learners: int, copies: float
    ) -> None:
        self.costs, self.workload, self.machines = costs, workload, machines
        self.workers, self.learners, self.copies = workers, learners, copies
        self.cores = machines.cores * machines.count / learners
        self.machines_each = max(1.0, machines.count / learners)
        self.share = copies / workers if workers else copies
        self.batch = float(workload.batch or workload.fragment_length * copies * costs.rows)
        self.vector_steps = self.batch / (copies * costs.rows)

    # --- parts of an update -------------------------------------------------------------------------------------------

    def alone(self) -> dict[str, float]:
        """Returns the parts of an update of a learner that plays by itself."""
        wall = self.vector_steps * self.costs.own_step(self.copies)
        cores = min(self.cores, self.machines.cores)
        busy = self.vector_steps * self.costs.vector_step_cpu(self.copies) / cores
        return {**_playing(wall, busy), LEARNING: self.learning(), **self.exchange()}

    def synchronous(self) -> dict[str, float]:
        """Returns the parts of an update for which workers play, all at the same time, and then wait."""
        costs = self.costs
        wall = self.vector_steps * self.worker_step()
        rounds = max(1, math.ceil(wall / self.workload.longest_call))
        busy = self.played_cpu(self.batch, rounds * self.workers) + self.workers * costs.weights_elsewhere
        calls = rounds * (costs.round_trip + 2 * self.latency() + (self.workers - 1) * costs.call)
        transfer = calls + self.batch * costs.row + costs.weights + costs.weights_elsewhere + sum(self.link())
        playing = _playing(wall, busy / self.cores)
        return {**playing, TRANSFER: transfer, LEARNING: self.learning(), **self.exchange()}

    def asynchronous(self) -> dict[str, float]:
        """Returns what each part of an update takes by itself while the others go on."""
        costs, fragment = self.costs, self.fragment
        calls = self.batch / fragment
        fresh = min(1.0, self.workers / calls)  # calls with new weights
        one = self.workload.fragment_length * self.worker_step()
        one += costs.call_elsewhere + fragment * costs.row_elsewhere + fresh * costs.weights_elsewhere
        answered = one + costs.round_trip + 2 * self.latency()
        wall = max(one, answered / self.workload.in_flight) * calls / self.workers
        handling = calls * costs.call + self.batch * costs.row + costs.weights
        busy = self.played_cpu(self.batch, calls) + calls * fresh * costs.weights_elsewhere
        busy += handling + self.learning() * costs.learn_cores
        return {
            PLAYING: wall,
            CORES: busy / self.cores,
            TRANSFER: max(handling, *self.link()),
            LEARNING: self.learning(),
            **self.exchange(),
        }

    def pipelined(self, parts: dict[str, float]) -> tuple[float, str]:
        """Returns the seconds of an update whose parts go on beside each other, and what decides them.

        The driver fetches, learns and exchanges in turn. While it learns, workers play what they were asked for ahead,
        and no more.
        """
        handling = {name: parts[name] for name in (TRANSFER, LEARNING, EXCHANGE) if name in parts}
        away = parts[LEARNING] + parts.get(EXCHANGE, 0.0) + self.costs.weights
        rate = self.batch / parts[PLAYING]
        ahead = min(away * rate, self.workers * self.workload.in_flight * self.fragment)
        filling = away + max(0.0, self.batch - ahead) / rate
        driver, cores = sum(handling.values()), parts[CORES]
        if cores >= max(driver, filling):
            return cores, CORES
        if driver >= filling or away >= parts[PLAYING]:
            return max(driver, filling), _largest(handling)
        return filling, PLAYING

    # --- what they are made of ----------------------------------------------------------------------------------------

    @property
    def fragment(self) -> float:
        """Decisions of one asynchronous call."""
        return self.workload.fragment_length * self.share * self.costs.rows

    def worker_step(self) -> float:
        """Returns the seconds of a worker's vector step, beside those that share its process and so its core."""
        together, share = min(self.workload.together, math.ceil(self.workers)), math.ceil(self.share)
        return max(self.costs.vector_step(share), together * self.costs.vector_step_cpu(share))

    def played_cpu(self, rows: float, calls: float) -> float:
        """Returns the processor seconds of workers that play so many decisions and answer so many calls."""
        costs = self.costs
        steps = rows / (self.share * costs.rows)  # vector steps of all workers
        stepping = steps * costs.vector_step_cpu(self.share) * self.crowding()
        return stepping + calls * costs.call_elsewhere + rows * costs.row_elsewhere

    def crowding(self) -> float:
        """Returns how many times as long workers' steps take the processor because they share cores."""
        share, workers = math.ceil(self.share), self.workers / self.workload.together
        busy = min(1.0, self.costs.vector_step_cpu(share) / max(self.costs.vector_step(share), 1e-12))
        beyond = (workers * busy / self.cores - 1.0) / (CROWD - 1.0)
        return 1.0 + (self.costs.crowded - 1.0) * min(1.0, max(0.0, beyond))

    def learning(self) -> float:
        """Returns the seconds of an update, on the cores that there are for each learner."""
        return self.costs.learn(self.batch) * max(1.0, self.costs.learn_cores / min(self.cores, self.machines.cores))

    def latency(self) -> float:
        """Returns the seconds to a worker."""
        return self.machines.latency if self.machines_each > 1 else 0.0

    def link(self) -> tuple[float, float]:
        """Returns the seconds that a learner's link is busy for an update: with rollouts, and with weights."""
        others = self.machines_each - 1
        rollouts = self.batch * self.costs.row_bytes * others / self.machines_each
        return rollouts / self.machines.bandwidth, self.costs.weight_bytes * others / self.machines.bandwidth

    def exchange(self) -> dict[str, float]:
        """Returns the seconds of an update in which learners wait for each other, by name, if there are several."""
        others, costs, machines = self.learners - 1, self.costs, self.machines
        if not others:
            return {}
        each_to_each = self.learners <= costs.few
        times = max(1.0, self.batch / costs.exchange_rows)
        messages, sent = times * costs.exchanges, times * costs.exchange_bytes
        sent *= others if each_to_each else 2 * others / self.learners
        there = messages * (costs.agree + others * costs.exchange) + sent * costs.exchange_byte
        if machines.count > 1:
            hops = 1 if each_to_each else 2 * others
            there += messages * hops * machines.latency + sent / machines.bandwidth
        return {EXCHANGE: there * max(1.0, 1 / self.cores)}


def _playing(wall: float, busy: float) -> dict[str, float]:
    """Playing by its name, or by that of the cores if these are what it takes so long for."""
    return {PLAYING: wall} if wall >= busy else {CORES: busy}


def _largest(parts: dict[str, float]) -> str:
    return max(parts, key=lambda name: parts[name])
