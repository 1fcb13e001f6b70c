"""Runs a script of 2021 as Python would, with the old names visible to it and the modules of its folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rookery.script import runner
from rookery.script.runner import without_dashes
from rookery_mlagents.api import importing
from rookery_rllib.base import release
from rookery_rllib.script.finder import IMPORTER, note_imports_of


def run(path: str | os.PathLike[str], arguments: Sequence[str] = ()) -> int | str | None:
    """Runs a script as a program and returns its exit code; see `rookery.script.runner.run`."""
    release.begin()
    with suppress(OSError, UnicodeError):
        note_imports_of(Path(path).read_text(encoding="utf-8"))
    importing.install()  # of mlagents_envs, if it is missing
    return runner.run(path, arguments, IMPORTER)


def main(arguments: Sequence[str]) -> int | str | None:
    """Runs ``python -m rookery_rllib run script.py [-- ARGUMENTS...]`` and returns its exit code."""
    usage = "usage: python -m rookery_rllib run script.py [-- the script's own arguments]\n"
    match list(arguments):
        case ["run", path, *own] if not path.startswith("-"):
            return run(path, without_dashes(own))
        case ["--help" | "-h"] | ["run", "--help" | "-h"]:
            sys.stdout.write(usage)
            return 0
        case [("train" | "rollout" | "evaluate") as verb, *_]:
            sys.stderr.write(f"{usage}error: {verb} is a separate command: rookery rllib {verb}\n")
        case _:
            sys.stderr.write(usage)
    return 2
