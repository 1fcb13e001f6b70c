"""Frozen policies of one shape that act together: any number of them decides in one pass.

A worker treats the snapshots of a policy as one policy, whose slots name their snapshots. So a hundred of them cost no
more calls than one: the kernel routes a slot's rows to the weights of its snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, MutableMapping
from typing import Any

import numpy as np
import torch

from rookery.core.spaces.arrays import Tree
from rookery.native.actor import native_actor
from rookery.native.stacked import StackedActors, stackable
from rookery.policies.policy import Policy
from rookery.rollout.mapping import SNAPSHOT, snapshot_number
from rookery.rollout.noise import ActionNoise
from rookery.rollout.slots import WorkerPolicy
from rookery.rollout.storage import DecisionSlab


class SnapshotStack(WorkerPolicy):
    """All snapshots of one policy at one worker: frozen, without recording.

    A decision uses the random numbers of its slot and of the vector step, whichever snapshot makes it. Policies with a
    memory, and those that kernels do not support, take one pass per snapshot.

    Args:
        of: The policy of the snapshots.
        number: Place among the worker's policies.
        policy: One of the same shape.
        noise: Random numbers of all slots.
        snapshots: By number, shared with the caller: others may be added at any time, none is changed, and those that
            no episode can use any more are removed here.
        make: Makes the `WorkerPolicy` of a snapshot that cannot be stacked, with arguments as of that class.
    """

    follows = False
    saved = ("member",)
    fixed = ("snapshots", "_make", "_stacked", "_alone")

    def __init__(
        self,
        of: str,
        number: int,
        policy: Policy,
        noise: ActionNoise,
        snapshots: MutableMapping[int, Policy],
        make: Callable[[str, int, Policy, None, ActionNoise], WorkerPolicy] = WorkerPolicy,
    ) -> None:
        self._make = make
        super().__init__(of + SNAPSHOT, number, policy, None, noise, of)
        self.snapshots = snapshots
        self.member = np.zeros(0, dtype=np.int64)
        """``[slots]`` number of the snapshot that plays there, or played there last."""
        self._stacked: StackedActors | None = StackedActors() if stackable(self.actor) else None
        self._alone: dict[int, WorkerPolicy] = {}  # of those that cannot be stacked

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the result of `state_dict`; snapshots of the same numbers may have changed."""
        super().load_state_dict(state)
        self._alone.clear()
        if self._stacked is not None:
            self._stacked = StackedActors()

    def assign(self, slot: int, name: str) -> None:
        """Sets the snapshot of a slot by its name."""
        self.member[slot] = snapshot_number(name)

    def display_name(self, slot: int) -> str:
        """Returns the name of the snapshot of a slot."""
        return f"{self.name}{self.member[slot]}"

    def open_slot(self, row: int) -> int:
        """Opens the lowest free slot for a row of the slab; returns its number."""
        slot = super().open_slot(row)
        if slot == len(self.member):
            self.member = np.append(self.member, 0)
        return slot

    def keep(self, numbers: Collection[int]) -> None:
        """Removes all snapshots but these and those of agents in play."""
        kept = {*numbers, *self.member[self.taken].tolist()}
        for number in [number for number in self.snapshots if number not in kept]:
            del self.snapshots[number]
            self._alone.pop(number, None)
            if self._stacked is not None:
                self._stacked.remove(number)

    def decide(
        self, slots: np.ndarray | None, slab: Tree, rows: slice | np.ndarray, vector_step: int | None
    ) -> np.ndarray:
        """Returns actions ``[N, ...]`` in stored form; arguments as of `WorkerPolicy.decide`."""
        held = self.member if slots is None else self.member[slots]
        order = np.argsort(held, kind="stable")
        ranked = held[order]
        begins = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))
        seen = {path: np.array(array[rows]) for path, array in slab.items()}  # the slab will be overwritten
        self.decided = decisions = DecisionSlab.on(seen, self.policy.obs_spec, self.policy.action_spec)
        noise = None if vector_step is None else self.noise.at(slots, len(self.taken), vector_step)
        starts = np.append(begins, len(order)).astype(np.int32)
        members = ranked[begins]
        self.acted += len(order)
        if self._stacked is not None:
            for number in members.tolist():
                if number not in self._stacked:
                    actor = native_actor(self.snapshots[number])
                    assert actor is not None
                    self._stacked.add(number, actor)
            self._stacked.act(members, starts, order, decisions.obs, noise, decisions.action, decisions.logp)
            return decisions.chosen
        memory = None if self.memory is None else self.memory.before(slots)
        for number, low, high in zip(members.tolist(), starts.tolist(), starts[1:].tolist(), strict=False):
            mine = order[low:high]
            deciding = np.arange(len(self.taken))[mine] if slots is None else slots[mine]
            self._decide_alone(number, mine, deciding, decisions, noise, memory)
        if self.memory is not None and memory is not None:
            self.memory.keep(slots, memory)
        return decisions.chosen

    def _decide_alone(
        self,
        number: int,
        mine: np.ndarray,
        deciding: np.ndarray,
        decisions: DecisionSlab,
        noise: torch.Tensor | None,
        memory: np.ndarray | None,
    ) -> None:
        """Runs one snapshot on its rows."""
        if number not in self._alone:
            self._alone[number] = self._make(self.name, self.number, self.snapshots[number], None, self.noise)
        alone = self._alone[number]
        alone.kind, alone.taken, alone.row_of_slot, alone.deciding = self.kind, self.taken, self.row_of_slot, deciding
        obs = {path: array[mine] for path, array in decisions.obs.items()}
        own = DecisionSlab(obs, decisions.action[mine], decisions.logp[mine])
        remembered = None if memory is None else memory[mine]
        alone.act(own, None if noise is None else noise[torch.from_numpy(mine)], remembered)
        decisions.action[mine], decisions.logp[mine] = own.action, own.logp
        if memory is not None:
            memory[mine] = remembered
