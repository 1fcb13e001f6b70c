"""Storage of the experience of one policy until it is handed out: fragments of slots in columns, as one struct of
arrays that grows on demand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np
from torch import Tensor

from rookery.core.batch import Demand, Rollout
from rookery.core.native import readable
from rookery.core.spaces.arrays import ActionSpec, ObsSpec, Tree
from rookery.core.state import Stateful

OF_ROWS = ("obs", "action", "logp", "reward", "terminated", "truncated")
"""Columns stored for each row of a fragment."""

OF_FRAGMENTS = ("last_obs", "slot", "clock", "length", "first", "version")
"""Columns stored for each fragment."""


class DecisionSlab:
    """Decisions that N slots make together.

    Attributes:
        obs: Observations ``[N, ...]``, in a layout that kernels can read.
        action: Memory for the actions, ``[N, ...]`` in stored form.
        logp: Memory for their log-probabilities, ``[N]``.
        chosen: Read-only view of the actions for other code, because these may be the only copy.
        extras: Memory for further columns ``[N, width]`` by name; empty if the policy has none, or is not recorded.
        call: Prepared call of an actor for these arrays.
        at: Rows and columns ``[N]`` of the storage to which the arrays are copied; None if they lie there.
    """

    __slots__ = ("action", "at", "call", "chosen", "extras", "logp", "obs")

    def __init__(self, obs: Tree, action: np.ndarray, logp: np.ndarray, extras: Tree | None = None) -> None:
        self.obs = obs
        self.action = action
        self.logp = logp
        self.extras = extras or {}
        self.chosen = action.view()
        self.chosen.flags.writeable = False
        self.call: Callable[[Tensor | None, np.ndarray | None], None] | None = None
        self.at: tuple[np.ndarray, np.ndarray] | None = None

    @classmethod
    def on(cls, obs: Tree, seen: ObsSpec, spec: ActionSpec) -> DecisionSlab:
        """Creates decisions for these observations, with newly allocated memory."""
        obs = {leaf.path: readable(obs[leaf.path], leaf.dtype) for leaf in seen.leaves}
        num = len(next(iter(obs.values())))
        return cls(obs, np.empty((num, *spec.shape), spec.dtype), np.empty(num, np.float32))


def allocate_extras(widths: Mapping[str, int], *shape: int) -> Tree:
    """Allocates further columns ``[*shape, width]``, by name."""
    return {name: np.zeros((*shape, width), dtype=np.float32) for name, width in widths.items()}


class Outcome(NamedTuple):
    """Rewards and episode ends of N rows in a step.

    Attributes:
        reward: ``[N]`` rewards.
        terminated: ``[N]`` whether the agent's episode was terminated; None if no agent's ended.
        truncated: ``[N]`` whether the agent's episode was truncated; None if no agent's ended.
        waiting: ``[N]`` whether the agent must act next; None if all must.
    """

    reward: np.ndarray
    terminated: np.ndarray | None
    truncated: np.ndarray | None
    waiting: np.ndarray | None

    @property
    def ended(self) -> np.ndarray | None:
        """``[N]`` whether the agent's episode ended, either way; None if none did."""
        return None if self.terminated is None or self.truncated is None else self.terminated | self.truncated


class FragmentStorage(Stateful):
    """Open and finished fragments of one policy: the arrays, and the state of each slot that writes them.

    Args:
        obs: Layout of the observations.
        action: Layout of the actions.
        demand: Decisions per update, and length of a fragment.
        memory_size: Numbers of memory per slot; 0 = none.
        memory_every: The memory is stored at every so many decisions of a fragment, from the first on.
        first_slot: Number of slot 0 among the policy's slots in the whole run.
        extras: Widths of further columns by name.
    """

    saved: ClassVar[tuple[str, ...]] = (
        "version", "complete", "wanted", "rewards_without_decision", "_lockstep", "_row", "_base", "_used", "_taken",
        "_carried", "_finals", "_store", "_active", "_column", "_filled", "_pending", "_starts", "_clock", "_before",
    )  # fmt: skip
    fixed: ClassVar[tuple[str, ...]] = (
        "obs_spec", "action_spec", "demand", "memory_size", "memory_every", "first_slot", "first_clock", "by_request",
        "extras", "_lines", "_due", "_handed", "_places",
    )  # fmt: skip

    def __init__(
        self,
        obs: ObsSpec,
        action: ActionSpec,
        demand: Demand,
        memory_size: int,
        memory_every: int = 1,
        first_slot: int = 0,
        extras: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.extras = dict(extras)
        """Widths of further columns by name."""
        self.first_slot = first_slot
        """Number of slot 0 among the policy's slots in the whole run."""
        self.first_clock = 0
        """Clock of a newly opened slot: decisions that it has made at other workers."""
        self.by_request = False
        """Whether decisions are handed out only on request, regardless of their number."""
        self.obs_spec = obs
        self.action_spec = action
        self.demand = demand
        self.memory_size = memory_size
        """Numbers of memory per slot; 0 = none."""
        self.memory_every = memory_every
        """Interval, in decisions of a fragment, at which the memory is stored, starting with the first decision."""
        self.version = 0
        """Number of the weights that play."""
        self.complete = 0
        """Decisions that can be taken now."""
        self.wanted = demand.decisions or 0
        """Decisions per update; 0 before the first slot, when this is not known yet."""
        self.rewards_without_decision = 0
        """Rewards before an agent's first decision in an episode, or after its end: nothing learns from them."""
        self._lockstep = True
        self._row = 0
        self._base = 0
        self._used = 0
        self._taken = False
        self._carried: dict[str, Any] | None = None
        # views of the rows that are written in lockstep, and of their rewards, by `_base`; and the last of the latter
        self._lines: dict[int, list[tuple[DecisionSlab, np.ndarray]]] = {}
        self._due = np.zeros(0, dtype=np.float32)
        self._handed: dict[tuple[int, int], Rollout] = {}  # by `_base` and `_row`, while all decide in every step
        self._places: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}  # addresses of rows, see `next_rows`
        self._active = np.zeros(0, dtype=bool)  # [slots] an agent holds it
        self._column = np.zeros(0, dtype=np.int64)  # [slots] the column it writes, or -1
        self._filled = np.zeros(0, dtype=np.int64)  # [slots] rows of that column it has written
        self._pending = np.zeros(0, dtype=bool)  # [slots] the last of them still waits for its reward
        self._starts = np.zeros(0, dtype=bool)  # [slots] its next decision is the first of an episode
        self._clock = np.zeros(0, dtype=np.int64)  # [slots] decisions in its life
        self._before = np.zeros((0, memory_size), dtype=np.float32)  # [slots, M] memory before the last decision
        self._store = self._allocate(0)
        self._finals: dict[str, Any] = {"obs": obs.allocate(16), "index": np.zeros((16, 2), dtype=np.int64), "count": 0}

    @property
    def num_slots(self) -> int:
        """Number of slots ever opened; the highest slot number plus one."""
        return len(self._column)

    @property
    def pending(self) -> int:
        """Decisions that wait for their outcome, between two vector steps."""
        return 0 if self._lockstep else int(np.count_nonzero(self._pending))

    def _allocate(self, columns: int) -> dict[str, Any]:
        """Allocates `columns` fragments; names, shapes and types as of `Rollout`, time first."""
        steps, numbers = self.demand.fragment_length, np.int64
        memories = -(-steps // self.memory_every) if self.memory_size else 0
        return {
            "obs": self.obs_spec.allocate(steps, columns),
            "action": np.zeros((steps, columns, *self.action_spec.shape), dtype=self.action_spec.dtype),
            "logp": np.zeros((steps, columns), dtype=np.float32),
            "reward": np.zeros((steps, columns), dtype=np.float32),
            "terminated": np.zeros((steps, columns), dtype=bool),
            "truncated": np.zeros((steps, columns), dtype=bool),
            "memory": np.zeros((memories, columns, self.memory_size), dtype=np.float32),
            "last_obs": self.obs_spec.allocate(columns),
            "first": np.zeros(columns, dtype=bool),
            "extras": allocate_extras(self.extras, steps, columns),
            **{name: np.zeros(columns, dtype=numbers) for name in ("slot", "clock", "length", "version")},
        }

    def _reserve(self, columns: int) -> None:
        """Ensures memory for `columns` fragments; existing contents are kept."""
        had = len(self._store["slot"])
        if columns <= had:
            return
        expected = -(-(self.demand.decisions or 0) // self.demand.fragment_length)
        old, self._store = self._store, self._allocate(max(columns, 2 * had if had else expected))
        for name, kept in self._store.items():
            before = (slice(None), slice(had)) if name in (*OF_ROWS, "extras", "memory") else slice(had)
            if isinstance(kept, dict):
                for path, array in kept.items():
                    array[before] = old[name][path]
            else:
                kept[before] = old[name]
        self._forget_views()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the result of `state_dict`."""
        super().load_state_dict(state)
        self._store.setdefault("extras", {})  # of a run before there were any
        self._forget_views()

    def _open_columns(self, columns: slice | np.ndarray, slots: slice | np.ndarray) -> None:
        """Writes the headers of fragments that begin in these columns."""
        header = self._store
        header["slot"][columns] = self.first_slot + np.arange(self.num_slots)[slots]
        header["clock"][columns] = self._clock[slots]
        header["first"][columns] = self._starts[slots]
        header["version"][columns] = self.version

    def _forget_views(self) -> None:
        """Drops cached views, because the arrays have changed."""
        self._lines.clear()
        self._handed.clear()
        self._places.clear()
