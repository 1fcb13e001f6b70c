"""Slots of one policy at a worker: their memory, their decisions, and the storage of both.

A *slot* is one agent of one lane. Each slot has its own clock: it writes its decisions down a column of the storage at
its own pace, so agents that take turns, join late, die or return are the normal case. A full column is followed by a
new one. The reward between two decisions is added to the earlier one; a decision whose reward is incomplete is
*pending*.

While every slot decides in every step (the usual case of one agent, or of agents that always act together) the store
stays in *lockstep*: one row number serves all slots and each step is a few whole-row copies. Both ways write the same
bytes. `storage.py` has the arrays, `columns.py` the way of writing with a clock per slot.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from rookery.core.batch import Rollout, TensorTree
from rookery.core.device import device_of, staging_to
from rookery.core.spaces.arrays import Tree
from rookery.core.state import Stateful
from rookery.native.actor import native_actor
from rookery.policies.policy import Policy
from rookery.rollout.columns import ColumnWriter
from rookery.rollout.noise import ActionNoise
from rookery.rollout.order import in_order
from rookery.rollout.storage import OF_FRAGMENTS, OF_ROWS, DecisionSlab, Outcome


class SlotStore(ColumnWriter):
    """Open and finished fragments of one policy, as a struct of arrays ``[T, columns, ...]``.

    The order of calls in a vector step is `begin_step` (observations), `write_actions` (for decisions that do not lie
    in the storage), and `write_outcomes` (rewards and episode ends), with `write_final_obs` for truncated agents before
    it. When `complete` has reached `wanted`, `drain` returns the complete decisions; the next call of any of these
    starts to overwrite them.
    """

    # --- slots --------------------------------------------------------------------------------------------------------

    def open_slot(self, slot: int) -> None:
        """Opens `slot` for an agent. Its clock starts at `first_clock`, unless it continues an older fragment."""
        if self._taken:
            self._begin()
        self._leave_lockstep()
        if slot < self.num_slots and self._column[slot] >= 0:
            self._active[slot] = self._starts[slot] = True
            return
        if slot >= self.num_slots:
            more = slot + 1 - self.num_slots
            self._forget_views()
            for name in ("_active", "_column", "_filled", "_pending", "_starts", "_clock", "_before"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate((old, np.zeros((more, *old.shape[1:]), dtype=old.dtype))))
        wanted = self.demand.decisions or self.demand.fragment_length * self.num_slots
        self.wanted = 0 if self.by_request else wanted
        self._active[slot] = True
        self._column[slot] = -1
        self._filled[slot] = 0
        self._pending[slot] = False
        self._starts[slot] = True
        self._clock[slot] = self.first_clock

    def close_slot(self, slot: int) -> None:
        """Cuts the fragment of an agent that left or changes to another policy, and frees the slot.

        Its episode has ended, or it was interrupted (`interrupt`), or its last decision is pending; that one is lost,
        and its observation becomes the last one of the fragment.
        """
        if self._taken:
            self._begin()
        self._leave_lockstep()
        if (column := self._column[slot]) >= 0:
            complete = self._filled[slot] - self._pending[slot]
            self._store["length"][column] = complete
            if self._pending[slot]:
                for path, array in self._store["last_obs"].items():
                    array[column] = self._store["obs"][path][complete, column]
        self._active[slot] = False
        self._pending[slot] = False
        self._column[slot] = -1

    def release_slot(self, slot: int) -> None:
        """Frees a slot at an episode end; the next agent continues the open fragment with a new episode.

        If its last decision is pending, the slot is closed instead.
        """
        if self._taken:
            self._begin()
        self._leave_lockstep()
        if self._pending[slot]:
            self.close_slot(slot)
        self._active[slot] = False

    # --- writing ------------------------------------------------------------------------------------------------------

    def begin_step(
        self, slots: np.ndarray | None, slab: Tree, rows: slice | np.ndarray, memory: np.ndarray | None = None
    ) -> DecisionSlab:
        """Writes the observations of the slots into the next row of each.

        Args:
            slots: ``[N]`` the deciding slots, each once; None if all of them decide, in order.
            slab: The step's observations.
            rows: Rows of the slab of `slots`, in the same order.
            memory: ``[N, M]`` memory of the policy for these slots; None if it has none.

        Returns:
            Slab for the decisions; `write_actions` is called once they are made.
        """
        if self._taken:
            self._begin()
        if slots is not None or not (self._lockstep or self._enter_lockstep()):
            return self._begin_step_of_some(slots, slab, rows, memory)
        if self._row == 0 or self._row == self.demand.fragment_length:
            self._find_row(slab, rows)
        lines = self._lines.get(self._base) or self._views()
        decisions, self._due = lines[self._row]
        for path, array in decisions.obs.items():
            array[...] = slab[path][rows]
        if memory is not None:
            self._before[...] = memory
            number, rest = divmod(self._row, self.memory_every)
            if rest == 0:
                self._store["memory"][number, self._base : self._base + self.num_slots] = memory
        self._row += 1
        return decisions

    def _find_row(self, slab: Tree, rows: slice | np.ndarray) -> None:
        """Ensures that there is a row to write; full fragments end with the current observations of their slots."""
        size = self.num_slots
        if self._row == self.demand.fragment_length:
            self._keep_last(slab, rows)
            self._store["length"][self._base : self._base + size] = self._row
            self._clock += self._row
            self._base += size
            self._row = 0
        if self._row == 0:
            low, high = self._base, self._base + size
            if high > len(self._store["slot"]):
                self._reserve(high)
            self._used = high
            self._open_columns(slice(low, high), slice(None))

    def _keep_last(self, slab: Any, rows: slice | np.ndarray) -> None:
        """Stores the observations after the last row of the open fragments."""
        for path, array in self._store["last_obs"].items():
            array[self._base : self._base + self.num_slots] = slab[path][rows]

    def free_rows(self, slab: Any) -> int:
        """Returns the number of steps that can be written as whole rows from here on, at `next_rows`; 0 if none.

        Args:
            slab: Current observations of the slots by leaf path, each in its row.
        """
        if self._taken:
            self._begin()
        if not (self._lockstep or self._enter_lockstep()):
            return 0
        self._find_row(slab, slice(None))
        return self.demand.fragment_length - self._row

    def next_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the address of the next row in each stored array of rows, and the bytes from a row to the next: for
        the leaves of observations in their order, then for the rest of `OF_ROWS`.
        """
        at = self._base, self._row  # the same addresses return again and again while the storage stays where it is
        if at not in self._places:
            arrays = [*self._store["obs"].values(), *(self._store[name] for name in OF_ROWS if name != "obs")]
            numbers = [(array.ctypes.data, array.strides[0], array.strides[1]) for array in arrays]
            first, row, column = np.array(numbers, dtype=np.uintp).T.copy()
            self._places[at] = first + self._row * row + self._base * column, row
        return self._places[at]

    def write_rows(self, steps: int, rows: Mapping[str, Any]) -> None:
        """Writes the next rows of all slots, as `steps` times `begin_step` and `write_outcomes`, before `rows_written`.

        Args:
            steps: Number of rows.
            rows: ``[steps or more, slots, ...]`` by the names of `OF_ROWS`; observations by leaf path.
        """
        at = slice(self._row, self._row + steps), slice(self._base, self._base + self.num_slots)
        for path, array in self._store["obs"].items():
            array[at] = rows["obs"][path][:steps]
        for name in OF_ROWS:
            if name != "obs":
                self._store[name][at] = rows[name][:steps]

    def rows_written(self, steps: int, finals: np.ndarray, final_obs: Tree, starts: np.ndarray | None) -> None:
        """Counts rows that a loop has written, as `steps` times `begin_step`, `write_final_obs` and `write_outcomes`.

        Args:
            steps: Number of rows.
            finals: ``[K, 2]`` row and slot of each truncated agent.
            final_obs: Their final observations.
            starts: ``[slots]`` bool, whether the slot's episode ended in the last row; None if no episode did.
        """
        if len(finals):
            self._keep_finals(self._row + finals[:, 0], self._base + finals[:, 1], final_obs, np.arange(len(finals)))
        self._row += steps
        self.complete += steps * self.num_slots
        self._starts = np.zeros(self.num_slots, dtype=bool) if starts is None else starts

    def _views(self) -> list[tuple[DecisionSlab, np.ndarray]]:
        """Creates `_lines` of the present base; they are valid until the storage grows."""
        store, columns = self._store, slice(self._base, self._base + self.num_slots)
        lines = self._lines[self._base] = []
        for row in range(self.demand.fragment_length):
            obs = {path: array[row, columns] for path, array in store["obs"].items()}
            extras = {name: array[row, columns] for name, array in store["extras"].items()}
            decisions = DecisionSlab(obs, store["action"][row, columns], store["logp"][row, columns], extras)
            lines.append((decisions, store["reward"][row, columns]))
        return lines

    def write_outcomes(self, slots: np.ndarray | None, outcome: Outcome) -> None:
        """Writes rewards and episode ends of a step.

        A decision is complete when its slot's episode ends or the slot must decide again; rewards before that are
        summed.

        Args:
            slots: ``[N]`` the slots; None if these are all slots, in order.
            outcome: Their rewards and episode ends.
        """
        if slots is not None or not self._lockstep:
            self._write_outcomes_of_some(slots, outcome)
            return
        self._due[...] = outcome.reward
        self.complete += self.num_slots
        if outcome.terminated is not None and outcome.truncated is not None:
            here = (self._row - 1, slice(self._base, self._base + self.num_slots))
            self._store["terminated"][here] = outcome.terminated
            self._store["truncated"][here] = outcome.truncated
            self._starts = outcome.terminated | outcome.truncated
        elif True in self._starts.tobytes():
            self._starts = np.zeros(self.num_slots, dtype=bool)

    def interrupt(self, slot: int, slab: Tree, row: int) -> None:
        """Truncates the episode of a slot that cannot continue: its last decision counts as truncated.

        Args:
            slot: The slot.
            slab: Current observations, which become final observations.
            row: The slot's row there.
        """
        if self._taken:
            self._begin()
        self._leave_lockstep()
        if self._column[slot] >= 0 and self._filled[slot] and not self._starts[slot]:
            self.complete += int(self._pending[slot])
            self._pending[slot] = True  # for `write_final_obs`, which skips slots without a decision
            self.write_final_obs(np.array([slot]), {path: slab[path][row : row + 1] for path in slab}, np.array([0]))
            self._pending[slot] = False
            self._store["truncated"][self._filled[slot] - 1, self._column[slot]] = True
        self._starts[slot] = True

    # --- the two ways of writing --------------------------------------------------------------------------------------

    def _enter_lockstep(self) -> bool:
        """Returns whether this step can be written as one row: once clocks differ, only after everything was taken."""
        if self._lockstep:
            return True
        if self._used == 0 and self._active.all() and not self._pending.any():
            self._lockstep, self._row, self._base = True, 0, 0
        return self._lockstep

    def _leave_lockstep(self) -> None:
        if not self._lockstep:
            return
        self._lockstep = False
        size = self.num_slots
        if self._row:
            self._column[:] = np.arange(self._base, self._base + size)
            self._filled[:] = self._row
            self._clock += self._row
            written = self._base * self.demand.fragment_length + self._row * size
            if self.complete < written:  # the outcome of the last row is missing, and will be added up
                self._pending[:] = True
                self._starts[:] = False
                self._store["reward"][self._row - 1, self._base : self._base + size] = 0.0
            else:
                self._pending[:] = False
        else:
            self._column[:] = -1
            self._filled[:] = 0
            self._pending[:] = False

    # --- handing over -------------------------------------------------------------------------------------------------

    def drain(self, slab: Tree, row_of_slot: np.ndarray) -> Rollout:
        """Returns all complete decisions, as a rollout on this store's own memory: read it before more is played.

        Args:
            slab: Current observations of the waiting slots.
            row_of_slot: ``[slots]`` row of the slab of each slot; used for slots that are open.

        Returns:
            Fragments by the clocks of their first decisions, then by slots (`order.in_order`).
        """
        store = self._store
        if self._lockstep:
            columns = slice(self._base, self._base + self.num_slots)
            store["length"][columns] = self._row
            self._keep_last(slab, row_of_slot)
            self._clock += self._row
        else:
            self._close_open(slab, row_of_slot)
        self._taken = True
        self.complete = 0
        at = self._base, self._row  # the same views are valid as long as the storage is
        whole = self._lockstep and not self._finals["count"] and self._row > 0
        if whole and at in self._handed:
            return self._handed[at]
        rollout = self._views_of_all()
        if whole:
            self._handed[at] = rollout
        return rollout if self._lockstep else in_order(rollout)

    def _views_of_all(self) -> Rollout:
        """Returns all columns with data, as views where none is left out."""
        store = self._store
        length, boot = store["length"][: self._used], self._finals["index"][: self._finals["count"]]
        steps, pick = int(length.max(initial=0)), np.s_[: self._used] if length.all() else np.flatnonzero(length)
        if not length.all():
            boot = np.stack((boot[:, 0], (np.cumsum(length > 0) - 1)[boot[:, 1]]), axis=1)
        memories = -(-steps // self.memory_every)
        return Rollout(
            **{name: _tensors_at(store[name], np.s_[:steps, pick]) for name in OF_ROWS},
            **{name: _tensors_at(store[name], pick) for name in OF_FRAGMENTS},
            final_obs=_tensors_at(self._finals["obs"], slice(len(boot))),
            boot_index=torch.from_numpy(boot),
            memory=torch.from_numpy(store["memory"][:memories, pick]) if self.memory_size else None,
            memory_every=self.memory_every,
            extras=_tensors_at(store["extras"], np.s_[:steps, pick]),
        )

    def _close_open(self, slab: Tree, row_of_slot: np.ndarray) -> None:
        """Cuts every open fragment after its last complete decision; pending decisions are kept aside."""
        slots = np.flatnonzero(self._column >= 0)
        column, filled, pending = self._column[slots], self._filled[slots], self._pending[slots]
        self._store["length"][column] = filled - pending
        due = slots[pending]
        at = (filled[pending] - 1, column[pending])
        for path, array in self._store["last_obs"].items():
            array[column] = slab[path][row_of_slot[slots]]
            array[column[pending]] = self._store["obs"][path][at]
        if len(due):
            # the header stores whether row 0 starts an episode; a later row does if the row before ended one
            before = np.maximum(at[0] - 1, 0)
            ended = self._store["terminated"][before, at[1]] | self._store["truncated"][before, at[1]]
            self._carried = {
                "slots": due,
                "obs": {path: array[at] for path, array in self._store["obs"].items()},
                "first": np.where(at[0] == 0, self._store["first"][at[1]], ended),
                "version": np.where(at[0] == 0, self._store["version"][at[1]], self.version),
                "memory": self._before[due],
                "extras": {name: array[at] for name, array in self._store["extras"].items()},
                **{name: self._store[name][at] for name in ("action", "logp", "reward")},
            }

    def _begin(self) -> None:
        """Starts to overwrite the data that was handed out; pending decisions open the new fragments of their slots."""
        self._taken = False
        self._used, self._row, self._base = 0, 0, 0
        self._store["terminated"].fill(False)
        self._store["truncated"].fill(False)
        self._store["length"].fill(0)
        self._finals["count"] = 0
        if not self._lockstep:
            self._begin_columns()

    def _begin_columns(self) -> None:
        """Makes slots begin new columns, each when it decides, or at once with a decision that was pending."""
        self._column[:] = -1
        self._filled[:] = 0
        if self._carried is not None:
            carried, self._carried = self._carried, None
            self._reopen_pending(carried)

    def _reopen_pending(self, carried: dict[str, Any]) -> None:
        """Opens fragments with the decisions that were pending when the others were taken."""
        slots = carried["slots"]
        column = np.arange(len(slots))
        self._used = len(slots)
        self._reserve(self._used)
        for path, array in self._store["obs"].items():
            array[0, column] = carried["obs"][path]
        for name in ("action", "logp", "reward"):
            self._store[name][0, column] = carried[name]
        for name, array in self._store["extras"].items():
            array[0, column] = carried["extras"][name]
        if self.memory_size:
            self._store["memory"][0, column] = carried["memory"]
        self._column[slots] = column
        self._filled[slots] = 1
        header = self._store
        header["slot"][column] = self.first_slot + slots
        header["clock"][column] = self._clock[slots] - 1
        header["first"][column] = carried["first"]
        header["version"][column] = carried["version"]


class SlotMemory(Stateful):
    """Memory of a policy for each of its slots between decisions, followed by the state of its exploration.

    Args:
        width: Numbers per slot (M).
        reward_column: Column that adds up the reward of the last action, if any.
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
        """Opens a slot for an agent."""
        if slot == len(self.starts):
            self.starts = np.append(self.starts, True)
            self.memory = np.concatenate((self.memory, np.zeros_like(self.memory, shape=(1, self.memory.shape[1]))))
        self.starts[slot] = True

    def before(self, slots: np.ndarray | None) -> np.ndarray:
        """Returns the memory ``[N, M]`` before the decisions of these slots (None = all), zero at the start of an
        episode. For all slots it is the array itself.
        """
        starts = self.starts if slots is None else self.starts[slots]
        if True in starts.tobytes():
            forgotten = starts if slots is None else slots[starts]
            self.memory[forgotten] = 0.0
            self.starts[forgotten] = False
        return self.memory if slots is None else self.memory[slots]

    def keep(self, slots: np.ndarray | None, memory: np.ndarray) -> None:
        """Stores the memory after these decisions."""
        if slots is not None:
            self.memory[slots] = memory

    def record(self, slots: np.ndarray | None, reward: np.ndarray, ended: np.ndarray | None) -> None:
        """Adds rewards ``[N]`` of a step to the memory of slots (None = all), and marks those whose episodes ended
        (None = no episode did).
        """
        if self.reward_column is not None:
            self.memory[slice(None) if slots is None else slots, self.reward_column] += reward
        if ended is not None:
            self.starts[np.flatnonzero(ended) if slots is None else slots[ended]] = True


class WorkerPolicy(Stateful):
    """A policy at one worker: its own copy of the weights, its slots, and its open experience.

    Args:
        name: Name in the policy mapping.
        number: Its place among the worker's policies, used in row tables.
        policy: Its own copy of weights and normalizer.
        store: Storage of its decisions; None if they are not recorded.
        noise: Random numbers of its actions.
        of: The policy whose weights it uses, and that results name; None = the policy of its own name.

    Attributes:
        staging: Copies observations to the policy's device and actions back; None where it acts on the CPU.
        actor: Acts by kernels; None where only the policy's modules can.
        memory: Memory of its slots and state of its exploration; None if it has neither.
        kind: Number of the kind of its agents; -1 before the first of them.
        taken: ``[slots]`` whether an agent holds the slot.
        row_of_slot: ``[slots]`` row of the slab of each slot, the present or the last one.
        decided: Its decisions of the last step in which it acted; None before the first.
        acted: Decisions since this object was created, unrecorded ones included.
    """

    saved: ClassVar[tuple[str, ...]] = ("number", "policy", "store", "memory", "kind", "taken", "row_of_slot")
    reads_infos: ClassVar[bool] = False
    """Whether it reads the infos of every step, which loops of many steps a call do not see."""
    follows: ClassVar[bool] = True
    """Whether it takes over the weights of `of` whenever these are sent."""
    fixed: ClassVar[tuple[str, ...]] = (
        "name",
        "of",
        "noise",
        "staging",
        "actor",
        "decided",
        "acted",
        "group",
        "deciding",
        "_source",
        "_tensors",
    )

    def __init__(
        self,
        name: str,
        number: int,
        policy: Policy,
        store: SlotStore | None,
        noise: ActionNoise,
        of: str | None = None,
    ) -> None:
        self.name = name
        self.of = of or name
        self.number = number
        self.kind = -1
        self.policy = policy
        self.store = store
        self.noise = noise
        self.staging = staging_to(device_of(policy))
        self.actor = native_actor(policy)
        kept = policy.memory_size + policy.exploration_size
        self.memory = SlotMemory(kept, policy.reward_column) if kept else None
        self._source: Policy | None = None
        self._tensors: tuple[list[Tensor], list[Tensor]] = [], []
        self.row_of_slot = np.zeros(0, dtype=np.int64)
        self.taken = np.zeros(0, dtype=bool)
        self.decided: DecisionSlab | None = None
        self.acted = 0
        self.group: int | None = None
        """Slots that decide together where torch computes the policy; None = all that must act."""
        self.deciding: np.ndarray | None = None
        """``[N]`` the slots that decide now; None = all."""
        self.use_weights()

    def tensors_from(self, source: Policy) -> tuple[list[Tensor], list[Tensor]]:
        """Returns its own weights and statistics, and those of a policy of the same shape, in the same order."""
        if source is not self._source:  # walking through modules takes longer than copying
            self._source = source
            own, given = ([*policy.parameters(), *policy.buffers()] for policy in (self.policy, source))
            self._tensors = own, given
        return self._tensors

    def use_weights(self) -> None:
        """Makes kernels use the policy's present weights; called after any change of them."""
        if self.actor is not None:
            self.actor.pack()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the result of `state_dict`. Where decisions are recorded only from now on, fragments begin here."""
        store = self.store
        if state["store"] is None:
            self.store = None
        super().load_state_dict(state)
        if state["store"] is None and store is not None:
            self.store = store
            for slot in np.flatnonzero(self.taken).tolist():
                store.open_slot(slot)
        self.use_weights()

    def decide(
        self, slots: np.ndarray | None, slab: Tree, rows: slice | np.ndarray, vector_step: int | None
    ) -> np.ndarray:
        """Returns actions ``[N, ...]`` in stored form, from one forward pass over rows of a slab; records them.

        Args:
            slots: ``[N]`` the slots that decide, each once; None if all of them do, in order.
            slab: The step's observations.
            rows: Rows of the slab of `slots`, in the same order.
            vector_step: Number of the vector step, for noise; None = the most probable actions.
        """
        policy, memory = self.policy, None if self.memory is None else self.memory.before(slots)
        if self.store is None:
            seen = {path: np.array(array[rows]) for path, array in slab.items()}  # the slab will be overwritten
            self.decided = decisions = DecisionSlab.on(seen, policy.obs_spec, policy.action_spec)
        else:
            remembered = None if memory is None or not policy.memory_size else memory[:, : policy.memory_size]
            self.decided = decisions = self.store.begin_step(slots, slab, rows, remembered)
        self.deciding = slots
        self.act(decisions, None if vector_step is None else self.noise.at(slots, len(self.taken), vector_step), memory)
        self.acted += decisions.logp.size
        if self.memory is not None and memory is not None:
            self.memory.keep(slots, memory)
        if self.store is not None and decisions.at is not None:
            self.store.write_actions(decisions)
        return decisions.chosen

    def act(self, decisions: DecisionSlab, noise: Tensor | None, memory: np.ndarray | None) -> None:
        """Writes actions and their log-probabilities, from one forward pass.

        Args:
            decisions: Stored observations, and memory for the results.
            noise: ``[N, noise.width]`` on the policy's device, contiguous; None = the most probable actions.
            memory: ``[N, M]`` memory of the policy and state of its exploration; changed in place.
        """
        if self.actor is not None:
            if decisions.call is None:
                decisions.call = self.actor.prepare(decisions.obs, decisions.action, decisions.logp)
            decisions.call(noise, memory)
            return
        act = self.policy.act if self.group is None else self._act_in_groups
        seen = {path: torch.from_numpy(array) for path, array in decisions.obs.items()}
        remembered = None if memory is None else torch.from_numpy(memory)
        if self.staging is None:
            action, logp = (tensor.numpy() for tensor in act(seen, noise, noise is None, remembered))
        else:
            there = None if remembered is None else remembered.to(self.staging.device)
            action, logp = self.staging.fetch(*act(self.staging.send(seen), noise, noise is None, there))
            if memory is not None and there is not None:
                memory[...] = there.cpu().numpy()
        decisions.action[...], decisions.logp[...] = action, logp

    def _act_in_groups(
        self, obs: TensorTree, noise: Tensor | None, deterministic: bool, memory: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Acts as `Policy.act` does, for one group of slots after the other, so that last bits do not depend on the
        number of other slots.
        """
        assert self.group is not None
        slots = np.arange(len(next(iter(obs.values())))) if self.deciding is None else self.deciding
        bounds = np.flatnonzero(np.diff((self.noise.first_slot + slots) // self.group)) + 1
        actions, logps = [], []
        for low, high in itertools.pairwise([0, *bounds.tolist(), len(slots)]):
            part = {path: leaf[low:high] for path, leaf in obs.items()}
            drawn, kept = (None if whole is None else whole[low:high] for whole in (noise, memory))
            action, logp = self.policy.act(part, drawn, deterministic, kept)
            actions.append(action)
            logps.append(logp)
        return torch.cat(actions), torch.cat(logps)

    def act_without_recording(
        self, slots: np.ndarray, slab: Tree, rows: np.ndarray, vector_step: int | None
    ) -> np.ndarray:
        """Returns actions as `decide` does, without recording them; the policy's own memory is updated."""
        store, self.store = self.store, None
        try:
            return self.decide(slots, slab, rows, vector_step)
        finally:
            self.store = store

    def override_actions(self, slots: np.ndarray | None, places: np.ndarray, actions: np.ndarray) -> None:
        """Replaces decisions by the actions that agents chose themselves; called after `decide`.

        Args:
            slots: ``[N]`` the slots passed to `decide`.
            places: ``[A]`` indices of those whose agents chose their own actions.
            actions: ``[A, ...]`` their actions, as they are stored.
        """
        decided, recall = self.decided, self.policy.recall
        assert decided is not None
        decided.action[places], decided.logp[places] = actions, np.nan
        if recall is not None and self.memory is not None:
            mine = places if slots is None else slots[places]
            self.memory.memory[mine, recall.action_columns] = recall.written(torch.from_numpy(actions)).numpy()
        if self.store is not None and decided.at is not None:
            self.store.write_actions(decided)

    def record(self, slots: np.ndarray | None, outcome: Outcome) -> None:
        """Stores rewards and episode ends of a step; arguments as of `SlotStore.write_outcomes`."""
        if self.memory is not None:
            self.memory.record(slots, outcome.reward, outcome.ended)
        if self.store is not None:
            self.store.write_outcomes(slots, outcome)

    def interrupt(self, slot: int, slab: Tree, row: int) -> None:
        """Truncates the episode of a slot; see `SlotStore.interrupt`."""
        if self.memory is not None:
            self.memory.starts[slot] = True
        if self.store is not None:
            self.store.interrupt(slot, slab, row)

    def open_slot(self, row: int) -> int:
        """Opens the lowest free slot for a row of the slab; returns its number."""
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

    def assign(self, slot: int, name: str) -> None:
        """Sets the name under which the agent of a slot is played; used where a policy has several names."""

    def display_name(self, slot: int) -> str:
        """Returns the name of the policy of a slot, for results."""
        return self.of

    def release_slot(self, slot: int) -> None:
        """Frees a slot at an episode end, because its agent changes to another policy and takes a slot there."""
        self.taken[slot] = False
        if self.store is not None:
            self.store.release_slot(slot)

    def close_slot(self, slot: int) -> None:
        """Frees a slot."""
        self.taken[slot] = False
        if self.store is not None:
            self.store.close_slot(slot)


def _tensors_at(kept: Any, at: Any) -> Any:
    """Returns views of an array, or of each leaf of a tree, as tensors."""
    if isinstance(kept, dict):
        return {path: torch.from_numpy(array[at]) for path, array in kept.items()}
    return torch.from_numpy(kept[at])
