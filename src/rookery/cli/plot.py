"""``rookery plot``: plots learning curves; runs that differ only in their seed become a mean and an interval."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rookery.cli.explain import with_drawn_seed
from rookery.cli.runs import Provenance, find_run, read_provenance, read_rows, run_names
from rookery.core.errors import ConfigError, nearest
from rookery.core.io.files import FOLDER
from rookery.core.settings.layers import yaml_layer

AXES = {
    "env_steps": "environment steps",
    "seconds": "seconds",
    "episodes": "episodes",
    "gradient_steps": "gradient steps",
}

CHOSEN = ("default", "measured")
"""Sources of values that the machine may have chosen: how environments are stepped in parallel."""


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
    statistic: Annotated[str, typer.Option(help="What is drawn of several seeds: mean or iqm.")] = "mean",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="File to write: .png, .svg, .pdf.", show_default="METRIC.png"),
    ] = None,
    list_metrics: Annotated[
        bool, typer.Option("--list", help="Print the metrics of the runs with their last values, and draw nothing.")
    ] = False,
) -> None:
    """Plot learning curves; runs that differ only in their seed become a mean, from four on with its 95 % interval.

    rookery plot runs/CartPole-v1-ppo-s* --metric return_mean -o cartpole.png
    """
    from rookery.report.curves import curve_of, distinct, draw, group
    from rookery.report.statistics import STATISTICS

    for option, given, known in (("x", x or "env_steps", AXES), ("statistic", statistic, STATISTICS)):
        if given not in known:
            meant = nearest(given, list(known))
            raise ConfigError(f"command line: --{option} {given}: must be one of {', '.join(known)}{meant}")
    folders = [*{folder.resolve(): folder for folder in map(folder_of, runs)}.values()]
    rows = [read_rows(folder) for folder in folders]
    if list_metrics:
        for line in metric_lines(rows):
            typer.echo(line)
        return
    if x is None:
        x = "env_steps" if any(row.get("env_steps") for own in rows for row in own) else "gradient_steps"
    triples = zip(folders, rows, settings_of(folders), strict=True)
    pairs = distinct([curve_of(folder, own, config, metric.replace(".", "/"), x) for folder, own, config in triples])
    for curve, same in pairs:
        if same is not curve:
            typer.echo(f"{curve.run}: left out: it is the same run as {same.run}")
    kept = [curve for curve, same in pairs if same is curve]
    groups = group(kept)
    name = re.sub(r"[^\w.-]+", "-", metric)
    target = output or Path(f"{name}.png")
    draw(groups, metric, AXES[x], target, statistic)
    count = f"{len(kept)} run{'' if len(kept) == 1 else 's'}"
    typer.echo(f"{target}: {count} in {len(groups)} curve{'' if len(groups) == 1 else 's'}")


def folder_of(run: Path) -> Path:
    """Returns the directory of a run, given its path, its name in ``runs/`` or one of its checkpoints."""
    return find_run(run.parent.parent if run.parent.name == FOLDER else run)


def settings_of(folders: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """Yields the settings of each run as a tree, with the drawn seed, and without those that the machine chose."""
    known = [(folder, yaml_layer(folder / "config.yaml").values, sources_of(folder)) for folder in folders]
    measured = {path for _, _, history in known for path, given in history.items() if given[-1][0].endswith("measured")}
    for _, config, history in known:
        chosen = {path for path in measured if history.get(path, [("default", "")])[-1][0].endswith(CHOSEN)}
        seed = config.get("seed")
        if seed is None and history.get("seed", [("", "null")])[-1][1] != "null":
            seed = int(history["seed"][-1][1])
        yield {**without(config, chosen), "seed": seed}


def sources_of(folder: Path) -> Provenance:
    """Returns the values of each setting with their sources; empty for a run without the file."""
    return with_drawn_seed(folder, read_provenance(folder)) if (folder / "provenance.json").is_file() else {}


def without(tree: Mapping[str, Any], paths: Iterable[str], above: str = "") -> dict[str, Any]:
    """Returns a tree of settings without those of some paths."""
    return {
        key: without(value, paths, f"{above}{key}.") if isinstance(value, Mapping) and value else value
        for key, value in tree.items()
        if f"{above}{key}" not in paths
    }


def metric_lines(rows: Sequence[Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """Yields a line for each metric of some runs: its name, its last value, or the least and the greatest of several,
    and in how many runs it is.
    """
    from rookery.report.experiment import is_number
    from rookery.report.panel import number

    last = [{key: value for row in own for key, value in row.items() if is_number(value)} for own in rows]
    names = [*dict.fromkeys(name for own in last for name in own)]
    width = max(map(len, names), default=0)
    for name in names:
        values = [own[name] for own in last if name in own]
        ends = [*dict.fromkeys(number(value) for value in (min(values), max(values)))]
        count = f"  in {len(values)} of {len(rows)} runs" if len(values) < len(rows) else ""
        yield f"{name:{width}}  {' to '.join(ends)}{count}"
