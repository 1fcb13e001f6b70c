"""The class of a script by which its policies try actions out, where its configuration names one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rookery.core.errors import ConfigError
from rookery.core.packages import is_own
from rookery_rllib.base.from_config import imported


def own_exploration(config: Mapping[str, Any]) -> Callable[..., Any] | None:
    """Returns the class of a script that a configuration names to try actions out; None if it names none.

    Args:
        config: The configuration, with ``exploration_config``.

    Raises:
        ConfigError: If an import path leads to nothing.
    """
    kind = (config.get("exploration_config") or {}).get("type")
    if isinstance(kind, str) and "." in kind:
        module, _, name = kind.replace(":", ".").rpartition(".")
        if module.startswith("ray.rllib.utils.exploration"):
            return None
        found = imported(module, name)
        if found is None:
            raise ConfigError(f"rllib config: exploration_config.type = {kind!r}: there is no such class")
        kind = found
    return kind if callable(kind) and not is_own(getattr(kind, "__module__", "")) else None
