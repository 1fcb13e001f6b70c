"""``rookery bench``: training speed on this machine, with the bottleneck and the settings to change."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from rookery.cli import completion
from rookery.cli.bench.plan import PlanOptions, show_plan
from rookery.cli.train import Algorithm, layers_of_arguments
from rookery.core.settings.layers import Layer

if TYPE_CHECKING:
    from rookery.run.plan.speed import Survey, Tried
    from rookery.run.trainer import Trainer

DEFAULT_ENV = "CartPole-v1"
"""Default environment."""

Numbers = Annotated[str | None, typer.Option(metavar="N,N,...", help="How many, for --plan, as 1,2,4,8.")]
"""Option with several numbers."""


def bench(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ENV|FILE.yaml|PATH=VALUE",
            help="As for rookery train; default environment: CartPole-v1.",
            show_default=False,
            autocompletion=completion.words,
        ),
    ] = None,
    algo: Algorithm = None,
    preset: Annotated[str, typer.Option(help="Settings for a known environment: auto, none or a name.")] = "auto",
    seconds: Annotated[float, typer.Option(min=0.1, help="Approximate time for the benchmark.")] = 25.0,
    plan: Annotated[bool, typer.Option("--plan", help="Predict steps/s of workers and learners instead.")] = False,
    workers: Numbers = None,
    learners: Numbers = None,
    envs_per_worker: Annotated[
        int | None, typer.Option(help="Environments of each worker; default: they share sampling.num_envs.")
    ] = None,
    cores: Annotated[int | None, typer.Option(help="Cores of a machine, for --plan; default: of this one.")] = None,
    machines: Annotated[int | None, typer.Option(help="Number of machines, for --plan; default: 1.")] = None,
    gigabits: Annotated[float | None, typer.Option(help="Gbit/s between machines; default: 10.")] = None,
    latency: Annotated[float | None, typer.Option(help="Latency between machines in ms; default: 0.2.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object only.")] = False,
) -> None:
    """Measure the training speed in an environment on this machine, and name the bottleneck and what to set.

    rookery bench my.module:MyEnv algorithm.minibatch_size=512

    rookery bench --plan my.module:MyEnv --workers 1,2,4,8 --learners 1,2
    """
    options = {"algorithm.name": algo, "logging.console": "quiet", "evaluation.every": 0}
    default = Layer("default of the command line", {"env.name": DEFAULT_ENV})
    layers = [default, *layers_of_arguments(what or [], None, options)]
    plan_options = PlanOptions(workers, learners, envs_per_worker, cores, machines, gigabits, latency)
    if plan:
        show_plan(layers, preset, plan_options, seconds, as_json)
    else:
        plan_options.check_unused()
        show_survey(layers, preset, seconds, as_json)


def show_survey(layers: list[Layer], preset: str, seconds: float, as_json: bool) -> None:
    """Compares implementations and numbers of environments on this machine, and prints the results.

    Args:
        layers: Settings of the command.
        preset: Name of the preset.
        seconds: Approximate time for the benchmark.
        as_json: Whether to print one JSON object instead of a table.
    """
    from rookery.envs.make import IMPLEMENTATIONS
    from rookery.run.plan.speed import describe, survey
    from rookery.run.trainer import Trainer

    def make(implementation: str, num_envs: int) -> Trainer:
        chosen = {"env.implementation": implementation, "sampling.num_envs": num_envs}
        return Trainer(config=[*layers, Layer("bench", chosen)], preset=preset, seed=0)

    with Trainer(config=layers, preset=preset, seed=0) as trainer:
        source, value = trainer.resolved.history["env.implementation"][-1]
        choice = "auto" if source == "measured" else value  # from the user or the preset
        own = choice, trainer.config.sampling.num_envs
        about = describe(trainer)
        notes = trainer._notes
    others = [name for name in IMPLEMENTATIONS if name != "auto"] if choice == "auto" else [choice]
    if as_json:
        found = survey(make, own, others, seconds, watch=lambda choice: None)
        typer.echo(json.dumps({**about, **asdict(found)}, indent=1))
        return
    console = Console(file=sys.stdout, highlight=False, markup=False)
    console.print("{env}, {algorithm}: {cores} cores, learning on {torch_threads} ({path})".format(**about))
    for note in notes:
        console.print(note, soft_wrap=True)
    table = empty_table()
    with Live(table, console=console, auto_refresh=False) as live:

        def watch(choice: Tried) -> None:
            add_row(table, choice)
            live.refresh()

        found = survey(make, own, others, seconds, watch)
    for line in conclusions(found):
        console.print(line, soft_wrap=True)


def empty_table() -> Table:
    """Returns the table with its columns: settings, speed, and shares of the time."""
    from rookery.run.plan.speed import PARTS

    table = Table("implementation", box=None, pad_edge=False, header_style="bold")
    for title in ("envs", "steps/s", *PARTS.values(), "other"):
        table.add_column(title, justify="right")
    return table


def add_row(table: Table, choice: Tried) -> None:
    """Adds a row for a choice of settings, measured or not."""
    if choice.pace is None:
        table.add_row(choice.implementation, str(choice.num_envs), "-", style="dim")
        return
    shares = [f"{100 * share:.0f} %" for share in choice.pace.shares.values()]
    table.add_row(choice.implementation, str(choice.num_envs), f"{choice.steps_per_second:,.0f}", *shares)


def conclusions(found: Survey) -> list[str]:
    """Returns limits, skipped choices, and advice, one line each."""
    limits, fastest = found.limits, found.fastest
    reached = fastest.steps_per_second / limits.together
    left_out = [choice for choice in found.tried if choice.reason]
    return [
        "",
        *(f"not measured: {one.implementation}, {one.num_envs} environments: {one.reason}" for one in left_out),
        f"limits of {fastest.implementation} with {fastest.num_envs} environments, steps/s: environment "
        f"{limits.environment:,.0f}, inference {limits.inference:,.0f}, learner {limits.learner:,.0f}; one after "
        f"the other at most {limits.together:,.0f}, of which {100 * reached:.0f} % are reached",
        *found.advice,
    ]
