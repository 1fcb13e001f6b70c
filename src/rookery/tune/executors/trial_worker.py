"""A worker for one trial at a time, in whatever process: begins it, lets it do iterations, ends it.

All executors work through this one class, so that a trial behaves the same wherever it runs. Whatever other people's
code raises becomes an event here, and stops nobody else.
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
"""Where in a trial's folder its prints are."""

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a disk, or of somebody's share of it, that is full."""


class TrialWorker:
    """Holds at most one trial's work.

    Args:
        load: Gives the job; called when the first trial begins.
        send_prints: Sends what is printed from now on to the end of a file, in a process that has no other prints.
    """

    def __init__(self, load: Callable[[], Job], send_prints: Callable[[str | Path], None] = lambda path: None) -> None:
        self._load = load
        self._send_prints = send_prints
        self._job: Job | None = None
        self._start: Start
        self._work: Work | None = None
        self._failed: Failed | None = None
        self._asked_to_stop = False

    def begin(self, start: Start) -> None:
        """Begins a trial, or goes on with it. What goes wrong is the answer to its first order."""
        self._start, self._failed = start, None
        try:
            self._send_prints(start.folder / LOG)
            self._work = self.work_of(start)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._failed = failed(start.trial, error)

    def work_of(self, start: Start) -> Work:
        """Makes the work of a trial."""
        self._job = self._job or self._load()
        return self._job.start(start)

    def step(self, order: Order) -> Event:
        """Lets the trial do an iteration, unless the row of it is there already."""
        trial = self._start.trial
        if self._failed is not None:
            return self._failed
        work = self._work
        assert work is not None
        try:
            if self._asked_to_stop:
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
            return failed(trial, error)

    def _known(self, work: Work, order: Order) -> Stepped | None:
        """What is to be told without doing anything: news that were lost with the runner, or that the trial is over."""
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
        """Ends the trial, with a checkpoint if `save`; gives what went wrong in one line, empty if nothing did."""
        work, self._work = self._work, None
        self._asked_to_stop = False
        problems = []
        for act in ([work.save] * save + [work.close]) if work is not None else ():
            try:
                act()
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                problems.append(failed(self._start.trial, error).problem)
        self._send_prints(os.devnull)
        return "; ".join(problems)

    def interrupt(self) -> None:
        """Asks the trial to save and stop, in the middle of an iteration if it can; from any thread or a handler."""
        self._asked_to_stop = True
        if self._work is not None:
            self._work.interrupt()


def failed(trial: str, error: BaseException) -> Failed:
    """Describes an exception: in one line, and as a traceback from the user's first line on."""
    cause = error.__cause__ if isinstance(error, EnvError) and error.__cause__ is not None else error
    trace = own_traceback(cause)
    if not trace and not isinstance(error, RookeryError):
        trace = "".join(traceback.format_exception(error))
    try:
        lines = " ".join(str(error).split())
    except Exception as other:  # whatever an object does when it is asked for its text
        lines = f"(its text raised {type(other).__name__})"
    if cause is not error and trace:
        trace += f"\n{error}\n"
    problem = f"{type(error).__name__}: {lines}" if lines else described(error)
    problem = lines if isinstance(error, RookeryError) else problem
    return Failed(trial, problem, trace, full=is_full(error))


def is_full(error: BaseException | None) -> bool:
    """Says whether an error came of a full disk, however often it was raised as something else since."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            return True
        error = error.__cause__ or error.__context__
    return False


@contextmanager
def prints_to(folder: Path) -> Iterator[None]:
    """Sends what is printed inside to the log of the trial in `folder`."""
    with (folder / LOG).open("a", encoding="utf-8", buffering=1) as log, redirect_stdout(log), redirect_stderr(log):
        yield
