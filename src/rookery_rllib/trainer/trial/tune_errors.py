"""What goes wrong with trials, under the names that scripts catch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rookery.core.errors import RookeryError


class TuneError(RookeryError):
    """An experiment cannot go on, or some of its trials have failed.

    Args:
        message: What happened.
        trials: The trials that failed, if it is about trials.
    """

    def __init__(self, message: str, trials: Sequence[Any] = ()) -> None:
        super().__init__(f"{message}: {', '.join(map(str, trials))}" if trials else message)
        self.trials = list(trials)


class AbortTrialExecution(TuneError):
    """A trial is not to go on."""
