"""Modules of a user's own in a graph, by torch's own exporter: traced, and its operators taken over."""

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
from rookery.onnx.seen import Seen, categories

ROWS = 2
"""Rows that a module is traced with."""


class Traced(nn.Module):
    """Calls a function of tensors as a module, which the exporter wants.

    Args:
        module: Holds the weights.
        call: What is computed.
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
    """Adds what a function of a module computes; gives the names of its outputs, ``[N, ...]`` each.

    Args:
        graph: Takes the operators.
        what: What a message calls the module.
        module: Holds the weights.
        call: Takes tensors, gives tensors.
        inputs: Values of the graph, each with an example of `ROWS` rows.
        num_outputs: How many tensors it gives.

    Raises:
        ExportError: If torch cannot export it in this opset; says why.
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
    except Exception as error:  # whatever a user's module and torch's exporter raise
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
    """Keeps torch's exporter from printing whole graphs, which it does past Python's own streams."""
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
    graph: Graph, trunk: nn.Module, spec: ObsSpec, obs: Mapping[str, Seen], mask: str, memory: tuple[Memory, str] | None
) -> list[str]:
    """Adds a trunk that is not ours, or one that remembers by itself; gives features, and what is remembered then.

    Args:
        graph: Takes the operators.
        trunk: From observations by leaf path to features.
        spec: Layout of what it takes.
        obs: Values by leaf path.
        mask: Allowed choices, bool; empty where there are none.
        memory: A memory that takes observations itself, and what it remembers ``[N, size]``.
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
            value = graph.op("Max", graph.op("Min", value, last), graph.constant([[0.0]]))  # tables fail on others
            value, example = graph.cast(value, np.int64), example.to(torch.int64)
            value = graph.reshape(value, -1, *leaf.shape)
        paths.append(leaf.path)
        inputs[graph.op("Identity", value)] = example  # two leaves may be one value
    what = name_of(trunk if memory is None else memory[0])
    if memory is None:
        return traced(graph, what, trunk, lambda *given: trunk(dict(zip(paths, given, strict=True))), inputs, 1)
    own, remembered = memory
    inputs[remembered] = torch.zeros(ROWS, own.size, dtype=torch.float32, device="cpu")

    def remembering(*given: Tensor) -> tuple[Tensor, Tensor]:
        return own.advance(dict(zip(paths, given[:-1], strict=True)), given[-1])  # type: ignore[arg-type]

    return traced(graph, what, own, remembering, inputs, 2)


def traced_memory(graph: Graph, memory: Memory, num_features: int, x: str, remembered: str) -> list[str]:
    """Adds a memory that there is no graph of; gives features, and what is remembered from here on."""
    inputs = {
        x: torch.zeros(ROWS, num_features, dtype=torch.float32, device="cpu"),
        remembered: torch.zeros(ROWS, memory.size, dtype=torch.float32, device="cpu"),
    }
    return traced(graph, name_of(memory), memory, memory.advance, inputs, 2)


def name_of(module: nn.Module) -> str:
    """Returns what a message calls a module: of a user's own, the class of that."""
    if isinstance(module, CustomMemory):
        return name_of(module.model)
    if isinstance(module, CustomTrunk):
        return f"model.module {type(module.module).__name__}"
    return type(module).__name__
