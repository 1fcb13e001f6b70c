"""The token of a policy server, which clients must send."""

from __future__ import annotations

import hmac
import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path

from rookery.core.errors import ConfigError
from rookery.core.io.files import FileError

FILE = "serve.token"
"""File of a run with the token of its server."""


MAX_TOKEN = 1000
"""The longest token, in characters."""


def new_token() -> str:
    """Returns a random token."""
    return secrets.token_urlsafe(24)


def write_token(path: Path, token: str) -> None:
    """Writes a token to a file that its owner alone can read.

    Raises:
        FileError: If it cannot be written.
    """
    try:
        with suppress(FileNotFoundError):
            path.unlink()  # an existing file would keep its permissions
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"{token}\n")
    except OSError as error:
        raise FileError(
            f"{path}: the token cannot be written ({error.strerror or error}); give one: --token, or the environment "
            "variable ROOKERY_TOKEN"
        ) from None


@contextmanager
def stored_token(path: Path | None, token: str) -> Iterator[None]:
    """Keeps a token in a file inside the context; None = in no file. A file that has another token by then stays.

    Raises:
        FileError: If it cannot be written.
    """
    if path is None:
        yield
        return
    write_token(path, token)
    try:
        yield
    finally:
        with suppress(OSError):
            if path.read_text(encoding="utf-8").strip() == token:
                path.unlink()


def read_token(path: Path) -> str:
    """Reads a token from a file that its owner alone can read. A missing file is created with a new token.

    Raises:
        ConfigError: If the file cannot be created, others can read it, or its content is not a token.
    """
    option = f"--token-file {path}"
    try:
        with suppress(FileExistsError), open(path, "x", encoding="utf-8", opener=_private) as file:
            file.write(f"{new_token()}\n")
        with path.open(encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            token = file.read(MAX_TOKEN + 2).strip()
    except FileNotFoundError:
        raise ConfigError(f"{option}: there is no folder {path.parent}; create it first") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{option}: the file cannot be read as text: {getattr(error, 'strerror', '') or 'not UTF-8'}"
        ) from None
    if mode & 0o077 and sys.platform != "win32":
        raise ConfigError(f"{option}: other users can read or write the file; chmod 600 {path}")
    if not token:
        raise ConfigError(f"{option}: the file is empty; write a token to it: openssl rand -hex 24 > {path}")
    check_token(token, option)
    return token


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def check_token(token: str, option: str = "--token") -> None:
    """Refuses a token that cannot be in a header, or is easily guessed.

    Args:
        token: The token.
        option: Option or file of the token, for messages.

    Raises:
        ConfigError: With the format of a token.
    """
    if not 8 <= len(token) <= MAX_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"{option}: expected 8 to {MAX_TOKEN} printable ASCII characters without blanks")


def is_loopback(host: str) -> bool:
    """Returns whether an address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_loopback_host(host: str) -> bool:
    """Returns whether the header ``Host`` of a request, ``NAME`` or ``NAME:PORT``, is a loopback address."""
    if host.startswith("["):
        name, bracket, rest = host.partition("]")
        if not bracket:
            return False
    else:
        name, colon, port = host.partition(":")
        rest = colon + port
    return (not rest or (rest.startswith(":") and rest[1:].isdecimal())) and is_loopback(name)


def has_token(headers: Mapping[bytes, bytes], token: str) -> bool:
    """Returns whether the headers of a request have the token: ``Authorization: Bearer TOKEN``."""
    kind, _, shown = headers.get(b"authorization", b"").partition(b" ")
    return kind.lower() == b"bearer" and hmac.compare_digest(shown.strip(), token.encode())
