"""What a person sees while trials run: a live table at a terminal, plain lines elsewhere, JSON for programs.

`TrialTable` is the picture, also that of ``rookery tune show``; a `View` decides when to draw it.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel as Frame
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rookery.core.errors import nearest
from rookery.report.console import next_drawing
from rookery.report.panel import ASCII_LEVELS, LEVELS, number, span, sparkline
from rookery.tune.seeing.words import short_names, told, told_params, varying
from rookery.tune.space import Grid
from rookery.tune.trial import Row, Status, Trial, score_of

if TYPE_CHECKING:
    from rookery.tune.job import Job
    from rookery.tune.runner import Experiment

COLORS = {
    Status.RUNNING: "cyan",
    Status.PENDING: "bright_black",
    Status.PAUSED: "yellow",
    Status.TERMINATED: "green",
    Status.ERROR: "red",
}

HEADS = {"iteration": "iter", "seconds": "time"}

WIDEST = 140
LONGEST = 24
"""Characters of a parameter's value; longer ones are cut."""

CURVE = 24
"""Characters of a learning curve, at most."""

SHOWN_AT_END = 40
"""Trials in the last table; `rookery tune show` has all."""

SHOWN_PLAIN = 20
EVERY_SECONDS = 30.0
"""Time between two plain tables."""

ERRORS = 3
"""Failures that are told beside a table."""


@dataclass(frozen=True)
class Facts:
    """What is known of an experiment before its first trial.

    Attributes:
        title: What is tried, such as ``CartPole-v1, ppo``.
        folder: Where it is written.
        metrics: What trials are judged by.
        modes: ``max`` or ``min``, for each metric.
        scope: Which rows of a trial count.
        total: Trials there will be; None if only the search knows.
        cores: Cores of this machine that trials may use; 0 = not ours to count.
        cpus: Cores that a trial takes.
        columns: More numbers of a row that are worth a column.
    """

    title: str
    folder: str
    metrics: tuple[str, ...]
    modes: tuple[str, ...]
    scope: str
    total: int | None = None
    cores: int = 0
    cpus: float = 1.0
    columns: tuple[str, ...] = ()


def facts_of(experiment: Experiment, job: Job, cores: int) -> Facts:
    """What is known of an experiment that begins.

    Args:
        experiment: What is tried.
        job: What a trial is.
        cores: Cores of this machine that trials may use; 0 = not ours to count.
    """
    cfg = experiment.cfg
    grids = [len(domain.values) for domain in experiment.space.values() if isinstance(domain, Grid)]
    total = cfg.num_samples * math.prod(grids) * cfg.repeats
    return Facts(job.title, str(experiment.folder), experiment.metrics, experiment.modes, cfg.scope,
                 total, cores, cfg.cpus or job.cpus, tuple(job.metrics))  # fmt: skip


class View(Protocol):
    """Told of everything worth showing."""

    def start(self, experiment: Experiment, job: Job, cores: int) -> None:
        """The experiment begins, or goes on; `cores` of this machine are for its trials."""
        ...

    def update(self, trials: Sequence[Trial], running: int) -> None:
        """Where all trials stand; called often."""
        ...

    def result(self, trial: Trial, row: Row) -> None:
        """A trial has reported a row."""
        ...

    def event(self, text: str) -> None:
        """Something has happened to a trial: it begins, ends, fails, becomes a copy."""
        ...

    def note(self, line: str) -> None:
        """Something a user should know once."""
        ...

    def missing(self, metric: str, row: Row) -> None:
        """A row has no such column as the metric that trials are judged by."""
        ...

    def finish(self, trials: Sequence[Trial]) -> None:
        """The experiment has ended, or is put away."""
        ...


def view(style: str) -> View:
    """Who shows an experiment, for ``auto``, ``live``, ``plain``, ``quiet`` or ``json``."""
    if style == "auto":
        style = "live" if sys.stdout.isatty() and os.environ.get("TERM") != "dumb" else "plain"
    if style == "live":
        return LiveTable(Console(highlight=False))
    styles: dict[str, type[Quiet]] = {"plain": Plain, "quiet": Quiet, "json": JsonResults}
    return styles[style]()


class Quiet:
    """Shows notes only."""

    def __init__(self) -> None:
        self._lacking: set[str] = set()

    def start(self, experiment: Experiment, job: Job, cores: int) -> None:
        """Shows nothing."""

    def update(self, trials: Sequence[Trial], running: int) -> None:
        """Shows nothing."""

    def result(self, trial: Trial, row: Row) -> None:
        """Shows nothing."""

    def event(self, text: str) -> None:
        """Shows nothing."""

    def note(self, line: str) -> None:
        """To standard error."""
        sys.stderr.write(f"note: {line}\n")

    def missing(self, metric: str, row: Row) -> None:
        """A note, once for each metric."""
        if metric not in self._lacking:
            self._lacking.add(metric)
            self.note(
                f"tune.metric = {metric}: the trials report no such number{nearest(metric, list(row))}; there are "
                f"{', '.join(row)}"
            )

    def finish(self, trials: Sequence[Trial]) -> None:
        """Shows nothing."""


class JsonResults(Quiet):
    """An object a result on standard output, and at last one for each trial with how it ended."""

    def result(self, trial: Trial, row: Row) -> None:
        """The row, and whose it is."""
        self._write({"trial": trial.name, **row})

    def finish(self, trials: Sequence[Trial]) -> None:
        """How each trial stands."""
        for trial in trials:
            self._write({"trial": trial.name, "status": trial.status.value, "params": trial.params,
                         "reason": trial.reason, "error": trial.error})  # fmt: skip

    def _write(self, thing: Mapping[str, object]) -> None:
        sys.stdout.write(json.dumps(thing) + "\n")
        sys.stdout.flush()


class Plain(Quiet):
    """A line an event, and the table now and then."""

    def __init__(self) -> None:
        super().__init__()
        self._table: TrialTable | None = None
        self._due = 0.0
        self._told: tuple[int, ...] = ()

    def start(self, experiment: Experiment, job: Job, cores: int) -> None:
        """What is tried, and where it is written."""
        facts = facts_of(experiment, job, cores)
        self._table = TrialTable(facts)
        self._due = time.monotonic() + EVERY_SECONDS
        of = f", {facts.total} trials" if facts.total else ""
        sys.stdout.write(f"{facts.title}{of}, in {facts.folder}\n")
        sys.stdout.flush()

    def update(self, trials: Sequence[Trial], running: int) -> None:
        """The table, if it is time and anything is new."""
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + EVERY_SECONDS
            news = tuple(trial.iteration for trial in trials)
            if news != self._told:
                self._told = news
                self._print(trials, running, SHOWN_PLAIN)

    def event(self, text: str) -> None:
        """A line."""
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def note(self, line: str) -> None:
        """A line."""
        self.event(f"note: {line}")

    def finish(self, trials: Sequence[Trial]) -> None:
        """The last table."""
        self._print(trials, 0, SHOWN_AT_END)

    def _print(self, trials: Sequence[Trial], running: int, most: int) -> None:
        if self._table is None:
            return
        width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDEST
        console = Console(highlight=False, file=sys.stdout, width=width)
        console.print(self._table.draw(console, trials, running, most, framed=False))
        sys.stdout.flush()


class LiveTable(Quiet):
    """A table that is drawn anew as trials go on; notes and its last state stay on the screen.

    Args:
        console: Where to draw.
    """

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._table: TrialTable | None = None
        self._live: Live | None = None
        self._event = ""
        self._due = 0.0

    def start(self, experiment: Experiment, job: Job, cores: int) -> None:
        """The table, still empty."""
        self._table = TrialTable(facts_of(experiment, job, cores))
        self._live = Live(console=self._console, auto_refresh=False)
        self._live.start()
        self._draw((), 0, last=False)

    def update(self, trials: Sequence[Trial], running: int) -> None:
        """Draws the table, if it is time."""
        if time.monotonic() >= self._due:
            self._draw(trials, running, last=False)

    def event(self, text: str) -> None:
        """The latest event, under the table."""
        self._event = text

    def note(self, line: str) -> None:
        """Above the table, where it stays."""
        self._console.print(Text(f"note: {line}"))

    def finish(self, trials: Sequence[Trial]) -> None:
        """Leaves the last table on the screen."""
        if self._live is not None:
            self._event = ""
            self._live.vertical_overflow = "visible"
            self._draw(trials, 0, last=True)
            self._live.stop()
            self._live = None

    def _draw(self, trials: Sequence[Trial], running: int, last: bool) -> None:
        if self._live is None or self._table is None:
            return
        began = time.monotonic()
        most = SHOWN_AT_END if last else max(self._console.height - 9, 3)
        self._live.update(self._table.draw(self._console, trials, running, most, event=self._event), refresh=True)
        self._due = next_drawing(began, time.monotonic())


@dataclass(frozen=True)
class _Plan:
    """The columns there is room for.

    Attributes:
        heads: Of all columns behind name and status.
        columns: Of a row, those that are shown beside the metrics.
        curve: Characters of the learning curve.
        joined: Characters of the one column for all parameters; 0 = each has its own.
    """

    heads: list[str]
    columns: list[str]
    curve: int
    joined: int


class TrialTable:
    """Draws trials as a table under a few lines about all of them.

    Args:
        facts: What is known of the experiment.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._began = time.monotonic()
        self._scores: dict[str, tuple[int, list[float | None]]] = {}

    # --- numbers ------------------------------------------------------------------------------------------------------

    def scores(self, trial: Trial) -> list[float | None]:
        """What a trial came to so far, for each metric; counted anew only where there is a new row."""
        known = self._scores.get(trial.name)
        if known is None or known[0] != len(trial.rows):
            judged = zip(self.facts.metrics, self.facts.modes, strict=True)
            known = len(trial.rows), [score_of(trial.rows, m, mode, self.facts.scope) for m, mode in judged]
            self._scores[trial.name] = known
        return known[1]

    def best(self, trials: Sequence[Trial]) -> Trial | None:
        """The trial that leads by the first metric: with repeats over seeds, the best of the suggestion that leads."""
        groups: dict[int, list[tuple[float, Trial]]] = {}
        for trial in trials:
            if self.scores(trial)[0] is not None:
                groups.setdefault(trial.number, []).append((self._worth(trial), trial))

        def place(group: list[tuple[float, Trial]]) -> tuple[int, float]:
            return len(group), math.fsum(worth for worth, _ in group) / len(group)

        leading = max(groups.values(), key=place, default=[])
        return max(leading, key=lambda pair: pair[0], default=(0.0, None))[1]

    def ordered(self, trials: Sequence[Trial]) -> list[Trial]:
        """Those that run, the furthest first; then the others, the best first, and last those without a number."""
        order = {Status.RUNNING: 0, Status.PAUSED: 1, Status.TERMINATED: 1, Status.ERROR: 2, Status.PENDING: 2}

        def place(trial: Trial) -> tuple[float, ...]:
            if trial.status is Status.RUNNING:
                return 0, -trial.iteration
            scored = self.scores(trial)[0] is not None
            return order[trial.status] + (not scored), -self._worth(trial) if scored else 0.0

        return sorted(trials, key=place)

    def _worth(self, trial: Trial) -> float:
        score = self.scores(trial)[0]
        assert score is not None
        return score if self.facts.modes[0] == "max" else -score

    # --- the picture --------------------------------------------------------------------------------------------------

    def draw(
        self,
        console: Console,
        trials: Sequence[Trial],
        running: int,
        most: int,
        *,
        event: str = "",
        framed: bool = True,
    ) -> RenderableType:
        """The picture.

        Args:
            console: Where it will be shown: tells width and characters.
            trials: All of them.
            running: How many are at work.
            most: Lines of trials and failures there are.
            event: What happened last.
            framed: Whether a frame stands around it.
        """
        width = min(console.width, WIDEST)
        room = width - 4 if framed else width
        plain = console.options.ascii_only
        dot = " | " if plain else " · "
        failures = self._failures(trials, ERRORS if most > 2 * ERRORS else 1, room)
        body: list[RenderableType] = [*self._head(trials, running, dot, framed)]
        if trials:
            ordered = self.ordered(trials)
            shown = ordered[: max(most - len(failures), 1)]
            body += [Text(), self._rows(shown, trials, room, ASCII_LEVELS if plain else LEVELS)]
            if len(shown) < len(ordered):
                rest = Counter(trial.status for trial in ordered[len(shown) :])
                words = Text(f"{'...' if plain else '…'} {len(ordered) - len(shown)} more: ", style="bright_black")
                body.append(words.append_text(_counts(rest, ", ")))
        body += failures
        if event:
            body.append(Text(event, style="dim", no_wrap=True, overflow="ellipsis"))
        if not framed:
            return Group(*body)
        title = Text(self.facts.title, style="bold")
        return Frame(Group(*body), title=title, title_align="left", width=width, border_style="bright_black")

    def _head(self, trials: Sequence[Trial], running: int, dot: str, framed: bool) -> list[RenderableType]:
        """How many trials there are and how they stand, how far that is, the best so far."""
        facts = self.facts
        over = sum(trial.status.is_over for trial in trials)
        count = f"{len(trials)}{f' of {facts.total}' if facts.total and facts.total > len(trials) else ''}"
        line = Text(f"{count} trial{'' if count == '1' else 's'}: ", style="bold", no_wrap=True, overflow="ellipsis")
        line.append_text(_counts(Counter(trial.status for trial in trials), dot) if trials else Text("none yet"))
        elapsed = span(time.monotonic() - self._began)
        lines: list[RenderableType] = [line]
        if running:
            cores = f"{running * facts.cpus:g} of {facts.cores} cores at work" if facts.cores else f"{running} at work"
            pace = f"{cores}{dot}{elapsed}{dot}{facts.folder}"
            lines.append(Text(pace, style="dim", no_wrap=True, overflow="ellipsis"))
        if framed and facts.total and over < facts.total:
            grid = Table.grid(padding=(0, 2, 0, 0), expand=True)
            grid.add_column(ratio=1)
            grid.add_column(justify="right", no_wrap=True)
            bar = ProgressBar(total=facts.total, completed=over, complete_style="green")
            grid.add_row(bar, Text(f"{over} / {facts.total} over", style="bold"))
            lines.insert(0, grid)
        best = self.best(trials)
        if best is not None:
            paths = varying([trial.params for trial in trials])
            shown = told_params(best.params, paths, short_names(paths))
            values = zip(facts.metrics, self.scores(best), strict=True)
            told_values = ", ".join(f"{metric} {number(value)}" for metric, value in values)
            text = Text(f"best {best.name}: ", no_wrap=framed, overflow="ellipsis" if framed else "fold")
            text.append(told_values, style="bold").append(f" with {shown}" if shown else "")
            lines.append(text)
        return lines

    def _rows(self, shown: Sequence[Trial], trials: Sequence[Trial], room: int, levels: str) -> Table:
        """The table itself: a column for each parameter that varies if they fit, else one for all."""
        paths = varying([trial.params for trial in trials])
        names = short_names(paths)
        plan = self._plan(shown, paths, room)
        table = Table.grid(padding=(0, 2, 0, 0))
        for place in range(2 + len(plan.heads)):
            is_number = place > 1 and not (plan.joined and place == 2)
            table.add_column(no_wrap=True, justify="right" if is_number else "left", overflow="ellipsis")
        table.add_column(no_wrap=True)
        titles = ["", *plan.heads, "so far" if plan.curve else ""]
        table.add_row(Text("TRIAL", style="bold"), *(Text(title, style="dim") for title in titles))
        best = self.best(trials)
        for trial in shown:
            name = Text(trial.name, style="bold" if trial is best else "")
            params = [_told(trial.params, path) for path in paths]
            if plan.joined:
                params = [_cut(told_params(trial.params, paths, names), plan.joined)]
            values = [row.get(self.facts.metrics[0]) for row in trial.rows]
            curve = sparkline(_thinned(values, plan.curve), plan.curve, levels) if plan.curve else ""
            *others, score = self._numbers(trial, plan.columns)
            cells = [*map(Text, params), *map(Text, others), Text(score, style="bold"), Text(curve, style="cyan")]
            table.add_row(name, Text(trial.status.value, style=COLORS[trial.status]), *cells)
        return table

    def _plan(self, shown: Sequence[Trial], paths: Sequence[str], room: int) -> _Plan:
        """What there is room for: first more numbers give way, then the curve, then columns for single parameters."""
        names = short_names(paths)
        params = [[names[path] for path in paths], *([_told(trial.params, path) for path in paths] for trial in shown)]
        metrics = [_short_metric(metric) for metric in self.facts.metrics]
        clock, curve = ["iteration", "seconds"], CURVE // 3
        plans = [([*clock, *self._columns(shown)], curve), (clock, curve), (clock, 0), ([], 0)]
        for place, (columns, least) in enumerate(plans):
            heads = [*(HEADS.get(name, name) for name in columns), *metrics]
            own = [["TRIAL", "", *heads]]
            own += [[trial.name, trial.status.value, *self._numbers(trial, columns)] for trial in shown]
            left = room - _width(own)
            free = left - _width(params)
            if free >= least and place < 3:
                return _Plan([*params[0], *heads], columns, min(CURVE, free) if least else 0, 0)
            if not least and left > CURVE // 2:
                break
        return _Plan(["parameters", *heads], columns, 0, max(left - 2, 10))

    def _columns(self, trials: Sequence[Trial]) -> list[str]:
        """More numbers that the trials have: environment steps, and what the job thinks worth showing."""
        wanted = [name for name in ("env_steps", *self.facts.columns) if name not in self.facts.metrics]
        return [name for name in dict.fromkeys(wanted) if any(trial.row.get(name) is not None for trial in trials)]

    def _numbers(self, trial: Trial, columns: Sequence[str]) -> list[str]:
        """The cells between parameters and curve."""
        seconds = trial.row.get("seconds")
        cells = {"iteration": str(trial.iteration or "-"), "seconds": "-" if seconds is None else span(seconds)}
        shown = [cells[name] if name in cells else number(trial.row.get(name)) for name in columns]
        return [*shown, *map(number, self.scores(trial))]

    def _failures(self, trials: Sequence[Trial], most: int, room: int) -> list[RenderableType]:
        """A line for each of the last trials that failed for good: the problem, and where its traceback is."""
        lines: list[RenderableType] = []
        for trial in [trial for trial in trials if trial.status is Status.ERROR][-most:]:
            place = str(trial.folder / "error.txt")
            problem = _cut(" ".join(trial.error.split()), max(room - len(trial.name) - len(place) - 3, 30))
            line = Text.assemble((trial.name, "red"), f" {problem}  ", (place, "dim"))
            line.no_wrap, line.overflow = True, "ellipsis"
            lines.append(line)
        return lines


def _counts(counts: Mapping[Status, int], dot: str) -> Text:
    """How many stand where, in the order of a trial's life."""
    text = Text()
    for status in (Status.RUNNING, Status.PENDING, Status.PAUSED, Status.TERMINATED, Status.ERROR):
        if counts.get(status):
            text.append(dot if text else "").append(f"{counts[status]} {status.value}", style=COLORS[status])
    return text


def _told(params: Mapping[str, object], path: str) -> str:
    return _cut(told(params[path]), LONGEST) if path in params else ""


def _short_metric(metric: str) -> str:
    *_, above, last = ["", *metric.replace("evaluation/", "eval. ").split("/")]
    return f"{above} {last}" if above and last in ("min", "mean", "max") else last


def _thinned(values: Sequence[float | None], width: int) -> list[float | None]:
    """At most `width` of the values, evenly spread, the last among them."""
    if not width or len(values) <= width:
        return list(values)
    return [values[round((place + 1) * len(values) / width) - 1] for place in range(width)]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def _width(rows: Sequence[Sequence[str]]) -> int:
    """Characters that columns of these cells take, with the gaps behind them."""
    return sum(max(map(len, column)) + 2 for column in zip(*rows, strict=True))
