"""The rows of a replay memory: a ring of decisions as a struct of arrays, and how they are linked.

What a row says never changes. What follows it is derived from that when rows come and go, so that a ring that was
filled from a file is the one that was saved.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from rookery.core.batch import Rollout
from rookery.core.errors import RookeryError
from rookery.core.spaces import ActionSpec, ObsSpec
from rookery.core.state import Stateful
from rookery.replay.observations import Observations, Pool
from rookery.replay.pieces import Piece, check_array, part_of, piece_of, rows_in
from rookery.replay.steady import Steady, Views

PLAIN = ("action", "logp", "reward", "terminated", "truncated", "begins", "slot", "clock", "before")
"""Columns that a piece has as they are."""


class Ring(Stateful):
    """Rows in the order in which they came, the oldest written over by the newest.

    Attributes:
        total: Rows ever added: the serial number of the next one.
        first: Serial number of the oldest row that is there.
        observations: What was decided on, and what was seen where no row follows.
        after: ``[capacity]`` int64, what came after a row: the row of the episode's next decision; or a place aside,
            for the newest row of a slot and where the episode was cut off; or the row itself if it terminated.
        follow: ``[capacity]`` int64, the row of the slot's next decision, in whatever episode; -1 if there is none.
        stored: ``[capacity]`` int64, where in `memories` it stands what the policy remembered before a row; or -1.
    """

    saved = ("total", "first", "observations")
    fixed = (*PLAIN, "capacity", "memory_size", "after", "follow", "stored", "memories", "_pool",
             "_newest", "_due", "_steady", "_absent", "_floor")  # fmt: skip

    def __init__(
        self, obs: ObsSpec, action: ActionSpec, capacity: int, *, memory_size: int, frame_stacks: bool
    ) -> None:
        self.capacity = capacity
        self.memory_size = memory_size
        self.total = 0
        self.first = 0
        self.observations = Observations(obs, capacity, frame_stacks=frame_stacks)
        self.action = np.empty((capacity, *action.shape), action.dtype)
        self.logp = np.empty(capacity, np.float32)
        self.reward = np.empty(capacity, np.float32)
        self.terminated = np.empty(capacity, bool)
        self.truncated = np.empty(capacity, bool)
        self.begins = np.empty(capacity, bool)
        self.slot = np.empty(capacity, np.int64)
        self.clock = np.empty(capacity, np.int64)
        self.before = np.empty(capacity, np.int64)
        self.after = np.empty(capacity, np.int64)
        self.follow = np.empty(capacity if memory_size else 0, np.int64)
        self.stored = np.empty(capacity if memory_size else 0, np.int64)
        self.memories = np.empty((0, memory_size), np.float32)
        self._pool = Pool()
        self._newest = np.zeros(0, np.int64)  # [slots] serial number of its newest row, or -1
        self._due = np.zeros(0, np.int64)  # [slots] clock of the decision that would follow it
        self._steady: Steady | None = None
        self._absent = 0  # serial number of the oldest row of the memory that was saved, and is to be restored
        self._floor = 0  # serial number of the first row of the foreign memory that is being appended

    def __len__(self) -> int:
        return self.total - self.first

    # --- coming and going ---------------------------------------------------------------------------------------------

    def add(self, rollout: Rollout) -> None:
        """Copies the valid rows of a rollout, in the order of time, and of fragments at the same time."""
        size, steady = rollout.reward.numel(), self._steady
        # the rows it goes on from are still there then, and it need not be split at the end of the ring
        fits = size + len(rollout.slot) <= self.capacity and size <= self.capacity - self.total % self.capacity
        if steady is not None and fits and (views := steady.goes_on(rollout)) is not None:
            self._add_steady(steady, views, size)
        else:
            self._extend(piece_of(rollout, self.total, *self._predecessors(rollout)))
            self._steady = self._stand_of(rollout)

    def _stand_of(self, rollout: Rollout) -> Steady | None:
        """What the next rollout can go on from; None if it has to be looked at more closely."""
        fragments = len(rollout.slot)
        rows_as_they_come = not self.memory_size and not self.observations.are_stacked
        every = rows_as_they_come and 0 < rollout.reward.numel() == rollout.num_decisions <= self.capacity
        newest = np.arange(self.total - fragments, self.total) % self.capacity
        if not every or len(set(self.slot[newest].tolist())) < fragments or (self.after[newest] < self.capacity).any():
            return None
        views = Views.of(rollout)
        due = self.clock[newest] + 1
        return None if views is None else Steady(self.slot[newest], due, newest, self.after[newest], views)

    def _add_steady(self, steady: Steady, views: Views, size: int) -> None:
        """Adds the rows of a usual rollout: the same as `_extend` would."""
        start, fragments = self.total % self.capacity, len(steady.slot)
        end = start + size
        self.evict(self.total + size - self.capacity)
        for name, array in views.rows.items():
            getattr(self, name)[start:end] = array
        self.terminated[start:end] = False
        self.truncated[start:end] = False
        self.begins[start:end] = False
        steps = size // fragments
        self.slot[start:end].reshape(steps, fragments)[...] = steady.slot
        np.add.outer(np.arange(steps), steady.due, out=self.clock[start:end].reshape(steps, fragments))
        self.before[start:end] = fragments
        rows = np.arange(start, end)
        self.after[steady.newest] = rows[:fragments]
        self.after[start : end - fragments] = rows[fragments:]
        steady.newest = rows[size - fragments :]
        self.after[steady.newest] = steady.tails
        self.observations.write_steady(slice(start, end), views.obs, steady.tails, views.last_obs)
        self.total += size
        steady.due += steps
        self._due[steady.slot] = steady.due
        self._newest[steady.slot] = np.arange(self.total - fragments, self.total)

    def _predecessors(self, rollout: Rollout) -> tuple[np.ndarray, np.ndarray]:
        """Of each fragment's slot: the serial number of its newest row (-1 if there is none), and the clock due."""
        slot = rollout.slot.numpy()
        self._make_room(slot)
        newest = self._newest[slot]
        return np.where(newest >= self.first, newest, -1), self._due[slot]

    def _make_room(self, slot: np.ndarray) -> None:
        """Sees that these slots have a place in what is known of slots."""
        size = int(slot.max(initial=-1)) + 1
        if size > len(self._newest):
            more = np.full(max(size, 2 * len(self._newest)) - len(self._newest), -1)
            self._newest = np.concatenate((self._newest, more))
            self._due = np.concatenate((self._due, more))

    def _extend(self, piece: Piece) -> None:
        """Adds the rows of a piece, which come next."""
        size = rows_in(piece)
        for start in range(0, size, self.capacity):
            part = piece if size <= self.capacity else part_of(piece, start, min(start + self.capacity, size))
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
        """Adds at most as many rows as the ring has."""
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
        if self.memory_size:
            self._remember(rows, piece)
        self._link(serial, rows)
        mine = piece["slot"] >= 0
        self._make_room(piece["slot"])
        self._newest[piece["slot"][mine]] = serial[mine]  # of equal slots the last one counts
        self._due[piece["slot"][mine]] = piece["clock"][mine] + 1
        self.evict(self.observations.oldest(self.first, self.total))

    def _link(self, serial: np.ndarray, rows: np.ndarray) -> None:
        """Lets the rows before these know what follows them."""
        before = self.before[rows]
        linked = (before > 0) & (serial - before >= self.first)
        rows = rows[linked]
        previous = (serial - before)[linked] % self.capacity
        if self.memory_size:
            self.follow[previous] = rows
        # where an episode begins that did not end, it was cut off: then what was seen last stays aside
        goes_on = ~(self.terminated[previous] | self.truncated[previous] | self.begins[rows])
        previous, rows = previous[goes_on], rows[goes_on]
        self.observations.release(self.after[previous])
        self.after[previous] = rows

    def _remember(self, rows: np.ndarray, piece: Piece) -> None:
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

    # --- as pieces ----------------------------------------------------------------------------------------------------

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave, without the rows: the ring is empty."""
        super().load_state_dict(state)
        self._absent = self.first
        self._clear(self.total)

    def _clear(self, serial: int) -> None:
        """Forgets all; the next row has this serial number."""
        self.observations.pool, self._pool = Pool(), Pool()
        self._steady = None
        self.first = self.total = serial
        self._newest = np.zeros(0, np.int64)
        self._due = np.zeros(0, np.int64)

    def rows_between(self, first: int, last: int) -> Piece:
        """Copies of the rows with serial numbers from `first` up to but not `last`; see `ReplayMemory`."""
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
        """Takes back the rows of this very memory; see `ReplayMemory`."""
        total = self.total
        self._clear(max(self._absent, total - self.capacity))
        for piece in pieces:
            self._check(piece)
            start = self.total - int(piece["serial"][0])
            if start < 0:
                raise RookeryError(f"the rows from {self.total} to {self.total - start - 1} of the memory are missing")
            if start < rows_in(piece):
                self._extend(part_of(piece, start, rows_in(piece)) if start else piece)
        if self.total != total:
            raise RookeryError(f"the memory ends at row {self.total - 1}, and should at {total - 1}")
        self._check_whole()

    def append(self, piece: Piece, continues: bool) -> None:
        """Adds rows of any memory as new ones; see `ReplayMemory`."""
        self._check(piece)
        self._steady = None
        if not continues:
            self._floor = self.total
        reach = np.arange(rows_in(piece)) + self.total - self._floor
        slot = piece["slot"]
        # negative, so that no rollout's slot goes on where a foreign one ended
        own = {"slot": np.where(slot < 0, slot, ~slot), "before": np.where(piece["before"] > reach, 0, piece["before"])}
        self._extend(self.observations.foreign(piece | own))
        self._check_whole()

    def _check(self, piece: Piece) -> None:
        """Sees that a piece has what the ring keeps, in the same layout."""
        for name in PLAIN:
            array = getattr(self, name)
            check_array(piece, name, array.shape[1:], array.dtype)
        check_array(piece, "next_row", (), np.dtype(np.int64))
        self.observations.check(piece)
        if self.memory_size:
            check_array(piece, "memory_row", (), np.dtype(np.int64))
            check_array(piece, "memory", (self.memory_size,), self.memories.dtype)

    def _check_whole(self) -> None:
        """Sees that of every row it is known what followed."""
        rows = np.arange(self.first, self.total) % self.capacity
        if lost := int((self.after[rows] < 0).sum()):
            raise RookeryError(f"of {lost} rows it is not known what followed: they were not saved by `rows_between`")
