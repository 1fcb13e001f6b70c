"""`BatchedEnv`: what our environments that step many copies in one call are, beside their rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rookery.envs.base import KeepInfos, Kind, Rows, SeedPlan, Step


class BatchedEnv:
    """The face of a `VectorEnv` of one kind: exact, never laid out anew, without infos. Rules are a subclass's.

    Args:
        num_lanes: Copies.
        kind: Their agents.
        name: What it is called in messages.
    """

    def __init__(self, num_lanes: int, kind: Kind, name: str) -> None:
        self.num_lanes = num_lanes
        self.kinds: tuple[Kind, ...] = (kind,)
        self.layout = 0
        self.episode = np.zeros(num_lanes, dtype=np.int64)
        self.exact = True
        self.name = name
        self.notes: tuple[str, ...] = ()
        self.keep_infos: KeepInfos = "none"
        self.infos: Mapping[int, Mapping[str, Any]] = {}
        self.counters: dict[str, int] = {}
        self._seeds: SeedPlan | None = None
        self._rows = Rows.allocate(kind, num_lanes)
        self._step = Step((self._rows,), np.zeros(num_lanes, dtype=bool))
        self._no_obs = kind.obs.allocate(0)

    def close(self) -> None:
        """Nothing is held; there because every vector env has it."""
