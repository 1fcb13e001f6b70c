"""Trunks as ONNX operators: normalizer, encoder, entities, goals and images.

They are those of `models/build.py`, `entities.py`, `hyper.py` and `pictures.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from torch import Tensor, nn

from rookery.core.spaces.arrays import Leaf
from rookery.models.build import Encoder, GoalTrunk, MixedLinear
from rookery.models.entities import ABSENT, EntityEmbedding, EntityEncoder
from rookery.models.hyper import HyperLinear
from rookery.models.image_encoders import (
    CODE_SIZE,
    NUM_CODES,
    CodeEmbedding,
    ImageEncoder,
    PlainStack,
    Residual,
    ResidualStack,
    Section,
)
from rookery.onnx.graph import ExportError, Graph
from rookery.onnx.obs_value import ObsValue, one_hots
from rookery.policies.normalize import ObsNormalizer, RunningMeanStd

Observed = Mapping[str, ObsValue]
"""An observation in a graph, by leaf path."""


def normalized(graph: Graph, normalizer: ObsNormalizer | None, obs: Observed) -> dict[str, ObsValue]:
    """Adds the normalizer, if there is one; returns the observation after it."""
    tree = dict(obs)
    if normalizer is None:
        return tree
    for path, statistics in zip(normalizer.paths, normalizer.statistics, strict=True):
        assert isinstance(statistics, RunningMeanStd)
        if path in obs:
            scale = obs[path].scale
            shifted = graph.sub(obs[path].name, graph.constant(statistics.mean32 / scale))
            standard = graph.mul(shifted, graph.constant(statistics.inverse_std32 * scale))
            tree[path] = ObsValue(graph.clip(standard, -normalizer.clip, normalizer.clip))
    return tree


def trunk_features(graph: Graph, trunk: nn.Module, obs: Observed) -> str | None:
    """Adds a built-in trunk; returns its features ``[N, F]``, or None for a module without graph operators."""
    if type(trunk) is Encoder:
        return encoder_features(graph, trunk, obs)
    if type(trunk) is GoalTrunk:
        return _goal_features(graph, trunk, obs)
    return None


def encoder_features(graph: Graph, encoder: Encoder, obs: Observed) -> str:
    """Adds an encoder; returns its features ``[N, F]``."""
    numbers = [_vector(graph, leaf, obs[leaf.path]) for leaf in encoder.vectors]
    for path, image in zip(encoder.image_paths, encoder.images, strict=True):
        assert isinstance(image, ImageEncoder)
        numbers.append(image_features(graph, image, obs[path]))
    chosen = [one_hots(graph, obs[leaf.path], leaf.sizes) for leaf in encoder.categories]
    if encoder.sets is not None:
        own = graph.concat([*numbers, *chosen]) if numbers or chosen else None
        numbers.append(_set_features(graph, encoder.sets, obs, own))
    if encoder.first is None:
        return graph.concat([*numbers, *chosen])
    x = _mixed(graph, encoder.first, numbers, chosen)
    for place, layer in enumerate([None, *encoder.layers]):
        if layer is not None:
            assert isinstance(layer, nn.Linear)
            x = graph.linear(x, layer.weight, layer.bias)
        if len(encoder.norms):
            x = _norm(graph, encoder.norms[place], x)
        x = graph.activation(encoder.activation, x)
    return x


def _vector(graph: Graph, leaf: Leaf, seen: ObsValue) -> str:
    """Returns a leaf flattened, ``[N, numbers]``."""
    x = seen.name if len(leaf.shape) == 1 else graph.reshape(seen.name, -1, math.prod(leaf.shape))
    return graph.scaled(x, seen.scale / leaf.scale)


def _mixed(graph: Graph, layer: MixedLinear, numbers: list[str], chosen: list[str]) -> str:
    """Returns the output of the first layer, on numbers and one-hots."""
    bias: Tensor | None = layer.bias
    parts = []
    if layer.weight is not None:
        parts.append(graph.linear(graph.concat(numbers), layer.weight, bias))
        bias = None
    if layer.table is not None:
        parts.append(graph.linear(graph.concat(chosen), layer.table.T, bias))
    return parts[0] if len(parts) == 1 else graph.add(parts[1], parts[0])


def _norm(graph: Graph, norm: nn.Module, x: str) -> str:
    """Returns the output of a LayerNorm over rows ``[N, F]``."""
    assert isinstance(norm, nn.LayerNorm)
    return graph.layer_norm(x, 1, norm.weight, norm.bias, norm.eps)


# --- entities ---------------------------------------------------------------------------------------------------------


def _set_features(graph: Graph, encoder: EntityEncoder, obs: Observed, own: str | None) -> str:
    """Returns features ``[N, size]`` of all sets: attention among present entities, and the mean over them."""
    pairs = []
    for path, embed in zip(encoder.paths, encoder.embeddings, strict=True):
        assert isinstance(embed, EntityEmbedding)
        pairs.append(_embedded(graph, embed, obs[path], own))
    x = graph.concat([embedded for embedded, _ in pairs], 1)
    present = graph.concat([flags for _, flags in pairs], 1)  # [N, C, 1]
    count, size, heads = encoder.num_entities, encoder.num_features, encoder.heads
    x = graph.layer_norm(x, 2)
    layer = encoder.query_key_value
    query, key, value = (
        graph.reshape(part, -1, count, heads, size // heads)
        for part in graph.split(graph.linear_inside(x, layer.weight, layer.bias), [size] * 3, 2)
    )
    scores = graph.op("MatMul", graph.transpose(query, 0, 2, 1, 3), graph.transpose(key, 0, 2, 3, 1))
    absent = graph.sub(graph.constant(1.0), graph.reshape(present, -1, 1, 1, count))
    scores = graph.add(graph.scaled(scores, (size // heads) ** -0.5), graph.scaled(absent, ABSENT))
    attended = graph.op("MatMul", graph.softmax(scores, 3), graph.transpose(value, 0, 2, 1, 3))
    attended = graph.reshape(graph.transpose(attended, 0, 2, 1, 3), -1, count, size)
    x = graph.add(x, graph.linear_inside(attended, encoder.output.weight, encoder.output.bias))
    x = graph.layer_norm(x, 2)
    number = graph.op("Max", graph.sum(present, 1, keep=True), graph.constant(1.0))
    return graph.sum(graph.mul(x, graph.op("Div", present, number)), 1, keep=False)


def _embedded(graph: Graph, embed: EntityEmbedding, seen: ObsValue, own: str | None) -> tuple[str, str]:
    """Returns embeddings ``[N, max, size]`` of a set's entities, and a mask of those present, ``[N, max, 1]`` of 0 and
    1.
    """
    entities = seen.name
    if embed.flagged:
        flag = graph.slice(entities, 0, 1, 2)
        entities = graph.slice(entities, 1, 1 + embed.weight.shape[1], 2)
    else:
        flag = graph.op("ReduceMax", graph.op("Abs", entities), axes=[2], keepdims=1)
    present = graph.cast(graph.above(flag, 0.0), np.float32)
    scale = seen.scale if embed.flagged else seen.scale / embed.scale
    entities = graph.mul(graph.scaled(entities, scale), present)
    embedded = graph.linear_inside(entities, embed.weight)
    if embed.self_weight is None or own is None:
        return graph.add(embedded, graph.constant(embed.bias)), present
    mine = graph.linear(own, embed.self_weight, embed.bias)
    return graph.add(embedded, graph.reshape(mine, -1, 1, len(embed.bias))), present


# --- goals ------------------------------------------------------------------------------------------------------------


def _goal_features(graph: Graph, trunk: GoalTrunk, obs: Observed) -> str:
    """Returns features of a trunk whose last layer has weights that depend on the goal."""
    x = _hyper(graph, trunk.layer, encoder_features(graph, trunk.trunk, obs), encoder_features(graph, trunk.goal, obs))
    if isinstance(trunk.norm, nn.LayerNorm):
        x = _norm(graph, trunk.norm, x)
    return graph.activation(trunk.trunk.activation, x)


def _hyper(graph: Graph, layer: HyperLinear, x: str, goal: str) -> str:
    """Returns the output of the layer whose weight the goal mixes, as one product with all pairs of an input and a goal
    feature.
    """
    inputs, outputs = layer.shape
    size = layer.mixed.shape[1]
    square = graph.op("ReduceMean", graph.mul(goal, goal), axes=[1], keepdims=1)
    goal = graph.op("Div", goal, graph.op("Sqrt", graph.add(square, graph.constant(1e-6))))
    pairs = graph.mul(graph.reshape(x, -1, inputs, 1), graph.reshape(goal, -1, 1, size))
    mixed = layer.mixed.view(inputs, outputs, size).permute(1, 0, 2).reshape(outputs, inputs * size)
    y = graph.linear(graph.reshape(pairs, -1, inputs * size), mixed, layer.bias)
    y = graph.add(y, graph.linear(x, layer.shared.T))
    return graph.add(y, graph.linear(goal, layer.mixed_bias))


# --- images -----------------------------------------------------------------------------------------------------------


def image_features(graph: Graph, encoder: ImageEncoder, seen: ObsValue) -> str:
    """Adds an image network; returns its features ``[N, F]``.

    Args:
        graph: Receives the operators.
        encoder: The network.
        seen: The image, as stored.

    Raises:
        ExportError: If it has layers without graph operators; names them.
    """
    scale = encoder.scale / seen.scale
    if encoder.embedding is None:
        x = graph.transpose(seen.name, 0, 3, 1, 2) if encoder.channels_last else seen.name
    else:
        x, scale = _looked_up(graph, encoder.embedding, seen, encoder.channels_last), 1.0
    x = _maps(graph, encoder.convolutions, x, scale)
    x = graph.reshape(x, -1, encoder.linear.in_features)
    x = graph.linear(x, encoder.linear.weight, encoder.linear.bias)
    if encoder.norm is not None:
        return graph.activation("tanh", _norm(graph, encoder.norm, x))
    return _rectified(graph, x, encoder.slope)


def _rectified(graph: Graph, x: str, slope: float) -> str:
    return graph.op("LeakyRelu", x, alpha=slope) if slope else graph.op("Relu", x)


def _unit(graph: Graph, x: str, swish: bool) -> str:
    return graph.activation("silu" if swish else "relu", x)


def _looked_up(graph: Graph, embedding: CodeEmbedding, seen: ObsValue, channels_last: bool) -> str:
    """Returns embeddings of a categorical image, summed over channels, ``[N, CODE_SIZE, height, width]``."""
    image = seen.plain(graph)
    image = image if channels_last else graph.transpose(image, 0, 2, 3, 1)
    codes = graph.cast(graph.clip(image, 0, NUM_CODES - 1), np.int64)
    codes = graph.add(codes, graph.constant(embedding.offsets, np.int64))
    cells = graph.op("Gather", graph.constant(embedding.table), codes, axis=0)
    assert embedding.table.shape[1] == CODE_SIZE
    return graph.transpose(graph.sum(cells, 3, keep=False), 0, 3, 1, 2)


def _maps(graph: Graph, stack: nn.Module, x: str, scale: float) -> str:
    """Returns feature maps ``[N, filters, height, width]`` of a stack of convolutions on images divided by `scale`."""
    if type(stack) is PlainStack:
        if not len(stack):
            return graph.scaled(x, 1.0 / scale)
        for layer in stack:
            x = _rectified(graph, convolved(graph, layer, x, scale), stack.slope)
            scale = 1.0
        return x
    if type(stack) is ResidualStack:
        for section in stack:
            assert isinstance(section, Section)
            x = _section(graph, section, x, scale)
            scale = 1.0
        return _unit(graph, x, stack.swish)
    raise ExportError(f"images pass through {type(stack).__name__}, which cannot be exported")


def _section(graph: Graph, section: Section, x: str, scale: float) -> str:
    """Returns feature maps of half the size."""
    x = convolved(graph, section.convolution, x, scale)
    x = graph.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[section.padding] * 4)
    for block in section.blocks:
        assert isinstance(block, Residual)
        added = convolved(graph, block.first, _unit(graph, x, block.swish))
        x = graph.add(convolved(graph, block.second, _unit(graph, added, block.swish)), x)
    return x


def convolved(graph: Graph, layer: nn.Module, x: str, divisor: float = 1.0) -> str:
    """Adds a convolution of ``x / divisor``; the division is done on its weights."""
    assert isinstance(layer, nn.Conv2d)
    weight: Tensor = layer.weight if divisor == 1.0 else layer.weight / divisor
    values = [graph.constant(weight)] + ([] if layer.bias is None else [graph.constant(layer.bias)])
    height, width = (int(pad) for pad in layer.padding)
    return graph.op(
        "Conv",
        x,
        *values,
        kernel_shape=list(layer.kernel_size),
        strides=list(layer.stride),
        pads=[height, width, height, width],
    )
