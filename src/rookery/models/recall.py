"""Recall: additional inputs of a policy, namely earlier observations, its last action and its last reward.

Nothing here is learned. A vector of numbers for each slot holds the past, as with every memory
(`models/cells/base.py`); zeros are the state at an episode's start.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from rookery.core.batch import Rollout, Stacked, TensorTree
from rookery.core.errors import ConfigError
from rookery.core.spaces.arrays import ActionSpec, Leaf, ObsSpec
from rookery.core.spaces.team_spaces import ALIVE, is_team
from rookery.models.image_encoders import image_layout
from rookery.models.memory import MemoryConfig

CHOICES, NUMBERS, REWARD = "previous action/choices", "previous action/numbers", "previous reward"
PREVIOUS = CHOICES, NUMBERS, REWARD
"""Leaves that are added to those of the environment."""

STACKABLE = ("box", "discrete", "multi_discrete", "multi_binary")

Array = TypeVar("Array", Tensor, np.ndarray)
Normalize = Callable[[TensorTree], TensorTree]


class Recall:
    """Adds earlier observations, the last action and the last reward to observations.

    Args:
        obs: Layout of the environment's observations.
        action: Layout of the actions.
        cfg: Number of stacked observations, and whether the last action and reward are added.
        entities: Leaves that are read as sets, which are never stacked.

    Attributes:
        spec: Layout of the trunk's input.
        size: Size of the recall state of one slot.
        reward_column: Column in which the acting side sums the rewards of an action; None if the reward is not added.
        frames: Number of stacked observations.
        stacked: The stacked leaves, by path.
        frame_columns: Columns of the earlier observations of each of these leaves.
        num_choices: Discrete elements of the last action that are added.
        num_numbers: Flags and continuous elements of the last action that are added.
        action_columns: Columns of the last action, discrete elements first, counted from 1.
    """

    def __init__(self, obs: ObsSpec, action: ActionSpec, cfg: MemoryConfig, entities: tuple[str, ...]) -> None:
        self.frames = cfg.frame_stack
        now = {ALIVE} if is_team(obs, action) else set()  # which members act in this decision
        can_stack = [leaf for leaf in obs.leaves if leaf.kind in STACKABLE and leaf.path not in {*entities, *now}]
        stacked = can_stack if cfg.frame_stack > 1 else []
        if cfg.frame_stack > 1 and not stacked:
            raise ConfigError(
                f"model.memory.frame_stack = {cfg.frame_stack}: nothing in {obs.space} can be stacked, "
                "sets of entities least of all; leave it at 1, or use memory.kind"
            )
        self.stacked = {leaf.path: leaf for leaf in stacked}
        self.num_choices = len(action.sizes) if cfg.previous_action else 0
        self.num_numbers = action.num_flags + action.num_numbers if cfg.previous_action else 0
        own = [
            Leaf(CHOICES, "multi_discrete", (self.num_choices,), np.dtype(np.int64), tuple(n + 1 for n in action.sizes))
        ]
        own = own if self.num_choices else []
        if self.num_numbers:
            own.append(Leaf(NUMBERS, "box", (self.num_numbers,), np.dtype(np.float32)))
        if cfg.previous_reward:
            own.append(Leaf(REWARD, "box", (1,), np.dtype(np.float32)))
        seen = [_stacked_leaf(leaf, cfg.frame_stack) if leaf.path in self.stacked else leaf for leaf in obs.leaves]
        mask = [leaf for leaf in seen if leaf.kind == "mask"]
        self.spec = ObsSpec(obs.space, (*[leaf for leaf in seen if leaf.kind != "mask"], *own, *mask), obs.dropped)
        self._begun = 1 if stacked else 0  # a first number that is 1 if there are earlier observations
        widths = [(cfg.frame_stack - 1) * math.prod(leaf.shape) for leaf in stacked]
        ends = np.cumsum([self._begun, *widths]).tolist()
        self.frame_columns = [slice(begin, end) for begin, end in pairwise(ends)]
        self.size = ends[-1] + self.num_choices + self.num_numbers + cfg.previous_reward
        self.action_columns = slice(ends[-1], ends[-1] + self.num_choices + self.num_numbers)
        self.reward_column: int | None = self.size - 1 if cfg.previous_reward else None

    # --- one decision -------------------------------------------------------------------------------------------------

    def look(
        self, obs: TensorTree, memory: Tensor, normalize: Normalize, stacks: TensorTree | None = None
    ) -> tuple[TensorTree, TensorTree]:
        """Returns the trunk's input for one decision of N slots.

        Args:
            obs: Raw observations ``[N, ...]`` by leaf path.
            memory: ``[N, size]``.
            normalize: Normalizes observations with leading dimensions.
            stacks: Raw stacks, if `stack_arrays` has computed them.

        Returns:
            The trunk's input, and raw stacks ``[N, frames, ...]`` for `remember`.
        """
        stacks = self._stack(obs, memory) if stacks is None else stacks
        tree = dict(normalize({**obs, **stacks}))
        for path, leaf in self.stacked.items():
            tree[path] = _arranged(leaf, tree[path])
        action = memory[:, self.action_columns]
        reward = None if self.reward_column is None else memory[:, self.reward_column]
        return self._with_previous(tree, action, reward), stacks

    def _stack(self, obs: TensorTree, memory: Tensor) -> TensorTree:
        stacks: TensorTree = {}
        begun = memory[:, 0] > 0
        for (path, leaf), columns in zip(self.stacked.items(), self.frame_columns, strict=True):
            now = obs[path].unsqueeze(1)
            past = memory[:, columns].view(len(now), self.frames - 1, *leaf.shape).to(now.dtype)
            if not begun.all():
                past = torch.where(begun.view(-1, *[1] * (now.dim() - 1)), past, now)
            stacks[path] = torch.cat((past, now), 1)
        return stacks

    def stack_arrays(self, obs: Mapping[str, np.ndarray], memory: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the raw stacks of `look` for NumPy arrays: small ones are joined several times as fast as tensors."""
        stacks: dict[str, np.ndarray] = {}
        for (path, leaf), columns in zip(self.stacked.items(), self.frame_columns, strict=True):
            now = obs[path][:, None]
            past = memory[:, columns].reshape(len(now), self.frames - 1, *leaf.shape).astype(now.dtype, copy=False)
            if not memory[:, 0].all():
                past = np.where((memory[:, 0] > 0).reshape(-1, *[1] * (now.ndim - 1)), past, now)
            stacks[path] = np.concatenate((past, now), 1)
        return stacks

    def remember(self, memory: Tensor, stacks: TensorTree, action: Tensor) -> None:
        """Updates the recall state after a decision, before its reward is known.

        Args:
            memory: ``[N, size]``, changed in place.
            stacks: As `look` returned them.
            action: ``[N, ...]`` as it is stored.
        """
        self.remember_stacks(memory, stacks)
        self.remember_action(memory, action)

    def remember_stacks(self, memory: Array, stacks: Mapping[str, Array]) -> None:
        """Does the first part of `remember`, for tensors or NumPy arrays."""
        if self._begun:
            memory[:, 0] = 1.0
        for path, columns in zip(self.stacked, self.frame_columns, strict=True):
            memory[:, columns] = stacks[path][:, 1:].reshape(len(memory), -1)

    def remember_action(self, memory: Tensor, action: Tensor) -> None:
        """Does the second part of `remember`."""
        if self.num_choices or self.num_numbers:
            memory[:, self.action_columns] = self.written(action)
        if self.reward_column is not None:
            memory[:, self.reward_column] = 0.0

    def written(self, action: Tensor) -> Tensor:
        """Returns actions ``[N, ...]`` as floats; discrete ones count from 1, because 0 marks an episode's start."""
        written = action.reshape(len(action), -1).to(torch.float32)
        if not self.num_choices + self.num_numbers:
            return written[:, :0]
        return torch.cat((written[:, : self.num_choices] + 1, written[:, self.num_choices :]), 1)

    def _with_previous(self, tree: TensorTree, action: Tensor, reward: Tensor | None) -> TensorTree:
        if self.num_choices:
            tree[CHOICES] = action[:, : self.num_choices].to(torch.int64)
        if self.num_numbers:
            tree[NUMBERS] = action[:, self.num_choices :]
        if reward is not None:
            tree[REWARD] = reward.unsqueeze(1)
        return tree

    # --- a rollout ----------------------------------------------------------------------------------------------------

    def unroll(self, rollout: Rollout, normalize: Normalize) -> tuple[TensorTree, TensorTree, TensorTree]:
        """Returns the trunk's input for all decisions ``[T * F]`` of a rollout, its last observations ``[F]``, and its
        final observations ``[K]``.

        Leaves of images are `Stacked`, which hold each image once.
        """
        assert rollout.memory is not None
        fragments = len(rollout.length)
        at = _places(rollout)
        rows = {path: leaf.flatten(0, 1) for path, leaf in rollout.obs.items()}
        trees: list[TensorTree] = [dict(normalize(tree)) for tree in (rows, rollout.last_obs, rollout.final_obs)]
        memory = rollout.memory[0, :, : self.size]
        if self._begun:
            history = self._history(rollout, at)
            for (path, leaf), columns in zip(self.stacked.items(), self.frame_columns, strict=True):
                past = memory[:, columns].reshape(fragments * (self.frames - 1), *leaf.shape)
                past = normalize({**rollout.last_obs, path: past.to(rollout.last_obs[path].dtype)})[path]
                base = torch.cat((past, *[tree[path] for tree in trees]))
                for tree, index in zip(trees, history, strict=True):
                    stacked = Stacked(base, index, partial(_arranged, leaf))
                    tree[path] = stacked if image_layout(_stacked_leaf(leaf, self.frames)) else stacked.tensor()  # type: ignore[assignment]
        written = self.written(rollout.action.flatten(0, 1))
        action = torch.cat((written, memory[:, self.action_columns], written.new_zeros(1, written.shape[1])))
        reward = None
        if self.reward_column is not None:
            earned = memory[:, self.reward_column]
            reward = torch.cat((rollout.reward.flatten(), earned, earned.new_zeros(1)))
        for tree, previous in zip(trees, self._previous(rollout, at), strict=True):
            self._with_previous(tree, action[previous], None if reward is None else reward[previous])
        return trees[0], trees[1], trees[2]

    def _history(self, rollout: Rollout, at: list[Tensor]) -> list[Tensor]:
        """Returns indices of each row's frames, ``[rows, frames]``, in the concatenation of recalled frames, decisions,
        last and final observations.

        Frames before an episode's first observation repeat that observation.
        """
        steps, fragments = rollout.reward.shape
        past, device = self.frames - 1, rollout.reward.device
        clock = torch.arange(steps, device=device, dtype=torch.int64).unsqueeze(1)
        start = torch.where(rollout.begins, clock, -past).cummax(0).values  # [T, F], of each row's episode
        back = torch.arange(-past, 1, device=device, dtype=torch.int64)
        own = [None, steps * fragments, steps * fragments + fragments]
        found = []
        for (t, f), offset in zip(at, own, strict=True):
            later = 0 if offset is None else 1  # a last or final observation comes one step after the decision
            row = torch.maximum(t.unsqueeze(1) + later + back, start[t, f].unsqueeze(1))
            column = f.unsqueeze(1)
            index = torch.where(
                row < 0, column * past + past + row, fragments * past + row.clamp(min=0) * fragments + column
            )
            if offset is not None:
                index[:, -1] = fragments * past + offset + torch.arange(len(t), device=device, dtype=torch.int64)
            found.append(index)
        return found

    def _previous(self, rollout: Rollout, at: list[Tensor]) -> list[Tensor]:
        """Returns indices of each row's preceding decision in the concatenation of decisions, recall states of
        fragments, and none.
        """
        steps, fragments = rollout.reward.shape
        (t, f), *after = at
        none = steps * fragments + fragments
        before = torch.where(t > 0, (t - 1) * fragments + f, steps * fragments + f)
        before = torch.where(rollout.begins.flatten(), none, before)
        return [before, *[t * fragments + f for t, f in after]]


def build_recall(obs: ObsSpec, action: ActionSpec, cfg: MemoryConfig, entities: tuple[str, ...]) -> Recall | None:
    """Returns a `Recall`, arguments as there; None if the settings add nothing.

    Raises:
        ConfigError: If the settings stack observations and no leaf can be stacked.
    """
    recall = Recall(obs, action, cfg, entities)
    return recall if recall.size else None


def _places(rollout: Rollout) -> list[Tensor]:
    """Returns (t, f) of all decisions, of the last valid one of each fragment, and of the truncated ones, ``[2, n]``
    each.
    """
    steps, fragments = rollout.reward.shape
    device = rollout.reward.device
    number = torch.arange(steps * fragments, device=device, dtype=torch.int64)
    last = torch.stack((rollout.length - 1, torch.arange(fragments, device=device, dtype=torch.int64)))
    return [torch.stack((number // fragments, number % fragments)), last, rollout.boot_index.T]


def _stacked_leaf(leaf: Leaf, frames: int) -> Leaf:
    """Returns the layout of several observations of a leaf: images stacked by channels, all else as a vector."""
    shape: tuple[int, ...] = (frames * math.prod(leaf.shape),)
    if leaf.kind == "box" and len(leaf.shape) == 2 and leaf.dtype == np.uint8:
        shape = (frames, *leaf.shape)
    layout = image_layout(leaf)
    if layout is not None:
        channels, height, width, channels_last = layout
        shape = (height, width, frames * channels) if channels_last else (frames * channels, height, width)
    kind = "multi_discrete" if leaf.kind == "discrete" else leaf.kind
    return Leaf(leaf.path, kind, shape, leaf.dtype, leaf.sizes * frames, leaf.scale)


def uint8_images(obs: ObsSpec, frames: int) -> list[Leaf]:
    """Returns the uint8 leaves that a trunk reads as images: images, and stacked planes."""
    leaves = [leaf for leaf in obs.leaves if leaf.kind == "box" and leaf.dtype == np.uint8]
    return [leaf for leaf in leaves if image_layout(_stacked_leaf(leaf, frames) if frames > 1 else leaf)]


def _arranged(leaf: Leaf, stack: Tensor) -> Tensor:
    """Returns observations ``[N, frames, *leaf.shape]`` in the layout of `_stacked_leaf`."""
    layout = image_layout(leaf)
    if layout is not None and layout[3]:
        return stack.permute(0, 2, 3, 1, 4).flatten(3)
    if layout is not None:
        return stack.flatten(1, 2)
    if leaf.kind == "box" and len(leaf.shape) == 2 and leaf.dtype == np.uint8:
        return stack
    return stack.flatten(1)
