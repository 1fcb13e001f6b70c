"""Builder of ONNX graphs; it hides the differences between opsets.

Values are identified by their names. The first axis is always the batch, of unknown size. Only operators that old
runtimes of ML-Agents support are used, and no other exporter is needed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from rookery.core.errors import ConfigError, RookeryError
from rookery.core.packages import install_line

if TYPE_CHECKING:
    from onnx import ModelProto

OPSETS = range(9, 16)
"""Supported versions of the operators."""

BATCH = "batch"
"""Name of the first axis of inputs and outputs."""

EXTRA = install_line("onnx")


class ExportError(RookeryError):
    """Raised if a policy cannot be exported, or its exported file acts differently."""


@dataclass(frozen=True)
class Node:
    """One operator.

    Attributes:
        op: Name in ONNX.
        inputs: Names of its inputs.
        outputs: Names of its outputs.
        attributes: Attributes for `onnx.helper.make_node`, or attribute objects of another graph.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class Port:
    """An input or output of a graph.

    Attributes:
        name: Its name.
        dtype: Type of its elements.
        shape: Its axes; strings name axes of any length.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | str, ...]


def require_onnx() -> None:
    """Raises a ConfigError with the install command if a package of the extra is missing."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise ConfigError(f"ONNX files need {error.name}, which is not installed: {EXTRA}") from None


def check_opset(opset: int) -> None:
    """Raises a ConfigError if files cannot be written in this opset."""
    if opset not in OPSETS:
        raise ConfigError(f"opset {opset}: must be {OPSETS[0]} to {OPSETS[-1]}")


class Graph:
    """Operators and constants, in the order in which they were added.

    Args:
        opset: Version of the operators, one of `OPSETS`.
    """

    def __init__(self, opset: int) -> None:
        check_opset(opset)
        self.opset = opset
        self.nodes: list[Node] = []
        self.constants: dict[str, np.ndarray] = {}
        self._known: dict[tuple[Any, ...], str] = {}
        self._maker: dict[str, Node] = {}
        self._count = 0

    # --- values -------------------------------------------------------------------------------------------------------

    def fresh(self, word: str) -> str:
        """Returns an unused name."""
        self._count += 1
        return f"_{word}_{self._count}"

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        """Returns the name of a constant, which is added if no equal one exists.

        Args:
            value: A tensor, an array, a number or a sequence of numbers.
            dtype: Type of its elements.
        """
        array = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
        array = np.array(array, dtype, order="C")  # a copy, as weights change in training
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._known:
            name = self.fresh("constant")
            self.constants[name] = array
            self._known[key] = name
        return self._known[key]

    def named_constant(self, name: str, array: np.ndarray) -> None:
        """Adds a constant under a given name."""
        self.constants[name] = array

    def op(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Adds an operator; returns the name of its only output."""
        (output,) = self.ops(op, inputs, 1, attributes)
        return output

    def ops(self, op: str, inputs: Sequence[str], count: int, attributes: Mapping[str, Any]) -> tuple[str, ...]:
        """Adds an operator with `count` outputs; returns their names."""
        node = Node(op, tuple(inputs), tuple(self.fresh(op.lower()) for _ in range(count)), attributes)
        self.nodes.append(node)
        self._maker |= dict.fromkeys(node.outputs, node)
        return node.outputs

    def name(self, value: str, name: str) -> str:
        """Adds a value under another name, for an output; returns the name."""
        self.nodes.append(Node("Identity", (value,), (name,), {}))
        return name

    # --- arithmetic ---------------------------------------------------------------------------------------------------

    def add(self, a: str, b: str) -> str:
        """Adds two values."""
        return self.op("Add", a, b)

    def sub(self, a: str, b: str) -> str:
        """Subtracts the second value from the first."""
        return self.op("Sub", a, b)

    def mul(self, a: str, b: str) -> str:
        """Multiplies two values."""
        return self.op("Mul", a, b)

    def scaled(self, x: str, factor: float) -> str:
        """Multiplies a value by a number; a factor of 1 adds no operator."""
        return x if factor == 1.0 else self.mul(x, self.constant(factor))

    def linear(self, x: str, weight: Any, bias: Any = None) -> str:
        """Multiplies rows ``[N, F]`` by a weight ``[O, F]`` and adds a bias ``[O]``, if there is one."""
        if bias is None:
            bias = np.zeros(len(weight), np.float32)
        return self.op("Gemm", x, self.constant(weight), self.constant(bias), transB=1)

    def linear_inside(self, x: str, weight: Tensor, bias: Tensor | None = None) -> str:
        """Applies a linear layer to values with further axes, ``[N, ..., F]``."""
        product = self.op("MatMul", x, self.constant(weight.T))
        return product if bias is None else self.add(product, self.constant(bias))

    def clip(self, x: str, low: float, high: float) -> str:
        """Clips a value to a range."""
        if self.opset < 11:
            return self.op("Clip", x, min=float(low), max=float(high))
        return self.op("Clip", x, self.constant(low), self.constant(high))

    def rounded(self, x: str) -> str:
        """Rounds to whole numbers."""
        return self.op("Round", x) if self.opset >= 11 else self.op("Floor", self.add(x, self.constant(0.5)))

    def softmax(self, x: str, axis: int, *, log: bool = False) -> str:
        """Applies softmax, or its logarithm, over the last axis, given by its index."""
        return self.op("LogSoftmax" if log else "Softmax", x, axis=axis)

    def layer_norm(self, x: str, axis: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> str:
        """Applies layer normalization over the last axis."""
        centered = self.sub(x, self.op("ReduceMean", x, axes=[axis], keepdims=1))
        variance = self.op("ReduceMean", self.mul(centered, centered), axes=[axis], keepdims=1)
        normal = self.op("Div", centered, self.op("Sqrt", self.add(variance, self.constant(eps))))
        normal = normal if weight is None else self.mul(normal, self.constant(weight))
        return normal if bias is None else self.add(normal, self.constant(bias))

    def activation(self, name: str, x: str) -> str:
        """Applies an activation by its name in `ModelConfig`."""
        if name == "linear":
            return x
        if name == "silu":
            return self.mul(x, self.op("Sigmoid", x))
        if name == "gelu":  # the exact one
            inner = self.op("Erf", self.mul(x, self.constant(1 / math.sqrt(2))))
            return self.mul(self.scaled(x, 0.5), self.add(inner, self.constant(1.0)))
        return self.op({"tanh": "Tanh", "relu": "Relu", "elu": "Elu"}[name], x)

    def sum(self, x: str, axis: int, *, keep: bool) -> str:
        """Sums a value over one axis."""
        if self.opset < 13:
            return self.op("ReduceSum", x, axes=[axis], keepdims=int(keep))
        return self.op("ReduceSum", x, self.constant([axis], np.int64), keepdims=int(keep))

    # --- layout -------------------------------------------------------------------------------------------------------

    def reshape(self, x: str, *shape: int) -> str:
        """Reshapes a value; -1 is the batch."""
        return self.op("Reshape", x, self.constant(shape, np.int64))

    def transpose(self, x: str, *order: int) -> str:
        """Permutes the axes of a value; two permutations that cancel add no operator."""
        before = self._maker.get(x)
        if before is not None and before.op == "Transpose":
            whole = [before.attributes["perm"][axis] for axis in order]
            if whole == sorted(whole):
                return before.inputs[0]
        return self.op("Transpose", x, perm=list(order))

    def concat(self, values: Sequence[str], axis: int = 1) -> str:
        """Concatenates values; a single one is returned unchanged."""
        return values[0] if len(values) == 1 else self.op("Concat", *values, axis=axis)

    def slice(self, x: str, start: int, stop: int, axis: int = 1) -> str:
        """Slices an axis from `start` to `stop`."""
        if self.opset < 10:
            return self.op("Slice", x, starts=[start], ends=[stop], axes=[axis])
        ends = [self.constant([place], np.int64) for place in (start, stop, axis)]
        return self.op("Slice", x, *ends)

    def split(self, x: str, widths: Sequence[int], axis: int = 1) -> list[str]:
        """Splits a value into parts of these widths; a single part is the value itself."""
        if len(widths) == 1:
            return [x]
        ends = np.cumsum((0, *widths)).tolist()
        return [self.slice(x, begin, end, axis) for begin, end in pairwise(ends)]

    # --- types and selection ------------------------------------------------------------------------------------------

    def cast(self, x: str, dtype: Any) -> str:
        """Casts a value to another element type."""
        return self.op("Cast", x, to=element_type(dtype))

    def above(self, x: str, number: float) -> str:
        """Returns a mask of elements above a number: bool."""
        return self.op("Greater", x, self.constant(number))

    def where(self, condition: str, a: str, b: str) -> str:
        """Selects the first value where a condition holds, else the second."""
        return self.op("Where", condition, a, b)

    def best(self, x: str) -> str:
        """Returns the index of the largest value in each row ``[N, n]``, the first of equals, int64 ``[N, 1]``."""
        return self.op("ArgMax", x, axis=1, keepdims=1)

    def drawn(self, logits: str) -> str:
        """Samples an index of each row by its unnormalised log-probabilities ``[N, n]``, int64 ``[N, 1]``."""
        return self.op("Multinomial", logits, dtype=element_type(np.int64), sample_size=1)

    def normal_like(self, x: str) -> str:
        """Samples standard normal values in the shape of a value."""
        return self.op("RandomNormalLike", x)

    # --- a file -------------------------------------------------------------------------------------------------------

    def model(self, inputs: Sequence[Port], outputs: Sequence[Port], metadata: Mapping[str, str]) -> ModelProto:
        """Builds the model; operators and constants that no output needs are left out.

        Args:
            inputs: Its inputs, in this order.
            outputs: Its outputs.
            metadata: Facts about it that the file stores.
        """
        from onnx import helper, numpy_helper

        needed, kept = {port.name for port in outputs}, []
        for node in reversed(self.nodes):
            if needed.intersection(node.outputs):
                needed.update(node.inputs)
                kept.append(node)
        made = []
        for node in reversed(kept):
            plain = {name: value for name, value in node.attributes.items() if not hasattr(value, "ref_attr_name")}
            proto = helper.make_node(node.op, node.inputs, node.outputs, **plain)
            proto.attribute.extend(value for value in node.attributes.values() if hasattr(value, "ref_attr_name"))
            made.append(proto)
        given, put_out = (
            [helper.make_tensor_value_info(port.name, element_type(port.dtype), port.shape) for port in side]
            for side in (inputs, outputs)
        )
        stored = [numpy_helper.from_array(array, name) for name, array in self.constants.items() if name in needed]
        graph = helper.make_graph(made, "policy", given, put_out, initializer=stored)
        opsets = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(graph, producer_name="rookery", opset_imports=opsets)
        model.ir_version = helper.find_min_ir_version_for(opsets)
        helper.set_model_props(model, dict(metadata))
        return model


def element_type(dtype: Any) -> int:
    """Returns ONNX's number of an element type."""
    from onnx import helper

    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
