"""Memory: what a policy carries from one decision to the next, and the cells that learn what to carry (`cells/`).

A memory stands between the trunk and the heads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import torch

from rookery.core.settings.fields import FormerName
from rookery.core.settings.reach import Few
from rookery.models.cells.base import CellConfig, Memory
from rookery.models.cells.table import CELLS

if TYPE_CHECKING:
    Kind = str
else:
    Kind = Literal[("none", *CELLS)]
"""Names of all cells, as settings and their schema show them."""


@dataclass(frozen=True)
class MemoryConfig(CellConfig):
    """What a policy remembers."""

    kind: Kind = "none"
    """Cell after the trunk: LSTM, GRU, a linear recurrence whose gates look at the input alone (minGRU: learns fast),
    or gated attention over the last decisions.
    """

    previous_action: bool = False
    """Whether the policy sees its last action."""

    previous_reward: bool = False
    """Whether the policy sees what its last action earned."""

    frame_stack: Annotated[Few, FormerName("frames")] = 1
    """Observations that the policy sees at once, the present one included; those before an episode's first are copies
    of that one. Each is stored once.
    """


def build_memory(cfg: MemoryConfig, num_features: int, generator: torch.Generator) -> Memory | None:
    """The memory that the settings ask for, or None if nothing that is learned.

    Raises:
        ConfigError: If the width of attention cannot be split among its heads.
    """
    return None if cfg.kind == "none" else CELLS[cfg.kind](num_features, cfg, generator=generator)
