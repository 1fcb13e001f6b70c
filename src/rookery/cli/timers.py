"""``rookery timers``: the time of each step of a run, with its place in the code."""

from __future__ import annotations

import typer

from rookery.cli.runs import Provenance, RunFolder, find_run, read_json, read_provenance
from rookery.core.errors import ConfigError


def timers(
    run: RunFolder,
) -> None:
    """Show the time of each step of a run: seconds, share of the step above, calls, and file:line."""
    from rookery.core.timers import PLACES, Timers
    from rookery.report.live import timer_table

    folder = find_run(run)
    tree = Timers()
    tree.load_state_dict(read_json(folder / "timers.json"))
    rows = tree.rows()
    if not rows:
        raise ConfigError(f"{folder / 'timers.json'}: the file has no timings yet")
    names = {label: [name] for label, name in PLACES.items()}
    names["training_step"] = update_functions(read_provenance(folder)) or names["training_step"]
    places = [", ".join(place_of(name) for name in names.get(row.label, ())) for row in rows]
    typer.echo("\n".join(timer_table(rows, places)))


def place_of(name: str) -> str:
    """Returns file and line of a function; its name if the code is missing, or has changed since the run."""
    from rookery.core.source import find

    try:
        return str(find(name))
    except ConfigError:
        return name


def update_functions(provenance: Provenance) -> list[str]:
    """Returns ``module:Class.training_step`` of the algorithms of a run's policies, read from the source."""
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
