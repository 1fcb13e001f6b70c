"""Players as programs: a file that a trainer starts by its path, like a Unity build."""

from __future__ import annotations

import os
import shlex
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

import rookery

MODULE = "rookery_mlagents.testing"

VERBS = ("record", "replay")
"""Arguments in place of an environment, for recorded sessions."""

UNITY_NAMES = "--unity-names"
"""Option with which a player reports names like Unity's players; older scripts do not have it."""


def write_player(path: str | Path, env: str, options: Sequence[str] = ()) -> Path:
    """Writes a program that runs a simulated player; trainers start it with Unity's flags.

    It announces names as players of Unity do: behaviours with their team (``Basic?team=0``), sensors by what they are
    (``VectorSensor_size8``).

    Args:
        path: Where; ends in ``.x86_64``, as players for Linux do. A file that is there is replaced.
        env: The environment that it hosts; ``replay`` and a file for a player that repeats a session.
        options: More of the command line, see ``python -m rookery_mlagents.testing --help``.

    Returns:
        The path.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    source = str(Path(rookery.__file__).parent.parent)
    search = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH", "")])])
    names = () if env in VERBS else (UNITY_NAMES,)
    words = [sys.executable, "-m", MODULE, env, *names, *options]
    lines = [
        "#!/bin/sh",
        f'PYTHONPATH={shlex.quote(search)} OMP_NUM_THREADS=1 exec {shlex.join(words)} "$@"',
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return path
