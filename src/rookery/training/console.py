"""What a person sees while training: a live panel at a terminal, plain lines elsewhere, JSON for programs."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from rookery.training.compute import told_memory, told_path
from rookery.training.pace import told_pace, told_replay
from rookery.training.panel import Panel, span
from rookery.training.results import IterationResult, Number

if TYPE_CHECKING:
    from rookery.training.trainer import Trainer

PAUSE = 0.25
"""Shortest time between two drawings of the panel, in seconds."""

PATIENCE = 100
"""The panel waits this many times as long as its last drawing took: drawing costs at most 1 % of a run."""


class Reporter(Protocol):
    """Told of everything worth showing."""

    def start(self, trainer: Trainer, criteria: Mapping[str, float]) -> None:
        """Training begins."""
        ...

    def iteration(self, result: IterationResult) -> None:
        """An iteration is over."""
        ...

    def event(self, text: str) -> None:
        """Something has happened: a checkpoint was written, say."""
        ...

    def note(self, line: str) -> None:
        """Something a user should know once."""
        ...

    def finish(self, trainer: Trainer) -> None:
        """Training has ended, by a criterion, an error or Ctrl-C."""
        ...


class Quiet:
    """Shows notes only."""

    def start(self, trainer: Trainer, criteria: Mapping[str, float]) -> None:
        """What a user should know once: the preset in use, parts of observations that are left out."""
        for line in trainer.notes:
            self.note(line)

    def iteration(self, result: IterationResult) -> None:
        """Shows nothing."""

    def event(self, text: str) -> None:
        """Shows nothing."""

    def note(self, line: str) -> None:
        """To standard error."""
        sys.stderr.write(f"note: {line}\n")

    def finish(self, trainer: Trainer) -> None:
        """Shows nothing."""


class JsonRows(Quiet):
    """A row of `metrics.jsonl` an iteration on standard output, and nothing else there."""

    def iteration(self, result: IterationResult) -> None:
        """The row."""
        sys.stdout.write(json.dumps(result.row()) + "\n")
        sys.stdout.flush()


class Plain:
    """A line an iteration, at most one a second."""

    def __init__(self) -> None:
        self._shown = 0.0
        self._event = ""
        self._criteria: Mapping[str, float] = {}

    def start(self, trainer: Trainer, criteria: Mapping[str, float]) -> None:
        """What is trained, and until when."""
        self._criteria = criteria
        for line in opening(trainer, criteria):
            self._write(line)

    def iteration(self, result: IterationResult) -> None:
        """The result in one line."""
        if time.monotonic() - self._shown >= 1.0 or result.stop_reason or result.evaluation:
            self._shown = time.monotonic()
            event, self._event = self._event, ""
            self._write(summary(result, self._criteria) + (f" | {event}" if event else ""))
        if result.stop_reason:
            self._write(f"stopped: {result.stop_reason}")

    def event(self, text: str) -> None:
        """The latest event, at the end of the next line."""
        self._event = text

    def note(self, line: str) -> None:
        """A note."""
        self._write(f"note: {line}")

    def finish(self, trainer: Trainer) -> None:
        """The last event, and where the time went."""
        if self._event:
            self._write(self._event)
        self._write(trainer.timers.tree())

    def _write(self, line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


class LivePanel:
    """A panel that is drawn anew as the run goes on; notes and its last state stay on the screen.

    Args:
        console: Where to draw.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._trainer: Trainer | None = None
        self._panel = Panel("", {})
        self._live: Live | None = None
        self._due = 0.0

    def start(self, trainer: Trainer, criteria: Mapping[str, float]) -> None:
        """What is trained, and until when; then the panel."""
        self._trainer = trainer
        for line in opening(trainer, criteria):
            self._print(line)
        self._panel = Panel(f"{trainer.env.name}, seed {trainer.seed}", criteria)
        self._live = Live(console=self._console, auto_refresh=False)
        self._live.start()
        self._draw()

    def iteration(self, result: IterationResult) -> None:
        """Draws the panel, if it is time."""
        self._panel.update(result)
        if time.monotonic() >= self._due:
            self._draw()

    def event(self, text: str) -> None:
        """Adds to the panel's last events."""
        self._panel.event(text)
        if time.monotonic() >= self._due:
            self._draw()

    def note(self, line: str) -> None:
        """Above the panel, where it stays."""
        self._print(f"note: {line}")

    def finish(self, trainer: Trainer) -> None:
        """Leaves the whole panel on the screen."""
        if self._live is not None:
            self._draw(whole=True)
            self._live.stop()
            self._live = None
        if self._panel.result is not None and self._panel.result.stop_reason:
            self._print(f"stopped: {self._panel.result.stop_reason}")

    def _draw(self, whole: bool = False) -> None:
        if self._live is None or self._trainer is None:
            return
        began = time.monotonic()
        height = None if whole else self._console.height
        if whole:
            self._live.vertical_overflow = "visible"
        self._live.update(self._panel.draw(self._console, self._trainer.timers, height), refresh=True)
        ended = time.monotonic()
        self._due = ended + max(PAUSE, PATIENCE * (ended - began))

    def _print(self, line: str) -> None:
        self._console.print(Text(line))


def reporter(style: str) -> Reporter:
    """The reporter for ``auto``, ``live``, ``plain``, ``quiet`` or ``json``."""
    if style == "auto":
        style = "live" if sys.stdout.isatty() and os.environ.get("TERM") != "dumb" else "plain"
    if style == "live":
        return LivePanel(Console(highlight=False))
    styles: dict[str, type[Quiet | Plain]] = {"plain": Plain, "quiet": Quiet, "json": JsonRows}
    return styles[style]()


def opening(trainer: Trainer, criteria: Mapping[str, float]) -> list[str]:
    """What is trained: environment, policies, presets and notes, and what ends it."""
    env, agents = trainer.env, sum(len(kind.agents) for kind in trainer.env.kinds)
    until = " or ".join(
        f"{name} {value:g}" if value < 1e5 else f"{name} {value:,.0f}" for name, value in criteria.items()
    )
    lines = [f"{env.name}: {env.num_lanes} copies, {agents} agent{'s' if agents > 1 else ''} each, seed {trainer.seed}"]
    for name, policy in trainer.policies.items():
        size = sum(parameter.numel() for parameter in policy.parameters())
        what = "frozen" if name in trainer.frozen else type(trainer.learners[name]).__name__
        path = told_path(trainer.paths[name], policy, trainer.learners.get(name))
        kept = f", remembers {policy.memory_size:,} numbers ({told_memory(policy)})" if policy.memory_size else ""
        lines.append(f"policy {name}: {what} ({path}), {size:,} weights{kept}, acts in {policy.action_spec.space}")
    if trainer.replays:
        for name, learner in trainer.learners.items():
            told = [told_pace(learner), *filter(None, [told_replay(learner)])]
            lines.append(f"policy {name} learns by {', '.join(told)}")
    lines.extend(trainer.notes)
    lines.append(f"until {until or 'the stop function says so'}")
    return lines


def _ratio(learning: Mapping[str, Number]) -> str:
    ratio = learning.get("updates_per_env_step")
    return "" if ratio is None else f" ({ratio:.3g} an env step)"


def summary(result: IterationResult, criteria: Mapping[str, float]) -> str:
    """One line about an iteration."""
    steps = f"{result.env_steps:,}"
    budget = criteria.get("env_steps")
    if budget:
        steps += f"/{budget:,.0f} ({100 * min(1.0, result.env_steps / budget):.0f} %)"
    mean = "no episode finished yet" if result.return_mean is None else f"return {result.return_mean:.2f}"
    if result.return_mean is None:
        mean += f" (running length {result.running_length:.0f})"
    parts = [f"iteration {result.iteration}", f"steps {steps}", mean]
    if len(result.policies) > 1:
        parts += [
            f"{name} {policy.return_mean:.2f}"
            for name, policy in result.policies.items()
            if policy.return_mean is not None
        ]
    for name, policy in result.policies.items():
        label, learning = "" if len(result.policies) == 1 else f"{name} ", policy.learning
        if learning.get("gradient_steps") is not None:
            parts.append(f"{label}{learning['gradient_steps']:,} gradient steps{_ratio(learning)}")
        elif learning.get("kl") is not None:
            parts.append(f"{label}kl {learning['kl']:.4f}")
        elif learning.get("loss") is not None:
            parts.append(f"{label}loss {learning['loss']:.4f}")
    if result.evaluation is not None:
        low, high = result.evaluation.return_interval
        parts.append(f"evaluation {result.evaluation.return_mean:.2f} [{low:.2f}, {high:.2f}]")
    parts.append(f"{result.steps_per_second:,.0f} steps/s" if result.sampling else "nothing played")
    if budget and result.env_steps < budget and result.steps_per_second > 0:
        parts.append(f"{span((budget - result.env_steps) / (result.env_steps / max(result.seconds, 1e-9)))} left")
    return " | ".join(parts)
