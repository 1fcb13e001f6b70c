"""Names of files and folders that an operating system takes.

Windows refuses some characters and the names of its devices, and drops a dot or a blank at the end.
"""

from __future__ import annotations

import re
import sys

DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}
"""Names of devices on Windows, in any case and with any extension."""

IS_WINDOWS = sys.platform == "win32"


def name_refusal(name: str, windows: bool = IS_WINDOWS) -> str:
    """Returns the reason why no file can have a name, or an empty string.

    Args:
        name: The name, without folders.
        windows: Whether the rules are those of Windows.
    """
    if not windows:
        return ""
    if name.partition(".")[0].rstrip().lower() in DEVICES:
        return f"{name!r} is the name of a device on Windows"
    if found := re.search(r'[<>:"/\\|?*\x00-\x1f]', name):
        return f"{name!r} has {found[0]!r}, which no name on Windows may have"
    return f"{name!r} ends with a dot or a blank, which Windows drops" if name.endswith((".", " ")) else ""


def as_file_name(text: str, windows: bool = IS_WINDOWS) -> str:
    """Returns a text as the name of a file: characters that it may not have become ``_``."""
    return re.sub(r'[<>:"/\\|?*\x00-\x1f]' if windows else r"[/\\\0]", "_", text)


def splits(text: str, windows: bool = IS_WINDOWS) -> list[tuple[str, str]]:
    """Returns how a text may be split into a path and a name behind a colon, the last colon first. The colon of a drive
    such as ``C:`` does not count.
    """
    first = 2 if windows and re.match(r"[A-Za-z]:[/\\]", text) else 0
    found = [place for place, letter in enumerate(text) if letter == ":" and place >= first]
    return [(text[:place], text[place + 1 :]) for place in reversed(found)]
