"""Replay buffer: the latest decisions of one policy.

A buffer is a ring of *rows*, one for each decision, as a struct of arrays; the newest overwrite the oldest. Rows have
serial numbers, which always grow; row index = serial number modulo the capacity. Rows of several slots may interleave:
each row is linked to the next decision of its slot when that is added. So n-step windows and sequences are formed at
sampling time, across fragments, and every row can be sampled at any time. The content of a row never changes, and links
are derived from it when rows are added and overwritten: so a buffer restored from a file equals the saved one.

An observation is stored once. The next observation of a row is the observation of the next row of its episode; the last
row of a truncated episode, and the newest of a slot, have a next observation of their own (see
`replay/observations.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol

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
from rookery.replay.episode_filter import SelectionConfig
from rookery.replay.hindsight.settings import HindsightConfig
from rookery.replay.memmap_arrays import MemmapArrays
from rookery.replay.observations import Observations, Pool
from rookery.replay.relabel import RelabelConfig
from rookery.replay.segment_arrays import SegmentArrays, check_array, check_row_numbers, part_of, rows_in, segment_of
from rookery.replay.sum_tree import SumTree

EMPTY = (
    "the replay buffer is empty: there is nothing to sample; collect decisions first, or start from another run's "
    "replay"
)

MAX_SHARE = 0.9
"""Weight of the largest error of a sequence in its priority; the rest is the mean error (eta of the R2D2 paper)."""

PLAIN = ("action", "logp", "reward", "terminated", "truncated", "begins", "slot", "clock", "before")
"""Columns of rows that a segment has unchanged."""


@dataclass(frozen=True)
class ReplayConfig(Settings):
    """Settings of a replay buffer."""

    kind: Structural[Literal["uniform", "prioritized"]] = "uniform"
    """Uniform sampling, or in proportion to priorities (Schaul 2016)."""

    capacity: Structural[Annotated[PositiveInt, Within(100_000_000)]] = 100_000
    """Number of stored decisions; when full, the oldest are overwritten."""

    alpha: Annotated[float, Interval(ge=0, le=1)] = 0.6
    """Prioritized buffers: exponent of priorities; 0 = uniform."""

    beta: Scheduled[Fraction] = 0.4
    """Prioritized buffers: exponent of the importance weights; 1 = full correction."""

    priority_eps: PositiveFloat = 1e-6
    """Prioritized buffers: constant added to every priority, so that each decision can be sampled."""

    frame_stacks: Structural[bool] = True
    """Whether images ``[K, H, W]`` of the last K frames are stored frame by frame, each once."""

    burn_in: Structural[Annotated[NonNegativeInt, Within(65_536)]] = 0
    """Policies with memory: decisions at the start of a sequence that only update the memory."""

    save: Structural[bool] = True
    """Whether checkpoints hold the buffer."""

    memory_mb: Structural[Annotated[PositiveInt, Within(1_048_576)] | None] = None
    """Megabytes of RAM for the rows; larger buffers lie mostly in a file. None = no limit."""

    start_from: AtStart[tuple[Annotated[str, Reaches("a path")], ...]] = ()
    """Runs, checkpoints or replay directories (``PATH`` or ``PATH:policy``) whose decisions the buffer starts with."""

    select: SelectionConfig = field(default_factory=SelectionConfig)
    """Selection of episodes of each of these."""

    relabel: RelabelConfig = field(default_factory=RelabelConfig)
    """Relabelling of their rewards."""

    mix: dict[Annotated[str, Reaches("a path")], PositiveFloat] = field(default_factory=dict)
    """Read-only replay and its share of every batch; the rest is the policy's own."""

    hindsight: HindsightConfig = field(default_factory=HindsightConfig)
    """Replay with other goals, in environments with goals."""


@dataclass(frozen=True)
class SampledSequences:
    """Sequences sampled from a replay buffer.

    Attributes:
        rollout: F fragments of up to T decisions. Each has the policy's memory before its first row only: ``memory`` is
            ``[1, F, M]``. `version` is unknown, and 0.
        weight: ``[F]`` importance weights; None if uniform.
        row: ``[F]`` serial number of each fragment's first row, int64, for `update_priorities`.
    """

    rollout: Rollout
    weight: Tensor | None
    row: Tensor


# --- regular rollouts -------------------------------------------------------------------------------------------------
# The slots of the previous rollout, all of full length, without an episode's end: the most frequent case, added with
# few copies.


def regular_segment(rollout: Rollout) -> SegmentArrays | None:
    """Returns the arrays of a rollout by the names of a segment, its rows flattened; None if not contiguous."""
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
    """State of the slots of the last rollout, whose rows are the newest in the buffer and ended no episode.

    Attributes:
        slot: ``[F]`` the slots.
        due: ``[F]`` clock of the next decision of each.
        newest: ``[F]`` the newest row of each.
        tails: ``[F]`` the place aside of the last observation of each.
        rollout: The last rollout; often the same object, overwritten.
        segment: Its arrays.
    """

    slot: np.ndarray
    due: np.ndarray
    newest: np.ndarray
    tails: np.ndarray
    rollout: Rollout
    segment: SegmentArrays | None

    def following(self, rollout: Rollout) -> SegmentArrays | None:
        """Returns the arrays of a rollout that is regular; None if it is not."""
        if rollout is not self.rollout:
            self.rollout, self.segment = rollout, regular_segment(rollout)
        steps, fragments = rollout.reward.shape
        segment = self.segment
        if segment is None or fragments != len(self.slot):
            return None
        same = segment["slot"].tobytes() == self.slot.tobytes() and segment["clock"].tobytes() == self.due.tobytes()
        whole = segment["length"].tobytes() == steps.to_bytes(8, "little") * fragments
        ends = any(1 in segment[name].tobytes() for name in ("first", "terminated", "truncated"))
        return segment if same and whole and not ends else None


# --- the buffer -------------------------------------------------------------------------------------------------------


class Relabeling(Protocol):
    """Exchanges goals of drawn decisions (`replay/hindsight/relabeling.py`)."""

    def forget(self) -> None:
        """Called when all rows are removed from the buffer."""

    def transitions(self, serial: np.ndarray, weight: Tensor | None, *, n_step: int, gamma: float) -> Transitions:
        """Returns the decisions with these serial numbers ``[N]``; other arguments as of `ReplayBuffer.sample`."""
        ...


class ReplayBuffer(Stateful):
    """Ring buffer of one policy's decisions.

    Args:
        obs: Layout of the policy's observations.
        action: Layout of its actions.
        cfg: Settings.
        rng: Source of the samples; used by this buffer only.
        memory_size: Size of the policy's memory for a slot; 0 = none.
        memory_every: Interval in decisions at which rollouts contain the memory.

    Attributes:
        total: Number of rows ever added: the serial number of the next one.
        first: Serial number of the oldest row.
        full_bytes: Bytes of the rows when the buffer is full.
        memmaps: Allocator of the rows: in RAM, or in files.
        observations: Observations of rows, and next observations where no row follows.
        after: ``[capacity]`` int64, place of the next observation of a row: the row of the episode's next decision; or
            a place aside, for the newest row of a slot and truncated episodes; or the row itself if it terminated.
        follow: ``[capacity]`` int64, the row of the slot's next decision, in any episode; -1 if there is none.
        stored: ``[capacity]`` int64, index in `memories` of the policy's memory before a row; or -1.
        tree: Sampling weights of rows; None if uniform.
        largest: Largest priority so far: that of new rows.
        least: Returns the minimum over all ranks, for importance weights; None = a single rank.
        relabeling: Exchanges goals of drawn decisions; None = the recorded goals only.

    Raises:
        ConfigError: If the machine has too little RAM for a full buffer.
    """

    saved = ("rng", "total", "first", "observations", "largest")
    fixed = (*PLAIN, "cfg", "obs_spec", "action_spec", "memory_size", "memory_every", "capacity", "full_bytes",
             "memmaps", "after", "follow", "stored", "memories", "tree", "_pool", "_newest", "_due", "_regular",
             "_stored", "_floor", "_saved_first", "_saved_priorities", "least",
             "relabeling")  # fmt: skip

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
        self.memmaps = memmaps = MemmapArrays(limit if limit is not None and self.full_bytes > limit else None)
        reserve(self, self.full_bytes if memmaps.limit is None else memmaps.limit, capacity)
        self.total = 0
        self.first = 0
        self.after = memmaps.empty((capacity,), np.int64)  # small columns first, which are read most often
        self.reward = memmaps.empty((capacity,), np.float32)
        self.logp = memmaps.empty((capacity,), np.float32)
        self.terminated = memmaps.empty((capacity,), bool)
        self.truncated = memmaps.empty((capacity,), bool)
        self.begins = memmaps.empty((capacity,), bool)
        self.slot = memmaps.empty((capacity,), np.int64)
        self.clock = memmaps.empty((capacity,), np.int64)
        self.before = memmaps.empty((capacity,), np.int64)
        self.action = memmaps.empty((capacity, *action.shape), action.dtype)
        self.observations = Observations(obs, capacity, frame_stacks=cfg.frame_stacks, memmaps=memmaps)
        self.follow = np.empty(capacity if memory_size else 0, np.int64)
        self.stored = np.empty(capacity if memory_size else 0, np.int64)
        self.memories = np.empty((0, memory_size), np.float32)
        self.tree = SumTree(capacity) if cfg.kind == "prioritized" or memory_size else None
        self.largest = 1.0
        self.least: Callable[[float], float] | None = None
        self.relabeling: Relabeling | None = None
        self._pool = Pool()
        self._newest = np.zeros(0, np.int64)  # [slots] serial number of its newest row, or -1
        self._due = np.zeros(0, np.int64)  # [slots] clock of the decision that would follow it
        self._regular: Regular | None = None
        self._stored: Stored | None = None
        self._floor = 0  # serial number of the first row of the buffer that is being appended
        self._saved_first = 0  # serial number of the oldest row to restore
        self._saved_priorities = np.zeros(0)  # priorities of these rows

    def __len__(self) -> int:
        return self.total - self.first

    # --- adding -------------------------------------------------------------------------------------------------------

    def add(self, rollout: Rollout) -> None:
        """Adds the valid rows of a rollout, ordered by time, then by fragment."""
        size, regular, first, total = rollout.reward.numel(), self._regular, self.first, self.total
        # then the rows before it are not overwritten, and it is not split at the end of the ring
        fits = size + rollout.slot.shape[0] <= self.capacity and size <= self.capacity - total % self.capacity
        if regular is not None and fits and (segment := regular.following(rollout)) is not None:
            self._add_regular(regular, segment)
        else:
            slot = rollout.slot.numpy()
            self._know_slots(slot)
            newest = np.where(self._newest[slot] >= first, self._newest[slot], -1)
            self._extend(segment_of(rollout, total, newest, self._due[slot]))
            self._regular = self._regular_after(rollout)
        self._weigh(first, total)

    def _regular_after(self, rollout: Rollout) -> Regular | None:
        """Returns the state that a regular rollout can continue; None if the next one needs the general case."""
        fragments = len(rollout.slot)
        rows_as_they_come = not self.memory_size and not self.observations.are_stacked
        every = rows_as_they_come and 0 < rollout.reward.numel() == rollout.num_decisions <= self.capacity
        newest = np.arange(self.total - fragments, self.total) % self.capacity
        if not every or len(set(self.slot[newest].tolist())) < fragments or (self.after[newest] < self.capacity).any():
            return None
        stand = self.slot[newest], self.clock[newest] + 1, newest, self.after[newest]
        return Regular(*stand, rollout, regular_segment(rollout))

    def _add_regular(self, regular: Regular, segment: SegmentArrays) -> None:
        """Adds the rows of a regular rollout, with the same result as `_extend`."""
        start, size, fragments = self.total % self.capacity, rows_in(segment), len(regular.slot)
        end, steps = start + size, size // fragments
        self.evict(self.total + size - self.capacity)
        for name in ("action", "logp", "reward"):
            getattr(self, name)[start:end] = segment[name]
        self.terminated[start:end] = self.truncated[start:end] = self.begins[start:end] = False
        self.slot[start:end].reshape(steps, fragments)[...] = regular.slot
        np.add.outer(np.arange(steps), regular.due, out=self.clock[start:end].reshape(steps, fragments))
        self.before[start:end] = fragments
        rows = np.arange(start, end)
        self.after[regular.newest] = rows[:fragments]
        self.after[start : end - fragments] = rows[fragments:]
        regular.newest = rows[size - fragments :]
        self.after[regular.newest] = regular.tails
        self.observations.write(slice(start, end), segment)
        self.observations.write_aside(regular.tails, segment)
        self.total += size
        regular.due += steps
        self._due[regular.slot] = regular.due
        self._newest[regular.slot] = np.arange(self.total - fragments, self.total)

    def _know_slots(self, slot: np.ndarray) -> None:
        """Grows the arrays of slots to include these."""
        size = int(slot.max(initial=-1)) + 1
        if size > len(self._newest):
            more = np.full(max(size, 2 * len(self._newest)) - len(self._newest), -1)
            self._newest = np.concatenate((self._newest, more))
            self._due = np.concatenate((self._due, more))

    def _extend(self, segment: SegmentArrays) -> None:
        """Adds the rows of a segment."""
        size, most, on_disk = rows_in(segment), self.capacity, self.memmaps.limit is not None
        if on_disk:
            most = min(most, self.memmaps.rows_at_once(self.full_bytes // self.capacity) or size)
        for start in range(0, size, max(most, 1)):
            part = segment if size <= most else part_of(segment, start, min(start + most, size))
            if on_disk:
                self.memmaps.release_pages()
            if self.observations.are_stacked:
                part = self.observations.fitted(part, self._tails(part), self.first, self.total)
            self._write(part)

    def _tails(self, segment: SegmentArrays) -> np.ndarray:
        """Returns places ``[n]`` of the last observation of each row's slot before the segment; -1 if there is none."""
        previous = self.total + np.arange(rows_in(segment)) - segment["before"]
        there = (previous >= self.first) & (previous < self.total) & ~segment["begins"]
        tails = np.where(there, self.after[previous % self.capacity], -1)
        return np.where(tails >= self.capacity, tails, -1)

    def _write(self, segment: SegmentArrays) -> None:
        """Adds at most `capacity` rows, and links the rows before them."""
        size = rows_in(segment)
        serial = np.arange(self.total, self.total + size)
        rows = serial % self.capacity
        self.evict(self.total + size - self.capacity)
        for name in PLAIN:
            getattr(self, name)[rows] = segment[name]
        self.observations.write(rows, segment)
        self.total += size
        self.after[rows] = np.where(segment["terminated"], rows, -1)
        self.after[rows[segment["next_row"]]] = self.observations.keep_aside(segment)
        before = segment["before"]
        linked = (before > 0) & (serial - before >= self.first)
        following, previous = rows[linked], (serial - before)[linked] % self.capacity
        if self.memory_size:
            self._remember(rows, segment)
            self.follow[previous] = following
        # an episode that begins without an end of the previous one truncates that: its last observation stays aside
        continues = ~(self.terminated[previous] | self.truncated[previous] | self.begins[following])
        previous = previous[continues]
        self.observations.release(self.after[previous])
        self.after[previous] = following[continues]
        mine = segment["slot"] >= 0
        self._know_slots(segment["slot"])
        self._newest[segment["slot"][mine]] = serial[mine]  # the last one of equal slots counts
        self._due[segment["slot"][mine]] = segment["clock"][mine] + 1
        self.evict(self.observations.oldest(self.first, self.total))

    def _remember(self, rows: np.ndarray, segment: SegmentArrays) -> None:
        """Stores the policy's memory before some of these rows."""
        self.follow[rows] = -1
        self.stored[rows] = -1
        places = self._pool.take(len(segment["memory_row"]))
        if self._pool.size > len(self.memories):
            grown = np.empty((self._pool.size, self.memory_size), np.float32)
            grown[: len(self.memories)] = self.memories
            self.memories = grown
        self.memories[places] = segment["memory"]
        self.stored[rows[segment["memory_row"]]] = places

    def evict(self, serial: int) -> None:
        """Removes the rows before a serial number."""
        if serial <= self.first:
            return
        rows = np.arange(self.first, min(serial, self.total)) % self.capacity
        self.observations.release(self.after.take(rows))
        if self.memory_size:
            stored = self.stored[rows]
            self._pool.give(stored[stored >= 0])
        self.first = min(serial, self.total)

    def _weigh(self, first: int, total: int) -> None:
        """Updates the sampling weights of rows added or removed since `first` and `total` had these values."""
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

    # --- sampling -----------------------------------------------------------------------------------------------------

    def sample(self, batch_size: int, *, n_step: int, gamma: float, beta: float) -> Transitions:
        """Samples decisions with replacement, each with its n-step return and next observation.

        Args:
            batch_size: N, number of decisions.
            n_step: Largest number of decisions in a window; see `n_step_windows`.
            gamma: Discount of a step.
            beta: Exponent of the importance weights, in prioritized buffers.

        Raises:
            RookeryError: If the buffer is empty.
        """
        if self.memmaps.limit is not None:
            self.memmaps.note_reads(batch_size)
        serial, rows, weight = self._draw(batch_size, beta)
        if self.relabeling is not None:
            return self.relabeling.transitions(serial, weight, n_step=n_step, gamma=gamma)
        reward, discount, following = n_step_windows(rows, self.after, self.reward, n_step=n_step, gamma=gamma)
        numbers = torch.from_numpy(reward), torch.from_numpy(discount), weight, torch.from_numpy(serial)
        stored = self._in_place()
        if stored is not None and following.max() < self.capacity:
            if self.memmaps.limit is not None:
                self.memmaps.note_reads(2 * batch_size)  # read later, in place
            return TransitionsInPlace.at(Places(stored, rows, following), *numbers)
        obs, next_obs = self.observations.gather_rows(rows), self.observations.gather(following)
        action = torch.from_numpy(self.action.take(rows, axis=0))
        return Transitions(tensors(obs), action, numbers[0], tensors(next_obs), *numbers[1:])

    def _in_place(self) -> Stored | None:
        """Returns the arrays of the rows; None if observations are stored frame by frame."""
        leaves, stored = self.observations.leaves, self._stored
        if stored is None or any(leaf.rows is not stored.obs[path] for path, leaf in leaves.items()):
            if self.observations.are_stacked:
                return None
            self._stored = stored = Stored({path: leaf.rows for path, leaf in leaves.items()}, self.action)
        return stored

    def steps(self, row: Tensor, *, n_step: int, gamma: float) -> WindowSteps:
        """Returns the decisions in windows.

        Args:
            row: ``[N]`` serial numbers of the first rows of windows, as in `Transitions.row`.
            n_step: Largest number of decisions in a window.
            gamma: Discount of a step.
        """
        rows = row.numpy() % self.capacity
        window, discount = np.arange(len(rows)), np.ones(len(rows), np.float32)
        parts = [(rows, window, discount)]
        for _ in range(n_step - 1):
            following = self.after.take(rows)
            continues = (following != rows) & (following < self.capacity)
            rows, window, discount = following[continues], window[continues], discount[continues] * np.float32(gamma)
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
        """Samples rows; returns their serial numbers, row indices and importance weights."""
        if not (len(self) if self.tree is None else self.tree.total):
            raise RookeryError(EMPTY)
        if self.tree is None:
            serial = self.rng.integers(self.first, self.total, number)
            return serial, serial % self.capacity, None
        # stratified: one from each of `number` equal parts of the total, for a lower variance
        rows = self.tree.draw((np.arange(number) + self.rng.random(number)) / number)
        if self.cfg.kind == "uniform":
            return self.serial_of(rows), rows, None
        return self.serial_of(rows), rows, self._weights(self.tree.leaves[rows], beta)

    def _weights(self, chance: np.ndarray, beta: float) -> Tensor:
        """Returns importance weights of rows by their sampling weights: (N P)^-beta over the largest of the batch, in
        which N cancels.
        """
        if self.least is None:
            least = chance.min()
        else:  # each rank samples equally many from its own buffer
            assert self.tree is not None
            chance = chance / self.tree.total
            least = self.least(float(chance.min()))
        return torch.from_numpy(((chance / least) ** -beta).astype(np.float32))

    def sample_sequences(self, number: int, *, length: int, beta: float) -> SampledSequences:
        """Samples sequences of one slot each, from rows with a stored memory.

        A sequence may span episodes, and is shorter than `length` at the newest rows of its slot.

        Args:
            number: F, number of sequences.
            length: T, largest number of decisions in a sequence, burn-in included.
            beta: Exponent of the importance weights, in prioritized buffers.

        Raises:
            RookeryError: If there is no such row.
        """
        if not self.memory_size:
            raise RookeryError("sequences are for policies with memory, which this one does not have; use sample")
        serial, rows, weight = self._draw(number, beta)
        return SampledSequences(self._read_sequences(rows, length), weight, torch.from_numpy(serial))

    def _read_sequences(self, rows: np.ndarray, length: int) -> Rollout:
        """Returns the decisions from these rows on, as fragments of at most `length`."""
        at = np.empty((length, len(rows)), np.int64)
        if self.memmaps.limit is not None:
            self.memmaps.note_reads(at.size)
        at[0] = rows
        valid = np.ones(at.shape, bool)
        for t in range(1, length):
            following = self.follow.take(at[t - 1])
            valid[t] = valid[t - 1] & (following >= 0)
            at[t] = np.where(valid[t], following, at[t - 1])
        lengths = valid.sum(axis=0)
        after = self.after[at]
        terminated = self.terminated[at] & valid
        # an interrupted episode ends with its last observation, as a truncated one
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
        """Updates the priorities of rows, such as their absolute errors. Uniform buffers ignore it.

        Args:
            row: ``[N]`` serial numbers, as in `Transitions.row`. Overwritten rows are ignored; of equal ones the last
                counts.
            priority: ``[N]`` at least 0. Values that are not finite are ignored.

        Raises:
            RookeryError: If a priority is below 0.
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
        """Sampling weights of the rows, oldest first; empty if uniform."""
        if self.tree is None:
            return np.zeros(0)
        return self.tree.leaves[np.arange(self.first, self.total) % self.capacity]

    # --- as arrays, for files -----------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Returns everything except the rows, which are saved separately: see `rows_between`."""
        return {**super().state_dict(), "priorities": self.priorities}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Loads a state of `state_dict`; the buffer is empty until `restore` adds the rows."""
        state = dict(state)
        self._saved_priorities = state.pop("priorities")
        super().load_state_dict(state)
        self._saved_first = self.first
        self._clear(self.total)
        if self.tree is not None:
            self.tree = SumTree(self.capacity)

    def _clear(self, serial: int) -> None:
        """Removes all rows; the next one has this serial number."""
        self.observations.pool, self._pool = Pool(), Pool()
        self._regular = None
        self.first = self.total = serial
        self._newest = np.zeros(0, np.int64)
        self._due = np.zeros(0, np.int64)
        if self.relabeling is not None:
            self.relabeling.forget()

    def rows_between(self, first: int, last: int) -> SegmentArrays:
        """Returns copies of the rows with serial numbers from `first` up to but not including `last`, as a complete
        segment.

        A segment never changes: if later rows follow its last ones, they replace its own next observations when
        both are joined. n rows; by name:

        - ``serial`` int64 ``[1]``: `first`.
        - ``obs/PATH`` ``[n, ...]`` for each leaf with whole observations.
        - ``stack/PATH`` int64 ``[n, K]`` for each leaf that is stored frame by frame: serial numbers of the frames of
          each observation, oldest first; ``base/PATH`` int64 ``[n]``, number of frames before each row; ``frame/PATH``
          ``[m, H, W]``, the frames in the segment, and ``number/PATH`` int64 ``[m]``, their serial numbers, ascending.
        - ``action`` ``[n, ...]``, ``logp`` float32 ``[n]``, ``reward`` float32 ``[n]``, ``terminated``, ``truncated``
          and ``begins`` (the episode begins here) bool ``[n]``.
        - ``slot``, ``clock`` int64 ``[n]``, and ``before`` int64 ``[n]``: distance in rows to the slot's previous
          decision; 0 if there was none, or it was overwritten.
        - ``next_row`` int64 ``[q]``: indices of the rows of the segment that have no next row in it and did not
          terminate; with their next observations: ``next_obs/PATH`` ``[q, ...]``, or ``next_stack/PATH`` ``[q, K]``.
        - For policies with memory: ``memory_row`` int64 ``[p]``, its rows with a stored memory, and ``memory``
          float32 ``[p, M]``, the memory before them.

        Raises:
            RookeryError: If some of them are not in the buffer.
        """
        if not self.first <= first <= last <= self.total:
            raise RookeryError(f"rows {first} to {last - 1} are not all there: it has {self.first} to {self.total - 1}")
        rows = np.arange(first, last) % self.capacity
        segment = {"serial": np.array([first])} | {name: getattr(self, name)[rows] for name in PLAIN}
        after = self.after[rows]
        beyond = (after >= self.capacity) | (self.serial_of(after) >= last)
        which = np.flatnonzero(beyond & ~segment["terminated"])
        segment["next_row"] = which
        segment |= self.observations.export(rows, after[which])
        if self.memory_size:
            stored = self.stored[rows]
            segment["memory_row"] = np.flatnonzero(stored >= 0)
            segment["memory"] = self.memories[stored[stored >= 0]]
        return segment

    def serial_of(self, rows: np.ndarray) -> np.ndarray:
        """Returns the serial numbers ``[N]`` of rows."""
        newest = self.total - 1
        return newest - (newest - rows) % self.capacity

    def restore(self, segments: Iterable[SegmentArrays]) -> None:
        """Restores the rows of this buffer, after `load_state_dict`, which leaves it empty.

        Serial numbers do not change, so that the next samples are those of the saved buffer. If the capacity has
        changed, the newest rows that fit are kept.

        Args:
            segments: From `rows_between`, each beginning where the previous one ends, the last ending at `total`;
                they may begin before `first` (older rows are ignored).

        Raises:
            RookeryError: If they do not fit each other or this policy.
        """
        total = self.total
        self._clear(max(self._saved_first, total - self.capacity))
        for segment in segments:
            self._check(segment)
            start = self.total - int(segment["serial"][0])
            if start < 0:
                raise RookeryError(f"the rows from {self.total} to {self.total - start - 1} of the buffer are missing")
            if start < rows_in(segment):
                self._extend(part_of(segment, start, rows_in(segment)) if start else segment)
        if self.total != total:
            raise RookeryError(f"the buffer ends at row {self.total - 1}, and should at {total - 1}")
        self._check_whole(self.first)
        self._weigh(self.first, self.first)
        if self.tree is not None and self.cfg.kind == "prioritized" and len(self._saved_priorities) >= len(self):
            rows = np.arange(self.first, self.total) % self.capacity
            self.tree.write(rows, self._saved_priorities[len(self._saved_priorities) - len(self) :])
        self._saved_priorities = np.zeros(0)

    def append(self, segment: SegmentArrays, *, continues: bool) -> None:
        """Adds rows of another buffer, under new serial numbers.

        Args:
            segment: From `rows_between` of a buffer with the same spaces.
            continues: Whether its rows follow those of the last appended segment in their buffer: then decisions of
                equal slots are linked, otherwise its slots are new.

        Raises:
            RookeryError: If the segment does not fit this policy.
        """
        self._check(segment)
        first, total = self.first, self.total
        self._regular = None
        if not continues:
            self._floor = self.total
        reach = np.arange(rows_in(segment)) + self.total - self._floor
        slot = segment["slot"]
        # negative, so that no rollout continues an appended slot
        own = {
            "slot": np.where(slot < 0, slot, ~slot),
            "before": np.where(segment["before"] > reach, 0, segment["before"]),
        }
        self._extend(self.observations.foreign(segment | own))
        self._check_whole(total)
        self._weigh(first, total)

    def _check(self, segment: SegmentArrays) -> None:
        """Checks that a segment has the buffer's columns, in the same layout."""
        for name in PLAIN:
            array = getattr(self, name)
            check_array(segment, name, array.shape[1:], array.dtype)
        check_array(segment, "next_row", (), np.dtype(np.int64))
        self.observations.check(segment)
        check_row_numbers(segment, PLAIN)
        if self.memory_size:
            check_array(segment, "memory_row", (), np.dtype(np.int64))
            check_array(segment, "memory", (self.memory_size,), self.memories.dtype)

    def _check_whole(self, first: int) -> None:
        """Checks that every row from a serial number on has a next observation or has terminated."""
        starts = range(max(first, self.first), self.total, 1 << 20)
        blocks = (np.arange(start, min(start + starts.step, self.total)) % self.capacity for start in starts)
        if lost := sum(int((self.after[rows] < 0).sum()) for rows in blocks):
            raise RookeryError(f"{lost} rows have no next observation: they were not saved by `rows_between`")


def tensors(tree: Tree) -> TensorTree:
    """Returns an observation as tensors that share memory with its arrays."""
    return {path: torch.from_numpy(leaf) for path, leaf in tree.items()}


def n_step_windows(
    rows: np.ndarray, after: np.ndarray, reward: np.ndarray, *, n_step: int, gamma: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Computes n-step windows from `rows`, which stop at the end of the episode.

    A window is also shorter at the newest rows of its slot; it then bootstraps from the last observation.

    Args:
        rows: ``[N]`` first rows.
        after: ``[capacity]`` the row of the episode's next decision; or a place at or above `capacity` with the last
            observation; or the row itself, where the episode terminated.
        reward: ``[capacity]`` rewards.
        n_step: Largest number of decisions in a window.
        gamma: Discount of a step.

    Returns:
        The discounted sum of the rewards, float32 ``[N]``; gamma to the power of the decisions in the window, 0 if the
        episode terminated in it, float32 ``[N]``; and the place of the observation after it ``[N]``.
    """
    last = rows
    following = after.take(rows)
    if n_step == 1:
        return reward.take(rows), (following != rows) * np.float32(gamma), following
    total = reward.take(rows).astype(np.float64)
    discount = np.full(len(rows), gamma)
    for _ in range(n_step - 1):
        continues = (following != last) & (following < len(after))
        last = np.where(continues, following, last)
        total += np.where(continues, discount * reward.take(last), 0.0)
        discount *= np.where(continues, gamma, 1.0)
        following = after.take(last)
    discount[following == last] = 0.0
    return total.astype(np.float32), discount.astype(np.float32), following


def sequence_priorities(priority: Tensor, fragment: Tensor, fragments: int) -> tuple[Tensor, Tensor]:
    """Returns the priorities of sequences: 0.9 times the largest plus 0.1 times the mean of their rows.

    Args:
        priority: ``[N]`` priorities of rows.
        fragment: ``[N]`` sequence of each row.
        fragments: F, number of sequences.

    Returns:
        The sequences that have rows ``[B]``, and their priorities ``[B]``.
    """
    largest = priority.new_zeros(fragments).scatter_reduce_(0, fragment, priority, "amax")
    total = priority.new_zeros(fragments).index_add_(0, fragment, priority)
    count = torch.bincount(fragment, minlength=fragments)
    mixed = MAX_SHARE * largest + (1 - MAX_SHARE) * total / count.clamp(min=1)
    present = count.nonzero().squeeze(1)
    return present, mixed[present]
