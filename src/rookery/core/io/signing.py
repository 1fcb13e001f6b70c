"""Signatures of files written by this user, with the user's key.

The key is in the user's configuration folder, made when it is first needed. If that is impossible (no home, a read-only
or full disk), files are not signed, with no other effect.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rookery.core.errors import RookeryError
from rookery.core.io.open_files import BINARY, is_private

SIGNATURE = "signature"
"""Key of the signature in a JSON file."""

COMMENT = "# signature: "
"""Prefix of the last line of a signed file of YAML."""

KEY = "signing-key"
BYTES = 32

PRIVATE = 0o600


class NoKeyError(RookeryError):
    """There is no key to sign files with; the message has the reason."""


def key_file() -> Path:
    """Returns the path of the key: in ``$XDG_CONFIG_HOME`` or ``~/.config``, or the platform's folder for such files.

    Raises:
        NoKeyError: If this user has no home.
    """
    try:
        if sys.platform == "darwin":
            base = Path.home() / "Library" / "Application Support"
        else:
            base = Path(os.environ.get("XDG_CONFIG_HOME", ""))
            if not base.is_absolute():
                base = Path.home() / ".config"
    except RuntimeError as error:
        raise NoKeyError(f"there is no folder for a key: {error}") from None
    return base / "rookery" / KEY


def signed(kind: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the content of a JSON file with its signature; unchanged if there is no key.

    Args:
        kind: Kind of the file: a signature of one kind is invalid for another.
        facts: What JSON can hold.
    """
    found = _signature(kind, _canonical(facts))
    return dict(facts) if found is None else {**facts, SIGNATURE: found}


def is_signed(kind: str, facts: Mapping[str, Any]) -> bool:
    """Returns whether this user has written the content of a file of JSON."""
    rest = {key: value for key, value in facts.items() if key != SIGNATURE}
    return _is_signature(kind, _canonical(rest), facts.get(SIGNATURE))


def signed_text(kind: str, text: str) -> str:
    """Appends the signature to a text of whole lines, as a comment line."""
    found = _signature(kind, text.encode())
    return text if found is None else f"{text}{COMMENT}{found}\n"


def without_signature(text: str) -> str:
    """Returns a text of `signed_text` without its signature."""
    rest, comment, _ = text.rpartition(COMMENT)
    return rest if comment else text


def is_signed_text(kind: str, text: str) -> bool:
    """Returns whether this user has written a text read from a file."""
    rest, _, claimed = text.rpartition(COMMENT)
    return _is_signature(kind, rest.encode(), claimed.removesuffix("\n"))


def _canonical(facts: Mapping[str, Any]) -> bytes:
    """Returns a canonical serialization, equal for written and re-read content."""
    return json.dumps(json.loads(json.dumps(facts)), sort_keys=True).encode()


def _signature(kind: str, content: bytes) -> str | None:
    try:
        key = _key(key_file())
    except NoKeyError:
        return None
    return hmac.new(key, kind.encode() + b"\0" + content, hashlib.sha256).hexdigest()


def _is_signature(kind: str, content: bytes, claimed: Any) -> bool:
    expected = _signature(kind, content)
    return (
        expected is not None and isinstance(claimed, str) and hmac.compare_digest(expected.encode(), claimed.encode())
    )


def why_unsigned() -> str:
    """Returns the reason why files cannot be signed here, or an empty string."""
    try:
        _key(key_file())
    except NoKeyError as error:
        return str(error)
    return ""


@cache
def _key(file: Path) -> bytes:
    """Returns the key stored in a file; creates it if it is missing."""
    try:
        if not file.exists():
            _make(file)
        return _read(file)
    except OSError as error:
        raise NoKeyError(f"{file}: cannot be made or read: {error.strerror or error}") from None


def _read(file: Path) -> bytes:
    """Reads a key; refuses one that other users can read."""
    with file.open("rb") as opened:
        is_own, key = is_private(opened.fileno()), opened.read(BYTES + 1)
    if not is_own:
        raise NoKeyError(f"{file}: is open to others, so that it proves nothing; make it yours alone, chmod 600")
    if len(key) != BYTES:
        raise NoKeyError(f"{file}: is no key (it has not {BYTES} bytes); remove it, and a new one is made")
    return key


def _make(file: Path) -> None:
    """Creates a key; if another process creates one first, that key is used."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = file.with_name(f".{KEY}-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, PRIVATE)
        try:
            os.write(descriptor, secrets.token_bytes(BYTES))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        try:
            os.link(temporary, file)  # which, unlike a rename, replaces nothing
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            if not file.exists():
                os.rename(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)
