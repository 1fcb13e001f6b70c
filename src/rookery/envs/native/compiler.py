"""Compiles environments written in C, once for each text, compiler and set of options: `compiled`.

What was compiled lies in the user's cache folder, under a name made of all that decides it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from rookery.core.errors import EnvError, nearest

FOLDER = Path(__file__).parent
"""Where ``rookery_env.h`` is."""

HEADER = FOLDER / "rookery_env.h"

OPTIONS = ("-std=c11", "-O2", "-ffp-contract=off", "-fPIC", "-fvisibility=hidden", "-Wall")
"""Options of the compiler. Without contraction a product and a sum are rounded one after the other, on any machine."""

LINK = ("-shared", "-lm")

MORE_OPTIONS = "ROOKERY_CFLAGS"
"""Environment variable with options that are added, as ``-O3 -march=native``."""

SANITIZERS = ("-g", "-O1", "-fsanitize=address,undefined", "-fsanitize-recover=address,undefined")
"""Options that let a library report writes beyond arrays and operations without a meaning."""

REMEDY = (
    "install one (apt install gcc, xcode-select --install), name it in the variable CC, or use a library that was "
    "compiled elsewhere (rookery envs build FILE.c)"
)

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def find_compiler() -> list[str]:
    """Gives the command in the variable CC, else the first C compiler there is; empty if there is none."""
    for command in [os.environ["CC"]] if os.environ.get("CC") else ["cc", "gcc", "clang"]:
        words = shlex.split(command)
        if words and shutil.which(words[0]):
            return words
    return []


def command_of(source: Path, target: Path, options: Sequence[str] = ()) -> list[str]:
    """Gives the command that compiles a source.

    Args:
        source: The file in C.
        target: The library that is made.
        options: Options that are added.

    Raises:
        EnvError: If there is no compiler.
    """
    compiler = find_compiler()
    if not compiler:
        named = f"CC={os.environ['CC']!r} is no program" if os.environ.get("CC") else "there is no C compiler here"
        raise EnvError(f"{source}: {named}: {REMEDY}")
    more = shlex.split(os.environ.get(MORE_OPTIONS, ""))
    return [*compiler, *OPTIONS, *more, *options, f"-I{FOLDER}", str(source), *LINK, "-o", str(target)]


def cache_folder() -> Path:
    """Gives the folder of what was compiled: below ``$XDG_CACHE_HOME``, or ``~/.cache``."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "rookery" / "c"


def compiled(source: Path, options: Sequence[str] = ()) -> Path:
    """Compiles a source, if that has not been done, and gives the library.

    Args:
        source: The file in C.
        options: Options of the compiler that are added.

    Raises:
        EnvError: If there is no such file or no compiler, or the compiler refuses the source: shows what it says.
    """
    source = source.expanduser().absolute()
    if not source.is_file():
        there = [path.name for path in source.parent.glob("*.c")]
        raise EnvError(f"{source}: there is no such file{nearest(source.name, there)}")
    folder = cache_folder()
    name = f"{source.stem}-{_digest(source, command_of(source, Path('library'), options))}"
    target = folder / f"{name}.so"
    if target.is_file():
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be at it
            if not target.is_file():
                build(source, target, options)
    except OSError as error:
        raise EnvError(f"{source}: cannot be compiled in {folder}: {error}; set XDG_CACHE_HOME to another") from error
    return target


def build(source: Path, target: Path, options: Sequence[str] = ()) -> list[str]:
    """Compiles a source to a library, which is whole or not there; gives the command.

    Raises:
        EnvError: If there is no compiler, or it refuses the source: shows what it says.
    """
    unfinished = target.with_name(f".tmp-{os.getpid()}-{target.name}")
    command = command_of(source, unfinished, options)
    try:
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if result.returncode:
            raise EnvError(
                f"{source}: the compiler refuses it:\n{result.stdout.rstrip()}\n"
                f"mend what it says first; it was called as {shlex.join(command)}"
            )
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)
    return command_of(source, target, options)


def _digest(source: Path, command: list[str]) -> str:
    """Makes a short text of all that decides what the library is: sources, header, compiler and options."""
    texts = [HEADER.read_bytes(), *(path.read_bytes() for path in _sources(source, set()))]
    parts = [*texts, _version(command[0]).encode(), *(word.encode() for word in command if word != str(source))]
    digest = hashlib.blake2b(digest_size=10)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def _sources(source: Path, seen: set[Path]) -> Iterator[Path]:
    """Yields a source and the files beside it that it includes."""
    if source in seen or source == HEADER or not source.is_file():
        return
    seen.add(source)
    yield source
    for included in INCLUDE.findall(source.read_text(encoding="utf-8", errors="replace")):
        yield from _sources(Path(os.path.realpath(source.parent / included)), seen)


@cache
def _version(compiler: str) -> str:
    return subprocess.run([compiler, "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
