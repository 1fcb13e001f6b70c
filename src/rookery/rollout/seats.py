"""Who sits where: the seats of policies, the desks of rows, and the routes between them in a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.core.device import Staging, device_of
from rookery.core.spaces import Tree
from rookery.core.state import Stateful
from rookery.native.actor import native_actor
from rookery.policies.policy import Policy
from rookery.rollout.noise import ActionNoise
from rookery.rollout.slots import Decisions, SlotStore


class SlotMemory(Stateful):
    """What a policy remembers of each of its slots between decisions, and behind it what its exploration carries.

    Args:
        width: Numbers kept of a slot (M).
        reward_column: Which of them adds up what the last action earns, if any.
    """

    saved = ("memory", "starts")
    fixed = ("reward_column",)

    def __init__(self, width: int, reward_column: int | None) -> None:
        self.memory = np.zeros((0, width), dtype=np.float32)
        """``[slots, M]``."""
        self.starts = np.zeros(0, dtype=bool)
        """``[slots]`` whether a slot's next decision is the first of an episode."""
        self.reward_column = reward_column

    def open(self, slot: int) -> None:
        """An agent takes a slot."""
        if slot == len(self.starts):
            self.starts = np.append(self.starts, True)
            self.memory = np.concatenate((self.memory, np.zeros_like(self.memory, shape=(1, self.memory.shape[1]))))
        self.starts[slot] = True

    def before(self, slots: np.ndarray | None) -> np.ndarray:
        """What is remembered ``[N, M]`` before the decisions of these slots (None = of all); nothing from before an
        episode. Of all slots it is the memory itself.
        """
        starts = self.starts if slots is None else self.starts[slots]
        if True in starts.tobytes():
            forgotten = starts if slots is None else slots[starts]
            self.memory[forgotten] = 0.0
            self.starts[forgotten] = False
        return self.memory if slots is None else self.memory[slots]

    def keep(self, slots: np.ndarray | None, memory: np.ndarray) -> None:
        """Takes over what is remembered after these decisions."""
        if slots is not None:
            self.memory[slots] = memory

    def outcome(self, slots: np.ndarray | None, reward: np.ndarray, ended: np.ndarray | None) -> None:
        """What became of slots (None = of all) in a step: ``[N]`` rewards, and whether their episodes ended (None = of
        none).
        """
        if self.reward_column is not None:
            self.memory[slice(None) if slots is None else slots, self.reward_column] += reward
        if ended is not None:
            self.starts[np.flatnonzero(ended) if slots is None else slots[ended]] = True


class Seat(Stateful):
    """A policy as the worker plays it: its weights here, its slots, its open experience.

    Attributes:
        name: What the mapping calls the policy.
        number: Its place among the seats, by which desks know it.
        policy: Its weights and normalizer here.
        store: Where its decisions are kept; None if nobody learns from them.
        noise: What its actions are drawn with.
        staging: The way of observations to the policy and of actions back.
        actor: Acts on kernels; None where only the policy's modules can.
        memory: What it remembers of its slots, and what its exploration carries; None if it has neither.
        kind: Number of the kind whose agents it plays; -1 before the first of them.
        taken: ``[slots]`` whether an agent holds the slot.
        row_of_slot: ``[slots]`` row of the slab that holds the slot, or held it last.
    """

    saved = ("number", "policy", "store", "memory", "kind", "taken", "row_of_slot")
    fixed = ("name", "noise", "staging", "actor", "_source", "_mine", "_theirs")

    def __init__(self, name: str, number: int, policy: Policy, store: SlotStore | None, noise: ActionNoise) -> None:
        self.name = name
        self.number = number
        self.kind = -1
        self.policy = policy
        self.store = store
        self.noise = noise
        self.staging = Staging(device_of(policy))
        self.actor = native_actor(policy)
        self.heed()
        kept = policy.memory_size + policy.exploration_size
        self.memory = SlotMemory(kept, policy.reward_column) if kept else None
        self._source: Policy | None = None
        self._mine: list[Tensor] = []
        self._theirs: list[Tensor] = []
        self.row_of_slot = np.zeros(0, dtype=np.int64)
        self.taken = np.zeros(0, dtype=bool)

    def take_weights(self, policy: Policy) -> None:
        """Takes over weights and normalizer of a policy like its own."""
        if policy is not self._source:
            self._source = policy  # to walk through modules takes longer than to copy
            self._mine, self._theirs = _tensors(self.policy), _tensors(policy)
        with torch.no_grad():
            torch._foreach_copy_(self._mine, self._theirs)
        self.heed()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave."""
        super().load_state_dict(state)
        self.heed()

    def heed(self) -> None:
        """Acts by the policy's weights as they are now; comes after any change of them."""
        if self.actor is not None:
            self.actor.pack()

    def decide(
        self, slots: np.ndarray | None, slab: Tree, rows: slice | np.ndarray, vector_step: int | None
    ) -> np.ndarray:
        """Actions ``[N, ...]`` as they are stored, from one forward pass over rows of a slab; they are kept.

        Args:
            slots: ``[N]`` the slots that decide, each once; None if all of them do, in order.
            slab: The step's observations.
            rows: Which rows of the slab belong to `slots`, in the same order.
            vector_step: Which one, for noise; None = the most probable actions.
        """
        memory = None if self.memory is None else self.memory.before(slots)
        if self.store is None:
            seen = {path: array[rows] for path, array in slab.items()}
            decisions = Decisions.on(seen, self.policy.obs_spec, self.policy.action_spec)
        else:
            learned = memory if memory is None else self._learned_from(memory)
            decisions = self.store.place(slots, slab, rows, learned)
        noise = None if vector_step is None else self.noise.at(slots, len(self.taken), vector_step)
        self.act(decisions, noise, memory)
        if self.memory is not None and memory is not None:
            self.memory.keep(slots, memory)
        if self.store is not None:
            self.store.answer(decisions)
        return decisions.chosen

    def _learned_from(self, memory: np.ndarray) -> np.ndarray | None:
        """The part of what is kept of slots that learning starts from, ``[N, policy.memory_size]``; None of nothing."""
        size = self.policy.memory_size
        return memory[:, :size] if size else None

    def act(self, decisions: Decisions, noise: Tensor | None, memory: np.ndarray | None) -> None:
        """Writes actions and their log-probabilities, from one forward pass.

        Args:
            decisions: What is seen, types as stored, and where to write.
            noise: ``[N, noise.width]`` where the policy is, contiguous; None = the most probable actions.
            memory: ``[N, M]`` what is remembered, and what exploration carries; changes in place.
        """
        if self.actor is not None:
            if decisions.call is None:
                decisions.call = self.actor.prepare(decisions.obs, decisions.action, decisions.logp)
            decisions.call(noise, memory)
            return
        seen = self.staging.send({path: torch.from_numpy(array) for path, array in decisions.obs.items()})
        remembered = None if memory is None else torch.from_numpy(memory).to(self.staging.device)
        action, logp = self.staging.fetch(*self.policy.act(seen, noise, noise is None, remembered))
        decisions.action[...], decisions.logp[...] = action, logp
        if memory is not None and remembered is not None and remembered.device.type != "cpu":
            memory[...] = remembered.cpu().numpy()

    def outcome_all(self, reward: np.ndarray, terminated: np.ndarray | None, truncated: np.ndarray | None) -> None:
        """What became of the last decision of every slot, when all of them wait again; see `SlotStore.outcome_all`."""
        if self.memory is not None:
            ended = None if terminated is None or truncated is None else terminated | truncated
            self.memory.outcome(None, reward, ended)
        if self.store is not None:
            self.store.outcome_all(reward, terminated, truncated)

    def outcome(
        self,
        slots: np.ndarray,
        reward: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        waiting: np.ndarray,
    ) -> None:
        """What became of slots in a step, all arguments ``[N]``; see `SlotStore.outcome`."""
        if self.memory is not None:
            self.memory.outcome(slots, reward, terminated | truncated)
        if self.store is not None:
            self.store.outcome(slots, reward, terminated, truncated, waiting)

    def interrupt(self, slot: int, slab: Tree, row: int) -> None:
        """The episode of a slot cannot go on; see `SlotStore.interrupt`."""
        if self.memory is not None:
            self.memory.starts[slot] = True
        if self.store is not None:
            self.store.interrupt(slot, slab, row)

    def sit(self, row: int) -> int:
        """Gives a row of the slab the lowest free slot."""
        free = np.flatnonzero(~self.taken)
        slot = int(free[0]) if len(free) else len(self.taken)
        if slot == len(self.taken):
            self.taken = np.append(self.taken, False)
            self.row_of_slot = np.append(self.row_of_slot, 0)
        self.taken[slot] = True
        self.row_of_slot[slot] = row
        if self.store is not None:
            self.store.open_slot(slot)
        if self.memory is not None:
            self.memory.open(slot)
        return slot

    def leave(self, slot: int) -> None:
        """Frees a slot."""
        self.taken[slot] = False
        if self.store is not None:
            self.store.close_slot(slot)


def _tensors(policy: Policy) -> list[Tensor]:
    return [*policy.parameters(), *policy.buffers()]


@dataclass
class Route:
    """Rows of one kind's slab that one policy plays in a step.

    Attributes:
        seat: The policy.
        rows: Its rows, as a slice where they are evenly spaced.
        slots: Its slots in the order of `rows`; None if these are all its slots in order.
    """

    seat: Seat
    rows: slice | np.ndarray
    slots: np.ndarray | None


class Desk(Stateful):
    """What the worker knows of each of the R rows of one kind: who plays it, in which slot, what it earned.

    An agent keeps its slot when its episode ends, so that one whose turn comes late in the next episode, or who died
    and comes back, goes on where its fragment stopped. It gives the slot back when another policy is to play it.

    Attributes:
        seat_of: ``[R]`` number of the seat that holds the row, or -1.
        slot_of: ``[R]`` its slot there, or -1.
        joined: ``[R]`` whether the agent has had to act in this episode, so that it is known who plays it.
        returns: ``[R]`` rewards summed over the episode so far.
        routes: How the rows split by policy when all of them wait; None when that must be found out again.
        acted: The routes of the last step.
        all_acted: Whether all rows acted in the last step.
    """

    saved = ("seat_of", "slot_of", "joined", "returns")
    fixed = ("routes", "acted", "all_acted")

    def __init__(self, size: int) -> None:
        self.seat_of = np.full(size, -1)
        self.slot_of = np.full(size, -1)
        self.joined = np.zeros(size, dtype=bool)
        self.returns = np.zeros(size)
        self.routes: list[Route] | None = None
        self.acted: list[Route] = []
        self.all_acted = False


def evenly(rows: np.ndarray) -> slice | np.ndarray:
    """A slice for evenly spaced rows: views instead of copies."""
    if len(rows) == 1:
        return slice(int(rows[0]), int(rows[0]) + 1)
    stride = int(rows[1] - rows[0])
    if (np.diff(rows) == stride).all():
        return slice(int(rows[0]), int(rows[-1]) + 1, stride)
    return rows
