"""Picture networks as ONNX operators: `models/pictures.py`."""

from __future__ import annotations

import numpy as np
from torch import Tensor, nn

from rookery.models.pictures import (
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
from rookery.onnx.seen import Seen


def picture_features(graph: Graph, encoder: ImageEncoder, seen: Seen) -> str:
    """Adds a picture network; gives its features ``[N, F]``.

    Args:
        graph: Takes the operators.
        encoder: The network.
        seen: The picture, as it is stored.

    Raises:
        ExportError: If there are layers in it that have no graph here; names them.
    """
    scale = encoder.scale / seen.scale
    if encoder.embedding is None:
        x = graph.transpose(seen.name, 0, 3, 1, 2) if encoder.channels_last else seen.name
    else:
        x, scale = _looked_up(graph, encoder.embedding, seen, encoder.channels_last), 1.0
    x = _maps(graph, encoder.convolutions, x, scale)
    x = graph.reshape(x, -1, encoder.linear.in_features)
    return _rectified(graph, graph.linear(x, encoder.linear.weight, encoder.linear.bias), encoder.slope)


def _rectified(graph: Graph, x: str, slope: float) -> str:
    return graph.op("LeakyRelu", x, alpha=slope) if slope else graph.op("Relu", x)


def _unit(graph: Graph, x: str, swish: bool) -> str:
    return graph.activation("silu" if swish else "relu", x)


def _looked_up(graph: Graph, embedding: CodeEmbedding, seen: Seen, channels_last: bool) -> str:
    """Vectors of a picture's codes, summed over the channels of a cell, ``[N, CODE_SIZE, height, width]``."""
    image = seen.plain(graph)
    image = image if channels_last else graph.transpose(image, 0, 2, 3, 1)
    codes = graph.cast(graph.clip(image, 0, NUM_CODES - 1), np.int64)
    codes = graph.add(codes, graph.constant(embedding.offsets, np.int64))
    cells = graph.op("Gather", graph.constant(embedding.table), codes, axis=0)
    assert embedding.table.shape[1] == CODE_SIZE
    return graph.transpose(graph.sum(cells, 3, keep=False), 0, 3, 1, 2)


def _maps(graph: Graph, stack: nn.Module, x: str, scale: float) -> str:
    """Maps ``[N, filters, height, width]`` of a stack of convolutions on pictures divided by `scale`."""
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
    raise ExportError(f"pictures go through {type(stack).__name__}, and there is no graph of it")


def _section(graph: Graph, section: Section, x: str, scale: float) -> str:
    """Maps of half the size."""
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
