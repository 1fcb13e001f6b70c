"""``rookery plot``: plots learning curves; runs that differ only in their seed become a mean and an interval."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from rookery.cli.runs import find_run, read_rows, run_names
from rookery.core.errors import ConfigError, nearest
from rookery.core.settings.layers import yaml_layer

AXES = {
    "env_steps": "environment steps",
    "seconds": "seconds",
    "episodes": "episodes",
    "gradient_steps": "gradient steps",
}


def plot(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Directories of runs, or names in runs/.",
            show_default=False,
            autocompletion=run_names,
        ),
    ],
    metric: Annotated[str, typer.Option(help="Column of metrics.jsonl, as in policies/main/kl.")] = "return_mean",
    x: Annotated[
        str | None,
        typer.Option(
            help="Horizontal axis: env_steps, seconds, episodes or gradient_steps.",
            show_default="env_steps, or gradient_steps for offline training",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="File to write: .png, .svg, .pdf.", show_default="METRIC.png"),
    ] = None,
) -> None:
    """Plot learning curves; runs that differ only in their seed become a mean with a 95 % interval.

    rookery plot runs/CartPole-v1-ppo-s* --metric return_mean -o cartpole.png
    """
    from rookery.report.curves import curve_of, draw, group

    if x is not None and x not in AXES:
        raise ConfigError(f"command line: --x {x}: must be one of {', '.join(AXES)}{nearest(x, list(AXES))}")
    key = metric.replace(".", "/")
    folders = [find_run(run) for run in runs]
    configs = [yaml_layer(folder / "config.yaml").values for folder in folders]
    rows = [read_rows(folder) for folder in folders]
    if x is None:
        x = "env_steps" if any(row.get("env_steps") for own in rows for row in own) else "gradient_steps"
    triples = zip(folders, rows, configs, strict=True)
    groups = group([curve_of(folder, own, config, key, x) for folder, own, config in triples])
    name = re.sub(r"[^\w.-]+", "-", metric)
    target = output or Path(f"{name}.png")
    draw(groups, metric, AXES[x], target)
    count = f"{len(runs)} run{'' if len(runs) == 1 else 's'}"
    typer.echo(f"{target}: {count} in {len(groups)} curve{'' if len(groups) == 1 else 's'}")
