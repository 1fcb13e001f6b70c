"""One trial at a time, in this process."""

from __future__ import annotations

from contextlib import AbstractContextManager

from rookery.cluster.allotments import visible_gpus
from rookery.core.process.processor import usable_cores
from rookery.tune.executor import Event, Executor, Order
from rookery.tune.executors.trial_worker import TrialWorker, prints_to
from rookery.tune.job import Job, Start


class InProcessExecutor(Executor):
    """Runs one trial at a time in this process: `wait` does what was ordered.

    Args:
        job: What a trial does.
        cpus: Cores a trial; it has all that this process has.
        gpus: GPUs a trial, likewise.
        max_concurrent: Trials at the same time; there is one.
    """

    def __init__(self, job: Job, cpus: float, gpus: float, max_concurrent: int | None) -> None:
        cores, one = usable_cores(), "with tune.place = here, one trial runs at a time"
        notes = {
            f"tune.cpus = {cpus:g}: there are {cores} cores here, which each trial has": cpus > cores,
            f"tune.gpus = {gpus:g}: there are none here: trials run without": gpus and not visible_gpus(),
            f"tune.max_concurrent = {max_concurrent}: {one}": max_concurrent and max_concurrent > 1,
        }
        self.notes = [note for note, applies in notes.items() if applies]
        self._trial_worker = TrialWorker(lambda: job)
        self._start: Start | None = None
        self._order: Order | None = None

    def prints_to(self, start: Start) -> AbstractContextManager[None]:
        """Sends what is printed inside to the log of a trial."""
        return prints_to(start.folder)

    @property
    def free(self) -> int:
        """1 while no trial is here."""
        return int(self._start is None)

    def begin(self, start: Start) -> None:
        """Begins a trial."""
        self._start = start
        with self.prints_to(start):
            self._trial_worker.begin(start)

    def order(self, trial: str, order: Order) -> None:
        """Notes what `wait` is to do."""
        self._order = order

    def wait(self, seconds: float) -> Event | None:
        """Does what was ordered, however long it takes."""
        if self._order is None or self._start is None:
            return None
        order, self._order = self._order, None
        with self.prints_to(self._start):
            return self._trial_worker.step(order)

    def end(self, trial: str, save: bool) -> None:
        """Ends the trial."""
        if self._start is None:
            return
        with self.prints_to(self._start):
            problem = self._trial_worker.end(save)
        if problem:
            self.notes.append(f"{trial}: {problem}")
        self._start = self._order = None

    def interrupt(self) -> None:
        """Asks the trial to save and stop; between two iterations, the next is not begun."""
        self._trial_worker.interrupt()

    def close(self) -> None:
        """Ends the trial that is here, if any."""
        if self._start is not None:
            self.end(self._start.trial, save=False)
