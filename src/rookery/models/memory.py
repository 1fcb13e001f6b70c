"""Memory: what a policy carries from one decision to the next, behind one interface.

A memory stands between the trunk and the heads. What it remembers of one slot is a vector of `size` numbers, so that
storing, resetting and saving it need not know what it means. It is played one decision at a time (`step`) and learned
over whole sequences (`forward`), to the same numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from rookery.core.batch import Sequences
from rookery.core.settings import PositiveInt, Settings


@dataclass(frozen=True)
class MemoryConfig(Settings):
    """What a policy remembers."""

    kind: Literal["none", "lstm", "gru", "scan", "attention"] = "none"
    """Cell after the trunk: LSTM, GRU, a recurrence that is learned by parallel scan, or gated attention over the last
    decisions.
    """

    size: PositiveInt = 64
    """Width of the cell."""

    layers: PositiveInt = 1
    """Cells on top of each other."""

    sequence_length: PositiveInt = 32
    """Decisions in a row through which gradients flow, at most; each such sequence starts from what was remembered
    when it was played.
    """

    context: PositiveInt = 32
    """Decisions that attention looks at, the present one included; a layer each."""

    heads: PositiveInt = 4
    """Heads of attention; `size` is split among them."""

    previous_action: bool = False
    """Whether the policy sees its last action."""

    previous_reward: bool = False
    """Whether the policy sees what its last action earned."""

    frames: PositiveInt = 1
    """Observations that the policy sees at once, the present one included; those before an episode's first are copies
    of that one. Each is stored once.
    """


class Memory(nn.Module, ABC):
    """Features that depend on what came before.

    A memory of all zeros is that of an episode's start.

    Attributes:
        size: Numbers remembered of one slot.
        num_features: Width of the output.
    """

    size: int
    num_features: int

    @abstractmethod
    def step(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """One decision of N slots.

        Args:
            x: ``[N, F]`` what the trunk gives.
            memory: ``[N, size]`` what is remembered; zeros where an episode starts.

        Returns:
            Features ``[N, num_features]``, and what is remembered from here on, ``[N, size]``, a new tensor.
        """

    @abstractmethod
    def forward(self, x: Tensor, memory: Tensor, sequences: Sequences) -> tuple[Tensor, Tensor]:
        """All decisions of B sequences, with gradients through time.

        Args:
            x: ``[N, F]`` what the trunk gives for each row.
            memory: ``[B, size]`` what is remembered before each sequence; of no meaning where an episode starts there.
            sequences: How the rows lie in time.

        Returns:
            Features ``[N, num_features]``, and what is remembered after the last row of each sequence, ``[B, size]``.
        """
