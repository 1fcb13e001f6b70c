"""Custom modules in a graph, traced by torch's exporter."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rookery.core.spaces.arrays import CATEGORIES, ObsSpec
from rookery.models.build import CustomMemory, CustomTrunk
from rookery.models.cells.base import Memory
from rookery.onnx.graph import BATCH, ExportError, Graph, Node
from rookery.onnx.obs_value import ObsValue, categories

ROWS = 2
"""Batch size for tracing."""


class Traced(nn.Module):
    """Wraps a function of tensors as a module, as the exporter requires.

    Args:
        module: Holds the weights.
        call: The function.
    """

    def __init__(self, module: nn.Module, call: Callable[..., Any]) -> None:
        super().__init__()
        self.module = module
        self._call = call

    def forward(self, *inputs: Tensor) -> Any:
        """Calls the function."""
        return self._call(*inputs)


def traced(
    graph: Graph,
    what: str,
    module: nn.Module,
    call: Callable[..., Any],
    inputs: Mapping[str, Tensor],
    num_outputs: int,
) -> list[str]:
    """Adds the operators of a function of a module; returns the names of its outputs, ``[N, ...]`` each.

    Args:
        graph: Receives the operators.
        what: Name of the module in messages.
        module: Holds the weights.
        call: The function, from tensors to tensors.
        inputs: Values of the graph, each with an example of `ROWS` rows.
        num_outputs: Number of tensors it returns.

    Raises:
        ExportError: If torch cannot export it in this opset; the message has the reason.
    """
    import onnx
    from onnx import numpy_helper

    names = [f"in_{number}" for number in range(len(inputs))]
    outputs = [f"out_{number}" for number in range(num_outputs)]
    file = io.BytesIO()
    try:
        with warnings.catch_warnings(), torch.no_grad(), _silence():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                Traced(module, call).eval(),
                tuple(inputs.values()),
                file,  # type: ignore[arg-type]
                opset_version=graph.opset,
                input_names=names,
                output_names=outputs,
                dynamic_axes={name: {0: BATCH} for name in (*names, *outputs)},
                dynamo=False,
            )
        model = onnx.load_from_string(file.getvalue())
    except Exception as error:  # any error of a custom module or torch's exporter
        reason = str(error).strip().splitlines() or [""]
        raise ExportError(
            f"{what} cannot be exported in opset {graph.opset}: {type(error).__name__}: {reason[0]}; a later opset "
            "(--opset 15) may know its operators"
        ) from error
    mine = dict(zip(names, inputs, strict=True))
    for tensor in model.graph.initializer:
        mine[tensor.name] = graph.constant(*_typed(numpy_helper.to_array(tensor)))
    for node in model.graph.node:
        if any(attribute.type in (attribute.GRAPH, attribute.GRAPHS) for attribute in node.attribute):
            raise ExportError(f"{what} cannot be exported: its code branches on values ({node.op_type})")
        attributes = {attribute.name: attribute for attribute in node.attribute}
        made = tuple(graph.fresh(node.op_type.lower()) if name else "" for name in node.output)
        graph.nodes.append(Node(node.op_type, tuple(mine.get(name, name) for name in node.input), made, attributes))
        mine |= {name: new for name, new in zip(node.output, made, strict=True) if name}
    return [mine[name] for name in outputs]


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keeps torch's exporter from printing whole graphs, which bypasses Python's streams."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _typed(array: np.ndarray) -> tuple[np.ndarray, Any]:
    return array, array.dtype


def traced_trunk(
    graph: Graph,
    trunk: nn.Module,
    spec: ObsSpec,
    obs: Mapping[str, ObsValue],
    mask: str,
    memory: tuple[Memory, str] | None,
) -> list[str]:
    """Adds a custom trunk, or one with its own memory; returns features, and the new memory if there is one.

    Args:
        graph: Receives the operators.
        trunk: Module from observations by leaf path to features.
        spec: Layout of its observations.
        obs: Values by leaf path.
        mask: Action mask, bool; empty if there is none.
        memory: A memory that takes observations itself, and its state ``[N, size]``.
    """
    paths, inputs = [], {}
    for leaf in spec.leaves:
        if leaf.kind == "mask":
            if mask:
                paths.append(leaf.path)
                inputs[mask] = torch.ones(ROWS, *leaf.shape, dtype=torch.bool, device="cpu")
            continue
        seen, example = obs[leaf.path], torch.zeros(ROWS, *leaf.shape, dtype=torch.float32, device="cpu")
        value = categories(graph, seen.one_hot, leaf.sizes) if seen.one_hot else seen.plain(graph)
        if leaf.kind in CATEGORIES:
            last = graph.constant(np.array([leaf.sizes]) - 1)
            value = graph.op(
                "Max", graph.op("Min", value, last), graph.constant([[0.0]])
            )  # lookup tables fail on other values
            value, example = graph.cast(value, np.int64), example.to(torch.int64)
            value = graph.reshape(value, -1, *leaf.shape)
        paths.append(leaf.path)
        inputs[graph.op("Identity", value)] = example  # two leaves may share a value
    what = name_of(trunk if memory is None else memory[0])
    if memory is None:
        return traced(graph, what, trunk, lambda *given: trunk(dict(zip(paths, given, strict=True))), inputs, 1)
    own, remembered = memory
    inputs[remembered] = torch.zeros(ROWS, own.size, dtype=torch.float32, device="cpu")

    def remembering(*given: Tensor) -> tuple[Tensor, Tensor]:
        return own.advance(dict(zip(paths, given[:-1], strict=True)), given[-1])  # type: ignore[arg-type]

    return traced(graph, what, own, remembering, inputs, 2)


def traced_memory(graph: Graph, memory: Memory, num_features: int, x: str, remembered: str) -> list[str]:
    """Adds a memory without own graph operators; returns features and the new memory."""
    inputs = {
        x: torch.zeros(ROWS, num_features, dtype=torch.float32, device="cpu"),
        remembered: torch.zeros(ROWS, memory.size, dtype=torch.float32, device="cpu"),
    }
    return traced(graph, name_of(memory), memory, memory.advance, inputs, 2)


def name_of(module: nn.Module) -> str:
    """Returns the name of a module in messages: for custom modules, their class."""
    if isinstance(module, CustomMemory):
        return name_of(module.model)
    if isinstance(module, CustomTrunk):
        return f"model.module {type(module.module).__name__}"
    return type(module).__name__
