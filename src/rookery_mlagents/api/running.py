"""Runs a script of ML-Agents' low-level API, with ``import mlagents_envs`` loading this package, even if the original
is installed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from rookery.script import runner
from rookery.script.runner import without_dashes
from rookery_mlagents.api.importing import install

USAGE = "usage: python -m rookery_mlagents run script.py [-- the script's own arguments]\n"


def run(path: str | os.PathLike[str], arguments: Sequence[str] = ()) -> int | str | None:
    """Runs a script as a program and returns its exit code; see `rookery.script.runner.run`."""
    install(over=True)
    return runner.run(path, arguments)


def main(arguments: Sequence[str]) -> int | str | None:
    """Runs ``python -m rookery_mlagents run script.py [-- ARGUMENTS...]`` and returns the exit code."""
    match list(arguments):
        case ["run", path, *own] if not path.startswith("-"):
            return run(path, without_dashes(own))
        case ["--help" | "-h"] | ["run", "--help" | "-h"]:
            sys.stdout.write(USAGE)
            return 0
        case _:
            sys.stderr.write(USAGE)
    return 2
