"""Checks whether a node of Ray shares a disk with this process, by looking there for a file that was just written."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Any

VISIBLE_SECONDS = 10.0
"""Timeout in seconds for a new file to become visible on another node."""


class DiskProbe:
    """A temporary file in a folder, for which actors of Ray look.

    Args:
        folder: The folder, which is made if it is not there.

    Attributes:
        folder: The folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._file = folder, folder / f".visible-{secrets.token_hex(8)}"
        folder.mkdir(parents=True, exist_ok=True)
        self._file.write_text("", encoding="utf-8")

    def ask(self, actor: Any) -> Any:
        """Returns Ray's reference to the result: whether an actor finds the file within `VISIBLE_SECONDS`."""
        return actor.__ray_call__.remote(_sees, self._file, VISIBLE_SECONDS)

    def remove(self) -> None:
        """Removes the file, if it is still there."""
        self._file.unlink(missing_ok=True)


def _sees(actor: object, file: Path, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not (there := file.is_file()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return there
