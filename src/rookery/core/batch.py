"""Experience as typed arrays: rollouts of workers, and the batches that algorithms pass to their losses.

Letters: T decisions of a fragment, F fragments, K truncated decisions, N rows of a minibatch. A *decision* is one
action of one agent; a *fragment* is up to T consecutive decisions of one slot (an agent of a lane).
Fragments may span episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from typing import Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from rookery.core.errors import RookeryError
from rookery.core.io.packing import Layout, pack, unpack

COST = "cost"
"""Key of a cost in the info of an environment's step, and name of the further column of decisions with their costs."""

TensorTree = dict[str, Tensor]
"""An observation: tensors by leaf path (see `core/spaces/arrays.py`)."""


@dataclass(frozen=True)
class Demand:
    """Amount of experience that an algorithm needs for one update.

    Attributes:
        fragment_length: T, decisions of one slot in a row.
        decisions: Decisions per update, over all slots; None means `fragment_length` times the slots of the policy.
        any_actions: Whether actions that the policy did not choose can be learned from.
        costs: Whether decisions are recorded with their costs (`rollout/costs.py`).
    """

    fragment_length: int
    decisions: int | None = None
    any_actions: bool = False
    costs: bool = False


class Stacked:
    """Leaf of rows with several frames each, in which each frame is stored once; rows are assembled on access. It
    replaces a tensor in a `TensorTree`, and image networks accept it.

    Args:
        base: ``[R, ...]`` the frames.
        index: ``[N, frames]`` indices of each row's frames.
        arrange: From ``[N, frames, ...]`` to rows ``[N, ...]`` in the shape of the leaf.
    """

    def __init__(self, base: Tensor, index: Tensor, arrange: Callable[[Tensor], Tensor]) -> None:
        self.base = base
        self.index = index
        self.arrange = arrange

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, rows: Tensor) -> Stacked:
        """Returns the rows with these indices without assembling them."""
        return Stacked(self.base, self.index[rows], self.arrange)

    def index_select(self, dim: int, rows: Tensor) -> Tensor:
        """Returns the rows with these indices, assembled: ``[n, ...]``."""
        assert dim == 0
        return self[rows].tensor()

    def tensor(self) -> Tensor:
        """Returns all rows, assembled."""
        return self.arrange(self.base[self.index])


def rows_of(tree: TensorTree, rows: Tensor) -> TensorTree:
    """Returns the rows with these indices of each leaf; `Stacked` leaves are not assembled."""
    picked: dict[str, Any] = {}
    for path, leaf in tree.items():
        picked[path] = leaf[rows] if isinstance(leaf, Stacked) else leaf.index_select(0, rows)
    return picked


def put_together(tree: TensorTree) -> TensorTree:
    """Returns a tree with assembled `Stacked` leaves."""
    return {path: leaf.tensor() if isinstance(leaf, Stacked) else leaf for path, leaf in tree.items()}


def flat(tensor: Tensor, rows: Tensor | None) -> Tensor:
    """Reshapes ``[T, F, ...]`` to ``[N, ...]``: all T * F rows (a view if possible), or the chosen ones."""
    merged = tensor.flatten(0, 1)
    return merged if rows is None else merged.index_select(0, rows)


@dataclass(frozen=True)
class Sequences:
    """Order of N rows in time, for memories: B sequences of at most S rows on a grid ``[S, B]``.

    Row t of sequence b is valid if ``t < length[b]``. A sequence may span episodes.

    Attributes:
        first: ``[S, B]`` bool, where an episode starts with an empty memory.
        length: ``[B]`` int64, valid rows of each sequence, at least one.
        place: ``[N]`` int64, index of each row in the flattened grid; None if the rows fill it in order.
    """

    first: Tensor
    length: Tensor
    place: Tensor | None

    def grid(self, rows: Tensor) -> Tensor:
        """Returns rows ``[N, ...]`` on the grid ``[S, B, ...]``, with zeros in empty cells; a view if they fill it."""
        steps, count = self.first.shape
        if self.place is None:
            return rows.view(steps, count, *rows.shape[1:])
        laid = rows.new_zeros(steps * count, *rows.shape[1:]).index_copy(0, self.place, rows)
        return laid.view(steps, count, *rows.shape[1:])

    def rows(self, grid: Tensor) -> Tensor:
        """Returns the rows ``[N, ...]`` of values on the grid ``[S, B, ...]``."""
        return flat(grid, self.place)

    def pick(self, which: Tensor) -> tuple[Tensor, Sequences]:
        """Selects sequences: returns the indices of their rows, and the order of these rows in time.

        Args:
            which: ``[b]`` int64.
        """
        length = self.length.index_select(0, which)
        return self._part(which, length, slice(0, int(length.max())))

    def between(self, start: int, end: int) -> tuple[Tensor, Tensor, Sequences]:
        """Selects time steps: returns the sequences in them ``[b]``, the indices of their rows, and their order in
        time.
        """
        which = (self.length > start).nonzero().squeeze(1)
        length = (self.length.index_select(0, which) - start).clamp_(max=end - start)
        return which, *self._part(which, length, slice(start, end))

    def _part(self, which: Tensor, length: Tensor, steps: slice) -> tuple[Tensor, Sequences]:
        numbers = self._numbers[steps].index_select(1, which)
        whole = int(length.min()) == len(numbers)
        numbers = numbers.flatten()
        place = None if whole else (numbers >= 0).nonzero().squeeze(1)
        rows = numbers if place is None else numbers.index_select(0, place)
        return rows, Sequences(self.first[steps].index_select(1, which), length, place)

    @cached_property
    def _numbers(self) -> Tensor:
        """Returns ``[S, B]``, the index of the row in each cell of the grid, -1 for empty cells."""
        numbers = torch.full((self.first.numel(),), -1, device=self.first.device, dtype=torch.int64)
        place = (
            torch.arange(len(numbers), device=numbers.device, dtype=torch.int64) if self.place is None else self.place
        )
        numbers[place] = torch.arange(len(place), device=numbers.device, dtype=torch.int64)
        return numbers.view_as(self.first)


@dataclass(frozen=True)
class Rollout:
    """Experience of one policy, time-major.

    Row t of fragment f is valid if ``t < length[f]``; other rows have no meaning. Fragments of one slot are in the
    order of time.

    Attributes:
        obs: ``[T, F, ...]`` raw observations; an action mask is one of the leaves.
        action: ``[T, F, ...]`` as the policy drew it, before clipping or rescaling for the environment.
        logp: ``[T, F]`` its log-probability when it was sampled; NaN where the policy did not choose it
            (`Demand.any_actions`). For evolution strategies, the number of the candidate (`rollout/candidates.py`).
        reward: ``[T, F]`` sum of the agent's rewards until its next decision.
        terminated: ``[T, F]`` the agent's episode terminated here.
        truncated: ``[T, F]`` the agent's episode was truncated here; bootstraps from `final_obs`.
        last_obs: ``[F, ...]`` the slot's observation after its last valid decision; no meaning if that one ended an
            episode.
        final_obs: ``[K, ...]`` the last observation of each truncated episode.
        boot_index: ``[K, 2]`` (t, f) of the decision that bootstraps from it.
        slot: ``[F]`` index of the slot.
        clock: ``[F]`` decisions of the slot before row 0.
        length: ``[F]`` valid decisions.
        first: ``[F]`` whether row 0 starts an episode.
        version: ``[F]`` version of the weights that chose row 0; older than those of the rest if its reward came late.
        memory: ``[C, F, M]`` the policy's memory before row ``c * memory_every``; None without a memory.
        memory_every: Rows from one of these to the next.
        extras: ``[T, F, width]`` float32 by name, further columns that the acting side wrote (`HeadSpec.extras`).
    """

    obs: TensorTree
    action: Tensor
    logp: Tensor
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    last_obs: TensorTree
    final_obs: TensorTree
    boot_index: Tensor
    slot: Tensor
    clock: Tensor
    length: Tensor
    first: Tensor
    version: Tensor
    memory: Tensor | None = None
    memory_every: int = 1
    extras: TensorTree = field(default_factory=dict)

    def map(self, function: Callable[[str, Tensor], Tensor]) -> Self:
        """Returns a rollout with `function` applied to each tensor; it receives the name (``obs/camera``) and the
        tensor.
        """
        return _mapped(self, function)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles all tensors as one buffer."""
        tensors: dict[str, Tensor] = {}
        self.map(lambda name, tensor: tensors.setdefault(name, tensor))
        others = {name: part for name, part in vars(self).items() if not isinstance(part, dict | Tensor)}
        return _unpacked, (type(self), others, list(tensors), *pack(list(tensors.values())))

    @property
    def begins(self) -> Tensor:
        """Returns ``[T, F]`` bool, whether a row is the first of an episode."""
        return torch.cat((self.first.unsqueeze(0), (self.terminated | self.truncated)[:-1]))

    @property
    def valid(self) -> Tensor:
        """Returns ``[T, F]`` bool, which rows are valid."""
        return torch.arange(len(self.reward), device=self.length.device, dtype=torch.int64).unsqueeze(
            1
        ) < self.length.unsqueeze(0)

    @property
    def last(self) -> Tensor:
        """Returns ``[T, F]`` bool, the last valid row of each fragment."""
        return (
            torch.arange(len(self.reward), device=self.length.device, dtype=torch.int64).unsqueeze(1)
            == self.length.unsqueeze(0) - 1
        )

    @property
    def num_decisions(self) -> int:
        """Number of valid rows."""
        return sum(self.length.tolist())  # of few fragments faster than an operation of torch

    @property
    def num_cut(self) -> int:
        """Number of fragments shorter than T."""
        length = self.length.tolist()
        return len(length) - length.count(self.reward.shape[0])

    def valid_rows(self) -> Tensor | None:
        """Indices of the valid rows in the flattened ``[T * F]`` arrays, or None if every row is valid."""
        if self.num_cut == 0:
            return None
        return self.valid.flatten().nonzero().squeeze(1)

    def sequences(self) -> tuple[Sequences, Tensor]:
        """Returns the valid rows, split where the policy's memory was stored; and that memory ``[B, M]`` before each
        sequence.
        """
        assert self.memory is not None
        steps, fragments = self.reward.shape
        device, every, parts = self.length.device, self.memory_every, len(self.memory)
        start = torch.arange(parts, device=device, dtype=torch.int64).unsqueeze(1) * every
        length = (self.length - start).clamp_(0, every).flatten()
        kept = length.nonzero().squeeze(1)
        column = torch.zeros_like(length)
        column[kept] = torch.arange(len(kept), device=device, dtype=torch.int64)
        first = torch.zeros(parts * every, fragments, dtype=torch.bool, device=device)
        first[:steps] = self.begins & self.valid
        first = first.view(parts, every, fragments).transpose(0, 1).reshape(every, -1)[: int(length.max()), kept]
        t, f = self.valid.nonzero(as_tuple=True)
        place = t % every * len(kept) + column[t // every * fragments + f]
        return Sequences(first, length[kept], place), self.memory.flatten(0, 1)[kept]

    def timeline(self) -> Sequences:
        """Returns whole fragments with their bootstrap observations, in the order of time.

        The rows are: the valid decisions in the order of `valid_rows`; F last observations, each after its fragment's
        last decision; K final ones, each after the decision that bootstraps from it.
        """
        fragments, device = len(self.length), self.length.device
        inserted = torch.zeros_like(self.reward, dtype=torch.int64)
        inserted[self.boot_index[:, 0], self.boot_index[:, 1]] = 1
        until = inserted.cumsum(0)
        t, f = self.valid.nonzero(as_tuple=True)
        row = t + (until - inserted)[t, f]
        number = torch.arange(fragments, device=device, dtype=torch.int64)
        last = self.length + until[-1]
        (boot_t, boot_f) = self.boot_index.T
        final = boot_t + until[boot_t, boot_f]
        steps = int(last.max()) + 1
        first = torch.zeros(steps, fragments, dtype=torch.bool, device=device)
        first[row, f] = self.begins[t, f]
        first[last, number] = (self.terminated | self.truncated)[self.length - 1, number]
        place = torch.cat((row * fragments + f, last * fragments + number, final * fragments + boot_f))
        whole = len(place) == steps * fragments and len(boot_t) == 0  # then they fill the grid in its order
        return Sequences(first, last + 1, None if whole else place)

    def timeline_rows(self, obs: TensorTree, last: TensorTree, final: TensorTree) -> TensorTree:
        """Returns observations in the order of `timeline`.

        Args:
            obs: ``[T * F, ...]`` of all decisions.
            last: ``[F, ...]`` the last ones.
            final: ``[K, ...]`` the final ones.
        """
        rows = self.valid_rows()
        parts = [put_together(part) for part in (obs if rows is None else rows_of(obs, rows), last, final)]
        return {path: torch.cat([part[path] for part in parts]) for path in obs}


@dataclass(frozen=True)
class Minibatch:
    """Rows for an actor-critic loss; all fields ``[N, ...]``, those of values ``[N, S]``, a column for each of S reward
    signals.

    Attributes:
        obs: Observations, normalized if the policy does that.
        action: The actions.
        logp: Their log-probability when sampled, or, with `importance`, at the start of the update.
        advantage: ``[N]`` advantages, summed over reward signals by their strength.
        value_target: ``[N, S]`` targets of the values.
        value: ``[N, S]`` values before this update.
        importance: Probability ratio of the action between the start of the update and its sampling; None if equal.
        sequences: Order of the rows in time, for a policy with a memory; None for independent rows.
        memory: ``[B, M]`` memory before each sequence.
        least_deviation: What normalized advantages are divided by if their standard deviation is smaller.
    """

    obs: TensorTree
    action: Tensor
    logp: Tensor
    advantage: Tensor
    value_target: Tensor
    value: Tensor
    importance: Tensor | None = field(default_factory=lambda: None)  # no class attribute: see `at`
    sequences: Sequences | None = field(default_factory=lambda: None)
    memory: Tensor | None = field(default_factory=lambda: None)
    least_deviation: float = field(default_factory=float)

    def __len__(self) -> int:
        source = self.source
        return len(self.advantage if source is None else source[1])

    @property
    def source(self) -> tuple[Self, Tensor] | None:
        """The batch that this one is part of, and the indices of its rows there; None for a separate batch."""
        found: tuple[Self, Tensor] | None = self.__dict__.get("_source")
        return found

    def at(self, rows: Tensor) -> Self:
        """Returns independent rows with these indices, int64 ``[n]``.

        A field is gathered on first access: kernels read rows in place, without access to fields.

        Raises:
            IndexError: If there is no such row.
            RookeryError: If rows belong to sequences, which only `shuffled` splits.
        """
        if self.sequences is not None:
            raise RookeryError("rows of a policy with memory belong to sequences: use shuffled")
        if len(rows) and not (int(rows.min()) >= 0 and int(rows.max()) < len(self)):
            raise IndexError(f"rows {int(rows.min())} to {int(rows.max())} of a batch of {len(self)}")
        return self._part(rows)

    def _part(self, rows: Tensor, sequences: Sequences | None = None, memory: Tensor | None = None) -> Self:
        part = object.__new__(type(self))
        part.__dict__["_source"] = self, rows
        part.__dict__["sequences"], part.__dict__["memory"] = sequences, memory
        part.__dict__["least_deviation"] = self.least_deviation
        kind: Any = type(self)
        for name in _with_default(kind):  # otherwise access would find the default
            part.__getattr__(name)
        return part

    def __getattr__(self, name: str) -> Any:
        source = self.source
        if source is None or name not in self.__dataclass_fields__:
            raise AttributeError(f"{type(self).__name__} has no {name!r}")
        whole, rows = source
        value = getattr(whole, name)
        if isinstance(value, dict):
            value = {path: leaf.index_select(0, rows) for path, leaf in value.items()}
        elif isinstance(value, Tensor):
            value = value.index_select(0, rows)
        self.__dict__[name] = value
        return value

    def map(self, function: Callable[[Any], Any]) -> Self:
        """Returns a batch with `function` applied to each tensor; sequences stay unchanged."""
        return _mapped(self, lambda _, tensor: function(tensor))

    def shuffled(self, size: int, rng: np.random.Generator) -> Iterator[Self]:
        """Yields one epoch: the rows in random order, in near-equal parts of at most `size` rows, so never a tail of
        one. Sequences are shuffled and distributed as a whole, and parts differ by less than one sequence.
        """
        total, device = len(self), self.advantage.device
        count = -(-total // size)
        if self.sequences is None:
            order = torch.from_numpy(rng.permutation(total)).to(device)
            sizes = [total * (part + 1) // count - total * part // count for part in range(count)]
            return map(self._part, order.split(sizes))
        return (self.picked(which) for which in self.cut_sequences(count, rng) if len(which))

    def cut_sequences(self, count: int, rng: np.random.Generator) -> tuple[Tensor, ...]:
        """Returns the indices of the sequences in random order, in `count` parts of about equal rows; parts may be
        empty.
        """
        assert self.sequences is not None
        length = self.sequences.length
        order = torch.from_numpy(rng.permutation(len(length))).to(length.device)
        rows = length.index_select(0, order)
        part = (2 * rows.cumsum(0) - rows) * count // (2 * len(self))  # where the middle of each one falls
        parts: tuple[Tensor, ...] = order.split(part.bincount(minlength=count).tolist())
        return parts

    def picked(self, which: Tensor) -> Self:
        """Returns the rows of the sequences with these indices, int64 ``[b]``."""
        assert self.sequences is not None
        assert self.memory is not None
        rows, sequences = self.sequences.pick(which)
        return self._part(rows, sequences, self.memory.index_select(0, which))


@cache
def _with_default(kind: type[Minibatch]) -> tuple[str, ...]:
    """Returns the fields whose default is an attribute of the class."""
    return tuple(item.name for item in fields(kind) if hasattr(kind, item.name))


@dataclass(frozen=True, kw_only=True)
class PenaltyMinibatch(Minibatch):
    """Minibatch with the distributions before the update, for a KL penalty.

    Attributes:
        old: ``[N, P]`` their parameters.
        kl_coef: ``[N]`` weight of the penalty in this update.
    """

    old: Tensor
    kl_coef: Tensor


@dataclass(frozen=True)
class Transitions:
    """Transitions drawn from a replay buffer; all fields ``[N, ...]``.

    The target of a value is ``reward + discount * value(next_obs)``: of one step, or of as many as requested and
    available in the episode.

    Attributes:
        obs: Observations, raw as stored.
        action: Actions, as the policy drew them.
        reward: Sum of the discounted rewards of the window.
        next_obs: Observation after the window; the true final observation of truncated episodes. No meaning if
            `discount` is 0.
        discount: gamma to the power of the window's steps; 0 if the episode terminated in it.
        weight: Importance weight of each row's loss; None if all count alike.
        row: Serial number of each row in its replay buffer, int64, for `update_priorities`.
    """

    obs: TensorTree
    action: Tensor
    reward: Tensor
    next_obs: TensorTree
    discount: Tensor
    weight: Tensor | None
    row: Tensor

    def __len__(self) -> int:
        return self.reward.shape[0]

    def to(self, device: torch.device) -> Self:
        """Returns the transitions with all tensors on `device`."""
        return self if self.reward.device == device else _mapped(self, lambda _, tensor: tensor.to(device))


@dataclass(frozen=True)
class Stored:
    """Arrays of a replay buffer.

    Attributes:
        obs: Leaves ``[capacity, ...]`` of observations.
        action: ``[capacity, ...]`` actions.
    """

    obs: dict[str, np.ndarray]
    action: np.ndarray


@dataclass(frozen=True)
class Places:
    """Locations of transitions in a replay buffer.

    Attributes:
        stored: The replay buffer's arrays.
        row: ``[N]`` int64, rows of observations and actions.
        after: ``[N]`` int64, rows of next observations.
    """

    stored: Stored
    row: np.ndarray
    after: np.ndarray


@dataclass(frozen=True)
class TransitionsInPlace(Transitions):
    """Transitions that are read from their replay buffer on access.

    Observations and actions are gathered on first access, which must happen before the replay buffer changes; kernels
    read the rows in place. A copy with other fields has no location.
    """

    @property
    def places(self) -> Places | None:
        """Locations of the transitions in the buffer; None for a copy."""
        return self.__dict__.get("_places")

    @classmethod
    def at(cls, places: Places, reward: Tensor, discount: Tensor, weight: Tensor | None, row: Tensor) -> Self:
        """Returns the transitions at these locations; other arguments as of `Transitions`."""
        found = object.__new__(cls)
        found.__dict__.update(_places=places, reward=reward, discount=discount, weight=weight, row=row)
        return found

    def __getattr__(self, name: str) -> Any:
        places: Places | None = self.__dict__.get("_places")
        if places is None or name not in ("obs", "action", "next_obs"):
            raise AttributeError(f"{type(self).__name__} has no {name!r}")
        value: Any
        if name == "action":
            value = torch.from_numpy(places.stored.action.take(places.row, axis=0))
        else:
            rows = places.row if name == "obs" else places.after
            value = {path: torch.from_numpy(leaf.take(rows, axis=0)) for path, leaf in places.stored.obs.items()}
        self.__dict__[name] = value
        return value


@dataclass(frozen=True)
class Decisions:
    """Decisions with their next observations, one per row; all fields ``[N, ...]``.

    Attributes:
        obs: Raw observations.
        action: Actions in stored form.
        next_obs: Raw observations after it, the final one where the episode was truncated.
        terminated: Whether the episode terminated; `next_obs` then has no meaning.
    """

    obs: TensorTree
    action: Tensor
    next_obs: TensorTree
    terminated: Tensor

    def __len__(self) -> int:
        return len(self.action)

    def at(self, rows: Tensor) -> Self:
        """Returns the decisions with these indices, int64 ``[n]``."""
        return _mapped(self, lambda _, tensor: tensor.index_select(0, rows))

    def to(self, device: torch.device) -> Self:
        """Returns the decisions with all tensors on `device`."""
        return self if self.action.device == device else _mapped(self, lambda _, tensor: tensor.to(device))


@dataclass(frozen=True)
class WindowSteps(Decisions):
    """The decisions of windows of n steps, one by one.

    Attributes:
        window: ``[N]`` int64, index of a decision's window.
        discount: ``[N]`` discount of its reward at the start of its window.
    """

    window: Tensor
    discount: Tensor


Record = TypeVar("Record", bound=Rollout | Minibatch | Transitions | Decisions)


def _mapped(record: Record, function: Callable[[str, Tensor], Tensor]) -> Record:
    """Returns a record with `function` applied to each tensor and its name."""
    made: dict[str, Any] = {}
    for item in fields(record):
        part = made[item.name] = getattr(record, item.name)
        if isinstance(part, dict):
            made[item.name] = {path: function(f"{item.name}/{path}", leaf) for path, leaf in part.items()}
        elif isinstance(part, Tensor):
            made[item.name] = function(item.name, part)
    return type(record)(**made)


def _unpacked(
    kind: type[Rollout], others: dict[str, Any], names: list[str], buffer: np.ndarray, layout: Layout
) -> Rollout:
    """Returns a rollout from the result of `__reduce__`: class, other fields, names of tensor fields, and their
    data.
    """
    made: dict[str, Any] = {item.name: {} for item in fields(kind) if item.name in OF_LEAVES} | others
    for name, tensor in zip(names, unpack(buffer, layout), strict=True):
        of, leaf, path = name.partition("/")
        if leaf:
            made[of][path] = tensor
        else:
            made[of] = tensor
    return kind(**made)


RolloutT = TypeVar("RolloutT", bound=Rollout)
OF_LEAVES = ("obs", "last_obs", "final_obs", "extras")
"""Fields of a rollout that are trees of tensors."""
OF_FRAGMENTS = ("last_obs", "slot", "clock", "length", "first", "version")
"""Fields of a rollout whose first axis indexes fragments; except for `boot_index`, fragments are the second axis."""


def joined(rollouts: Sequence[RolloutT]) -> RolloutT:
    """Joins the fragments of several rollouts of one policy, in their order; shorter fragments are padded with invalid
    rows.
    """
    whole, before = rollouts[0], [0]
    for rollout in rollouts:
        before.append(before[-1] + len(rollout.length))

    def together(name: str, _: Tensor) -> Tensor:
        of, path = name.partition("/")[::2]
        parts = [getattr(rollout, of) for rollout in rollouts]
        parts = [part[path] if isinstance(part, dict) else part for part in parts]
        if of == "boot_index":
            parts = [part + part.new_tensor([0, count]) for part, count in zip(parts, before, strict=False)]
        if of in (*OF_FRAGMENTS, "final_obs", "boot_index"):
            return torch.cat(parts)
        rows = max(map(len, parts))
        return torch.cat([_lengthened(part, rows) for part in parts], 1)

    return whole if len(rollouts) == 1 else whole.map(together)


def _lengthened(tensor: Tensor, rows: int) -> Tensor:
    """Pads a tensor with zeros to a number of rows."""
    missing = rows - len(tensor)
    return torch.cat((tensor, tensor.new_zeros(missing, *tensor.shape[1:]))) if missing else tensor
