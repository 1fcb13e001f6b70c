"""What a policy remembers as ONNX operators: cells, which write themselves (`models/cells/`), and what it recalls."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rookery.core.spaces.arrays import CATEGORIES, Leaf
from rookery.models.cells.base import Memory
from rookery.models.cells.table import CELLS
from rookery.models.pictures import image_layout
from rookery.models.recall import CHOICES, NUMBERS, REWARD, Recall
from rookery.onnx.graph import Graph
from rookery.onnx.seen import Seen, categories
from rookery.onnx.trunks import Observed, normalized
from rookery.policies.normalize import ObsNormalizer

# --- cells ------------------------------------------------------------------------------------------------------------


def advance(graph: Graph, memory: Memory, x: str, remembered: str) -> tuple[str, str] | None:
    """Adds one decision of a recurrent memory.

    Args:
        graph: Takes the operators.
        memory: The cells; of a class of `CELLS` itself, as one below it may compute something else.
        x: ``[N, F]`` what the trunk gives.
        remembered: ``[N, memory.size]``.

    Returns:
        Features, and what is remembered from here on; None for a memory that there is no graph of.
    """
    return memory.write_decision(graph, x, remembered) if type(memory) in CELLS.values() else None


# --- recall -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Looked:
    """What a policy that recalls sees in one decision.

    Attributes:
        obs: What the trunk takes.
        stacks: Stored observations to remember, ``[N, numbers]`` each.
    """

    obs: dict[str, Seen]
    stacks: list[str]


def look(
    graph: Graph, recall: Recall, obs: Observed, remembered: str, reward: str, normalizer: ObsNormalizer | None
) -> Looked:
    """Adds what widens an observation by the past.

    Args:
        graph: Takes the operators.
        recall: What is recalled.
        obs: The present observation.
        remembered: ``[N, recall.size]``.
        reward: ``[N, 1]`` what the last action earned; empty for a policy that does not see it.
        normalizer: Of observations; None if they are taken as they are.
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
            seen = Seen(categories(graph, seen.one_hot, leaf.sizes))
        now = graph.reshape(seen.plain(graph), -1, numbers)
        past = graph.where(
            begun, graph.slice(remembered, columns.start, columns.stop), graph.concat([now] * (frames - 1))
        )
        stack = graph.concat([past, now])
        stacks.append(graph.slice(stack, numbers, frames * numbers))
        whole[leaf.path] = Seen(graph.reshape(stack, -1, frames, *shape))
    tree = normalized(graph, normalizer, whole)
    for leaf in recall.stacked.values():
        tree[leaf.path] = Seen(_arranged(graph, leaf, tree[leaf.path].name, frames, shapes[leaf.path]))
    first = recall.action_columns.start
    if recall.num_choices:
        tree[CHOICES] = Seen(graph.slice(remembered, first, first + recall.num_choices))
    if recall.num_numbers:
        tree[NUMBERS] = Seen(graph.slice(remembered, first + recall.num_choices, recall.action_columns.stop))
    if reward:
        tree[REWARD] = Seen(reward)
    return Looked(tree, stacks)


def remember(graph: Graph, recall: Recall, looked: Looked, action: str) -> str:
    """Adds what is recalled of a decision; gives it, ``[N, recall.size]``.

    Args:
        graph: Takes the operators.
        recall: What is recalled.
        looked: What `look` gave.
        action: ``[N, elements]`` as it is stored, float32: choices first.
    """
    some = looked.stacks[0] if looked.stacks else action
    zero = graph.scaled(graph.slice(some, 0, 1), 0.0)
    parts = [graph.add(zero, graph.constant(1.0))] if recall.stacked else []
    parts += looked.stacks
    if recall.num_choices:
        parts.append(graph.add(graph.slice(action, 0, recall.num_choices), graph.constant(1.0)))
    if recall.num_numbers:
        parts.append(graph.slice(action, recall.num_choices, recall.num_choices + recall.num_numbers))
    if recall.reward_column is not None:
        parts.append(zero)
    return graph.concat(parts)


def _arranged(graph: Graph, leaf: Leaf, stack: str, frames: int, shape: tuple[int, ...]) -> str:
    """Stacks ``[N, frames, *shape]`` as the trunk takes them, as `models/recall.py` does."""
    layout = image_layout(leaf)
    if layout is None:
        if leaf.kind == "box" and len(shape) == 2 and leaf.dtype == np.uint8:
            return stack
        return graph.reshape(stack, -1, frames * math.prod(shape))
    channels, height, width, channels_last = layout
    if channels_last:
        return graph.reshape(graph.transpose(stack, 0, 2, 3, 1, 4), -1, height, width, frames * channels)
    return graph.reshape(stack, -1, frames * channels, height, width)
