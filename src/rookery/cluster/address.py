"""Determines the Ray cluster to use, before Ray is loaded."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import tempfile
from pathlib import Path

from rookery.core.errors import nearest

CONNECT_SECONDS = 5.0
"""Timeout in seconds for a connection to the cluster's address; Ray itself would wait for more than a minute."""

AUTO = "auto"
"""The cluster that ``RAY_ADDRESS`` names or that runs on this machine, else a new one here."""

LOCAL = "local"
"""A new cluster on this machine, for this process."""

STARTS = "starting Ray on this machine"
"""Line printed while a cluster is started on this machine."""

WORDS = (AUTO, LOCAL, "here")
"""Values of the setting that are not addresses."""

GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""First bytes of every client of Ray, as of HTTP/2; a server answers with its settings."""


def named_by(address: str) -> str:
    """Returns the address that a setting names, or else ``RAY_ADDRESS``; empty if neither names one."""
    given = os.environ.get("RAY_ADDRESS", "") if address == AUTO else address
    return "" if given in (AUTO, LOCAL) else given


def problem_with(address: str) -> str:
    """Returns the reason why a text cannot be the address of a cluster, or an empty string; any other text with a colon
    is left to Ray to check.
    """
    if not address or ":" in address or address in WORDS:
        return ""
    return f"is not an address of a Ray cluster{nearest(address, WORDS)}; else write HOST:PORT, as in 10.0.0.1:6379"


def starts_here(address: str) -> bool:
    """Returns whether a cluster must be started on this machine, because none is named, and none runs or is wanted."""
    if address == LOCAL or named_by(address):
        return address == LOCAL
    latest = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()) / "ray" / "ray_current_cluster"
    # A cluster whose processes were killed leaves its address behind; Ray itself would wait for it for ever.
    return not (latest.exists() and answers(latest.read_text(encoding="utf-8").strip()))


def will_start_cluster(address: str) -> bool:
    """Returns whether a cluster must still be started on this machine, which takes seconds to minutes."""
    ray = sys.modules.get("ray")
    return not (ray and ray.is_initialized()) and starts_here(address)


def guard_own_cluster(address: str) -> None:
    """Creates an access token, known only to this process, for a cluster that will be started on this machine.

    Ray reads the token when it is loaded, so this comes before; if Ray is loaded already, nothing is changed.
    """
    if starts_here(address) and "ray" not in sys.modules and "RAY_AUTH_MODE" not in os.environ:
        os.environ["RAY_AUTH_MODE"] = "token"
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


def answers(address: str, seconds: float | None = None) -> bool:
    """Returns whether a server that may be Ray's answers at ``HOST:PORT`` within some seconds (None =
    `CONNECT_SECONDS`); other forms of addresses are left to Ray.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "://" in address:
        return True
    seconds = CONNECT_SECONDS if seconds is None else seconds
    try:
        with socket.create_connection((host, int(port)), seconds) as connection:
            if os.environ.get("RAY_USE_TLS", "0") not in ("", "0"):
                return True
            connection.settimeout(seconds)
            connection.sendall(GREETING)
            return bool(connection.recv(1))
    except OSError:
        return False
