"""Base class of memories, and the settings of their cells.

The memory of one slot is a vector of `size` numbers, so that storing, resetting and saving do not depend on its
meaning. It acts one decision at a time (`advance`) and learns over whole sequences (`forward`), with equal results. The
states of several layers are concatenated.
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
    """Settings of the cells of a memory."""

    kind: str = "none"
    """Name of the cell."""

    size: Width = 64
    """Width of the cell and of its output."""

    layers: Few = 1
    """Number of stacked cells."""

    sequence_length: Length = 32
    """Maximum number of decisions for backpropagation through time; each sequence starts from the memory stored when it
    was sampled. Initial biases of GRU and scan retain information over up to this many decisions.
    """

    context: Length = 32
    """Decisions in the window of an attention layer, the present one included."""

    heads: Few = 4
    """Attention heads; `size` is split among them."""


class Memory(nn.Module, ABC):
    """Base of memories: features that depend on earlier decisions. A memory of zeros is the state at an episode's
    start.

    Attributes:
        size: Numbers in the memory of one slot.
        num_features: Width of the output.
        word: Its name in the first lines of a run if `model.memory.kind` has none.
        kernel: Name of its cell in `core/kernels/cells.h`; empty without a kernel.
    """

    word: ClassVar[str] = "model.module"
    kernel: ClassVar[str] = ""
    size: int
    num_features: int

    @abstractmethod
    def advance(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Processes one decision of N slots.

        Args:
            x: ``[N, F]`` features of the trunk.
            memory: ``[N, size]`` memory before the decision; zeros where an episode starts.

        Returns:
            Features ``[N, num_features]``, and the memory after the decision, ``[N, size]``, a new tensor.
        """

    @abstractmethod
    def forward(self, x: Tensor, memory: Tensor, sequences: Sequences) -> tuple[Tensor, Tensor]:
        """Processes all decisions of B sequences, with gradients through time.

        Args:
            x: ``[N, F]`` features of the trunk for each row.
            memory: ``[B, size]`` memory before each sequence; ignored where an episode starts there.
            sequences: Order of the rows in time.

        Returns:
            Features ``[N, num_features]``, and the memory after the last row of each sequence, ``[B, size]``.
        """

    def write_decision(self, graph: Operators, x: str, memory: str) -> tuple[str, str]:
        """Writes `advance` into an ONNX graph. Cells of `CELLS` need it; `advance` of other memories is traced.

        Args:
            graph: Receives the operators.
            x: Name of ``[N, F]``.
            memory: Name of ``[N, size]``.

        Returns:
            Names of the results of `advance`.
        """
        raise NotImplementedError
