"""On a disk of its own: fills it with checkpoints, then forbids writing, and prints what was said as JSON.

``python full.py FOLDER``: FOLDER is where a small file system is mounted, by the namespace this runs in.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

from killable import make

from rookery import Trainer
from rookery.core.errors import RookeryError


def attempt(act):
    """Returns the message with which `act` fails."""
    try:
        opened = act()
        if isinstance(opened, Trainer):
            opened.close()
    except RookeryError as error:
        return f"{type(error).__name__}: {error}"
    except BaseException as error:
        return f"NOT OURS: {type(error).__name__}: {error}"
    return ""


def checkpoints(folder):
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def main(disk):
    disk = Path(disk)
    folder = disk / "run"
    found = {"total": os.statvfs(disk).f_blocks * os.statvfs(disk).f_frsize}

    def fill():
        with make(folder, config={"checkpoint.keep_last": 1000}) as trainer:
            trainer.train({"iterations": 1000})

    found["full"] = attempt(fill)
    found["free"] = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    found["checkpoints"] = checkpoints(folder)
    with Trainer.load(folder) as trainer:
        found["iteration"], found["finite"] = trainer.iteration, trainer.train_iteration().iteration
    with (disk / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while filler.write(b"x" * 1000):
            pass
    found["resume on a full disk"] = attempt(lambda: Trainer.load(folder, resume=True))
    found["begin on a full disk"] = attempt(lambda: make(disk / "other"))
    subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
    with Trainer.load(folder, resume=True) as trainer:
        trainer.train({"iterations": found["iteration"] + 2})
        found["after room was made"] = trainer.iteration
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    found["resume read-only"] = attempt(lambda: Trainer.load(folder, resume=True))
    found["begin read-only"] = attempt(lambda: make(disk / "third"))
    with Trainer.load(folder) as trainer:
        found["loaded read-only"] = trainer.iteration
        found["save read-only"] = attempt(lambda: trainer.save(disk / "saved"))
        found["save beside"] = attempt(lambda: trainer.save(folder / "checkpoints" / "mine"))
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
