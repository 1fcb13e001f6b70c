"""Slots that play whole episodes with candidates of evolution strategies (`models/candidates.py`)."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from rookery.core.device import device_of
from rookery.core.flat import Flat, flatten
from rookery.core.spaces.arrays import Tree
from rookery.models.candidates import CandidateHead, direction, perturbed_modules, weight_vector
from rookery.native.actor import native_actor
from rookery.native.stacked import StackedActors, stackable
from rookery.policies.policy import Policy
from rookery.rollout.noise import ActionNoise
from rookery.rollout.slots import SlotStore, WorkerPolicy
from rookery.rollout.storage import DecisionSlab, Outcome

NEVER = 2**62
"""Decisions wanted while a generation is incomplete."""


class CandidatePolicy(WorkerPolicy):
    """A policy whose slots play episodes with its candidates, deterministically, until each candidate has played its
    episodes; then its rollout is handed over. One of several workers plays a part of these episodes.

    A slot that begins an episode plays the next one that is missing, or, if none is, an episode with the learned
    weights that does not count. In rollouts, `logp` is the number of the candidate, NaN where the episode does not
    count. An interrupted episode counts with its return so far.

    Args:
        name: Name in the policy mapping.
        number: Its place among the worker's policies.
        policy: Its own copy of weights and normalizer.
        store: Storage of its decisions.
        noise: Random numbers of its actions, not used.
        spec: Numbers of candidates and episodes.
        slots: Largest number of its slots here.
        slots_in_run: That of all workers.
    """

    state_version = 2
    saved: ClassVar[tuple[str, ...]] = ("task", "fresh", "begun", "ended", "generation", "is_over")
    fixed: ClassVar[tuple[str, ...]] = ("_spec", "_tasks", "_members", "_stacked")

    def __init__(
        self,
        name: str,
        number: int,
        policy: Policy,
        store: SlotStore,
        noise: ActionNoise,
        spec: CandidateHead,
        slots: int,
        slots_in_run: int,
    ) -> None:
        super().__init__(name, number, policy, store, noise)
        self._spec = spec
        wanted, first = spec.candidates * spec.episodes, noise.first_slot
        self._tasks = range(wanted * first // slots_in_run, wanted * (first + slots) // slots_in_run)
        self.task = np.zeros(0, dtype=np.int64)
        """``[slots]`` number of the slot's episode in the generation, from 0; -1 = it does not count."""
        self.fresh = np.zeros(0, dtype=bool)
        """``[slots]`` whether the slot's next decision begins an episode."""
        self.begun = 0
        """Episodes of the generation that have begun."""
        self.ended = 0
        """Episodes of the generation that have ended."""
        self.generation = -1
        """Number of the generation."""
        self.is_over = False
        """Whether its rollout was handed over."""
        self._members: dict[int, _Member] = {}  # by slot
        self._stacked: StackedActors | None = StackedActors() if stackable(self.actor) else None

    def upgrade(self, state: dict[str, Any], version: int) -> dict[str, Any]:
        """Adds to states of version 1 the number of the generation, which was not over."""
        return {"generation": int(state["policy"]["head.generation"]), "is_over": False, **state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the result of `state_dict`."""
        super().load_state_dict(state)
        self._members.clear()

    def act(self, decisions: DecisionSlab, noise: Tensor | None, memory: np.ndarray | None) -> None:
        """Writes the actions of each slot's candidate: in one call if kernels support the policy, else in one call for
        each slot; see `WorkerPolicy.act`.
        """
        if self.store is None:
            super().act(decisions, None, memory)
            return
        slots = np.arange(len(self.taken)) if self.deciding is None else self.deciding
        if self.fresh[slots].any() and (generation := int(self.policy.head.generation)) != self.generation:
            self.generation, self.is_over, self.begun, self.ended = generation, False, 0, 0
        for slot in slots[self.fresh[slots]].tolist():
            self.task[slot] = self._tasks[self.begun] if self.begun < len(self._tasks) else -1
            self.begun += int(self.task[slot] >= 0)
            self.fresh[slot] = False
        candidate = np.where(self.task[slots] < 0, -1, self.task[slots] % self._spec.candidates)
        for slot, which in zip(slots.tolist(), candidate.tolist(), strict=True):
            self._use_candidate(slot, which, self.store.version)
        if self._stacked is not None:
            order = np.arange(len(slots) + 1)
            starts, rows = order.astype(np.int32), order[:-1]
            self._stacked.act(slots, starts, rows, decisions.obs, None, decisions.action, decisions.logp)
        else:
            for row, slot in enumerate(slots.tolist()):
                decisions.action[row] = self._members[slot].act(decisions.obs, row)
        decisions.logp[...] = np.where(candidate < 0, np.nan, candidate)

    def _use_candidate(self, slot: int, candidate: int, version: int) -> None:
        """Gives a slot the weights of a candidate, -1 = the learned ones."""
        member = self._members.get(slot)
        if member is None:
            member = self._members[slot] = _Member(self.policy)
        if member.plays == (candidate, version):
            return
        member.plays = candidate, version
        member.set_weights(self.policy, candidate)
        if self._stacked is not None:
            actor = member.actor
            assert actor is not None
            self._stacked.add(slot, actor)

    def record(self, slots: np.ndarray | None, outcome: Outcome) -> None:
        """Stores rewards and episode ends of a step; once the generation is complete, its rollout is wanted."""
        super().record(slots, outcome)
        if self.store is None:
            return
        if outcome.ended is not None:
            mine = np.arange(len(self.taken)) if slots is None else slots
            for slot in mine[outcome.ended].tolist():
                self._end(slot)
        self.store.wanted = NEVER
        if self.ended == len(self._tasks) and self.store.complete and not self.is_over:
            self.is_over, self.store.wanted = True, self.store.complete

    def _end(self, slot: int) -> None:
        """Ends the episode of a slot."""
        self.ended += int(self.task[slot] >= 0)
        self.task[slot], self.fresh[slot] = -1, True

    def interrupt(self, slot: int, slab: Tree, row: int) -> None:
        """Truncates the episode of a slot; see `SlotStore.interrupt`."""
        super().interrupt(slot, slab, row)
        self._end(slot)

    def open_slot(self, row: int) -> int:
        """Opens the lowest free slot for a row of the slab; returns its number."""
        slot = super().open_slot(row)
        if slot == len(self.task):
            self.task, self.fresh = np.append(self.task, -1), np.append(self.fresh, True)
        if self.store is not None:
            self.store.wanted = NEVER
        return slot

    def release_slot(self, slot: int) -> None:
        """Frees a slot at an episode end."""
        super().release_slot(slot)
        self._end(slot)

    def close_slot(self, slot: int) -> None:
        """Frees a slot."""
        super().close_slot(slot)
        self._end(slot)


class _Member:
    """The policy of one slot, with weights of its own and the statistics of all.

    Args:
        policy: The worker's copy of the policy.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = deepcopy(policy)
        self.policy.normalizer = policy.normalizer
        self.policy.requires_grad_(True)
        self.flat: Flat = flatten(perturbed_modules(self.policy.trunk, self.policy.head))
        self.policy.requires_grad_(False)
        self.actor = native_actor(self.policy)
        self.plays: tuple[int, int] | None = None
        """Candidate and version of the weights."""

    def set_weights(self, policy: Policy, candidate: int) -> None:
        """Takes the weights of a candidate of the policy."""
        with torch.no_grad():
            weights = weight_vector(perturbed_modules(policy.trunk, policy.head))
            if candidate >= 0:
                head = policy.head
                drawn = direction(int(head.seed), int(head.generation), candidate // 2, weights)
                weights.add_(drawn, alpha=float(head.noise_std) * (-1 if candidate % 2 else 1))
            self.flat.data.copy_(weights)

    def act(self, obs: Tree, row: int) -> np.ndarray:
        """Returns the most probable action ``[...]`` in stored form, for one row of raw observations."""
        device = device_of(self.policy)
        seen = {path: torch.from_numpy(array[row : row + 1]).to(device) for path, array in obs.items()}
        with torch.no_grad():
            action: Tensor = self.policy.act(seen, None, True)[0][0]
        return action.cpu().numpy()
