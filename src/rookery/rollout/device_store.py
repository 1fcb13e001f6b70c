"""`DeviceStore`: the fragments of one policy in tensors on a device, for policies that act and step there.

It is a `SlotStore` whose rows may lie in tensors instead of in its arrays, while all slots decide in every step;
rollouts then lie on the device too. On the CPU both are the same memory. Where the arrays are needed, as for a
checkpoint or a step in Python, the rows are copied there first.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rookery.core.batch import Rollout, TensorTree
from rookery.core.spaces.arrays import Tree
from rookery.rollout.slots import SlotStore
from rookery.rollout.storage import OF_FRAGMENTS, OF_ROWS, DecisionSlab

ON_DEVICE = (*OF_ROWS, "last_obs")
"""Columns kept in tensors; all other parts of a fragment are only read on the CPU."""


class TensorRow(NamedTuple):
    """A row of the storage: views ``[slots, ...]``, on the device.

    Attributes:
        obs: Observations of the decisions.
        action: Memory for the actions, in stored form.
        logp: Memory for their log-probabilities.
        reward: Memory for the rewards.
        terminated: Memory for terminations.
        truncated: Memory for truncations.
        slab: The first three as arrays that kernels write to; None where kernels cannot.
    """

    obs: TensorTree
    action: Tensor
    logp: Tensor
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    slab: DecisionSlab | None


class DeviceStore(SlotStore):
    """Open and finished fragments of one policy, on a device while whole rows are written.

    Args:
        arguments: Those of `SlotStore`.
        device: Device of the tensors.
        apart: Whether the tensors have their own memory; None = everywhere but on the CPU.
    """

    fixed: ClassVar[tuple[str, ...]] = (
        "device",
        "apart",
        "on_device",
        "_tensors",
        "_mirrored",
        "_rows",
        "_finals_there",
        "_seen",
    )

    def __init__(self, *arguments: Any, device: torch.device, apart: bool | None = None) -> None:
        super().__init__(*arguments)
        self.device = device
        self.apart = device.type != "cpu" if apart is None else apart
        self.on_device = False
        """Whether the tensors hold the open fragments; else the arrays do."""
        self._tensors: dict[str, Any] = {}
        self._mirrored: dict[str, Any] | None = None  # the arrays mirrored by the tensors
        self._rows: dict[int, list[TensorRow]] = {}  # by `_base`
        self._finals_there: list[tuple[Tensor, TensorTree]] = []  # indices [K, 2], and final observations
        self._seen: TensorTree = {}

    # --- between arrays and tensors -----------------------------------------------------------------------------------

    def _mirror(self) -> dict[str, Any]:
        """Returns the tensors of the present arrays; new tensors are filled from the arrays."""
        if self._mirrored is not self._store:
            self._mirrored = self._store
            self._tensors = {name: _each(self._store[name], self._placed) for name in ON_DEVICE}
            self._rows.clear()
        return self._tensors

    def _placed(self, array: np.ndarray) -> Tensor:
        tensor = torch.from_numpy(array)
        return tensor.to(self.device, copy=True) if self.apart else tensor

    def _fetch(self) -> None:
        """Copies rows from the tensors to the arrays."""
        if self.apart and self._mirrored is self._store:
            for name in ON_DEVICE:
                for array, tensor in zip(_parts(self._store[name]), _parts(self._tensors[name]), strict=True):
                    array[...] = tensor.cpu().numpy()

    def to_host(self) -> None:
        """Brings the arrays up to date; they are then used instead of the tensors."""
        if not self.on_device:
            return
        self._fetch()
        self.on_device = False
        for places, seen in self._finals_there:
            row, column = places.cpu().numpy().T
            self._keep_finals(
                row, column, {path: leaf.cpu().numpy() for path, leaf in seen.items()}, np.arange(len(row))
            )
        self._finals_there = []

    def to_device(self) -> None:
        """Brings the tensors up to date; they are then used instead of the arrays."""
        if self.on_device:
            return
        if self.apart:
            self._mirrored = None
        self._mirror()
        self.on_device = True
        if count := self._finals["count"]:
            places = torch.from_numpy(self._finals["index"][:count].copy()).to(self.device)
            seen = {
                path: torch.from_numpy(leaf[:count].copy()).to(self.device)
                for path, leaf in self._finals["obs"].items()
            }
            self._finals_there, self._finals["count"] = [(places, seen)], 0

    def _reserve(self, columns: int) -> None:
        """Ensures memory for `columns` fragments; existing contents are kept."""
        if self.on_device and 0 < len(self._store["slot"]) < columns:
            self._fetch()
        super()._reserve(columns)

    # --- whole rows ---------------------------------------------------------------------------------------------------

    def free_rows(self, slab: TensorTree) -> int:
        """Returns the number of rows that can be written from here on through `rows`; 0 if none.

        Args:
            slab: Current observations of the slots, on the device.
        """
        if self._taken:
            self._begin()
        if not (self._lockstep or self._enter_lockstep()):
            return 0
        self.to_device()
        self._seen = slab
        return super().free_rows(slab)

    def rows(self) -> list[TensorRow]:
        """Returns the rows of the open fragments; `next_row` is the number of the next one."""
        tensors = self._mirror()
        if self._base not in self._rows:
            columns = slice(self._base, self._base + self.num_slots)
            self._rows[self._base] = [self._row_at(tensors, row, columns) for row in range(self.demand.fragment_length)]
        return self._rows[self._base]

    @property
    def next_row(self) -> int:
        """Number of the next row of the open fragments."""
        return self._row

    def block(self, first: int, count: int) -> dict[str, Any]:
        """Returns `count` rows of the open fragments, ``[count, slots, ...]``, by the names of `Rollout`."""
        columns = slice(self._base, self._base + self.num_slots)
        return {name: _each(self._tensors[name], lambda leaf: leaf[first : first + count, columns]) for name in OF_ROWS}

    def _row_at(self, tensors: dict[str, Any], row: int, columns: slice) -> TensorRow:
        obs = {path: leaf[row, columns] for path, leaf in tensors["obs"].items()}
        action, logp, reward, terminated, truncated = (tensors[name][row, columns] for name in OF_ROWS[1:])
        slab = None
        if self.device.type == "cpu":
            slab = DecisionSlab({path: leaf.numpy() for path, leaf in obs.items()}, action.numpy(), logp.numpy())
        return TensorRow(obs, action, logp, reward, terminated, truncated, slab)

    def written(self, steps: int, finals: Tensor, final_obs: TensorTree, starts: np.ndarray, seen: TensorTree) -> None:
        """Counts rows that a loop has written, as `steps` times `begin_step`, `write_final_obs` and `write_outcomes`.

        Args:
            steps: Number of rows.
            finals: ``[K, 2]`` int64, row and slot of each truncated agent, in that order.
            final_obs: Their final observations.
            starts: ``[slots]`` bool, whether the slot's episode ended in the last row.
            seen: Current observations of all slots; used until the environment is stepped again.
        """
        if len(finals):
            self._finals_there.append((finals + finals.new_tensor([self._row, self._base]), final_obs))
        self._row += steps
        self.complete += steps * self.num_slots
        self._starts, self._seen = starts, seen

    def _keep_last(self, slab: Any, rows: slice | np.ndarray) -> None:
        """Stores the observations after the last row of the open fragments."""
        if not self.on_device:
            super()._keep_last(slab, rows)
            return
        for path, tensor in self._mirror()["last_obs"].items():
            tensor[self._base : self._base + self.num_slots] = self._seen[path]

    def drain(self, slab: Tree, row_of_slot: np.ndarray) -> Rollout:
        """Returns all complete decisions as a rollout on this store's own memory: on the device if they were written
        there.

        Args:
            slab: Current observations of the waiting slots; not used for data written on the device.
            row_of_slot: ``[slots]`` row of the slab of each slot.
        """
        if not self.on_device:
            return super().drain(slab, row_of_slot)
        store, tensors = self._store, self._mirror()
        store["length"][self._base : self._base + self.num_slots] = self._row
        self._keep_last(slab, row_of_slot)
        self._clock += self._row
        self._taken, self.complete = True, 0
        steps, used = int(store["length"][: self._used].max()), slice(self._used)
        parts: dict[str, Any] = {name: _each(tensors[name], lambda leaf: leaf[:steps, used]) for name in OF_ROWS}
        parts |= {name: torch.from_numpy(store[name][used]).to(self.device) for name in OF_FRAGMENTS[1:]}
        last_obs = _each(tensors["last_obs"], lambda leaf: leaf[used])
        finals = [(torch.zeros(0, 2, dtype=torch.int64, device=self.device), _each(last_obs, lambda leaf: leaf[:0]))]
        finals += self._finals_there
        return Rollout(
            **parts,
            last_obs=last_obs,
            final_obs={path: torch.cat([seen[path] for _, seen in finals]) for path in last_obs},
            boot_index=torch.cat([places for places, _ in finals]),
        )

    def _begin(self) -> None:
        """Starts to overwrite the data that was handed out."""
        self._finals_there = []
        super()._begin()
        if self.apart and self.on_device:
            for name in ("terminated", "truncated"):
                self._mirror()[name].zero_()

    # --- steps in Python ----------------------------------------------------------------------------------------------

    def begin_step(
        self, slots: np.ndarray | None, slab: Tree, rows: slice | np.ndarray, memory: np.ndarray | None = None
    ) -> DecisionSlab:
        """Writes the observations into the next row of each slot; see `SlotStore.begin_step`."""
        self.to_host()
        return super().begin_step(slots, slab, rows, memory)

    def _leave_lockstep(self) -> None:
        self.to_host()
        super()._leave_lockstep()

    def state_dict(self) -> dict[str, Any]:
        """Returns everything that changes, as a `SlotStore` does."""
        self.to_host()
        return super().state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the result of `state_dict`."""
        self.on_device, self._mirrored, self._finals_there = False, None, []
        super().load_state_dict(state)


def _parts(kept: Any) -> list[Any]:
    """Returns a list of one array or tensor, or of the leaves of a tree."""
    return list(kept.values()) if isinstance(kept, dict) else [kept]


def _each(kept: Any, function: Any) -> Any:
    """Applies a function to an array or tensor, or to each leaf of a tree."""
    return {path: function(leaf) for path, leaf in kept.items()} if isinstance(kept, dict) else function(kept)
