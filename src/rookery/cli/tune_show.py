"""``rookery tune show``: what came of an experiment, as a table, and as a report on request."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rookery.cli.runs import JOURNAL, NEWEST, ROOT
from rookery.core.errors import ConfigError, nearest


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
    from rookery.report.experiment_table import draw_table
    from rookery.tune.analysis import Analysis, write_report

    analysis = Analysis(find_experiment(folder), metric, mode, scope)
    console = Console(highlight=False)
    summary = analysis.summary()
    console.print(draw_table(summary, console, len(analysis) + NEWEST, framed=False))
    typer.echo(f"\n{analysis.outcome()}")
    if output is not None:
        write_report(analysis, output)
        typer.echo(f"report: {output}")


def find_experiment(folder: Path) -> Path:
    """The folder of an experiment: a path of it, or its name in ``runs/``.

    Raises:
        ConfigError: If there is none; names the newest there are.
    """
    for place in (folder, ROOT / folder):
        if (place / JOURNAL).is_file():
            return place
    problem = (
        f"is not the folder of an experiment (there is no {JOURNAL} in it)" if folder.exists() else "does not exist"
    )
    roots = dict.fromkeys(root for root in (folder, folder.parent, ROOT) if root.is_dir())
    found = {path for root in roots for path in root.iterdir() if (path / JOURNAL).is_file()}
    newest = sorted(found, key=lambda path: (-(path / JOURNAL).stat().st_mtime, path.name))
    if not newest:
        raise ConfigError(f"{folder}: {problem}, and there is no experiment in {ROOT}; rookery tune makes one")
    near = nearest(folder.name, [path.name for path in newest])
    raise ConfigError(f"{folder}: {problem}{near}; the newest are {', '.join(map(str, newest[:NEWEST]))}")
