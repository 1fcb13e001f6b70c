"""The exploration class of a script, if its configuration names one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rookery.core.packages import is_own
from rookery.face import ConfigError
from rookery_rllib.base.from_config import imported


def own_exploration(config: Mapping[str, Any]) -> Callable[..., Any] | None:
    """Returns the script's exploration class in a configuration, or None; raises a ConfigError for a wrong path."""
    kind = (config.get("exploration_config") or {}).get("type")
    if isinstance(kind, str) and "." in kind:
        module, _, name = kind.replace(":", ".").rpartition(".")
        if module.startswith(("ray.rllib.utils.exploration", "ray.rllib.contrib.bandits.exploration")):
            return None
        found = imported(module, name)
        if found is None:
            raise ConfigError(f"rllib config: exploration_config.type = {kind!r}: there is no such class")
        kind = found
    return kind if callable(kind) and not is_own(getattr(kind, "__module__", "")) else None
