"""``rookery tune``: hyperparameter tuning from a settings file with domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from rookery.cli import completion
from rookery.cli.runs import NEWEST, ROOT, TrustedCode, find_experiment
from rookery.cli.train import (
    LINE,
    Algorithm,
    checked_name,
    console_style,
    exit_on_interrupt,
    layers_of_arguments,
    stop_values,
)
from rookery.core.errors import ConfigError
from rookery.core.settings.layers import nested

if TYPE_CHECKING:
    from rookery.tune.analysis import Analysis


class DefaultRunGroup(TyperGroup):
    """Command group in which ``rookery tune X`` means ``rookery tune run X`` unless X is a verb."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Inserts the default verb."""
        if args and args[0] not in self.commands and args[0] not in ("--help", "--version"):
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Returns the completions of verbs and, because the word run may be left out, those of its first argument."""
        return [
            *super().shell_complete(ctx, incomplete),
            *self.commands["run"].params[0].shell_complete(ctx, incomplete),
        ]


app = typer.Typer(
    cls=DefaultRunGroup, no_args_is_help=True, help="Tune hyperparameters: run, resume and show experiments."
)


@app.command()
def run(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="ENV|FILE.yaml|PATH=VALUE",
            help="As for rookery train; a value may be a domain, as in algorithm.lr='{loguniform: [1e-4, 1e-2]}'.",
            show_default=False,
            autocompletion=completion.words,
        ),
    ],
    algo: Algorithm = None,
    seed: Annotated[int | None, typer.Option(help="Random seed of the experiment.")] = None,
    stop: Annotated[
        list[str] | None, typer.Option(metavar="METRIC=NUMBER", help="Stop criterion of each trial. Repeatable.")
    ] = None,
    num_samples: Annotated[int | None, typer.Option("-n", "--num-samples", help="Number of suggestions.")] = None,
    repeats: Annotated[int | None, typer.Option(help="Number of seeds for each suggestion.")] = None,
    metric: Annotated[str | None, typer.Option(help="Metric to optimize.")] = None,
    mode: Annotated[str | None, typer.Option(help="Maximize (max) or minimize (min) the metric.")] = None,
    search: Annotated[str | None, typer.Option(help="Search: random, optuna.")] = None,
    scheduler: Annotated[str | None, typer.Option(help="Scheduler: fifo, median, asha, hyperband, pbt, pb2.")] = None,
    place: Annotated[str | None, typer.Option(help="Where trials run: auto, here, processes, ray.")] = None,
    preset: Annotated[str, typer.Option(help="Settings for a known environment: auto, none or a name.")] = "auto",
    name: Annotated[str | None, typer.Option(help="Name of the experiment's folder in runs/.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the final result only.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Print plain lines, also at a terminal.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON row for each result only.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the experiment of that name.")] = False,
) -> None:
    """Run an experiment (the word run may be left out).

    rookery tune spec.yaml tune.num_samples=20

    rookery tune CartPole-v1 algorithm.lr='{grid_search: [1e-3, 3e-4]}' --stop return_mean=475 --stop env_steps=100000
    """
    from rookery.run.choose_algorithm import USUAL, choice_notes, explain_choice, with_algorithm
    from rookery.tune import run as experiment

    options = {
        "algorithm.name": algo, "seed": seed, "tune.num_samples": num_samples, "tune.repeats": repeats,
        "tune.metric": metric, "tune.mode": mode, "tune.search.name": search, "tune.scheduler.name": scheduler,
        "tune.place": place, "tune.console": console_style(quiet=quiet, plain=plain, json=as_json),
        **stop_values(stop or []),
    }  # fmt: skip
    folder = None if name is None else ROOT / checked_name("--name", name)
    if foreign := foreign_arguments(what, {**options, "algorithm.name": algo}):
        with exit_on_interrupt(interrupt_message):
            print_outcome(experiment(**foreign, folder=folder, force=force), bool(as_json))
        return
    layers = with_algorithm(layers_of_arguments(what, None, options), preset)
    for note in choice_notes(layers):
        if not note.startswith(f"algorithm {USUAL}:"):
            typer.echo(note, err=True)
    with exit_on_interrupt(interrupt_message), explain_choice(layers):
        print_outcome(experiment(config=layers, preset=preset, folder=folder, force=force), bool(as_json))


def foreign_arguments(what: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the arguments of `tune.run` if a word names a file of another library; else None.

    Args:
        what: The words of the command line.
        options: Values of options by path; None for one that was not given.

    Raises:
        ConfigError: If an option is for files of Rookery.
    """
    from rookery.core.plugins import TUNED_FILES

    if not any(word.endswith((".yaml", ".yml")) for word in what):
        return None
    for name in TUNED_FILES:
        files = TUNED_FILES.load(name)
        if (found := files.arguments(what)) is None:
            continue
        if options.get("algorithm.name") is not None:
            raise ConfigError(f"{LINE}: --algo: the file of {name} names the algorithm")
        given = {path: value for path, value in options.items() if value is not None}
        tune = {path.removeprefix("tune."): value for path, value in given.items() if path.startswith("tune.")}
        stop = {path.removeprefix("stop."): value for path, value in given.items() if path.startswith("stop.")}
        return {**found, **nested(tune), "stop": files.stop() | stop, "seed": options.get("seed")}
    return None


@app.command()
def resume(
    folder: Annotated[Path, typer.Argument(help="Folder of the experiment, or its name in runs/.")],
    num_samples: Annotated[int | None, typer.Option("-n", "--num-samples", help="Total number of suggestions.")] = None,
    place: Annotated[str | None, typer.Option(help="Where trials run: auto, here, processes, ray.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the final result only.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Print plain lines, also at a terminal.")] = False,
    trust_code: TrustedCode = False,
) -> None:
    """Continue an experiment that was stopped or killed; finished trials stay.

    rookery tune resume runs/lr
    """
    from rookery.tune import resume as resume_experiment

    console = "quiet" if quiet else "plain" if plain else "auto"
    changes = {"num_samples": num_samples, "place": place, "console": console}
    given = {setting: value for setting, value in changes.items() if value is not None}
    with exit_on_interrupt(interrupt_message):
        print_outcome(resume_experiment(find_experiment(folder), trust_code, **given), False)


@app.command()
def show(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder of an experiment, or its name in runs/.", show_default=False),
    ],
    metric: Annotated[
        str | None, typer.Option(help="Column of metrics.jsonl to score by.", show_default="the experiment's")
    ] = None,
    mode: Annotated[str | None, typer.Option(help="Maximize (max) or minimize (min) the metric.")] = None,
    scope: Annotated[
        str | None,
        typer.Option(help="Rows in the score: last, best, mean, last-5, last-10.", show_default="the experiment's"),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write a report: .html (self-contained) or .png."),
    ] = None,
) -> None:
    """Show the trials of an experiment, the best one, and next steps; the experiment may be running.

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


def interrupt_message(orderly: bool) -> str:
    """Returns the message after a second Ctrl-C; after the first one the runner has printed it."""
    return "" if orderly else "interrupted; finished trials are saved; continue with: rookery tune resume"


def print_outcome(analysis: Analysis, silent: bool) -> None:
    """Prints the result and next steps, and failed trials; exits with 1 if all trials have failed."""
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
