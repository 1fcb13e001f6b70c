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

from rookery.core.batch import Sequences
from rookery.models.memory import Memory
from rookery.models.pieces import Pieces


class CustomMemory(Memory):
    """Plays a user's module decision by decision, also in learning.

    A first number says whether an episode has begun; until then the module is given its initial memory, which may be
    learned.

    Args:
        model: ``(obs [n, ...] by leaf path, memory) -> (features, memory)``, with `num_features` and `initial_memory`.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.num_features = int(model.num_features)  # type: ignore[arg-type]
        initial = self._initial()
        self._is_one = isinstance(initial, Tensor)
        self._shapes = [part.shape[1:] for part in parts_of(initial)]
        self._widths = [math.prod(shape) for shape in self._shapes]
        self.size = 1 + sum(self._widths)

    def _initial(self) -> Any:
        """What is remembered of one slot before an episode, ``[1, ...]``, or several such."""
        return self.model.initial_memory(1)  # type: ignore[operator]

    def advance(self, x: Any, memory: Tensor) -> tuple[Tensor, Tensor]:
        """One decision of N slots; `x` are observations by leaf path."""
        initial = torch.cat([part.reshape(1, -1).to(memory) for part in parts_of(self._initial())], 1)
        remembered = torch.where(memory[:, :1] > 0, memory[:, 1:], initial).split(self._widths, 1)
        parts = tuple(part.reshape(-1, *shape) for part, shape in zip(remembered, self._shapes, strict=True))
        features, after = self.model(x, parts[0] if self._is_one else parts)
        return features, torch.cat(
            [torch.ones_like(memory[:, :1]), *[part.reshape(len(part), -1) for part in parts_of(after)]], 1
        )

    def forward(self, x: Any, memory: Tensor, sequences: Sequences) -> tuple[Tensor, Tensor]:
        """All decisions of B sequences, one time step of all of them after the other; `x` are observations by path."""
        pieces = Pieces.of(sequences)
        seen = {path: pieces.pack(leaf).split(pieces.counts) for path, leaf in x.items()}
        features, after, kept = [], [], pieces.before(memory)
        for step, count in enumerate(pieces.counts):
            now, kept = self.advance({path: rows[step] for path, rows in seen.items()}, kept[:count])
            features.append(now)
            after.append(kept)
        return pieces.unpack(torch.cat(features)), torch.cat(after).index_select(0, pieces.last_packed)


def parts_of(memory: Any) -> tuple[Tensor, ...]:
    """What a module remembers, as a tuple of tensors."""
    return (memory,) if isinstance(memory, Tensor) else tuple(memory)
