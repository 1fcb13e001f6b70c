"""Limit of the unpacked size of compressed files: `Growth`.

A few kilobytes can unpack to many gigabytes of zeros. All data that are unpacked from a file are counted here before
they are read, so that memory and time stay in proportion to the size of the file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from rookery.core.errors import ConfigError
from rookery.core.io.files import FileError

ALWAYS = 256 << 20
"""Unpacked bytes that any file may have."""

TIMES = 1000
"""Largest ratio of unpacked to packed size of larger files."""


@dataclass
class Growth:
    """Counter of the unpacked bytes of a file.

    Attributes:
        source: Name of the file in messages.
        size: Bytes of the file.
        given: Limit set by the user; None = the larger of `ALWAYS` and `TIMES` the size.
        taken: Bytes unpacked so far.
    """

    source: str
    size: int
    given: int | None = None
    taken: int = field(default=0, init=False)

    @property
    def limit(self) -> int:
        """Limit of unpacked bytes."""
        return max(ALWAYS, TIMES * self.size) if self.given is None else self.given

    @property
    def left(self) -> int:
        """Remaining bytes."""
        return self.limit - self.taken

    def take(self, size: int) -> None:
        """Counts bytes before they are unpacked.

        Args:
            size: Number of bytes.

        Raises:
            FileError: If the limit is exceeded; names the option that raises it.
        """
        self.taken += size
        if self.left < 0:
            raise FileError(
                f"{self.source}: its {self.size:,} bytes unpack to {self.taken:,} or more, where {self.limit:,} are "
                f"allowed; if the file is trusted, --max-unpacked-gb {self.taken / 1e9 * 1.1:.2g} allows more "
                "(max_unpacked_gb in Python)"
            )


def allowed_bytes(option: str, gigabytes: float | None) -> int | None:
    """Returns the limit set by the user in bytes; None if not given.

    Args:
        option: Name of the option, for the message.
        gigabytes: The given limit, in units of 1e9 bytes.

    Raises:
        ConfigError: If it is not a positive finite number.
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
        given: Limit set by the user in bytes; None = in proportion to the file's size.

    Raises:
        FileError: If the file does not exist.
    """
    try:
        return Growth(str(path), path.stat().st_size, given)
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror or error}") from None
