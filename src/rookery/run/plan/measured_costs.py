"""The costs of a user's own training, measured on this machine by what a run does: a few iterations as the settings
say, a worker's playing, a report fetched through Ray again and again, and messages between two learners.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean, median
from time import perf_counter, process_time
from typing import Any

import cloudpickle

from rookery.cluster.ranks import FEW, SMALL, Ranks
from rookery.core.batch import joined
from rookery.core.errors import ConfigError
from rookery.core.process.cpu import tree_seconds, usable_cores
from rookery.core.timers import Timers
from rookery.rollout.order import in_order
from rookery.rollout.remote.hosts import Hosts, LocalHosts
from rookery.rollout.remote.remote_pool import CALL_SECONDS, RemotePool
from rookery.rollout.remote.shares import PlayReport, packed_weights
from rookery.run.plan.background_load import crowd
from rookery.run.plan.cost_model import CROWD, Costs, LinearCost, Workload
from rookery.run.plan.exchange_cost import CountedRanks, measure_exchange
from rookery.run.ranks.learners import check_learners
from rookery.run.ranks.run_workers import hosts_of
from rookery.run.settings import RunConfig
from rookery.run.trainer import Trainer

MakeTrainer = Callable[[Mapping[str, Any], Ranks], Trainer]
"""Makes a trainer for throwaway use, with some settings changed, as one of several learners or alone."""

FEWEST = 3
"""How often anything is measured at least."""

WARM_CALLS = 20
"""First calls that do not count, at most: the process has just begun."""

MANY_ROWS = 2_000
"""Decisions that are sent to measure what one costs: so many that they take longer than a call."""

MANY_REPORTS = 20
"""Reports whose decisions are sent together for it, at most."""

HERE = {"sampling.workers": 0, "sampling.asynchronous": False, "cluster.learners": 1, "evaluation.workers": 0}
"""Settings of a training that plays and learns in this process alone."""

PARTS_OF_TIME = {"iterations": 0.35, "playing": 0.25, "sending": 0.25, "learners": 0.15}
"""How the time to spend is divided."""


@dataclass(frozen=True)
class MeasuredCosts:
    """What was measured of a training.

    Attributes:
        costs: What its parts cost by themselves.
        workload: What it asks for.
        steps_per_second: What it reached in this process, without workers elsewhere.
        notes: What is to be known of how it was measured, in sentences.
    """

    costs: Costs
    workload: Workload
    steps_per_second: float
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Iterations:
    """Medians over some iterations.

    Attributes:
        seconds: Of an iteration.
        playing: Part of it in which environments were played.
        learning: Part of it in which was learned.
        updates: Updates of an iteration.
        decisions: What was learned from in it.
        env_steps: What was played in it.
    """

    seconds: float
    playing: float
    learning: float
    updates: float
    decisions: float
    env_steps: float

    @property
    def point(self) -> tuple[float, float]:
        """Decisions and seconds of an update."""
        return self.decisions / self.updates, self.learning / self.updates


class ReportSender:
    """Answers calls of a driver with what it was given, wherever it is: what sending costs without playing.

    Args:
        answers: What to answer, by name.
    """

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers = answers

    def send(self, name: str, *weights: Any) -> Any:
        """Returns the answer of that name; what comes with the call is received and forgotten."""
        return self._answers[name]

    def close(self) -> None:
        """Holds nothing."""


def measure_costs(make: MakeTrainer, shares: Sequence[int], learners: int, seconds: float) -> MeasuredCosts:
    """Measures what the parts of a training cost.

    Args:
        make: Makes trainers with the user's settings.
        shares: Copies of a worker, for each number of workers that is planned; empty if none is.
        learners: How many learn together, or 1.
        seconds: Time to spend, about, beside starting processes; more where single iterations take long.

    Raises:
        RookeryError: If the user's settings do not work, or not with workers or learners.
    """
    spend = {name: part * seconds for name, part in PARTS_OF_TIME.items()}
    with make(HERE, Ranks()) as trainer:
        config, lanes = trainer.config, trainer.config.sampling.num_envs
        shared = {"sampling.num_envs": -(-lanes // learners) * learners, "cluster.learners": learners}
        _check_together(config, shared["sampling.num_envs"], learners)
        own = _iterations(trainer, spend["iterations"])
        learn_cores = float(max(trainer.threads.values(), default=1))
        numbers = sum(value.numel() for name in trainer.learners for value in trainer.policies[name].parameters())
    steps, points, wall, cpu, crowded = own.env_steps / lanes, [own.point], [], [], 1.0
    for share in sorted({min(shares, default=lanes), max(shares, default=lanes)}):
        changed = {"sampling.workers": 1, "sampling.num_envs": share, "cluster.ray": "here"}
        one_worker = {"cluster.learners": 1, "evaluation.workers": 0, **changed}
        with make(one_worker, Ranks()) as trainer:
            points.append(_iterations(trainer, 0.0).point)
            assert isinstance(trainer.pool, RemotePool)
            played = _play(trainer.pool, spend["playing"] / 3)
            wall.append((float(share), played.wall))
            cpu.append((float(share), played.cpu))
            if len(cpu) == 1:  # the fewest copies, of the most workers
                with crowd(CROWD * usable_cores() - 1):
                    crowded = _play(trainer.pool, spend["playing"] / 3).cpu / played.cpu
            workload, report = _workload(trainer.pool, trainer.config), played.report
            weights = [packed_weights(policy) for policy in trainer.policies.values()]
    own_step = own.playing / steps
    fixed = min(LinearCost.through(*wall).fixed, own_step)
    costs = Costs(
        vector_step=LinearCost.through(*wall),
        vector_step_cpu=LinearCost.through(*cpu),
        crowded=max(1.0, crowded),
        own_step=LinearCost(fixed, (own_step - fixed) / lanes),
        learn=LinearCost.through(*sorted(points)),
        rows=own.decisions / own.env_steps,
        learn_cores=learn_cores,
    )
    notes: tuple[str, ...] = ()
    if shares:
        costs, notes = _with_sending(costs, config, report, weights, spend["sending"])
    if learners > 1:
        ranks = CountedRanks(learners)
        with make({**HERE, **shared}, ranks) as trainer:
            costs = _with_exchange(costs, trainer, ranks, numbers, spend["learners"])
    return MeasuredCosts(costs, workload, own.env_steps / own.seconds, notes)


def _check_together(config: RunConfig, copies: int, learners: int) -> None:
    """Refuses, before anything is measured, what several learners cannot learn."""
    cluster, sampling = replace(config.cluster, learners=learners), replace(config.sampling, num_envs=copies)
    check_learners(replace(config, cluster=cluster, sampling=sampling), Ranks())


# --- playing and learning ---------------------------------------------------------------------------------------------


def _iterations(trainer: Trainer, seconds: float) -> _Iterations:
    """Trains for about so long, after an iteration that does not count."""
    found: list[_Iterations] = []
    trainer.train_iteration()
    began = perf_counter()
    while len(found) < FEWEST or perf_counter() - began < seconds:
        before, steps, decided = _timed(trainer.timers), trainer.env_steps, sum(trainer.decisions.values())
        start = perf_counter()
        trainer.train_iteration()
        took, after = perf_counter() - start, _timed(trainer.timers)
        playing, learning, updates = (after[at] - before[at] for at in range(3))
        played, learned = trainer.env_steps - steps, sum(trainer.decisions.values()) - decided
        found.append(_Iterations(took, playing, learning, max(1.0, updates), learned, played))
        if perf_counter() - began > max(seconds, 1.0) and len(found) > 1:
            break
    each = zip(*(vars(one).values() for one in found), strict=True)
    return _Iterations(*map(median, each))


def _timed(timers: Timers) -> tuple[float, float, float]:
    """Seconds of playing and of learning so far, and how many updates there were."""
    playing = learning = updates = 0.0
    for row in timers.rows():
        if row.label == "sample":
            playing += row.seconds
        elif row.label in ("training_step", "learn"):
            learning, updates = learning + row.seconds, updates + row.count
    return playing, learning, updates


@dataclass(frozen=True)
class _Played:
    """A worker's vector step.

    Attributes:
        wall: Its seconds.
        cpu: Its processor seconds.
        report: What the worker said last.
    """

    wall: float
    cpu: float
    report: PlayReport


def _play(pool: RemotePool, seconds: float) -> _Played:
    """Lets the worker of a pool in this process play for about so long, fragment by fragment."""
    demands = [demand for demand in pool.demands.values() if demand is not None]
    length = max(1, min((demand.fragment_length for demand in demands), default=1))
    walls: list[float] = []
    cpus: list[float] = []
    pool.settle()  # asynchronous playing has asked for more
    until, began = pool.standing[0].vector_steps, perf_counter()
    while len(walls) < 2 or perf_counter() - began < seconds:
        until += length
        before = process_time()
        call = pool.hosts.call(0, "play", until, None, pool.threads, pool.version, [])
        report: PlayReport = pool.hosts.result(call)
        cpus.append((process_time() - before) / length)
        walls.append(report.seconds / length)
    return _Played(fmean(walls), min(fmean(cpus), fmean(walls)), report)


def _workload(pool: RemotePool, config: RunConfig) -> Workload:
    """What the policies that learn ask for."""
    demands = [demand for demand in pool.demands.values() if demand is not None]
    if not demands:
        raise ConfigError("--plan: no policy learns; a plan is of a training")
    fixed = [demand.decisions for demand in demands]
    sampling = config.sampling
    return Workload(
        fragment_length=min(demand.fragment_length for demand in demands),
        batch=sum(number for number in fixed if number) if all(fixed) else None,
        asynchronous=sampling.asynchronous,
        in_flight=sampling.in_flight,
        longest_call=CALL_SECONDS,
        together=config.cluster.workers_per_process,
    )


# --- sending ----------------------------------------------------------------------------------------------------------


def _with_sending(
    costs: Costs, config: RunConfig, report: PlayReport, weights: list[Any], seconds: float
) -> tuple[Costs, tuple[str, ...]]:
    """Adds what calls, rollouts and weights cost; says where these were sent."""
    rows = sum(rollout.num_decisions for rollout in report.rollouts.values())
    many = min(max(1, -(-MANY_ROWS // max(1, rows))), MANY_REPORTS)
    rollouts = {
        f"{name} {number}": rollout.map(lambda _, tensor: tensor.clone())
        for name, rollout in report.rollouts.items()
        for number in range(many)
    }
    answers = {"nothing": replace(report, rollouts={}), "rows": replace(report, rollouts=rollouts)}
    hosts, note = _hosts(config)
    with closing(hosts):
        hosts.begin(0, cloudpickle.dumps(partial(ReportSender, answers)))
        empty = _calls(hosts, "nothing", None, 0.4 * seconds)
        full = _calls(hosts, "rows", None, 0.3 * seconds)
        handed = _calls(hosts, "nothing", weights, 0.3 * seconds)
    began, times = perf_counter(), 0
    while rows and (times < FEWEST or perf_counter() - began < 0.1):
        for name in report.rollouts:
            in_order(joined([rollouts[f"{name} {number}"] for number in range(many)]))
        times += 1
    together = (perf_counter() - began) / max(1, times * rows * many)
    sent = max(1, rows * many)
    sizes = len(cloudpickle.dumps(answers["rows"])) - len(cloudpickle.dumps(answers["nothing"]))
    return replace(
        costs,
        call=empty.driver,
        call_elsewhere=empty.elsewhere,
        round_trip=empty.wall,
        row=max(0.0, full.driver - empty.driver) / sent + together,
        row_elsewhere=max(0.0, full.elsewhere - empty.elsewhere) / sent,
        row_bytes=max(0, sizes) / sent,
        weights=max(0.0, handed.driver - empty.driver),
        weights_elsewhere=max(0.0, handed.elsewhere - empty.elsewhere),
        weight_bytes=float(sum(array.nbytes for arrays in weights for array in arrays)),
    ), (note,)


def _hosts(config: RunConfig) -> tuple[Hosts, str]:
    """Finds where workers can be on this machine, and says so."""
    if config.cluster.ray == "here":
        return LocalHosts(), "sending: within this process, as cluster.ray = here says; Ray's calls cost more"
    cluster = replace(config.cluster, ray="local", worker_gpus=0.0, working_directory=None)
    one = replace(config, cluster=cluster, sampling=replace(config.sampling, workers=1))
    try:
        return hosts_of(one, 1, "sampling.workers", lambda line: None), "sending: through a Ray of this machine"
    except ConfigError as error:
        if not isinstance(error.__cause__, ImportError):
            raise
    return LocalHosts(), (
        "sending: pickled within this process, because Ray is not installed; its calls cost more: pip install "
        "'rookery[ray]' and plan again"
    )


@dataclass(frozen=True)
class _Called:
    """A call, on average.

    Attributes:
        wall: Seconds until it is answered.
        driver: Processor seconds of this process.
        elsewhere: Those of all processes below it.
    """

    wall: float
    driver: float
    elsewhere: float


def _calls(hosts: Hosts, name: str, weights: Any, seconds: float) -> _Called:
    """Calls a `ReportSender` again and again for about so long, with weights that are new each time or without."""

    def call() -> None:
        given = [] if weights is None else [hosts.publish(weights)]
        hosts.result(hosts.call(0, "send", name, *given))

    warm, until = 0, perf_counter() + seconds
    while not warm or (warm < WARM_CALLS and perf_counter() < until):
        call()
        warm += 1
    walls: list[float] = []
    driver, below, began = process_time(), tree_seconds(), perf_counter()
    while len(walls) < FEWEST or perf_counter() - began < seconds:
        start = perf_counter()
        call()
        walls.append(perf_counter() - start)
    mine, everybody = process_time() - driver, tree_seconds() - below
    return _Called(fmean(walls), mine / len(walls), max(0.0, everybody - mine) / len(walls))


# --- learners ---------------------------------------------------------------------------------------------------------


def _with_exchange(costs: Costs, trainer: Trainer, ranks: CountedRanks, numbers: int, seconds: float) -> Costs:
    """Adds what learners exchange in an update, and what that costs."""
    trainer.train_iteration()
    ranks.messages = ranks.bytes = 0
    begun = _timed(trainer.timers)[2]
    found = _iterations(trainer, 0.5 * seconds)
    updates = _timed(trainer.timers)[2] - begun
    decisions, took = found.point
    messages, line = ranks.messages / updates, measure_exchange(numbers)
    return replace(
        costs,
        exchanges=messages,
        exchange_rows=decisions / ranks.size,
        agree=max(0.0, took - costs.learn(decisions / ranks.size)) / messages,
        exchange=line.fixed,
        exchange_bytes=ranks.bytes / updates,
        exchange_byte=line.each,
        few=FEW if numbers <= SMALL else 0,
    )
