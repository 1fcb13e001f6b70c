"""Whether a node of Ray has a disk in common with this process: it is asked for a file that was just written."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Any

VISIBLE_SECONDS = 10.0
"""What a shared disk gets to show a new file on another node."""


class DiskProbe:
    """A file in a folder for a moment, of which actors of Ray are asked whether they see it.

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
        """Returns Ray's ticket for whether an actor sees the file, or comes to see it in `VISIBLE_SECONDS`."""
        return actor.__ray_call__.remote(_sees, self._file, VISIBLE_SECONDS)

    def remove(self) -> None:
        """Removes the file, if it is still there."""
        self._file.unlink(missing_ok=True)


def _sees(actor: object, file: Path, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not (there := file.is_file()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return there
