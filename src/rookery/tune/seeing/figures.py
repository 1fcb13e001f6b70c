"""The pictures of an experiment: learning curves, parameters against score, how far trials came, who was copied.

`panels` says which of them an experiment has; each draws itself into any figure of matplotlib.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from rookery.report.curves import COLORS, Curve, average, dress
from rookery.tune.analysis import Analysis, Suggestion, TrialResult
from rookery.tune.seeing.lineage import Stage, ancestry, mutated, stages
from rookery.tune.seeing.scales import Scale, line, scale
from rookery.tune.seeing.words import short_names, told, told_params, varying
from rookery.tune.trial import Status, is_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

WIDTH = 10.0
"""Inches."""

NAMED = 5
"""Curves with a colour and a name, the best ones; the others are grey."""

MOST_POINTS = 250
"""Of a curve; nobody sees more."""

MOST_BARS = 60
MOST_MULTIPLES = 12

GREY, DARK, INK = "#c4c8cc", "#8a9099", "#333a41"
BEST = "#d55e00"
"""Whatever belongs to the best trial."""

SCORES = "viridis"
"""Colours of scores, dark to bright as they get better."""

ENDS = {"ended": "#009e73", "stopped": "#e69f00", "failed": "#c0392b", "open": "#8fb8d6"}


@dataclass(frozen=True)
class Panel:
    """A picture.

    Attributes:
        title: What it shows.
        caption: How to read it.
        height: Inches, of `WIDTH`.
        draw: Draws it.
    """

    title: str
    caption: str
    height: float
    draw: Callable[[FigureBase], None]


def panels(analysis: Analysis) -> list[Panel]:
    """The pictures that say something about an experiment, the most telling first.

    Raises:
        ConfigError: If no trial has a number yet.
    """
    made = Pictures(analysis)
    shown = [Panel("Learning curves", made.curves_caption(), 5.2, made.curves)]
    if made.paths and len(made.scored) > 1:
        count = min(len(made.paths), MOST_MULTIPLES)
        rows = math.ceil(count / columns_of(count))
        shown.append(Panel("Parameters and score", "A line a trial, from its parameters to its score; brighter is "
                           "better, the best is orange.", 4.2, made.parallel))  # fmt: skip
        shown.append(Panel("Score against each parameter", "A dot a trial; the best is orange.",
                           2.6 * rows + 0.2, made.multiples))  # fmt: skip
    if len(analysis.metrics) > 1:
        shown.append(Panel("Aims against each other", "A dot a suggestion; the orange line joins those that no other "
                           "beats in both.", 4.2, made.front))  # fmt: skip
    if made.changed:
        rows = math.ceil(min(len(made.changed), MOST_MULTIPLES) / 2)
        shown.append(Panel("Schedules that the population found", "A line a trial: what its parameter was at each age. "
                           "Orange: the way to the best trial, through all of its ancestors.",
                           2.6 * rows + 0.3, made.schedules))  # fmt: skip
        height = min(max(0.16 * len(made.lives) + 1.2, 2.4), 9.0)
        shown.append(Panel("Family tree", "A line a trial. An arrow leads from a donor to the trial that went on as "
                           "its copy. Orange: the ancestors of the best trial.", height, made.tree))  # fmt: skip
    elif any(made.end_of(result) == "stopped" for result in analysis.trials):
        height = min(max(0.11 * min(len(analysis), MOST_BARS) + 1.2, 2.4), 8.0)
        shown.append(Panel("How far trials came", "A bar a trial, the best at the top; a dashed line where the "
                           "scheduler has stopped several.", height, made.ages))  # fmt: skip
    return shown


class Pictures:
    """Draws an experiment.

    Args:
        analysis: It.

    Raises:
        ConfigError: If no trial has a number yet.
    """

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.suggestions = analysis.suggestions()
        self.best = analysis.best()
        self.judge = self.best.judge
        self.scored = [(trial, trial.score) for trial in analysis.trials if trial.score is not None]
        self.clock = analysis.experiment["tune"].get("scheduler", {}).get("time", "iteration")
        self.lives = stages(analysis.records, self.clock)
        self.changed = mutated(self.lives)
        self.paths = varying([trial.params for trial in analysis.trials]) if len(analysis) > 1 else []
        self.names = short_names(dict.fromkeys([*self.paths, *self.changed]))
        rows = [row for trial in analysis.trials for row in trial.history]
        self.axis = "env_steps" if rows and all(is_number(row.get("env_steps")) for row in rows) else "iteration"

    @cached_property
    def worths(self) -> Scale:
        """Scores as places from 0 (the worst) to 1 (the best)."""
        return line([self.judge.worth(score) for _, score in self.scored], log=False)

    def color(self, score: float | None) -> Any:
        """The colour of a score; grey for none."""
        from matplotlib import colormaps

        place = None if score is None else self.worths.place(self.judge.worth(score))
        return GREY if place is None else colormaps[SCORES](0.05 + 0.87 * place)

    def scale_of(self, path: str, values: Sequence[Any]) -> Scale:
        """The axis of a parameter."""
        return scale(self.analysis.space.get(path, {}), values)

    def label(self, trial: TrialResult | Suggestion) -> str:
        """What a curve is called: number, and what sets it apart."""
        name = trial.name if isinstance(trial, TrialResult) else f"{trial.number:05d}"
        words = told_params(trial.params, self.paths, self.names)
        words = words if len(words) < 110 else words[:108] + "…"
        return f"{name}  {words}" if words else name

    # --- learning curves ----------------------------------------------------------------------------------------------

    def curves_caption(self) -> str:
        """What lines and bands are."""
        many = any(len(one.trials) > 1 for one in self.suggestions)
        what = "the mean of each suggestion and its 95 % interval over seeds" if many else "a line a trial"
        count = len(self.suggestions)
        return f"{what[0].upper()}{what[1:]}" + (f"; the best {NAMED} of {count} in colour." if count > NAMED else ".")

    def curves(self, figure: FigureBase) -> None:
        """The metric over training, the best in front."""
        axes = figure.add_subplot()
        dress(axes)
        named = self.suggestions[:NAMED]
        faint = max(0.25, min(0.9, 30 / (len(self.suggestions) + 1)))
        lone = {one.number for one in self.suggestions}
        for trial in self.analysis.trials:
            x, y = self.points(trial)
            if trial.number not in {one.number for one in named} and trial.number in lone:
                axes.plot(x, y, color=GREY, linewidth=0.9, alpha=faint, zorder=1, marker="." if len(x) == 1 else "")
        for place, one in reversed(list(enumerate(named))):
            color = BEST if place == 0 else [known for known in COLORS if known != BEST][place - 1]
            self._curve(axes, one, color, 2.4 if place == 0 else 1.5, 10 - place)
        handles, labels = axes.get_legend_handles_labels()
        columns = 2 if max(map(len, labels)) < 60 else 1
        axes.legend(handles[::-1], labels[::-1], frameon=False, fontsize=8.5, labelcolor=INK, loc="upper left",
                    bbox_to_anchor=(0.0, -0.13), borderaxespad=0.0, ncols=columns)  # fmt: skip
        axes.margins(x=0.01)
        axes.set_ylim(*self._limits(named))
        _thousands(axes)
        axes.set_xlabel("environment steps" if self.axis == "env_steps" else self.axis, color=INK)
        axes.set_ylabel(self.judge.metric, color=INK)

    def _curve(self, axes: Axes, one: Suggestion, color: str, width: float, order: int) -> None:
        """A suggestion: its trial, or the mean and interval of several."""
        known = [(x, y) for trial in one.trials if (points := self.points(trial)) for x, y in [points] if x]
        if len(known) == 1:
            label = self.label(one.trials[0] if len(one.trials) == 1 else one)
            axes.plot(*known[0], color=color, linewidth=width, label=label, zorder=order,
                      marker="o" if len(known[0][0]) == 1 else "")  # fmt: skip
            return
        drawn = [Curve(*_sorted(x, y), settings={}) for x, y in known]
        grid, mean, low, high = average(drawn)
        for x, y in known:
            axes.plot(x, y, color=color, linewidth=0.6, alpha=0.3, zorder=order - 1)
        axes.fill_between(grid, low, high, color=color, alpha=0.15, linewidth=0, zorder=order - 1)
        axes.plot(grid, mean, color=color, linewidth=width, label=f"{self.label(one)} ({len(known)} seeds)",
                  zorder=order)  # fmt: skip

    def _limits(self, named: Sequence[Suggestion]) -> tuple[float, float]:
        """From where to where curves are drawn: what has a name is shown whole, a grey one that diverged is not."""
        values = [value for trial in self.analysis.trials for value in self.points(trial)[1] if not math.isnan(value)]
        shown = [value for one in named for trial in one.trials for value in self.points(trial)[1] if value == value]
        low, high = np.percentile(values, [5, 95])
        low, high = min(float(low), min(shown)), max(float(high), max(shown))
        room = 0.06 * (high - low) or 1.0
        return low - room, high + room

    def points(self, trial: TrialResult) -> tuple[list[float], list[float]]:
        """A trial's curve; a gap where it became a copy of one that was not as far."""
        x: list[float] = []
        y: list[float] = []
        for row in trial.history:
            if is_number(row.get(self.judge.metric)) and is_number(row.get(self.axis)):
                if x and row[self.axis] <= x[-1]:
                    x.append(math.nan)
                    y.append(math.nan)
                x.append(float(row[self.axis]))
                y.append(float(row[self.judge.metric]))
        step = max(1, len(x) // MOST_POINTS)
        kept = [place for place in range(len(x)) if (len(x) - 1 - place) % step == 0 or math.isnan(x[place])]
        return [x[place] for place in kept], [y[place] for place in kept]

    # --- parameters ---------------------------------------------------------------------------------------------------

    def parallel(self, figure: FigureBase) -> None:
        """Parallel coordinates: an axis for each parameter, and the score at the right."""
        axes = figure.add_subplot()
        scales = {path: self.scale_of(path, [t.params.get(path) for t, _ in self.scored]) for path in self.paths}
        scores = line([score for _, score in self.scored], log=False)
        last = len(self.paths)
        ease = np.linspace(0, 1, 24)
        ease_y = ease * ease * (3 - 2 * ease)
        faint = max(0.3, min(0.9, 60 / len(self.scored)))
        for trial, score in sorted(self.scored, key=lambda pair: self.judge.worth(pair[1])):
            places = [*(scales[path].place(trial.params.get(path)) for path in self.paths), scores.place(score)]
            best = trial.name == self.best.name
            for at, (here, there) in enumerate(pairwise(places)):
                if here is not None and there is not None:
                    axes.plot(at + ease, here + (there - here) * ease_y, color=BEST if best else self.color(score),
                              linewidth=2.6 if best else 1.1, alpha=1.0 if best else faint,
                              zorder=5 if best else 2, solid_capstyle="round")  # fmt: skip
        halo = {"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.75}
        for at, path in enumerate([*self.paths, self.judge.metric]):
            axes.plot([at, at], [0, 1], color=INK, linewidth=1.0, zorder=3)
            for place, word in (scales[path] if at < last else scores).ticks():
                axes.plot([at - 0.004 * last, at + 0.004 * last], [place, place], color=INK, linewidth=1.0, zorder=3)
                side = -1 if at < last else 1
                axes.annotate(word, (at, place), (6 * side, 0), textcoords="offset points", fontsize=8, color=INK,
                              ha="right" if at < last else "left", va="center", zorder=6, bbox=dict(halo))  # fmt: skip
            axes.annotate(self.names[path] if at < last else path, (at, 1.0), (0, 12), textcoords="offset points",
                          ha="center", fontsize=9.5, fontweight="bold", color=INK)  # fmt: skip
        axes.set_xlim(-0.06 * last - 0.05, last + 0.06 * last)
        axes.set_ylim(-0.04, 1.09)
        axes.axis("off")

    def multiples(self, figure: FigureBase) -> None:
        """Score against each parameter."""
        paths = self.paths[:MOST_MULTIPLES]
        columns = columns_of(len(paths))
        grid = figure.subplots(math.ceil(len(paths) / columns), columns, squeeze=False, sharey=True)
        for axes, path in zip(grid.flat, paths, strict=False):
            dress(axes)
            drawn = self.scale_of(path, [trial.params.get(path) for trial, _ in self.scored])
            for trial, score in self.scored:
                at = drawn.place(trial.params.get(path))
                if at is None:
                    continue
                best = trial.name == self.best.name
                if drawn.choices:  # dots of one choice side by side, always the same
                    at += (hash_of(trial.name) - 0.5) * 0.4 / len(drawn.choices)
                axes.plot([at], [score], "o", color=BEST if best else self.color(score), markersize=7 if best else 4.5,
                          markeredgecolor="white", markeredgewidth=0.6, zorder=4 if best else 3)  # fmt: skip
            ticks = drawn.ticks()
            axes.set_xticks([place for place, _ in ticks], [word for _, word in ticks])
            axes.set_xlim(-0.04, 1.04)
            axes.set_xlabel(self.names[path], color=INK, fontweight="bold")
        for place, axes in enumerate(grid.flat):
            if place >= len(paths):
                axes.axis("off")
            elif place % columns == 0:
                axes.set_ylabel(self.judge.metric, color=INK)

    def front(self, figure: FigureBase) -> None:
        """The first two metrics against each other, and the Pareto front."""
        axes = figure.add_subplot()
        dress(axes)
        for one in self.suggestions:
            axes.plot(*one.values[:2], "o", color=DARK, markersize=5, alpha=0.7, markeredgewidth=0)
        best = sorted(self.analysis.pareto(), key=lambda one: one.values)
        axes.plot([one.values[0] for one in best], [one.values[1] for one in best], "o-", color=BEST, markersize=7)
        for one in best[:MOST_MULTIPLES]:
            axes.annotate(
                f"{one.number:05d}",
                (one.values[0], one.values[1]),
                (6, 5),
                textcoords="offset points",
                fontsize=8,
                color=INK,
            )
        axes.set_xlabel(self.analysis.metrics[0], color=INK)
        axes.set_ylabel(self.analysis.metrics[1], color=INK)

    # --- schedulers ---------------------------------------------------------------------------------------------------

    @cached_property
    def ancestors(self) -> list[tuple[Stage, float, float]]:
        """What led to the best trial."""
        return ancestry(self.lives[self.best.name][-1])

    def schedules(self, figure: FigureBase) -> None:
        """Each parameter that changed, over the age of its trials."""
        paths = self.changed[:MOST_MULTIPLES]
        columns = min(len(paths), 2)
        grid = figure.subplots(math.ceil(len(paths) / columns), columns, squeeze=False, sharex=True)
        everything = [stage for life in self.lives.values() for stage in life]
        for axes, path in zip(grid.flat, paths, strict=False):
            dress(axes)
            drawn = self.scale_of(path, [stage.params.get(path) for stage in everything])
            lines = [(stage, stage.begin, stage.end, DARK, 1.0, 0.55) for stage in everything]
            lines += [(stage, begin, end, BEST, 2.6, 1.0) for stage, begin, end in self.ancestors]
            before: tuple[float, float] | None = None
            for stage, begin, end, color, width, alpha in lines:
                at = drawn.place(stage.params.get(path))
                if at is None or end <= begin:
                    continue
                axes.plot([begin, end], [at, at], color=color, linewidth=width, alpha=alpha, solid_capstyle="butt")
                if color == BEST:
                    if before is not None:
                        axes.plot([begin, begin], [before[1], at], color=color, linewidth=1.2)
                    before = end, at
            ticks = drawn.ticks()
            axes.set_yticks([place for place, _ in ticks], [word for _, word in ticks])
            axes.set_title(self.names[path], loc="left", fontsize=9.5, fontweight="bold", color=INK)
            _thousands(axes)
        for place, axes in enumerate(grid.flat):
            if place >= len(paths):
                axes.axis("off")
            elif place >= len(paths) - columns:
                axes.set_xlabel(self.clock.replace("_", " "), color=INK)

    def tree(self, figure: FigureBase) -> None:
        """Lives of trials side by side, with arrows from donors to their copies."""
        axes = figure.add_subplot()
        dress(axes)
        axes.grid(False, axis="y")
        rows = {name: place for place, name in enumerate(self.lives)}
        chosen = {id(stage): (begin, end) for stage, begin, end in self.ancestors}
        for name, life in self.lives.items():
            for stage in life:
                axes.plot([stage.begin, stage.end], [rows[name]] * 2, color=GREY, linewidth=1.6, zorder=1)
                if stage.parent is not None:
                    mine = id(stage) in chosen
                    arrow = {"arrowstyle": "-|>", "color": BEST if mine else DARK, "linewidth": 1.6 if mine else 0.7,
                             "mutation_scale": 8, "shrinkA": 0, "shrinkB": 1,
                             "connectionstyle": "arc3,rad=0.25"}  # fmt: skip
                    axes.annotate("", (stage.begin, rows[name]), (stage.begin, rows[stage.parent.trial]),
                                  arrowprops=arrow, zorder=3 if mine else 2)  # fmt: skip
        for stage, begin, end in self.ancestors:
            axes.plot([begin, end], [rows[stage.trial]] * 2, color=BEST, linewidth=3.0, zorder=4, solid_capstyle="butt")
        every = max(1, math.ceil(len(rows) / 40))
        shown = [name for place, name in enumerate(rows) if place % every == 0]
        axes.set_yticks([rows[name] for name in shown], shown, fontsize=7.5)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        _thousands(axes)
        axes.set_xlabel(self.clock.replace("_", " "), color=INK)

    def end_of(self, result: TrialResult) -> str:
        """How a trial ended: a key of `ENDS`."""
        if not result.status.is_over:
            return "open"
        if result.status is Status.ERROR:
            return "failed"
        return "stopped" if "scheduler" in result.reason else "ended"

    def ages(self, figure: FigureBase) -> None:
        """How old each trial became, and where the scheduler stopped them."""
        axes = figure.add_subplot()
        dress(axes)
        axes.grid(False, axis="y")
        order = [trial for one in self.suggestions for trial in one.trials]
        reached = {trial.name: self.lives[trial.name][-1].end for trial in self.analysis.trials}
        order.sort(key=lambda trial: -reached[trial.name])
        shown = order[:: max(1, math.ceil(len(order) / MOST_BARS))]
        for place, trial in enumerate(shown):
            best = trial.name == self.best.name
            axes.barh(place, reached[trial.name], color=ENDS[self.end_of(trial)], height=0.72, zorder=2,
                      alpha=1.0 if best else 0.8)  # fmt: skip
            if trial.score is not None and len(shown) <= 40:
                axes.annotate(f"{trial.name}  {told(float(trial.score))}", (reached[trial.name], place), (4, 0),
                              textcoords="offset points", va="center", fontsize=7,
                              color=BEST if best else INK, fontweight="bold" if best else "normal")  # fmt: skip
        stops = [reached[trial.name] for trial in order if self.end_of(trial) == "stopped"]
        for age in {age for age in stops if stops.count(age) > 1}:
            axes.axvline(age, color=DARK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
        told_ends = {"ended": "came to its own end", "stopped": "stopped by the scheduler", "failed": "failed",
                     "open": "not over yet"}  # fmt: skip
        for end in dict.fromkeys(self.end_of(trial) for trial in shown):
            axes.barh([0], [0], color=ENDS[end], label=told_ends[end])
        axes.legend(frameon=False, fontsize=8.5, labelcolor=INK, loc="lower right")
        axes.set_yticks([])
        axes.set_ylim(len(shown) - 0.4, -0.6)
        _thousands(axes)
        axes.set_xlabel(self.clock.replace("_", " "), color=INK)


def columns_of(count: int) -> int:
    """Small pictures side by side, for so many."""
    return count if count <= 4 else 3


def hash_of(name: str) -> float:
    """A number in [0, 1) that a name always has."""
    return sum((place + 1) * 37 * ord(letter) for place, letter in enumerate(name)) % 97 / 97


def _sorted(x: Sequence[float], y: Sequence[float]) -> tuple[list[float], list[float]]:
    """Points in the order of x, without gaps; the last of several at the same place."""
    points: Mapping[float, float] = {at: value for at, value in zip(x, y, strict=True) if at == at}
    return sorted(points), [points[at] for at in sorted(points)]


def _thousands(axes: Axes) -> None:
    from matplotlib.ticker import EngFormatter

    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
