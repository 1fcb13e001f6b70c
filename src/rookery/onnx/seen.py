"""What a graph is given of an observation: values by leaf path, as they are stored or in units of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rookery.onnx.graph import Graph


@dataclass(frozen=True)
class Seen:
    """A leaf of an observation in a graph.

    Attributes:
        name: The value: float32 ``[N, *shape]`` as the leaf is laid out; of categories ``[N, k]`` for k of them.
        scale: The stored numbers are the value times this.
        one_hot: Of categories, the same as one-hots side by side, ``[N, sum(sizes)]``, if that is at hand.
    """

    name: str
    scale: float = 1.0
    one_hot: str = ""

    def plain(self, graph: Graph) -> str:
        """Returns the stored numbers; those that are scaled are bytes, and whole again."""
        return self.name if self.scale == 1.0 else graph.rounded(graph.scaled(self.name, self.scale))


def one_hots(graph: Graph, seen: Seen, sizes: Sequence[int]) -> str:
    """Returns categories ``[N, len(sizes)]`` as one-hots side by side, ``[N, sum(sizes)]``."""
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
