"""Trials that are no trainings of ours: a class that does an iteration at each `step`, or a function that reports.

    class Annealing:                                   def objective(config):
        def setup(self, config): ...                       for height in climb(config["step_size"]):
        def step(self): return {"score": ...}                  tune.report({"score": height})

    tune.run(trainable=Annealing, config={"step_size": tune.uniform(0, 1)}, metric="score", num_samples=20)

Both get the configuration with a value in the place of each domain. What they report is flattened
(``{"loss": {"actor": 1}}`` is ``loss/actor``), gets the columns ``iteration`` and ``seconds``, and is a row of the
trial's `metrics.jsonl` before any checkpoint of it is written.
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
from rookery.tune.job import Job, Start, Work, begin_anew
from rookery.tune.jobs.rows import flat, not_reported, reached
from rookery.tune.space import takes, written
from rookery.tune.spec import fill, split
from rookery.tune.trial import Row

Criteria = Mapping[str, float] | Callable[[Row], bool]
"""Columns and the values they have to reach; or a function of a row."""

SCORE = "score"
"""The column of a number that a function returns or yields by itself."""

KEEP_LAST = 3
"""Checkpoints of a trial that stay."""

CLOSE_SECONDS = 10.0
"""How long a function that is stopped may take for what it does at its end."""

RETURNED = "the function has returned"

CONTENT = "content/"
"""What the names of a trial's own files begin with in a checkpoint."""


class Trainable:
    """A trial as a class. Only `step` is needed; classes with these methods need not derive from this one.

    Attributes:
        seed: For its random numbers; repeats of a trial differ in it. `seed()` gives it too.
    """

    seed: int

    def setup(self, config: Mapping[str, Any]) -> None:
        """Begins, with the configuration of this trial."""

    def step(self) -> Mapping[str, Any]:
        """Does an iteration; returns what is to be reported of it."""
        raise NotImplementedError

    def save_checkpoint(self, folder: Path) -> None:
        """Writes all that is needed to go on into an empty folder, in files of any names."""

    def load_checkpoint(self, folder: Path) -> None:
        """Goes on from what `save_checkpoint` wrote; called after `setup`."""

    def cleanup(self) -> None:
        """Frees what it holds."""


def report(metrics: Mapping[str, Any] | float, *, checkpoint: str | Path | None = None) -> None:
    """Reports an iteration of a function that is a trial, and waits until another one is wanted.

    Args:
        metrics: Results of the iteration; a number by itself is called ``score``.
        checkpoint: A folder whose files are copied: where the trial can go on from, after a pause or a kill.

    Raises:
        TrialStopped: No Exception, so that ``except Exception`` lets it pass: nothing more is wanted.
        RookeryError: If no function is being tried here.
    """
    _now("report").report(metrics, None if checkpoint is None else Path(checkpoint))


def checkpoint() -> Path | None:
    """Returns a folder with what the trial that runs here saved last, to go on from; None if it begins anew."""
    return _now("checkpoint").restored


def seed() -> int:
    """Returns the seed for random numbers of the trial that runs here; repeats of a trial differ in it."""
    return _now("seed").seed


class TrialStopped(BaseException):
    """Ends a function of which nothing more is wanted. Its ``finally`` clauses run."""


class TrainableJob(Job):
    """Tries a class with a method `step`; or a function that calls `report`, yields rows, or returns a number or a row.

    Args:
        trainable: Class, or function of a configuration.
        config: The configuration, nested, with domains in it.
        stop: Ends each trial; a function also ends when it returns.
        save_every: Iterations between checkpoints of a class; 0 = only at the end.

    Raises:
        ConfigError: If `trainable` is neither, or cannot be called as it will be.
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
            wrong.append(f"trainable = {self.title}: is async; give a plain function, asyncio.run inside of it")
        elif not takes(trainable, config):
            wrong.append(f"trainable = {self.title}: must take one argument, the configuration of a trial")
        refuse(wrong)

    @property
    def title(self) -> str:
        """The name of the class or function."""
        return str(getattr(self.trainable, "__name__", type(self.trainable).__name__))

    def describe(self) -> dict[str, Any]:
        """Says who is tried, with what."""
        fixed, _ = split(self.config)
        return {"kind": "trainable", "trainable": written(self.trainable), "config": written(fixed),
                "stop": written(self.stop)}  # fmt: skip

    def start(self, start: Start) -> Work:
        """Makes an object of the class, or a thread for the function, which waits at each report."""
        config = fill(self.config, start.params)
        if isinstance(self.trainable, type):
            return ClassWork(self.trainable, config, self.stop, self.save_every, start)
        return FunctionWork(self.trainable, config, self.stop, start)


def _problems_of_class(trainable: type, config: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a class that is to be tried."""
    if _own(trainable, "step") is None:
        yield "has no method step, which does an iteration and returns its row"
    saves, loads = _own(trainable, "save_checkpoint"), _own(trainable, "load_checkpoint")
    if (saves is None) != (loads is None):
        has, lacks = ("save", "load") if loads is None else ("load", "save")
        yield f"has {has}_checkpoint but no {lacks}_checkpoint; write both or none"
    methods = {"setup": (config,), "step": (), "save_checkpoint": (Path(),), "load_checkpoint": (Path(),),
               "cleanup": ()}  # fmt: skip
    for method, arguments in methods.items():
        found = inspect.getattr_static(trainable, method, None)
        if inspect.isfunction(found) and not takes(found, None, *arguments):
            wanted = ", ".join(inspect.signature(getattr(Trainable, method)).parameters)
            yield f"its {method} must be {method}({wanted})"
    if not takes(trainable):
        yield "cannot be made without arguments; take what it needs in setup(config)"


def can_save(cls: type) -> bool:
    """Says whether trials of a class write checkpoints."""
    return _own(cls, "save_checkpoint") is not None


def _own(cls: type, method: str) -> Any:
    """A method of a class; None if it has none, or only the empty one of `Trainable`."""
    found = getattr(cls, method, None)
    return None if found is getattr(Trainable, method) else found


# --- work -----------------------------------------------------------------------------------------------------------


class RecordedWork(Work):
    """A trial whose rows and checkpoints are written here.

    Args:
        stop: Ends the trial.
        start: What it begins with.

    Attributes:
        restored: A folder with what the trial saved last; None if it begins anew.
        seed: Seed of the trial.
    """

    def __init__(self, stop: Criteria, start: Start) -> None:
        self.iteration, self.seconds, self.seed = 0, 0.0, start.seed
        self.restored: Path | None = None
        self._stop = stop
        self._folder, self._checkpoints = start.folder, start.folder / FOLDER
        place = last_good(self._checkpoints)
        if place is None:
            begin_anew(start.folder)
            return
        for folder in (self._folder, self._checkpoints):
            clean(folder)
        found = list_checkpoints(self._checkpoints)
        for later in found[found.index(place) + 1 :]:  # which are broken
            remove_directory(later)
        facts = read_manifest(place)
        self.iteration, self.seconds = facts["iteration"], facts["seconds"]
        cut_rows(self._folder, self.iteration)
        if line := gap_note(self._folder, self.iteration):
            Listener().note(line)
        self.reason = facts["reason"] or self._met(row_at(self._folder, self.iteration) or {})
        self.restored = unpacked(place, self._folder)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Lets `report`, `checkpoint` and `seed` find this trial in the thread that calls this."""
        before, _active.work = getattr(_active, "work", None), self
        try:
            yield
        finally:
            _active.work = before

    def report(self, metrics: Any, checkpoint: Path | None) -> None:
        """Refuses: only functions report."""
        raise RookeryError("report: this trial is a class: its row is what its method step returns")

    def _met(self, row: Row) -> str:
        """The criterion that a row meets, in words."""
        if callable(self._stop):
            return "the stop function said so" if row and self._stop(row) else ""
        return reached(self._stop, row)

    def _take(self, metrics: Any, reason: str = "") -> Row:
        """Makes a row of what was reported, and writes it down; `reason` says why the trial is over, if it is known."""
        if not isinstance(metrics, Mapping):
            metrics = {SCORE: metrics}
        row = {"iteration": 0, **flat(metrics)} | {"iteration": self.iteration + 1, "seconds": round(self.seconds, 3)}
        if not self.iteration and not callable(self._stop):
            wrong = [name for name in self._stop if not {name, name.replace(".", "/")} & {*row, "iterations"}]
            refuse(not_reported(f"stop.{name}", name, row) + "; report None until there is one" for name in wrong)
        append_row(self._folder, row)
        self.iteration += 1
        self.reason = reason or self._met(row)
        return row

    def _write(self, content: Path) -> None:
        """Makes a checkpoint of the files in a folder."""
        if not content.is_dir():
            raise ConfigError(f"report: checkpoint = {str(content)!r} is no folder; write the trial's files into one")
        make_folder(self._checkpoints)
        sync_rows(self._folder)
        facts = {"iteration": self.iteration, "seconds": self.seconds, "reason": self.reason}
        write_directory(self._checkpoints / f"{self.iteration:06d}", packed(content), facts, replace=True)
        for old in list_checkpoints(self._checkpoints)[:-KEEP_LAST]:
            remove_directory(old)

    def close(self) -> None:
        """Removes what was unpacked to go on from."""
        if self.restored is not None:
            shutil.rmtree(self.restored, ignore_errors=True)


_active = threading.local()


def _now(asked: str) -> RecordedWork:
    work: RecordedWork | None = getattr(_active, "work", None)
    if work is None:
        raise RookeryError(
            f"tune.{asked}() was called where no trial runs: call it in the thread of a function or class that "
            "tune.run(trainable=...) tries"
        )
    return work


class ClassWork(RecordedWork):
    """One object of a class.

    Args:
        trainable: The class.
        config: Configuration of this trial.
        stop: Ends the trial.
        save_every: Iterations between checkpoints; 0 = only at the end.
        start: What it begins with.
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
                self.trainable.seed = start.seed
            self._call("setup", config)
            if self.restored is not None:
                self._call("load_checkpoint", self.restored)

    def _call(self, method: str, *arguments: Any) -> None:
        """Calls a method that the class need not have."""
        if _own(type(self.trainable), method) is not None:
            getattr(self.trainable, method)(*arguments)

    def step(self) -> tuple[Row, str]:
        """Lets the object do a step."""
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
        """Lets the object write its files into a folder, of which the checkpoint is made."""
        if self._saved_at == self.iteration or not can_save(type(self.trainable)):
            return
        with tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=self._folder) as folder, self.active():
            self.trainable.save_checkpoint(Path(folder))
            self._write(Path(folder))
        self._saved_at = self.iteration

    def close(self) -> None:
        """Lets the object clean up."""
        try:
            with self.active():
                self._call("cleanup")
        finally:
            super().close()


class FunctionWork(RecordedWork):
    """One call of a function, in a thread of its own that waits at each report.

    Args:
        function: Function of a configuration.
        config: Configuration of this trial.
        stop: Ends the trial.
        start: What it begins with.
    """

    def __init__(self, function: Callable[..., Any], config: Mapping[str, Any], stop: Criteria, start: Start) -> None:
        super().__init__(stop, start)
        self._function, self._config = function, config
        self._thread = threading.Thread(target=self._run, name=f"trial {start.trial}", daemon=True)
        self._wanted = threading.Semaphore(0)
        self._stopped = False
        self._reports: SimpleQueue[tuple[Any, Path | None, bool] | BaseException] = SimpleQueue()
        """Metrics, a folder to go on from, and whether the function has returned; or what it raised."""

    def report(self, metrics: Any, checkpoint: Path | None) -> None:
        """Hands over what the function reports, in its thread, and waits until another iteration is wanted."""
        if not self._stopped:
            self._reports.put((metrics, checkpoint, False))
            self._wanted.acquire()
        if self._stopped:
            raise TrialStopped

    def _run(self) -> None:
        """Calls the function, and tells of its end."""
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
            except BaseException as error:  # it is raised again where the function is waited for
                self._reports.put(error)

    def step(self) -> tuple[Row, str]:
        """Lets the function go on until its next report, or its end."""
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
                "a number or a mapping, yield some, or call tune.report"
            )
        self.reason = RETURNED
        return last, RETURNED

    def save(self) -> None:
        """Does nothing: the function says in `report` what it can go on from."""

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
                f"the function did not end within {CLOSE_SECONDS:g} s after it was stopped, and goes on beside later "
                "trials; let TrialStopped pass, and keep its finally clauses short"
            )


def _yielded(item: Any) -> tuple[Any, Path | None]:
    """What a generator reports: a row, or a row and a folder to go on from."""
    if not isinstance(item, tuple):
        return item, None
    if len(item) == 2 and isinstance(item[1], str | Path):
        return item[0], Path(item[1])
    raise ConfigError(f"yielded {show(item)}: yield a number, a row, or a row and the folder of a checkpoint")


# --- checkpoints ----------------------------------------------------------------------------------------------------


def packed(folder: Path) -> dict[str, Stream]:
    """Returns the files of a folder and of those in it, as the files of one directory."""
    names = {path: f"{CONTENT}{path.relative_to(folder).as_posix()}" for path in folder.rglob("*") if path.is_file()}
    return {
        quote(names[path], safe=""): Stream(path.stat().st_size, partial(pieces_of, path)) for path in sorted(names)
    }


def unpacked(checkpoint: Path, parent: Path) -> Path:
    """Makes a new folder in `parent` with copies of the files that were `packed`.

    Raises:
        FileError: If one of them would lie outside of it.
    """
    folder = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=parent))
    for name in read_manifest(checkpoint)["files"]:
        target = folder / unquote(name).removeprefix(CONTENT)
        if not target.resolve().is_relative_to(folder.resolve()):
            raise FileError(f"{checkpoint}: names a file outside of it, {unquote(name)}; it was not written by Rookery")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(checkpoint / name, target)
    return folder
