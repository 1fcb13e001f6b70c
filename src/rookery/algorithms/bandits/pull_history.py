"""The decisions of a bandit so far, for networks that are trained with all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.bandits.bandit import Pulls
from rookery.core.batch import TensorTree, put_together, rows_of
from rookery.core.state import Stateful

PART = 4096
"""Decisions of a part in `PullHistory.parts`."""


class PullHistory(Stateful):
    """Decisions with their rewards, in arrays that grow by doubling up to a limit; then the oldest are overwritten.

    Args:
        most: Decisions to keep.

    Attributes:
        total: Decisions added so far.
        clock: Steps of an environment so far.
    """

    saved = ("total", "clock", "kept")
    fixed: ClassVar[tuple[str, ...]] = ("most",)

    def __init__(self, most: int) -> None:
        self.most = most
        self.total = self.clock = 0
        self.kept: dict[str, Tensor] = {}
        """Arrays of at least `len(self)` rows: observation leaves by ``obs/PATH``, ``action``, ``reward`` and ``time``
        (the step of the environment).
        """

    def __len__(self) -> int:
        return min(self.total, self.most)

    @property
    def rewards(self) -> Tensor:
        """The rewards, in no order."""
        return self.kept["reward"][: len(self)]

    def add(self, pulls: Pulls, steps: int) -> None:
        """Adds decisions of the last `steps` steps of each environment."""
        self.clock += steps
        columns = {f"obs/{path}": leaf for path, leaf in put_together(pulls.obs).items()}
        columns |= {"action": pulls.action, "reward": pulls.reward, "time": self.clock - 1 - pulls.age}
        count = min(len(pulls.action), self.most)
        place = (torch.arange(self.total + len(pulls.action) - count, self.total + len(pulls.action),
                              dtype=torch.int64, device=pulls.action.device) % self.most)  # fmt: skip
        self.total += len(pulls.action)
        for name, column in columns.items():
            mine = self.kept.get(name)
            if mine is None or len(mine) < len(self):
                size = min(max(2 * len(self), PART), self.most)
                grown = torch.zeros(size, *column.shape[1:], dtype=column.dtype, device=column.device)
                if mine is not None:
                    grown[: len(mine)] = mine
                mine = self.kept[name] = grown
            mine[place] = column[-count:]

    def rows(self, rows: Tensor) -> Pulls:
        """Returns the decisions with these places, ``[N]`` int64."""
        obs: TensorTree = {name[4:]: leaf for name, leaf in self.kept.items() if name.startswith("obs/")}
        picked = (self.kept[name].index_select(0, rows) for name in ("action", "reward", "time"))
        action, reward, time = picked
        return Pulls(rows_of(obs, rows), action, reward, self.clock - 1 - time)

    def draw(self, count: int, rng: np.random.Generator) -> Pulls:
        """Draws decisions, each alike and independent of the others."""
        rows = torch.from_numpy(rng.integers(0, len(self), count))
        return self.rows(rows.to(self.kept["action"].device))

    def parts(self) -> Iterator[Pulls]:
        """Yields all decisions in parts of at most `PART`."""
        device = self.kept["action"].device
        for first in range(0, len(self), PART):
            yield self.rows(torch.arange(first, min(first + PART, len(self)), dtype=torch.int64, device=device))
