"""Environments that clients play at a port: ``external:9900`` is their name."""

from __future__ import annotations

import functools
from typing import Any

from rookery.core.errors import EnvError
from rookery.envs.external.env import SCHEME, ExternalEnv
from rookery.envs.schemes import EnvScheme


class External(EnvScheme):
    """Ports at which clients play."""

    def matches(self, name: str) -> bool:
        """See `EnvScheme.matches`."""
        return name.startswith(SCHEME)

    def find(self, name: str) -> Any:
        """See `EnvScheme.find`."""
        port = name.removeprefix(SCHEME)
        if not port.isdecimal() or int(port) > 65535:
            raise EnvError(
                f"env {name!r}: {port!r} is no port; write external:9900, or external:0 for any that is free"
            )
        return functools.partial(ExternalEnv, port=int(port))

    def short_name(self, name: str) -> str:
        """See `EnvScheme.short_name`."""
        return SCHEME.removesuffix(":")


EXTERNAL = External()
