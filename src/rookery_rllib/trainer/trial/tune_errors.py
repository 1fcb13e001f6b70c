"""Errors of trials, under the names that scripts catch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rookery.face import RookeryError


class TuneError(RookeryError):
    def __init__(self, message: str, trials: Sequence[Any] = ()) -> None:
        super().__init__(f"{message}: {', '.join(map(str, trials))}" if trials else message)
        self.trials = list(trials)


class AbortTrialExecution(TuneError): ...
