"""Names of the experience with which a run starts: ``runs/x``, ``runs/x:policy``, ``runs/x*0.5``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rookery.core.errors import ConfigError

WEIGHTED = re.compile(r"(.+)\*([0-9.+-][0-9.eE+-]*)")


def replay_values(sources: str | Path | Sequence[str | Path]) -> dict[str, Any]:
    """Returns the settings, by path, for replay that starts with experience of other runs.

    Args:
        sources: Each ``PATH`` or ``PATH:policy``, whose rows are copied; with ``*0.5`` appended, this share of every
            batch is drawn from its rows instead. A path that exists may contain stars.

    Raises:
        ConfigError: If a share is not a number above 0 and at most 1, or a path has two.
    """
    copied: list[str] = []
    mixed: dict[str, float] = {}
    for source in [sources] if isinstance(sources, str | Path) else sources:
        match = None if Path(source).exists() else WEIGHTED.fullmatch(str(source))
        if match is None:
            copied.append(str(source))
            continue
        if match[1] in mixed:
            raise ConfigError(f"replay = {str(source)!r}: {match[1]} has a part of each batch already")
        mixed[match[1]] = _part(str(source), match[2])
    values: dict[str, Any] = {}
    if copied:
        values["algorithm.replay.start_from"] = tuple(copied)
    if mixed:
        values["algorithm.replay.mix"] = mixed
    return values


def _part(source: str, text: str) -> float:
    try:
        part = float(text)
    except ValueError:
        raise ConfigError(f"replay = {source!r}: {text} is not a number; write it as in runs/x*0.5") from None
    if not 0 < part <= 1:
        raise ConfigError(f"replay = {source!r}: {text} is not a part of a batch: must be above 0 and at most 1")
    return part
