"""Observations in a graph: values by leaf path, as stored or in other units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rookery.onnx.graph import Graph


@dataclass(frozen=True)
class ObsValue:
    """A leaf of an observation in a graph.

    Attributes:
        name: Name of the value: float32 ``[N, *shape]`` in the leaf's layout; for k categories ``[N, k]``.
        scale: Factor from the value to the stored numbers.
        one_hot: Name of the categories as concatenated one-hots, ``[N, sum(sizes)]``, if available.
    """

    name: str
    scale: float = 1.0
    one_hot: str = ""

    def plain(self, graph: Graph) -> str:
        """Returns the stored numbers; scaled ones are bytes, and rounded."""
        return self.name if self.scale == 1.0 else graph.rounded(graph.scaled(self.name, self.scale))


def one_hots(graph: Graph, seen: ObsValue, sizes: Sequence[int]) -> str:
    """Returns categories ``[N, len(sizes)]`` as concatenated one-hots, ``[N, sum(sizes)]``."""
    if seen.one_hot:
        return seen.one_hot
    whole = graph.cast(seen.name, np.int64)
    parts = []
    for column, size in zip(graph.split(whole, [1] * len(sizes)), sizes, strict=True):
        is_it = graph.op("Equal", column, graph.constant(np.arange(size)[None], np.int64))
        parts.append(graph.cast(is_it, np.float32))
    return graph.concat(parts)


def categories(graph: Graph, one_hot: str, sizes: Sequence[int]) -> str:
    """Returns one-hots ``[N, sum(sizes)]`` as categories, float32 ``[N, len(sizes)]``."""
    return graph.cast(graph.concat([graph.best(part) for part in graph.split(one_hot, sizes)]), np.float32)
