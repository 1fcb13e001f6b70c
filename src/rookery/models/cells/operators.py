"""Interface of an ONNX graph that cells use to export themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor


class Operators(Protocol):
    """Adds operators to a graph, implemented by `onnx/graph.py:Graph`; takes and returns names of values."""

    def op(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Adds an operator by its name in ONNX."""

    def constant(self, value: Any) -> str:
        """Adds a float32 constant."""

    def add(self, a: str, b: str) -> str:
        """Adds ``a + b``."""

    def sub(self, a: str, b: str) -> str:
        """Adds ``a - b``."""

    def mul(self, a: str, b: str) -> str:
        """Adds ``a * b``."""

    def scaled(self, x: str, factor: float) -> str:
        """Adds a product with a number."""

    def linear(self, x: str, weight: Tensor, bias: Tensor | None = None) -> str:
        """Adds a linear layer on ``[N, F]``."""

    def linear_inside(self, x: str, weight: Tensor, bias: Tensor | None = None) -> str:
        """Adds a linear layer on ``[N, ..., F]``."""

    def layer_norm(self, x: str, axis: int, weight: Tensor, bias: Tensor, eps: float) -> str:
        """Adds layer normalization over the last axis, whose index is `axis`."""

    def softmax(self, x: str, axis: int) -> str:
        """Adds a softmax over the last axis, whose index is `axis`."""

    def reshape(self, x: str, *shape: int) -> str:
        """Adds a reshape; -1 stands for N."""

    def transpose(self, x: str, *order: int) -> str:
        """Adds a transposition of axes."""

    def concat(self, values: Sequence[str], axis: int = 1) -> str:
        """Adds the concatenation of values."""

    def slice(self, x: str, start: int, stop: int) -> str:
        """Adds a slice of axis 1."""

    def split(self, x: str, widths: Sequence[int], axis: int = 1) -> list[str]:
        """Adds a split into parts of these widths."""

    def cast(self, x: str, dtype: Any) -> str:
        """Adds a change of type."""
