"""What every scheduler is: after each result it says who goes on, who pauses, who stops, and who becomes a clone.

A scheduler sees numbers only: a trial's name, its age (`SchedulerConfig.time`) and its score, of which higher is always
better. It never touches a trial. That makes it a few lines long, deterministic (its random numbers come from the
experiment's seed), and restorable: after a kill it is told the results of the journal again, in their order.
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
    """What becomes of a trial."""

    CONTINUE = "continue"
    """It goes on; if it was paused, as soon as there is room."""
    PAUSE = "pause"
    """It keeps its checkpoint and gives its worker away until another action comes for it."""
    STOP = "stop"
    """It is over, also if it was paused."""


@dataclass(frozen=True)
class Exploit:
    """It goes on as a copy of another trial, with parameters of its own.

    Attributes:
        donor: The trial whose last checkpoint it takes over: weights, optimizer, memory, everything.
        params: All its parameters from here on.
    """

    donor: str
    params: Mapping[str, Any]


Actions = dict[str, Action | Exploit]
"""By trial. A trial that has just reported and is not named goes on; others that are not named stay as they are."""


@dataclass(frozen=True)
class SchedulerConfig(Settings):
    """What all schedulers have."""

    scheduler: ClassVar[str] = "rookery.tune.scheduler:FIFO"
    """Import path of the class that these settings steer."""

    time: Label = "iteration"
    """What a trial's age is counted in: iteration, env_steps, seconds, or any metric that only grows."""


C = TypeVar("C", bound=SchedulerConfig)


class Scheduler(ABC, Generic[C]):
    """Decides after each result.

    Args:
        cfg: Settings of the scheduler.
        space: The domains of all parameters by path (`tune/space.py:Domain`), for those that choose new ones.
        streams: Random streams of the experiment; use ``streams.generator(Role.TUNE, "scheduler", ...)``.
    """

    def __init__(self, cfg: C, space: Mapping[str, Any], streams: Streams) -> None:
        self.cfg = cfg
        self.space = space
        self.streams = streams

    @property
    def yields(self) -> bool:
        """Whether a trial at its milestone gives its worker to a waiting trial.

        Then all trials reach the same age together if there are fewer workers than trials.
        """
        return False

    def add(self, trial: str, params: Mapping[str, Any]) -> None:
        """Hears of a new trial, before its first result."""

    def milestone(self, trial: str) -> float | None:
        """Returns the age at which the trial may next be paused or copied: its result of then comes with a checkpoint.

        What is paused is saved in any case; with a milestone it is saved before the news of it, so that not even a kill
        right then costs an iteration. Asking changes nothing: after a kill it is not asked again.
        """
        return None

    @abstractmethod
    def on_result(self, trial: str, time: float, score: float) -> Actions:
        """Decides after an iteration of a running trial; one that is over by its own criteria ends in any case.

        Args:
            trial: Name of the trial.
            time: Age of the trial.
            score: The metric, negated where lower is better; minus infinity where there is no number yet.

        Returns:
            What becomes of it and, if this result decides about them too, of paused trials.
        """

    def on_end(self, trial: str) -> Actions:
        """Decides about paused trials when one is over, by its own criteria, by an error or by this scheduler."""
        return {}

    def drained(self, paused: Sequence[str]) -> Actions:
        """Decides about paused trials, naming at least one, when nobody runs and no new trial will come."""
        return dict.fromkeys(paused, Action.CONTINUE)


@dataclass(frozen=True)
class FIFOConfig(SchedulerConfig):
    """Every trial runs to its end, first come, first served."""


class FIFO(Scheduler[FIFOConfig]):
    """Never interferes."""

    def on_result(self, trial: str, time: float, score: float) -> Actions:
        """Lets the trial go on."""
        return {}
