"""Base classes of jobs: a Job makes the Work of one trial, and Work runs it one iteration at a time.

`jobs/` holds the jobs for a Trainer and for classes and functions of users.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from rookery.run.checkpoint import own_files
from rookery.tune.trial import Row


@dataclass(frozen=True)
class Start:
    """Arguments for the work of a trial.

    Attributes:
        trial: Name of the trial.
        params: Parameters by path.
        seed: Seed of its random streams.
        folder: Folder of its files. If there is a good checkpoint in ``folder/checkpoints``, the work resumes from the
            last one, with `params`; else it begins anew and ignores other files there.
    """

    trial: str
    params: Mapping[str, Any]
    seed: int
    folder: Path


class Work(ABC):
    """A running trial. It appends a row to ``folder/metrics.jsonl`` for each iteration, before any checkpoint of it.

    Attributes:
        iteration: Number of finished iterations.
        reason: Why the trial is over by its own criteria; empty if it continues. Known from the start: the last
            checkpoint may be of its last iteration.
    """

    iteration: int
    reason: str = ""

    @abstractmethod
    def step(self) -> tuple[Row, str]:
        """Runs an iteration; returns its row, and why the trial is over by its own criteria (empty if it continues).

        Writes a checkpoint as scheduled in the job's own settings, and at the end.
        """

    @abstractmethod
    def save(self) -> None:
        """Writes a checkpoint of the current state to ``folder/checkpoints``, unless the last one is current; does
        nothing if the trial cannot be saved.
        """

    def interrupt(self) -> None:  # noqa: B027  # most stop between two iterations, which is soon enough
        """Makes a running iteration save and raise `Interrupted`; called by a signal handler or another thread."""

    @abstractmethod
    def close(self) -> None:
        """Frees all resources; no other call follows."""


class Job(ABC):
    """Base class of jobs, shared by all trials of an experiment. A job can be cloudpickled, once for each process.

    Attributes:
        columns: Names of the metrics in rows, beside those in groups (`jobs/rows.py`); empty if unknown.
        repeats_exactly: Whether trials with the same parameters and seed are identical.
        metrics: Columns to show beside the metric, in this order.
    """

    columns: ClassVar[tuple[str, ...]] = ()
    repeats_exactly: ClassVar[bool] = False
    metrics: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def start(self, start: Start) -> Work:
        """Returns the work of one trial, new or resumed from its last checkpoint."""

    def check(self, space: Mapping[str, Any]) -> None:  # noqa: B027  # a user's code can be checked in the trial only
        """Refuses wrong settings of all trials: unknown paths, values of a wrong type, criteria on unknown metrics.

        Raises:
            ConfigError: With a line for each mistake.
        """

    def fixed(self, space: Mapping[str, Any]) -> frozenset[str]:
        """Returns the paths of `space` whose values cannot change between two iterations of a trial.

        Args:
            space: The domains of all parameters by path, which `check` has accepted.
        """
        return frozenset()

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Returns the job as JSON, for the experiment's files and for comparison when it is resumed."""

    @property
    @abstractmethod
    def title(self) -> str:
        """The name of the job: ``CartPole-v1-ppo``."""

    @property
    def cpus(self) -> float:
        """Cores that a trial can use according to its settings."""
        return 1.0

    @property
    def working_directory(self) -> str | None:
        """Folder that Ray sends to all machines that run trials; None = none."""
        return None


PARAMS = "params.json"
"""File in a trial's folder with its parameters."""

KEPT_FILES = (PARAMS, "log.txt", "error.txt", "run.lock")
"""Files in a trial's folder that its work does not own."""


def reset_folder(folder: Path) -> None:
    """Removes the files that an earlier start without a good checkpoint has left in a trial's folder."""
    own_files.remove(folder, KEPT_FILES)
