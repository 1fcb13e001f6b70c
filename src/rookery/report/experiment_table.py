"""Reporters of an experiment: a live table at a terminal, plain lines elsewhere, JSON for programs.

`draw_table` draws the table, also for ``rookery tune show``; a `ProgressReporter` decides when.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from rookery.report.experiment import ExperimentSummary, TrialSummary, format_params, format_value
from rookery.report.live import Listener, LiveDisplay, console_style, write_line
from rookery.report.panel import Sparkline, dim, in_frame, number, progress_row, span

COLORS = {"RUNNING": "cyan", "PENDING": "bright_black", "PAUSED": "yellow", "TERMINATED": "green", "ERROR": "red"}
"""Colour by status, in the order of the counts."""

HEADS = {"iteration": "iter", "seconds": "time"}

WIDEST = 140
LONGEST = 24
"""Longest text of a parameter's value; longer ones are cut."""

CURVE = 24
"""Largest width of a learning curve in characters."""

SHOWN_AT_END = 40
"""Number of trials in the last table; `rookery tune show` has all."""

SHOWN_PLAIN = 20
EVERY_SECONDS = 30.0
"""Time between two plain tables."""

ERRORS = 3
"""Number of failures shown below a table."""

Gather = Callable[[], Sequence[TrialSummary]]
"""Returns the current state of all trials."""


class ProgressReporter(Listener):
    """Receives the events of an experiment; this base class shows notes only."""

    def __init__(self) -> None:
        self.summary: ExperimentSummary[TrialSummary]
        self._began = time.monotonic()

    def start(self, summary: ExperimentSummary[TrialSummary]) -> None:
        """Called at the start or resume of the experiment, with a summary without trials."""
        self.summary = summary

    def update(self, gather: Gather, running: int) -> None:
        """Called often, with a function that returns all trials, and the number of running ones."""

    def result(self, trial: str, row: Mapping[str, Any]) -> None:
        """Called with each row that a trial has reported."""

    def finish(self, gather: Gather) -> None:
        """Called when the experiment has ended or stopped."""

    def now(self, gather: Gather, running: int = 0) -> ExperimentSummary[TrialSummary]:
        """Returns the current summary of the experiment."""
        seconds = time.monotonic() - self._began
        return replace(self.summary, trials=gather(), running=running, seconds=seconds)


class JsonProgress(ProgressReporter):
    """Writes one object per result to standard output, and at the end one for each trial with its status."""

    def result(self, trial: str, row: Mapping[str, Any]) -> None:
        """Writes the row with the trial's name."""
        write_line(json.dumps({"trial": trial, **row}))

    def finish(self, gather: Gather) -> None:
        """Writes the state of each trial."""
        for trial in gather():
            about = {"trial": trial.name, "status": trial.status, "params": trial.params, "reason": trial.reason}
            write_line(json.dumps({**about, "error": trial.error}))


class PlainProgress(ProgressReporter):
    """Writes one line per event, and the table every `EVERY_SECONDS`."""

    note_to_output = True

    def start(self, summary: ExperimentSummary[TrialSummary]) -> None:
        """Writes title, number of trials and folder."""
        super().start(summary)
        self._due = time.monotonic() + EVERY_SECONDS
        self._shown: list[int] = []
        write_line(f"{summary.title}{f', {summary.total} trials' if summary.total else ''}, in {summary.folder}")

    def update(self, gather: Gather, running: int) -> None:
        """Writes the table after `EVERY_SECONDS` if a trial has made progress."""
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + EVERY_SECONDS
            summary = self.now(gather, running)
            before, self._shown = self._shown, [trial.iteration for trial in summary.trials]
            if self._shown != before:
                print_table(summary, SHOWN_PLAIN)

    def event(self, text: str) -> None:
        """Writes a line."""
        write_line(text)

    def finish(self, gather: Gather) -> None:
        """Writes the last table."""
        print_table(self.now(gather), SHOWN_AT_END)


class LiveTable(ProgressReporter):
    """Draws a live table of trials; notes and its last state stay on the screen."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__()
        self._console = console or Console(highlight=False)
        self._event = ""

    def start(self, summary: ExperimentSummary[TrialSummary]) -> None:
        """Draws an empty table."""
        super().start(summary)
        self._display = LiveDisplay(self._console)
        self.update(tuple, 0)

    def update(self, gather: Gather, running: int) -> None:
        """Redraws the table."""
        most = max(self._console.height - 9, 3)
        self._display.draw(lambda: draw_table(self.now(gather, running), self._console, most, event=self._event))

    def event(self, text: str) -> None:
        """Stores the latest event, for the line under the table."""
        self._event = text

    def finish(self, gather: Gather) -> None:
        """Leaves the last table on the screen."""
        self._display.finish(draw_table(self.now(gather), self._console, SHOWN_AT_END))


def progress_reporter(style: str) -> ProgressReporter:
    """Returns the reporter for ``auto``, ``live``, ``plain``, ``quiet`` or ``json``."""
    makers = {"live": LiveTable, "plain": PlainProgress, "quiet": ProgressReporter, "json": JsonProgress}
    made: ProgressReporter = makers[console_style(style)]()
    return made


def print_table(summary: ExperimentSummary[TrialSummary], most: int) -> None:
    """Prints the table to standard output, at the terminal's width."""
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDEST
    console = Console(highlight=False, file=sys.stdout, width=width)
    console.print(draw_table(summary, console, most, framed=False))
    sys.stdout.flush()


# --- drawing ----------------------------------------------------------------------------------------------------------


def draw_table(
    summary: ExperimentSummary[TrialSummary], console: Console, most: int, *, event: str = "", framed: bool = True
) -> RenderableType:
    """Returns a table of trials under a few summary lines.

    Args:
        summary: Experiment to draw.
        console: Console of the table, with its width and characters.
        most: Largest number of lines of trials and failures.
        event: The latest event.
        framed: Whether the table has a frame.
    """
    width = min(console.width, WIDEST)
    room = width - 4 if framed else width
    plain = console.options.ascii_only
    failed = [trial for trial in summary.trials if trial.status == "ERROR"][-(ERRORS if most > 2 * ERRORS else 1) :]
    count = max(most - len(failed), 1)
    shown, rest = (trials := in_order(summary))[:count], trials[count:]
    body = _head(summary, " | " if plain else " · ", framed)
    if shown:
        body += [Text(), _rows(summary, shown, console, room)]
    if rest:
        words = Text(f"{'...' if plain else '…'} {len(rest)} more: ", style="bright_black")
        body.append(words.append_text(_counts(rest, ", ")))
    for trial in failed:
        place = str(trial.folder / "error.txt")
        problem = Text(" ".join(trial.error.split()))
        problem.truncate(max(room - len(trial.name) - len(place) - 3, 30), overflow="ellipsis")
        line = Text.assemble((trial.name, "red"), " ", problem, "  ", (place, "dim"))
        line.no_wrap, line.overflow = True, "ellipsis"
        body.append(line)
    if event:
        body.append(dim(event))
    return in_frame(body, Text(summary.title, style="bold"), width) if framed else Group(*body)


def in_order(summary: ExperimentSummary[TrialSummary]) -> list[TrialSummary]:
    """Returns running trials, the furthest first; then the others, the best first; last those without a number."""

    def place(trial: TrialSummary) -> tuple[float, ...]:
        if trial.status == "RUNNING":
            return 0, -trial.iteration
        if trial.score is None:
            return 3, 0.0
        return 1 + (trial.status in ("ERROR", "PENDING")), -summary.worth(trial)

    return sorted(summary.trials, key=place)


def _head(summary: ExperimentSummary[TrialSummary], dot: str, framed: bool) -> list[RenderableType]:
    """Returns the summary lines: number and states of trials, progress, and the best so far."""
    trials, total = summary.trials, summary.total or 0
    count = f"{len(trials)}{f' of {total}' if total > len(trials) else ''}"
    line = Text(f"{count} trial{'' if count == '1' else 's'}: ", style="bold", no_wrap=True, overflow="ellipsis")
    lines: list[RenderableType] = [line.append_text(_counts(trials, dot))]
    over = sum(trial.status in ("TERMINATED", "ERROR") for trial in trials)
    if framed and over < total:
        lines.insert(0, progress_row(over / total, f"{over} / {total} over"))
    if summary.running:
        cores = f"{summary.running * summary.cpus:g} of {summary.cores} cores" if summary.cores else summary.running
        lines.append(dim(f"{cores} at work{dot}{span(summary.seconds)}{dot}{summary.folder}"))
    if summary.suggestions:
        best = summary.best
        text = Text(f"best {best.name}: ", no_wrap=framed, overflow="ellipsis" if framed else "fold")
        values = zip(summary.metrics, best.scores, strict=True)
        text.append(", ".join(f"{metric} {number(value)}" for metric, value in values), style="bold")
        params = format_params(best.params, summary.varying)
        lines.append(text.append(f" with {params}" if params else ""))
    return lines


def _rows(
    summary: ExperimentSummary[TrialSummary], shown: Sequence[TrialSummary], console: Console, room: int
) -> Table:
    """Returns the table: a column for each varying parameter if they fit, else one for all.

    In a narrow terminal, further numbers are left out first, then the curve, then columns of single parameters.
    """
    clock = ("iteration", "seconds")
    more = (name for name in dict.fromkeys(("env_steps", *summary.columns)) if name not in summary.metrics)
    rest = [name for name in more if any(trial.last.get(name) is not None for trial in shown)]
    unbounded = console.options.update(max_width=10_000)
    layouts = (((*clock, *rest), True, True), (clock, True, True), (clock, True, False), (clock, False, False))
    for columns, apart, curve in layouts:
        table, spare = _table(summary, shown, columns, apart, curve)
        if console.measure(table, options=unbounded).maximum - spare <= room:
            return table
    return _table(summary, shown, (), apart=False, curve=False)[0]


def _table(
    summary: ExperimentSummary[TrialSummary], shown: Sequence[TrialSummary], columns: Sequence[str], apart: bool,
    curve: bool,
) -> tuple[Table, int]:  # fmt: skip
    """Returns the table with these columns, and the number of characters by which rich may narrow it.

    Args:
        summary: Experiment to draw.
        shown: Trials, one line each.
        columns: Columns of a row between parameters and scores.
        apart: Whether each parameter has a column.
        curve: Whether curves are shown.
    """
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column(Text("TRIAL", style="bold not dim"), no_wrap=True)
    table.add_column(no_wrap=True)
    for name in summary.varying.values() if apart else ():
        table.add_column(name, justify="right", no_wrap=True, max_width=LONGEST, overflow="ellipsis")
    if not apart:
        table.add_column("parameters")
    for name in (*(HEADS.get(column, column) for column in columns), *map(_short_metric, summary.metrics)):
        table.add_column(name, justify="right", no_wrap=True)
    if curve:
        table.add_column("so far")
    best = summary.best if summary.suggestions else None
    spare = CURVE - CURVE // 3 if curve else 0
    for trial in shown:
        cells: list[RenderableType] = [Text(trial.name, style="bold" if trial is best else "")]
        cells.append(Text(str(trial.status), style=COLORS[trial.status]))
        words = format_params(trial.params, summary.varying)
        if apart:
            cells += [Text(format_value(trial.params.get(path, ""))) for path in summary.varying]
        else:
            cells.append(Text(words, no_wrap=True, overflow="ellipsis"))
            spare = max(spare, len(words) - CURVE)
        seconds = trial.last.get("seconds")
        numbers = {**trial.last, "iteration": trial.iteration or None}
        cells += [span(seconds) if name == "seconds" else number(numbers.get(name)) for name in columns]
        cells += [Text(number(score), style="bold") for score in trial.scores]
        if curve:
            cells.append(Sparkline([row.get(summary.metrics[0]) for row in trial.history], CURVE, "cyan"))
        table.add_row(*cells)
    return table, spare


def _counts(trials: Iterable[TrialSummary], dot: str) -> Text:
    """Returns the number of trials in each state, in the order of a trial's life."""
    counts = Counter(trial.status for trial in trials)
    words = [Text(f"{counts[status]} {status}", style=color) for status, color in COLORS.items() if counts[status]]
    return Text(dot).join(words) if words else Text("none yet")


def _short_metric(metric: str) -> str:
    *_, above, last = ["", *metric.replace("evaluation/", "eval. ").split("/")]
    return f"{above} {last}" if above and last in ("min", "mean", "max") else last
