"""Journal of an experiment: its events, one line of JSON each; and ExperimentState, computed from the journal.

The journal is the only persistent state of the runner. The runner writes a record, then changes its state by that
record alone (`ExperimentState.apply`), so that reading the journal after a kill restores exactly the same state.

    experiment  job, search space, settings, seed                   resume     the experiment was resumed
    trial       a trial was made                                    begin      it got a worker
    result      it finished an iteration; actions of the scheduler  failure    it raised, or its process was lost
    adopted     a clone has its donor's checkpoint                  over       it has nothing more to report
    end         it is over; its score                               ``told``   the search received the score
    drained     no trial ran; actions of the scheduler              exhausted  the search has no more suggestions
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rookery.core.errors import ConfigError
from rookery.core.io.files import FileError, WriteError
from rookery.core.io.json_text import parse_json
from rookery.core.io.open_files import BINARY, lock_file
from rookery.tune.scheduler import Action, Actions, Exploit
from rookery.tune.space import Domain, to_json
from rookery.tune.trial import Status, Trial

FILE = "journal.jsonl"

VERSION = 1

BEGINNING = {"seed", "space", "job", "tune", "spec"}
"""Keys of the first record."""

Record = Mapping[str, Any]


class Journal:
    """Appends records. Each one is one write, so that a kill leaves whole lines and at most one torn line at the end.

    Args:
        folder: Folder of the experiment; made if it is missing.
        anew: Discard the existing journal.

    Raises:
        FileError: If it cannot be written, another process is writing it, or a line is not a record.
    """

    def __init__(self, folder: Path, anew: bool = False) -> None:
        self.path = folder / FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | BINARY, 0o644)
        except OSError as error:
            raise WriteError(f"{self.path}: cannot be written: {error.strerror}; choose another folder") from None
        try:
            lock_file(self._file)
            self.records = [] if anew else read(folder)
            os.ftruncate(self._file, 0 if anew else whole_bytes(self.path.read_bytes()))
        except BlockingIOError:
            os.close(self._file)
            raise FileError(f"{folder}: this experiment is running; wait for it or stop it") from None
        except BaseException:
            os.close(self._file)
            raise

    def append(self, *records: Record) -> None:
        """Adds records, in one write.

        Raises:
            FileError: If the disk is full.
        """
        lines = "".join(f"{json.dumps(record, separators=(',', ':'))}\n" for record in records).encode()
        try:
            count = os.write(self._file, lines)
        except OSError as error:
            raise WriteError(f"{self.path}: cannot be written: {error.strerror}") from None
        if count < len(lines):  # resuming cuts off the torn line
            raise WriteError(f"{self.path}: only {count} of {len(lines)} bytes could be written: the disk is full")

    def sync(self) -> None:
        """Syncs the file to disk, so that its records survive a power cut."""
        os.fsync(self._file)

    def close(self) -> None:
        """Closes the file and releases its lock."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def whole_bytes(content: bytes) -> int:
    """Returns the number of bytes of a journal that are whole lines."""
    return content.rfind(b"\n") + 1


def read(folder: Path) -> list[dict[str, Any]]:
    """Returns the records of an experiment; a torn last line is left out.

    Raises:
        FileError: If there is no journal, or a line is not a record.
    """
    path = folder / FILE
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from None
    records = []
    for number, line in enumerate(content[: whole_bytes(content)].splitlines(), 1):
        try:
            record = parse_json(line)
            record["kind"]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise FileError(f"{path}:{number}: the line is not a record of a journal; the file was damaged") from None
        records.append(record)
    if records and records[0]["kind"] != "experiment":
        raise FileError(f"{path}:1: the first record is not an experiment; the file was damaged")
    if records and records[0].get("version") != VERSION:
        raise FileError(f"{path}: its format is {records[0].get('version')}, this Rookery reads {VERSION}")
    if records and (lost := BEGINNING - records[0].keys()):
        raise FileError(f"{path}:1: the record lacks {', '.join(sorted(lost))}; the file was damaged")
    return records


@contextmanager
def naming_line(folder: Path, number: int) -> Iterator[None]:
    """Names the line of the journal in errors of a record that does not follow from those before it.

    Raises:
        FileError: In place of the original error.
    """
    try:
        yield
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise FileError(
            f"{folder / FILE}:{number}: the record does not follow from the lines before; the file was damaged, or a "
            f"search or scheduler raised {type(error).__name__}: {error}"
        ) from error


class ExperimentState:
    """State of an experiment, computed from the records so far.

    Args:
        folder: Folder of the experiment.
        space: Domains by path; with them, parameters are the chosen objects, not their JSON form.

    Attributes:
        trials: All trials, in the order they were made.
        suggestions: The trials of each suggestion.
        queue: Names of pending trials, the first to begin first.
        yielded: Pending trials that gave up their worker, or became a clone, after a result.
        completed: Suggestions whose score the search has received.
        stops: Reasons of trials that the scheduler or their own criteria have stopped, but that have not ended yet.
        adoptions: Donors of clones that have not taken over their donor's checkpoint yet.
        is_exhausted: Whether the search has no more suggestions.
    """

    def __init__(self, folder: Path, space: Mapping[str, Domain]) -> None:
        self.folder = folder
        self.space = space
        self.trials: dict[str, Trial] = {}
        self.suggestions: dict[int, list[Trial]] = {}
        self.queue: list[str] = []
        self.yielded: set[str] = set()
        self.completed: set[int] = set()
        self.stops: dict[str, str] = {}
        self.adoptions: dict[str, str] = {}
        self.is_exhausted = False

    @classmethod
    def of(cls, folder: Path, records: Iterable[Record], space: Mapping[str, Domain] | None = None) -> ExperimentState:
        """Returns the state after a whole journal; without domains, parameters keep their JSON form."""
        history = cls(folder, space or {})
        for number, record in enumerate(records, 1):
            with naming_line(folder, number):
                history.apply(record)
        return history

    def apply(self, record: Record) -> None:
        """Updates the state by one record."""
        kind = record["kind"]
        if kind == "trial":
            name, number, folder = record["trial"], record["number"], self.folder / record["folder"]
            if not folder.resolve().is_relative_to(self.folder.resolve()):  # files there are written and removed
                raise ValueError(f"the folder of a trial lies outside of the experiment: {folder}")
            made = Trial(name, number, self.params(record["params"]), folder, record["seed"])
            self.trials[name] = made
            self.suggestions.setdefault(number, []).append(made)
            self.queue.append(name)
        elif kind == "told":
            self.completed.add(record["number"])
        elif kind == "exhausted":
            self.is_exhausted = True
        elif kind == "resume":
            self.is_exhausted = False  # num_samples may have grown
            running = [trial for trial in self.trials.values() if trial.status is Status.RUNNING]
            for trial in running:
                trial.status = Status.PENDING
            self.queue[:0] = [trial.name for trial in running]  # interrupted trials go first
        elif "trial" in record:
            self._apply_to(self.trials[record["trial"]], kind, record)
        for name, action in read_actions(record.get("actions", {})).items():
            self._act(self.trials[name], action, record)

    def _apply_to(self, trial: Trial, kind: str, record: Record) -> None:
        """Updates one trial by a record."""
        if kind == "begin":
            trial.status = Status.RUNNING
            self.queue.remove(trial.name)
            self.yielded.discard(trial.name)
        elif kind == "result":
            trial.row = record["row"]
            trial.known = record["iteration"]
            trial.rows.append(record["row"])
            if record["reason"]:
                self.stops[trial.name] = record["reason"]
            if record.get("yields"):
                self.yielded.add(trial.name)
                self._enqueue(trial)
        elif kind == "failure":
            trial.error = record["problem"]
            if record["lost"]:
                trial.losses += 1
            else:
                trial.failures += 1
            self._enqueue(trial)
        elif kind == "over":
            self.stops[trial.name] = record["reason"]
        elif kind == "adopted":
            self.adoptions.pop(trial.name, None)
            trial.known = record["iteration"]
        elif kind == "end":
            trial.status, trial.reason = Status(record["status"]), record["reason"]
            self.stops.pop(trial.name, None)
            self.adoptions.pop(trial.name, None)
            if trial.name in self.queue:
                self.queue.remove(trial.name)

    def _act(self, trial: Trial, action: Action | Exploit, record: Record) -> None:
        """Applies an action of the scheduler to a trial."""
        if isinstance(action, Exploit):
            trial.params = self.params(action.params)
            trial.parents.append((trial.iteration, action.donor))
            self.adoptions[trial.name] = action.donor
            self.yielded.add(trial.name)
            self._enqueue(trial)
        elif action is Action.PAUSE:
            trial.status = Status.PAUSED
        elif action is Action.STOP:
            self.stops[trial.name] = "stopped by the scheduler"
        elif trial.status is Status.PAUSED:
            self._enqueue(trial)

    def _enqueue(self, trial: Trial) -> None:
        trial.status = Status.PENDING
        if trial.name not in self.queue:
            self.queue.append(trial.name)

    def params(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the chosen objects for parameters in their JSON form."""
        return {path: from_json(self.space.get(path), value) for path, value in params.items()}

    def stop_running(self) -> None:
        """Marks running trials as pending, as no worker runs them any more."""
        for trial in self.with_status(Status.RUNNING):
            trial.status = Status.PENDING

    def with_status(self, status: Status) -> list[Trial]:
        """Returns the trials with a status, in the order they were made."""
        return [trial for trial in self.trials.values() if trial.status is status]


def write_actions(actions: Actions) -> dict[str, Any]:
    """Returns actions in their JSON form."""
    return {
        name: {"donor": action.donor, "params": to_json(action.params)} if isinstance(action, Exploit) else action.value
        for name, action in actions.items()
    }


def read_actions(actions: Mapping[str, Any]) -> Actions:
    """Returns actions from their JSON form."""
    return {
        name: Exploit(action["donor"], action["params"]) if isinstance(action, Mapping) else Action(action)
        for name, action in actions.items()
    }


def from_json(domain: Domain | None, value: Any) -> Any:
    """Returns the value of a domain for its JSON form; the value of a clone may lie outside of the domain."""
    try:
        return value if domain is None else domain.adopt(value)
    except ConfigError:
        return value
