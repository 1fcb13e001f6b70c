"""``rookery tune``: many trainings of one file of settings, in which some values are still to be chosen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from rookery.cli.runs import NEWEST, ROOT, TrustedCode, find_experiment
from rookery.cli.train import checked_name, console_style, exit_of_interrupts, layers_of_arguments, stop_values

if TYPE_CHECKING:
    from rookery.tune.analysis import Analysis


class Verbs(TyperGroup):
    """``rookery tune X`` is ``rookery tune run X`` unless X is a verb."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Puts the verb in that goes without saying."""
        if args and args[0] not in self.commands and args[0] not in ("--help", "--version"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=Verbs, no_args_is_help=True, help="Train with many settings; stop, clone and compare.")


@app.command()
def run(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="ENV|FILE.yaml|PATH=VALUE",
            help="As of rookery train; a value may be a domain, as in algorithm.lr='{loguniform: [1e-4, 1e-2]}'.",
            show_default=False,
        ),
    ],
    algo: Annotated[str | None, typer.Option(help="Algorithm: a name such as ppo, or my.module:MyConfig.")] = None,
    seed: Annotated[int | None, typer.Option(help="Names all random numbers; drawn if not given.")] = None,
    stop: Annotated[
        list[str] | None, typer.Option(metavar="METRIC=NUMBER", help="End each trial when reached. Repeatable.")
    ] = None,
    num_samples: Annotated[int | None, typer.Option("-n", "--num-samples", help="Suggestions to try.")] = None,
    repeats: Annotated[int | None, typer.Option(help="Seeds each suggestion is tried with.")] = None,
    metric: Annotated[str | None, typer.Option(help="What trials are judged by.")] = None,
    mode: Annotated[str | None, typer.Option(help="Whether more of it is better (max) or less (min).")] = None,
    search: Annotated[str | None, typer.Option(help="random, optuna.")] = None,
    scheduler: Annotated[str | None, typer.Option(help="fifo, median, asha, hyperband, pbt, pb2.")] = None,
    place: Annotated[str | None, typer.Option(help="Where trials run: auto, here, processes, ray.")] = None,
    preset: Annotated[str, typer.Option(help="Settings for a known environment: auto, none or a name.")] = "auto",
    name: Annotated[str | None, typer.Option(help="Name of the experiment's folder in runs/.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show the outcome only.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Show plain lines, also at a terminal.")] = False,
    json_rows: Annotated[bool, typer.Option("--json", help="Write a row of JSON a result, nothing else.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the experiment of that name.")] = False,
) -> None:
    """Try settings (the word run may be left out).

    rookery tune spec.yaml tune.num_samples=20

    rookery tune CartPole-v1 algorithm.lr='{grid_search: [1e-3, 3e-4]}' --stop return_mean=475 --stop env_steps=100000
    """
    from rookery.tune import run as experiment

    options = {
        "algorithm.name": algo, "seed": seed, "tune.num_samples": num_samples, "tune.repeats": repeats,
        "tune.metric": metric, "tune.mode": mode, "tune.search.name": search, "tune.scheduler.name": scheduler,
        "tune.place": place, "tune.console": console_style(quiet=quiet, plain=plain, json=json_rows),
        **stop_values(stop or []),
    }  # fmt: skip
    layers = layers_of_arguments(what, None, options)
    folder = None if name is None else ROOT / checked_name("--name", name)
    with exit_of_interrupts(kept):
        outcome(experiment(config=layers, preset=preset, folder=folder, force=force), bool(json_rows))


@app.command()
def resume(
    folder: Annotated[Path, typer.Argument(help="Folder of the experiment, or its name in runs/.")],
    num_samples: Annotated[
        int | None, typer.Option("-n", "--num-samples", help="Suggestions, with those tried.")
    ] = None,
    place: Annotated[str | None, typer.Option(help="Where trials run: auto, here, processes, ray.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show the outcome only.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Show plain lines, also at a terminal.")] = False,
    trust_code: TrustedCode = False,
) -> None:
    """Go on with an experiment that was stopped or killed: what is finished stays.

    rookery tune resume runs/lr
    """
    from rookery.tune import resume as go_on

    console = "quiet" if quiet else "plain" if plain else "auto"
    changes = {"num_samples": num_samples, "place": place, "console": console}
    given = {setting: value for setting, value in changes.items() if value is not None}
    with exit_of_interrupts(kept):
        outcome(go_on(find_experiment(folder), trust_code, **given), False)


@app.command()
def show(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder of an experiment, or its name in runs/.", show_default=False),
    ],
    metric: Annotated[
        str | None, typer.Option(help="A column of metrics.jsonl to judge by.", show_default="the experiment's")
    ] = None,
    mode: Annotated[str | None, typer.Option(help="Whether more of it is better: max or min.")] = None,
    scope: Annotated[
        str | None,
        typer.Option(
            help="Which rows of a trial count: last, best, mean, last-5, last-10.", show_default="the experiment's"
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write a report: .html (one file, needs nothing else) or .png."),
    ] = None,
) -> None:
    """Show the trials of an experiment, the best of them, and how to go on; it may be running.

    rookery tune show runs/lr -o report.html
    """
    from rookery.report.experiment_table import print_table
    from rookery.tune.analysis import Analysis, write_report

    analysis = Analysis(find_experiment(folder), metric, mode, scope)
    print_table(analysis.summary(), len(analysis) + NEWEST)
    typer.echo(f"\n{analysis.outcome()}")
    if output is not None:
        write_report(analysis, output)
        typer.echo(f"report: {output}")


def kept(orderly: bool) -> str:
    """Says what is left after a second Ctrl-C; after the first the runner has said it."""
    return "" if orderly else "interrupted; what was tried is kept: rookery tune resume goes on"


def outcome(analysis: Analysis, silent: bool) -> None:
    """What can be done with what came of it; says which trials failed, and exits with 1 if all have."""
    if not silent:
        typer.echo(analysis.outcome())
    failed = [trial for trial in analysis.trials if trial.status.value == "ERROR"]
    if failed:
        typer.echo(
            f"{len(failed)} of {len(analysis.trials)} trials failed; {failed[0].name} with: {failed[0].reason}; "
            f"see error.txt and log.txt in {failed[0].folder}",
            err=True,
        )
    if failed and len(failed) == len(analysis.trials):
        raise typer.Exit(1)
