"""What a trial can be: Job makes the Work of one trial, and Work does it an iteration at a time.

`jobs/` holds the usual one, a Trainer, and classes and functions of users.
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
    """What the work of a trial begins with.

    Attributes:
        trial: Name of the trial.
        params: Parameters by path.
        seed: Names its random streams.
        folder: Folder of its files. If there is a good checkpoint in ``folder/checkpoints``, the work goes on from the
            last of them, with `params`; else it begins anew, whatever else lies there.
    """

    trial: str
    params: Mapping[str, Any]
    seed: int
    folder: Path


class Work(ABC):
    """One trial at work. It appends a row to ``folder/metrics.jsonl`` for each iteration, before any checkpoint of it.

    Attributes:
        iteration: Iterations behind it.
        reason: Why it is over by its own criteria, as it stands; empty if it goes on. Known from the start: the last
            checkpoint may be of its last iteration.
    """

    iteration: int
    reason: str = ""

    @abstractmethod
    def step(self) -> tuple[Row, str]:
        """Does an iteration; gives its row, and why the trial is over by its own criteria (empty if it goes on).

        A checkpoint is written where the job's own settings want one, at the end too.
        """

    @abstractmethod
    def save(self) -> None:
        """Writes a checkpoint of this moment to ``folder/checkpoints``, unless the last one is of it; what cannot be
        saved does nothing.
        """

    def interrupt(self) -> None:  # noqa: B027  # most are asked between two iterations, which is soon enough
        """Asks an iteration under way to save and raise `Interrupted`; called by a signal handler or another thread."""

    @abstractmethod
    def close(self) -> None:
        """Frees everything; nothing more is asked of it."""


class Job(ABC):
    """What all trials of an experiment have in common. It survives cloudpickle, and is made once in each process.

    Attributes:
        columns: Names of numbers that rows will hold, beside those in groups (`jobs/rows.py`); empty if nobody knows.
        repeats_exactly: Whether trials with the same parameters and seed are the same.
        metrics: Columns worth showing beside the metric, in this order.
    """

    columns: ClassVar[tuple[str, ...]] = ()
    repeats_exactly: ClassVar[bool] = False
    metrics: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def start(self, start: Start) -> Work:
        """Makes the work of one trial, new or from its last checkpoint on."""

    def check(self, space: Mapping[str, Any]) -> None:  # noqa: B027  # of a user's code only the trial itself knows
        """Refuses what no trial could run with: unknown paths, values of a wrong type, criteria that name nothing.

        Raises:
            ConfigError: With a line for each mistake.
        """

    def fixed(self, space: Mapping[str, Any]) -> frozenset[str]:
        """Gives the paths of `space` whose values no trial can change between two of its iterations.

        Args:
            space: The domains of all parameters by path, which `check` has accepted.
        """
        return frozenset()

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Describes the job, JSON-ready, for the experiment's files and to compare with when it is resumed."""

    @property
    @abstractmethod
    def title(self) -> str:
        """The name of the job: ``CartPole-v1-ppo``."""

    @property
    def cpus(self) -> float:
        """Cores that a trial can use, as far as its settings say."""
        return 1.0

    @property
    def working_directory(self) -> str | None:
        """Folder that is sent to all machines where trials run on Ray; None = none."""
        return None


PARAMS = "params.json"
"""File in a trial's folder that says what was chosen for it."""

KEPT = (PARAMS, "log.txt", "error.txt", "run.lock")
"""Files in a trial's folder that are not its work's own."""


def begin_anew(folder: Path) -> None:
    """Removes what an earlier start without a good checkpoint has left in a trial's folder."""
    own_files.remove(folder, KEPT)
