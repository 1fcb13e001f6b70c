"""``rookery tune``: many trainings of one file of settings, in which some values are still to be chosen."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGINT
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from rookery.cli.runs import ROOT
from rookery.cli.train import LINE, sort_arguments, stop_values
from rookery.cli.tune_show import find_experiment, show
from rookery.core.errors import ConfigError
from rookery.core.interrupt import Interrupted
from rookery.core.layers import Layer, override_layer, yaml_layer

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
app.command()(show)


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
    workers: Annotated[str | None, typer.Option(help="auto, here, processes, ray.")] = None,
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

    sys.path.insert(0, "")  # so that my.module:MyEnv is found beside where the command is given
    files, overrides, env = sort_arguments(what, None)
    styles = [style for style, on in (("quiet", quiet), ("plain", plain), ("json", json_rows)) if on]
    if len(styles) > 1:
        raise ConfigError(f"{LINE}: --{styles[0]} and --{styles[1]} exclude each other")
    options = {
        "env.name": env, "algorithm.name": algo, "seed": seed, "tune.num_samples": num_samples,
        "tune.repeats": repeats, "tune.metric": metric, "tune.mode": mode, "tune.search.name": search,
        "tune.scheduler.name": scheduler, "tune.workers": workers, "tune.console": styles[0] if styles else None,
    }  # fmt: skip
    given = {path: value for path, value in options.items() if value is not None}
    layers = [
        *map(yaml_layer, files),
        Layer(LINE, given | stop_values(stop or [])),
        override_layer(overrides, LINE),
    ]
    with exit_code_of_interrupts():
        outcome(experiment(config=layers, preset=preset, folder=folder_named(name), force=force), bool(json_rows))


@app.command()
def resume(
    folder: Annotated[Path, typer.Argument(help="Folder of the experiment, or its name in runs/.")],
    num_samples: Annotated[
        int | None, typer.Option("-n", "--num-samples", help="Suggestions, with those tried.")
    ] = None,
    workers: Annotated[str | None, typer.Option(help="auto, here, processes, ray.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show the outcome only.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Show plain lines, also at a terminal.")] = False,
) -> None:
    """Go on with an experiment that was stopped or killed: what is finished stays.

    rookery tune resume runs/lr
    """
    from rookery.tune import resume as go_on

    sys.path.insert(0, "")
    console = "quiet" if quiet else "plain" if plain else "auto"
    changes = {"num_samples": num_samples, "workers": workers, "console": console}
    given = {setting: value for setting, value in changes.items() if value is not None}
    with exit_code_of_interrupts():
        outcome(go_on(find_experiment(folder), **given), False)


def folder_named(name: str | None) -> Path | None:
    """Where the experiment of a name lies.

    Raises:
        ConfigError: If that is no name.
    """
    if name is not None and not re.fullmatch(r"\w[\w.+-]*", name):
        raise ConfigError(f"{LINE}: --name {name!r} must be made of letters, digits and . _ + -")
    return None if name is None else ROOT / name


@contextmanager
def exit_code_of_interrupts() -> Iterator[None]:
    """After Ctrl-C, exits with 128 and the number of the signal; after a second one, says what is kept."""
    try:
        yield
    except KeyboardInterrupt as error:
        number = error.signal if isinstance(error, Interrupted) else SIGINT
        if not isinstance(error, Interrupted):  # else the runner has said it
            typer.echo("interrupted; what was tried is kept: rookery tune resume goes on", err=True)
        raise typer.Exit(128 + number) from None


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
