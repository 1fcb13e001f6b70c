"""``rookery evaluate RUN --replay DATA``: what a policy would earn, said by data alone; nothing is played."""

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

from rookery.cli.runs import find_saved, in_runs
from rookery.core.errors import ConfigError, nearest

if TYPE_CHECKING:
    from rookery.report.offline_evaluation import OfflineEvaluation

ROWS = "judged.jsonl"
"""File of a run directory with a row for each judgement."""

PICTURE = "judged.png"
"""File of a run directory with the picture of the latest."""

PANEL = "With --replay, where nothing is played"

JudgedBy = Annotated[
    str | None,
    typer.Option(
        "--replay",
        help="Judge by data instead of playing: a run, checkpoint or replay directory, or PATH:POLICY.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]
JudgedPolicyName = Annotated[
    str | None,
    typer.Option(
        "--policy", help="Which policy of the run, where it has several.", rich_help_panel=PANEL, show_default=False
    ),
]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        help="fqe, is, wis, pdis or dr; else all that can be. Repeatable.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]
MoreSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="How it is judged: gamma=1, probabilities=cloned, weights_below=20, fit_steps=20000, seed=1. Repeatable.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        help=f"Picture, by its suffix; else {PICTURE} in the directory of the run.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]


def check_options(replay: str | None, playing: Mapping[str, Any], judging: Mapping[str, Any]) -> None:
    """Refuses options of the other way to evaluate.

    Args:
        replay: Data to evaluate by; None where episodes are played.
        playing: Options of playing, by name, those that were not given None.
        judging: Options of judging, likewise.

    Raises:
        ConfigError: If one does not belong; names it.
    """
    wrong = [name for name, value in (playing if replay is not None else judging).items() if value is not None]
    if wrong and replay is not None:
        raise ConfigError(f"{wrong[0]}: is for playing, and with --replay nothing is played; leave one of them out")
    if wrong:
        raise ConfigError(f"{wrong[0]}: is for judging by data; say by which, --replay DATA")


def judge_saved(
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
    """Judges a policy of a run by data, tells it, and writes a row and a picture into the directory of the run."""
    from rookery.ope.offline_evaluation import evaluate_offline, no_progress

    saved = find_saved(run, checkpoint)
    settings = settings_of(given or [])
    if methods:
        settings["methods"] = methods
    with named_by_options(settings):
        found = evaluate_offline(
            saved,
            in_runs(replay),
            policy=policy,
            deterministic=not stochastic,
            trust_code=trust_code,
            progress=show_work if sys.stderr.isatty() else no_progress,
            **settings,
        )
    if as_json:
        typer.echo(json.dumps(found.row()))
    else:
        tell(found)
    folder = folder_of(saved)
    if folder is None:
        if output is not None:
            draw(found, saved.name, output, asked=True)
        return
    with (folder / ROWS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(found.row()) + "\n")
    if draw(found, folder.name, output or folder / PICTURE, asked=output is not None) and not as_json:
        typer.echo(f"{'written':<12}{folder / ROWS}, {output or folder / PICTURE}")


def settings_of(words: list[str]) -> dict[str, Any]:
    """Gives what was said as ``NAME=VALUE``.

    Raises:
        ConfigError: If a word has no such form.
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
def named_by_options(settings: Mapping[str, Any]) -> Iterator[None]:
    """Refuses wrong settings by the options that gave them.

    Raises:
        ConfigError: If there is one; names the option, and what is like it.
    """
    from rookery.ope.offline_evaluation import METHODS

    for method in settings.get("methods", ()):
        if method not in METHODS:
            raise ConfigError(f"--method {method}: there is no such estimate{nearest(method, METHODS)}")
    try:
        yield
    except ConfigError as error:
        where = re.compile(r"^(code: )?OfflineEvaluationConfig\.")
        raise ConfigError(*(where.sub("--set ", problem) for problem in error.problems)) from None


def folder_of(saved: Path) -> Path | None:
    """The directory of the run that a checkpoint is of; None of one that lies by itself."""
    folder = saved.parent.parent
    return folder if (folder / "config.yaml").is_file() else None


def tell(found: OfflineEvaluation) -> None:
    """Writes the table, and what is to be known of it."""
    from rookery.report.offline_evaluation import estimates_table, lines_of

    console = Console(file=sys.stdout, highlight=False, markup=False)
    how = "likeliest actions" if found.deterministic else "drawn actions"
    typer.echo(f"{'policy':<12}{found.policy} of {found.source}, {how}")
    lines = list(lines_of(found))
    typer.echo(f"{lines[0][0]:<12}{lines[0][1]}\n")
    console.print(estimates_table(found))
    typer.echo("")
    for label, text in lines[1:]:
        typer.echo(f"{label:<12}{text}")


def draw(found: OfflineEvaluation, title: str, target: Path, *, asked: bool) -> bool:
    """Draws the picture; where nobody asked for one and it cannot be drawn, says so and goes on. Tells whether it is
    there.
    """
    from rookery.report.offline_evaluation import draw_evaluation

    try:
        draw_evaluation(found, title, target)
    except ConfigError as error:
        if asked:
            raise
        typer.echo(f"no picture: {error}", err=True)
        return False
    return True


def show_work(work: str, so_far: int, total: int) -> None:
    """Writes how far work is, over what was written before, on standard error."""
    typer.echo(f"\r{work}: {so_far:,} of {total:,} gradient steps", nl=so_far == total, err=True)
