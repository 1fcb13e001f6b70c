"""Batches of experience as RLlib has them: dicts of columns for one policy, and for several.

A column is an array or tensor with a row for each decision, or a structure of such. Batches for recurrent
models have a column ``seq_lens``, the lengths of the consecutive sequences in the rows, and ``state_in_<i>`` with
a row for each sequence.
"""

from __future__ import annotations

import itertools
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from rookery_rllib.base import nested
from rookery_rllib.batch import compression
from rookery_rllib.batch.numpy_functions import concat_aligned

DEFAULT_POLICY_ID = "default_policy"

PACKED = frozenset(("obs", "new_obs"))

_RECORDS = ("time_major", "max_seq_len", "zero_padded", "is_training")


def _num_rows(column: Any) -> int:
    leaf = column
    while isinstance(leaf, Mapping | tuple):
        leaf = next(iter(leaf.values())) if isinstance(leaf, Mapping) else leaf[0]
    axes: int = getattr(leaf, "ndim", 1)
    return len(leaf) if hasattr(leaf, "__len__") and axes else 0


def _rows(column: Any, rows: Any) -> Any:
    """Returns the rows of a column at a slice or an index."""
    return nested.map_structure(lambda leaf: leaf[rows], column) if isinstance(column, dict | tuple) else column[rows]


def _copied(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray):
        return leaf.copy()
    return leaf.clone() if hasattr(leaf, "clone") else leaf


class SampleBatch(dict[str, Any]):
    """Decisions of one policy, by column; lists become arrays.

    `count` is the number of rows, or the sum of the lengths where there are sequences.
    """

    OBS = CUR_OBS = "obs"
    NEXT_OBS = "new_obs"
    ACTIONS = "actions"
    REWARDS = "rewards"
    PREV_ACTIONS = "prev_actions"
    PREV_REWARDS = "prev_rewards"
    DONES = "dones"
    INFOS = "infos"
    SEQ_LENS = "seq_lens"
    T = "t"
    ACTION_DIST_INPUTS = "action_dist_inputs"
    ACTION_PROB = "action_prob"
    ACTION_LOGP = "action_logp"
    EPS_ID = "eps_id"
    ENV_ID = "env_id"
    UNROLL_ID = "unroll_id"
    AGENT_INDEX = "agent_index"
    VF_PREDS = "vf_preds"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.time_major: bool | None = kwargs.pop("_time_major", None)
        self.max_seq_len: int | None = kwargs.pop("_max_seq_len", None)
        self.zero_padded: bool = kwargs.pop("_zero_padded", False)
        training = kwargs.pop("_is_training", None)
        super().__init__(*args, **kwargs)
        self.accessed_keys: set[str] = set()
        self.added_keys: set[str] = set()
        self.deleted_keys: set[str] = set()
        self.intercepted_values: dict[str, Any] = {}
        self.get_interceptor: Callable[[Any], Any] | None = None
        given = super().pop("is_training", False)
        self.is_training: Any = given if training is None else training
        self._tidy_sequences()
        for key, value in self.items():
            if not isinstance(key, str):
                raise ValueError(f"SampleBatch: column {key!r} is named by {type(key).__name__}, expected a text")
            if isinstance(value, list):
                dict.__setitem__(self, key, np.array(value))
        self.count = self._counted()

    def _tidy_sequences(self) -> None:
        lengths = super().get("seq_lens")
        if lengths is None or len(lengths) == 0:
            super().pop("seq_lens", None)
            return
        if isinstance(lengths, list):
            super().__setitem__("seq_lens", np.array(lengths, dtype=np.int32))
        if self.max_seq_len is None:
            self.max_seq_len = int(max(lengths))

    def _counted(self) -> int:
        lengths = super().get("seq_lens")
        if lengths is not None:
            return int(sum(int(length) for length in lengths))
        first = next(iter(self.values()), None)
        return 0 if first is None else _num_rows(first)

    # --- columns ---

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            start, stop, step = key.indices(self.count)
            if step != 1:
                raise ValueError(f"SampleBatch: step {step}, slices have no step")
            return self.slice(start, max(start, stop))
        if key == "is_training":
            return self.is_training
        value = super().__getitem__(key)
        self.accessed_keys.add(key)
        if self.get_interceptor is not None:
            if key not in self.intercepted_values:
                self.intercepted_values[key] = self.get_interceptor(value)
            value = self.intercepted_values[key]
        return value

    def __setitem__(self, key: str, item: Any) -> None:
        if key == "is_training":
            self.is_training = item
            return
        if isinstance(item, list):
            item = np.array(item)
        if key not in self:
            self.added_keys.add(key)
            if not super().__len__():
                super().__setitem__(key, item)
                self.count = self._counted()
        super().__setitem__(key, item)
        self.intercepted_values.pop(key, None)

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        self.deleted_keys.add(key)
        self.intercepted_values.pop(key, None)

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def set_get_interceptor(self, fn: Callable[[Any], Any] | None) -> None:
        if fn is not self.get_interceptor:
            self.intercepted_values = {}
        self.get_interceptor = fn

    def set_training(self, training: Any = True) -> None:
        self.is_training = training

    def columns(self, keys: Iterable[str]) -> list[Any]:
        return [self[key] for key in keys]

    def rows(self) -> Iterator[dict[str, Any]]:
        columns = dict(self.items())
        for row in range(self.count):
            yield {key: _rows(column, row) for key, column in columns.items()}

    @property
    def data(self) -> SampleBatch:
        return self

    def size_bytes(self) -> int:
        leaves = [leaf for column in self.values() for leaf in nested.flatten(column)]
        return sum(int(leaf.nbytes) if hasattr(leaf, "nbytes") else sys.getsizeof(leaf) for leaf in leaves)

    def env_steps(self) -> int:
        return self.count

    def agent_steps(self) -> int:
        return self.count

    def as_multi_agent(self) -> MultiAgentBatch:
        return MultiAgentBatch({DEFAULT_POLICY_ID: self}, self.count)

    # --- new batches ---

    def _alike(self, columns: dict[str, Any], **changes: Any) -> SampleBatch:
        """Returns a batch of other columns with the same flags."""
        facts = {f"_{name}": getattr(self, name) for name in _RECORDS} | changes
        return SampleBatch(columns, **facts)

    def copy(self, shallow: bool = False) -> SampleBatch:
        columns = {key: value if shallow else nested.map_structure(_copied, value) for key, value in self.items()}
        copied = self._alike(columns)
        copied.set_get_interceptor(self.get_interceptor)
        return copied

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> SampleBatch:
        return self.copy()

    def __reduce__(self) -> Any:
        return _restored, (dict(self.items()), {f"_{name}": getattr(self, name) for name in _RECORDS})

    @staticmethod
    def concat_samples(samples: list[Any]) -> Any:
        """Returns one batch of the rows of several.

        Raises a ValueError if there is none, columns differ, or only some of them are padded.
        """
        if not samples:
            raise ValueError("concat_samples: there is no batch, expected one or more")
        if any(isinstance(one, MultiAgentBatch) for one in samples):
            return MultiAgentBatch.concat_samples(samples)
        filled = [one for one in samples if one.count] or samples[:1]
        first = filled[0]
        for one in filled[1:]:
            if one.keys() != first.keys():
                raise ValueError(f"batches have different columns: {sorted(first)} and {sorted(one)}")
            if (one.zero_padded, first.zero_padded and one.max_seq_len) != (
                first.zero_padded,
                first.zero_padded and first.max_seq_len,
            ):
                raise ValueError("batches are padded differently; pad them to the same max_seq_len")
        plain = ("seq_lens", *(key for key in first if key.startswith("state_in_")))
        columns = {}
        for key in first:
            time_major = None if key in plain else first.time_major
            columns[key] = concat_aligned([dict.__getitem__(one, key) for one in filled], time_major=time_major)
        longest = first.max_seq_len if first.zero_padded else None
        return first._alike(columns, _max_seq_len=longest)

    def concat(self, other: SampleBatch) -> SampleBatch:
        both: SampleBatch = SampleBatch.concat_samples([self, other])
        return both

    def shuffle(self) -> SampleBatch:
        """Shuffles the rows in place; raises a ValueError if they are sequences, whose order means something."""
        if "seq_lens" in self:
            raise ValueError("SampleBatch: rows of sequences cannot be shuffled; shuffle whole sequences (timeslices)")
        order = np.random.permutation(self.count)  # as scripts seed it
        for key, column in list(self.items()):
            self[key] = _rows(column, order)
        return self

    def split_by_episode(self) -> list[SampleBatch]:
        if SampleBatch.EPS_ID not in self:
            if SampleBatch.DONES in self and np.any(np.asarray(super().__getitem__("dones"))[:-1]):
                raise ValueError("SampleBatch: there are several episodes and no column eps_id to distinguish them")
            self[SampleBatch.EPS_ID] = np.zeros(self.count, np.int64)
            return [self]
        episode = np.asarray(super().__getitem__(SampleBatch.EPS_ID))
        cuts = [0, *(np.flatnonzero(episode[1:] != episode[:-1]) + 1).tolist(), self.count]
        return [self.slice(start, end) for start, end in itertools.pairwise(cuts)]

    def slice(self, start: int, end: int, state_start: int | None = None, state_end: int | None = None) -> SampleBatch:
        """Returns the rows from `start` up to `end`, as views; a `start` below 0 puts rows of zeros first."""
        states = {key for key in self if key.startswith("state_in_")} if "seq_lens" in self else set()
        columns = {}
        for key, column in self.items():
            if key != "seq_lens" and key not in states:
                columns[key] = nested.map_structure(lambda leaf: _window(leaf, start, end), column)
        if "seq_lens" not in self:
            return self._alike(columns)
        lengths = np.asarray(super().__getitem__("seq_lens")).astype(np.int64)
        ends = np.cumsum(np.full_like(lengths, self.max_seq_len) if self.zero_padded else lengths)
        begins = ends - (np.full_like(lengths, self.max_seq_len) if self.zero_padded else lengths)
        if state_start is None or state_end is None:
            inside = np.flatnonzero((ends > max(start, 0)) & (begins < end))
            state_start, state_end = (int(inside[0]), int(inside[-1]) + 1) if len(inside) else (0, 0)
        taken = slice(state_start, state_end)
        if self.zero_padded:
            kept = lengths[taken]
        else:
            kept = np.minimum(ends[taken], end) - np.maximum(begins[taken], max(start, 0))
        kept = kept.astype(np.int32)
        if start < 0 and len(kept):
            kept[0] -= start
        columns |= {key: _rows(super(SampleBatch, self).__getitem__(key), taken) for key in sorted(states)}
        return self._alike({**columns, "seq_lens": kept}, _max_seq_len=self.max_seq_len if self.zero_padded else None)

    def timeslices(
        self, size: int | None = None, num_slices: int | None = None, k: int | None = None
    ) -> list[SampleBatch]:
        size = size or k
        if size is None:
            if not num_slices:
                raise ValueError("timeslices: give size, the rows of a batch, or num_slices, their number")
            size = -(-self.count // num_slices)
        data, states = self._get_slice_indices(size)
        if not states:
            return [self.slice(start, end) for start, end in data]
        return [self.slice(*rows, *whose) for rows, whose in zip(data, states, strict=True)]

    def _get_slice_indices(self, slice_size: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Returns the first and last row of each batch of `slice_size` rows, and of its sequences if there are any."""
        if "seq_lens" not in self:
            data = [(row, min(row + slice_size, self.count)) for row in range(0, self.count, slice_size)]
            return data, []
        lengths = np.asarray(super().__getitem__("seq_lens")).astype(np.int64)
        if self.zero_padded:  # whole sequences, as many as have that many valid rows
            longest, data, states, first, rows = int(self.max_seq_len or 0), [], [], 0, 0
            for place, length in enumerate(lengths.tolist(), 1):
                rows += length
                if rows >= slice_size or place == len(lengths):
                    data.append((first * longest, place * longest))
                    states.append((first, place))
                    first, rows = place, 0
            return data, states
        ends, data, states = np.cumsum(lengths), [], []
        for start in range(0, self.count, slice_size):
            end = min(start + slice_size, self.count)
            data.append((start, end))
            states.append((int(np.searchsorted(ends, start, "right")), int(np.searchsorted(ends, end, "left")) + 1))
        return data, states

    def right_zero_pad(self, max_seq_len: int, exclude_states: bool = True) -> SampleBatch:
        if "seq_lens" not in self:
            raise ValueError("SampleBatch: there is no column seq_lens, the lengths of sequences")
        lengths = np.asarray(super().__getitem__("seq_lens")).astype(np.int64)
        if lengths.max() > max_seq_len:
            raise ValueError(f"SampleBatch: a sequence has {lengths.max()} rows, more than max_seq_len={max_seq_len}")
        begins = np.repeat(np.arange(len(lengths)) * max_seq_len, lengths)
        places = begins + np.arange(self.count) - np.repeat(np.cumsum(lengths) - lengths, lengths)

        def padded(leaf: Any) -> Any:
            if isinstance(leaf, np.ndarray):
                out: Any = np.zeros((len(lengths) * max_seq_len, *leaf.shape[1:]), leaf.dtype)
            else:
                out = leaf.new_zeros((len(lengths) * max_seq_len, *leaf.shape[1:]))
            out[places] = leaf
            return out

        for key, column in list(self.items()):
            if key != "seq_lens" and not (exclude_states and key.startswith("state_in_")):
                self[key] = nested.map_structure(padded, column)
        self.zero_padded, self.max_seq_len = True, max_seq_len
        return self

    zero_pad = right_zero_pad

    # --- packing ---

    def compress(self, bulk: bool = False, columns: Iterable[str] = PACKED) -> SampleBatch:
        for key in columns:
            if key in self:
                column = super().__getitem__(key)
                self[key] = compression.pack(column) if bulk else np.array([compression.pack(row) for row in column])
        return self

    def decompress_if_needed(self, columns: Iterable[str] = PACKED) -> SampleBatch:
        for key in columns:
            column: Any = super().get(key)
            if compression.is_compressed(column):
                self[key] = compression.unpack(column)
            elif isinstance(column, np.ndarray) and len(column) and compression.is_compressed(column[0]):
                self[key] = np.array([compression.unpack(str(row)) for row in column])
        return self

    # --- inputs of models ---

    def get_single_step_input_dict(self, view_requirements: Mapping[str, Any], index: Any = "last") -> SampleBatch:
        present = self.count if index == "last" else index
        if isinstance(present, int) and present < 0:
            present += self.count
        found = {}
        for name, requirement in view_requirements.items():
            column = requirement.data_col or name
            if isinstance(index, tuple):
                last = index[1] if index[1] != -1 else self.count - 1
                found[name] = _rows(super().__getitem__(column), slice(index[0], last + 1))[None]
                continue
            shifts, many = requirement.shifts()
            if column in (SampleBatch.PREV_ACTIONS, SampleBatch.PREV_REWARDS) and index == "last":
                column = {SampleBatch.PREV_ACTIONS: SampleBatch.ACTIONS, SampleBatch.PREV_REWARDS: SampleBatch.REWARDS}[
                    column
                ]
                shifts = [shift - 1 for shift in shifts]
            values = [self._at(column, present + shift) for shift in shifts]
            stack = np.stack if isinstance(values[0], np.ndarray | np.generic) else _stacked
            found[name] = stack(values)[None] if many else stack(values)
        return SampleBatch(found, seq_lens=np.array([1], np.int32))

    def _at(self, column: str, row: int) -> Any:
        """Returns a row of the trajectory: zeros before its start; after its end the next or the last row."""
        series = super().__getitem__(column)
        if row >= self.count:
            after = {SampleBatch.OBS: SampleBatch.NEXT_OBS}.get(column, column)
            return super().get(after, series)[-1]
        if row < 0:
            return series[0] * 0
        return series[row]

    def __repr__(self) -> str:
        return f"SampleBatch({self.count}: {list(self.keys())})"


def _restored(columns: dict[str, Any], facts: dict[str, Any]) -> SampleBatch:
    return SampleBatch(columns, **facts)


def _window(leaf: Any, start: int, end: int) -> Any:
    """Returns rows of an array; zeros for those before the first."""
    if start >= 0:
        return leaf[start:end]
    if isinstance(leaf, np.ndarray):
        return np.concatenate((np.zeros((-start, *leaf.shape[1:]), leaf.dtype), leaf[:end]))
    return concat_aligned([leaf.new_zeros((-start, *leaf.shape[1:])), leaf[:end]])


def _stacked(values: list[Any]) -> Any:
    """Stacks values of one column to an array or tensor with a row for each."""
    if hasattr(values[0], "unsqueeze"):
        return concat_aligned([value.unsqueeze(0) for value in values])
    return np.array(values)


class MultiAgentBatch:
    def __init__(self, policy_batches: Mapping[str, SampleBatch], env_steps: int) -> None:
        for name, batch in policy_batches.items():
            if not isinstance(batch, SampleBatch):
                raise ValueError(f"MultiAgentBatch: {name} has a {type(batch).__name__}, expected a SampleBatch")
        self.policy_batches: dict[str, SampleBatch] = dict(policy_batches)
        self.count = env_steps

    def __len__(self) -> int:
        return self.count

    def env_steps(self) -> int:
        return self.count

    def agent_steps(self) -> int:
        return sum(batch.count for batch in self.policy_batches.values())

    def as_multi_agent(self) -> MultiAgentBatch:
        return self

    def timeslices(self, k: int) -> list[MultiAgentBatch]:
        moments = {
            name: np.stack([np.asarray(batch[SampleBatch.EPS_ID]), np.asarray(batch[SampleBatch.T])], axis=1)
            for name, batch in self.policy_batches.items()
        }
        steps, place = np.unique(np.concatenate(list(moments.values())), axis=0, return_inverse=True)
        ends = np.cumsum([len(rows) for rows in moments.values()])
        piece = dict(zip(moments, np.split(place.ravel() // k, ends[:-1]), strict=True))
        slices = []
        for number in range(-(-len(steps) // k)):
            batches = {}
            for name, batch in self.policy_batches.items():
                rows = np.flatnonzero(piece[name] == number)
                if len(rows):
                    agent = np.asarray(batch[SampleBatch.AGENT_INDEX])[rows]
                    rows = rows[np.lexsort((agent, moments[name][rows, 1], moments[name][rows, 0]))]
                    batches[name] = SampleBatch({key: _rows(column, rows) for key, column in batch.items()})
            slices.append(MultiAgentBatch(batches, min(k, len(steps) - number * k)))
        return slices

    @staticmethod
    def wrap_as_needed(policy_batches: Mapping[str, SampleBatch], env_steps: int) -> Any:
        if set(policy_batches) == {DEFAULT_POLICY_ID}:
            return policy_batches[DEFAULT_POLICY_ID]
        return MultiAgentBatch(policy_batches, env_steps)

    @staticmethod
    def concat_samples(samples: list[Any]) -> MultiAgentBatch:
        parts: dict[str, list[SampleBatch]] = defaultdict(list)
        for one in samples:
            if not isinstance(one, MultiAgentBatch):
                raise ValueError(f"concat_samples: {type(one).__name__} among batches of several policies")
            for name, batch in one.policy_batches.items():
                parts[name].append(batch)
        joined = {name: SampleBatch.concat_samples(batches) for name, batches in parts.items()}
        return MultiAgentBatch(joined, sum(one.count for one in samples))

    def copy(self) -> MultiAgentBatch:
        return MultiAgentBatch({name: batch.copy() for name, batch in self.policy_batches.items()}, self.count)

    def size_bytes(self) -> int:
        return sum(batch.size_bytes() for batch in self.policy_batches.values())

    def compress(self, bulk: bool = False, columns: Iterable[str] = PACKED) -> None:
        for batch in self.policy_batches.values():
            batch.compress(bulk, columns)

    def decompress_if_needed(self, columns: Iterable[str] = PACKED) -> MultiAgentBatch:
        for batch in self.policy_batches.values():
            batch.decompress_if_needed(columns)
        return self

    def __repr__(self) -> str:
        return f"MultiAgentBatch({self.policy_batches}, env_steps={self.count})"


class SampleBatchBuilder:
    _unrolls = 0

    def __init__(self) -> None:
        self.buffers: dict[str, list[Any]] = defaultdict(list)
        self.count = 0

    def add_values(self, **values: Any) -> None:
        for key, value in values.items():
            self.buffers[key].append(value)
        self.count += 1

    def add_batch(self, batch: SampleBatch) -> None:
        for key, column in batch.items():
            self.buffers[key].extend(column)
        self.count += batch.count

    def build_and_reset(self) -> SampleBatch:
        """Returns the rows as a batch with float32 values, and starts a new one."""
        columns = {}
        for key, values in self.buffers.items():
            array = np.array(values)
            columns[key] = array.astype(np.float32) if array.dtype == np.float64 else array
        batch = SampleBatch(columns)
        if SampleBatch.UNROLL_ID not in batch:
            batch[SampleBatch.UNROLL_ID] = np.full(batch.count, SampleBatchBuilder._unrolls)
            SampleBatchBuilder._unrolls += 1
        self.buffers.clear()
        self.count = 0
        return batch
