"""Reporters of a training: a live panel at a terminal, plain lines elsewhere, JSON for programs.

They receive plain data: `RunFacts` at the start of the run, then one `IterationResult` per iteration.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from rookery.core.process.notebook import in_notebook
from rookery.core.timers import Timers
from rookery.report.live import Listener, LiveDisplay, console_style, write_line
from rookery.report.panel import Panel, number, span
from rookery.report.results import IterationResult, Number
from rookery.report.shown import html_table

THINNING = 0.05
"""Relative growth of the training time between two lines of the log."""

SILENCE = 10.0
"""Seconds without a line before a line reports the progress of an iteration or an evaluation."""

RAREST = 8.0
"""Longest time in seconds between lines of iterations, so that no line of progress comes between them."""

NOTEBOOK_PAUSE = 0.5
"""Shortest time in seconds between two tables in a notebook."""

RESULT_LINES = 12
"""Lines of a terminal that stay free below the last panel."""


def last_lines(result: IterationResult | None) -> list[str]:
    """Returns the last lines of a training: the criterion that ended it, and ratings of self-play."""
    if result is None or not result.stop_reason:
        return []
    ratings = [
        f"rating: {name} {standing.rating:.0f} after {standing.games:,} games, {standing.snapshots} snapshots"
        for name, standing in result.self_play.items()
        if standing.games
    ]
    return [f"stopped: {result.stop_reason}", *ratings]


@dataclass(frozen=True)
class PolicyFacts:
    """Facts about a policy before training.

    Attributes:
        algorithm: Class name of the algorithm that learns the policy, or ``frozen``.
        path: Code that computes the policy, ``kernels x86-64-v4`` or ``torch``, with the reason for torch.
        weights: Number of weights.
        action_space: Space of the policy's actions, as text.
        memory_size: Size of the policy's memory for each agent.
        memory: Kind of memory, in a few words; empty if `memory_size` is 0.
        pace: Ratio of gradient steps to env steps, in a few words; empty if every policy learns on-policy.
    """

    algorithm: str
    path: str
    weights: int
    action_space: str
    memory_size: int = 0
    memory: str = ""
    pace: str = ""


@dataclass(frozen=True)
class RunFacts:
    """Facts about a run before its first iteration.

    Attributes:
        env: Name of the environment.
        num_envs: Number of environments.
        num_agents: Number of agents in each environment.
        seed: Seed of the run.
        policies: Facts about each policy, by name.
        notes: Notes for the user, such as the preset in use.
        criteria: Criteria that end the training, and their thresholds; empty if a function decides.
        gradient_steps: Gradient steps on replay before this training.
    """

    env: str
    num_envs: int
    num_agents: int
    seed: int
    policies: Mapping[str, PolicyFacts]
    notes: Sequence[str]
    criteria: Mapping[str, float]
    gradient_steps: int = 0

    @property
    def plays(self) -> bool:
        """Whether the environment is stepped: only offline learning has a budget of gradient steps."""
        return "gradient_steps" not in self.criteria


class Reporter(Listener):
    """Receives the events of a training; this base class shows notes only."""

    shows_progress = False
    """Whether the reporter shows the progress of an iteration."""

    def progress(self, make: Callable[[], str]) -> None:
        """Reports the progress of an iteration or an evaluation, if `SILENCE` has passed.

        Called about twice a second, from another thread than the other methods.

        Args:
            make: Returns the progress in one line.
        """

    def start(self, run: RunFacts, timers: Timers) -> None:
        """Begins to report a training.

        Args:
            run: Facts about the run.
            timers: Timer tree of the run, which continues to count.
        """
        for line in run.notes:
            self.note(line)

    def iteration(self, result: IterationResult) -> None:
        """Reports a finished iteration."""

    def finish(self) -> None:
        """Ends the report, at the end of training, an error or Ctrl-C."""


class JsonReporter(Reporter):
    """Writes one row of `metrics.jsonl` per iteration to a stream, and nothing else there.

    Args:
        stream: The stream; None = standard output.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def iteration(self, result: IterationResult) -> None:
        """Writes the row of an iteration."""
        if result.whole:
            write_line(json.dumps(result.row()), self._stream)


class ProgressLineReporter(Reporter):
    """Shows notes, and the progress of a long evaluation on standard error."""

    shows_progress = True

    def __init__(self) -> None:
        self._spoken = time.monotonic()

    def progress(self, make: Callable[[], str]) -> None:
        """Writes the progress after `SILENCE` seconds without a line."""
        if time.monotonic() - self._spoken >= SILENCE:
            self._spoken = time.monotonic()
            write_line(make(), sys.stdout if self.note_to_output else sys.stderr)


class PlainReporter(ProgressLineReporter):
    """Writes one line per iteration, at most one a second, and the timer tree at the end.

    If standard output is not a terminal, lines become rarer: the time between them grows by `THINNING` of the training
    time, up to `RAREST`. The last iteration and each one with an evaluation always have a line.
    """

    note_to_output = True

    def __init__(self) -> None:
        super().__init__()
        self._began = self._shown = 0.0
        self._thinning = 0.0 if sys.stdout.isatty() else THINNING
        self._event = ""
        self._unshown: IterationResult | None = None

    def start(self, run: RunFacts, timers: Timers) -> None:
        """Writes the facts about the run and its criteria."""
        self._run, self._timers, self._began = run, timers, time.monotonic()
        self._spoken = self._began
        write_line("\n".join(first_lines(run)))

    def iteration(self, result: IterationResult) -> None:
        """Writes the result in one line."""
        now = time.monotonic()
        pause = min(max(1.0, self._thinning * (now - self._began)), RAREST)
        if not result.whole:
            pass
        elif now - self._shown >= pause or result.stop_reason or result.evaluation:
            self._shown = now
            self._show(result)
        else:
            self._unshown = result
        for line in last_lines(result):
            write_line(line)

    def event(self, text: str) -> None:
        """Stores the latest event for the end of the next line."""
        self._event = text

    def finish(self) -> None:
        """Writes the last iteration if it has no line yet, the last event, and the timer tree."""
        if self._unshown is not None:
            self._show(self._unshown)
        if self._event:
            write_line(self._event)
        write_line(self._timers.tree())

    def _show(self, result: IterationResult) -> None:
        self._spoken = time.monotonic()
        event, self._event, self._unshown = self._event, "", None
        line = summary(result, self._run.criteria)
        if not self._run.plays:
            line = summary_of_learning(result, self._run, time.monotonic() - self._began)
        write_line(line + (f" | {event}" if event else ""))


class LiveReporter(Reporter):
    """Draws a live panel of the run; notes and the last panel stay on the screen."""

    shows_progress = True

    def __init__(self, console: Console | None = None) -> None:
        self._drawing = threading.RLock()
        self._over = time.monotonic()
        self._console = console or Console(highlight=False)
        self._panel = Panel("", {})
        self._display: LiveDisplay | None = None

    def start(self, run: RunFacts, timers: Timers) -> None:
        """Writes the facts about the run and its criteria; then draws the first panel."""
        self._timers = timers
        self._console.print(Text("\n".join(first_lines(run))))
        self._panel = Panel(f"{run.env}, seed {run.seed}", run.criteria, plays=run.plays)
        self._display, self._over = LiveDisplay(self._console), time.monotonic()
        self._draw()

    def iteration(self, result: IterationResult) -> None:
        """Updates the panel."""
        with self._drawing:
            self._over = time.monotonic()
            self._panel.update(result)
            self._draw()

    def event(self, text: str) -> None:
        """Adds an event to the panel."""
        with self._drawing:
            self._panel.event(text)
            self._draw()

    def progress(self, make: Callable[[], str]) -> None:
        """Shows the progress of an iteration that takes longer than `SILENCE`: in the panel, else in a line."""
        if time.monotonic() - self._over < SILENCE:
            return
        with self._drawing:
            if self._display is not None:
                self._panel.standing = make()
                self._draw()
            else:
                self._over = time.monotonic()
                self._console.print(Text(make()))

    def finish(self) -> None:
        """Leaves the panel on the screen, in a size that leaves room for the lines of the result."""
        with self._drawing:
            self._panel.standing = ""
            if self._display is not None:
                height = max(self._console.height - RESULT_LINES, 5)
                self._display.finish(self._panel.draw(self._console, self._timers, height))
                self._display = None
        for line in last_lines(self._panel.result):
            self._console.print(Text(line))

    def _draw(self) -> None:
        if self._display is not None:
            display = self._display
            display.draw(lambda: self._panel.draw(self._console, self._timers, display.height))


class NotebookReporter(Reporter):
    """Shows progress as a table below the cell of a notebook, which is replaced at most every `NOTEBOOK_PAUSE`."""

    note_to_output = True

    def start(self, run: RunFacts, timers: Timers) -> None:
        """Shows the facts about the run, and an empty table."""
        self._shown: Any = import_module("IPython.display")  # only here, in a kernel that has imported it
        self._criteria, self._due = run.criteria, 0.0
        self._title = f"{run.env}, seed {run.seed}"
        self._result: IterationResult | None = None
        write_line("\n".join(first_lines(run)))
        first = html_table(self._title, [("iteration", "the first one")])
        self._handle = self._shown.display(self._shown.HTML(first), display_id=True)

    def iteration(self, result: IterationResult) -> None:
        """Updates the table."""
        self._result = result
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + NOTEBOOK_PAUSE
            self._show()

    def finish(self) -> None:
        """Shows the last result."""
        self._show()

    def _show(self) -> None:
        if self._result is not None:
            rows = [*notebook_rows(self._result, self._criteria)]
            self._handle.update(self._shown.HTML(html_table(self._title, rows)))


def notebook_rows(result: IterationResult, criteria: Mapping[str, float]) -> Iterator[tuple[str, object]]:
    """Yields labels and values of the table in a notebook, steps with the share of a budget."""
    for name, value in result._facts().items():
        budget = criteria.get(name.replace(" ", "_"))
        if budget and isinstance(value, int | float):
            yield name, f"{value:,.0f} of {budget:,.0f} ({100 * min(1.0, value / budget):.0f} %)"
        elif value is not None:
            yield name, value


def reporter(style: str) -> Reporter:
    """Returns the reporter of a style: ``live``, ``plain``, ``quiet``, ``json`` or ``auto``."""
    if style in ("auto", "live") and in_notebook():
        return NotebookReporter()
    makers = {"live": LiveReporter, "plain": PlainReporter, "quiet": Reporter, "json": JsonReporter}
    made: Reporter = makers[console_style(style)]()
    return made


def first_lines(run: RunFacts) -> list[str]:
    """Returns the first lines of a training: environment, policies, notes and criteria."""
    until = " or ".join(
        f"{name} {value:g}" if value < 1e5 else f"{name} {value:,.0f}" for name, value in run.criteria.items()
    )
    agents = f"{run.num_agents} agent{'s' if run.num_agents > 1 else ''} each"
    envs = f"{run.num_envs} environment{'s' if run.num_envs > 1 else ''}"
    lines = [f"{run.env}: {envs}, {agents}, seed {run.seed}"]
    if not run.plays:
        lines = [f"learning from replay alone, nothing is played; seed {run.seed}"]
    for name, policy in run.policies.items():
        memory = f", memory of {policy.memory_size:,} values ({policy.memory})" if policy.memory_size else ""
        what = f"{policy.algorithm} ({policy.path}), {policy.weights:,} weights{memory}"
        lines.append(f"policy {name}: {what}, acts in {policy.action_space}")
    lines += [f"policy {name} learns by {policy.pace}" for name, policy in run.policies.items() if policy.pace]
    return [*lines, *run.notes, f"until {until or 'the stop function returns True'}"]


def summary(result: IterationResult, criteria: Mapping[str, float]) -> str:
    """Returns one line about an iteration.

    Args:
        result: Result of the iteration.
        criteria: Criteria that end the training; a budget of env steps is shown with the used share.
    """
    steps = f"{result.env_steps:,}"
    budget = criteria.get("env_steps")
    if budget:
        steps += f"/{budget:,.0f} ({100 * min(1.0, result.env_steps / budget):.0f} %)"
    mean = f"no episode finished yet (running length {result.running_length:.0f})"
    if result.return_mean is not None:
        mean = f"return {result.return_mean:.2f}"
    parts = [f"iteration {result.iteration}", f"steps {steps}", mean]
    several = len(result.policies) > 1
    means = {name: policy.return_mean for name, policy in result.policies.items() if several}
    parts += [f"{name} {mean:.2f}" for name, mean in means.items() if mean is not None]
    for name, policy in result.policies.items():
        label, learning = f"{name} " if several else "", policy.learning
        if learning.get("gradient_steps") is not None:
            ratio = learning.get("updates_per_env_step")
            pace = "" if ratio is None else f" ({ratio:.3g} an env step)"
            parts.append(f"{label}{learning['gradient_steps']:,} gradient steps{pace}")
        elif learning.get("kl") is not None:
            parts.append(f"{label}kl {learning['kl']:.4f}")
        elif learning.get("loss") is not None:
            parts.append(f"{label}loss {learning['loss']:.4f}")
    parts += [f"{name} {lesson.text()}" for name, lesson in result.lessons.items()]
    parts += [f"{name} {standing.text()}" for name, standing in result.self_play.items()]
    if result.evaluation is not None:
        low, high = result.evaluation.return_interval
        parts.append(f"evaluation {result.evaluation.return_mean:.2f} [{low:.2f}, {high:.2f}]")
    parts.append(f"{result.steps_per_second:,.0f} steps/s" if result.sampling else "nothing played")
    if budget and result.env_steps < budget and result.steps_per_second > 0:
        parts.append(f"{span((budget - result.env_steps) / (result.env_steps / max(result.seconds, 1e-9)))} left")
    return " | ".join(parts)


def summary_of_learning(result: IterationResult, run: RunFacts, seconds: float) -> str:
    """Returns one line about an iteration of offline learning.

    Args:
        result: Result of the iteration.
        run: Facts about the run.
        seconds: Seconds since learning began.
    """
    goal, now = int(run.criteria["gradient_steps"]), result.gradient_steps
    speed = (now - run.gradient_steps) / max(seconds, 1e-9)
    parts = [f"gradient steps {now:,}/{goal:,} ({100 * now / goal:.0f} %)"]
    for name, policy in result.policies.items():
        if shown := losses(policy.learning):
            parts.append((f"{name} " if len(result.policies) > 1 else "") + shown)
    parts.append(f"{speed:,.0f} gradient steps/s")
    if now < goal and speed > 0:
        parts.append(f"{span((goal - now) / speed)} left")
    return " | ".join(parts)


LOSSES = 3
"""Largest number of losses shown for a policy."""


def losses(learning: Mapping[str, Number]) -> str:
    """Returns the first losses of an algorithm as text; empty if it has none."""
    found = {key: value for key, value in learning.items() if key.endswith("loss") and value is not None}
    return ", ".join(f"{key.replace('_', ' ')} {number(value)}" for key, value in list(found.items())[:LOSSES])
