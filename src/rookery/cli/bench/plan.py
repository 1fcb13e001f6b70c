"""``rookery bench --plan``: predicts the speed of several workers and learners from costs measured here."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table

from rookery.cli.train import LINE
from rookery.core.errors import ConfigError
from rookery.core.settings.layers import Layer

if TYPE_CHECKING:
    from rookery.cluster.ranks import Ranks
    from rookery.run.plan.cost_model import Costs, Machines, Prediction, Workload
    from rookery.run.plan.measured_costs import MeasuredCosts
    from rookery.run.trainer import Trainer

GIGABITS, LATENCY_MS = 10.0, 0.2
"""Default link between two machines: gigabits a second each way, and latency of a message in milliseconds."""

WIDTH = 110
"""Width of the table if the output is not a terminal."""

MEASURING = 0.7
"""Fraction of the time that remains after starting processes."""

USUAL_WORKERS = (1, 2, 4, 8)
"""Default numbers of workers if neither workers nor learners are given."""


@dataclass(frozen=True)
class PlanOptions:
    """Options of a plan, as given.

    Attributes:
        workers: Counts of workers, ``1,2,4``.
        learners: Counts of learners.
        envs_per_worker: Environments of each worker.
        cores: Cores of a machine.
        machines: Number of machines.
        gigabits: Gigabits a second between machines.
        latency: Latency between machines, in milliseconds.
    """

    workers: str | None = None
    learners: str | None = None
    envs_per_worker: int | None = None
    cores: int | None = None
    machines: int | None = None
    gigabits: float | None = None
    latency: float | None = None

    def check_unused(self) -> None:
        """Refuses options that require --plan.

        Raises:
            ConfigError: If one was given; names it.
        """
        for field, value in vars(self).items():
            if value is not None:
                name = field.replace("_", "-")
                raise ConfigError(f"{LINE}: --{name} requires --plan: rookery bench --plan ENV --{name} {value}")

    def check(self) -> None:
        """Refuses numbers out of range.

        Raises:
            ConfigError: Names the option and its range.
        """
        for name in ("envs-per-worker", "cores", "machines", "gigabits", "latency"):
            value = getattr(self, name.replace("-", "_"))
            if value is not None and (value < 0 if name == "latency" else value <= 0):
                least = "0" if name == "latency" else "above 0" if name == "gigabits" else "1"
                raise ConfigError(f"{LINE}: --{name} {value:g}: must be {least}{' or more' * (least != 'above 0')}")

    def numbers(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Returns the numbers of workers, empty if none are requested, and of learners.

        Raises:
            ConfigError: If one is not a whole number of at least 1.
        """
        workers = _numbers("workers", self.workers, "leave --workers out, and learners play themselves")
        learners = _numbers("learners", self.learners, "leave --learners out for one")
        if not workers and not learners:
            workers = USUAL_WORKERS
        return workers, learners or (1,)


def _numbers(name: str, text: str | None, instead: str) -> tuple[int, ...]:
    """Reads ``1,2,4``; nothing if there is no text."""
    words = [] if text is None else [word.strip() for word in text.split(",")]
    for word in words:
        if not (word.isascii() and word.isdecimal()) or not int(word):
            raise ConfigError(
                f"{LINE}: --{name} {text}: {word!r} is not a number of {name}; write numbers from 1 on with commas, "
                f"as in --{name} 1,2,4, or {instead}"
            )
    return tuple(sorted({int(word) for word in words}))


def show_plan(layers: list[Layer], preset: str, plan_options: PlanOptions, seconds: float, as_json: bool) -> None:
    """Measures the costs of a training, and prints the predicted speed of workers and learners.

    Args:
        layers: Settings of the command.
        preset: Name of the preset.
        plan_options: Options of the plan.
        seconds: Approximate time for measurements.
        as_json: Whether to print one JSON object instead of a table.

    Raises:
        RookeryError: If options or settings are wrong, or there are fewer environments than workers or learners.
    """
    plan_options.check()
    workers, learners = plan_options.numbers()
    from rookery.cluster.ranks import Ranks
    from rookery.core.process.cpu import usable_cores
    from rookery.run.plan.cost_model import Machines
    from rookery.run.plan.measured_costs import HERE, measure_costs
    from rookery.run.plan.speed import describe
    from rookery.run.trainer import Trainer

    def make(chosen: Mapping[str, Any], ranks: Ranks) -> Trainer:
        return Trainer(config=[*layers, Layer("plan", dict(chosen))], preset=preset, seed=0, ranks=ranks)

    with make(HERE, Ranks()) as trainer:
        about, own_envs = describe(trainer), trainer.config.sampling.num_envs
    rows = [
        (count, many, _total_envs(plan_options, own_envs, count, many))
        for many in learners
        for count in (0, *workers)
        if count % many == 0
    ]
    shares = [-(-total // count) for count, _, total in rows if count]
    found = measure_costs(make, shares, min((one for one in learners if one > 1), default=1), MEASURING * seconds)
    machines = Machines(
        cores=plan_options.cores or usable_cores(),
        count=plan_options.machines or 1,
        bandwidth=1e9 / 8 * (plan_options.gigabits or GIGABITS),
        latency=1e-3 * (LATENCY_MS if plan_options.latency is None else plan_options.latency),
    )
    show_predictions(about, found, machines, rows, as_json)


def _total_envs(plan_options: PlanOptions, own: int, workers: int, learners: int) -> int:
    """Returns the total number of environments.

    Raises:
        ConfigError: If there are fewer than workers or learners.
    """
    sharing = max(workers, learners)
    if plan_options.envs_per_worker is not None:
        return plan_options.envs_per_worker * sharing
    if own < sharing or own % learners:
        what = f"{workers} workers" if workers >= learners else f"{learners} learners"
        raise ConfigError(
            f"{LINE}: {what} cannot share sampling.num_envs = {own}{'' if own < sharing else ' equally'}: set "
            f"sampling.num_envs={-(-sharing // learners) * learners}, or give each its own, as in --envs-per-worker 1"
        )
    return own


# --- output -----------------------------------------------------------------------------------------------------------


def show_predictions(
    about: Mapping[str, Any],
    found: MeasuredCosts,
    machines: Machines,
    rows: list[tuple[int, int, int]],
    as_json: bool,
) -> None:
    """Prints predictions as a table, with measured costs and assumptions.

    Args:
        about: Description of the training and the machine, from `rookery.run.plan.speed.describe`.
        found: The measured costs.
        machines: The machines to predict for.
        rows: Workers, learners and environments of each prediction.
        as_json: Whether to print one JSON object instead.
    """
    from rookery.run.plan.cost_model import predict

    predictions = [predict(found.costs, found.workload, machines, *row) for row in rows]
    if as_json:
        plain = {"measured": asdict(found), "machines": asdict(machines), "plan": [asdict(one) for one in predictions]}
        typer.echo(json.dumps({**about, **plain}, indent=1))
        return
    wide = None if sys.stdout.isatty() else WIDTH
    console = Console(file=sys.stdout, highlight=False, markup=False, width=wide)
    playing = "asynchronous" if found.workload.asynchronous else "synchronous"
    console.print("{env}, {algorithm}: {cores} cores, learning on {torch_threads} ({path})".format(**about))
    console.print(f"measured without workers: {found.steps_per_second:,.0f} steps/s")
    for line in [*cost_lines(found.costs, found.workload), *found.notes]:
        console.print(line, soft_wrap=True)
    console.print(f"predicted, {playing} sampling, {_place(machines)}:")
    console.print(table_of(predictions))
    for line in assumptions(machines, predictions):
        console.print(line, soft_wrap=True)


def cost_lines(costs: Costs, workload: Workload) -> list[str]:
    """Returns the measured costs as text, one line each."""
    step, cpu, batch = costs.vector_step(1), costs.vector_step_cpu(1), workload.batch or workload.fragment_length
    of = "" if workload.batch else " of one environment"
    lines = [
        f"a step of one environment: {_time(step)}, CPU time {_time(cpu)}; each further environment "
        f"{_time(costs.vector_step.each)}",
        f"an update from {batch:,} decisions{of}: {_time(costs.learn(batch))}",
    ]
    if costs.round_trip:
        lines += [
            f"a call of a worker: {_time(costs.round_trip)}, CPU time of the driver {_time(costs.call)}, of other "
            f"processes {_time(costs.call_elsewhere)}",
            f"a decision sent to the driver: {_time(costs.row)} there, {costs.row_bytes:,.0f} bytes; weights: "
            f"{_time(costs.weights)} once, {costs.weight_bytes / 1e6:.2g} MB",
        ]
    if costs.exchanges:
        lines.append(
            f"two learners: {costs.exchanges:.0f} messages for each update, {_time(costs.exchange)} each, with "
            f"{_time(costs.agree)} of computation"
        )
    return lines


def table_of(predictions: list[Prediction]) -> Table:
    """Returns the table: a row for each prediction, with the share of the time of each part."""
    from rookery.run.plan.cost_model import CORES, EXCHANGE, LEARNING, PLAYING, TRANSFER

    shown = (PLAYING, CORES, TRANSFER, LEARNING, EXCHANGE)
    parts = [part for part in shown if any(part in one.parts for one in predictions)]
    table = Table("workers", box=None, pad_edge=False, header_style="bold")
    for title in ("learners", "envs", "steps/s", *parts):
        table.add_column(title, justify="right")
    table.add_column("bottleneck")
    table.columns[0].justify = "right"
    for one in predictions:
        shares = [f"{100 * one.share(part):.0f} %" if part in one.parts else "" for part in parts]
        counts = map(str, (one.workers or "none", one.learners, one.copies))
        table.add_row(*counts, f"{one.steps_per_second:,.0f}", *shares, one.bottleneck)
    return table


def assumptions(machines: Machines, predictions: list[Prediction]) -> list[str]:
    """Returns the assumptions, one line each."""
    lines = [
        "Shares are of an update: in parallel if sampling is asynchronous, else one after the other; cores is the time "
        "that sampling waits for cores. Assumed: workers and learners are alike, cores are shared evenly."
    ]
    if machines.count > 1:
        lines.append(
            f"Assumed, not measured: the link between machines has {machines.bandwidth * 8e-9:g} Gbit/s and "
            f"{1e3 * machines.latency:g} ms (--gigabits, --latency); all machines are as fast as this one."
        )
    if any(one.workers and one.learners > 1 for one in predictions):
        lines.append("Runs do not support workers together with several learners yet: these rows are hypothetical.")
    return lines


def _place(machines: Machines) -> str:
    each = f"{machines.cores:g} core{'s' * (machines.cores != 1)}"
    return each if machines.count == 1 else f"{machines.count} machines of {each}"


def _time(seconds: float) -> str:
    """Returns a time as text, with its unit."""
    return f"{1e6 * seconds:.3g} us" if seconds < 1e-3 else f"{1e3 * seconds:.3g} ms"
