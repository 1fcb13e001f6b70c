"""``rookery timers``: where the time of a run went, and where the code stands that it was spent in."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rookery.cli.runs import Provenance, find_run, read_provenance, read_timers
from rookery.core.errors import ConfigError


def timers(
    run: Annotated[Path, typer.Argument(help="Directory of the run, or its name in runs/.", show_default=False)],
) -> None:
    """Show where the time of a run went: seconds, share of the step above, calls, and file:line of each step."""
    from rookery.core.source import find
    from rookery.core.timers import PLACES, Timers

    sys.path.insert(0, "")  # where an algorithm of your own is looked for
    folder = find_run(run)
    tree = Timers()
    tree.load_state_dict(read_timers(folder))
    rows = tree.rows()
    if not rows:
        raise ConfigError(f"{folder / 'timers.json'}: nothing has been timed yet")
    names = {label: [name] for label, name in PLACES.items()}
    names["training_step"] = update_functions(read_provenance(folder)) or names["training_step"]
    labels = ["  " * row.depth + row.label for row in rows]
    width = max(map(len, labels))
    typer.echo(f"{'':<{width}}  {'seconds':>10}  {'share':>7}  {'calls':>11}")
    for label, row in zip(labels, rows, strict=True):
        places = []
        for name in names.get(row.label, ()):
            try:
                places.append(str(find(name)))
            except ConfigError:  # the code of a run need not be here, or not be what it was
                places.append(name)
        line = f"{label:<{width}}  {row.seconds:>10,.2f}  {100 * row.share:>5.1f} %  {row.count:>11,}"
        typer.echo(f"{line}  {', '.join(places)}".rstrip())


def update_functions(provenance: Provenance) -> list[str]:
    """``module:Class.training_step`` of the algorithms of a run's policies, read from the source."""
    from rookery.algorithms.names import ALGORITHMS
    from rookery.core.source import class_text

    found: dict[str, None] = {}
    for path, given in provenance.items():
        if path.startswith("policies.") and path.endswith(".name") and path.count(".") == 2:
            name = given[-1][1]
            try:
                found[class_text(ALGORITHMS.get(name, name), "algorithm")] = None
            except ConfigError:
                continue
    return [f"{name}.training_step" for name in found if name]
