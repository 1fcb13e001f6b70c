"""``rookery diff``: the difference between two runs: settings, versions and results."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any

import typer

from rookery.cli.explain import with_drawn_seed
from rookery.cli.runs import Provenance, RunFolder, TrustedCode, find_run, read_json, read_provenance, read_rows
from rookery.core.errors import ConfigError

WIDTH = 80
"""Columns of the output."""

Pair = tuple[Any, Any]
"""A value of each run; None where a run has none."""


@dataclass(frozen=True)
class Difference:
    """Difference between two runs: pairs of a value of the first and one of the second run.

    Attributes:
        runs: Directories of the runs.
        settings: Settings that differ, by path: value and source in each run; None if a run has no such setting.
        versions: Versions of Rookery, Python, PyTorch and other packages, and the machine, by name.
        metrics: Numbers in the last row of metrics.jsonl, by column.
    """

    runs: Pair
    settings: dict[str, Pair]
    versions: dict[str, Pair]
    metrics: dict[str, Pair]


def diff(
    run: RunFolder,
    other: RunFolder,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object only.")] = False,
    trust_code: TrustedCode = False,
) -> None:
    """Compare two runs: settings that differ with their sources, versions, and the last metrics.

    rookery diff runs/CartPole-v1-ppo-s3 runs/CartPole-v1-ppo-s4
    """
    found = difference(find_run(run), find_run(other), trust_code)
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=1))
        return
    for line in lines(found):
        typer.echo(line)


def difference(first: Path, second: Path, trust_code: bool = False) -> Difference:
    """Returns the difference between two runs.

    Args:
        first: Directory of the first run.
        second: Directory of the second run.
        trust_code: Whether code that a foreign run names may run, to read settings of an earlier version.
    """
    folders = (first, second)
    versions = paired(*(stored_versions(folder) for folder in folders))
    histories = [with_drawn_seed(folder, read_provenance(folder)) for folder in folders]
    if len(set(versions.get("rookery", (0, 0)))) > 1:  # settings of an earlier version may have former names
        histories = [with_names_of_today(*known, trust_code) for known in zip(folders, histories, strict=True)]
    settings = paired(*(effective(history) for history in histories))
    differ = {path: pair for path, pair in settings.items() if differs(path, settings)}
    metrics = paired(*(last_metrics(folder) for folder in folders))
    return Difference((str(first), str(second)), differ, versions, metrics)


def differs(path: str, settings: dict[str, Pair]) -> bool:
    """Returns whether a setting differs, other than by the common section ``algorithm`` that a policy inherits."""

    def values(path: str) -> list[str | None]:
        return [side and side["value"] for side in settings.get(path, (None, None))]

    section, _, rest = path.partition(".")
    first, second = values(path)
    is_inherited = section == "policies" and values(path) == values(f"algorithm.{rest.partition('.')[2]}")
    return first != second and not is_inherited


def paired(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Pair]:
    """Returns the values of two mappings by key, those of the first in front."""
    return {key: (first.get(key), second.get(key)) for key in {**first, **second}}


def effective(history: Provenance) -> dict[str, dict[str, str]]:
    """Returns the value of each setting and its source."""
    return {path: {"value": given[-1][1], "source": given[-1][0]} for path, given in history.items()}


def with_names_of_today(run: Path, history: Provenance, trust_code: bool) -> Provenance:
    """Returns the provenance of a run under the present names of its settings; unchanged if these cannot be read."""
    from rookery.cli.resume import resolved_settings
    from rookery.core.config import current_history

    with suppress(ConfigError):  # settings of another user's code: names stay as they are
        return current_history(resolved_settings(run, history, [], trust_code).config, history)
    return history


def stored_versions(run: Path) -> dict[str, Any]:
    """Returns the versions that a run has stored; none if it has no such file."""
    with suppress(ConfigError):
        return read_json(run / "versions.json")
    return {}


def last_metrics(run: Path) -> dict[str, float | None]:
    """Returns the numbers in the last row of metrics.jsonl, None for one that is not finite; none without a row."""
    with suppress(ConfigError):
        last = (read_rows(run) or [{}])[-1]
        numbers = {key: value for key, value in last.items() if isinstance(value, int | float)}
        return {key: value if math.isfinite(value) else None for key, value in numbers.items() if value is not True}
    return {}


def lines(found: Difference) -> list[str]:
    """Returns the difference as lines of text, of at most 80 columns where names are not longer."""
    names = [Path(run).name for run in found.runs]
    if names[0] == names[1]:
        names = list(found.runs)
    text = [f"settings: {len(found.settings) or 'none'} {'differ' if len(found.settings) != 1 else 'differs'}"]
    alone: dict[str, list[str]] = {name: [] for name in names}
    for path, pair in found.settings.items():
        if None in pair:
            alone[names[0] if pair[1] is None else names[1]].append(path)
            continue
        text.append(f"  {path}")
        width = max(map(len, names))
        for name, side in zip(names, pair, strict=True):
            text += wrap(f"{name:<{width}}  {side['value']}  ({side['source']})", WIDTH, initial_indent="    ",
                         subsequent_indent=" " * 8, break_on_hyphens=False)  # fmt: skip
    for name, paths in alone.items():
        if paths:
            text += wrap(f"only in {name}: {', '.join(paths)}", WIDTH, initial_indent="  ", subsequent_indent="    ")
    return [*text, *table("versions", names, found.versions), *table("last metrics", names, found.metrics)]


def table(title: str, names: list[str], rows: dict[str, Pair]) -> list[str]:
    """Returns a table with a column for each of two runs; a row whose values differ is marked with ``*``."""
    cells = [(f"{'*' if pair[0] != pair[1] else ' '} {key}", *map(cell, pair)) for key, pair in rows.items()]
    if not cells:
        return [f"{title}: not stored"]
    head = (title, *names)
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    return ["  ".join(f"{part:<{width}}" for part, width in zip(row, widths, strict=True)).rstrip()
            for row in (head, *cells)]  # fmt: skip


def cell(value: Any) -> str:
    """Returns a value of a table as text."""
    if isinstance(value, float):
        return f"{value:,.6g}"
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
