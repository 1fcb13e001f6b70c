"""Worker of one trial at a time, in any process: begins it, runs its iterations, ends it.

All executors use this class, so that a trial behaves the same in any process. Exceptions of user code become events
here, and do not stop other trials.
"""

from __future__ import annotations

import errno
import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

from rookery.core.errors import EnvError, RookeryError
from rookery.core.process.interrupt import Interrupted
from rookery.core.process.tracebacks import described, own_traceback
from rookery.report.experiment import is_number
from rookery.report.metrics_file import row_at
from rookery.tune.executor import Event, Failed, Order, Stepped, Stopped
from rookery.tune.job import Job, Start, Work
from rookery.tune.jobs.rows import number_of

LOG = "log.txt"
"""File in a trial's folder with its output."""

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a full disk or quota."""


class TrialWorker:
    """Worker with the work of at most one trial.

    Args:
        load: Returns the job; called when the first trial begins.
        send_prints: Redirects later output to the end of a file, in a process without other output.
    """

    def __init__(self, load: Callable[[], Job], send_prints: Callable[[str | Path], None] = lambda path: None) -> None:
        self._load = load
        self._send_prints = send_prints
        self._job: Job | None = None
        self._start: Start
        self._work: Work | None = None
        self._failed: Failed | None = None
        self._stop_requested = False

    def begin(self, start: Start) -> None:
        """Begins or resumes a trial. An error is reported as the event of its first order."""
        self._start, self._failed = start, None
        try:
            self._send_prints(start.folder / LOG)
            self._work = self.work_of(start)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._failed = failure_of(start.trial, error)

    def work_of(self, start: Start) -> Work:
        """Returns the work of a trial."""
        self._job = self._job or self._load()
        return self._job.start(start)

    def step(self, order: Order) -> Event:
        """Runs an iteration of the trial, unless its row exists already."""
        trial = self._start.trial
        if self._failed is not None:
            return self._failed
        work = self._work
        assert work is not None
        try:
            if self._stop_requested:
                work.save()
                return self.stopped()
            event = self._known(work, order) or Stepped(trial, *work.step())
            if order.save_at is not None:
                name, value = order.save_at
                age = number_of(event.row, name)
                if is_number(age) and age >= value:
                    work.save()
            return event
        except Interrupted:
            return self.stopped()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return failure_of(trial, error)

    def _known(self, work: Work, order: Order) -> Stepped | None:
        """Returns an event that needs no work: one lost with the runner, or the end of the trial; else None."""
        if work.iteration <= order.known and not work.reason:
            return None
        iteration = min(order.known + 1, work.iteration)
        row = row_at(self._start.folder, iteration)
        if row is None:
            return None
        return Stepped(self._start.trial, row, work.reason if iteration == work.iteration else "")

    def stopped(self) -> Stopped:
        """Returns the event of a trial that was interrupted."""
        return Stopped(self._start.trial)

    def end(self, save: bool) -> str:
        """Ends the trial, with a checkpoint if `save`; returns the error in one line, or an empty string."""
        work, self._work = self._work, None
        self._stop_requested = False
        problems = []
        for act in ([work.save] * save + [work.close]) if work is not None else ():
            try:
                act()
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                problems.append(failure_of(self._start.trial, error).problem)
        self._send_prints(os.devnull)
        return "; ".join(problems)

    def interrupt(self) -> None:
        """Makes the trial save and stop, if possible within an iteration; for any thread or signal handler."""
        self._stop_requested = True
        if self._work is not None:
            self._work.interrupt()


def failure_of(trial: str, error: BaseException) -> Failed:
    """Returns the event of an exception: one line, and a traceback from the user's first line on."""
    cause = error.__cause__ if isinstance(error, EnvError) and error.__cause__ is not None else error
    trace = own_traceback(cause)
    if not trace and not isinstance(error, RookeryError):
        trace = "".join(traceback.format_exception(error))
    try:
        lines = " ".join(str(error).split())
    except Exception as other:  # str runs code of any exception class
        lines = f"(str of it raised {type(other).__name__})"
    if cause is not error and trace:
        trace += f"\n{error}\n"
    problem = f"{type(error).__name__}: {lines}" if lines else described(error)
    problem = lines if isinstance(error, RookeryError) else problem
    return Failed(trial, problem, trace, full=is_disk_full(error))


def is_disk_full(error: BaseException | None) -> bool:
    """Returns whether an error or one of its causes is due to a full disk."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            return True
        error = error.__cause__ or error.__context__
    return False


@contextmanager
def redirect_output(folder: Path) -> Iterator[None]:
    """Redirects output inside the context to the log of the trial in `folder`."""
    with (folder / LOG).open("a", encoding="utf-8", buffering=1) as log, redirect_stdout(log), redirect_stderr(log):
        yield
