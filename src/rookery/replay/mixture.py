"""Mixture of replay buffers: each contributes its share of every batch, and only the run's own one grows.

With half of each batch from the own buffer and half from recorded data, this is the symmetric sampling of RLPD (Ball et
al. 2023, "Efficient Online Reinforcement Learning with Offline Data", algorithm 1). While the own buffer is empty,
batches come from the others only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from rookery.core.batch import Rollout, Transitions, WindowSteps
from rookery.core.errors import ConfigError
from rookery.core.state import Stateful
from rookery.replay.buffer import ReplayBuffer, ReplayConfig, SampledSequences

DrawnT = TypeVar("DrawnT", Transitions, SampledSequences)

SOURCE = 1 << 48
"""Offset of serial numbers: those of the k-th other buffer, k from 1, are increased by k times this."""


class Mixture(Stateful):
    """Samples from several buffers of the same spaces, with the interface of `ReplayBuffer`.

    Args:
        own: Buffer that new rollouts are added to.
        others: Read-only buffers; they use the random generator of the own one.
        shares: Share of a batch of each of the others; the rest, if any, is from the own one.
        marks: Text of each of the others that identifies its rows.

    Raises:
        ConfigError: If the shares are not valid.
    """

    saved = ("own", "owed", "marks", "priorities")
    fixed = ("others", "shares")

    def __init__(
        self, own: ReplayBuffer, others: Sequence[ReplayBuffer], shares: Sequence[float], marks: Sequence[str]
    ) -> None:
        if not all(share > 0 for share in shares) or sum(shares) > 1 + 1e-9:
            raise ConfigError(
                f"replay.mix has the shares {', '.join(map(str, shares))}: each must be above 0, and all together at "
                "most 1; what is left is drawn from the run's own buffer"
            )
        self.own = own
        self.others = tuple(others)
        self.shares = np.array([max(1.0 - sum(shares), 0.0), *shares])
        self.owed = np.zeros(len(self.shares))
        """Fractions of a row that are carried over for each buffer, so that the shares hold over many batches."""
        self.marks = tuple(marks)

    def __len__(self) -> int:
        return sum(len(buffer) for buffer in self.buffers)

    @property
    def buffers(self) -> tuple[ReplayBuffer, ...]:
        """All buffers, the own one first."""
        return (self.own, *self.others)

    @property
    def total(self) -> int:
        """Number of rows ever added."""
        return self.own.total + sum(len(buffer) for buffer in self.others)

    @property
    def cfg(self) -> ReplayConfig:
        """Settings of the own buffer."""
        return self.own.cfg

    def add(self, rollout: Rollout) -> None:
        """Adds a rollout to the own buffer."""
        self.own.add(rollout)

    def sample(self, batch_size: int, *, n_step: int, gamma: float, beta: float) -> Transitions:
        """Samples decisions from all buffers, those of the own one first; see `ReplayBuffer.sample`."""
        parts = self._draw(batch_size, lambda buffer, n: buffer.sample(n, n_step=n_step, gamma=gamma, beta=beta))
        joined = {name: _joined([getattr(part, name) for part in parts]) for name in Transitions.__dataclass_fields__}
        return Transitions(**joined)

    def sample_sequences(self, number: int, *, length: int, beta: float) -> SampledSequences:
        """Samples sequences from all buffers, those of the own one first; see `ReplayBuffer.sample_sequences`."""
        parts = self._draw(number, lambda buffer, n: buffer.sample_sequences(n, length=length, beta=beta))
        weight, row = (_joined([getattr(part, name) for part in parts]) for name in ("weight", "row"))
        return SampledSequences(_joined_rollouts([part.rollout for part in parts]), weight, row)

    def steps(self, row: Tensor, *, n_step: int, gamma: float) -> WindowSteps:
        """Returns the decisions in windows, see `ReplayBuffer.steps`; in the order of buffers."""
        source, serial = row.div(SOURCE, rounding_mode="floor"), row.remainder(SOURCE)
        parts = []
        for number, buffer in enumerate(self.buffers):
            mine = (source == number).nonzero().squeeze(1)
            if len(mine):
                found = buffer.steps(serial[mine], n_step=n_step, gamma=gamma)
                parts.append(replace(found, window=mine[found.window]))
        names = WindowSteps.__dataclass_fields__
        return WindowSteps(**{name: _joined([getattr(part, name) for part in parts]) for name in names})

    def _draw(self, number: int, draw: Callable[[ReplayBuffer, int], DrawnT]) -> list[DrawnT]:
        """Samples `number` rows in all, each buffer's share from it, with the serial numbers of the mixture."""
        parts = []
        for source, count in enumerate(self._deal(number)):
            if count:
                drawn = draw(self.buffers[source], count)
                parts.append(replace(drawn, row=drawn.row + source * SOURCE))
        return parts

    def update_priorities(self, row: Tensor, priority: Tensor) -> None:
        """Updates the priorities of rows in their buffers."""
        source, serial = row.div(SOURCE, rounding_mode="floor"), row.remainder(SOURCE)
        for number, buffer in enumerate(self.buffers):
            mine = source == number
            if mine.any():
                buffer.update_priorities(serial[mine], priority[mine])

    def _deal(self, batch_size: int) -> list[int]:
        """Returns the number of rows of a batch from each buffer; empty ones contribute none."""
        shares = np.where([len(buffer) > 0 for buffer in self.buffers], self.shares, 0.0)
        if (
            not shares.any()
        ):  # the own buffer has share 0 and the others are empty, or all are empty: the own one raises
            return [batch_size, *(0 for _ in self.others)]
        due = self.owed + batch_size * shares / shares.sum()
        counts = np.floor(due).astype(np.int64)
        missing = batch_size - int(counts.sum())
        counts[np.argsort(counts - due, kind="stable")[:missing]] += 1
        self.owed = due - counts
        return [int(count) for count in counts]

    @property
    def priorities(self) -> list[tuple[float, np.ndarray]]:
        """Largest priority so far and sampling weights of each of the others."""
        return [(buffer.largest, buffer.priorities) for buffer in self.others]

    @priorities.setter
    def priorities(self, values: list[tuple[float, np.ndarray]]) -> None:
        """Restores the saved priorities."""
        for buffer, (largest, leaves) in zip(self.others, values, strict=True):
            buffer.largest = largest
            if buffer.tree is not None:
                buffer.tree.write(np.arange(buffer.first, buffer.total) % buffer.capacity, leaves)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Loads a state of `state_dict`.

        Raises:
            ConfigError: If the rows of one of the others have changed.
        """
        if tuple(state["marks"]) != self.marks:
            raise ConfigError(
                f"replay.mix = {', '.join(self.cfg.mix)}: the contents of these buffers have changed since the "
                "checkpoint was written; mix data that stay: a pinned checkpoint, or an export of rookery replay export"
            )
        super().load_state_dict(state)


def _joined(parts: Sequence[Any], axis: int = 0) -> Any:
    """Returns tensors, or trees of them, concatenated along an axis; None is left out."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    if isinstance(known[0], dict):
        return {path: torch.cat([part[path] for part in known], axis) for path in known[0]}
    return torch.cat(known, axis)


def _joined_rollouts(rollouts: Sequence[Rollout]) -> Rollout:
    """Returns the fragments of several rollouts of the same length, side by side."""
    fragments = np.cumsum([0, *(len(rollout.length) for rollout in rollouts)]).tolist()
    pairs = zip(rollouts, fragments, strict=False)
    moved = [
        rollout.boot_index + torch.tensor([0, before], dtype=torch.int64, device="cpu") for rollout, before in pairs
    ]
    by_time = ("obs", "action", "logp", "reward", "terminated", "truncated", "memory")
    by_fragment = ("last_obs", "final_obs", "slot", "clock", "length", "first", "version")
    return replace(
        rollouts[0],
        **{name: _joined([getattr(rollout, name) for rollout in rollouts], 1) for name in by_time},
        **{name: _joined([getattr(rollout, name) for rollout in rollouts]) for name in by_fragment},
        boot_index=torch.cat(moved),
    )
