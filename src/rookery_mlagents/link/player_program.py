"""Unity players as programs: `find_player` resolves a name, `PlayerProcess` is a running player."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rookery.face import EnvError, exit_code_of, nearest
from rookery_mlagents.link import player_guard as guard

PREFIX = "unity:"
"""Prefix of names of Unity players: ``unity:Build/Game``."""

EDITOR = "editor"
"""Name of the Unity Editor, after `PREFIX`."""

SUFFIXES = (".x86_64", ".x86", ".exe", ".app")
"""Optional suffixes of the name of a player."""

TAIL = 25
"""Number of log lines shown in a message."""

LOG_FLAG = "-logfile"
"""Argument of players that names their log file, in lower case: its case is ignored."""

STANDARD_OUTPUT = "-"
"""Name of a log file that stands for the standard output."""

ELF_MACHINES = {3: "x86", 40: "arm", 62: "x86_64", 183: "aarch64"}
"""CPU architectures by their code in ELF programs (Linux)."""

PROCESSORS = {"amd64": "x86_64", "arm64": "aarch64", "i386": "x86", "i686": "x86"}
"""Other names of CPU architectures."""


# -- names -------------------------------------------------------------------------------------------------------------


def names_player(name: str) -> bool:
    """Returns whether the name of an environment refers to a Unity player or the Editor: ``unity:...``, a path, or the
    name of an existing program, with or without its suffix.
    """
    if name.startswith(PREFIX):
        return True
    if ":" in name or not Path(name).name:
        return False
    written_as_path = name.startswith(("/", "./", "../", "~")) or name.endswith(SUFFIXES)
    return written_as_path or any(one.is_file() and _may_run(one) for one in _candidates(Path(name)))


def looks_like_path(name: str) -> bool:
    """Returns whether an otherwise unknown name is probably the path of a player: its folder exists, or a file of that
    name that cannot be run.
    """
    path = Path(name).expanduser()
    return ("/" in name and path.parent.is_dir()) or any(one.is_file() for one in _candidates(path))


def file_of(name: str) -> str | None:
    """Returns the file of a player's name; None for the Editor."""
    rest = name.removeprefix(PREFIX)
    return None if rest == EDITOR and name.startswith(PREFIX) else rest


def short_name(name: str) -> str:
    """Returns the name of a player for messages and folders: ``Game`` of ``unity:Build/Game.x86_64``."""
    file = file_of(name)
    return EDITOR if file is None else _bare(Path(file)).name or file


def find_player(file_name: str | Path) -> Path:
    """Finds the program of a Unity player.

    Args:
        file_name: Its path, with or without the end of its name (.x86_64, .exe, .app); or a folder that holds one.

    Raises:
        EnvError: If there is no such program, or it does not run on this machine; names the nearest one, or the
            reason.
    """
    given = Path(file_name).expanduser()
    if not given.name:
        raise EnvError(f"player {str(file_name)!r}: names no program")
    for path in _candidates(given):
        if path.is_file():
            return _checked(path)
    if given.is_dir():
        inside = sorted(path for path in given.iterdir() if path.is_file() and path.suffix in SUFFIXES)
        listed = f"; it holds {', '.join(path.name for path in inside)}: name one" if inside else ""
        raise EnvError(f"player {str(file_name)!r}: the folder holds no single program{listed}")
    folder = given.parent if given.parent.is_dir() else None
    if folder is None:
        raise EnvError(f"player {str(file_name)!r}: there is no such file: there is no folder {given.parent}")
    there = [path.name for path in folder.iterdir() if not path.name.endswith("_Data")]
    hint = nearest(given.name, there) or nearest(given.name, [Path(name).stem for name in there])
    raise EnvError(
        f"player {str(file_name)!r}: there is no such file in {folder.absolute()}{hint}; name the program that Unity "
        "has built, with or without .x86_64, .exe or .app"
    )


def _bare(path: Path) -> Path:
    return path.with_suffix("") if path.suffix in SUFFIXES else path


def _candidates(given: Path) -> list[Path]:
    """Returns the files that a path may refer to, the likeliest first."""
    given, bare = given.expanduser(), _bare(given.expanduser())
    found = [given, *(bare.with_name(bare.name + suffix) for suffix in SUFFIXES[:3])]
    for bundle in (given, bare.with_name(f"{bare.name}.app")):
        if bundle.suffix == ".app" and (inside := bundle / "Contents" / "MacOS").is_dir():
            found += [inside / bare.name, *sorted(inside.iterdir())]
    if given.is_dir() and given.suffix != ".app":
        inner = [given / f"{given.name}{suffix}" for suffix in ("", *SUFFIXES[:3])]
        programs = [path for path in given.iterdir() if path.suffix in SUFFIXES[:3] and path.is_file()]
        found += [*inner, *(programs if len(programs) == 1 else ())]
        for bundle in given.glob("*.app"):
            found += sorted((bundle / "Contents" / "MacOS").glob("*"))
    return found


def _may_run(path: Path) -> bool:
    return os.access(path, os.X_OK)


def _checked(path: Path) -> Path:
    """Returns a file, or raises an error if it cannot be run on this machine."""
    try:
        with path.open("rb") as file:
            head = file.read(64)
    except OSError as error:
        raise EnvError(f"player {str(path)!r}: cannot be read: {error.strerror}") from None
    problem = _wrong_for_here(head)
    if problem:
        raise EnvError(f"player {str(path)!r}: {problem}")
    if not _may_run(path):
        raise EnvError(f"player {str(path)!r}: it may not be run: chmod +x {path}")
    return path.absolute()


def _wrong_for_here(head: bytes) -> str:
    """Returns the reason why a file with this header does not run on this machine, or an empty string."""
    here, system = platform.machine().lower(), platform.system()
    here = PROCESSORS.get(here, here)
    if head.startswith(b"#!"):
        return ""
    if head.startswith(b"\x7fELF"):
        if system != "Linux":
            return f"it is a program for Linux, and this is {system}: build it for {system}"
        wanted = ELF_MACHINES.get(int.from_bytes(head[18:20], "little" if head[5:6] == b"\1" else "big"), "")
        if wanted and wanted != here and not (here == "x86_64" and wanted == "x86"):
            return f"it is a program for {wanted} processors, and this one is {here}: build it for {here}"
        return ""
    made_for = ""
    if head.startswith(b"MZ"):
        made_for = "Windows"
    elif head[:4] in (b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\xfe\xed\xfa\xcf"):
        made_for = "Darwin"
    if made_for:
        return "" if made_for == system else f"it is a program for {made_for}, and this is {system}: build it for here"
    return "it is not a program; name what Unity has built, or a script whose first line begins with #!"


# -- processes ---------------------------------------------------------------------------------------------------------


class PlayerProcess:
    """A running player; it ends at the latest with this process.

    Args:
        program: The program, as `find_player` gives it.
        arguments: Its arguments, without the log.
        log: File for the log of the player; its output is written beside it, ``NAME-output.log``.
        more: Arguments of the user, which stand last. A ``-logFile`` among them replaces `log`.

    Raises:
        EnvError: If the program cannot be started.
    """

    def __init__(self, program: Path, arguments: Sequence[str], log: Path, more: Sequence[str] = ()) -> None:
        named = next((more[place + 1] for place, word in enumerate(more[:-1]) if word.lower() == LOG_FLAG), "")
        log = (Path(named) if named not in ("", STANDARD_OUTPUT) else log).absolute()
        flags = [] if named else ["-logFile", str(log)]
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log, self.output = log, log.with_name(f"{log.stem}-output{log.suffix}")
        for old in (self.log, self.output):
            old.write_bytes(b"")
        try:
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", str(guard.__file__), str(self.output), str(program),
                 *arguments, *flags, *more],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                process_group=0,  # Ctrl-C at a terminal is for the training alone
            )  # fmt: skip
        except OSError as error:
            raise EnvError(f"player {program}: cannot be started: {error.strerror}") from None

    def has_ended(self) -> bool:
        """Returns whether the player has ended."""
        return self._guard.poll() is not None

    def wait(self, seconds: float) -> None:
        """Waits until the player has ended, for some seconds at most."""
        exit_code_of(self._guard, seconds)

    def failed(self) -> bool:
        """Returns whether the player has ended by an error or a signal."""
        return bool(self._guard.poll())

    def end(self) -> str:
        """Describes how the player ended: ``was killed by SIGKILL``; empty while it runs."""
        code = self._guard.poll()
        if code is None:
            return ""
        if code > 128:
            with suppress(ValueError):
                return f"was killed by {signal.Signals(code - 128).name}"
        if code < 0:
            return f"went with its guard, which was killed by {signal.Signals(-code).name}"
        return f"ended by itself with exit code {code}"

    def tail(self) -> str:
        """Returns the last lines of the player's log and output, for a message."""
        parts = []
        for path in (self.log, self.output):
            with suppress(OSError):
                lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
                if kept := [line for line in lines[-TAIL:] if line.strip()]:
                    parts.append(f"the end of {path}:\n" + "\n".join(f"  {line[:400]}" for line in kept))
        return "\n".join(parts) or f"{self.log} is empty"

    def close(self, patience: float) -> None:
        """Ends the player, if it does not end by itself within some seconds."""
        self.wait(patience)
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        if exit_code_of(self._guard, 2 * guard.GRACE + 1.0) is None:
            self._guard.kill()
            exit_code_of(self._guard)
        with suppress(OSError):
            if not self.output.stat().st_size:
                self.output.unlink()
