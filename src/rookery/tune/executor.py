"""Executors run trials: the messages between the runner and its workers, and what every executor is.

A worker runs one trial at a time, an iteration for each order. `executors/` holds the one in this process, those in
local processes, and those on Ray; all of them work through `executors/trial_worker.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import cloudpickle

from rookery.core.errors import ConfigError
from rookery.envs.vector.specs import WithSpecs
from rookery.tune.job import Job, Start
from rookery.tune.trial import Row


@dataclass(frozen=True)
class Order:
    """One iteration to do.

    Attributes:
        known: The last iteration that the journal knows of. A row of the next one that lies in `metrics.jsonl` already
            (it was written, and its news was lost with the runner) is reported without doing it again.
        save_at: A metric that only grows, and the value from which on the result must come with a checkpoint; or None.
        ahead: Whether the next one will be ordered whatever this one reports, unless it is the last.
    """

    known: int
    save_at: tuple[str, float] | None = None
    ahead: bool = False


@dataclass(frozen=True)
class Stepped:
    """A trial has done an iteration, or has found out that it is over.

    Attributes:
        trial: Name of the trial.
        row: What the trial reports. Of an iteration that is known already, if it has nothing more to report than the
            reason: a function has returned after its last row, or its last iteration was told before a kill.
        reason: Why the trial is over by its own criteria; empty if it goes on.
    """

    trial: str
    row: Row
    reason: str


@dataclass(frozen=True)
class Failed:
    """A trial raised, or was lost with its process.

    Attributes:
        trial: Name of the trial.
        problem: What happened, in one line.
        traceback: As Python prints it, from the user's first line where that can be told.
        lost: The process or machine is gone; the trial itself may be all right.
        full: There was no room on a disk, for which no trial is to blame.
    """

    trial: str
    problem: str
    traceback: str
    lost: bool = False
    full: bool = False


@dataclass(frozen=True)
class Stopped:
    """A trial was interrupted in the middle of an iteration, and has saved what it could."""

    trial: str


Event = Stepped | Failed | Stopped


class Executor(ABC):
    """Runs trials.

    Attributes:
        notes: What a user should know once: that less is there than was asked for.
    """

    notes: list[str]

    @property
    @abstractmethod
    def free(self) -> int:
        """How many more trials can begin now."""

    @abstractmethod
    def begin(self, start: Start) -> None:
        """Gives a trial to a free worker. What goes wrong is the answer to its first order."""

    @abstractmethod
    def order(self, trial: str, order: Order) -> None:
        """Orders an iteration of a trial that began; `wait` gives exactly one event for it."""

    @abstractmethod
    def end(self, trial: str, save: bool) -> None:
        """Frees the worker of a trial that has no order open; with `save` it has written a checkpoint before."""

    @abstractmethod
    def wait(self, seconds: float) -> Event | None:
        """Returns the next event; None if there is none for so long."""

    @abstractmethod
    def interrupt(self) -> None:
        """Asks trials at work to save and stop at once; each answers its order, with `Stopped` if in the middle."""

    @abstractmethod
    def close(self) -> None:
        """Ends everything, whatever it does."""


def pickled_job(job: Job, place: str) -> bytes:
    """Returns a job as other processes load it.

    Raises:
        ConfigError: If it cannot be pickled.
    """
    try:
        return bytes(cloudpickle.dumps(WithSpecs(job, vars(job))))
    except Exception as error:  # whatever an object does when it is pickled
        raise ConfigError(
            f"tune.place = {place}: the trials cannot be sent to other processes, because pickling them raised "
            f"{type(error).__name__}: {error}; make what cannot be pickled inside the trial, or use tune.place=here"
        ) from error
