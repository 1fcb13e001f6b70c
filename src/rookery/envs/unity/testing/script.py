"""Players as programs: a file that a trainer launches by its path, as it launches what Unity has built."""

from __future__ import annotations

import os
import shlex
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

import rookery

MODULE = "rookery.envs.unity.testing"


def write_player(path: str | Path, env: str, arguments: Sequence[str] = ()) -> Path:
    """Writes a program that is a pretended player; trainers launch it with Unity's own flags.

    Args:
        path: Where; ends in ``.x86_64``, as players for Linux do. A file that is there is replaced.
        env: The environment that it hosts; ``replay`` and a file for a player that repeats a session.
        arguments: More arguments, see ``python -m rookery.envs.unity.testing --help``.

    Returns:
        The path.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    source = str(Path(rookery.__file__).parent.parent)
    search = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH", "")])])
    words = [sys.executable, "-m", MODULE, env, *arguments]
    lines = [
        "#!/bin/sh",
        f'PYTHONPATH={shlex.quote(search)} OMP_NUM_THREADS=1 exec {shlex.join(words)} "$@"',
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return path
