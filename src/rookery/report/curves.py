"""Learning curves of runs: grouped by equal settings, labelled by those that differ, averaged over seeds, and drawn."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rookery.core.errors import ConfigError
from rookery.core.packages import install_line
from rookery.report.experiment import format_value, short_names, varying_paths
from rookery.report.statistics import FEWEST, STATISTICS, aggregate_scores

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = {"seconds": "time/seconds"}
"""Columns of `metrics.jsonl` with another name than their axis."""

GRID = 200
"""Number of interpolation points for the mean of a group."""

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#555555")
"""Colours of Okabe and Ito, safe for colour-blind readers."""

STYLES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)))
"""Styles of lines, for more curves than colours."""

IGNORED = ("seed", "logging")
"""Sections of settings that are ignored when runs are grouped."""

NAMED = ("env.name", "algorithm.name")
"""Settings that a label gives without their name."""

MOST_NAMED = 3
"""Number of settings in a label, unless it takes more to tell two curves apart."""

LONGEST = 40
"""Largest number of characters of a value in a label."""


@dataclass(frozen=True)
class Curve:
    """The learning curve of one run.

    Attributes:
        x: Positions with a value of the metric, ascending.
        y: Values of the metric.
        settings: Settings of the run by path, without those of the `IGNORED` sections.
        run: Directory of the run.
        seed: Seed of the run; None if unknown.
    """

    x: list[float]
    y: list[float]
    settings: Mapping[str, Any]
    run: Path = Path()
    seed: int | None = None


def curve_of(run: Path, rows: Sequence[Mapping[str, Any]], config: Mapping[str, Any], metric: str, x: str) -> Curve:
    """Returns the curve of a run: the points with a number of the metric.

    Args:
        run: Directory of the run.
        rows: Rows of the run's `metrics.jsonl`.
        config: Settings of the run as a tree.
        metric: Column of the rows to draw.
        x: Axis to draw the metric over: ``env_steps``, ``seconds``, ``episodes`` or ``gradient_steps``.

    Raises:
        ConfigError: If the run has no such metric, or no number of it yet.
    """
    known = dict.fromkeys(key for row in rows for key in row)
    if metric not in known:
        near = ", ".join(nearest_metrics(metric, known))
        raise ConfigError(f"{run}: --metric {metric}: it has no such metric; the nearest are {near}; "
                          f"rookery plot {run} --list prints all")  # fmt: skip
    places = [(position(row, x), row.get(metric)) for row in rows]
    points = [(at, value) for at, value in places if isinstance(value, int | float) and at is not None]
    if not points:
        others = ", ".join(key for key in known if key.endswith("loss"))
        instead = f"; nothing was played: draw one of {others}" if others and not rows[-1].get("env_steps") else ""
        raise ConfigError(f"{run}: --metric {metric}: there is no number of it yet{instead}")
    points.sort(key=lambda point: point[0])
    settings = {path: value for path, value in flat(config).items() if path.split(".")[0] not in IGNORED}
    return Curve(
        [float(at) for at, _ in points], [float(value) for _, value in points], settings, run, config.get("seed")
    )


def nearest_metrics(metric: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Returns the metrics whose names, whole or without their first parts, are most like a name."""
    depth = metric.count("/") + 1

    def likeness(name: str) -> float:
        texts = (name, "/".join(name.split("/")[-depth:]))
        return max(SequenceMatcher(None, metric, text).ratio() for text in texts)

    return sorted(known, key=likeness, reverse=True)[:most]


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


def distinct(curves: Sequence[Curve]) -> list[tuple[Curve, Curve]]:
    """Returns for each curve the one to draw in its place: its own, or the longer one of a copy of the same run.

    Runs of equal settings and equal seed are one run, and so are a run and a copy that was resumed with a later stop.
    """
    longest: list[Curve] = []
    for curve in sorted(curves, key=lambda curve: -curve.x[-1]):
        if not any(is_same_run(curve, known) for known in longest):
            longest.append(curve)
    return [(curve, next(known for known in longest if is_same_run(curve, known))) for curve in curves]


def is_same_run(curve: Curve, longer: Curve) -> bool:
    """Returns whether a curve is that of another run, of a copy, or of the beginning of one."""
    if curve.seed is None or curve.seed != longer.seed:
        return curve is longer
    own, other = ({path: each.settings[path] for path in each.settings if not path.startswith("stop.")}
                  for each in (curve, longer))  # fmt: skip
    size = len(curve.x)
    begins = curve.x == longer.x[:size] and curve.y == longer.y[:size]
    return curve.settings == longer.settings or (own == other and begins)


def group(curves: Sequence[Curve]) -> dict[str, list[Curve]]:
    """Groups curves of equal settings, by a label with what differs from other groups, or else the number of seeds or
    the name of the run.
    """
    groups: list[list[Curve]] = []
    for curve in curves:
        alike = next((known for known in groups if known[0].settings == curve.settings), None)
        if alike is None:
            groups.append(alike := [])
        alike.append(curve)
    labels: dict[str, list[Curve]] = {}
    for words, known in zip(differences([known[0].settings for known in groups]), groups, strict=True):
        seeds = f"{len(known)} seeds" if len(known) > 1 else ""
        label = f"{words} ({seeds})" if words and seeds else words or seeds or known[0].run.name
        labels[f"{label}, {known[0].run}" if label in labels else label] = known
    return labels


def differences(groups: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns for each of several settings a text of those that differ from others; empty if there is only one.

    Environment and algorithm come first, without their names. Other settings are named where both are equal.
    """
    named = varying_paths(groups) if len(groups) > 1 else []
    heads = [" ".join(named_values(settings, named)) for settings in groups]
    alike = {head: [each for each, own in zip(groups, heads, strict=True) if own == head] for head in heads}
    differing = dict.fromkeys(
        path for same in alike.values() if len(same) > 1 for path in varying_paths(same)
        if path not in NAMED and not is_inherited(path, same)
    )  # fmt: skip

    def texts(names: Mapping[str, str]) -> list[str]:
        own = [
            format_settings(each, names) if len(alike[head]) > 1 else ""
            for each, head in zip(groups, heads, strict=True)
        ]
        return [", ".join(filter(None, pair)) for pair in zip(heads, own, strict=True)]

    names: dict[str, str] = {}
    for path, name in short_names(differing).items():
        more = {**names, path: name}
        if len(names) < MOST_NAMED or len({*texts(more)}) > len({*texts(names)}):
            names = more
    return texts(names)


def is_inherited(path: str, groups: Sequence[Mapping[str, Any]]) -> bool:
    """Returns whether a policy's setting differs only because the setting of all policies differs."""
    return path.startswith("policies.") and f"algorithm.{path.split('.', 2)[-1]}" in varying_paths(groups)


def named_values(settings: Mapping[str, Any], paths: Iterable[str]) -> list[str]:
    """Returns environment and algorithm, where they are among the paths."""
    return [str(settings.get(path) or "data").rpartition(":")[2] for path in NAMED if path in paths]


def format_settings(settings: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Returns settings in one line, ``lr 0.001 to 0, hidden 64,64``, with long values cut."""
    values = {name: _value_text(settings[path]) for path, name in names.items() if path in settings}
    return ", ".join(
        f"{name} {value if len(value) <= LONGEST else value[: LONGEST - 1] + '…'}" for name, value in values.items()
    )


def _value_text(value: Any) -> str:
    if isinstance(value, Mapping) and value.keys() == {"start", "end"}:
        return f"{_value_text(value['start'])} to {_value_text(value['end'])}"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e9:
        return f"{value:,.0f}"
    return format_value(value)


def shared_title(curves: Sequence[Curve]) -> str:
    """Returns environment and algorithm of the curves, where they are equal."""
    first = curves[0].settings
    equal = [path for path in NAMED if all(curve.settings.get(path) == first.get(path) for curve in curves)]
    return ", ".join(named_values(first, equal))


def on_grid(curves: Sequence[Curve]) -> tuple[np.ndarray, np.ndarray]:
    """Returns positions ``[P]`` over the common range of several curves, and their values there, ``[N, P]``."""
    begin, end = max(curve.x[0] for curve in curves), min(curve.x[-1] for curve in curves)
    grid = np.linspace(begin, max(begin, end), GRID)
    return grid, np.stack([np.interp(grid, curve.x, curve.y) for curve in curves])


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
    axes: Axes, curves: Sequence[Curve], label: str, color: str, width: float, style: Any = "-", order: float = 2.0,
    statistic: str = "mean",
) -> None:  # fmt: skip
    """Draws a curve, or the mean of several: over thin lines of each, or from `FEWEST` on with its interval.

    Args:
        axes: Axes to draw on.
        curves: Curves, at least one.
        label: Text of the legend.
        color: Color of all lines.
        width: Width of the line, in points.
        style: Style of the line, ``--`` for dashes.
        order: Drawing order; higher values lie above.
        statistic: What is drawn of several: ``mean`` or ``iqm``.
    """
    x, y = np.array(curves[0].x), np.array(curves[0].y)
    if len(curves) >= FEWEST:
        x, values = on_grid(curves)
        found = aggregate_scores([values], STATISTICS[statistic])
        y = found.value
        axes.fill_between(x, found.low, found.high, color=color, alpha=0.2, linewidth=0, zorder=order - 1)
    elif len(curves) > 1:
        x, values = on_grid(curves)
        y = STATISTICS[statistic](values.T)
        for curve in curves:
            axes.plot(curve.x, curve.y, style, color=color, linewidth=0.8, alpha=0.55, zorder=order - 1)
    mark = "o" if len(x) == 1 or x[0] == x[-1] else ""
    axes.plot(x, y, linestyle=style, color=color, linewidth=width, label=label, marker=mark, zorder=order)


def caption(sizes: Collection[int], statistic: str = "mean") -> str:
    """Returns what lines and areas show, for a figure of groups with these numbers of seeds; empty for single runs."""
    word = {"mean": "mean", "iqm": "interquartile mean"}[statistic]
    parts = [f"{word} over seeds"] * any(size > 1 for size in sizes)
    parts += ["area: its 95 % interval (bootstrap)"] * any(size >= FEWEST for size in sizes)
    parts += ["thin lines: single seeds"] * any(1 < size < FEWEST for size in sizes)
    return "; ".join(parts)


def draw(groups: Mapping[str, Sequence[Curve]], metric: str, axis: str, target: Path, statistic: str = "mean") -> None:
    """Draws groups of curves and writes the figure.

    Args:
        groups: Curves by label; several curves under a label become their mean.
        metric: Label of the y axis.
        axis: Label of the x axis.
        target: File to write; its suffix names the format.
        statistic: What is drawn of several curves: ``mean`` or ``iqm``.

    Raises:
        ConfigError: If matplotlib is not installed, or the file cannot be written.
    """
    columns = max(1, min(len(groups), int(100 / (max(map(len, groups)) + 7))))
    figure = new_figure(8, 4.6 + 0.2 * math.ceil(len(groups) / columns), "rookery plot")
    axes = figure.add_subplot()
    for number, (label, curves) in enumerate(groups.items()):
        color, style = COLORS[number % len(COLORS)], STYLES[number // len(COLORS) % len(STYLES)]
        draw_mean(axes, curves, label, color, 1.6 if len(curves) == 1 else 2.0, style, statistic=statistic)
    style_axes(axes)
    axes.margins(x=0.01)
    label_x(axes, axis)
    axes.set_ylabel(metric, color="#444444")
    below = caption([*map(len, groups.values())], statistic)
    title = shared_title([curve for curves in groups.values() for curve in curves])
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold", pad=22 if below else 8)
    axes.annotate(
        below, (0, 1), (0, 8), xycoords="axes fraction", textcoords="offset points", fontsize=9, color="#444444"
    )
    axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(0, -0.15), borderpad=0, ncols=columns)
    save_figure(figure, target, "-o")
