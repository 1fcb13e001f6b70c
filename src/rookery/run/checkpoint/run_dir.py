"""`RunDir`: the directory of a run and its files.

runs/<run-id>/
  config.yaml       every setting, with the source of its value
  provenance.json   every value of each setting, lowest layer first
  command.txt       the command that started the run     versions.json   versions of the packages
  metrics.jsonl     one line per iteration               timers.json     time of each part of the run
  checkpoints/      000012/ ... and best.json            run.lock        the process that writes here
  token             token of the clients (external:PORT)
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import shlex
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rookery import __version__
from rookery.core.config import Resolved
from rookery.core.errors import ConfigError
from rookery.core.io.console_output import LOG, survive_lost_output
from rookery.core.io.files import FOLDER, FileError, WriteError, write_file
from rookery.core.io.json_text import parse_json
from rookery.core.io.leftovers import clean
from rookery.core.io.open_files import BINARY, NO_LINK, OPENS_FOLDERS, lock_file
from rookery.core.io.signing import signed_text, without_signature
from rookery.core.settings.layers import flow
from rookery.core.settings.secrets import command_words
from rookery.core.settings.starting_folder import shown
from rookery.core.timers import Timers
from rookery.envs.logs import PLAYER_LOGS
from rookery.report.curves import position
from rookery.report.metrics_file import append_row, cut_rows, gap_note, read_rows
from rookery.report.results import IterationResult
from rookery.report.tensorboard import TensorBoard
from rookery.run.checkpoint import own_files
from rookery.run.checkpoint.own_files import TOKEN_FILE
from rookery.run.checkpoint.path_folders import with_folders, without_folders
from rookery.run.checkpoint.script_file import SCRIPT, script_record, script_text
from rookery.run.settings import RunConfig

DRAWN = re.compile(r"^seed:.*# drawn\n", re.MULTILINE)
"""Line of a seed that each start draws again."""

VERSIONS = "versions.json"

LATER = "later"
"""Key in `VERSIONS`: list of other versions with which the run was resumed, each with the iteration."""

PACKAGES = ("torch", "numpy", "gymnasium", "pettingzoo")


class RunDir:
    """Directory of one run. It is made if missing, and locked against a second writer while this object is open.

    Raises:
        FileError: If the directory cannot be made or written, or another run is writing there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.board: TensorBoard | None = None
        self._before_play = 0
        """Gradient steps on data before the first env step; TensorBoard shows them before env steps."""
        self.notes: list[str] = []
        """Notes to show once, when the training starts."""
        try:
            self._open()
        except OSError as error:
            raise _unusable(path, "written", error) from None
        survive_lost_output(path / LOG)
        clean(path)
        clean(self.checkpoints)

    def _open(self) -> None:
        """Makes the directory if it is missing, and takes its lock."""
        own_files.refuse_links(self.path)
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.path / "run.lock", os.O_RDWR | os.O_CREAT | BINARY | NO_LINK, 0o644)
        try:
            self._claim()
        except BaseException:
            os.close(self._lock)
            raise

    def _claim(self) -> None:
        """Takes the lock, and writes into it which process holds it."""
        try:
            lock_file(self._lock)
        except BlockingIOError:
            holder = os.read(self._lock, 1000).decode(errors="replace").strip() or "unknown"
            if holder.startswith(f"{_this_process()} "):
                raise FileError(
                    f"{shown(self.path)}: a trainer made before in this process is writing here ({holder}); call its "
                    "train again to continue it, close it (trainer.close(), or with Trainer(...) as trainer), or "
                    "choose another run directory"
                ) from None
            raise FileError(
                f"{shown(self.path)}: another run is writing here ({holder}); wait for it or stop it"
            ) from None
        except OSError as error:  # some network file systems have no locks
            raise _unusable(self.path, "locked against a second writer", error) from None
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        try:
            os.ftruncate(self._lock, 0)
            os.write(self._lock, f"{_this_process()} since {stamp}\n".encode())
        except OSError as error:
            raise _unusable(self.path, "written", error) from None

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.path / FOLDER

    def begin(self, resolved: Resolved[RunConfig], force: bool) -> None:
        """Writes the files of a new run. An earlier run with the same settings that was killed at its start is moved
        aside.

        Raises:
            ConfigError: If the directory has another run and `force` is not set.
        """
        if force:
            self.notes += own_files.kept_note(self.path, own_files.remove(self.path))
        elif own_files.has_begun(self.path) or (self._is_used and not self._was_killed(resolved)):
            raise ConfigError(
                f"run_dir = {str(shown(self.path))!r}: the directory already has a run; continue it (rookery resume "
                f"{shown(self.path)}, "
                "Trainer.load(..., resume=True)), replace it (force), or choose another directory"
            )
        elif self._is_used:
            self.notes.append(own_files.killed_note(self.path, self._move_aside()))
        self.checkpoints.mkdir(exist_ok=True)
        self.write_settings(resolved)
        words = command_words(list(resolved.history.values()))
        self.write("command.txt", shlex.join([Path(sys.argv[0]).name, *words]) + "\n")
        self.write(VERSIONS, json.dumps(versions(), indent=1))

    @property
    def _is_used(self) -> bool:
        """Whether a run has written its settings here."""
        return (self.path / own_files.CONFIG).exists()

    def _was_killed(self, resolved: Resolved[RunConfig]) -> bool:
        """Whether the directory has nothing but the start of a run with these settings."""
        if not own_files.was_killed_at_start(self.path):
            return False
        written = (self.path / own_files.CONFIG).read_text(encoding="utf-8", errors="replace")
        return DRAWN.sub("", without_folders(without_signature(written))) == DRAWN.sub("", resolved.to_yaml())

    def _move_aside(self) -> Path:
        """Renames the directory and makes a new one; returns the new path of the old directory."""
        aside, before = own_files.aside_of_killed(self.path), self._lock
        try:
            if not OPENS_FOLDERS:  # and none with an open file is renamed
                os.close(before)
                self._lock = -1
            os.rename(self.path, aside)
            self._open()
            for name in (TOKEN_FILE, PLAYER_LOGS):  # written by this start
                if (aside / name).exists():
                    os.rename(aside / name, self.path / name)
        except OSError as error:
            raise _unusable(self.path, "written", error) from None
        if OPENS_FOLDERS:
            os.close(before)
        return aside

    def write_settings(self, resolved: Resolved[RunConfig]) -> None:
        """Replaces `config.yaml`, `provenance.json` and `script.json`."""
        self.write("config.yaml", signed_text("config.yaml", with_folders(resolved.to_yaml(), resolved)))
        history = {path: [[source, flow(value)] for source, value in given] for path, given in resolved.history.items()}
        self.write("provenance.json", json.dumps(history, indent=1))
        if (script := script_record(resolved)) is not None:
            self.write(SCRIPT, script_text(script))

    def write_criteria(self, history: Mapping[str, Sequence[tuple[str, Any]]]) -> None:
        """Replaces the stop criteria in `provenance.json`.

        Args:
            history: Every (source, value) of each criterion by its path, lowest layer first.
        """
        stored = parse_json((self.path / "provenance.json").read_text(encoding="utf-8"))
        others = {path: given for path, given in stored.items() if path.split(".")[0] != "stop" or given[-1][1] == "{}"}
        now = {path: [[source, flow(value)] for source, value in given] for path, given in history.items()}
        self.write("provenance.json", json.dumps(others | now, indent=1))

    def write(self, name: str, text: str) -> None:
        """Replaces the file `name` in the directory."""
        write_file(self.path / name, text.encode())

    def record(self, result: IterationResult, tensorboard: bool) -> None:
        """Writes an iteration to `metrics.jsonl`.

        Raises:
            FileError: If the disk is full.
        """
        row = result.row()
        append_row(self.path, row)
        if not result.env_steps:
            self._before_play = result.gradient_steps
        step = self._before_play + result.env_steps
        if tensorboard:
            try:
                self.board = self.board or TensorBoard(self.path)
                self.board.add_row(row, step)
                self.board.add_histogram(result.histograms, step)
            except OSError as error:
                raise WriteError(f"{self.path}: TensorBoard's file cannot be written: {error.strerror}") from None

    def resume_from(self, iteration: int, env_steps: int, tensorboard: bool) -> None:
        """Removes rows and files that are newer than the checkpoint of a resumed run, and notes missing rows."""
        cut_rows(self.path, iteration)
        if line := gap_note(self.path, iteration):
            self.notes.append(line)
        self._note_versions(iteration)
        learned = [position(row, "gradient_steps") or 0 for row in read_rows(self.path) if not row.get("env_steps")]
        self._before_play = int(max(learned, default=0))
        if tensorboard:
            self.board = TensorBoard(self.path)
            self.board.resume(self._before_play + env_steps)

    def _note_versions(self, iteration: int) -> None:
        """Adds the current versions to `VERSIONS`, with a note, if they differ from the former ones."""
        try:
            written = parse_json((self.path / VERSIONS).read_text(encoding="utf-8"))
            last = {**written, **(written.get(LATER) or [{}])[-1]}
            changed = {name: (last[name], now) for name, now in versions().items() if last.get(name, now) != now}
        except (OSError, ValueError, TypeError, AttributeError):
            return  # an older run has no such file
        changed.pop("platform", None)  # a new kernel does not change results
        if not changed:
            return
        listed = ", ".join(f"{name} {before} until here, {now} from here on" for name, (before, now) in changed.items())
        self.notes.append(f"other versions: {listed}; last bits may differ from an uninterrupted run")
        written[LATER] = [*written.get(LATER, []), {"iteration": iteration, **versions()}]
        self.write(VERSIONS, json.dumps(written, indent=1))

    def take_notes(self) -> list[str]:
        """Returns and clears the notes that were not shown yet."""
        notes, self.notes = self.notes, []
        return notes

    def write_timers(self, timers: Timers) -> None:
        """Replaces `timers.json`."""
        self.write("timers.json", json.dumps(timers.state_dict(), indent=1))

    def close(self) -> None:
        """Closes the files and releases the lock."""
        if self.board is not None:
            with contextlib.suppress(OSError):  # rows that a full disk refused
                self.board.close()
            self.board = None
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _this_process() -> str:
    """Returns this process and its machine, as in the lock of a run directory."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def _unusable(path: Path, what: str, error: OSError) -> FileError:
    return FileError(f"{shown(path)}: cannot be {what}: {error.strerror}; choose another run directory, or none")


@cache
def versions() -> Mapping[str, str]:
    """Returns the versions of Python, the platform and the packages of a run."""
    system = platform.uname()  # platform.platform() would start a process
    return {
        "python": platform.python_version(),
        "platform": f"{system.system}-{system.release}-{system.machine}",
        "rookery": __version__,
        **{package: version(package) for package in PACKAGES},
    }
