"""Declarations of networks (trunks, memories, heads), by which kernels and exporters can compute their outputs.

A network has a method `structure` that returns a `Structure`. A subclass with other outputs declares its own; one that
only overrides a method, such as `forward`, always runs that method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn

from rookery.core.batch import Sequences, TensorTree
from rookery.models.build import ModelConfig
from rookery.models.cells.base import Memory


@dataclass(frozen=True)
class Tower:
    """A trunk, its memory or None, and parallel heads on top.

    Attributes:
        trunk: Module from observations to features.
        heads: Modules from features to outputs.
        memory: Makes features depend on earlier rows; None if rows are independent.
    """

    trunk: nn.Module
    heads: tuple[nn.Module, ...]
    memory: Memory | None = None


class Inputs(NamedTuple):
    """The parts of a batch that a network reads.

    Attributes:
        obs: ``[N, ...]`` by leaf path, in the form that the trunk takes.
        memory: ``[B, M]`` memory before each sequence; None if rows are independent.
        sequences: Order of the rows in time; None if rows are independent.
        rows: ``[n]`` rows that the loss uses; None = all.
        known: Outputs of an earlier pass for these observations, kept for a backward pass; None = none.
        laid_out: Whether observations are arranged in time before the trunk, which is faster if few cells are empty.
    """

    obs: TensorTree
    memory: Tensor | None = None
    sequences: Sequences | None = None
    rows: Tensor | None = None
    known: Tensor | None = None
    laid_out: bool = False


@dataclass(frozen=True)
class Structure:
    """Declaration of a network's computation.

    Attributes:
        towers: Parts that share only the observations.
        model: Settings of the network.
        inputs: Returns the parts of a batch that the network reads.
        outputs: Returns the inputs of a loss from the batch and the outputs of the heads (a head's `log_std` follows
            its output).
        stacked: The towers have one shape, and their outputs are stacked, ``[K, N, ...]``.
        rounds: Whether products may use the number format `model.precision`.
        obstacle: Reason why only the network's own modules can compute this, in a few words; empty if kernels can.
    """

    towers: tuple[Tower, ...]
    model: ModelConfig
    inputs: Callable[[Any], Inputs]
    outputs: Callable[[list[Tensor], Any], Any]
    stacked: bool = False
    rounds: bool = False
    obstacle: str = ""

    @property
    def parts(self) -> list[nn.Module]:
        """Returns all trunks, memories and heads."""
        parts = [part for tower in self.towers for part in (tower.trunk, tower.memory, *tower.heads)]
        return [part for part in parts if part is not None]

    @property
    def weights(self) -> list[nn.Parameter]:
        """Returns the weights of all parts, in this order."""
        return [weight for part in self.parts for weight in part.parameters()]


class Declared(Protocol):
    """A network that declares its structure."""

    def structure(self) -> Structure:
        """Returns the declaration of the network's computation."""
        ...

    def __call__(self, batch: Any, /) -> Any:
        """Computes the inputs of a loss."""
        ...
