"""Replay buffer: everything one policy decided lately, to be learned from again and again.

A buffer is a ring of *rows*, one for each decision, as a struct of arrays; the oldest are written over by the newest.
Rows are known by serial numbers, which grow for ever; row number = serial number modulo the capacity. Slots write their
rows in any order among each other: which row is the next decision of the same slot is linked when it comes. So windows
of n steps, and sequences, are formed when they are drawn, across the fragments that rollouts came in, and every row can
be drawn at any time. What a row says never changes, and what follows it is derived from that when rows come and go: so
a buffer that was filled from a file is the one that was saved.

An observation is stored once. What came after a row is the observation of the next row of its episode; after the last
row of a truncated episode, or the newest of a slot, an observation of its own (see `replay/observations.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import torch
from annotated_types import Interval
from torch import Tensor

from rookery.core.batch import Places, Rollout, Stored, TensorTree, Transitions, TransitionsInPlace, WindowSteps
from rookery.core.errors import RookeryError
from rookery.core.settings.fields import (
    AtStart,
    Fraction,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Scheduled,
    Settings,
    Structural,
)
from rookery.core.settings.reach import Reaches, Within
from rookery.core.spaces.arrays import ActionSpec, ObsSpec, Tree
from rookery.core.state import Stateful
from rookery.replay.budget import bytes_needed, reserve
from rookery.replay.disk import Shelf
from rookery.replay.observations import Observations, Pool
from rookery.replay.pieces import Piece, check_array, check_numbers_of_rows, part_of, piece_of, rows_in
from rookery.replay.relabel import RelabelConfig
from rookery.replay.selecting import SelectionConfig
from rookery.replay.sum_tree import SumTree

EMPTY = "the replay buffer is empty: there is nothing to draw; play first, or start from what another run has kept"

MAX_SHARE = 0.9
"""How much the largest error of a sequence counts in its priority; the rest is their mean (eta of the R2D2 paper)."""

PLAIN = ("action", "logp", "reward", "terminated", "truncated", "begins", "slot", "clock", "before")
"""Columns that a piece has as they are."""


@dataclass(frozen=True)
class ReplayConfig(Settings):
    """What is remembered of a policy's play, and how it is drawn."""

    kind: Structural[Literal["uniform", "prioritized"]] = "uniform"
    """Whether all decisions are drawn alike, or in proportion to what there was to learn from them (Schaul 2016)."""

    capacity: Structural[Annotated[PositiveInt, Within(100_000_000)]] = 100_000
    """Decisions kept; when there are more, the oldest go."""

    alpha: Annotated[float, Interval(ge=0, le=1)] = 0.6
    """Of prioritized buffers: the power a priority is raised to; 0 = all alike."""

    beta: Scheduled[Fraction] = 0.4
    """Of prioritized buffers: how far the weights of the losses make up for being drawn more often; 1 = in full."""

    priority_eps: PositiveFloat = 1e-6
    """Of prioritized buffers: added to every priority, so that each decision can be drawn."""

    frame_stacks: Structural[bool] = True
    """Whether pictures ``[K, H, W]`` that are the last K frames are stored frame by frame, each once."""

    burn_in: Structural[Annotated[NonNegativeInt, Within(65_536)]] = 0
    """Of policies that remember: decisions at the start of a sequence that only bring the buffer up to date."""

    save: Structural[bool] = True
    """Whether checkpoints hold the buffer."""

    memory_mb: Structural[Annotated[PositiveInt, Within(1_048_576)] | None] = None
    """Megabytes of RAM that the rows may take; if they are more, most lie in a file. None = any."""

    start_from: AtStart[tuple[Annotated[str, Reaches("a path")], ...]] = ()
    """Runs, checkpoints or replay directories (``PATH`` or ``PATH:policy``) whose decisions the buffer starts with."""

    select: SelectionConfig = field(default_factory=SelectionConfig)
    """Which episodes are taken of each of these."""

    relabel: RelabelConfig = field(default_factory=RelabelConfig)
    """How their rewards are made anew."""

    mix: dict[Annotated[str, Reaches("a path")], PositiveFloat] = field(default_factory=dict)
    """Such memories, only read, and the part of every batch that is drawn from each; the rest is the policy's own."""


@dataclass(frozen=True)
class SampledSequences:
    """Sequences drawn from a replay buffer.

    Attributes:
        rollout: F fragments of up to T decisions. Each has what the policy remembered before its first row, and only
            that: ``memory`` is ``[1, F, M]``. `version` is not known, and 0.
        weight: ``[F]`` importance weights; None if all count alike.
        row: ``[F]`` serial number of each fragment's first row, int64: what `update_priorities` takes.
    """

    rollout: Rollout
    weight: Tensor | None
    row: Tensor


# --- regular rollouts -------------------------------------------------------------------------------------------------
# The slots of the one before, all of them for as long, and no episode's end: most of what a buffer gets, and added with
# few copies.


def regular_piece(rollout: Rollout) -> Piece | None:
    """Returns the arrays of a rollout, named as those of a piece, its rows one after the other; None if they do not lie
    in memory like that.
    """
    rows = {name: getattr(rollout, name) for name in ("action", "logp", "reward", "terminated", "truncated")}
    rows |= {f"obs/{path}": leaf for path, leaf in rollout.obs.items()}
    if not all(tensor.is_contiguous() for tensor in rows.values()):
        return None
    others = {name: getattr(rollout, name) for name in ("slot", "clock", "length", "first")}
    others |= {f"next_obs/{path}": leaf for path, leaf in rollout.last_obs.items()}
    rows = {name: tensor.flatten(0, 1) for name, tensor in rows.items()}
    return {name: tensor.numpy() for name, tensor in (rows | others).items()}


@dataclass
class Regular:
    """Says where the slots of the last rollout stand, whose newest rows are the newest of all and ended no episode.

    Attributes:
        slot: ``[F]``.
        due: ``[F]`` clock of the next decision of each.
        newest: ``[F]`` the newest row of each.
        tails: ``[F]`` the place aside where it stands what each saw last.
        rollout: The last rollout; many come as the same object, written over.
        piece: Its arrays.
    """

    slot: np.ndarray
    due: np.ndarray
    newest: np.ndarray
    tails: np.ndarray
    rollout: Rollout
    piece: Piece | None

    def following(self, rollout: Rollout) -> Piece | None:
        """Returns the arrays of a rollout that is regular; None if it is not."""
        if rollout is not self.rollout:
            self.rollout, self.piece = rollout, regular_piece(rollout)
        steps, fragments = rollout.reward.shape
        piece = self.piece
        if piece is None or fragments != len(self.slot):
            return None
        same = piece["slot"].tobytes() == self.slot.tobytes() and piece["clock"].tobytes() == self.due.tobytes()
        whole = piece["length"].tobytes() == steps.to_bytes(8, "little") * fragments
        ends = any(1 in piece[name].tobytes() for name in ("first", "terminated", "truncated"))
        return piece if same and whole and not ends else None


# --- the buffer -------------------------------------------------------------------------------------------------------


class ReplayBuffer(Stateful):
    """Keeps what one policy decided lately, and draws from it.

    Args:
        obs: Layout of the policy's observations.
        action: Layout of its actions.
        cfg: Settings.
        rng: Decides what is drawn; the buffer's own.
        memory_size: Numbers that the policy remembers of a slot; 0 = nothing.
        memory_every: Every so many decisions of a fragment these come with a rollout.

    Attributes:
        total: Rows ever added: the serial number of the next one.
        first: Serial number of the oldest row that is there.
        full_bytes: Bytes that the rows take when the buffer is full.
        shelf: Where the rows lie: in RAM, or in files.
        observations: What was decided on, and what was seen where no row follows.
        after: ``[capacity]`` int64, what came after a row: the row of the episode's next decision; or a place aside,
            for the newest row of a slot and where the episode was cut off; or the row itself if it terminated.
        follow: ``[capacity]`` int64, the row of the slot's next decision, in whatever episode; -1 if there is none.
        stored: ``[capacity]`` int64, where in `memories` it stands what the policy remembered before a row; or -1.
        tree: What each row is drawn in proportion to; None if all rows are drawn alike.
        largest: Largest priority so far: that of new rows.
        least: Gives the smallest of all ranks' numbers, by which importance weights go; None = there is one.

    Raises:
        ConfigError: If the machine has not enough RAM for a full buffer.
    """

    saved = ("rng", "total", "first", "observations", "largest")
    fixed = (*PLAIN, "cfg", "obs_spec", "action_spec", "memory_size", "memory_every", "capacity", "full_bytes", "shelf",
             "after", "follow", "stored", "memories", "tree", "_pool", "_newest", "_due", "_regular", "_stored",
             "_floor", "_saved_first", "_saved_priorities", "least")  # fmt: skip

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
        self.capacity = capacity = cfg.capacity
        self.full_bytes = bytes_needed(
            obs, action, capacity, memory_size=memory_size, memory_every=memory_every, frame_stacks=cfg.frame_stacks
        )
        limit = None if cfg.memory_mb is None else cfg.memory_mb * 1_000_000
        self.shelf = shelf = Shelf(limit if limit is not None and self.full_bytes > limit else None)
        reserve(self, self.full_bytes if shelf.limit is None else shelf.limit, capacity)
        self.total = 0
        self.first = 0
        self.after = shelf.empty((capacity,), np.int64)  # small columns first, which are looked at most
        self.reward = shelf.empty((capacity,), np.float32)
        self.logp = shelf.empty((capacity,), np.float32)
        self.terminated = shelf.empty((capacity,), bool)
        self.truncated = shelf.empty((capacity,), bool)
        self.begins = shelf.empty((capacity,), bool)
        self.slot = shelf.empty((capacity,), np.int64)
        self.clock = shelf.empty((capacity,), np.int64)
        self.before = shelf.empty((capacity,), np.int64)
        self.action = shelf.empty((capacity, *action.shape), action.dtype)
        self.observations = Observations(obs, capacity, frame_stacks=cfg.frame_stacks, shelf=shelf)
        self.follow = np.empty(capacity if memory_size else 0, np.int64)
        self.stored = np.empty(capacity if memory_size else 0, np.int64)
        self.memories = np.empty((0, memory_size), np.float32)
        self.tree = SumTree(capacity) if cfg.kind == "prioritized" or memory_size else None
        self.largest = 1.0
        self.least: Callable[[float], float] | None = None
        self._pool = Pool()
        self._newest = np.zeros(0, np.int64)  # [slots] serial number of its newest row, or -1
        self._due = np.zeros(0, np.int64)  # [slots] clock of the decision that would follow it
        self._regular: Regular | None = None
        self._stored: Stored | None = None
        self._floor = 0  # serial number of the first row of the foreign buffer that is being appended
        self._saved_first = 0  # serial number of the oldest of the rows that are to be restored
        self._saved_priorities = np.zeros(0)  # priorities of these rows

    def __len__(self) -> int:
        return self.total - self.first

    # --- adding -------------------------------------------------------------------------------------------------------

    def add(self, rollout: Rollout) -> None:
        """Copies the valid rows of a rollout, in the order of time, and of fragments at the same time."""
        size, regular, first, total = rollout.reward.numel(), self._regular, self.first, self.total
        # the rows it goes on from are still there then, and it need not be split at the end of the ring
        fits = size + rollout.slot.shape[0] <= self.capacity and size <= self.capacity - total % self.capacity
        if regular is not None and fits and (piece := regular.following(rollout)) is not None:
            self._add_regular(regular, piece)
        else:
            slot = rollout.slot.numpy()
            self._know_slots(slot)
            newest = np.where(self._newest[slot] >= first, self._newest[slot], -1)
            self._extend(piece_of(rollout, total, newest, self._due[slot]))
            self._regular = self._regular_after(rollout)
        self._weigh(first, total)

    def _regular_after(self, rollout: Rollout) -> Regular | None:
        """Returns what a regular rollout can go on from; None if the next one has to be looked at more closely."""
        fragments = len(rollout.slot)
        rows_as_they_come = not self.memory_size and not self.observations.are_stacked
        every = rows_as_they_come and 0 < rollout.reward.numel() == rollout.num_decisions <= self.capacity
        newest = np.arange(self.total - fragments, self.total) % self.capacity
        if not every or len(set(self.slot[newest].tolist())) < fragments or (self.after[newest] < self.capacity).any():
            return None
        stand = self.slot[newest], self.clock[newest] + 1, newest, self.after[newest]
        return Regular(*stand, rollout, regular_piece(rollout))

    def _add_regular(self, regular: Regular, piece: Piece) -> None:
        """Adds the rows of a regular rollout, with the same outcome as `_extend`."""
        start, size, fragments = self.total % self.capacity, rows_in(piece), len(regular.slot)
        end, steps = start + size, size // fragments
        self.evict(self.total + size - self.capacity)
        for name in ("action", "logp", "reward"):
            getattr(self, name)[start:end] = piece[name]
        self.terminated[start:end] = self.truncated[start:end] = self.begins[start:end] = False
        self.slot[start:end].reshape(steps, fragments)[...] = regular.slot
        np.add.outer(np.arange(steps), regular.due, out=self.clock[start:end].reshape(steps, fragments))
        self.before[start:end] = fragments
        rows = np.arange(start, end)
        self.after[regular.newest] = rows[:fragments]
        self.after[start : end - fragments] = rows[fragments:]
        regular.newest = rows[size - fragments :]
        self.after[regular.newest] = regular.tails
        self.observations.write(slice(start, end), piece)
        self.observations.write_aside(regular.tails, piece)
        self.total += size
        regular.due += steps
        self._due[regular.slot] = regular.due
        self._newest[regular.slot] = np.arange(self.total - fragments, self.total)

    def _know_slots(self, slot: np.ndarray) -> None:
        """Makes places for these slots in what is known of slots."""
        size = int(slot.max(initial=-1)) + 1
        if size > len(self._newest):
            more = np.full(max(size, 2 * len(self._newest)) - len(self._newest), -1)
            self._newest = np.concatenate((self._newest, more))
            self._due = np.concatenate((self._due, more))

    def _extend(self, piece: Piece) -> None:
        """Adds the rows of a piece, which come next."""
        size, most, on_disk = rows_in(piece), self.capacity, self.shelf.limit is not None
        if on_disk:
            most = min(most, self.shelf.rows_at_once(self.full_bytes // self.capacity) or size)
        for start in range(0, size, max(most, 1)):
            part = piece if size <= most else part_of(piece, start, min(start + most, size))
            if on_disk:
                self.shelf.give_back()
            if self.observations.are_stacked:
                part = self.observations.fitted(part, self._tails(part), self.first, self.total)
            self._write(part)

    def _tails(self, piece: Piece) -> np.ndarray:
        """``[n]`` where it stands what was last seen of each row's slot, if that was before the piece; else -1."""
        previous = self.total + np.arange(rows_in(piece)) - piece["before"]
        there = (previous >= self.first) & (previous < self.total) & ~piece["begins"]
        tails = np.where(there, self.after[previous % self.capacity], -1)
        return np.where(tails >= self.capacity, tails, -1)

    def _write(self, piece: Piece) -> None:
        """Adds at most `capacity` rows, and lets the rows before them know what follows."""
        size = rows_in(piece)
        serial = np.arange(self.total, self.total + size)
        rows = serial % self.capacity
        self.evict(self.total + size - self.capacity)
        for name in PLAIN:
            getattr(self, name)[rows] = piece[name]
        self.observations.write(rows, piece)
        self.total += size
        self.after[rows] = np.where(piece["terminated"], rows, -1)
        self.after[rows[piece["next_row"]]] = self.observations.keep_aside(piece)
        before = piece["before"]
        linked = (before > 0) & (serial - before >= self.first)
        following, previous = rows[linked], (serial - before)[linked] % self.capacity
        if self.memory_size:
            self._remember(rows, piece)
            self.follow[previous] = following
        # where an episode begins that did not end, it was cut off: then what was seen last stays aside
        goes_on = ~(self.terminated[previous] | self.truncated[previous] | self.begins[following])
        previous = previous[goes_on]
        self.observations.release(self.after[previous])
        self.after[previous] = following[goes_on]
        mine = piece["slot"] >= 0
        self._know_slots(piece["slot"])
        self._newest[piece["slot"][mine]] = serial[mine]  # of equal slots the last one counts
        self._due[piece["slot"][mine]] = piece["clock"][mine] + 1
        self.evict(self.observations.oldest(self.first, self.total))

    def _remember(self, rows: np.ndarray, piece: Piece) -> None:
        """Copies what the policy remembered before some of these rows."""
        self.follow[rows] = -1
        self.stored[rows] = -1
        places = self._pool.take(len(piece["memory_row"]))
        if self._pool.size > len(self.memories):
            grown = np.empty((self._pool.size, self.memory_size), np.float32)
            grown[: len(self.memories)] = self.memories
            self.memories = grown
        self.memories[places] = piece["memory"]
        self.stored[rows[piece["memory_row"]]] = places

    def evict(self, serial: int) -> None:
        """Forgets the rows before a serial number."""
        if serial <= self.first:
            return
        rows = np.arange(self.first, min(serial, self.total)) % self.capacity
        self.observations.release(self.after.take(rows))
        if self.memory_size:
            stored = self.stored[rows]
            self._pool.give(stored[stored >= 0])
        self.first = min(serial, self.total)

    def _weigh(self, first: int, total: int) -> None:
        """Lets rows be drawn that came since `first` and `total` were these, and no longer those that went since."""
        if self.tree is None:
            return
        gone = np.arange(max(first, self.total - self.capacity), self.first)
        if len(gone):
            self.tree.write(gone % self.capacity, 0.0)
        rows = np.arange(max(total, self.first), self.total) % self.capacity
        value: np.ndarray | float = 1.0 if self.cfg.kind == "uniform" else self._raised(self.largest)
        if self.memory_size:
            value = np.where(self.stored[rows] >= 0, value, 0.0)
        self.tree.write(rows, value)

    def _raised(self, priority: Any) -> Any:
        return (priority + self.cfg.priority_eps) ** self.cfg.alpha

    # --- drawing ------------------------------------------------------------------------------------------------------

    def sample(self, batch_size: int, *, n_step: int, gamma: float, beta: float) -> Transitions:
        """Draws decisions with replacement, each with what came of it.

        Args:
            batch_size: N.
            n_step: The most decisions in a window; see `n_step_windows`.
            gamma: Discount of a step.
            beta: Exponent of the importance weights; of prioritized buffers.

        Raises:
            RookeryError: If the buffer is empty.
        """
        if self.shelf.limit is not None:
            self.shelf.look(batch_size)
        serial, rows, weight = self._draw(batch_size, beta)
        reward, discount, following = n_step_windows(rows, self.after, self.reward, n_step=n_step, gamma=gamma)
        numbers = torch.from_numpy(reward), torch.from_numpy(discount), weight, torch.from_numpy(serial)
        stored = self._in_place()
        if stored is not None and following.max() < self.capacity:
            if self.shelf.limit is not None:
                self.shelf.look(2 * batch_size)  # by whoever reads them in their places
            return TransitionsInPlace.at(Places(stored, rows, following), *numbers)
        return Transitions(
            tensors(self.observations.gather_rows(rows)),
            torch.from_numpy(self.action.take(rows, axis=0)),
            numbers[0],
            tensors(self.observations.gather(following)),
            *numbers[1:],
        )

    def _in_place(self) -> Stored | None:
        """Returns the arrays in which rows lie; None where observations are not stored whole."""
        leaves, stored = self.observations.leaves, self._stored
        if stored is None or any(leaf.rows is not stored.obs[path] for path, leaf in leaves.items()):
            if self.observations.are_stacked:
                return None
            self._stored = stored = Stored({path: leaf.rows for path, leaf in leaves.items()}, self.action)
        return stored

    def steps(self, row: Tensor, *, n_step: int, gamma: float) -> WindowSteps:
        """Returns the decisions that windows consist of.

        Args:
            row: ``[N]`` serial numbers of the rows at which windows begin, as in `Transitions.row`.
            n_step: The most decisions in a window.
            gamma: Discount of a step.
        """
        rows = row.numpy() % self.capacity
        window, discount = np.arange(len(rows)), np.ones(len(rows), np.float32)
        parts = [(rows, window, discount)]
        for _ in range(n_step - 1):
            following = self.after.take(rows)
            goes_on = (following != rows) & (following < self.capacity)
            rows, window, discount = following[goes_on], window[goes_on], discount[goes_on] * np.float32(gamma)
            parts.append((rows, window, discount))
        rows, window, discount = (np.concatenate(column) for column in zip(*parts, strict=True))
        following = self.after.take(rows)
        return WindowSteps(
            obs=tensors(self.observations.gather_rows(rows)),
            action=torch.from_numpy(self.action.take(rows, axis=0)),
            next_obs=tensors(self.observations.gather(following)),
            terminated=torch.from_numpy(following == rows),
            window=torch.from_numpy(window),
            discount=torch.from_numpy(discount),
        )

    def _draw(self, number: int, beta: float) -> tuple[np.ndarray, np.ndarray, Tensor | None]:
        """Draws rows and returns their serial numbers, row numbers and importance weights."""
        if not (len(self) if self.tree is None else self.tree.total):
            raise RookeryError(EMPTY)
        if self.tree is None:
            serial = self.rng.integers(self.first, self.total, number)
            return serial, serial % self.capacity, None
        # one from each of as many equal parts of the total, which varies less than all from the whole
        rows = self.tree.draw((np.arange(number) + self.rng.random(number)) / number)
        if self.cfg.kind == "uniform":
            return self.serial_of(rows), rows, None
        return self.serial_of(rows), rows, self._weights(self.tree.leaves[rows], beta)

    def _weights(self, chance: np.ndarray, beta: float) -> Tensor:
        """Importance weights of rows that were drawn in proportion to this: (N P)^-beta over the largest of the batch,
        in which N cancels.
        """
        if self.least is None:
            least = chance.min()
        else:  # each rank draws as many from its own
            assert self.tree is not None
            chance = chance / self.tree.total
            least = self.least(float(chance.min()))
        return torch.from_numpy(((chance / least) ** -beta).astype(np.float32))

    def sample_sequences(self, number: int, *, length: int, beta: float) -> SampledSequences:
        """Draws sequences of one slot each, among the rows for which it is known what the policy remembered.

        A sequence may span episodes, and is shorter than `length` where nothing newer is known of its slot.

        Args:
            number: F.
            length: T, the most decisions in a sequence, burn-in included.
            beta: Exponent of the importance weights; of prioritized buffers.

        Raises:
            RookeryError: If there is no such row.
        """
        if not self.memory_size:
            raise RookeryError("sequences are for policies that remember: this one does not; use sample")
        serial, rows, weight = self._draw(number, beta)
        return SampledSequences(self._read_sequences(rows, length), weight, torch.from_numpy(serial))

    def _read_sequences(self, rows: np.ndarray, length: int) -> Rollout:
        """Returns the decisions from these rows on as fragments of at most `length`."""
        at = np.empty((length, len(rows)), np.int64)
        if self.shelf.limit is not None:
            self.shelf.look(at.size)
        at[0] = rows
        valid = np.ones(at.shape, bool)
        for t in range(1, length):
            following = self.follow.take(at[t - 1])
            valid[t] = valid[t - 1] & (following >= 0)
            at[t] = np.where(valid[t], following, at[t - 1])
        lengths = valid.sum(axis=0)
        after = self.after[at]
        terminated = self.terminated[at] & valid
        # an episode that was cut off without a word ended with what was seen last, as a truncated one does
        aside = after >= self.capacity
        truncated = aside & (self.truncated[at] | (self.follow[at] >= 0)) & valid
        boot = np.argwhere(truncated)
        obs = self.observations.gather_rows(at.reshape(-1))
        ends = after[lengths - 1, np.arange(len(rows))]
        return Rollout(
            obs={path: torch.from_numpy(leaf.reshape(*at.shape, *leaf.shape[1:])) for path, leaf in obs.items()},
            action=torch.from_numpy(self.action[at]),
            logp=torch.from_numpy(self.logp[at]),
            reward=torch.from_numpy(np.where(valid, self.reward[at], np.float32(0))),
            terminated=torch.from_numpy(terminated),
            truncated=torch.from_numpy(truncated),
            last_obs=tensors(self.observations.gather(ends)),
            final_obs=tensors(self.observations.gather(after[boot[:, 0], boot[:, 1]])),
            boot_index=torch.from_numpy(boot),
            slot=torch.from_numpy(self.slot[rows]),
            clock=torch.from_numpy(self.clock[rows]),
            length=torch.from_numpy(lengths),
            first=torch.from_numpy(self.begins[rows]),
            version=torch.zeros(len(rows), dtype=torch.int64, device="cpu"),
            memory=torch.from_numpy(self.memories[self.stored[rows]][None]),
            memory_every=length,
        )

    def update_priorities(self, row: Tensor, priority: Tensor) -> None:
        """Notes how much there was to learn from rows: their errors' sizes, say. Uniform buffers pass over it.

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
        kept = (serial >= self.first) & (serial < self.total) & np.isfinite(value)
        serial, value = serial[kept], value[kept]
        if (least := value.min(initial=0.0)) < 0:
            raise RookeryError(f"a priority of {least}: it must be at least 0, as the size of an error is")
        self.largest = max(self.largest, float(value.max(initial=0.0)))
        self.tree.write(serial % self.capacity, self._raised(value))

    @property
    def priorities(self) -> np.ndarray:
        """What the rows that are there are drawn in proportion to, oldest first; empty if all are drawn alike."""
        if self.tree is None:
            return np.zeros(0)
        return self.tree.leaves[np.arange(self.first, self.total) % self.capacity]

    # --- as arrays, for files -----------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Returns everything but the rows, which are saved by themselves: see `rows_between`."""
        return {**super().state_dict(), "priorities": self.priorities}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave; the buffer is empty until `restore` brings the rows."""
        state = dict(state)
        self._saved_priorities = state.pop("priorities")
        super().load_state_dict(state)
        self._saved_first = self.first
        self._clear(self.total)
        if self.tree is not None:
            self.tree = SumTree(self.capacity)

    def _clear(self, serial: int) -> None:
        """Forgets all; the next row has this serial number."""
        self.observations.pool, self._pool = Pool(), Pool()
        self._regular = None
        self.first = self.total = serial
        self._newest = np.zeros(0, np.int64)
        self._due = np.zeros(0, np.int64)

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
        if not self.first <= first <= last <= self.total:
            raise RookeryError(f"rows {first} to {last - 1} are not all there: it has {self.first} to {self.total - 1}")
        rows = np.arange(first, last) % self.capacity
        piece = {"serial": np.array([first])} | {name: getattr(self, name)[rows] for name in PLAIN}
        after = self.after[rows]
        beyond = (after >= self.capacity) | (self.serial_of(after) >= last)
        which = np.flatnonzero(beyond & ~piece["terminated"])
        piece["next_row"] = which
        piece |= self.observations.export(rows, after[which])
        if self.memory_size:
            stored = self.stored[rows]
            piece["memory_row"] = np.flatnonzero(stored >= 0)
            piece["memory"] = self.memories[stored[stored >= 0]]
        return piece

    def serial_of(self, rows: np.ndarray) -> np.ndarray:
        """Serial numbers ``[N]`` of what is in these rows."""
        newest = self.total - 1
        return newest - (newest - rows) % self.capacity

    def restore(self, pieces: Iterable[Piece]) -> None:
        """Takes back the rows of this very buffer, after `load_state_dict`, which alone leaves it empty.

        Serial numbers stay what they were, so that the next draws are those of the buffer that was saved. If the
        capacity is another one by now, the newest rows that fit are kept.

        Args:
            pieces: From `rows_between`, each beginning where the one before it ended, the last one ending at `total`;
                they may begin before `first` (what is older is passed over).

        Raises:
            RookeryError: If they do not fit together or to this policy.
        """
        total = self.total
        self._clear(max(self._saved_first, total - self.capacity))
        for piece in pieces:
            self._check(piece)
            start = self.total - int(piece["serial"][0])
            if start < 0:
                raise RookeryError(f"the rows from {self.total} to {self.total - start - 1} of the buffer are missing")
            if start < rows_in(piece):
                self._extend(part_of(piece, start, rows_in(piece)) if start else piece)
        if self.total != total:
            raise RookeryError(f"the buffer ends at row {self.total - 1}, and should at {total - 1}")
        self._check_whole(self.first)
        self._weigh(self.first, self.first)
        if self.tree is not None and self.cfg.kind == "prioritized" and len(self._saved_priorities) >= len(self):
            rows = np.arange(self.first, self.total) % self.capacity
            self.tree.write(rows, self._saved_priorities[len(self._saved_priorities) - len(self) :])
        self._saved_priorities = np.zeros(0)

    def append(self, piece: Piece, *, continues: bool) -> None:
        """Adds rows of any buffer as new ones, under new serial numbers.

        Args:
            piece: From the `rows_between` of a buffer of the same spaces.
            continues: Its rows follow those of the piece appended just before, in the buffer they come from: decisions
                of the same slots are linked. Otherwise its slots are others.

        Raises:
            RookeryError: If the piece does not fit to this policy.
        """
        self._check(piece)
        first, total = self.first, self.total
        self._regular = None
        if not continues:
            self._floor = self.total
        reach = np.arange(rows_in(piece)) + self.total - self._floor
        slot = piece["slot"]
        # negative, so that no rollout's slot goes on where a foreign one ended
        own = {"slot": np.where(slot < 0, slot, ~slot), "before": np.where(piece["before"] > reach, 0, piece["before"])}
        self._extend(self.observations.foreign(piece | own))
        self._check_whole(total)
        self._weigh(first, total)

    def _check(self, piece: Piece) -> None:
        """Sees that a piece has what the buffer keeps, in the same layout."""
        for name in PLAIN:
            array = getattr(self, name)
            check_array(piece, name, array.shape[1:], array.dtype)
        check_array(piece, "next_row", (), np.dtype(np.int64))
        self.observations.check(piece)
        check_numbers_of_rows(piece, PLAIN)
        if self.memory_size:
            check_array(piece, "memory_row", (), np.dtype(np.int64))
            check_array(piece, "memory", (self.memory_size,), self.memories.dtype)

    def _check_whole(self, first: int) -> None:
        """Sees that of every row with a serial number from this one on it is known what followed."""
        starts = range(max(first, self.first), self.total, 1 << 20)
        blocks = (np.arange(start, min(start + starts.step, self.total)) % self.capacity for start in starts)
        if lost := sum(int((self.after[rows] < 0).sum()) for rows in blocks):
            raise RookeryError(f"of {lost} rows it is not known what followed: they were not saved by `rows_between`")


def tensors(tree: Tree) -> TensorTree:
    """Returns an observation as tensors that share its arrays."""
    return {path: torch.from_numpy(leaf) for path, leaf in tree.items()}


def n_step_windows(
    rows: np.ndarray, after: np.ndarray, reward: np.ndarray, *, n_step: int, gamma: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Windows of up to n decisions, each beginning at one of `rows` and stopping where its episode does.

    A window is also shorter where nothing newer is known of its slot; it then bootstraps from what was seen there.

    Args:
        rows: ``[N]`` where they begin.
        after: ``[capacity]`` the row of the episode's next decision; or a place at or above `capacity`, where what was
            seen last is kept; or the row itself, where the episode terminated.
        reward: ``[capacity]``.
        n_step: The most decisions in a window.
        gamma: Discount of a step.

    Returns:
        The discounted sum of the rewards, float32 ``[N]``; gamma to the power of the decisions in the window, 0 if the
        episode terminated in it, float32 ``[N]``; and the place of what was seen after it ``[N]``.
    """
    last = rows
    following = after.take(rows)
    if n_step == 1:
        return reward.take(rows), (following != rows) * np.float32(gamma), following
    total = reward.take(rows).astype(np.float64)
    discount = np.full(len(rows), gamma)
    for _ in range(n_step - 1):
        goes_on = (following != last) & (following < len(after))
        last = np.where(goes_on, following, last)
        total += np.where(goes_on, discount * reward.take(last), 0.0)
        discount *= np.where(goes_on, gamma, 1.0)
        following = after.take(last)
    discount[following == last] = 0.0
    return total.astype(np.float32), discount.astype(np.float32), following


def sequence_priorities(priority: Tensor, fragment: Tensor, fragments: int) -> tuple[Tensor, Tensor]:
    """Returns sequences 0.9 times the largest and 0.1 times the mean of the priorities of their rows.

    Args:
        priority: ``[N]`` of rows.
        fragment: ``[N]`` the sequence that each row is of.
        fragments: F, how many sequences there are.

    Returns:
        The sequences that have rows ``[B]``, and their priorities ``[B]``.
    """
    largest = priority.new_zeros(fragments).scatter_reduce_(0, fragment, priority, "amax")
    total = priority.new_zeros(fragments).index_add_(0, fragment, priority)
    count = torch.bincount(fragment, minlength=fragments)
    mixed = MAX_SHARE * largest + (1 - MAX_SHARE) * total / count.clamp(min=1)
    present = count.nonzero().squeeze(1)
    return present, mixed[present]
