"""The live panel of a run: progress, returns, learning, time and events, fitted to the terminal.

`Panel` collects results and draws them with rich.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.panel import Panel as Frame
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from rookery.core.timers import Timers
from rookery.report.experiment import thinned
from rookery.report.finding import Finding
from rookery.report.results import IterationResult

COLUMNS = {
    "kl": "kl",
    "entropy": "entropy",
    "explained_variance": "expl. var.",
    "clip_fraction": "clip frac.",
    "value_loss": "value loss",
    "td_error": "td error",
    "q_mean": "q",
    "critic_loss": "critic loss",
    "actor_loss": "actor loss",
    "alpha": "alpha",
    "epsilon": "epsilon",
    "updates_per_env_step": "grads/step",
    "gradient_steps": "grad. steps",
    "replay_size": "replay",
    "lag_mean": "lag",
    "lr": "lr",
}
"""Metrics of a policy to show, in this order, with the heads of their columns."""

LEFT_OUT = ("skipped_steps", "updates")
"""Metrics that are shown only if a finding is about them."""

MOST_METRICS = 4
HISTORY = 40
"""Number of iterations in a sparkline."""

RECENT = 30
"""Number of iterations for the estimate of the remaining time."""

WIDEST = 118
MARGIN = 4
"""Columns that stay free beside the frame, so that the ``^C`` which a terminal echoes does not begin a line."""

EVENTS = 5

FINDINGS, TALL = 3, 30
"""Largest number of findings in a terminal of at least so many lines; a lower one has room for one."""

COLORS = {"error": "bold red", "warning": "bold yellow", "note": "bright_black"}

LEVELS, ASCII_LEVELS = "▁▂▃▄▅▆▇█", "_.-=+*#@"


class Panel:
    """The panel of a run: its data and drawing."""

    def __init__(self, title: str, criteria: Mapping[str, float], *, plays: bool = True) -> None:
        self.title = title
        self.plays = plays
        self.criteria = criteria
        self.result: IterationResult | None = None
        self.standing = ""
        """Progress of the current iteration, if it takes long."""
        self.events: deque[tuple[float, str]] = deque(maxlen=EVENTS)
        self._curves: dict[str, deque[float | None]] = {}
        self._evaluations: deque[float | None] = deque(maxlen=HISTORY)
        self._last_evaluation = ""
        self._clock: deque[dict[str, float]] = deque(maxlen=RECENT)
        self._first: dict[str, float] = {}

    def update(self, result: IterationResult) -> None:
        """Adds the result of an iteration."""
        self.result, self.standing = result, ""
        for name, value in [("", result.return_mean), *((n, p.return_mean) for n, p in result.policies.items())]:
            self._curves.setdefault(name, deque(maxlen=HISTORY)).append(value)
        self._clock.append(_amounts(result))
        for name, value in self._reached().items():
            if value is not None:
                self._first.setdefault(name, 0.0 if name in self._clock[0] else value)
        if result.evaluation is not None:
            mean, (low, high) = result.evaluation.return_mean, result.evaluation.return_interval
            self._evaluations.append(mean)
            self._last_evaluation = f"{number(low)} to {number(high)}"
            self.event(f"evaluation {number(mean)}, 95 % interval {self._last_evaluation}")

    def event(self, text: str) -> None:
        """Adds an event, at the time of the last iteration."""
        self.events.append((0.0 if self.result is None else self.result.seconds, text))

    # --- the goal -----------------------------------------------------------------------------------------------------

    def goals(self) -> list[tuple[float, float | None, str]]:
        """Returns for each criterion the reached share, the remaining seconds (None: unknown), and a text.

        Criteria with a time come first, the nearest before the others.
        """
        goals: list[tuple[float, float | None, str]] = []
        for name, now in self._reached().items():
            threshold, first = self.criteria[name], self._first.get(name, 0.0)
            part = 0.0 if now is None or threshold <= first else (now - first) / (threshold - first)
            if now is not None and now >= threshold:
                part = 1.0
            shown = "none yet" if now is None else number(now)
            goals.append((max(part, 0.0), self._left(name, now, threshold), f"{name} {shown} / {number(threshold)}"))
        return sorted(goals, key=lambda goal: float("inf") if goal[1] is None else goal[1])

    def _reached(self) -> dict[str, float | None]:
        """Returns the current value for each criterion; None if there is none yet."""
        if self.result is None:
            return {}
        row = self.result.row() | _amounts(self.result)
        return {name: row.get(name.replace(".", "/")) for name in self.criteria}

    def _left(self, name: str, now: float | None, threshold: float) -> float | None:
        """Returns the seconds until an amount is reached, at the latest speed; None if it does not grow steadily."""
        if now is None or name not in self._clock[0]:
            return None
        if now >= threshold:
            return 0.0
        if name in ("seconds", "minutes"):
            return (threshold - now) * (60 if name == "minutes" else 1)
        # the start of the first recorded iteration is unknown, so the start of the run replaces it
        before = self._clock[0] if len(self._clock) > 1 else dict.fromkeys(self._clock[0], 0.0)
        gained, took = now - before[name], self._clock[-1]["seconds"] - before["seconds"]
        return (threshold - now) * took / gained if gained > 0 else None

    # --- drawing ------------------------------------------------------------------------------------------------------

    def draw(self, console: Console, timers: Timers, height: int | None) -> RenderableType:
        """Draws the panel.

        Args:
            console: Terminal of the panel, with its width and characters.
            timers: Timer tree of the run.
            height: Largest number of lines; None = no limit.
        """
        width = min(console.width - MARGIN, WIDEST)
        brush = _Brush(width - 4, console.options.ascii_only)
        title = Text(self.title, style="bold")
        first = "sampling the first iteration" if self.plays else "computing the first gradient steps"
        body: list[RenderableType] = [Text(self.standing or first, style="dim")]
        if self.result is not None:
            if not self.result.exact:
                title.append(", not exact", style="yellow")
            result, metrics = self.result, _metrics(self.result, height)
            body = self._progress(result, brush)
            findings = _findings(result.findings, brush, height)
            others = sum(part.row_count + 1 for part in (metrics, findings) if part is not None)
            shown = self._shown_policies(result, height, len(body) + others)
            learning = _learning(result, brush, shown)
            body += [Text(), self._returns(result, shown)] if self.plays else []
            body += [] if learning is None else [Text(), learning]
            body += [] if findings is None else [Text(), findings]
            body += [] if metrics is None else [Text(), metrics]
            lines = sum(part.row_count if isinstance(part, Table) else 1 for part in body)
            free = None if height is None else height - 3 - lines
            if free is None or free > 1:
                body += [Text(), self._bottom(brush, timers, free)]
        return in_frame(body, title, width, height)

    def _shown_policies(self, result: IterationResult, height: int | None, others: int) -> list[str]:
        """Returns the policies that fit, at two lines each, beside `others` lines and one of each part."""
        policies = list(result.policies)
        if height is None:
            return policies
        free = height - others - 12 - bool(self._evaluations) - 3 * bool(self.events)
        return policies if 2 * len(policies) <= free else policies[: max((free - 1) // 2, 1)]

    def _progress(self, result: IterationResult, brush: _Brush) -> list[RenderableType]:
        """Returns the progress bar of the nearest goal, the other goals, and the speed."""
        lines: list[RenderableType] = []
        goals = self.goals()
        if goals:
            part, left, words = goals[0]
            if result.stop_reason:
                words, left = result.stop_reason, None
                part = 1.0 if part > 0.999 else part
            ends = "" if left is None else f"{span(left)} left"
            words = " ".join(filter(None, (words, brush.dot if ends else "", ends)))
            lines.append(progress_row(part, f"{100 * part:.0f} %", words))
        if goals[1:]:
            others = " or ".join(words for _, _, words in goals[1:])
            lines.append(dim(f"or {others}"))
        pace = f"{result.steps_per_second:,.0f} env steps/s" if result.sampling else "nothing played"
        steps = [] if "env_steps" in self.criteria else [f"{result.env_steps:,} env steps"]
        parts = [f"iteration {result.iteration:,}", pace, *steps, f"{result.episodes:,} episodes", span(result.seconds)]
        if not self.plays:
            parts = [f"iteration {result.iteration:,}", *self._learning_speed(), span(result.seconds)]
        lines.append(dim(f" {brush.dot} ".join(parts)))
        if self.standing:
            lines.append(dim(self.standing))
        if result.waits:
            lines.append(dim(waits_text(result.waits, f" {brush.dot} ")))
        lines += [Text(f"{name} {lesson.text()}") for name, lesson in result.lessons.items()]
        lines += [Text(f"{name} {standing.text()}") for name, standing in result.self_play.items()]
        return lines

    def _learning_speed(self) -> list[str]:
        """Returns gradient steps a second of the last iterations as text; empty before there are two."""
        first, last = self._clock[0], self._clock[-1]
        took = last["seconds"] - first["seconds"]
        return (
            [f"{(last['gradient_steps'] - first['gradient_steps']) / took:,.0f} gradient steps/s"] if took > 0 else []
        )

    def _returns(self, result: IterationResult, policies: list[str]) -> Table:
        """Returns the table of mean returns and their sparklines."""
        total = len(result.policies)
        table = _table("RETURN", ["mean", "range", "last iterations"], left=3)
        table.columns[-1].no_wrap = False  # in a narrow terminal, curves are cut
        spread = f"{number(result.return_min)} to {number(result.return_max)}"
        if result.return_mean is None:
            spread = f"no episode has ended; running length {result.running_length:.0f}"
        curve = Sparkline(self._curves.get("", ()), HISTORY, "cyan")
        table.add_row(Text("total"), Text(number(result.return_mean), style="bold"), Text(spread, style="dim"), curve)
        for name in policies if total > 1 else ():
            curve = Sparkline(self._curves.get(name, ()), HISTORY, "blue")
            table.add_row(Text(name), number(result.policies[name].return_mean), "", curve)
        if self._evaluations:
            shown, curve = number(self._evaluations[-1]), Sparkline(self._evaluations, HISTORY, "magenta")
            table.add_row(Text("evaluation"), shown, Text(self._last_evaluation, style="dim"), curve)
        if len(policies) < total:
            table.add_row(Text(f"{total - len(policies)} more policies", style="dim"))
        return table

    def _bottom(self, brush: _Brush, timers: Timers, free: int | None) -> RenderableType:
        """Returns timers and events, side by side if the terminal is wide enough."""
        events = list(self.events)
        if brush.width >= 96:
            row = Table.grid(padding=(0, 4, 0, 0), expand=True)
            row.add_column()
            row.add_column(ratio=1)
            row.add_row(_time(brush, timers, free), _events(brush, events[-free:] if free else events))
            return row
        if free is not None:
            kept = min(len(events), max((free - 2) // 3, 1))
            events = events[len(events) - kept :]
            free -= len(events) + 2 if events else 0
        parts: list[RenderableType] = [_time(brush, timers, free)]
        if events:
            parts += [Text(), _events(brush, events)]
        return Group(*parts)


class _Brush:
    """Characters of a terminal, and its width inside the frame."""

    def __init__(self, width: int, ascii_only: bool) -> None:
        self.width = width
        self.dot = "|" if ascii_only else "·"
        self.block = "#" if ascii_only else "█"


def _table(title: str, heads: Iterable[str], left: int = 0) -> Table:
    """Returns a table without lines; columns from number `left` on are aligned left, the others right."""
    table = Table.grid(padding=(0, 2, 0, 0))
    heads = list(heads)
    table.add_column(no_wrap=True, min_width=8)
    for place, _ in enumerate(heads, 1):
        table.add_column(justify="left" if left and place >= left else "right", no_wrap=True, overflow="crop")
    table.add_row(Text(title, style="bold"), *(Text(head, style="dim", no_wrap=True) for head in heads))
    return table


def _learning(result: IterationResult, brush: _Brush, policies: list[str]) -> Table | None:
    """Returns the table of the algorithms' metrics, with marks where a finding is about one; None without metrics."""
    learning = {name: result.policies[name].learning for name in policies}
    learning = {name: row for name, row in learning.items() if row}
    if not learning:
        return None
    marks = {(one.subject, one.metric): COLORS[one.severity] for one in reversed(result.findings) if one.metric}
    marked = dict.fromkeys(key for name, key in marks if name in learning and key in learning[name])
    reported = dict.fromkeys(key for row in learning.values() for key in row)
    columns = [key for key in COLUMNS if key in reported]
    others = (key for key in reported if key not in COLUMNS and key not in LEFT_OUT)
    columns += list(islice(others, max(3 - len(columns), 0)))
    columns += [key for key in marked if key not in columns]
    most = max((brush.width - 10) // 11, 2)
    kept = set(sorted(columns, key=lambda key: key not in marked)[:most])
    columns = [key for key in columns if key in kept]
    table = _table("LEARNING", [COLUMNS.get(key, key.replace("_", " ")) for key in columns])
    for name, row in learning.items():
        cells = []
        for key in columns:
            mark, style = ("!", marks[name, key]) if (name, key) in marks else (" ", "")
            cells.append(Text(number(row.get(key)) + mark, style=style))
        table.add_row(Text(name), *cells)
    return table


def _findings(findings: Sequence[Finding], brush: _Brush, height: int | None) -> Table | None:
    """Returns the table of the worst findings, a line each; None without any."""
    if not findings:
        return None
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(no_wrap=True, min_width=8)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    shown = findings if height is None else findings[: FINDINGS if height >= TALL else 1]
    more = f", {len(findings) - len(shown)} more" if len(shown) < len(findings) else ""
    table.add_row(Text("FINDINGS", style="bold"), dim(f"rookery doctor RUN explains them{more}"))
    several = len({one.subject for one in findings if one.subject}) > 1
    for one in shown:
        whose = f"{one.subject}: " if several and one.subject else ""
        table.add_row(Text(one.severity, style=COLORS[one.severity]), Text(f"{one.rule}: {whose}{one.message}"))
    return table


def _metrics(result: IterationResult, height: int | None) -> Table | None:
    """Returns the table of callbacks' metrics in the last episodes; None if there are none."""
    metrics = list(result.metrics.items())
    if not metrics:
        return None
    table = _table("METRICS", ["mean", "range"], left=2)
    for name, (low, mean, high) in metrics if height is None else metrics[:MOST_METRICS]:
        table.add_row(Text(name), number(mean), Text(f"{number(low)} to {number(high)}", style="dim"))
    return table


def _time(brush: _Brush, timers: Timers, free: int | None) -> Table:
    """Returns the timer tree as a table; in a short terminal, its fastest parts are left out."""
    rows = timers.rows()
    if free is not None and len(rows) > max(free - 1, 1):
        slowest = sorted(range(len(rows)), key=lambda i: -rows[i].seconds)[: max(free - 1, 1)]
        rows = [rows[i] for i in sorted(slowest)]  # a parent is never faster than its child
    table = _table("TIME", ["", "of parent", ""], left=3)
    for row in rows:
        bar = brush.block * round(10 * row.share)
        label = Text("  " * row.depth + row.label)
        table.add_row(label, f"{row.seconds:,.1f} s", f"{100 * row.share:.0f} %", Text(bar, style="bright_black"))
    return table


def _events(brush: _Brush, events: Sequence[tuple[float, str]]) -> Table:
    """Returns the last events as a table, the newest at the bottom."""
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_row(Text("EVENTS", style="bold"), "")
    for seconds, text in events:
        table.add_row(Text(span(seconds), style="dim"), Text(text))
    return table


def in_frame(body: Sequence[RenderableType], title: Text, width: int, height: int | None = None) -> Frame:
    """Returns parts, one under the other, in a frame of at most `height` lines."""
    content = _Cropped(Group(*body), None if height is None else max(height - 2, 1))
    return Frame(content, title=title, title_align="left", width=width, border_style="bright_black")


@dataclass(frozen=True)
class _Cropped:
    """The first lines of a renderable; None = all."""

    whole: RenderableType
    most: int | None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self.whole, options.update(height=None), pad=False)[: self.most]
        while lines and not "".join(segment.text for segment in lines[-1]).strip():
            lines.pop()
        for line in lines:
            yield from line
            yield Segment.line()


def progress_row(part: float, *words: str) -> Table:
    """Returns a progress bar with words beside it, the first one bold."""
    row = Table.grid(padding=(0, 2, 0, 0), expand=True)
    row.add_column(ratio=1)
    for _ in words:
        row.add_column(justify="right", no_wrap=True)
    bar = ProgressBar(total=1.0, completed=part, complete_style="green", finished_style="green")
    row.add_row(bar, Text(words[0], style="bold"), *words[1:])
    return row


def dim(text: str) -> Text:
    """Returns a dim line, cut to the width."""
    return Text(text, style="dim", no_wrap=True, overflow="ellipsis")


def waits_text(waits: Mapping[str, float], between: str) -> str:
    """Returns times of remote workers in a line: see `IterationResult.waits`."""
    idle = [share for name, share in waits.items() if name.startswith("workers/idle/")]
    parts = [
        f"waited {number(waits['workers/wait'])} s for workers",
        f"fetched {waits['workers/bytes'] / 1e6:,.1f} MB in {number(waits['workers/fetch'])} s",
        f"joined in {number(waits['workers/join'])} s",
    ]
    if idle:
        mean = sum(idle) / len(idle)
        parts.append(f"workers idle {100 * mean:.0f} % ({100 * min(idle):.0f} to {100 * max(idle):.0f} %)")
    return between.join(parts)


@dataclass(frozen=True)
class Sparkline:
    """Values as one character each; thinned evenly to the available width.

    Attributes:
        values: Values, oldest first; None is a space.
        most: Largest number of characters.
        style: Colour of the characters.
    """

    values: Iterable[float | None]
    most: int
    style: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        levels = ASCII_LEVELS if options.ascii_only else LEVELS
        yield Text(sparkline(self.values, min(options.max_width, self.most), levels), style=self.style)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, self.most)


def sparkline(values: Iterable[float | None], width: int, levels: str) -> str:
    """Returns values as at most `width` characters, scaled from the lowest level to the highest."""
    shown = thinned(list(values), width)
    known = [value for value in shown if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    step = (high - low) / (len(levels) - 1)
    middle = levels[len(levels) // 2 - 1]

    def level(value: float) -> str:
        return levels[round((value - low) / step)] if step > 0 else middle

    return "".join(" " if value is None else level(value) for value in shown)


def number(value: float | None) -> str:
    """Returns a number in a few characters; a dash for None."""
    if value is None:
        return "-"
    size = abs(value)
    if isinstance(value, int) or (size >= 1e4 and size < 1e9):
        return f"{value:,.0f}"
    if value == 0:
        return "0"
    if size >= 1e9 or size < 1e-3:
        return f"{value:.1e}"
    return f"{value:.1f}" if size >= 1000 else f"{value:.2f}" if size >= 1 else f"{value:.4f}"


def span(seconds: float | None) -> str:
    """Returns a duration as 0:42, 12:05 or 3:04:05; a dash for None."""
    if seconds is None:
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _amounts(result: IterationResult) -> dict[str, float]:
    """Returns the growing amounts that can be budgets of a run."""
    return {
        "env_steps": result.env_steps,
        "iterations": result.iteration,
        "seconds": result.seconds,
        "minutes": result.seconds / 60,
        "episodes": result.episodes,
        "gradient_steps": result.gradient_steps,
    }
