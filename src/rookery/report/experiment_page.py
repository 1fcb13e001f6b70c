"""Report of an experiment: a self-contained ``.html`` page, or its figures alone as ``.png``.

The figures are learning curves, parameters against score, lengths of trials, and the family tree of a population.
`figures` returns those of an experiment; each draws itself into a figure of matplotlib.
"""

from __future__ import annotations

import io
import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rookery import __version__
from rookery.core.errors import ConfigError, nearest
from rookery.core.io.files import write_file
from rookery.core.settings.layers import flow
from rookery.report.curves import COLORS, Curve, caption, draw_mean, label_x, new_figure, style_axes
from rookery.report.experiment import (
    ExperimentSummary,
    Stage,
    TrialSummary,
    format_params,
    format_value,
    is_number,
    short_names,
    thinned,
)
from rookery.report.panel import number, span

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

WIDTH = 10.0
"""Width of figures in inches."""

NAMED = 5
"""Number of best curves with a colour and a name; the others are grey."""

MOST_POINTS = 250
"""Largest number of points of a curve."""

MOST_BARS = 60
MOST_MULTIPLES = 12
"""Largest number of small figures; a numeric parameter with more choices has a continuous axis."""

GREY, DARK, INK = "#c4c8cc", "#8a9099", "#333a41"
BEST = "#d55e00"
"""Colour of the best trial."""

SCORES = "viridis"
"""Colour map of scores, brighter is better."""

ENDS = {
    "ended": ("completed", "#009e73"),
    "stopped": ("stopped by the scheduler", "#e69f00"),
    "failed": ("failed", "#c0392b"),
    "open": ("running", "#8fb8d6"),
}
"""Labels and colours of the ends of trials."""

Part = tuple[Stage, float, float]
"""A stage with begin and end of its age."""


@dataclass(frozen=True)
class ExperimentFigure:
    """A figure of a report.

    Attributes:
        title: Title.
        caption: Explanation.
        height: Height in inches.
        draw: Function that draws it into a figure.
    """

    title: str
    caption: str
    height: float
    draw: Callable[[FigureBase], None]


def figures(summary: ExperimentSummary[TrialSummary]) -> list[ExperimentFigure]:
    """Returns the figures for an experiment, the most important first.

    Raises:
        ConfigError: If no trial has a number yet.
    """
    made = FigureDrawer(summary)
    found = [ExperimentFigure("Learning curves", made.curves_caption(), 5.2, made.curves)]
    if made.paths and len(made.scored) > 1:
        caption = "One line per trial, from its parameters to its score; brighter is better, the best is orange."
        found.append(ExperimentFigure("Parameters and score", caption, 4.2, made.parallel))
        caption, height = "One dot per trial; the best is orange.", 2.6 * grid_of(made.paths)[0] + 0.2
        found.append(ExperimentFigure("Score against each parameter", caption, height, made.multiples))
    if len(summary.metrics) > 1:
        caption = "One dot per suggestion; the orange line is the Pareto front."
        found.append(ExperimentFigure("Aims against each other", caption, 4.2, made.front))
    if made.changed:
        caption = "One line per trial: its parameter at each age. Orange: the best trial, through all "
        title, height = "Schedules that the population found", 2.6 * grid_of(made.changed)[0] + 0.3
        found.append(ExperimentFigure(title, f"{caption}of its ancestors.", height, made.schedules))
        caption = (
            "One line per trial. An arrow leads from a donor to the trial that continued from its copy. Orange: the "
        )
        height = min(max(0.16 * len(summary.trials) + 1.2, 2.4), 9.0)
        found.append(ExperimentFigure("Family tree", f"{caption}ancestors of the best trial.", height, made.tree))
    elif any(end_of(trial) == "stopped" for trial in summary.trials):
        caption = "One bar per trial, the best at the top; a dashed line where the scheduler has stopped several."
        height = min(max(0.11 * min(len(summary.trials), MOST_BARS) + 1.2, 2.4), 8.0)
        found.append(ExperimentFigure("Length of trials", caption, height, made.ages))
    return found


class FigureDrawer:
    """Draws the figures of an experiment.

    Raises:
        ConfigError: If no trial has a number yet.
    """

    def __init__(self, summary: ExperimentSummary[TrialSummary]) -> None:
        self.summary = summary
        self.best = summary.best
        self.metric = summary.metrics[0]
        self.scored = [(trial, trial.score) for trial in summary.trials if trial.score is not None]
        self.clock = str(summary.settings.get("scheduler", {}).get("time", "iteration"))
        self.changed = changed_paths(summary.stages)
        self.paths = list(summary.varying) if len(summary.trials) > 1 else []
        self.names = short_names([*self.paths, *self.changed])
        rows = [row for trial in summary.trials for row in trial.history]
        self.axis = "env_steps" if rows and all(is_number(row.get("env_steps")) for row in rows) else "iteration"
        self.scale = line_scale([summary.worth(trial) for trial, _ in self.scored])

    def color(self, trial: TrialSummary) -> Any:
        """Returns the colour of a trial's score; orange for the best."""
        from matplotlib import colormaps

        place = self.scale.place(self.summary.worth(trial)) or 0.0
        return BEST if trial is self.best else colormaps[SCORES](0.05 + 0.87 * place)

    def scale_of(self, path: str, params: Iterable[Mapping[str, Any]]) -> Scale:
        """Returns the axis of a parameter."""
        return scale(self.summary.space.get(path, {}), [each.get(path) for each in params])

    # --- learning curves ----------------------------------------------------------------------------------------------

    def curves_caption(self) -> str:
        """Returns the caption of learning curves."""
        suggestions = self.summary.suggestions
        seeds, count = caption([len(one.trials) for one in suggestions]), len(suggestions)
        what = f"One line per suggestion: {seeds}" if seeds else "One line per trial"
        return what + (f"; the best {NAMED} of {count} in colour." if count > NAMED else ".")

    def curves(self, figure: FigureBase) -> None:
        """Draws the metric over training, the best in front."""
        axes = figure.add_subplot()
        style_axes(axes)
        suggestions = self.summary.suggestions
        lines = [[self.points(trial) for trial in one.trials] for one in suggestions]
        faint = max(0.25, min(0.9, 30 / (len(suggestions) + 1)))
        for x, y in (line for group in lines[NAMED:] for line in group):
            axes.plot(x, y, color=GREY, linewidth=0.9, alpha=faint, zorder=1, marker="." if len(x) == 1 else "")
        colors = [BEST, *(known for known in COLORS if known != BEST)]
        for place, (one, group) in reversed(list(enumerate(zip(suggestions[:NAMED], lines, strict=False)))):
            alone = len(group) == 1
            known = [Curve(*(line if alone else _sorted(*line)), settings={}) for line in group if line[0]]
            words = format_params(one.params, {path: self.names[path] for path in self.paths})
            label = one.trials[0].name if alone else f"{one.number:05d}"
            label += f"  {words if len(words) < 110 else words[:108] + '…'}" if words else ""
            label += f" ({len(known)} seeds)" if len(known) > 1 else ""
            draw_mean(axes, known, label, colors[place], 2.4 if place == 0 else 1.5, order=10 - place)
        handles, labels = axes.get_legend_handles_labels()
        columns = 2 if max(map(len, labels)) < 60 else 1
        axes.legend(handles[::-1], labels[::-1], frameon=False, fontsize=8.5, labelcolor=INK, loc="upper left",
                    bbox_to_anchor=(0.0, -0.13), borderaxespad=0.0, ncols=columns)  # fmt: skip
        axes.margins(x=0.01)
        values = [value for group in lines for _, y in group for value in y]
        shown = [value for group in lines[:NAMED] for _, y in group for value in y]
        low, high = np.nanpercentile(values, [5, 95])  # a grey curve that diverged is not shown whole
        low, high = min(low, np.nanmin(shown)), max(high, np.nanmax(shown))
        room = 0.06 * (high - low) or 1.0
        axes.set_ylim(low - room, high + room)
        label_x(axes, "environment steps" if self.axis == "env_steps" else self.axis)
        axes.set_ylabel(self.metric, color=INK)

    def points(self, trial: TrialSummary) -> tuple[list[float], list[float]]:
        """Returns a trial's curve, thinned; with a gap where it became a copy of a younger trial."""
        x: list[float] = []
        y: list[float] = []
        for row in thinned([row for row in trial.history if is_number(row.get(self.metric))], MOST_POINTS):
            if x and row[self.axis] <= x[-1]:
                x.append(math.nan)
                y.append(math.nan)
            x.append(float(row[self.axis]))
            y.append(float(row[self.metric]))
        return x, y

    # --- parameters ---------------------------------------------------------------------------------------------------

    def parallel(self, figure: FigureBase) -> None:
        """Draws parallel coordinates: an axis for each parameter, and the score at the right."""
        axes = figure.add_subplot()
        params, scores = zip(*((trial.params, score) for trial, score in self.scored), strict=True)
        scales = [*(self.scale_of(path, params) for path in self.paths), line_scale(scores)]
        last = len(self.paths)
        ease = np.linspace(0, 1, 24)
        ease_y = ease * ease * (3 - 2 * ease)
        faint = max(0.3, min(0.9, 60 / len(self.scored)))
        for trial, score in sorted(self.scored, key=lambda pair: self.summary.worth(pair[0])):
            values = [*(trial.params.get(path) for path in self.paths), score]
            places = [axis.place(value) for axis, value in zip(scales, values, strict=True)]
            width, order, alpha = (2.6, 5, 1.0) if trial is self.best else (1.1, 2, faint)
            for at, (here, there) in enumerate(pairwise(places)):
                if here is not None and there is not None:
                    axes.plot(at + ease, here + (there - here) * ease_y, color=self.color(trial), linewidth=width,
                              alpha=alpha, zorder=order, solid_capstyle="round")  # fmt: skip
        halo = {"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.75}
        heads = [*(self.names[path] for path in self.paths), self.metric]
        for at, (axis, head) in enumerate(zip(scales, heads, strict=True)):
            axes.plot([at, at], [0, 1], color=INK, linewidth=1.0, zorder=3)
            side, align = (-6, "right") if at < last else (6, "left")
            for place, word in axis.ticks():
                axes.plot([at - 0.004 * last, at + 0.004 * last], [place, place], color=INK, linewidth=1.0, zorder=3)
                axes.annotate(word, (at, place), (side, 0), textcoords="offset points", fontsize=8, color=INK,
                              ha=align, va="center", zorder=6, bbox=halo)  # fmt: skip
            axes.annotate(head, (at, 1.0), (0, 12), textcoords="offset points", ha="center", fontsize=9.5,
                          fontweight="bold", color=INK)  # fmt: skip
        axes.set_xlim(-0.06 * last - 0.05, last + 0.06 * last)
        axes.set_ylim(-0.04, 1.09)
        axes.axis("off")

    def multiples(self, figure: FigureBase) -> None:
        """Draws the score against each parameter."""
        for axes, path in small_axes(figure, self.paths, sharey=True):
            drawn = self.scale_of(path, [trial.params for trial, _ in self.scored])
            for trial, score in self.scored:
                at = drawn.place(trial.params.get(path))
                if at is None:
                    continue
                if drawn.choices:  # dots of one choice side by side, always the same
                    at += (zlib.crc32(trial.name.encode()) / 2**32 - 0.5) * 0.4 / len(drawn.choices)
                size, order = (7.0, 4) if trial is self.best else (4.5, 3)
                axes.plot([at], [score], "o", color=self.color(trial), markersize=size, zorder=order,
                          markeredgecolor="white", markeredgewidth=0.6)  # fmt: skip
            axes.set_xticks(*zip(*drawn.ticks(), strict=True))
            axes.set_xlim(-0.04, 1.04)
            axes.set_xlabel(self.names[path], color=INK, fontweight="bold")
        figure.supylabel(self.metric, color=INK, fontsize="medium")

    def front(self, figure: FigureBase) -> None:
        """Draws the first two metrics against each other, and the Pareto front."""
        axes = figure.add_subplot()
        style_axes(axes)
        for one in self.summary.suggestions:
            axes.plot(*one.values[:2], "o", color=DARK, markersize=5, alpha=0.7, markeredgewidth=0)
        best = sorted(self.summary.pareto(), key=lambda one: one.values)
        axes.plot(*zip(*(one.values[:2] for one in best), strict=True), "o-", color=BEST, markersize=7)
        for one in best[:MOST_MULTIPLES]:
            axes.annotate(f"{one.number:05d}", (one.values[0], one.values[1]), (6, 5), textcoords="offset points",
                          fontsize=8, color=INK)  # fmt: skip
        axes.set_xlabel(self.summary.metrics[0], color=INK)
        axes.set_ylabel(self.summary.metrics[1], color=INK)

    # --- schedulers ---------------------------------------------------------------------------------------------------

    @cached_property
    def parts(self) -> list[Part]:
        """All stages of all trials."""
        return [(stage, stage.begin, stage.end) for life in self.summary.stages.values() for stage in life]

    @cached_property
    def ancestors(self) -> list[Part]:
        """Stages that led to the best trial."""
        return ancestry(self.summary.stages[self.best.name][-1])

    def schedules(self, figure: FigureBase) -> None:
        """Draws each parameter that changed, over the age of its trials."""
        for axes, path in small_axes(figure, self.changed):
            drawn = self.scale_of(path, [stage.params for stage, _, _ in self.parts])
            for line in ([part] for part in self.parts):
                axes.plot(*steps(line, path, drawn), color=DARK, linewidth=1.0, alpha=0.55)
            axes.plot(*steps(self.ancestors, path, drawn), color=BEST, linewidth=2.6, solid_joinstyle="miter")
            axes.set_yticks(*zip(*drawn.ticks(), strict=True))
            axes.set_title(self.names[path], loc="left", fontsize=9.5, fontweight="bold", color=INK)
            label_x(axes, self.clock.replace("_", " "))

    def tree(self, figure: FigureBase) -> None:
        """Draws the lives of trials side by side, with arrows from donors to their copies."""
        rows = {name: place for place, name in enumerate(self.summary.stages)}
        axes = self._lanes(figure, len(rows))
        chosen = {id(stage) for stage, _, _ in self.ancestors}
        for stage, begin, end in self.parts:
            axes.plot([begin, end], [rows[stage.trial]] * 2, color=GREY, linewidth=1.6, zorder=1)
            if stage.parent is not None:
                color, width, order = (BEST, 1.6, 3) if id(stage) in chosen else (DARK, 0.7, 2)
                arrow = {"arrowstyle": "-|>", "color": color, "linewidth": width, "mutation_scale": 8, "shrinkA": 0,
                         "shrinkB": 1, "connectionstyle": "arc3,rad=0.25"}  # fmt: skip
                axes.annotate("", (begin, rows[stage.trial]), (begin, rows[stage.parent.trial]),
                              arrowprops=arrow, zorder=order)  # fmt: skip
        for stage, begin, end in self.ancestors:
            axes.plot([begin, end], [rows[stage.trial]] * 2, color=BEST, linewidth=3.0, zorder=4, solid_capstyle="butt")
        shown = list(rows)[:: max(1, math.ceil(len(rows) / 40))]
        axes.set_yticks([rows[name] for name in shown], shown, fontsize=7.5)

    def ages(self, figure: FigureBase) -> None:
        """Draws the age of each trial, and where the scheduler stopped it."""
        trials = [trial for one in self.summary.suggestions for trial in one.trials]
        reached = {name: life[-1].end for name, life in self.summary.stages.items()}
        trials.sort(key=lambda trial: -reached[trial.name])
        shown = trials[:: max(1, math.ceil(len(trials) / MOST_BARS))]
        axes = self._lanes(figure, len(shown))
        for place, trial in enumerate(shown):
            color, weight, alpha = (BEST, "bold", 1.0) if trial is self.best else (INK, "normal", 0.8)
            words, bar = ENDS[end_of(trial)]
            axes.barh(place, reached[trial.name], color=bar, height=0.72, zorder=2, alpha=alpha, label=words)
            if trial.score is not None and len(shown) <= 40:
                axes.annotate(f"{trial.name}  {format_value(float(trial.score))}", (reached[trial.name], place), (4, 0),
                              textcoords="offset points", va="center", fontsize=7, color=color,
                              fontweight=weight)  # fmt: skip
        stops = Counter(reached[trial.name] for trial in trials if end_of(trial) == "stopped")
        for age in (age for age, count in stops.items() if count > 1):
            axes.axvline(age, color=DARK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
        handles, labels = axes.get_legend_handles_labels()
        named = dict(zip(labels, handles, strict=True))
        axes.legend(named.values(), named.keys(), frameon=False, fontsize=8.5, labelcolor=INK, loc="lower right")
        axes.set_yticks([])

    def _lanes(self, figure: FigureBase, count: int) -> Axes:
        """Returns axes with a row for each trial, from top to bottom, over its age."""
        axes = figure.add_subplot()
        style_axes(axes)
        axes.grid(False, axis="y")
        axes.set_ylim(count - 0.4, -0.6)
        label_x(axes, self.clock.replace("_", " "))
        return axes


def grid_of(paths: Sequence[str]) -> tuple[int, int]:
    """Returns the number of rows and columns of small figures, one for each path."""
    count = min(len(paths), MOST_MULTIPLES)
    columns = count if count <= 4 else 3
    return math.ceil(count / columns), columns


def small_axes(figure: FigureBase, paths: Sequence[str], sharey: bool = False) -> Iterable[tuple[Axes, str]]:
    """Returns axes for each path, side by side."""
    grid = figure.subplots(*grid_of(paths), squeeze=False, sharey=sharey).flat
    for axes in grid[len(paths) :]:
        axes.remove()
    for axes in grid[: len(paths)]:
        style_axes(axes)
    return zip(grid, paths, strict=False)


def steps(parts: Iterable[Part], path: str, drawn: Scale) -> tuple[list[float], list[float]]:
    """Returns the line of a parameter over parts of lives, constant from begin to end of each."""
    places = [(begin, end, drawn.place(stage.params.get(path))) for stage, begin, end in parts if end > begin]
    known = [(age, at) for begin, end, at in places for age in (begin, end) if at is not None]
    return [age for age, _ in known], [at for _, at in known]


def end_of(trial: TrialSummary) -> str:
    """Returns the end of a trial: a key of `ENDS`."""
    if trial.status == "ERROR":
        return "failed"
    if trial.status != "TERMINATED":
        return "open"
    return "stopped" if "scheduler" in trial.reason else "ended"


def ancestry(stage: Stage) -> list[Part]:
    """Returns the ancestors of a stage and the stage itself, oldest first, each with begin and end of its age."""
    found = [(stage, stage.begin, stage.end)]
    while (parent := found[0][0].parent) is not None:
        found.insert(0, (parent, parent.begin, found[0][1]))
    return found


def changed_paths(stages: Mapping[str, Sequence[Stage]]) -> list[str]:
    """Returns the paths of parameters that changed within a trial."""
    changes = ((stage.params, life[0].params) for life in stages.values() for stage in life[1:])
    return list(dict.fromkeys(path for now, before in changes for path in now if now[path] != before.get(path)))


def _sorted(x: Sequence[float], y: Sequence[float]) -> tuple[list[float], list[float]]:
    """Returns points in the order of x, without gaps; the last of several at the same x."""
    points = {at: value for at, value in zip(x, y, strict=True) if at == at}
    return sorted(points), [points[at] for at in sorted(points)]


# --- axes of parameters -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scale:
    """An axis from 0 to 1: even steps for categories, else a linear or logarithmic scale.

    Attributes:
        low: The smallest number.
        high: The largest number.
        log: Whether the logarithm is even.
        choices: Values as text, bottom to top; empty for a continuous axis.
    """

    low: float
    high: float
    log: bool = False
    choices: tuple[str, ...] = ()

    def place(self, value: Any) -> float | None:
        """Returns the position of a value; None if it is not on this axis."""
        if self.choices:
            word = format_value(value)
            return (self.choices.index(word) + 0.5) / len(self.choices) if word in self.choices else None
        if not is_number(value) or (self.log and value <= 0):
            return None
        if self.high <= self.low:
            return 0.5
        low, at, high = (math.log(x) if self.log else x for x in (self.low, value, self.high))
        return float((at - low) / (high - low))

    def ticks(self) -> list[tuple[float, str]]:
        """Returns positions and labels of ticks."""
        from matplotlib.ticker import Locator, LogLocator, MaxNLocator

        if self.choices:
            return [((place + 0.5) / len(self.choices), word) for place, word in enumerate(self.choices)]
        if self.high <= self.low:
            return [(0.5, format_value(self.low))]
        locator: Locator = MaxNLocator(nbins=6, steps=[1, 2, 5, 10])
        if self.log:
            locator = LogLocator(subs=(1.0, 2.0, 5.0) if self.high / self.low < 100 else (1.0,), numticks=7)
        places = [(self.place(value), value) for value in map(float, locator.tick_values(self.low, self.high))]
        inside = [(at, format_value(value)) for at, value in places if at is not None and -1e-9 <= at <= 1 + 1e-9]
        return inside if len(inside) > 1 else [(0.0, format_value(self.low)), (1.0, format_value(self.high))]


def scale(description: Mapping[str, Any], values: Iterable[Any]) -> Scale:
    """Returns the axis of a parameter.

    Args:
        description: Description of its domain: ``{"loguniform": [0.0001, 0.01]}``; empty if unknown.
        values: Values to be shown; a clone's may lie outside of the domain.
    """
    known = [value for value in values if value is not None]
    kind, arguments = next(iter(description.items()), ("", []))
    listed = kind in ("choice", "grid_search")
    known = [*(arguments if listed else ()), *known]
    numbers = all(map(is_number, known))
    if listed or not numbers:
        words = tuple(dict.fromkeys(map(format_value, sorted(known) if numbers else known)))
        if len(words) <= MOST_MULTIPLES or not numbers:
            return Scale(0.0, 1.0, choices=words)
    if "uniform" in kind or "randint" in kind:
        known += [arguments[0], arguments[1] - ("randint" in kind and not kind.startswith("q"))]
        return line_scale(known, "log" in kind)
    return line_scale(known, bool(known) and min(known) > 0 and max(known) / min(known) > 50)


def line_scale(values: Sequence[float], log: bool = False) -> Scale:
    """Returns an axis from the smallest to the largest of some numbers."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    return Scale(low, high, log and low > 0)


# --- the page ---------------------------------------------------------------------------------------------------------

KINDS = (".html", ".png")

LONGEST_ERROR = 6000
"""Number of last characters of tracebacks that a trial shows."""

TEMPLATE = "experiment_page.html"
"""Template of the page, a file in this folder."""


def write_page(summary: ExperimentSummary[TrialSummary], target: str | Path) -> None:
    """Writes the report of an experiment to a file.

    Args:
        summary: Experiment to show.
        target: File to write, ``.html`` or ``.png``; its folder is created if missing.

    Raises:
        ConfigError: If the suffix is another one, matplotlib is not installed, no trial has a number yet, or the file
            cannot be written.
    """
    target = Path(target)
    kind = target.suffix.lower()
    if kind not in KINDS:
        raise ConfigError(f"-o {target}: must end with {' or '.join(KINDS)}{nearest(kind, list(KINDS))}")
    shown = figures(summary)
    content = page(summary, shown).encode() if kind == ".html" else png(shown, summary.folder)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_file(target, content)
    except OSError as error:
        raise ConfigError(f"-o {target}: cannot be written: {error.strerror}") from None


def svg(shown: ExperimentFigure) -> str:
    """Returns a figure as an SVG element."""
    figure = new_figure(WIDTH, shown.height, "a report")
    from matplotlib import rc_context

    shown.draw(figure)
    written = io.StringIO()
    with rc_context({"svg.hashsalt": "rookery"}):  # equal figures have equal text
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return written.getvalue()[written.getvalue().index("<svg") :]


def png(shown: Sequence[ExperimentFigure], title: str) -> bytes:
    """Returns all figures, one under the other, as PNG."""
    heights = [each.height + 0.45 for each in shown]
    figure = new_figure(WIDTH, sum(heights) + 0.5, "a report")
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold", color=INK)
    parts = figure.subfigures(len(shown), 1, height_ratios=heights, squeeze=False).flat
    for each, part in zip(shown, parts, strict=True):
        part.suptitle(each.title, x=0.01, ha="left", fontsize=11, fontweight="bold", color=INK)
        each.draw(part)
    written = io.BytesIO()
    figure.savefig(written, format="png")
    return written.getvalue()


def page(summary: ExperimentSummary[TrialSummary], shown: Iterable[ExperimentFigure]) -> str:
    """Returns the whole page: facts, figures, and a sortable table of trials.

    Raises:
        ConfigError: If no trial has a number yet.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    pages = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )

    def numbers(trial: TrialSummary) -> list[tuple[Any, str]]:
        """Returns the numeric columns: sort key and text of each."""
        seconds, steps = trial.last.get("seconds"), trial.last.get("env_steps")
        params = [(trial.params.get(path), format_value(trial.params.get(path, ""))) for path in summary.varying]
        counts = [(trial.iteration, str(trial.iteration)), (seconds, span(seconds)), (steps, number(steps))]
        return [*params, *counts, *((score, number(score)) for score in trial.scores)]

    def points(trial: TrialSummary) -> str:
        return _curve([row.get(summary.metrics[0]) for row in trial.history])

    pages.filters.update(numbers=numbers, points=points, sort_key=_sort_key, traceback=_traceback)
    return pages.get_template(TEMPLATE).render(
        title=summary.title,
        folder=summary.folder,
        scores=_scores(summary),
        facts=_facts(summary),
        figures=[(each, svg(each)) for each in shown],
        heads=[*summary.varying.values(), "iteration", "time", "env steps", *summary.metrics],
        trials=sorted(summary.trials, key=summary.worth, reverse=True),
        best=summary.best,
        version=__version__,
    )


def _scores(summary: ExperimentSummary[TrialSummary]) -> list[tuple[str, str, str]]:
    """Returns the scores at the top: label, text and interval of each."""
    best, leading = summary.best, summary.suggestions[0]
    spent = sum(float(trial.last.get("seconds") or 0.0) for trial in summary.trials)
    scores = [(f"best {summary.metrics[0]}, trial {best.name}", number(best.score), "")]
    if len(leading.trials) > 1:
        low, high = map(number, leading.intervals[0])
        what = f"mean of {len(leading.trials)} seeds, 95 % interval"
        scores.append((what, number(leading.score), f"{low} to {high}"))
    return [*scores, ("trials", str(len(summary.trials)), ""), ("time of all trials together", span(spent), "")]


def _facts(summary: ExperimentSummary[TrialSummary]) -> dict[str, str]:
    """Returns the facts about an experiment: best parameters, metrics, search, scheduler."""
    best, settings = summary.best, summary.settings
    counts = Counter(str(trial.status) for trial in summary.trials)
    metrics = zip(summary.metrics, summary.modes, strict=True)
    return {
        "Best parameters": format_params(best.params, summary.varying or short_names(best.params)) or "-",
        "Metrics": ", ".join(f"{metric} ({mode}, {summary.scope} of a trial)" for metric, mode in metrics),
        "Trials": ", ".join(f"{count} {status}" for status, count in counts.items()),
        "Search": _part(settings.get("search")),
        "Scheduler": _part(settings.get("scheduler")),
        "Search space": "; ".join(f"{path}: {_domain(domain)}" for path, domain in summary.space.items()),
        "Seed": str(settings.get("seed", "-")),
    }


def _part(settings: Any) -> str:
    """Returns a search or scheduler with its settings as text."""
    if not isinstance(settings, Mapping):
        return ""
    name = settings.get("name") or settings.get("object") or ""
    rest = {key: value for key, value in settings.items() if key not in ("name", "object")}
    words = ", ".join(f"{key} {format_value(value)}" for key, value in rest.items() if value not in (None, [], {}))
    return f"{name} ({words})" if words else str(name)


def _domain(description: Mapping[str, Any]) -> str:
    ((kind, arguments),) = description.items()
    inside = flow(arguments)
    return f"{kind}({inside[1:-1] if isinstance(arguments, list) else inside})"


def _traceback(trial: TrialSummary) -> str:
    """Returns the last tracebacks of a failed trial."""
    log = trial.folder / "error.txt"
    return log.read_text(encoding="utf-8", errors="replace")[-LONGEST_ERROR:] if log.exists() else trial.error


def _sort_key(key: Any) -> str:
    """Returns the sort key of a cell."""
    return repr(float(key)) if is_number(key) else "" if key is None else format_value(key)


def _curve(values: Sequence[Any]) -> str:
    """Returns the points of a small learning curve for an SVG polyline."""
    known = [(place, float(value)) for place, value in enumerate(values) if is_number(value)]
    if len(known) < 2:
        return ""
    known = [known[0], *thinned(known[1:], 60)]
    low, high = min(value for _, value in known), max(value for _, value in known)
    size, begin, length = (high - low) or 1.0, known[0][0], known[-1][0] - known[0][0]
    return " ".join(f"{1 + 88 * (x - begin) / length:.1f},{18 - 16 * (y - low) / size:.1f}" for x, y in known)
