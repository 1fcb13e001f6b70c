"""Memory: the state that a policy carries from one decision to the next, and its settings; cells are in `cells/`.

A memory is placed between the trunk and the heads.
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
"""Names of all cells, for settings and their schema."""


@dataclass(frozen=True)
class MemoryConfig(CellConfig):
    """Settings of a policy's memory."""

    kind: Kind = "none"
    """Cell after the trunk: LSTM, GRU, ``scan`` (minGRU: a linear recurrence whose gates depend only on the input;
    learns fast), or gated attention over the last decisions.
    """

    previous_action: bool = False
    """Whether the policy observes its last action."""

    previous_reward: bool = False
    """Whether the policy observes the reward of its last action."""

    frame_stack: Annotated[Few, FormerName("frames")] = 1
    """Number of stacked observations, the present one included; before an episode's start its first one is repeated.
    Each is stored once.
    """


def build_memory(cfg: MemoryConfig, num_features: int, generator: torch.Generator) -> Memory | None:
    """Returns the memory that the settings describe, or None without a learned memory.

    Raises:
        ConfigError: If the attention heads do not divide the width.
    """
    return None if cfg.kind == "none" else CELLS[cfg.kind](num_features, cfg, generator=generator)
