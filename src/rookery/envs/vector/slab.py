"""`Slab`: the memory into which environments write their steps, on the heap or shared between processes.

Row = lane x agents of the kind + column, so neighbouring lanes have neighbouring rows: `part` is a slab of some of
them, in the same memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.core.spaces.arrays import ActionSpec, Tree, flat_action, nested
from rookery.envs.adapters.lane import Agent
from rookery.envs.base import Kind, Rows
from rookery.envs.vector.channel import SharedMemory

FRESH, STALE, GIVEN_UP = 1, 2, 3
"""Origin of a final observation: this step; an earlier one, as it was not the agent's turn; the last one before the
episode was given up.
"""

NO_ROWS = np.zeros(0, dtype=np.int64)

ALIGNMENT = 64
"""Byte alignment of arrays: a cache line."""

PER_LANE = {"ended": np.bool_, "lost": np.bool_, "episode": np.int64, "broken": np.int64, "discarded": np.int64}


@dataclass
class Block:
    """The rows of one kind.

    Attributes:
        rows: Rows that are shown.
        finals: ``[R]`` whether a row has a final observation: 0 or FRESH, STALE, GIVEN_UP.
        final_obs: ``[R, ...]`` these observations; valid where `finals` is not 0.
        actions: Space for the actions of waiting rows, ``[R, ...]`` for each simple space in the action space.
    """

    rows: Rows
    finals: np.ndarray
    final_obs: Tree
    actions: tuple[np.ndarray, ...]

    def gather(self) -> None:
        """Copies the final observations of this step to the arrays of `Rows`."""
        where = self.finals.nonzero()[0]
        if not len(where):
            forget_finals(self.rows)
            return
        self.rows.final_index = where
        self.rows.final_obs = {path: array[where] for path, array in self.final_obs.items()}
        self.rows.final_stale = int(np.count_nonzero(self.finals[where] == STALE))


class Slab:
    """Rows of all kinds for some lanes.

    Attributes:
        num_lanes: Number of lanes.
        blocks: One for each kind.
        ended: ``[lanes]`` whether the lane's episode ended in the last step.
        lost: ``[lanes]`` whether it was given up in the last step.
        episode: ``[lanes]`` its number.
        broken: ``[lanes]`` episodes so far that ended with an exception of the environment.
        discarded: ``[lanes]`` steps so far of episodes that were given up.
        memory: Memory of all arrays; None on the heap, and for a part.
    """

    ended: np.ndarray
    lost: np.ndarray
    episode: np.ndarray
    broken: np.ndarray
    discarded: np.ndarray
    memory: SharedMemory | None = None

    def __init__(self, num_lanes: int, blocks: list[Block], lanes: dict[str, np.ndarray]) -> None:
        self.num_lanes = num_lanes
        self.blocks = blocks
        for name, array in lanes.items():
            setattr(self, name, array)

    @classmethod
    def allocate(cls, kinds: Sequence[Kind], num_lanes: int, grouped: bool = False) -> Slab:
        """Returns a slab on the heap in which nothing has happened and no agent waits.

        Args:
            kinds: The kinds of agents.
            num_lanes: Number of lanes.
            grouped: Whether there are group rewards.
        """
        slab = cls._make(kinds, num_lanes, lambda shape, dtype: np.zeros(shape, dtype), grouped)
        slab.allow_all(kinds)
        return slab

    @classmethod
    def shared(cls, kinds: Sequence[Kind], num_lanes: int, grouped: bool = False) -> Slab:
        """Returns a slab like that of `allocate`, in `memory` that other processes can map."""
        slab = cls.over(SharedMemory(cls._size(kinds, num_lanes, grouped)), kinds, num_lanes, grouped)
        slab.allow_all(kinds)
        return slab

    @classmethod
    def over(cls, memory: SharedMemory, kinds: Sequence[Kind], num_lanes: int, grouped: bool = False) -> Slab:
        """Returns the slab in `memory`, with its current content; in zeroed memory only `allow_all` is missing from a
        new one.
        """
        used = 0

        def take(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
            nonlocal used
            start, used = used, used + _aligned(shape, dtype)
            return np.frombuffer(memory.map, dtype, math.prod(shape), start).reshape(shape)

        slab = cls._make(kinds, num_lanes, take, grouped)
        slab.memory = memory
        return slab

    @staticmethod
    def _size(kinds: Sequence[Kind], num_lanes: int, grouped: bool) -> int:
        """Returns the bytes that `over` needs."""
        used = 0

        def count(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
            nonlocal used
            used += _aligned(shape, dtype)
            return np.zeros((1,) * len(shape), dtype)

        Slab._make(kinds, num_lanes, count, grouped)
        return max(used, 1)

    @classmethod
    def _make(cls, kinds: Sequence[Kind], num_lanes: int, array: Callable[..., np.ndarray], grouped: bool) -> Slab:
        blocks = []
        for kind in kinds:
            size = num_lanes * len(kind.agents)
            obs, final_obs = (
                {leaf.path: array((size, *leaf.shape), leaf.dtype) for leaf in kind.obs.leaves} for _ in range(2)
            )
            terminated, truncated, waiting, resting = (array((size,), np.bool_) for _ in range(4))
            reward, nothing = array((size,), np.float64), kind.obs.allocate(0)
            rows = Rows(obs, reward, terminated, truncated, waiting, resting, final_obs=nothing)
            rows.group_reward = array((size,), np.float64) if grouped else None
            actions = tuple(array((size, *shape), dtype) for shape, dtype in _action_arrays(kind.action))
            blocks.append(Block(rows, array((size,), np.uint8), final_obs, actions))
        return cls(num_lanes, blocks, {name: array((num_lanes,), dtype) for name, dtype in PER_LANE.items()})

    def allow_all(self, kinds: Sequence[Kind]) -> None:
        """Makes every action mask allow all actions."""
        for kind, block in zip(kinds, self.blocks, strict=True):
            if kind.obs.has_mask:
                block.rows.obs[kind.obs.leaves[-1].path][:] = True

    def part(self, lanes: range) -> Slab:
        """Returns the slab of some neighbouring lanes, in the same memory."""
        blocks = []
        for block in self.blocks:
            rows = block.rows
            width = len(rows.reward) // self.num_lanes
            mine = slice(lanes.start * width, lanes.stop * width)
            obs = {path: array[mine] for path, array in rows.obs.items()}
            nothing = {path: array[:0].copy() for path, array in obs.items()}
            part = Rows(
                obs, rows.reward[mine], rows.terminated[mine], rows.truncated[mine], rows.waiting[mine],
                rows.resting[mine], final_obs=nothing,
            )  # fmt: skip
            part.group_reward = None if rows.group_reward is None else rows.group_reward[mine]
            finals = {path: array[mine] for path, array in block.final_obs.items()}
            blocks.append(Block(part, block.finals[mine], finals, tuple(array[mine] for array in block.actions)))
        own = slice(lanes.start, lanes.stop)
        return Slab(len(lanes), blocks, {name: getattr(self, name)[own] for name in PER_LANE})

    def copy_from(self, other: Slab, ids: Sequence[Sequence[Agent]], place: dict[Agent, tuple[int, int]]) -> None:
        """Copies the content of another slab of the same lanes, given its agents by kind, and their places here."""
        for name in PER_LANE:
            getattr(self, name)[:] = getattr(other, name)
        for block, agents in zip(other.blocks, ids, strict=True):
            for column, agent in enumerate(agents):
                k, there = place[agent]
                mine = self.blocks[k]
                pairs = [(getattr(block.rows, n), getattr(mine.rows, n))
                         for n in ("reward", "terminated", "truncated", "waiting", "resting")]  # fmt: skip
                if block.rows.group_reward is not None and mine.rows.group_reward is not None:
                    pairs += [(block.rows.group_reward, mine.rows.group_reward)]
                pairs += [(block.finals, mine.finals)]
                pairs += [(block.rows.obs[path], mine.rows.obs[path]) for path in mine.rows.obs]
                pairs += [(block.final_obs[path], mine.final_obs[path]) for path in mine.rows.obs]
                for source, target in pairs:
                    shape = (self.num_lanes, -1, *source.shape[1:])
                    target.reshape(shape)[:, there] = source.reshape(shape)[:, column]

    def shown(self) -> list[dict[str, Any]]:
        """Returns a copy of all rows, for a saved state."""
        every = [block.rows for block in self.blocks]
        return [
            {"obs": copied(rows.obs), "waiting": rows.waiting.copy(), "resting": rows.resting.copy()} for rows in every
        ]

    def wipe_ends(self) -> None:
        """Clears the ends of the last step."""
        for block in self.blocks:
            rows = block.rows
            for flags in (rows.terminated, rows.truncated, block.finals):
                flags.fill(0)
            forget_finals(rows)
        self.ended.fill(False)
        self.lost.fill(False)

    def add_rewards(self, sums: np.ndarray) -> None:
        """Adds the rewards of all agents of each lane in this step to ``sums[lanes]``."""
        for block in self.blocks:
            reward = block.rows.reward
            if len(reward) != self.num_lanes:
                reward = np.add.reduce(reward.reshape(self.num_lanes, -1), axis=1)
            sums += reward

    def put_actions(self, kinds: Sequence[Kind], given: Sequence[np.ndarray]) -> None:
        """Writes the actions of waiting rows, one after the other from the start."""
        for kind, block, actions in zip(kinds, self.blocks, given, strict=True):
            if kind.action.kind != "composite":
                block.actions[0][: len(actions)] = actions
                continue
            for at, action in enumerate(actions):
                for array, value in zip(block.actions, flat_action(kind.action.space, action), strict=True):
                    array[at] = value

    def actions(self, kinds: Sequence[Kind], waiting: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Returns the actions that `put_actions` wrote for a number of rows, as copies."""
        given = []
        for kind, block, rows in zip(kinds, self.blocks, waiting, strict=True):
            if kind.action.kind != "composite":
                given.append(block.actions[0][: len(rows)].copy())
                continue
            actions = np.empty(len(rows), dtype=object)
            for at in range(len(rows)):
                actions[at] = nested(kind.action.space, iter([array[at] for array in block.actions]))
            given.append(actions)
        return given


def copied(tree: Tree) -> Tree:
    """Returns a copy of every array."""
    return {path: array.copy() for path, array in tree.items()}


def forget_finals(rows: Rows) -> None:
    """Removes the final observations of `rows`."""
    if len(rows.final_index):
        rows.final_index, rows.final_stale = NO_ROWS, 0
        rows.final_obs = {path: array[:0].copy() for path, array in rows.obs.items()}


def _aligned(shape: tuple[int, ...], dtype: Any) -> int:
    size = int(math.prod(shape) * np.dtype(dtype).itemsize)
    return -(-size // ALIGNMENT) * ALIGNMENT


def _action_arrays(spec: ActionSpec) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
    """Returns shape and type of one action for each simple space in the action space."""
    if spec.kind == "composite":
        return [array for part, _ in spec.parts for array in _action_arrays(part)]
    space = spec.space
    assert space.shape is not None
    return [(space.shape, np.dtype(np.int64) if spec.kind == "discrete" else np.dtype(space.dtype))]
