"""The directory of a run: what is written there, by whom, and when.

runs/<run-id>/
  config.yaml       every setting, with the source of its value
  provenance.json   every value each setting was given, lowest first
  command.txt       the command that started it          versions.json   what it was made with
  metrics.jsonl     one line an iteration                timers.json     where the time went
  checkpoints/      000012/ ... and best.json            run.lock        who writes here
  token             what clients must know (external:PORT)
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import shlex
import shutil
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rookery.core.config import Resolved
from rookery.core.errors import ConfigError
from rookery.core.files import FOLDER, FileError, WriteError, write_file
from rookery.core.layers import flow
from rookery.core.leftovers import clean
from rookery.core.secrets import secrets_in, without_secrets
from rookery.core.signing import signed_text
from rookery.core.timers import Timers
from rookery.envs.logs import PLAYER_LOGS
from rookery.report.curves import position
from rookery.report.metrics_file import append_row, cut_rows, read_rows
from rookery.report.results import IterationResult
from rookery.report.tensorboard import TensorBoard
from rookery.training.settings import RunConfig

TOKEN_FILE = "token"
"""The file with what clients of the environment have to know; a run that replaces another keeps it."""

PACKAGES = ("rookery", "torch", "numpy", "gymnasium", "pettingzoo")


class RunDir:
    """The directory of one run, made if it is missing, and locked against a second writer while this object is open.

    Raises:
        FileError: If the directory cannot be made or written, or another run is writing there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.board: TensorBoard | None = None
        self._before_play = 0
        """Gradient steps on data while nothing had been played, which come before the first env step in TensorBoard."""
        try:
            (path / FOLDER).mkdir(parents=True, exist_ok=True)
            self._lock = os.open(path / "run.lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise _unusable(path, "written", error) from None
        try:
            self._claim()
        except BaseException:
            os.close(self._lock)
            raise
        clean(path)
        clean(self.checkpoints)

    def _claim(self) -> None:
        """Takes the lock, and writes into it who holds it."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._lock, 1000).decode(errors="replace").strip() or "unknown"
            raise FileError(f"{self.path}: another run is writing here ({holder}); wait for it or stop it") from None
        except OSError as error:  # some network file systems have no locks
            raise _unusable(self.path, "locked against a second writer", error) from None
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        try:
            os.ftruncate(self._lock, 0)
            os.write(self._lock, f"process {os.getpid()} on {socket.gethostname()} since {stamp}\n".encode())
        except OSError as error:
            raise _unusable(self.path, "written", error) from None

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.path / FOLDER

    def begin(self, resolved: Resolved[RunConfig], force: bool) -> None:
        """Writes what is known at the start of a run.

        Raises:
            ConfigError: If there is a run here already and `force` is not set.
        """
        if (self.path / "config.yaml").exists():
            if not force:
                raise ConfigError(
                    f"run_dir = {str(self.path)!r}: there is a run here already; continue it (rookery resume "
                    f"{self.path}, Trainer.load(..., resume=True)), replace it (force), or choose another directory"
                )
            for old in self.path.iterdir():
                if old.name == PLAYER_LOGS:
                    continue  # programs that the new run has started write there already
                if old.is_dir() and not old.is_symlink():
                    shutil.rmtree(old)
                elif old.name not in ("run.lock", TOKEN_FILE):
                    old.unlink()
            self.checkpoints.mkdir()
        self.write_settings(resolved)
        secrets = set(secrets_in(list(resolved.history.values())))
        said = [without_secrets(word, secrets) for word in sys.argv[1:]]
        self.write("command.txt", shlex.join([Path(sys.argv[0]).name, *said]) + "\n")
        self.write("versions.json", json.dumps(versions(), indent=1))

    def write_settings(self, resolved: Resolved[RunConfig]) -> None:
        """Replaces `config.yaml` and `provenance.json`."""
        self.write("config.yaml", signed_text("config.yaml", resolved.to_yaml()))
        history = {path: [[source, flow(value)] for source, value in given] for path, given in resolved.history.items()}
        self.write("provenance.json", json.dumps(history, indent=1))

    def write_criteria(self, history: Mapping[str, Sequence[tuple[str, Any]]]) -> None:
        """Replaces in `provenance.json` what is said of the criteria that end training.

        Args:
            history: For the path of each, every (source, value), lowest first.
        """
        told = json.loads((self.path / "provenance.json").read_text(encoding="utf-8"))
        others = {path: given for path, given in told.items() if not path.startswith("stop.")}
        now = {path: [[source, flow(value)] for source, value in given] for path, given in history.items()}
        self.write("provenance.json", json.dumps(others | now, indent=1))

    def write(self, name: str, text: str) -> None:
        """Replaces the file `name` of the directory."""
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

    def go_on_from(self, iteration: int, env_steps: int, tensorboard: bool) -> None:
        """Removes what was written after the moment that a resumed run continues from."""
        cut_rows(self.path, iteration)
        learned = [position(row, "gradient_steps") or 0 for row in read_rows(self.path) if not row.get("env_steps")]
        self._before_play = int(max(learned, default=0))
        if tensorboard:
            self.board = TensorBoard(self.path)
            self.board.resume(self._before_play + env_steps)

    def write_timers(self, timers: Timers) -> None:
        """Replaces `timers.json`."""
        self.write("timers.json", json.dumps(timers.state_dict(), indent=1))

    def close(self) -> None:
        """Closes the files and releases the lock."""
        if self.board is not None:
            with contextlib.suppress(OSError):  # what a full disk did not take
                self.board.close()
            self.board = None
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _unusable(path: Path, what: str, error: OSError) -> FileError:
    return FileError(f"{path}: cannot be {what}: {error.strerror}; choose another run directory, or none")


@cache
def versions() -> Mapping[str, str]:
    """Returns the versions of Python, of the platform and of the packages that a run is made with."""
    system = os.uname()  # platform.platform() would start a process to ask
    return {
        "python": platform.python_version(),
        "platform": f"{system.sysname}-{system.release}-{system.machine}",
        **{package: version(package) for package in PACKAGES},
    }
