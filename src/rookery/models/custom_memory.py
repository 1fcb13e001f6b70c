"""A user's own model that remembers, behind the interface of every memory.

It is ``MyModel(obs_space, **module_config)`` with ``num_features`` = F, ``initial_memory(n)``, which gives what n slots
remember before an episode (a tensor ``[n, ...]`` or a tuple of them), and ``forward(obs, memory) -> features [n, F],
memory``. It takes the place of trunk and memory. Where an episode starts it gets the initial memory: it need not know.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from rookery.core.batch import Sequences, TensorTree
from rookery.models.memory import Memory


class Untouched(nn.Module):
    """In the place of a trunk: hands observations on as they are."""

    def forward(self, obs: TensorTree) -> TensorTree:
        """The same observations."""
        return obs


class CustomMemory(Memory):
    """Plays a user's module decision by decision, also in learning.

    What is remembered is kept as its difference from the initial memory, so that zeros are an episode's start.

    Args:
        model: ``(obs [n, ...] by leaf path, memory) -> (features, memory)``, with `num_features`.
        initial: What it remembers of one slot before an episode, ``[1, ...]``, or several such.
    """

    initial: Tensor

    def __init__(self, model: nn.Module, initial: Tensor | tuple[Tensor, ...]) -> None:
        super().__init__()
        self.model = model
        self.num_features = int(model.num_features)  # type: ignore[arg-type]
        self._is_one = isinstance(initial, Tensor)
        parts = (initial,) if isinstance(initial, Tensor) else initial
        self._shapes = [part.shape[1:] for part in parts]
        self._widths = [math.prod(shape) for shape in self._shapes]
        self.size = sum(self._widths)
        flat = torch.cat([part.detach().reshape(-1) for part in parts])
        self.register_buffer("initial", flat.to(torch.float32), persistent=False)

    def advance(self, x: Any, memory: Tensor) -> tuple[Tensor, Tensor]:
        """One decision of N slots; `x` are observations by leaf path."""
        remembered = (memory + self.initial).split(self._widths, 1)
        parts = tuple(part.unflatten(1, shape) for part, shape in zip(remembered, self._shapes, strict=True))
        features, after = self.model(x, parts[0] if self._is_one else parts)
        kept = (after,) if self._is_one else after
        return features, torch.cat([part.flatten(1) for part in kept], 1) - self.initial

    def forward(self, x: Any, memory: Tensor, sequences: Sequences) -> tuple[Tensor, Tensor]:
        """All decisions of B sequences, one after the other; `x` are observations by leaf path."""
        grids = {path: sequences.grid(leaf) for path, leaf in x.items()}
        features = []
        for t, first in enumerate(sequences.first):
            seen, after = self.advance(
                {path: grid[t] for path, grid in grids.items()}, memory.masked_fill(first.unsqueeze(1), 0.0)
            )
            memory = torch.where((t < sequences.length).unsqueeze(1), after, memory)
            features.append(seen)
        return sequences.rows(torch.stack(features)), memory
