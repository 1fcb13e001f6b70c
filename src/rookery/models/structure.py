"""What networks declare of themselves, so that something else can compute what they do: trunks, memories, heads.

A network has a method `structure` that returns a `Structure`. A subclass that changes what is computed declares its
own; one that only overrides a method, such as `forward`, is computed by that method alone.
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
    """A trunk, the memory on it if there is one, and heads side by side on top.

    Attributes:
        trunk: Module from observations to features.
        heads: Modules from features to outputs.
        memory: What makes features depend on those before; None if each row stands for itself.
    """

    trunk: nn.Module
    heads: tuple[nn.Module, ...]
    memory: Memory | None = None


class Inputs(NamedTuple):
    """What a network reads of a batch.

    Attributes:
        obs: ``[N, ...]`` by leaf path, as the trunk takes them.
        memory: ``[B, M]`` what is remembered before each sequence; None where each row stands for itself.
        sequences: How the rows lie in time; None likewise.
        rows: ``[n]`` which of the rows the loss looks at; None = all.
        known: What an earlier pass put out for these observations and kept for a backward pass; None = nothing.
        laid_out: Observations are laid out in time before the trunk, which pays where few places are left empty.
    """

    obs: TensorTree
    memory: Tensor | None = None
    sequences: Sequences | None = None
    rows: Tensor | None = None
    known: Tensor | None = None
    laid_out: bool = False


@dataclass(frozen=True)
class Structure:
    """What a network computes.

    Attributes:
        towers: Parts that share nothing but the observations.
        model: Settings of the network.
        inputs: What it reads of a batch.
        outputs: What a loss takes, from what the heads put out (of heads with a `log_std`, that after its output) and
            the batch.
        stacked: The towers have one shape, and their outputs are stacked, ``[K, N, ...]``.
        rounds: Products may be rounded where `model.precision` says so.
        obstacle: Why only the network's own modules can compute this, in a few words; nothing if others can.
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
        """All trunks, memories and heads."""
        parts = [part for tower in self.towers for part in (tower.trunk, tower.memory, *tower.heads)]
        return [part for part in parts if part is not None]

    @property
    def weights(self) -> list[nn.Parameter]:
        """Those of all parts, in this order."""
        return [weight for part in self.parts for weight in part.parameters()]


class Declared(Protocol):
    """A network that declares its structure."""

    def structure(self) -> Structure:
        """Declares what the network computes."""
        ...

    def __call__(self, batch: Any, /) -> Any:
        """Computes what a loss takes."""
        ...
