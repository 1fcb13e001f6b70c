"""`compiled`: compiles environments written in C, once for each source text, compiler and set of options.

Libraries are stored in the user's cache folder, under a digest of their inputs.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from rookery.core.errors import EnvError, nearest
from rookery.core.io.leftovers import take_lock

FOLDER = Path(__file__).parent
"""Folder that contains ``rookery_env.h``."""

HEADER = FOLDER / "rookery_env.h"

OPTIONS = ("-std=c11", "-O2", "-ffp-contract=off", "-fPIC", "-fvisibility=hidden", "-Wall")
"""Options of the compiler. Without contraction a product and a sum are rounded one after the other, on any machine."""

LINK = ("-shared", "-lm")

MORE_OPTIONS = "ROOKERY_CFLAGS"
"""Environment variable with additional options, such as ``-O3 -march=native``."""

SANITIZERS = ("-g", "-O1", "-fsanitize=address,undefined", "-fsanitize-recover=address,undefined")
"""Options that make a library report writes outside of arrays and undefined operations."""

REMEDY = (
    "install one (apt install gcc, xcode-select --install), name it in the variable CC, or use a library that was "
    "compiled elsewhere (rookery envs build FILE.c)"
)

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def find_compiler() -> list[str]:
    """Returns the command in the variable CC, else the first C compiler found; empty if there is none."""
    for command in [os.environ["CC"]] if os.environ.get("CC") else ["cc", "gcc", "clang"]:
        words = shlex.split(command)
        if words and shutil.which(words[0]):
            return words
    return []


def command_of(source: Path, target: Path, options: Sequence[str] = ()) -> list[str]:
    """Returns the command that compiles a source.

    Args:
        source: The file in C.
        target: The library to create.
        options: Additional options.

    Raises:
        EnvError: If there is no compiler.
    """
    compiler = find_compiler()
    if not compiler:
        named = f"CC={os.environ['CC']!r} is not a program" if os.environ.get("CC") else "no C compiler was found"
        raise EnvError(f"{source}: {named}: {REMEDY}")
    more = shlex.split(os.environ.get(MORE_OPTIONS, ""))
    return [*compiler, *OPTIONS, *more, *options, f"-I{FOLDER}", str(source), *LINK, "-o", str(target)]


def cache_folder() -> Path:
    """Returns the folder of compiled libraries: below ``$XDG_CACHE_HOME``, or ``~/.cache``."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "rookery" / "c"


def compiled(source: Path, options: Sequence[str] = ()) -> Path:
    """Compiles a source, unless that is done already, and returns the library.

    Args:
        source: The file in C.
        options: Additional compiler options.

    Raises:
        EnvError: If there is no such file or no compiler, or the compiler refuses the source: with its output.
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
            take_lock(lock.fileno(), math.inf)  # another process may be compiling it
            if not target.is_file():
                build(source, target, options)
    except OSError as error:
        raise EnvError(f"{source}: cannot be compiled in {folder}: {error}; set XDG_CACHE_HOME to another") from error
    return target


def build(source: Path, target: Path, options: Sequence[str] = ()) -> list[str]:
    """Compiles a source to a library, atomically; returns the command.

    Raises:
        EnvError: If there is no compiler, or it refuses the source: with its output.
    """
    unfinished = target.with_name(f".tmp-{os.getpid()}-{target.name}")
    command = command_of(source, unfinished, options)
    try:
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if result.returncode:
            raise EnvError(
                f"{source}: the compiler refuses it:\n{result.stdout.rstrip()}\nfix these errors first; the command "
                f"was {shlex.join(command)}"
            )
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)
    return command_of(source, target, options)


def _digest(source: Path, command: list[str]) -> str:
    """Returns a digest of all inputs of the library: sources, header, compiler and options."""
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
