"""Cross-origin requests (CORS): pages in a browser that may read the answers of a policy server.

Off by default. Answers never allow credentials: a page sends the token in a header, which it must have.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from rookery.core.errors import ConfigError

ANY = "*"

ORIGIN = re.compile(r"https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(:\d{1,5})?")

PREFLIGHT = [
    (b"access-control-allow-methods", b"GET, POST, DELETE"),
    (b"access-control-allow-headers", b"authorization, content-type"),
    (b"access-control-max-age", b"600"),
]
"""Fields of the answer to the request that a browser sends before the one of the page."""

Fields = list[tuple[bytes, bytes]]


def check_origins(origins: Collection[str], has_token: bool) -> None:
    """Refuses values that no browser sends as an origin, and every origin where there is no token.

    Raises:
        ConfigError: With the format of an origin.
    """
    for origin in origins:
        if origin == ANY and not has_token:
            raise ConfigError("--allow-origin *: every page could use the server without a token; name the origins")
        if origin != ANY and not ORIGIN.fullmatch(origin):
            raise ConfigError(
                f"--allow-origin {origin}: expected SCHEME://HOST or SCHEME://HOST:PORT without a path, as "
                "https://example.org, or *"
            )


def is_allowed(headers: Mapping[bytes, bytes], origins: Collection[str]) -> bool:
    """Returns whether a request comes from a page of an allowed origin."""
    origin = headers.get(b"origin", b"").decode("latin-1")
    return bool(origin) and (ANY in origins or origin.lower() in {each.lower() for each in origins})


def answer_headers(headers: Mapping[bytes, bytes], origins: Collection[str]) -> Fields:
    """Returns the fields that let a page read an answer; none for other requests."""
    if not origins:
        return []
    vary = [(b"vary", b"Origin")]
    return [(b"access-control-allow-origin", headers[b"origin"]), *vary] if is_allowed(headers, origins) else vary


def is_preflight(method: str, headers: Mapping[bytes, bytes], origins: Collection[str]) -> bool:
    """Returns whether a browser asks if a page of an allowed origin may send a request."""
    return method == "OPTIONS" and b"access-control-request-method" in headers and is_allowed(headers, origins)
