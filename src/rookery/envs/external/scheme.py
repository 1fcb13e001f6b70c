"""Environments whose clients connect to a port, named ``external:9900``."""

from __future__ import annotations

import functools
from typing import Any

from rookery.core.errors import EnvError
from rookery.envs.external.env import SCHEME, ExternalEnv
from rookery.envs.schemes import EnvScheme


class External(EnvScheme):
    """Ports for clients."""

    is_real = True

    def matches(self, name: str) -> bool:
        """See `EnvScheme.matches`."""
        return name.startswith(SCHEME)

    def find(self, name: str) -> Any:
        """See `EnvScheme.find`."""
        port = name.removeprefix(SCHEME)
        if not port.isdecimal() or int(port) > 65535:
            raise EnvError(f"env {name!r}: {port!r} is not a port; write external:9900, or external:0 for any free one")
        return functools.partial(ExternalEnv, port=int(port))

    def short_name(self, name: str) -> str:
        """See `EnvScheme.short_name`."""
        return SCHEME.removesuffix(":")


EXTERNAL = External()
