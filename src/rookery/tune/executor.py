"""Base class of executors, which run trials, and the messages between the runner and its workers.

A worker runs one trial at a time, one iteration for each order. `executors/` holds the executor in this process, the
one with local processes, and the one on Ray; all of them use `executors/trial_worker.py`.
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
    """Request for one iteration.

    Attributes:
        known: The last iteration in the journal. If `metrics.jsonl` already has the row of the next one (it was
            written, but its event was lost with the runner), the row is reported without running the iteration again.
        save_at: A metric that only grows, and the value at which the result must come with a checkpoint; or None.
        ahead: Whether the next iteration will be ordered independently of this result, unless this is the last one.
    """

    known: int
    save_at: tuple[str, float] | None = None
    ahead: bool = False


@dataclass(frozen=True)
class Stepped:
    """Event: a trial has finished an iteration, or is over.

    Attributes:
        trial: Name of the trial.
        row: Row that the trial reports. It is the row of a known iteration if only the reason is new: a function has
            returned after its last row, or its last iteration was reported before a kill.
        reason: Why the trial is over by its own criteria; empty if it continues.
    """

    trial: str
    row: Row
    reason: str


@dataclass(frozen=True)
class Failed:
    """Event: a trial raised an exception, or was lost with its process.

    Attributes:
        trial: Name of the trial.
        problem: The error, in one line.
        traceback: As Python prints it, from the user's first line if that is known.
        lost: The process or machine is gone; the trial itself may be correct.
        full: A disk was full, which is not the trial's fault.
    """

    trial: str
    problem: str
    traceback: str
    lost: bool = False
    full: bool = False


@dataclass(frozen=True)
class Stopped:
    """Event: a trial was interrupted in the middle of an iteration, and has saved a checkpoint if it could."""

    trial: str


Event = Stepped | Failed | Stopped


class Executor(ABC):
    """Runs trials.

    Attributes:
        notes: Notes to the user, each shown once: for example that fewer resources are available than were requested.
    """

    notes: list[str]

    @property
    @abstractmethod
    def free(self) -> int:
        """Number of further trials that can begin now."""

    @abstractmethod
    def begin(self, start: Start) -> None:
        """Assigns a trial to a free worker. An error is reported as the event of its first order."""

    @abstractmethod
    def order(self, trial: str, order: Order) -> None:
        """Orders an iteration of a trial that has begun; `wait` returns exactly one event for it."""

    @abstractmethod
    def end(self, trial: str, save: bool) -> None:
        """Frees the worker of a trial without an open order; with `save`, writes a checkpoint first."""

    @abstractmethod
    def wait(self, seconds: float) -> Event | None:
        """Returns the next event; None if there is none within `seconds`."""

    @abstractmethod
    def interrupt(self) -> None:
        """Makes running trials save and stop at once; each answers its order, in mid-iteration with `Stopped`."""

    @abstractmethod
    def close(self) -> None:
        """Ends all workers, busy or not."""


def pickled_job(job: Job, place: str) -> bytes:
    """Returns a pickled job, for other processes.

    Raises:
        ConfigError: If it cannot be pickled.
    """
    try:
        return bytes(cloudpickle.dumps(WithSpecs(job, vars(job))))
    except Exception as error:  # pickling runs code of any object
        raise ConfigError(
            f"tune.place = {place}: the trials cannot be sent to other processes, because pickling them raised "
            f"{type(error).__name__}: {error}; make such objects inside the trial, or use tune.place=here"
        ) from error
