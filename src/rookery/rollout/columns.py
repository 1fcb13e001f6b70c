"""Writing of decisions where each slot has its own clock: each slot fills a column of the storage at its own pace."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from rookery.core.spaces.arrays import Tree
from rookery.rollout.storage import DecisionSlab, FragmentStorage, Outcome, allocate_extras


class ColumnWriter(FragmentStorage, ABC):
    """Writes decisions of some slots, or of all slots when they are at different rows.

    A full column is followed by a new one. The reward between two decisions is summed into the earlier one, which is
    *pending* until then.
    """

    @abstractmethod
    def _leave_lockstep(self) -> None:
        """Gives each slot its own row and column from now on."""

    @abstractmethod
    def _begin(self) -> None:
        """Starts to overwrite the data that was handed out."""

    def _begin_step_of_some(
        self, slots: np.ndarray | None, slab: Tree, rows: slice | np.ndarray, memory: np.ndarray | None
    ) -> DecisionSlab:
        """Writes observations where not all slots decide, or where slots are at different rows."""
        self._leave_lockstep()
        slots = np.flatnonzero(self._active) if slots is None else slots
        full = (self._column[slots] < 0) | (self._filled[slots] == self.demand.fragment_length)
        if full.any():
            self._next_columns(slots, full, slab, rows)
        row, column = self._filled[slots], self._column[slots]
        seen: Tree = {}
        for path, array in self._store["obs"].items():
            seen[path] = array[row, column] = slab[path][rows]
        self._store["reward"][row, column] = 0.0
        if memory is not None:
            self._before[slots] = memory
            due = row % self.memory_every == 0
            self._store["memory"][row[due] // self.memory_every, column[due]] = memory[due]
        self._filled[slots] += 1
        self._clock[slots] += 1
        self._starts[slots] = False
        self._pending[slots] = True
        decisions = DecisionSlab.on(seen, self.obs_spec, self.action_spec)
        decisions.extras = allocate_extras(self.extras, len(row))
        decisions.at = (row, column)
        return decisions

    def _next_columns(self, slots: np.ndarray, full: np.ndarray, slab: Tree, rows: slice | np.ndarray) -> None:
        """Starts a new column for the slots marked `full`; the old column ends with the slot's observation."""
        fresh = slots[full]
        before = self._column[fresh]
        ending = before >= 0
        for path, array in self._store["last_obs"].items():
            array[before[ending]] = slab[path][rows][full][ending]
        self._store["length"][before[ending]] = self._filled[fresh][ending]
        self._reserve(self._used + len(fresh))
        column = np.arange(self._used, self._used + len(fresh))
        self._used += len(fresh)
        self._column[fresh] = column
        self._filled[fresh] = 0
        self._open_columns(column, fresh)

    def write_actions(self, decisions: DecisionSlab) -> None:
        """Writes actions and log-probabilities after `begin_step`; not needed for decisions that lie in the storage."""
        assert decisions.at is not None
        self._store["action"][decisions.at] = decisions.action
        self._store["logp"][decisions.at] = decisions.logp
        for name, array in decisions.extras.items():
            self._store["extras"][name][decisions.at] = array

    def add_to_extra(self, name: str, slots: np.ndarray | None, numbers: np.ndarray) -> None:
        """Adds numbers ``[N]`` to a further column of width 1, as `write_outcomes` adds rewards, and before it: to the
        decisions of slots (None = all) that are complete with this step, or pending.
        """
        if self._taken:
            self._begin()
        column = self._store["extras"][name][..., 0]
        if slots is None and self._lockstep:
            column[self._row - 1, self._base : self._base + self.num_slots] += numbers
            return
        self._leave_lockstep()
        slots = np.flatnonzero(self._active) if slots is None else slots
        due = self._pending[slots]
        column[self._filled[slots][due] - 1, self._column[slots][due]] += numbers[due]

    def _write_outcomes_of_some(self, slots: np.ndarray | None, outcome: Outcome) -> None:
        """Writes outcomes where not all slots acted and wait again, or where slots are at different rows."""
        if self._taken:
            self._begin()
        self._leave_lockstep()
        slots = np.flatnonzero(self._active) if slots is None else slots
        reward, terminated, truncated, waiting = outcome
        due = self._pending[slots]
        self.rewards_without_decision += int(np.count_nonzero(reward[~due]))
        row, column = self._filled[slots][due] - 1, self._column[slots][due]
        self._store["reward"][row, column] += reward[due]
        finished = due if waiting is None else due & waiting
        if terminated is not None and truncated is not None:
            ended = terminated | truncated
            self._store["terminated"][row, column] |= terminated[due]
            self._store["truncated"][row, column] |= truncated[due]
            self._starts[slots[ended]] = True
            finished = finished | (due & ended)
        self._pending[slots[finished]] = False
        self.complete += int(np.count_nonzero(finished))

    def write_final_obs(self, slots: np.ndarray, final_obs: Tree, which: np.ndarray) -> None:
        """Stores the final observations of truncated agents; called before the `write_outcomes` of the same step.

        Args:
            slots: ``[K]`` slots truncated in this step; slots without a decision in the episode are skipped.
            final_obs: Final observations of the step's truncated rows.
            which: ``[K]`` indices of the rows of `final_obs` that belong to `slots`.
        """
        if self._taken:
            self._begin()
        if self._lockstep:
            row, column = np.full(len(slots), self._row - 1), self._base + slots
        else:
            due = self._pending[slots]
            row, column, which = self._filled[slots][due] - 1, self._column[slots][due], which[due]
        self._keep_finals(row, column, final_obs, which)

    def _keep_finals(self, row: np.ndarray, column: np.ndarray, final_obs: Tree, which: np.ndarray) -> None:
        """Stores rows `which` of `final_obs` as the final observations of the decisions at (`row`, `column`)."""
        finals = self._finals
        end = finals["count"] + len(row)
        if end > len(finals["index"]):
            size = 2 * end
            for path, array in self.obs_spec.allocate(size).items():
                array[: finals["count"]] = finals["obs"][path][: finals["count"]]
                finals["obs"][path] = array
            index = np.zeros((size, 2), dtype=np.int64)
            index[: finals["count"]] = finals["index"][: finals["count"]]
            finals["index"] = index
        here = slice(finals["count"], end)
        for path, array in finals["obs"].items():
            array[here] = final_obs[path][which]
        finals["index"][here, 0] = row
        finals["index"][here, 1] = column
        finals["count"] = end
