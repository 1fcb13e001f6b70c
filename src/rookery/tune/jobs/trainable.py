"""Trials other than trainings: a class that runs an iteration in each `step`, or a function that reports metrics.

    class Annealing:                                   def objective(config):
        def setup(self, config): ...                       for height in climb(config["step_size"]):
        def step(self): return {"score": ...}                  tune.report({"score": height})

    tune.run(trainable=Annealing, config={"step_size": tune.uniform(0, 1)}, metric="score", num_samples=20)

Both receive the configuration with a value in place of each domain. Their metrics are flattened
(``{"loss": {"actor": 1}}`` becomes ``loss/actor``), get the columns ``iteration`` and ``seconds``, and are written to
the trial's `metrics.jsonl` before any checkpoint of the iteration.
"""

from __future__ import annotations

import inspect
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter
from typing import Any
from urllib.parse import quote, unquote

from rookery.core.errors import ConfigError, RookeryError, refuse
from rookery.core.io.files import (
    FOLDER,
    FileError,
    Stream,
    last_good,
    list_checkpoints,
    make_folder,
    pieces_of,
    read_manifest,
    remove_directory,
    write_directory,
)
from rookery.core.io.leftovers import TEMPORARY, clean
from rookery.core.settings.fields import show
from rookery.report.experiment import is_number
from rookery.report.live import Listener
from rookery.report.metrics_file import append_row, cut_rows, gap_note, row_at, sync_rows
from rookery.tune.job import Job, Start, Work, reset_folder
from rookery.tune.jobs.rows import flatten, not_reported, reached_criterion
from rookery.tune.space import accepts, to_json
from rookery.tune.spec import fill, split
from rookery.tune.trial import Row

Criteria = Mapping[str, float] | Callable[[Row], bool]
"""Columns with the values to reach; or a function of a row."""

SCORE = "score"
"""Column of a single number that a function returns or yields."""

KEEP_LAST = 3
"""Number of checkpoints that are kept for each trial."""

CLOSE_SECONDS = 10.0
"""Time for a stopped function to clean up and return."""

RETURNED = "the function has returned"

CONTENT = "content/"
"""Prefix of the trial's own files in a checkpoint."""


class Trainable:
    """Base class of trials. Only `step` is required; classes with these methods need not derive from this one.

    Attributes:
        seed: Random seed of the trial; repeats differ in it. `seed()` returns it too.
        folder: Folder of the trial, for files of its own.
    """

    seed: int
    folder: Path

    def setup(self, config: Mapping[str, Any]) -> None:
        """Prepares the trial with its configuration."""

    def step(self) -> Mapping[str, Any]:
        """Runs an iteration; returns its metrics."""
        raise NotImplementedError

    def save_checkpoint(self, folder: Path) -> None:
        """Writes all state that resuming needs to an empty folder, in files of any name."""

    def load_checkpoint(self, folder: Path) -> None:
        """Restores the state that `save_checkpoint` wrote; called after `setup`."""

    def cleanup(self) -> None:
        """Frees all resources."""


def report(metrics: Mapping[str, Any] | float, *, checkpoint: str | Path | None = None) -> None:
    """Reports an iteration of a trial that is a function, and waits until the next one is ordered.

    Args:
        metrics: Metrics of the iteration; a single number gets the name ``score``.
        checkpoint: A folder whose files are copied; the trial resumes from them, after a pause or a kill.

    Raises:
        TrialStopped: If the trial is over. It is not an Exception, so that ``except Exception`` does not catch it.
        RookeryError: If this thread does not run a trial.
    """
    _active_work("report").report(metrics, None if checkpoint is None else Path(checkpoint))


def checkpoint() -> Path | None:
    """Returns a folder with the last checkpoint of the current trial, to resume from; None if it begins anew."""
    return _active_work("checkpoint").restored


def seed() -> int:
    """Returns the random seed of the current trial; repeats differ in it."""
    return _active_work("seed").seed


class TrialStopped(BaseException):
    """Ends the function of a stopped trial. Its ``finally`` clauses run."""


class TrainableJob(Job):
    """Job of a class with a method `step`; or of a function that calls `report`, yields rows, or returns metrics.

    Args:
        trainable: Class, or function of a configuration.
        config: The configuration, nested, with domains in it.
        stop: Ends each trial; a function also ends when it returns.
        save_every: Iterations between checkpoints of a class; 0 = only at the end.

    Raises:
        ConfigError: If `trainable` is neither, or has a wrong signature.
    """

    def __init__(self, trainable: Any, config: Mapping[str, Any], stop: Criteria, save_every: int) -> None:
        self.trainable, self.config, self.stop, self.save_every = trainable, config, stop, save_every
        wrong = [] if callable(stop) else [
            f"stop.{name} = {show(value)}: must be a finite number"
            for name, value in stop.items() if not is_number(value)
        ]  # fmt: skip
        if isinstance(trainable, type):
            wrong += [f"trainable = {self.title}: {problem}" for problem in _problems_of_class(trainable, config)]
        elif not callable(trainable):
            must = "must be a class with a method step, or a function of a configuration"
            wrong.append(f"trainable = {show(trainable)}: {must}")
        elif inspect.iscoroutinefunction(trainable) or inspect.isasyncgenfunction(trainable):
            wrong.append(f"trainable = {self.title}: the function is async; give a plain one that calls asyncio.run")
        elif not accepts(trainable, config):
            wrong.append(f"trainable = {self.title}: the function must take one argument, the configuration of a trial")
        refuse(wrong)

    @property
    def title(self) -> str:
        """The name of the class or function."""
        return str(getattr(self.trainable, "__name__", type(self.trainable).__name__))

    def describe(self) -> dict[str, Any]:
        """Returns the class or function, its configuration and criteria, as JSON."""
        fixed, _ = split(self.config)
        return {"kind": "trainable", "trainable": to_json(self.trainable), "config": to_json(fixed),
                "stop": to_json(self.stop)}  # fmt: skip

    def start(self, start: Start) -> Work:
        """Returns the work: an object of the class, or a thread of the function, which waits at each report."""
        config = fill(self.config, start.params)
        if isinstance(self.trainable, type):
            return ClassWork(self.trainable, config, self.stop, self.save_every, start)
        return FunctionWork(self.trainable, config, self.stop, start)


def _problems_of_class(trainable: type, config: Mapping[str, Any]) -> Iterator[str]:
    """Yields the problems of a class as a trial."""
    if _own_method(trainable, "step") is None:
        yield "the class has no method step, which runs an iteration and returns its row"
    saves, loads = _own_method(trainable, "save_checkpoint"), _own_method(trainable, "load_checkpoint")
    if (saves is None) != (loads is None):
        has, lacks = ("save", "load") if loads is None else ("load", "save")
        yield f"the class has {has}_checkpoint but no {lacks}_checkpoint; write both or none"
    methods = {"setup": (config,), "step": (), "save_checkpoint": (Path(),), "load_checkpoint": (Path(),),
               "cleanup": ()}  # fmt: skip
    for method, arguments in methods.items():
        found = inspect.getattr_static(trainable, method, None)
        if inspect.isfunction(found) and not accepts(found, None, *arguments):
            wanted = ", ".join(inspect.signature(getattr(Trainable, method)).parameters)
            yield f"its {method} must be {method}({wanted})"
    if not accepts(trainable):
        yield "the constructor must not require arguments; pass them to setup(config)"


def can_save(cls: type) -> bool:
    """Returns whether trials of a class write checkpoints."""
    return _own_method(cls, "save_checkpoint") is not None


def _own_method(cls: type, method: str) -> Any:
    """Returns a method of a class; None if it has none, or only the empty one of `Trainable`."""
    found = getattr(cls, method, None)
    return None if found is getattr(Trainable, method) else found


# --- work -----------------------------------------------------------------------------------------------------------


class RecordedWork(Work):
    """Base class of trials whose rows and checkpoints are written here.

    Args:
        stop: Ends the trial.
        start: Arguments of the trial.

    Attributes:
        restored: A folder with the trial's last checkpoint; None if it begins anew.
        seed: Seed of the trial.
    """

    def __init__(self, stop: Criteria, start: Start) -> None:
        self.iteration, self.seconds, self.seed = 0, 0.0, start.seed
        self.restored: Path | None = None
        self._stop = stop
        self._folder, self._checkpoints = start.folder, start.folder / FOLDER
        place = last_good(self._checkpoints)
        if place is None:
            reset_folder(start.folder)
            return
        for folder in (self._folder, self._checkpoints):
            clean(folder)
        found = list_checkpoints(self._checkpoints)
        for later in found[found.index(place) + 1 :]:  # broken ones
            remove_directory(later)
        facts = read_manifest(place)
        self.iteration, self.seconds = facts["iteration"], facts["seconds"]
        cut_rows(self._folder, self.iteration)
        if line := gap_note(self._folder, self.iteration):
            Listener().note(line)
        self.reason = facts["reason"] or self._met(row_at(self._folder, self.iteration) or {})
        self.restored = unpack_files(place, self._folder)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Makes this the trial of `report`, `checkpoint` and `seed` in the calling thread."""
        before, _active.work = getattr(_active, "work", None), self
        try:
            yield
        finally:
            _active.work = before

    def report(self, metrics: Any, checkpoint: Path | None) -> None:
        """Raises RookeryError: only functions report."""
        raise RookeryError("report: this trial is a class: its method step returns the row")

    def _met(self, row: Row) -> str:
        """Returns the criterion that a row meets, as text."""
        if callable(self._stop):
            return "the stop function said so" if row and self._stop(row) else ""
        return reached_criterion(self._stop, row)

    def _take(self, metrics: Any, reason: str = "") -> Row:
        """Makes a row of reported metrics, and writes it; `reason` states why the trial is over, if known."""
        if not isinstance(metrics, Mapping):
            metrics = {SCORE: metrics}
        row = {"iteration": 0, **flatten(metrics)} | {
            "iteration": self.iteration + 1,
            "seconds": round(self.seconds, 3),
        }
        if not self.iteration and not callable(self._stop):
            wrong = [name for name in self._stop if not {name, name.replace(".", "/")} & {*row, "iterations"}]
            refuse(not_reported(f"stop.{name}", name, row) + "; report None until there is one" for name in wrong)
        append_row(self._folder, row)
        self.iteration += 1
        self.reason = reason or self._met(row)
        return row

    def _write(self, content: Path) -> None:
        """Writes a checkpoint with the files in a folder."""
        if not content.is_dir():
            raise ConfigError(f"report: checkpoint = {str(content)!r} is not a folder; write the trial's files to one")
        make_folder(self._checkpoints)
        sync_rows(self._folder)
        facts = {"iteration": self.iteration, "seconds": self.seconds, "reason": self.reason}
        write_directory(self._checkpoints / f"{self.iteration:06d}", pack_files(content), facts, replace=True)
        for old in list_checkpoints(self._checkpoints)[:-KEEP_LAST]:
            remove_directory(old)

    def close(self) -> None:
        """Removes the unpacked checkpoint."""
        if self.restored is not None:
            shutil.rmtree(self.restored, ignore_errors=True)


_active = threading.local()


def _active_work(call: str) -> RecordedWork:
    work: RecordedWork | None = getattr(_active, "work", None)
    if work is None:
        raise RookeryError(
            f"tune.{call}() was called outside of a trial: call it in the thread of a function or class that "
            "tune.run(trainable=...) runs"
        )
    return work


class ClassWork(RecordedWork):
    """Trial of a class, with one object of it.

    Args:
        trainable: The class.
        config: Configuration of this trial.
        stop: Ends the trial.
        save_every: Iterations between checkpoints; 0 = only at the end.
        start: Arguments of the trial.
    """

    def __init__(
        self, trainable: type, config: Mapping[str, Any], stop: Criteria, save_every: int, start: Start
    ) -> None:
        super().__init__(stop, start)
        self._save_every = save_every
        self._saved_at = self.iteration if self.restored is not None else -1
        with self.active():
            self.trainable: Any = trainable()
            if isinstance(self.trainable, Trainable):
                self.trainable.seed, self.trainable.folder = start.seed, start.folder
            self._call("setup", config)
            if self.restored is not None:
                self._call("load_checkpoint", self.restored)

    def _call(self, method: str, *arguments: Any) -> None:
        """Calls an optional method of the class."""
        if _own_method(type(self.trainable), method) is not None:
            getattr(self.trainable, method)(*arguments)

    def step(self) -> tuple[Row, str]:
        """Runs a step of the object."""
        began = perf_counter()
        with self.active():
            metrics = self.trainable.step()
        self.seconds += perf_counter() - began
        if not isinstance(metrics, Mapping):
            raise ConfigError(
                f'{type(self.trainable).__name__}.step returned {show(metrics)}: return a mapping, as in {{"score": 1}}'
            )
        row = self._take(metrics)
        if self.reason or (self._save_every and self.iteration % self._save_every == 0):
            self.save()
        return row, self.reason

    def save(self) -> None:
        """Writes a checkpoint with the files that the object saves."""
        if self._saved_at == self.iteration or not can_save(type(self.trainable)):
            return
        with tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=self._folder) as folder, self.active():
            self.trainable.save_checkpoint(Path(folder))
            self._write(Path(folder))
        self._saved_at = self.iteration

    def close(self) -> None:
        """Cleans up the object."""
        try:
            with self.active():
                self._call("cleanup")
        finally:
            super().close()


class FunctionWork(RecordedWork):
    """Trial of a function, called in its own thread, which waits at each report.

    Args:
        function: Function of a configuration.
        config: Configuration of this trial.
        stop: Ends the trial.
        start: Arguments of the trial.
    """

    def __init__(self, function: Callable[..., Any], config: Mapping[str, Any], stop: Criteria, start: Start) -> None:
        super().__init__(stop, start)
        self._function, self._config = function, config
        self._thread = threading.Thread(target=self._run, name=f"trial {start.trial}", daemon=True)
        self._wanted = threading.Semaphore(0)
        self._stopped = False
        self._reports: SimpleQueue[tuple[Any, Path | None, bool] | BaseException] = SimpleQueue()
        """Metrics, a folder to resume from, and whether the function has returned; or its exception."""

    def report(self, metrics: Any, checkpoint: Path | None) -> None:
        """Passes on metrics in the thread of the function, and waits until the next iteration is ordered."""
        if not self._stopped:
            self._reports.put((metrics, checkpoint, False))
            self._wanted.acquire()
        if self._stopped:
            raise TrialStopped

    def _run(self) -> None:
        """Calls the function, and reports its end."""
        with self.active():
            try:
                result = self._function(self._config)
                if inspect.isgenerator(result):
                    with closing(result):
                        for item in result:
                            self.report(*_yielded(item))
                    result = None
                self._reports.put((result, None, True))
            except TrialStopped:
                return
            except BaseException as error:  # `step` raises it again
                self._reports.put(error)

    def step(self) -> tuple[Row, str]:
        """Runs the function until its next report, or its end."""
        began = perf_counter()
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._wanted.release()
        reported = self._reports.get()
        self.seconds += perf_counter() - began
        if isinstance(reported, BaseException):
            raise reported
        metrics, checkpoint, returned = reported
        if not returned or metrics is not None:
            row = self._take(metrics, RETURNED if returned else "")
            if checkpoint is not None:
                self._write(checkpoint)
            return row, self.reason
        last = row_at(self._folder, self.iteration)
        if last is None:
            raise ConfigError(
                f"{getattr(self._function, '__name__', 'the function')} returned nothing and reported nothing: return "
                "or yield a number or a mapping, or call tune.report"
            )
        self.reason = RETURNED
        return last, RETURNED

    def save(self) -> None:
        """Does nothing: the function passes its checkpoints to `report`."""

    def close(self) -> None:
        """Ends the function where it waits.

        Raises:
            RookeryError: If it does not end.
        """
        self._stopped = True
        self._wanted.release()
        if self._thread.ident is not None:
            self._thread.join(CLOSE_SECONDS)
        super().close()
        if self._thread.is_alive():
            raise RookeryError(
                f"the function did not end within {CLOSE_SECONDS:g} s after it was stopped, and continues beside later "
                "trials; do not catch TrialStopped, and keep its finally clauses short"
            )


def _yielded(item: Any) -> tuple[Any, Path | None]:
    """Returns the row of a yielded item, and the folder to resume from or None."""
    if not isinstance(item, tuple):
        return item, None
    if len(item) == 2 and isinstance(item[1], str | Path):
        return item[0], Path(item[1])
    raise ConfigError(f"yielded {show(item)}: yield a number, a row, or a row and the folder of a checkpoint")


# --- checkpoints ----------------------------------------------------------------------------------------------------


def pack_files(folder: Path) -> dict[str, Stream]:
    """Returns the files of a folder and its subfolders, as the files of one directory."""
    names = {path: f"{CONTENT}{path.relative_to(folder).as_posix()}" for path in folder.rglob("*") if path.is_file()}
    return {
        quote(names[path], safe=""): Stream(path.stat().st_size, partial(pieces_of, path)) for path in sorted(names)
    }


def unpack_files(checkpoint: Path, parent: Path) -> Path:
    """Makes a new folder in `parent` with copies of the `pack_files` files.

    Raises:
        FileError: If one of them would lie outside of it.
    """
    folder = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=parent))
    for name in read_manifest(checkpoint)["files"]:
        target = folder / unquote(name).removeprefix(CONTENT)
        if not target.resolve().is_relative_to(folder.resolve()):
            raise FileError(
                f"{checkpoint}: the manifest names a file outside, {unquote(name)}; it was not written by Rookery"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(checkpoint / name, target)
    return folder
