"""`CheckpointWatch`: looks for newer checkpoints of a run, and lets their policies answer when they are whole."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from pathlib import Path

from rookery.core.errors import RookeryError
from rookery.core.io.files import DIGEST, FOLDER, MANIFEST, list_checkpoints, read_manifest
from rookery.core.settings.trust import TrustCode
from rookery.serving.versions import ServedVersion, load_version


class CheckpointWatch:
    """Watches the checkpoints of a run, in a thread of its own.

    Args:
        run: The directory of the run.
        version: What is served now.
        names: Which policies; none = all.
        trust_code: As of `policies/export.py:read_policy`.
        swap: Lets other policies answer; raises a RookeryError if they cannot.
        say: Takes a line about what has happened.
        newest: Gives the checkpoint to be served first; None = the last of the run.
        seconds: How long to wait between two looks.

    Attributes:
        swapped: How often other policies were let answer.
        refused: How many checkpoints were broken or did not fit.
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
        """Stops watching; what is being read is read to its end."""
        self._stop.set()
        self._thread.join()

    def look(self) -> bool:
        """Looks once; says whether other policies answer now."""
        for path in self._candidates():
            mark = _mark(path)
            if mark is None or mark in self._bad:
                continue
            try:
                if str(read_manifest(path).get(DIGEST, "")) == self._version.digest:
                    return False
                version = load_version(path, self._names, self._trust, self._version)
                self._swap(version)
            except Exception as error:  # whatever a broken file, or code of the user's own, leads to
                if _mark(path) != mark:
                    continue  # removed or replaced while it was read
                self._bad[mark] = None
                self.refused += 1
                kind = "" if isinstance(error, RookeryError) else f"{type(error).__name__}: "
                self._say(f"checkpoint {path.name} is not served, {self._version.name} stays: {kind}{error}")
                continue
            before, self._version = self._version.name, version
            self.swapped += 1
            self._say(f"checkpoint {version.name} answers now, after {before}")
            return True
        return False

    def _candidates(self) -> list[Path]:
        """Checkpoints that may be served, the one to be served first; none that is older than what is served is tried
        in the place of a broken one.
        """
        if self._newest is not None:
            chosen = self._newest()
            return [] if chosen is None else [chosen]
        return list_checkpoints(self._run / FOLDER)[::-1]

    def _watch(self) -> None:
        while not self._stop.wait(self._seconds):
            try:
                self.look()
            except Exception as error:  # a broken best.json, say; the next look may be better
                self._say(f"checkpoints of {self._run} cannot be looked at: {error}")


def _mark(path: Path) -> tuple[str, int, int] | None:
    """What tells a checkpoint from another of its name, without reading it; None if it is gone."""
    try:
        found = (path / MANIFEST).stat()
    except OSError:
        try:
            found = path.stat()
        except OSError:
            return None
    return path.name, found.st_ino, found.st_mtime_ns
