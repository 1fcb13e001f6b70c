"""Measures the costs of a user's training on this machine: a few iterations with the user's settings, sampling of a
worker, reports sent through Ray, and messages between two learners.
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
from rookery.core.packages import install_line
from rookery.core.process.cpu import tree_seconds, usable_cores
from rookery.core.timers import Timers
from rookery.rollout.order import in_order
from rookery.rollout.remote.hosts import Hosts, LocalHosts
from rookery.rollout.remote.remote_pool import CALL_SECONDS, RemotePool
from rookery.rollout.remote.shares import PlayReport, packed_weights
from rookery.run.plan.background_load import background_load
from rookery.run.plan.cost_model import CROWD, Costs, LinearCost, Workload
from rookery.run.plan.exchange_cost import CountedRanks, measure_exchange
from rookery.run.ranks.learners import check_learners
from rookery.run.ranks.run_workers import hosts_of
from rookery.run.settings import RunConfig
from rookery.run.trainer import Trainer

MakeTrainer = Callable[[Mapping[str, Any], Ranks], Trainer]
"""Makes a throwaway trainer, with some settings changed, as one of several learners or as the only one."""

FEWEST = 3
"""Minimum number of measurements."""

WARM_CALLS = 20
"""Maximum number of first calls that do not count, because the process has just started."""

MANY_ROWS = 2_000
"""Decisions that are sent to measure the cost of one: enough to take longer than a call."""

MANY_REPORTS = 20
"""Maximum number of reports whose decisions are sent together to measure the cost of a decision."""

HERE = {"sampling.workers": 0, "sampling.asynchronous": False, "cluster.learners": 1, "evaluation.workers": 0}
"""Settings of a training in this process only."""

PARTS_OF_TIME = {"iterations": 0.35, "playing": 0.25, "sending": 0.25, "learners": 0.15}
"""Parts of the time for measurements."""


@dataclass(frozen=True)
class MeasuredCosts:
    """Measured costs of a training.

    Attributes:
        costs: Costs of its parts.
        workload: Its workload.
        steps_per_second: Its speed in this process, without remote workers.
        notes: Notes on the measurement.
    """

    costs: Costs
    workload: Workload
    steps_per_second: float
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Iterations:
    """Medians over some iterations.

    Attributes:
        seconds: Seconds of an iteration.
        playing: Seconds of sampling.
        learning: Seconds of learning.
        updates: Number of updates.
        decisions: Decisions that were learned from.
        env_steps: Env steps.
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
    """Worker that answers calls with prepared values, to measure the cost of sending without sampling.

    Args:
        answers: Answers, by name.
    """

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers = answers

    def send(self, name: str, *weights: Any) -> Any:
        """Returns the answer of a name; weights are received and discarded."""
        return self._answers[name]

    def close(self) -> None:
        """Does nothing."""


def measure_costs(make: MakeTrainer, shares: Sequence[int], learners: int, seconds: float) -> MeasuredCosts:
    """Measures the costs of the parts of a training.

    Args:
        make: Makes trainers with the user's settings.
        shares: Environments of a worker, for each planned number of workers; empty if none is planned.
        learners: Number of learners.
        seconds: Approximate time to spend, without starting processes; more if single iterations take long.

    Raises:
        RookeryError: If the user's settings do not work, or do not work with workers or learners.
    """
    spend = {name: part * seconds for name, part in PARTS_OF_TIME.items()}
    with make(HERE, Ranks()) as trainer:
        config, lanes = trainer.config, trainer.config.sampling.num_envs
        shared = {"sampling.num_envs": -(-lanes // learners) * learners, "cluster.learners": learners}
        _check_together(config, shared["sampling.num_envs"], learners)
        own = _iterations(trainer, spend["iterations"])
        learn_cores = float(max(trainer._threads.values(), default=1))
        numbers = sum(value.numel() for name in trainer.learners for value in trainer.policies[name].parameters())
    steps, points, wall, cpu, crowded = own.env_steps / lanes, [own.point], [], [], 1.0
    for share in sorted({min(shares, default=lanes), max(shares, default=lanes)}):
        changed = {"sampling.workers": 1, "sampling.num_envs": share, "cluster.ray": "here"}
        one_worker = {"cluster.learners": 1, "evaluation.workers": 0, **changed}
        with make(one_worker, Ranks()) as trainer:
            points.append(_iterations(trainer, 0.0).point)
            assert isinstance(trainer._pool, RemotePool)
            played = _play(trainer._pool, spend["playing"] / 3)
            wall.append((float(share), played.wall))
            cpu.append((float(share), played.cpu))
            if len(cpu) == 1:  # the fewest environments, for the most workers
                with background_load(CROWD * usable_cores() - 1):
                    crowded = _play(trainer._pool, spend["playing"] / 3).cpu / played.cpu
            workload, report = _workload(trainer._pool, trainer.config), played.report
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
    """Refuses settings that do not work with several learners, before measuring."""
    cluster, sampling = replace(config.cluster, learners=learners), replace(config.sampling, num_envs=copies)
    check_learners(replace(config, cluster=cluster, sampling=sampling), Ranks())


# --- sampling and learning --------------------------------------------------------------------------------------------


def _iterations(trainer: Trainer, seconds: float) -> _Iterations:
    """Returns medians over a training of about `seconds`, after an iteration that does not count."""
    found: list[_Iterations] = []
    trainer.train_iteration()
    began = perf_counter()
    while len(found) < FEWEST or perf_counter() - began < seconds:
        before, steps, decided = _timed(trainer.timers), trainer.env_steps, sum(trainer._decisions.values())
        start = perf_counter()
        trainer.train_iteration()
        took, after = perf_counter() - start, _timed(trainer.timers)
        playing, learning, updates = (after[at] - before[at] for at in range(3))
        played, learned = trainer.env_steps - steps, sum(trainer._decisions.values()) - decided
        found.append(_Iterations(took, playing, learning, max(1.0, updates), learned, played))
        if perf_counter() - began > max(seconds, 1.0) and len(found) > 1:
            break
    each = zip(*(vars(one).values() for one in found), strict=True)
    return _Iterations(*map(median, each))


def _timed(timers: Timers) -> tuple[float, float, float]:
    """Returns the seconds of sampling and of learning so far, and the number of updates."""
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
        cpu: Its CPU seconds.
        report: Last report of the worker.
    """

    wall: float
    cpu: float
    report: PlayReport


def _play(pool: RemotePool, seconds: float) -> _Played:
    """Measures the worker of a pool in this process for about `seconds`, fragment by fragment."""
    demands = [demand for demand in pool.demands.values() if demand is not None]
    length = max(1, min((demand.fragment_length for demand in demands), default=1))
    walls: list[float] = []
    cpus: list[float] = []
    pool.settle()  # asynchronous sampling has requested more
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
    """Returns the workload of the learning policies."""
    demands = [demand for demand in pool.demands.values() if demand is not None]
    if not demands:
        raise ConfigError("--plan: no policy learns; a plan needs a training")
    fixed = [demand.decisions for demand in demands]
    sampling = config.sampling
    return Workload(
        fragment_length=min(demand.fragment_length for demand in demands),
        batch=sum(number for number in fixed if number) if all(fixed) else None,
        asynchronous=sampling.asynchronous,
        in_flight=sampling.max_requests_in_flight,
        longest_call=CALL_SECONDS,
        together=config.cluster.workers_per_process,
    )


# --- sending ----------------------------------------------------------------------------------------------------------


def _with_sending(
    costs: Costs, config: RunConfig, report: PlayReport, weights: list[Any], seconds: float
) -> tuple[Costs, tuple[str, ...]]:
    """Adds the costs of calls, rollouts and weights; returns a note on their transport."""
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
    """Returns processes for workers on this machine, with a note."""
    if config.cluster.ray == "here":
        return LocalHosts(), "sending: within this process, because cluster.ray = here; Ray's calls cost more"
    cluster = replace(config.cluster, ray="local", worker_gpus=0.0, working_directory=None)
    one = replace(config, cluster=cluster, sampling=replace(config.sampling, workers=1))
    try:
        return hosts_of(one, 1, "sampling.workers", lambda line: None), "sending: through a Ray of this machine"
    except ConfigError as error:
        if not isinstance(error.__cause__, ImportError):
            raise
    return LocalHosts(), (
        "sending: pickled within this process, because Ray is not installed; its calls cost more: "
        f"{install_line('ray')} and plan again"
    )


@dataclass(frozen=True)
class _Called:
    """A call, on average.

    Attributes:
        wall: Seconds until it is answered.
        driver: CPU seconds of this process.
        elsewhere: CPU seconds of all its child processes.
    """

    wall: float
    driver: float
    elsewhere: float


def _calls(hosts: Hosts, name: str, weights: Any, seconds: float) -> _Called:
    """Calls a `ReportSender` for about `seconds`, each time with new weights or without weights."""

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
    own, total = process_time() - driver, tree_seconds() - below
    return _Called(fmean(walls), own / len(walls), max(0.0, total - own) / len(walls))


# --- learners ---------------------------------------------------------------------------------------------------------


def _with_exchange(costs: Costs, trainer: Trainer, ranks: CountedRanks, numbers: int, seconds: float) -> Costs:
    """Adds the messages of learners in an update, and their costs."""
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
