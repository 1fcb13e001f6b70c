"""Memory of a policy as ONNX operators: cells, which define their own operators (`models/cells/`), and recall."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rookery.core.spaces.arrays import CATEGORIES, Leaf
from rookery.models.cells.base import Memory
from rookery.models.cells.table import CELLS
from rookery.models.image_encoders import image_layout
from rookery.models.recall import CHOICES, NUMBERS, REWARD, Recall
from rookery.onnx.graph import Graph
from rookery.onnx.obs_value import ObsValue, categories
from rookery.onnx.trunks import Observed, normalized
from rookery.policies.normalize import ObsNormalizer

# --- cells ------------------------------------------------------------------------------------------------------------


def advance(graph: Graph, memory: Memory, x: str, remembered: str) -> tuple[str, str] | None:
    """Adds one step of a recurrent memory.

    Args:
        graph: Receives the operators.
        memory: The memory; exactly of a class of `CELLS`, as a subclass may compute something else.
        x: ``[N, F]`` features of the trunk.
        remembered: ``[N, memory.size]``.

    Returns:
        Features and the new memory; None for a memory without graph operators.
    """
    return memory.write_decision(graph, x, remembered) if type(memory) in CELLS.values() else None


# --- recall -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RecallInputs:
    """Inputs of a policy with recall in one decision.

    Attributes:
        obs: Inputs of the trunk.
        stacks: Stored observations for the next memory, ``[N, numbers]`` each.
    """

    obs: dict[str, ObsValue]
    stacks: list[str]


def recall_inputs(
    graph: Graph, recall: Recall, obs: Observed, remembered: str, reward: str, normalizer: ObsNormalizer | None
) -> RecallInputs:
    """Adds the extension of an observation by past frames, actions and rewards.

    Args:
        graph: Receives the operators.
        recall: Layout of the recall.
        obs: The present observation.
        remembered: ``[N, recall.size]``.
        reward: ``[N, 1]`` last reward; empty for a policy that does not observe it.
        normalizer: Normalizer of observations; None without.
    """
    stacks, whole = [], dict(obs)
    frames, shapes = recall.frames, {}
    begun = graph.above(graph.slice(remembered, 0, 1), 0.0) if recall.stacked else ""
    for leaf, columns in zip(recall.stacked.values(), recall.frame_columns, strict=True):
        shape = (len(leaf.sizes),) if leaf.kind in CATEGORIES else leaf.shape
        shapes[leaf.path] = shape
        numbers = math.prod(shape)
        seen = obs[leaf.path]
        if leaf.kind in CATEGORIES and seen.one_hot:
            seen = ObsValue(categories(graph, seen.one_hot, leaf.sizes))
        now = graph.reshape(seen.plain(graph), -1, numbers)
        past = graph.where(
            begun, graph.slice(remembered, columns.start, columns.stop), graph.concat([now] * (frames - 1))
        )
        stack = graph.concat([past, now])
        stacks.append(graph.slice(stack, numbers, frames * numbers))
        whole[leaf.path] = ObsValue(graph.reshape(stack, -1, frames, *shape))
    tree = normalized(graph, normalizer, whole)
    for leaf in recall.stacked.values():
        tree[leaf.path] = ObsValue(_arranged(graph, leaf, tree[leaf.path].name, frames, shapes[leaf.path]))
    first = recall.action_columns.start
    if recall.num_choices:
        tree[CHOICES] = ObsValue(graph.slice(remembered, first, first + recall.num_choices))
    if recall.num_numbers:
        tree[NUMBERS] = ObsValue(graph.slice(remembered, first + recall.num_choices, recall.action_columns.stop))
    if reward:
        tree[REWARD] = ObsValue(reward)
    return RecallInputs(tree, stacks)


def updated_recall(graph: Graph, recall: Recall, recalled: RecallInputs, action: str) -> str:
    """Adds the new recall memory after a decision; returns it, ``[N, recall.size]``.

    Args:
        graph: Receives the operators.
        recall: Layout of the recall.
        recalled: Result of `recall_inputs`.
        action: ``[N, elements]`` as stored, float32: discrete branches first.
    """
    some = recalled.stacks[0] if recalled.stacks else action
    zero = graph.scaled(graph.slice(some, 0, 1), 0.0)
    parts = [graph.add(zero, graph.constant(1.0))] if recall.stacked else []
    parts += recalled.stacks
    if recall.num_choices:
        parts.append(graph.add(graph.slice(action, 0, recall.num_choices), graph.constant(1.0)))
    if recall.num_numbers:
        parts.append(graph.slice(action, recall.num_choices, recall.num_choices + recall.num_numbers))
    if recall.reward_column is not None:
        parts.append(zero)
    return graph.concat(parts)


def _arranged(graph: Graph, leaf: Leaf, stack: str, frames: int, shape: tuple[int, ...]) -> str:
    """Returns stacks ``[N, frames, *shape]`` in the trunk's layout, as `models/recall.py` does."""
    layout = image_layout(leaf)
    if layout is None:
        if leaf.kind == "box" and len(shape) == 2 and leaf.dtype == np.uint8:
            return stack
        return graph.reshape(stack, -1, frames * math.prod(shape))
    channels, height, width, channels_last = layout
    if channels_last:
        return graph.reshape(graph.transpose(stack, 0, 2, 3, 1, 4), -1, height, width, frames * channels)
    return graph.reshape(stack, -1, frames * channels, height, width)
