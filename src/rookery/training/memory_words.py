"""How a user names replay memories to begin with: ``runs/x``, ``runs/x:policy``, ``runs/x*0.5``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rookery.core.errors import ConfigError

WEIGHTED = re.compile(r"(.+)\*([0-9.eE+-]+)")


def memory_values(sources: str | Path | Sequence[str | Path]) -> dict[str, Any]:
    """Settings for memories to begin with.

    Args:
        sources: ``PATH`` or ``PATH:policy``, whose rows are copied; with ``*0.5`` behind it, a memory that so large a
            part of every batch is drawn from.

    Raises:
        ConfigError: If a part is none.
    """
    copied, mixed = [], {}
    for source in [sources] if isinstance(sources, str | Path) else sources:
        match = WEIGHTED.fullmatch(str(source))
        if match is None:
            copied.append(str(source))
            continue
        try:
            mixed[match[1]] = float(match[2])
        except ValueError:
            raise ConfigError(f"memory = {str(source)!r}: {match[2]} is no number; as in runs/x*0.5") from None
    values: dict[str, Any] = {}
    if copied:
        values["algorithm.replay.start_from"] = tuple(copied)
    if mixed:
        values["algorithm.replay.mix"] = mixed
    return values
