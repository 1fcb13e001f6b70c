"""``rookery evaluate RUN --replay DATA``: off-policy evaluation, which estimates the return of a policy from data."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from rookery.cli.runs import find_saved, in_runs_folder
from rookery.core.errors import ConfigError, nearest

if TYPE_CHECKING:
    from rookery.report.offline_evaluation import OfflineEvaluation

ROWS = "judged.jsonl"
"""File of a run directory with a row for each off-policy evaluation."""

PICTURE = "judged.png"
"""File of a run directory with the plot of the latest."""

PANEL = "Off-policy evaluation, with --replay"

ReplayData = Annotated[
    str | None,
    typer.Option(
        "--replay",
        help="Data to estimate the return from: a run, checkpoint or replay directory, or PATH:POLICY.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]
PolicyName = Annotated[
    str | None,
    typer.Option("--policy", help="Policy of the run, if it has several.", rich_help_panel=PANEL, show_default=False),
]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        help="Estimator: fqe, is, wis, pdis or dr; default: all possible. Repeatable.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]
MoreSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Settings: gamma=1, probabilities=cloned, weights_below=20, fit_steps=20000, seed=1. Repeatable.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        help=f"File of the plot, by its suffix; default: {PICTURE} in the directory of the run.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]


def check_options(replay: str | None, playing: Mapping[str, Any], judging: Mapping[str, Any]) -> None:
    """Refuses options of the other kind of evaluation.

    Args:
        replay: Data for off-policy evaluation; None if episodes are played.
        playing: Options of playing by name; None if not given.
        judging: Options of off-policy evaluation, likewise.

    Raises:
        ConfigError: If an option does not belong to the kind; names it.
    """
    wrong = [name for name, value in (playing if replay is not None else judging).items() if value is not None]
    if wrong and replay is not None:
        raise ConfigError(
            f"{wrong[0]}: the option is for playing, and with --replay nothing is played; leave one of them out"
        )
    if wrong:
        raise ConfigError(f"{wrong[0]}: the option is for off-policy evaluation; name the data with --replay DATA")


def evaluate_saved(
    run: Path,
    checkpoint: str,
    replay: str,
    *,
    policy: str | None,
    methods: list[str] | None,
    given: list[str] | None,
    stochastic: bool,
    output: Path | None,
    as_json: bool,
    trust_code: bool,
) -> None:
    """Evaluates a policy of a run from data, prints the result, and writes a row and a plot to the run's directory."""
    from rookery.ope.offline_evaluation import evaluate_offline, no_progress

    saved = find_saved(run, checkpoint)
    settings = settings_of(given or [])
    if methods:
        settings["methods"] = methods
    with naming_options(settings):
        found = evaluate_offline(
            saved,
            in_runs_folder(replay),
            policy=policy,
            deterministic=not stochastic,
            trust_code=trust_code,
            progress=show_progress if sys.stderr.isatty() else no_progress,
            **settings,
        )
    if as_json:
        typer.echo(json.dumps(found.row()))
    else:
        print_evaluation(found)
    folder = folder_of(saved)
    if folder is None:
        if output is not None:
            draw(found, saved.name, output, requested=True)
        return
    with (folder / ROWS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(found.row()) + "\n")
    if draw(found, folder.name, output or folder / PICTURE, requested=output is not None) and not as_json:
        typer.echo(f"{'written':<12}{folder / ROWS}, {output or folder / PICTURE}")


def settings_of(words: list[str]) -> dict[str, Any]:
    """Returns settings given as ``NAME=VALUE``.

    Raises:
        ConfigError: If a word has another form.
    """
    found: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals:
            raise ConfigError(f"--set {word}: must be NAME=VALUE, as in --set gamma=1")
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text
    return found


@contextmanager
def naming_options(settings: Mapping[str, Any]) -> Iterator[None]:
    """Names the option in errors of wrong settings.

    Raises:
        ConfigError: If a setting is wrong; names the option, and a similar value.
    """
    from rookery.ope.offline_evaluation import METHODS

    for method in settings.get("methods", ()):
        if method not in METHODS:
            raise ConfigError(f"--method {method}: there is no such estimator{nearest(method, METHODS)}")
    try:
        yield
    except ConfigError as error:
        where = re.compile(r"^(code: )?OfflineEvaluationConfig\.")
        raise ConfigError(*(where.sub("--set ", problem) for problem in error.problems)) from None


def folder_of(saved: Path) -> Path | None:
    """Returns the directory of a checkpoint's run; None for a checkpoint without a run."""
    folder = saved.parent.parent
    return folder if (folder / "config.yaml").is_file() else None


def print_evaluation(found: OfflineEvaluation) -> None:
    """Prints the table of estimates, with its notes."""
    from rookery.report.offline_evaluation import estimates_table, lines_of

    console = Console(file=sys.stdout, highlight=False, markup=False)
    how = "most likely actions" if found.deterministic else "sampled actions"
    typer.echo(f"{'policy':<12}{found.policy} of {found.source}, {how}")
    lines = list(lines_of(found))
    typer.echo(f"{lines[0][0]:<12}{lines[0][1]}\n")
    console.print(estimates_table(found))
    typer.echo("")
    for label, text in lines[1:]:
        typer.echo(f"{label:<12}{text}")


def draw(found: OfflineEvaluation, title: str, target: Path, *, requested: bool) -> bool:
    """Draws the plot, and returns whether it was drawn. A plot that was not requested may fail with a message."""
    from rookery.report.offline_evaluation import draw_evaluation

    try:
        draw_evaluation(found, title, target)
    except ConfigError as error:
        if requested:
            raise
        typer.echo(f"no plot: {error}", err=True)
        return False
    return True


def show_progress(work: str, so_far: int, total: int) -> None:
    """Prints progress on standard error, over the last line."""
    typer.echo(f"\r{work}: {so_far:,} of {total:,} gradient steps", nl=so_far == total, err=True)
