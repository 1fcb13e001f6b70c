"""What every memory has, and the settings that its cells are built from.

What it remembers of one slot is a vector of `size` numbers, so that storing, resetting and saving it need not know what
it means. It is played one decision at a time (`advance`) and learned over whole sequences (`forward`), to the same
numbers. What several layers remember lies side by side, layer by layer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from rookery.core.batch import Sequences
from rookery.core.settings.fields import Settings
from rookery.core.settings.reach import Few, Length, Width
from rookery.models.cells.operators import Operators


@dataclass(frozen=True)
class CellConfig(Settings):
    """What cells of a memory are built from."""

    kind: str = "none"
    """Name of the cell."""

    size: Width = 64
    """Width of the cell, and of what it gives."""

    layers: Few = 1
    """Cells on top of each other."""

    sequence_length: Length = 32
    """Decisions in a row through which gradients flow, at most; each such sequence starts from what was remembered
    when it was played. The units of GRU and scan start with memories of up to so many decisions.
    """

    context: Length = 32
    """Decisions that a layer of attention looks at, the present one included."""

    heads: Few = 4
    """Heads of attention; `size` is split among them."""


class Memory(nn.Module, ABC):
    """Features that depend on what came before.

    A memory of all zeros is that of an episode's start.

    Attributes:
        size: Numbers remembered of one slot.
        num_features: Width of the output.
        word: What the first lines of a run call it where `model.memory.kind` does not say.
        kernel: Name of its cell in `core/kernels/cells.h`; empty if no kernel computes it.
    """

    word: ClassVar[str] = "model.module"
    kernel: ClassVar[str] = ""
    size: int
    num_features: int

    @abstractmethod
    def advance(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
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

    def write_decision(self, graph: Operators, x: str, memory: str) -> tuple[str, str]:
        """Writes `advance` into an ONNX graph. A cell of `CELLS` needs it; `advance` of another memory is traced.

        Args:
            graph: Takes the operators.
            x: Name of ``[N, F]``.
            memory: Name of ``[N, size]``.

        Returns:
            Names of what `advance` returns.
        """
        raise NotImplementedError
