"""How large the compressed parts of a file may become: `Growth`.

A few kilobytes can stand for many gigabytes of zeros. Whatever is unpacked from a file is counted here before it is
read, so that memory and time stay in proportion to the bytes of the file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from rookery.core.errors import ConfigError
from rookery.core.io.files import FileError

ALWAYS = 256 << 20
"""Bytes that any file may grow to."""

TIMES = 1000
"""How many times its own size a file may grow to."""


@dataclass
class Growth:
    """Counts what is unpacked from a file.

    Attributes:
        source: Name of the file in messages.
        size: Bytes of the file.
        given: Bytes that a user allows; None = `ALWAYS`, or `TIMES` the size where that is more.
        taken: Bytes unpacked so far.
    """

    source: str
    size: int
    given: int | None = None
    taken: int = field(default=0, init=False)

    @property
    def limit(self) -> int:
        """Bytes that may be unpacked."""
        return max(ALWAYS, TIMES * self.size) if self.given is None else self.given

    @property
    def left(self) -> int:
        """Bytes that may still be unpacked."""
        return self.limit - self.taken

    def take(self, size: int) -> None:
        """Counts bytes that will be unpacked.

        Args:
            size: How many.

        Raises:
            FileError: If they are more than may be unpacked; names the option that allows them.
        """
        self.taken += size
        if self.left < 0:
            raise FileError(
                f"{self.source}: its {self.size:,} bytes unpack to {self.taken:,} or more, where {self.limit:,} are "
                f"allowed; if it is as it should be, --max-unpacked-gb {self.taken / 1e9 * 1.1:.2g} allows more "
                "(max_unpacked_gb in Python)"
            )


def allowed_bytes(option: str, gigabytes: float | None) -> int | None:
    """Returns the bytes that a user allows; None where nothing was given.

    Args:
        option: Name of the option, for the message.
        gigabytes: What was given, in units of 1e9 bytes.

    Raises:
        ConfigError: If it is no positive finite number.
    """
    if gigabytes is None:
        return None
    if not 0 < gigabytes < math.inf:
        raise ConfigError(f"{option} {gigabytes:g}: must be a positive number of gigabytes, as in 4")
    return int(gigabytes * 1e9)


def growth_of(path: Path, given: int | None) -> Growth:
    """Returns a counter for a file.

    Args:
        path: The file.
        given: Bytes that a user allows; None = in proportion to the bytes of the file.

    Raises:
        FileError: If there is no such file.
    """
    try:
        return Growth(str(path), path.stat().st_size, given)
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror or error}") from None
