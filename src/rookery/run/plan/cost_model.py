"""Cost model: predicts the env steps a second of a number of workers and learners, and their bottleneck.

`predict` combines the costs of the parts of a training (`Costs`, measured by `run/plan/measured_costs.py`) into the
speed that they allow together on a number of cores and machines. Nothing here measures, samples or learns.

Assumptions: all workers are alike, and all learners; a process uses one core at most; on a machine with too few cores,
work takes its CPU seconds, shared evenly; workers are spread evenly over machines, and learners too; a link carries
both directions at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

PLAYING, CORES, TRANSFER, LEARNING, EXCHANGE = "playing", "cores", "transfer", "learning", "exchange"
"""Possible bottlenecks: environments and acting; cores for all processes; the driver's calls, rollouts and weights, and
their link; updates; gradients that learners send each other.
"""


CROWD = 4
"""Processes per core with which `Costs.crowded` is measured."""


@dataclass(frozen=True)
class LinearCost:
    """A cost that grows by the same amount with each unit.

    Attributes:
        fixed: Seconds independent of the number of units.
        each: Seconds of a unit.
    """

    fixed: float = 0.0
    each: float = 0.0

    def __call__(self, units: float) -> float:
        """Returns the seconds of a number of units."""
        return self.fixed + self.each * units

    @classmethod
    def through(cls, *points: tuple[float, float]) -> LinearCost:
        """Returns the line through the first and the last of some points ``(units, seconds)``, in the order of units.

        Neither number is below 0: a falling line becomes constant at its mean, one that starts below 0 starts at 0.
        Points with the same units become a cost per unit only.
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
    """Costs of the parts of a training: seconds of wall time, unless named CPU seconds.

    Attributes:
        vector_step: Vector step of a worker by its number of environments, including acting and recording.
        vector_step_cpu: CPU seconds of it, on a core without other processes.
        crowded: Factor of these CPU seconds if `CROWD` processes share each core and its caches.
        own_step: Vector step by the number of environments of a learner that samples by itself, with its helpers.
        rows: Decisions of a step of one environment.
        call: Driver's seconds for a call of a worker.
        call_elsewhere: CPU seconds of all other processes for it.
        round_trip: Time until an empty call is answered, on one machine.
        row: Driver's seconds for fetching and joining a decision.
        row_elsewhere: CPU seconds of all other processes for it.
        row_bytes: Bytes of a decision.
        weights: Driver's seconds for distributing new weights once.
        weights_elsewhere: Worker's seconds for loading them.
        weight_bytes: Bytes of the weights.
        learn: Update by its number of decisions.
        learn_cores: Cores that learning keeps busy.
        exchanges: Messages that a learner waits for in an update, if there are several learners.
        exchange_rows: Decisions of that update; a larger one has proportionally more gradient steps and messages.
        agree: Seconds that a learner computes for a message.
        exchange: Seconds of a message between two learners of one machine.
        exchange_bytes: Bytes of all messages of an update.
        exchange_byte: Seconds of one of these bytes.
        few: Most learners that send directly to each other; more of them sum in a ring.
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
    """Workload of a training, independent of costs.

    Attributes:
        fragment_length: Consecutive decisions of one slot.
        batch: Decisions of an update of one learner; None = `fragment_length` of each of its slots.
        asynchronous: Whether workers sample continuously.
        in_flight: Fragments that are then requested ahead from each worker.
        longest_call: Seconds after which a synchronous call is answered, even if incomplete.
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
    """Machines of a run.

    Attributes:
        cores: Cores of each machine.
        count: Number of machines.
        bandwidth: Bytes a second of a machine's link, each way.
        latency: Seconds of a message from one machine to another.
    """

    cores: float
    count: int = 1
    bandwidth: float = 1.25e9
    latency: float = 2e-4


@dataclass(frozen=True)
class Prediction:
    """Predicted speed of a number of workers and learners.

    Attributes:
        workers: Number of workers; 0 = each learner samples by itself.
        learners: Number of learners.
        copies: Number of environments of all of them.
        steps_per_second: Env steps a second of all environments.
        bottleneck: `PLAYING`, `CORES`, `TRANSFER`, `LEARNING` or `EXCHANGE`.
        update_seconds: Seconds from one update to the next.
        parts: Seconds of an update that each of these takes by itself; concurrently if sampling is asynchronous, else
            one after the other (`CORES` instead of `PLAYING`).
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
    """Predicts the speed of a number of workers and learners.

    Args:
        costs: Costs of the parts.
        workload: Workload of the training.
        machines: Machines of the run.
        workers: Number of workers, divided among the learners; 0 = each learner samples by itself.
        learners: Number of learners.
        copies: Number of environments, divided among the workers, or among the learners if there are none.

    Raises:
        ValueError: If there is no learner, or fewer environments than workers or learners.
    """
    if learners < 1 or workers < 0 or copies < max(workers, learners) or 0 < workers < learners:
        raise ValueError(f"{workers} workers, {learners} learners and {copies} environments: each needs one at least")
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
    """A learner with its workers, one of several equal groups.

    Args:
        costs: Costs of the parts.
        workload: Workload of the training.
        machines: Machines of all groups.
        workers: Workers of this learner.
        learners: Number of learners.
        copies: Environments of this learner.
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
        """Returns the parts of an update of a learner that samples by itself."""
        wall = self.vector_steps * self.costs.own_step(self.copies)
        cores = min(self.cores, self.machines.cores)
        busy = self.vector_steps * self.costs.vector_step_cpu(self.copies) / cores
        return {**_playing(wall, busy), LEARNING: self.learning(), **self.exchange()}

    def synchronous(self) -> dict[str, float]:
        """Returns the parts of an update for which all workers sample at the same time and then wait."""
        costs = self.costs
        wall = self.vector_steps * self.worker_step()
        rounds = max(1, math.ceil(wall / self.workload.longest_call))
        busy = self.played_cpu(self.batch, rounds * self.workers) + self.workers * costs.weights_elsewhere
        calls = rounds * (costs.round_trip + 2 * self.latency() + (self.workers - 1) * costs.call)
        transfer = calls + self.batch * costs.row + costs.weights + costs.weights_elsewhere + sum(self.link())
        playing = _playing(wall, busy / self.cores)
        return {**playing, TRANSFER: transfer, LEARNING: self.learning(), **self.exchange()}

    def asynchronous(self) -> dict[str, float]:
        """Returns the seconds of each concurrent part of an update."""
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
        """Returns the seconds of an update with concurrent parts, and its bottleneck.

        The driver fetches, learns and exchanges in turn. While it learns, workers sample the fragments that were
        requested ahead, and no more.
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

    # --- terms of the parts -------------------------------------------------------------------------------------------

    @property
    def fragment(self) -> float:
        """Number of decisions of one asynchronous call."""
        return self.workload.fragment_length * self.share * self.costs.rows

    def worker_step(self) -> float:
        """Returns the seconds of a worker's vector step, with the workers that share its process and so its core."""
        together, share = min(self.workload.together, math.ceil(self.workers)), math.ceil(self.share)
        return max(self.costs.vector_step(share), together * self.costs.vector_step_cpu(share))

    def played_cpu(self, rows: float, calls: float) -> float:
        """Returns the CPU seconds of workers for a number of decisions and calls."""
        costs = self.costs
        steps = rows / (self.share * costs.rows)  # vector steps of all workers
        stepping = steps * costs.vector_step_cpu(self.share) * self.crowding()
        return stepping + calls * costs.call_elsewhere + rows * costs.row_elsewhere

    def crowding(self) -> float:
        """Returns the factor by which workers' CPU seconds grow because they share cores."""
        share, workers = math.ceil(self.share), self.workers / self.workload.together
        busy = min(1.0, self.costs.vector_step_cpu(share) / max(self.costs.vector_step(share), 1e-12))
        beyond = (workers * busy / self.cores - 1.0) / (CROWD - 1.0)
        return 1.0 + (self.costs.crowded - 1.0) * min(1.0, max(0.0, beyond))

    def learning(self) -> float:
        """Returns the seconds of an update, on the cores of each learner."""
        return self.costs.learn(self.batch) * max(1.0, self.costs.learn_cores / min(self.cores, self.machines.cores))

    def latency(self) -> float:
        """Returns the seconds of a message to a worker."""
        return self.machines.latency if self.machines_each > 1 else 0.0

    def link(self) -> tuple[float, float]:
        """Returns the seconds of a learner's link for an update: for rollouts, and for weights."""
        others = self.machines_each - 1
        rollouts = self.batch * self.costs.row_bytes * others / self.machines_each
        return rollouts / self.machines.bandwidth, self.costs.weight_bytes * others / self.machines.bandwidth

    def exchange(self) -> dict[str, float]:
        """Returns the seconds of an update in which learners wait for each other, by name; empty for one learner."""
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
    """Returns the seconds of sampling, under the name of the cores if these limit it."""
    return {PLAYING: wall} if wall >= busy else {CORES: busy}


def _largest(parts: dict[str, float]) -> str:
    return max(parts, key=lambda name: parts[name])
