"""Replay memory: everything one policy decided lately, to be learned from again and again.

A memory is a ring of *rows*, one for each decision, as a struct of arrays. Rows are known by serial numbers, which grow
for ever; row number = serial number modulo the capacity. Slots write their rows in any order among each other: which
row is the next decision of the same slot is linked when it comes. So windows of n steps, and sequences, are formed when
they are drawn, across the fragments that rollouts came in, and every row can be drawn at any time.

An observation is stored once. What came after a row is the observation of the next row of its episode; after the last
row of a truncated episode, or the newest of a slot, an observation of its own (see `replay/observations.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import torch
from annotated_types import Interval
from torch import Tensor

from rookery.core.batch import Rollout, Transitions
from rookery.core.errors import RookeryError
from rookery.core.settings import (
    AtStart,
    Fraction,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Scheduled,
    Settings,
    Structural,
)
from rookery.core.spaces import ActionSpec, ObsSpec
from rookery.core.state import Stateful
from rookery.replay.pieces import Piece
from rookery.replay.ring import Ring
from rookery.replay.room import bytes_needed, reserve
from rookery.replay.sequences import SampledSequences, read_sequences, tensors
from rookery.replay.sum_tree import SumTree
from rookery.replay.windows import n_step_windows

EMPTY = "the replay memory is empty: there is nothing to draw; play first, or load a memory"


@dataclass(frozen=True)
class ReplayConfig(Settings):
    """What is remembered of a policy's play, and how it is drawn."""

    kind: Structural[Literal["uniform", "prioritized"]] = "uniform"
    """Whether all decisions are drawn alike, or in proportion to what there was to learn from them (Schaul 2016)."""

    capacity: Structural[PositiveInt] = 100_000
    """Decisions kept; when there are more, the oldest go."""

    alpha: Annotated[float, Interval(ge=0, le=1)] = 0.6
    """Of prioritized memories: the power a priority is raised to; 0 = all alike."""

    beta: Scheduled[Fraction] = 0.4
    """Of prioritized memories: how far the weights of the losses make up for being drawn more often; 1 = in full."""

    priority_eps: PositiveFloat = 1e-6
    """Of prioritized memories: added to every priority, so that each decision can be drawn."""

    frame_stacks: Structural[bool] = True
    """Whether pictures ``[K, H, W]`` that are the last K frames are stored frame by frame, each once."""

    burn_in: Structural[NonNegativeInt] = 0
    """Of policies that remember: decisions at the start of a sequence that only bring the memory up to date."""

    save: Structural[bool] = True
    """Whether checkpoints hold the memory."""

    start_from: AtStart[tuple[str, ...]] = ()
    """Runs, checkpoints or memory directories (``PATH`` or ``PATH:policy``) whose decisions the memory starts with."""

    mix: dict[str, PositiveFloat] = field(default_factory=dict)
    """Such memories, only read, and the part of every batch that is drawn from each; the rest is the policy's own."""


class ReplayMemory(Stateful):
    """What one policy decided lately.

    Args:
        obs: Layout of the policy's observations.
        action: Layout of its actions.
        cfg: Settings.
        rng: Decides what is drawn; the memory's own.
        memory_size: Numbers that the policy remembers of a slot; 0 = nothing.
        memory_every: Every so many decisions of a fragment these come with a rollout.

    Raises:
        ConfigError: If the machine has not enough memory for it.
    """

    saved = ("rng", "ring", "largest")
    fixed = ("cfg", "obs_spec", "action_spec", "memory_size", "memory_every", "tree", "_absent")

    def __init__(
        self,
        obs: ObsSpec,
        action: ActionSpec,
        cfg: ReplayConfig,
        rng: np.random.Generator,
        *,
        memory_size: int,
        memory_every: int,
    ) -> None:
        self.cfg = cfg
        self.obs_spec = obs
        self.action_spec = action
        self.rng = rng
        self.memory_size = memory_size
        self.memory_every = memory_every
        needed = bytes_needed(
            obs,
            action,
            cfg.capacity,
            memory_size=memory_size,
            memory_every=memory_every,
            frame_stacks=cfg.frame_stacks,
        )
        reserve(self, needed, cfg.capacity)
        self.ring = Ring(obs, action, cfg.capacity, memory_size=memory_size, frame_stacks=cfg.frame_stacks)
        self.tree = SumTree(cfg.capacity) if cfg.kind == "prioritized" or memory_size else None
        """Of what each row is drawn in proportion to; None if all rows are drawn alike."""
        self.largest = 1.0
        """Largest priority so far: that of new rows."""
        self._absent = np.zeros(0)  # priorities of the rows that are to be restored

    def __len__(self) -> int:
        return len(self.ring)

    @property
    def total(self) -> int:
        """Rows ever added: the serial number of the next one."""
        return self.ring.total

    @property
    def first(self) -> int:
        """Serial number of the oldest row that is there."""
        return self.ring.first

    def add(self, rollout: Rollout) -> None:
        """Copies the valid rows of a rollout, in the order of time, and of fragments at the same time."""
        first, total = self.ring.first, self.ring.total
        self.ring.add(rollout)
        self._weigh(first, total)

    def _weigh(self, first: int, total: int) -> None:
        """Lets rows be drawn that were added since the ring had these bounds, and those that went since be no more."""
        if self.tree is None:
            return
        ring = self.ring
        gone = np.arange(max(first, ring.total - ring.capacity), ring.first)
        if len(gone):
            self.tree.write(gone % ring.capacity, 0.0)
        rows = np.arange(max(total, ring.first), ring.total) % ring.capacity
        value: np.ndarray | float = 1.0 if self.cfg.kind == "uniform" else self._raised(self.largest)
        if self.memory_size:
            value = np.where(ring.stored[rows] >= 0, value, 0.0)
        self.tree.write(rows, value)

    def _raised(self, priority: Any) -> Any:
        return (priority + self.cfg.priority_eps) ** self.cfg.alpha

    def sample(self, batch_size: int, *, n_step: int, gamma: float, beta: float) -> Transitions:
        """Decisions drawn with replacement, each with what came of it.

        Args:
            batch_size: N.
            n_step: The most decisions in a window; see `replay/windows.py`.
            gamma: Discount of a step.
            beta: Exponent of the importance weights; of prioritized memories.

        Raises:
            RookeryError: If the memory is empty.
        """
        serial, rows, weight = self._draw(batch_size, beta)
        ring = self.ring
        reward, discount, following = n_step_windows(rows, ring.after, ring.reward, n_step=n_step, gamma=gamma)
        return Transitions(
            obs=tensors(ring.observations.gather_rows(rows)),
            action=torch.from_numpy(ring.action.take(rows, axis=0)),
            reward=torch.from_numpy(reward),
            next_obs=tensors(ring.observations.gather(following)),
            discount=torch.from_numpy(discount),
            weight=weight,
            row=torch.from_numpy(serial),
        )

    def _draw(self, number: int, beta: float) -> tuple[np.ndarray, np.ndarray, Tensor | None]:
        """Serial numbers, row numbers and importance weights of rows that were drawn."""
        ring = self.ring
        if self.tree is None:
            if not len(ring):
                raise RookeryError(EMPTY)
            serial = self.rng.integers(ring.first, ring.total, number)
            return serial, serial % ring.capacity, None
        if not self.tree.total:
            raise RookeryError(EMPTY)
        # one from each of as many equal parts of the total, which varies less than all from the whole
        rows = self.tree.draw((np.arange(number) + self.rng.random(number)) / number)
        if self.cfg.kind == "uniform":
            return ring.serial_of(rows), rows, None
        chance = self.tree.leaves[rows]
        weight = (chance / chance.min()) ** -beta  # (N P)^-beta over the largest of the batch: N cancels
        return ring.serial_of(rows), rows, torch.from_numpy(weight.astype(np.float32))

    def sample_sequences(self, number: int, *, length: int, beta: float) -> SampledSequences:
        """Sequences of one slot each, drawn among the rows for which it is known what the policy remembered.

        A sequence may span episodes, and is shorter than `length` where nothing newer is known of its slot.

        Args:
            number: F.
            length: T, the most decisions in a sequence, burn-in included.
            beta: Exponent of the importance weights; of prioritized memories.

        Raises:
            RookeryError: If there is no such row.
        """
        if not self.memory_size:
            raise RookeryError("sequences are for policies that remember: this one does not; use sample")
        serial, rows, weight = self._draw(number, beta)
        return SampledSequences(read_sequences(self.ring, rows, length), weight, torch.from_numpy(serial))

    def update_priorities(self, row: Tensor, priority: Tensor) -> None:
        """Notes how much there was to learn from rows: their errors' sizes, say. Uniform memories pass over it.

        Args:
            row: ``[N]`` serial numbers, as in `Transitions.row`. Rows that are gone are passed over; of equal ones the
                last counts.
            priority: ``[N]`` at least 0. Those that are not finite are passed over.

        Raises:
            RookeryError: If one is below 0.
        """
        if self.cfg.kind == "uniform" or self.tree is None:
            return
        serial, value = row.cpu().numpy(), priority.detach().cpu().numpy().astype(np.float64)
        kept = (serial >= self.ring.first) & (serial < self.ring.total) & np.isfinite(value)
        serial, value = serial[kept], value[kept]
        if (least := value.min(initial=0.0)) < 0:
            raise RookeryError(f"a priority of {least}: it must be at least 0, as the size of an error is")
        self.largest = max(self.largest, float(value.max(initial=0.0)))
        self.tree.write(serial % self.ring.capacity, self._raised(value))

    @property
    def priorities(self) -> np.ndarray:
        """What the rows that are there are drawn in proportion to, oldest first; empty if all are drawn alike."""
        if self.tree is None:
            return np.zeros(0)
        return self.tree.leaves[np.arange(self.first, self.total) % self.ring.capacity]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the rows, which are saved by themselves: see `rows_between`."""
        return {**super().state_dict(), "priorities": self.priorities}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave; the memory is empty until `restore` brings the rows."""
        state = dict(state)
        self._absent = state.pop("priorities")
        super().load_state_dict(state)
        if self.tree is not None:
            self.tree = SumTree(self.ring.capacity)

    # --- as arrays, for files -----------------------------------------------------------------------------------------

    def rows_between(self, first: int, last: int) -> Piece:
        """Copies of the rows with serial numbers from `first` up to but not `last`, complete in themselves.

        A piece never changes any more: where rows that are added later follow its last ones, these are what came next
        when both are put together, and not what the piece says of it. n rows; by name:

        - ``serial`` int64 ``[1]``: `first`.
        - ``obs/PATH`` ``[n, ...]`` for each leaf that is stored whole.
        - ``stack/PATH`` int64 ``[n, K]`` for each leaf that is stored frame by frame: numbers of the frames of each
          observation, oldest first; ``base/PATH`` int64 ``[n]``, how many frames there were before each row;
          ``frame/PATH`` ``[m, H, W]`` those frames that are in the piece, and ``number/PATH`` int64 ``[m]`` their
          numbers, ascending.
        - ``action`` ``[n, ...]``, ``logp`` float32 ``[n]``, ``reward`` float32 ``[n]``, ``terminated``, ``truncated``
          and ``begins`` (the episode begins here) bool ``[n]``.
        - ``slot``, ``clock`` int64 ``[n]``, and ``before`` int64 ``[n]``: how many rows ago the slot's decision before
          this one was; 0 if there was none, or it was gone.
        - ``next_row`` int64 ``[q]``: which rows of the piece (from 0) are followed by none in it, without having
          terminated; and what was seen after them: ``next_obs/PATH`` ``[q, ...]``, or ``next_stack/PATH`` ``[q, K]``.
        - Of policies that remember: ``memory_row`` int64 ``[p]``, rows of the piece with a stored memory, and
          ``memory`` float32 ``[p, M]``, what was remembered before them.

        Raises:
            RookeryError: If some of them are not there.
        """
        return self.ring.rows_between(first, last)

    def restore(self, pieces: Iterable[Piece]) -> None:
        """Takes back the rows of this very memory, after `load_state_dict`, which alone leaves it empty.

        Serial numbers stay what they were, so that the next draws are those of the memory that was saved. If the
        capacity is another one by now, the newest rows that fit are kept.

        Args:
            pieces: From `rows_between`, each beginning where the one before it ended, the last one ending at `total`;
                they may begin before `first` (what is older is passed over).

        Raises:
            RookeryError: If they do not fit together or to this policy.
        """
        self.ring.restore(pieces)
        self._weigh(self.first, self.first)
        if self.tree is not None and self.cfg.kind == "prioritized" and len(self._absent) >= len(self):
            rows = np.arange(self.first, self.total) % self.ring.capacity
            self.tree.write(rows, self._absent[len(self._absent) - len(self) :])
        self._absent = np.zeros(0)

    def append(self, piece: Piece, *, continues: bool) -> None:
        """Adds rows of any memory as new ones, under new serial numbers.

        Args:
            piece: From the `rows_between` of a memory of the same spaces.
            continues: Its rows follow those of the piece appended just before, in the memory they come from: decisions
                of the same slots are linked. Otherwise its slots are others.

        Raises:
            RookeryError: If the piece does not fit to this policy.
        """
        first, total = self.ring.first, self.ring.total
        self.ring.append(piece, continues)
        self._weigh(first, total)
