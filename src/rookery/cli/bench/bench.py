"""``rookery bench``: how fast an environment can be trained in here, what holds it back, and what to set."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from rookery.cli.bench.plan import PlanOptions, show_plan
from rookery.cli.train import layers_of_arguments
from rookery.core.settings.layers import Layer

if TYPE_CHECKING:
    from rookery.run.plan.speed import Survey, Tried
    from rookery.run.trainer import Trainer

USUAL = "CartPole-v1"
"""What is measured if nobody names an environment."""

Numbers = Annotated[str | None, typer.Option(metavar="N,N,...", help="Numbers of them to plan, as 1,2,4,8.")]
"""What stands in an option that takes several numbers."""


def bench(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ENV|FILE.yaml|PATH=VALUE",
            help="As for train; CartPole-v1 if no environment is named.",
            show_default=False,
        ),
    ] = None,
    algo: Annotated[str | None, typer.Option(help="Algorithm: a name such as ppo, or my.module:MyConfig.")] = None,
    preset: Annotated[str, typer.Option(help="Settings for a known environment: auto, none or a name.")] = "auto",
    seconds: Annotated[float, typer.Option(min=0.1, help="Time to spend, about.")] = 25.0,
    plan: Annotated[bool, typer.Option("--plan", help="Predict steps/s of workers and learners instead.")] = False,
    workers: Numbers = None,
    learners: Numbers = None,
    copies: Annotated[int | None, typer.Option(help="Of each worker; else they share sampling.num_envs.")] = None,
    cores: Annotated[int | None, typer.Option(help="Of a machine, for --plan; else as many as here.")] = None,
    machines: Annotated[int | None, typer.Option(help="For --plan; 1 if not given.")] = None,
    gigabits: Annotated[float | None, typer.Option(help="Between machines, a second; 10 if not given.")] = None,
    latency: Annotated[float | None, typer.Option(help="Between machines, ms; 0.2 if not given.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object, nothing else.")] = False,
) -> None:
    """Measure how fast this machine trains in an environment, what holds it back, and what to set.

    rookery bench my.module:MyEnv algorithm.minibatch_size=512

    rookery bench --plan my.module:MyEnv --workers 1,2,4,8 --learners 1,2
    """
    options = {"algorithm.name": algo, "logging.console": "quiet", "evaluation.every": 0}
    default = Layer("default of the command line", {"env.name": USUAL})
    layers = [default, *layers_of_arguments(what or [], None, options)]
    asked = PlanOptions(workers, learners, copies, cores, machines, gigabits, latency)
    if plan:
        show_plan(layers, preset, asked, seconds, as_json)
    else:
        asked.check_unused()
        show_survey(layers, preset, seconds, as_json)


def show_survey(layers: list[Layer], preset: str, seconds: float, as_json: bool) -> None:
    """Compares back ends and numbers of copies on this machine, and prints what comes of it.

    Args:
        layers: Settings as the command gives them.
        preset: Its name.
        seconds: Time to spend, about.
        as_json: Whether to print one JSON object instead of a table.
    """
    from rookery.envs.make import IMPLEMENTATIONS
    from rookery.run.plan.speed import describe, survey
    from rookery.run.trainer import Trainer

    def make(implementation: str, num_envs: int) -> Trainer:
        chosen = {"env.implementation": implementation, "sampling.num_envs": num_envs}
        return Trainer(config=[*layers, Layer("bench", chosen)], preset=preset, seed=0)

    with Trainer(config=layers, preset=preset, seed=0) as trainer:
        source, said = trainer.resolved.history["env.implementation"][-1]
        asked = "auto" if source == "measured" else said  # by the user or by the preset
        own = asked, trainer.config.sampling.num_envs
        about = describe(trainer)
        notes = trainer.notes
    others = [name for name in IMPLEMENTATIONS if name != "auto"] if asked == "auto" else [asked]
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
    """The columns: what was set, what it reached, and the shares of the time."""
    from rookery.run.plan.speed import PARTS

    table = Table("back end", box=None, pad_edge=False, header_style="bold")
    for title in ("copies", "steps/s", *PARTS.values(), "other"):
        table.add_column(title, justify="right")
    return table


def add_row(table: Table, choice: Tried) -> None:
    """One choice of settings, measured or not."""
    if choice.pace is None:
        table.add_row(choice.implementation, str(choice.num_envs), "-", style="dim")
        return
    shares = [f"{100 * share:.0f} %" for share in choice.pace.shares.values()]
    table.add_row(choice.implementation, str(choice.num_envs), f"{choice.steps_per_second:,.0f}", *shares)


def conclusions(found: Survey) -> list[str]:
    """Limits, what was left out, and advice, a line each."""
    limits, fastest = found.limits, found.fastest
    reached = fastest.steps_per_second / limits.together
    left_out = [choice for choice in found.tried if choice.reason]
    return [
        "",
        *(f"not measured: {one.implementation}, {one.num_envs} copies: {one.reason}" for one in left_out),
        f"limits of {fastest.implementation} with {fastest.num_envs} copies, steps/s: environment "
        f"{limits.environment:,.0f}, acting {limits.inference:,.0f}, learner {limits.learner:,.0f}; in turn "
        f"at most {limits.together:,.0f}, of which {100 * reached:.0f} % are reached",
        *found.advice,
    ]
