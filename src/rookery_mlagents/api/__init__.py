"""ML-Agents' low-level API (`mlagents_envs` 1.1.0) on Rookery's link to players: environments, side channels, wrappers.

Names are those of ML-Agents, in modules of the same contents; `names` has the table of both. Nothing is loaded
before a name is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from rookery_mlagents.api.mlagents_names import NAMES

_PLACES = {name: place for entries in NAMES.values() for name, place in entries.items() if not name.startswith("_")}

__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    place, _, attribute = _PLACES[name].partition(":")
    found = getattr(import_module(f"{__name__}.{place}"), attribute)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
