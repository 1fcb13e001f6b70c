"""Base class of schedulers, which decide after each result which trials continue, pause, stop or become a clone.

A scheduler receives the name of a trial, its age (`SchedulerConfig.time`) and its score (higher is better). It never
touches a trial. That keeps it short, deterministic (its random numbers come from the experiment's seed), and
restorable: after a kill it receives the results of the journal again, in their order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar

from rookery.core.seeding import Streams
from rookery.core.settings.fields import Settings
from rookery.core.settings.reach import Label


class Action(Enum):
    """Decision about a trial."""

    CONTINUE = "continue"
    """The trial continues; a paused one as soon as a worker is free."""
    PAUSE = "pause"
    """The trial keeps its checkpoint and frees its worker until another action follows."""
    STOP = "stop"
    """The trial is over, also if it was paused."""


@dataclass(frozen=True)
class Exploit:
    """Decision that a trial becomes a clone of another one, with its own parameters.

    Attributes:
        donor: The trial whose last checkpoint it copies: weights, optimizer, replay buffer, all state.
        params: All its parameters from now on.
    """

    donor: str
    params: Mapping[str, Any]


Actions = dict[str, Action | Exploit]
"""Decisions by trial. A trial that has just reported and is not named continues; other trials keep their status."""


@dataclass(frozen=True)
class SchedulerConfig(Settings):
    """Settings of all schedulers."""

    scheduler: ClassVar[str] = "rookery.tune.scheduler:FIFO"
    """Import path of the class with these settings."""

    time: Label = "iteration"
    """Column that measures a trial's age: iteration, env_steps, seconds, or any metric that only grows."""


C = TypeVar("C", bound=SchedulerConfig)


class Scheduler(ABC, Generic[C]):
    """Base class of schedulers: decides after each result.

    Args:
        cfg: Settings of the scheduler.
        space: The domains of all parameters by path (`tune/space.py:Domain`), to choose new values from.
        streams: Random streams of the experiment; use ``streams.generator(Role.TUNE, "scheduler", ...)``.
    """

    def __init__(self, cfg: C, space: Mapping[str, Any], streams: Streams) -> None:
        self.cfg = cfg
        self.space = space
        self.streams = streams

    @property
    def yields(self) -> bool:
        """Whether a trial at its milestone frees its worker for a waiting trial.

        Then all trials reach the same age together, with fewer workers than trials.
        """
        return False

    def add(self, trial: str, params: Mapping[str, Any]) -> None:
        """Adds a new trial, before its first result."""

    def milestone(self, trial: str) -> float | None:
        """Returns the age at which the trial may next be paused or cloned: its result at that age has a checkpoint.

        A paused trial is always saved; with a milestone it is saved before it reports, so that a kill at that moment
        does not cost an iteration. The call changes no state: it is not repeated after a kill.
        """
        return None

    @abstractmethod
    def on_result(self, trial: str, time: float, score: float) -> Actions:
        """Decides after an iteration of a running trial; a trial that is over by its own criteria ends in any case.

        Args:
            trial: Name of the trial.
            time: Age of the trial.
            score: The metric, negated where lower is better; minus infinity where there is no number yet.

        Returns:
            Decisions about this trial and, if the result decides about them too, paused trials.
        """

    def on_end(self, trial: str) -> Actions:
        """Decides about paused trials when a trial is over, by its own criteria, an error or this scheduler."""
        return {}

    def drained(self, paused: Sequence[str]) -> Actions:
        """Decides about paused trials, at least one of them, when no trial runs and the search is exhausted."""
        return dict.fromkeys(paused, Action.CONTINUE)


@dataclass(frozen=True)
class FIFOConfig(SchedulerConfig):
    """First in, first out: every trial runs to its end."""


class FIFO(Scheduler[FIFOConfig]):
    """Scheduler that lets every trial run to its end."""

    def on_result(self, trial: str, time: float, score: float) -> Actions:
        """Returns no action: the trial continues."""
        return {}
