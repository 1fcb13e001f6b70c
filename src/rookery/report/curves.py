"""Learning curves of runs: grouped by equal settings, averaged over seeds, and drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rookery.core.errors import ConfigError, nearest
from rookery.core.packages import install_line
from rookery.report.experiment import format_params, short_names, varying_paths
from rookery.report.results import interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = {"seconds": "time/seconds"}
"""Columns of `metrics.jsonl` with another name than their axis."""

GRID = 200
"""Number of interpolation points for the mean of a group."""

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#555555")
"""Colours of Okabe and Ito, safe for colour-blind readers."""

IGNORED = ("seed", "logging")
"""Sections of settings that are ignored when runs are grouped."""


@dataclass(frozen=True)
class Curve:
    """The learning curve of one run.

    Attributes:
        x: Positions with a value of the metric, ascending.
        y: Values of the metric.
        settings: Settings of the run by path, without those of the `IGNORED` sections.
    """

    x: list[float]
    y: list[float]
    settings: Mapping[str, Any]


def curve_of(run: Path, rows: Sequence[Mapping[str, Any]], config: Mapping[str, Any], metric: str, x: str) -> Curve:
    """Returns the curve of a run: the points with a number of the metric.

    Args:
        run: Directory of the run, for messages.
        rows: Rows of the run's `metrics.jsonl`.
        config: Settings of the run as a tree.
        metric: Column of the rows to draw.
        x: Axis to draw the metric over: ``env_steps``, ``seconds``, ``episodes`` or ``gradient_steps``.

    Raises:
        ConfigError: If the run has no such metric, or no number of it yet.
    """
    known = dict.fromkeys(key for row in rows for key in row)
    if metric not in known:
        raise ConfigError(f"{run}: --metric {metric}: it has no such metric{nearest(metric, list(known))}; "
                          f"there are {', '.join(known)}")  # fmt: skip
    places = [(position(row, x), row.get(metric)) for row in rows]
    points = [(at, value) for at, value in places if isinstance(value, int | float) and at is not None]
    if not points:
        others = ", ".join(key for key in known if key.endswith("loss"))
        instead = f"; nothing was played: draw one of {others}" if others and not rows[-1].get("env_steps") else ""
        raise ConfigError(f"{run}: --metric {metric}: there is no number of it yet{instead}")
    points.sort(key=lambda point: point[0])
    settings = {path: value for path, value in flat(config).items() if path.split(".")[0] not in IGNORED}
    return Curve([float(at) for at, _ in points], [float(value) for _, value in points], settings)


def position(row: Mapping[str, Any], x: str) -> float | None:
    """Returns the position of a row on an axis; for gradient steps the largest number of any policy."""
    if x == "gradient_steps":
        return max((value for key, value in row.items() if key.endswith(f"/{x}") and value is not None), default=None)
    found: float | None = row.get(COLUMNS.get(x, x))
    return found


def flat(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Returns a tree of settings as a flat dict by dotted path; a schedule is one value."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        is_section = isinstance(value, Mapping) and value and not {"start", "points"} & value.keys()
        found |= flat(value, f"{above}{key}.") if is_section else {f"{above}{key}": value}
    return found


def group(curves: Sequence[Curve]) -> dict[str, list[Curve]]:
    """Groups curves of equal settings, by a label with the settings that differ from other groups."""
    groups: list[list[Curve]] = []
    for curve in curves:
        alike = next((known for known in groups if known[0].settings == curve.settings), None)
        if alike is None:
            groups.append(alike := [])
        alike.append(curve)
    differing = varying_paths([known[0].settings for known in groups]) if len(groups) > 1 else []

    def is_inherited(path: str) -> bool:
        """Returns whether a policy's setting differs only because the setting of all policies differs."""
        return path.startswith("policies.") and f"algorithm.{path.split('.', 2)[-1]}" in differing

    named = ("env.name", "algorithm.name")
    names = short_names(path for path in differing if path not in named and not is_inherited(path))
    labels: dict[str, list[Curve]] = {}
    for known in groups:
        settings = known[0].settings
        label = " ".join(str(settings.get(path) or "data").rpartition(":")[2] for path in named)
        own = format_params(settings, dict(islice(names.items(), 3)))
        label += f", {own}" if own else ""
        if len(known) > 1:
            label += f" ({len(known)} seeds)"
        while label in labels:
            label += " "
        labels[label] = known
    return labels


def average(curves: Sequence[Curve]) -> tuple[list[float], list[float], list[float], list[float]]:
    """Returns x, mean, and low and high end of the 95 % interval of several curves on their common range."""
    begin, end = max(curve.x[0] for curve in curves), min(curve.x[-1] for curve in curves)
    grid = np.linspace(begin, max(begin, end), GRID)
    values = np.stack([np.interp(grid, curve.x, curve.y) for curve in curves])
    bands = [interval(tuple(column)) for column in values.T.tolist()]
    return grid.tolist(), values.mean(0).tolist(), [low for low, _ in bands], [high for _, high in bands]


def new_figure(width: float, height: float, user: str) -> Figure:
    """Returns an empty figure of a size in inches.

    Raises:
        ConfigError: If matplotlib is not installed.
    """
    try:
        import matplotlib.figure
    except ImportError:
        raise ConfigError(f"{user} needs matplotlib: {install_line('plot')}") from None
    return matplotlib.figure.Figure(figsize=(width, height), dpi=150, layout="constrained")


def save_figure(figure: Figure, target: Path, option: str) -> None:
    """Writes a figure; the suffix of the file names the format.

    Raises:
        ConfigError: If the file cannot be written; names the option that asked for it.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(target)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{option} {target}: cannot be written: {error}") from None


def style_axes(axes: Axes) -> None:
    """Sets the style of axes in all figures: no box, a light grid, grey labels."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#999999")
    axes.grid(color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(color="#999999", labelcolor="#444444")


def label_x(axes: Axes, label: str) -> None:
    """Sets the label of the x axis, with ticks in thousands and millions: 20k, 1M."""
    from matplotlib.ticker import EngFormatter

    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlabel(label, color="#444444")


def draw_mean(
    axes: Axes, curves: Sequence[Curve], label: str, color: str, width: float, style: str = "-", order: float = 2.0
) -> None:
    """Draws a curve, or the mean of several with its interval.

    Args:
        axes: Axes to draw on.
        curves: Curves, at least one.
        label: Text of the legend.
        color: Color of all lines.
        width: Width of the line, in points.
        style: Style of the line, ``--`` for dashes.
        order: Drawing order; higher values lie above.
    """
    x, y = curves[0].x, curves[0].y
    if len(curves) > 1:
        x, y, low, high = average(curves)
        for curve in curves:
            axes.plot(curve.x, curve.y, style, color=color, linewidth=0.6, alpha=0.35, zorder=order - 1)
        axes.fill_between(x, low, high, color=color, alpha=0.18, linewidth=0, zorder=order - 1)
    mark = "o" if len(x) == 1 else ""
    axes.plot(x, y, style, color=color, linewidth=width, label=label, marker=mark, zorder=order)


def draw(groups: Mapping[str, Sequence[Curve]], metric: str, axis: str, target: Path) -> None:
    """Draws groups of curves and writes the figure.

    Args:
        groups: Curves by label; several curves under a label become their mean and interval.
        metric: Title of the figure.
        axis: Label of the x axis.
        target: File to write; its suffix names the format.

    Raises:
        ConfigError: If matplotlib is not installed, or the file cannot be written.
    """
    figure = new_figure(8, 4.8, "rookery plot")
    axes = figure.add_subplot()
    for number, (label, curves) in enumerate(groups.items()):
        color = COLORS[number % len(COLORS)]
        style = ("-", "--", ":", "-.")[number // len(COLORS) % 4]
        draw_mean(axes, curves, label.rstrip(), color, 1.6 if len(curves) == 1 else 2.0, style)
    style_axes(axes)
    axes.margins(x=0.01)
    known = [value for curves in groups.values() for curve in curves for value in curve.y]
    room = 0.12 * (max(known) - min(known)) or 1.0
    axes.set_ylim(min(known) - room, max(known) + room)  # an interval of two seeds can be wider than all else
    label_x(axes, axis)
    axes.set_title(metric, loc="left", fontsize=12, fontweight="bold")
    aside: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)} if len(groups) > 6 else {}
    axes.legend(frameon=False, fontsize=9, **aside)
    save_figure(figure, target, "-o")
