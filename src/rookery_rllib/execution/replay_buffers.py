"""Replay buffers of 2021 that scripts construct: batches in a ring, drawn uniformly or by priority.

`LocalReplayBuffer` has one for each policy. That of a trainer is in `trainer_replay.py`.
"""

from __future__ import annotations

import platform
import weakref
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import numpy as np

from rookery.face import SumTree
from rookery_rllib.base.running_statistics import TimerStat, WindowStat
from rookery_rllib.batch.sample_batch import MultiAgentBatch, SampleBatch
from rookery_rllib.batch.sequences import timeslice_along_seq_lens_with_overlap

_ALL_POLICIES = "__all__"
"""Key of the only buffer in lockstep mode."""


class PolicyReplay(Protocol):
    """Replay buffer of one policy, as a `LocalReplayBuffer` uses it."""

    def sample(self, num_items: int, beta: float) -> Any:
        """Draws items; returns them as one batch."""

    def update_priorities(self, idxes: Any, priorities: Any) -> None:
        """Sets the priorities of drawn items."""

    def stats(self, debug: bool = False) -> dict[str, Any]:
        """Returns counts."""

    def get_state(self) -> dict[str, Any]:
        """Returns everything that the buffer holds, picklable."""

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Replaces everything by a state of `get_state`."""


class BatchRing:
    """Ring of batches, drawn uniformly with replacement by NumPy's global generator.

    Args:
        size: Number of timesteps after which the oldest items are overwritten.
    """

    def __init__(self, size: int) -> None:
        self._maxsize = size
        self._storage: list[Any] = []
        self._next_idx = 0
        self._added = self._added_in_round = self._sampled = 0
        self._hits = np.zeros(size, np.int64)
        self._evicted_hit_stats = WindowStat("evicted_hit", 1000)

    def __len__(self) -> int:
        return len(self._storage)

    def add(self, item: Any, weight: float | None = None) -> None:
        """Adds a batch as one item; `weight` has no effect. Raises a ValueError for an empty one."""
        if item.count <= 0:
            raise ValueError("ReplayBuffer.add: the batch has no rows")
        self._added += item.count
        self._added_in_round += item.count
        if self._next_idx >= len(self._storage):
            self._storage.append(item)
        else:
            self._evicted_hit_stats.push(float(self._hits[self._next_idx]))
            self._hits[self._next_idx] = 0
            self._storage[self._next_idx] = item
        if self._added_in_round >= self._maxsize:
            self._added_in_round = self._next_idx = 0
        else:
            self._next_idx += 1

    def sample(self, num_items: int) -> Any:
        """Draws items; returns them as one batch."""
        return self._read(np.random.randint(0, len(self), num_items))

    def _read(self, places: np.ndarray) -> Any:
        np.add.at(self._hits, places, 1)
        batch = SampleBatch.concat_samples([self._storage[place] for place in places.tolist()])
        batch.decompress_if_needed()
        self._sampled += batch.count
        return batch

    def stats(self, debug: bool = False) -> dict[str, Any]:
        found = {
            "added_count": self._added,
            "sampled_count": self._sampled,
            "est_size_bytes": sum(item.size_bytes() for item in self._storage),
            "num_entries": len(self),
        }
        return found | (self._evicted_hit_stats.stats() if debug else {})

    def get_state(self) -> dict[str, Any]:
        """Returns everything that the buffer holds, picklable."""
        return {**vars(self), "_storage": list(self._storage), "_hits": self._hits.copy()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Replaces everything by a state of `get_state`."""
        vars(self).update(state, _storage=list(state["_storage"]), _hits=state["_hits"].copy())


class PrioritizedReplayBuffer(BatchRing):
    """Ring of batches, drawn in proportion to their priorities (Schaul 2016).

    Args:
        size: Number of timesteps after which the oldest items are overwritten.
        alpha: Exponent of priorities; 0 = uniform.
    """

    def __init__(self, size: int, alpha: float) -> None:
        super().__init__(size)
        self._alpha = alpha
        self._tree = SumTree(size)
        self._max_priority = 1.0
        self._prio_change_stats = WindowStat("reprio", 1000)

    def add(self, item: Any, weight: float | None = None) -> None:
        """Adds a batch as one item with a priority; None = the largest so far."""
        place = self._next_idx
        super().add(item)
        self._write(np.array([place]), np.array([self._max_priority if weight is None else weight], np.float64))

    def sample(self, num_items: int, beta: float = 0.4) -> Any:
        """Draws items; returns them as one batch, with the columns ``weights`` (importance weights, at most 1) and
        ``batch_indexes`` (places of the items) if it is of one policy.

        Args:
            num_items: Number of items.
            beta: Exponent of the importance weights; 1 = full correction.
        """
        places = self._tree.draw(np.random.random(num_items))
        batch = self._read(places)
        if isinstance(batch, SampleBatch):
            leaves = self._tree.leaves
            weight = (leaves[places] / leaves[: len(self)].min()) ** -beta
            rows = [self._rows_in(self._storage[place]) for place in places.tolist()]
            batch["weights"] = np.repeat(weight.astype(np.float32), rows)
            batch["batch_indexes"] = np.repeat(places, rows)
        return batch

    @staticmethod
    def _rows_in(item: Any) -> int:
        return int(item.max_seq_len) if item.zero_padded else int(item.count)

    def update_priorities(self, idxes: Any, priorities: Any) -> None:
        """Sets the priorities of items, which must be above 0; raises a ValueError for others."""
        places, values = np.asarray(idxes, np.int64).ravel(), np.asarray(priorities, np.float64).ravel()
        if len(places) != len(values):
            raise ValueError(f"update_priorities: {len(values)} priorities for {len(places)} items; give one for each")
        if not (values > 0).all() or (len(places) and not 0 <= places.min() <= places.max() < len(self)):
            raise ValueError("update_priorities: priorities must be above 0, and of items that the buffer has")
        for change in values**self._alpha - self._tree.leaves[places]:
            self._prio_change_stats.push(float(change))
        self._write(places, values)
        self._max_priority = max(self._max_priority, float(values.max(initial=0.0)))

    def _write(self, places: np.ndarray, priorities: np.ndarray) -> None:
        self._tree.write(places, priorities**self._alpha)

    def stats(self, debug: bool = False) -> dict[str, Any]:
        return super().stats(debug) | (self._prio_change_stats.stats() if debug else {})

    def get_state(self) -> dict[str, Any]:
        """Returns everything that the buffer holds, picklable."""
        return {**super().get_state(), "_tree": self._tree.leaves.copy()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Replaces everything by a state of `get_state`."""
        super().set_state({name: value for name, value in state.items() if name != "_tree"})
        self._tree = SumTree(self._maxsize)
        self._tree.write(np.arange(len(self)), state["_tree"][: len(self)])


class LocalReplayBuffer:
    """Replay buffers of all policies, by policy in `replay_buffers`; arguments as of RLlib.

    Args:
        num_shards: Number of such objects, among which `learning_starts` and `buffer_size` are divided.
        learning_starts: Timesteps to add before `replay` returns batches.
        buffer_size: Timesteps that are kept; with sequences, number of sequences.
        replay_batch_size: Timesteps in a batch.
        prioritized_replay_alpha: Exponent of priorities.
        prioritized_replay_beta: Exponent of importance weights.
        prioritized_replay_eps: Added to every priority.
        replay_mode: ``independent``, or ``lockstep``: batches of all policies from the same time, without priorities.
        replay_sequence_length: Length of sequences; 1 = single decisions.
        replay_burn_in: Decisions by which a sequence overlaps with the previous one.
        replay_zero_init_states: Whether sequences start from a state of zeros.
    """

    _latest: ClassVar[weakref.ref[LocalReplayBuffer] | None] = None

    def __init__(
        self,
        num_shards: int = 1,
        learning_starts: int = 1000,
        buffer_size: int = 10000,
        replay_batch_size: int = 1,
        prioritized_replay_alpha: float = 0.6,
        prioritized_replay_beta: float = 0.4,
        prioritized_replay_eps: float = 1e-6,
        replay_mode: str = "independent",
        replay_sequence_length: int = 1,
        replay_burn_in: int = 0,
        replay_zero_init_states: bool = True,
    ) -> None:
        if replay_mode not in ("independent", "lockstep"):
            raise ValueError(f"replay_mode = {replay_mode!r}: must be 'independent' or 'lockstep'")
        self.replay_starts = learning_starts // num_shards
        self.buffer_size = buffer_size // num_shards
        self.replay_batch_size = max(replay_batch_size // replay_sequence_length, 1)
        self.prioritized_replay_alpha = prioritized_replay_alpha
        self.prioritized_replay_beta = prioritized_replay_beta
        self.prioritized_replay_eps = prioritized_replay_eps
        self.replay_mode = replay_mode
        self.replay_sequence_length = replay_sequence_length
        self.replay_burn_in = replay_burn_in
        self.replay_zero_init_states = replay_zero_init_states
        self.replay_buffers: dict[str, Any] = defaultdict(self._new_buffer)
        self.add_batch_timer, self.replay_timer, self.update_priorities_timer = TimerStat(), TimerStat(), TimerStat()
        self.num_added = 0
        LocalReplayBuffer._latest = weakref.ref(self)

    def _new_buffer(self) -> PolicyReplay:
        return PrioritizedReplayBuffer(self.buffer_size, self.prioritized_replay_alpha)

    def _buffer_of(self, name: str) -> Any:
        """Returns the buffer of a policy."""
        return self.replay_buffers[name]

    @staticmethod
    def get_instance_for_testing() -> LocalReplayBuffer | None:
        """Returns the object that was made last, if it still exists."""
        latest = LocalReplayBuffer._latest
        return None if latest is None else latest()

    def get_host(self) -> str:
        return platform.node()

    def add_batch(self, batch: Any) -> None:
        """Adds a copy of a batch, a row or sequence an item; a ``weights`` column has the priorities of the items."""
        whole = batch.as_multi_agent()
        with self.add_batch_timer:
            if self.replay_mode == "lockstep":
                for item in whole.copy().timeslices(self.replay_sequence_length):
                    self.replay_buffers[_ALL_POLICIES].add(item)
            else:
                for name, part in whole.policy_batches.items():
                    self._add(name, part.copy())
        self.num_added += batch.count

    def _add(self, name: str, part: SampleBatch) -> None:
        """Adds the rows or sequences of one policy."""
        if self.replay_sequence_length == 1:
            items = part.timeslices(1)
        else:
            items = timeslice_along_seq_lens_with_overlap(
                sample_batch=part,
                zero_pad_max_seq_len=self.replay_sequence_length,
                pre_overlap=self.replay_burn_in,
                zero_init_states=self.replay_zero_init_states,
            )
        for item in items:
            self.replay_buffers[name].add(item, weight=float(np.mean(item["weights"])) if "weights" in item else None)

    def replay(self) -> Any:
        """Draws a batch of each policy; None before `learning_starts`."""
        if self.num_added < self.replay_starts:
            return None
        with self.replay_timer:
            if self.replay_mode == "lockstep":
                buffer = self.replay_buffers[_ALL_POLICIES]
                return buffer.sample(self.replay_batch_size, beta=self.prioritized_replay_beta)
            drawn = {
                name: buffer.sample(self.replay_batch_size, beta=self.prioritized_replay_beta)
                for name, buffer in self.replay_buffers.items()
            }
            return MultiAgentBatch(drawn, self.replay_batch_size)

    def update_priorities(self, prio_dict: Mapping[str, Any]) -> None:
        """Sets priorities by policy: pairs of ``batch_indexes`` and errors, whose sizes count."""
        with self.update_priorities_timer:
            for name, (places, errors) in prio_dict.items():
                sizes = np.abs(np.asarray(errors, np.float64)) + self.prioritized_replay_eps
                self._buffer_of(name).update_priorities(places, sizes)

    def stats(self, debug: bool = False) -> dict[str, Any]:
        timers = {"add_batch": self.add_batch_timer, "replay": self.replay_timer,
                  "update_priorities": self.update_priorities_timer}  # fmt: skip
        times = {f"{name}_time_ms": round(1000 * timer.mean, 3) for name, timer in timers.items()}
        return times | {f"policy_{name}": buffer.stats(debug) for name, buffer in self.replay_buffers.items()}

    def get_state(self) -> dict[str, Any]:
        """Returns everything that the buffers hold, picklable."""
        buffers = {name: buffer.get_state() for name, buffer in self.replay_buffers.items()}
        return {"num_added": self.num_added, "replay_buffers": buffers}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Replaces everything that the buffers hold by a state of `get_state`."""
        self.num_added = state["num_added"]
        for name, own in state["replay_buffers"].items():
            self._buffer_of(name).set_state(own)


class SimpleReplayBuffer:
    """Ring of whole batches, drawn uniformly.

    Args:
        num_slots: Number of batches.
        replay_proportion: Has no effect.
    """

    def __init__(self, num_slots: int, replay_proportion: float | None = None) -> None:
        self.num_slots = num_slots
        self.replay_batches: list[Any] = []
        self.replay_index = 0

    def add_batch(self, sample_batch: Any) -> None:
        if not self.num_slots:
            return
        if len(self.replay_batches) < self.num_slots:
            self.replay_batches.append(sample_batch)
        else:
            self.replay_batches[self.replay_index] = sample_batch
            self.replay_index = (self.replay_index + 1) % self.num_slots

    def replay(self) -> Any:
        if not self.replay_batches:
            return None
        return self.replay_batches[np.random.randint(len(self.replay_batches))]
