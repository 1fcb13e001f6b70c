"""Executor that runs one trial at a time, in this process."""

from __future__ import annotations

from contextlib import AbstractContextManager

from rookery.cluster.allotments import visible_gpus
from rookery.core.process.cpu import usable_cores
from rookery.tune.executor import Event, Executor, Order
from rookery.tune.executors.trial_worker import TrialWorker, redirect_output
from rookery.tune.job import Job, Start


class InProcessExecutor(Executor):
    """Runs one trial at a time in this process: `wait` runs the ordered iteration.

    Args:
        job: Job of the trials.
        cpus: Cores for each trial; a trial has all cores of this process.
        gpus: GPUs for each trial, likewise.
        max_concurrent: Requested number of trials at the same time; one runs.
    """

    def __init__(self, job: Job, cpus: float, gpus: float, max_concurrent: int | None) -> None:
        cores, one = usable_cores(), "with tune.place = here, one trial runs at a time"
        notes = {
            f"tune.cpus = {cpus:g}: this machine has {cores} cores; each trial uses all of them": cpus > cores,
            f"tune.gpus = {gpus:g}: this machine has no GPU; trials run without": gpus and not visible_gpus(),
            f"tune.max_concurrent = {max_concurrent}: {one}": max_concurrent and max_concurrent > 1,
        }
        self.notes = [note for note, applies in notes.items() if applies]
        self._trial_worker = TrialWorker(lambda: job)
        self._start: Start | None = None
        self._order: Order | None = None

    def redirect_output(self, start: Start) -> AbstractContextManager[None]:
        """Redirects output inside the context to the log of a trial."""
        return redirect_output(start.folder)

    @property
    def free(self) -> int:
        """1 while no trial runs, else 0."""
        return int(self._start is None)

    def begin(self, start: Start) -> None:
        """Begins a trial."""
        self._start = start
        with self.redirect_output(start):
            self._trial_worker.begin(start)

    def order(self, trial: str, order: Order) -> None:
        """Stores the order for `wait`."""
        self._order = order

    def wait(self, seconds: float) -> Event | None:
        """Runs the ordered iteration, without a time limit."""
        if self._order is None or self._start is None:
            return None
        order, self._order = self._order, None
        with self.redirect_output(self._start):
            return self._trial_worker.step(order)

    def end(self, trial: str, save: bool) -> None:
        """Ends the trial."""
        if self._start is None:
            return
        with self.redirect_output(self._start):
            problem = self._trial_worker.end(save)
        if problem:
            self.notes.append(f"{trial}: {problem}")
        self._start = self._order = None

    def interrupt(self) -> None:
        """Makes the trial save and stop; between two iterations, the next one does not begin."""
        self._trial_worker.interrupt()

    def close(self) -> None:
        """Ends the running trial, if any."""
        if self._start is not None:
            self.end(self._start.trial, save=False)
