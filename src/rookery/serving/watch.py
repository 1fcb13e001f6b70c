"""`CheckpointWatch`: finds newer complete checkpoints of a run, and serves their policies."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from pathlib import Path

from rookery.core.errors import RookeryError
from rookery.core.io.files import DIGEST, FOLDER, MANIFEST, list_checkpoints, read_manifest
from rookery.core.settings.trust import TrustCode
from rookery.serving.versions import ServedVersion, load_version


class CheckpointWatch:
    """Watches the checkpoints of a run, in a separate thread.

    Args:
        run: The directory of the run.
        version: The current version.
        names: Names of policies; none = all.
        trust_code: As in `policies/export.py:read_policy`.
        swap: Replaces the served policies; raises a RookeryError if they are not compatible.
        say: Receives messages, one line each.
        newest: Returns the preferred checkpoint; None = the last of the run.
        seconds: Time between two checks.

    Attributes:
        swapped: Number of times that policies were replaced.
        refused: Number of broken or incompatible checkpoints.
    """

    def __init__(
        self,
        run: Path,
        version: ServedVersion,
        names: Collection[str],
        trust_code: TrustCode,
        swap: Callable[[ServedVersion], None],
        say: Callable[[str], None],
        seconds: float,
        newest: Callable[[], Path | None] | None = None,
    ) -> None:
        self.swapped = self.refused = 0
        self._run, self._version, self._names, self._trust = run, version, tuple(names), trust_code
        self._swap, self._say, self._seconds, self._newest = swap, say, seconds, newest
        self._bad: dict[tuple[str, int, int], None] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="checkpoints", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops watching, after the current checkpoint is read."""
        self._stop.set()
        self._thread.join()

    def look(self) -> bool:
        """Checks once; returns whether policies were replaced."""
        for path in self._candidates():
            mark = _mark(path)
            if mark is None or mark in self._bad:
                continue
            try:
                if str(read_manifest(path).get(DIGEST, "")) == self._version.digest:
                    return False
                version = load_version(path, self._names, self._trust, self._version)
                self._swap(version)
            except Exception as error:  # broken files and user code can raise any exception
                if _mark(path) != mark:
                    continue  # removed or replaced while it was read
                self._bad[mark] = None
                self.refused += 1
                kind = "" if isinstance(error, RookeryError) else f"{type(error).__name__}: "
                self._say(f"checkpoint {path.name} is not served, {self._version.name} stays: {kind}{error}")
                continue
            before, self._version = self._version.name, version
            self.swapped += 1
            self._say(f"checkpoint {version.name} is served now, instead of {before}")
            return True
        return False

    def _candidates(self) -> list[Path]:
        """Returns checkpoints that may be served, the preferred one first; an older one than the current version is
        never served instead of a broken one.
        """
        if self._newest is not None:
            chosen = self._newest()
            return [] if chosen is None else [chosen]
        return list_checkpoints(self._run / FOLDER)[::-1]

    def _watch(self) -> None:
        while not self._stop.wait(self._seconds):
            try:
                self.look()
            except Exception as error:  # such as a broken best.json; the next check may succeed
                self._say(f"checkpoints of {self._run} cannot be read: {error}")


def _mark(path: Path) -> tuple[str, int, int] | None:
    """Returns an id that distinguishes checkpoints of the same name, without reading them; None if it is gone."""
    try:
        found = (path / MANIFEST).stat()
    except OSError:
        try:
            found = path.stat()
        except OSError:
            return None
    return path.name, found.st_ino, found.st_mtime_ns
