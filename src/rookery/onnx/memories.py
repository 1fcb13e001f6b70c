"""What a policy remembers as ONNX operators: cells (`models/cells/`), and what it recalls (`models/recall.py`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from torch import Tensor, nn

from rookery.core.spaces.arrays import CATEGORIES, Leaf
from rookery.models.cells.attention import Attention, AttentionBlock, Gate, RelativeAttention
from rookery.models.cells.base import Memory
from rookery.models.cells.gru import GRU
from rookery.models.cells.lstm import LSTM
from rookery.models.cells.recurrent import Cell, Recurrent
from rookery.models.cells.scan import Scan
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
        memory: The cells.
        x: ``[N, F]`` what the trunk gives.
        remembered: ``[N, memory.size]``.

    Returns:
        Features, and what is remembered from here on; None for a memory that there is no graph of.
    """
    if type(memory) is Attention:
        return _attention(graph, memory, x, remembered)
    cell = CELLS.get(type(memory))
    if cell is None:
        return None
    assert isinstance(memory, Recurrent)
    size, count = memory.num_features, memory.num_states
    states = graph.split(remembered, [size] * (len(memory.layers) * count))
    after: list[str] = []
    for number, layer in enumerate(memory.layers):
        assert isinstance(layer, Cell)
        x, *kept = cell(graph, layer, size, x, states[count * number : count * (number + 1)])
        after += kept
    return x, graph.concat(after)


def _lstm(graph: Graph, layer: Cell, size: int, x: str, states: list[str]) -> list[str]:
    h, c = states
    gates = graph.add(_product(graph, layer.input, x), graph.linear(h, _recurrent(layer)))
    i, f, g, o = graph.split(gates, [size] * 4)
    kept = graph.mul(graph.op("Sigmoid", f), c)
    c = graph.add(kept, graph.mul(graph.op("Sigmoid", i), graph.op("Tanh", g)))
    h = graph.mul(graph.op("Sigmoid", o), graph.op("Tanh", c))
    return [h, h, c]


def _gru(graph: Graph, layer: Cell, size: int, x: str, states: list[str]) -> list[str]:
    (h,) = states
    news = graph.split(_product(graph, layer.input, x), [size] * 3)
    past = graph.split(graph.linear(h, _recurrent(layer)), [size] * 3)
    r, z = (graph.op("Sigmoid", graph.add(a, b)) for a, b in zip(news[:2], past[:2], strict=True))
    n = graph.op("Tanh", graph.add(news[2], graph.mul(r, past[2])))
    h = graph.add(n, graph.mul(z, graph.sub(h, n)))
    return [h, h]


def _scan(graph: Graph, layer: Cell, size: int, x: str, states: list[str]) -> list[str]:
    (h,) = states
    gate, candidate = graph.split(_product(graph, layer.input, x), [size] * 2)
    h = graph.add(h, graph.mul(graph.op("Sigmoid", gate), graph.sub(candidate, h)))
    return [graph.op("Tanh", h), h]


def _product(graph: Graph, layer: nn.Linear, x: str) -> str:
    return graph.linear(x, layer.weight, layer.bias)


def _recurrent(layer: Cell) -> Tensor:
    assert layer.recurrent is not None
    return layer.recurrent


CELLS: dict[type, Callable[[Graph, Cell, int, str, list[str]], list[str]]] = {
    LSTM: _lstm,
    GRU: _gru,
    Scan: _scan,
}
"""What each memory gives, then remembers, in one layer."""


# --- attention --------------------------------------------------------------------------------------------------------

HIDDEN = -1e9
"""Added to the scores of what is not looked at: its weight is exactly 0."""


def _attention(graph: Graph, memory: Attention, x: str, remembered: str) -> tuple[str, str]:
    """One decision of attention over the last ones."""
    size, past = memory.num_features, memory.num_past
    count = graph.slice(remembered, memory.size - 1, memory.size)
    # places -past to 0 of the timeline, and those of before the episode: below -count
    before = graph.op("Less", graph.constant(np.arange(-past, 1)[None]), graph.op("Neg", count))
    hidden = graph.reshape(graph.scaled(graph.cast(before, np.float32), HIDDEN), -1, 1, 1, past + 1)
    x = _product(graph, memory.embedding, x)
    after = []
    for number, block in enumerate(memory.blocks):
        assert isinstance(block, AttentionBlock)
        timeline = graph.reshape(x, -1, 1, size)
        if past:
            kept = graph.slice(remembered, number * past * size, (number + 1) * past * size)
            timeline = graph.concat([graph.reshape(kept, -1, past, size), timeline])
            after.append(graph.reshape(graph.slice(timeline, 1, past + 1), -1, past * size))
        x = _block(graph, block, x, _looked(graph, block.attention, timeline, hidden))
    later = graph.op("Min", graph.add(count, graph.constant(1.0)), graph.constant(float(past)))
    return x, graph.concat([*after, later])


def _looked(graph: Graph, attention: RelativeAttention, timeline: str, hidden: str) -> str:
    """What the last decision of a timeline ``[N, context, size]`` sees, ``[N, size]``."""
    size, length, heads = attention.query.in_features, attention.context, attention.heads
    timeline = graph.layer_norm(timeline, 2, attention.norm.weight, attention.norm.bias, attention.norm.eps)
    now = graph.reshape(graph.slice(timeline, length - 1, length), -1, size)
    query = _product(graph, attention.query, now)
    pairs = graph.linear_inside(timeline, attention.key_value.weight, attention.key_value.bias)
    key, value = (graph.reshape(part, -1, length, heads, size // heads) for part in graph.split(pairs, [size] * 2, 2))
    scores = []
    distance = (attention.distances @ attention.position.detach().T).view(1, length, heads, size // heads)
    looked_at = graph.constant(distance.permute(0, 2, 3, 1)), graph.transpose(key, 0, 2, 3, 1)
    for bias, other in zip((attention.position_bias, attention.content_bias), looked_at, strict=True):
        own = graph.reshape(graph.add(query, graph.constant(bias[None])), -1, heads, 1, size // heads)
        scores.append(graph.op("MatMul", own, other))
    whole = graph.add(graph.scaled(graph.add(*scores), (size // heads) ** -0.5), hidden)
    seen = graph.op("MatMul", graph.softmax(whole, 3), graph.transpose(value, 0, 2, 1, 3))
    return _product(graph, attention.output, graph.reshape(seen, -1, size))


def _block(graph: Graph, block: AttentionBlock, x: str, seen: str) -> str:
    """The stream after what attention saw."""
    x = _gated(graph, block.attention_gate, x, graph.op("Relu", seen))
    thought = graph.layer_norm(x, 1, block.norm.weight, block.norm.bias, block.norm.eps)
    thought = _product(graph, block.narrow, graph.op("Relu", _product(graph, block.wide, thought)))
    return _gated(graph, block.mlp_gate, x, graph.op("Relu", thought))


def _gated(graph: Graph, gate: Gate, x: str, y: str) -> str:
    """The stream after news."""
    size = gate.size
    news, candidate = graph.split(_product(graph, gate.input, y), [2 * size, size])
    both = graph.op("Sigmoid", graph.add(news, graph.linear(x, gate.gates)))
    r, z = graph.split(both, [size] * 2)
    h = graph.op("Tanh", graph.add(candidate, graph.linear(graph.mul(r, x), gate.candidate)))
    return graph.add(x, graph.mul(z, graph.sub(h, x)))


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
