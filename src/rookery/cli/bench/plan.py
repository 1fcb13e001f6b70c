"""``rookery bench --plan``: what so many workers and learners are predicted to reach, from costs measured here."""

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
"""What is taken for the link between two machines: gigabits a second each way, and milliseconds of a message."""

WIDTH = 110
"""Columns of text that is not for a terminal."""

MEASURING = 0.7
"""Part of the time to spend that is not for starting processes."""

USUAL_WORKERS = (1, 2, 4, 8)
"""What is planned if neither workers nor learners are asked for."""


@dataclass(frozen=True)
class PlanOptions:
    """What options say that is to be planned, as they were given.

    Attributes:
        workers: Numbers of workers, ``1,2,4``.
        learners: Numbers of learners.
        copies: Of each worker.
        cores: Of a machine.
        machines: How many.
        gigabits: A second, between machines.
        latency: Between them, milliseconds.
    """

    workers: str | None = None
    learners: str | None = None
    copies: int | None = None
    cores: int | None = None
    machines: int | None = None
    gigabits: float | None = None
    latency: float | None = None

    def check_unused(self) -> None:
        """Refuses options that only a plan takes.

        Raises:
            ConfigError: If one was given; names it.
        """
        for name, value in vars(self).items():
            if value is not None:
                raise ConfigError(f"{LINE}: --{name} is of a plan: rookery bench --plan ENV --{name} {value}")

    def check(self) -> None:
        """Refuses numbers that nothing can be.

        Raises:
            ConfigError: Names the option, and what it takes.
        """
        for name in ("copies", "cores", "machines", "gigabits", "latency"):
            value = getattr(self, name)
            if value is not None and (value < 0 if name == "latency" else value <= 0):
                least = "0" if name == "latency" else "above 0" if name == "gigabits" else "1"
                raise ConfigError(f"{LINE}: --{name} {value:g}: must be {least}{' or more' * (least != 'above 0')}")

    def numbers(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Returns the numbers of workers, none if nobody asks for any, and of learners.

        Raises:
            ConfigError: If one is no whole number from 1 on; says what to write.
        """
        workers = _numbers("workers", self.workers, "leave --workers out, and learners play by themselves")
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
                f"{LINE}: --{name} {text}: {word!r} is no number of {name}; write numbers from 1 on with commas, as in "
                f"--{name} 1,2,4, or {instead}"
            )
    return tuple(sorted({int(word) for word in words}))


def show_plan(layers: list[Layer], preset: str, asked: PlanOptions, seconds: float, as_json: bool) -> None:
    """Measures the costs of a training, and prints what workers and learners are predicted to reach.

    Args:
        layers: Settings as the command gives them.
        preset: Its name.
        asked: What is to be planned.
        seconds: Time to spend on measuring, about.
        as_json: Whether to print one JSON object instead of a table.

    Raises:
        RookeryError: If options or settings are wrong, or there are fewer copies than workers or learners.
    """
    asked.check()
    workers, learners = asked.numbers()
    from rookery.cluster.ranks import Ranks
    from rookery.core.process.processor import usable_cores
    from rookery.run.plan.cost_model import Machines
    from rookery.run.plan.measured_costs import HERE, measure_costs
    from rookery.run.plan.speed import describe
    from rookery.run.trainer import Trainer

    def make(chosen: Mapping[str, Any], ranks: Ranks) -> Trainer:
        return Trainer(config=[*layers, Layer("plan", dict(chosen))], preset=preset, seed=0, ranks=ranks)

    with make(HERE, Ranks()) as trainer:
        about, own_copies = describe(trainer), trainer.config.sampling.num_envs
    rows = [
        (count, many, _copies(asked, own_copies, count, many))
        for many in learners
        for count in (0, *workers)
        if count % many == 0
    ]
    shares = [-(-total // count) for count, _, total in rows if count]
    found = measure_costs(make, shares, min((one for one in learners if one > 1), default=1), MEASURING * seconds)
    machines = Machines(
        cores=asked.cores or usable_cores(),
        count=asked.machines or 1,
        bandwidth=1e9 / 8 * (asked.gigabits or GIGABITS),
        latency=1e-3 * (LATENCY_MS if asked.latency is None else asked.latency),
    )
    show_predictions(about, found, machines, rows, as_json)


def _copies(asked: PlanOptions, own: int, workers: int, learners: int) -> int:
    """Says how many copies there are in all.

    Raises:
        ConfigError: If there are fewer than those who are to share them.
    """
    sharing = max(workers, learners)
    if asked.copies is not None:
        return asked.copies * sharing
    if own < sharing or own % learners:
        what = f"{workers} workers" if workers >= learners else f"{learners} learners"
        raise ConfigError(
            f"{LINE}: {what} cannot share sampling.num_envs = {own} copies{'' if own < sharing else ' equally'}: set "
            f"sampling.num_envs={-(-sharing // learners) * learners}, or give each its own, as in --copies 1"
        )
    return own


# --- what is printed --------------------------------------------------------------------------------------------------


def show_predictions(
    about: Mapping[str, Any],
    found: MeasuredCosts,
    machines: Machines,
    rows: list[tuple[int, int, int]],
    as_json: bool,
) -> None:
    """Prints predictions as a table, with what they were made of and what was assumed.

    Args:
        about: What was measured, and on what, as `rookery.run.plan.speed.describe` says it.
        found: The costs.
        machines: What there is to run on.
        rows: Workers, learners and copies of each prediction.
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
    console.print(f"predicted, {playing} playing, {_place(machines)}:")
    console.print(table_of(predictions))
    for line in assumptions(machines, predictions):
        console.print(line, soft_wrap=True)


def cost_lines(costs: Costs, workload: Workload) -> list[str]:
    """Returns the measured costs in sentences, a line each."""
    step, cpu, batch = costs.vector_step(1), costs.vector_step_cpu(1), workload.batch or workload.fragment_length
    of = "" if workload.batch else " of one copy"
    lines = [
        f"a step of one copy: {_time(step)}, of the processor {_time(cpu)}; each copy more "
        f"{_time(costs.vector_step.each)}",
        f"an update from {batch:,} decisions{of}: {_time(costs.learn(batch))}",
    ]
    if costs.round_trip:
        lines += [
            f"a worker's call: {_time(costs.round_trip)}, of the driver's processor {_time(costs.call)}, of others "
            f"{_time(costs.call_elsewhere)}",
            f"a decision to the driver: {_time(costs.row)} there, {costs.row_bytes:,.0f} bytes; weights: "
            f"{_time(costs.weights)} once, {costs.weight_bytes / 1e6:.2g} MB",
        ]
    if costs.exchanges:
        lines.append(
            f"two learners: {costs.exchanges:.0f} messages an update, {_time(costs.exchange)} each, with "
            f"{_time(costs.agree)} of computing"
        )
    return lines


def table_of(predictions: list[Prediction]) -> Table:
    """Returns the table: a row for each prediction, with the share of the time that each part takes by itself."""
    from rookery.run.plan.cost_model import CORES, EXCHANGE, LEARNING, PLAYING, TRANSFER

    shown = (PLAYING, CORES, TRANSFER, LEARNING, EXCHANGE)
    parts = [part for part in shown if any(part in one.parts for one in predictions)]
    table = Table("workers", box=None, pad_edge=False, header_style="bold")
    for title in ("learners", "copies", "steps/s", *parts):
        table.add_column(title, justify="right")
    table.add_column("bottleneck")
    table.columns[0].justify = "right"
    for one in predictions:
        shares = [f"{100 * one.share(part):.0f} %" if part in one.parts else "" for part in parts]
        numbers = map(str, (one.workers or "none", one.learners, one.copies))
        table.add_row(*numbers, f"{one.steps_per_second:,.0f}", *shares, one.bottleneck)
    return table


def assumptions(machines: Machines, predictions: list[Prediction]) -> list[str]:
    """Returns what was assumed and not measured, a line each."""
    lines = [
        "Shares are of an update: beside each other where playing is asynchronous, else one after the other; cores "
        "stand for playing that waits for cores. Assumed: workers and learners are alike, cores are shared evenly."
    ]
    if machines.count > 1:
        lines.append(
            f"Assumed of the link between machines, and not measured: {machines.bandwidth * 8e-9:g} Gbit/s, "
            f"{1e3 * machines.latency:g} ms (--gigabits, --latency); that all machines are as fast as this one."
        )
    if any(one.workers and one.learners > 1 for one in predictions):
        lines.append("So far a run refuses workers together with several learners: these rows say what it would reach.")
    return lines


def _place(machines: Machines) -> str:
    each = f"{machines.cores:g} core{'s' * (machines.cores != 1)}"
    return each if machines.count == 1 else f"{machines.count} machines of {each}"


def _time(seconds: float) -> str:
    """Seconds as people read them."""
    return f"{1e6 * seconds:.3g} us" if seconds < 1e-3 else f"{1e3 * seconds:.3g} ms"
