"""Demonstrations: recorded decisions for imitation, as read-only replay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

from rookery.core.batch import Decisions, TensorTree
from rookery.core.errors import ConfigError
from rookery.replay.buffer import ReplayBuffer, tensors

PART, PART_BYTES = 4096, 1 << 22
"""Largest number of rows in a chunk, and bytes of a chunk; a single row may be larger."""


def rows_per_chunk(buffer: ReplayBuffer) -> int:
    """Returns the number of rows in a chunk of a buffer."""
    return max(min(PART, PART_BYTES // max(buffer.full_bytes // buffer.capacity, 1)), 1)


class StoredDemonstrations:
    """Samples decisions uniformly from a buffer, with its own random generator.

    Args:
        buffer: The demonstrations.
        rng: Source of the samples; saved by the learner.
        device: Device of the sampled decisions.
    """

    def __init__(self, buffer: ReplayBuffer, rng: np.random.Generator, device: torch.device) -> None:
        self.buffer = buffer
        self.rng = rng
        self.device = device

    def __len__(self) -> int:
        return len(self.buffer)

    def decisions(self, number: int) -> Decisions:
        """Samples `number` decisions with replacement."""
        return self._at(self.rng.integers(self.buffer.first, self.buffer.total, number))

    def epoch(self, size: int, most: int | None = None) -> Iterator[Decisions]:
        """Yields every decision once, in random order, in near-equal chunks of at most `size`; at most `most` decisions
        in all.
        """
        order = self.buffer.first + self.rng.permutation(len(self))[:most]
        return map(self._at, np.array_split(order, -(-len(order) // size)))

    def every(self) -> Iterator[Decisions]:
        """Yields every decision once, in the order of time, in chunks."""
        starts = range(self.buffer.first, self.buffer.total, rows_per_chunk(self.buffer))
        return (self._at(np.arange(start, min(start + starts.step, self.buffer.total))) for start in starts)

    def _at(self, row: np.ndarray) -> Decisions:
        return self.buffer.steps(torch.from_numpy(row), n_step=1, gamma=1.0).to(self.device)


@dataclass(frozen=True)
class Returns:
    """Returns-to-go of decisions, as far as they are known; ``[N]``, float32.

    Attributes:
        total: Discounted sum of the rewards.
        discount: Discount of the value of the last observation; 0 where the episode terminated.
        mean: Mean of all totals.
        deviation: Their standard deviation; 1 if they are all equal.
    """

    total: np.ndarray
    discount: np.ndarray
    mean: float
    deviation: float


class DataSet:
    """Reads a buffer as episodes. Rows are indexed from the oldest, which is 0.

    Args:
        buffer: The demonstrations.
        held_out: Share of the episodes to hold out, rounded to whole episodes; a single one is not held out.
        rng: Source of the split.

    Attributes:
        learned: Rows to learn from, ascending.
        held_out: Rows of the episodes that are held out.
        episodes: Number of episodes.
        following: ``[N]`` next row of the episode; the last one points to itself.

    Raises:
        ConfigError: If a value is not finite; names the row.
    """

    def __init__(self, buffer: ReplayBuffer, held_out: float, rng: np.random.Generator) -> None:
        self.buffer = buffer
        self._rows = np.arange(buffer.first, buffer.total) % buffer.capacity
        count = len(self._rows)
        self._after = buffer.after[self._rows]
        every = np.arange(count)
        serial = buffer.serial_of(self._after) - buffer.first
        continues = (self._after < buffer.capacity) & (self._after != self._rows)
        self.following = np.where(continues, serial, every)
        self._ends = chain_ends(self.following)
        self.returns = cache(self._returns)
        check_finite(buffer)

        before = every.copy()
        before[self.following[continues]] = every[continues]
        first, episode = np.unique(chain_ends(before), return_inverse=True)
        self.episodes = len(first)
        number = min(round(held_out * self.episodes), self.episodes - 1)
        if held_out and self.episodes > 1:
            number = max(number, 1)
        is_out = np.zeros(self.episodes, bool)
        is_out[rng.permutation(self.episodes)[:number]] = True
        self.held_out = np.flatnonzero(is_out[episode])
        self.learned = np.flatnonzero(~is_out[episode])

    def __len__(self) -> int:
        return len(self._rows)

    def obs(self, rows: np.ndarray) -> TensorTree:
        """Returns raw observations, ``[N, ...]``."""
        return tensors(self.buffer.observations.gather_rows(self._rows[rows]))

    def actions(self, rows: np.ndarray) -> Tensor:
        """Returns stored actions, ``[N, ...]``."""
        return torch.from_numpy(self.buffer.action.take(self._rows[rows], axis=0))

    def last_obs(self, rows: np.ndarray) -> TensorTree:
        """Returns the final observations of the episodes of some rows, raw, ``[N, ...]``; without meaning if they
        terminated.
        """
        return tensors(self.buffer.observations.gather(self._after[self._ends[rows]]))

    def parts(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        """Yields rows in chunks."""
        return (rows[start : start + PART] for start in range(0, len(rows), PART))

    def _returns(self, gamma: float) -> Returns:
        """Sums rewards to the ends of episodes; each round doubles the reach of the sums."""
        buffer, count = self.buffer, len(self._rows)
        total = np.append(buffer.reward[self._rows].astype(np.float64), 0.0)
        discount = np.append(np.full(count, gamma), 1.0)
        every = np.arange(count)
        jump = np.append(np.where(self.following == every, count, self.following), count)
        while (jump[:-1] < count).any():
            total += discount * total[jump]
            discount *= discount[jump]
            jump = jump[jump]
        ended = self._after[self._ends] == self._rows[self._ends]
        total, discount = total[:-1], np.where(ended, 0.0, discount[:-1])
        deviation = float(total.std())
        return Returns(
            total.astype(np.float32),
            discount.astype(np.float32),
            float(total.mean()),
            deviation if deviation > 0 else 1.0,
        )


def chain_ends(pointer: np.ndarray) -> np.ndarray:
    """Returns the end of the chain of pointers ``[N]`` from each place: a place that points to itself."""
    while not np.array_equal(further := pointer[pointer], pointer):
        pointer = further
    return pointer


def check_finite(buffer: ReplayBuffer) -> None:
    """Checks that observations, actions and rewards are finite.

    Args:
        buffer: The demonstrations.

    Raises:
        ConfigError: If a value is not finite; names the row, counted from 1, and the column.
    """
    starts = range(buffer.first, buffer.total, rows_per_chunk(buffer))
    for start in starts:
        rows = np.arange(start, min(start + starts.step, buffer.total)) % buffer.capacity
        seen = {f"observation {path}": leaf for path, leaf in buffer.observations.gather_rows(rows).items()}
        for name, array in (seen | {"action": buffer.action[rows], "reward": buffer.reward[rows]}).items():
            if array.dtype.kind != "f":
                continue
            bad = ~np.isfinite(array).reshape(len(rows), -1).all(1)
            if bad.any():
                row = start - buffer.first + int(bad.argmax()) + 1
                raise ConfigError(f"demonstrations: row {row}: its {name} has a number that is not finite")
