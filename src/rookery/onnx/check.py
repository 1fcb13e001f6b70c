"""An ONNX file, looked at: what is in it, and what is wrong with it by the rules of onnxruntime and of its program."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rookery.core.errors import ConfigError, nearest
from rookery.core.plugins import EXPORTERS
from rookery.onnx.compare import run, session_of
from rookery.onnx.graph import require_onnx

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto

LARGEST_INPUT = 1 << 26
"""Most numbers in an input of a file that is tried."""

SECONDS = 30.0
"""Most seconds of a file for one batch when it is tried."""

ROWS = (1, 3)
"""Sizes of the batches that a file is tried with."""

FIRST = b"\x08"
"""What ONNX files begin with: the tag of the version of their format."""


@dataclass
class Look:
    """What was found in a file.

    Attributes:
        kind: Name of the rules that it is checked by: ``unity``, ``generic``.
        purpose: What it is for, for a user.
        version: Version of its kind, 0 if the kind has none.
        opset: Version of its operators.
        inputs: Name, type and shape of each.
        outputs: Likewise.
        operators: How often each is used.
        told: Facts that stand in the file.
        problems: What is wrong, a sentence each.
        notes: What is right but may surprise.
    """

    kind: str = "generic"
    purpose: str = "for any program"
    version: int = 0
    opset: int = 0
    inputs: list[tuple[str, str, tuple[int | str, ...]]] = field(default_factory=list)
    outputs: list[tuple[str, str, tuple[int | str, ...]]] = field(default_factory=list)
    operators: dict[str, int] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class OnnxRules:
    """Rules of files for one program; these ask for nothing more than that a file can be run.

    Attributes:
        kind: Name of the rules.
        purpose: What such a file is for, for a user.
        marks: Names of inputs, outputs and constants, any of which tells that a file is for this program.
    """

    kind: str = "generic"
    purpose: str = "for any program"
    marks: frozenset[str] = frozenset()

    def check(self, look: Look, constants: dict[str, np.ndarray]) -> None:
        """Notes what is wrong with a model before it is run.

        Args:
            look: What was found so far, and where problems, notes, version and purpose are noted.
            constants: Values of its outputs that are constants.
        """

    def check_output(self, look: Look, name: str, value: np.ndarray, zeros: bool) -> None:
        """Notes what is wrong with an output.

        Args:
            look: Where it is noted.
            name: Name of the output.
            value: What it gave, ``[N, ...]``.
            zeros: Whether all inputs were 0.
        """

    def check_outputs(self, look: Look, given: dict[str, np.ndarray]) -> None:
        """Notes what is wrong with outputs beside each other.

        Args:
            look: Where it is noted.
            given: What each output gave, by name.
        """


ANY_PROGRAM = OnnxRules()


def check_file(path: str | Path) -> list[str]:
    """Says what is wrong with an ONNX file, a sentence each; nothing if it can be used.

    A file with names of ML-Agents is checked as Unity's importer would, any other by running it alone.

    Raises:
        ConfigError: If the extra is not installed, or there is no such file.
    """
    return look_at(path).problems


def look_at(path: str | Path) -> Look:
    """Looks at an ONNX file; raises as `check_file`."""
    require_onnx()
    file = Path(path)
    try:
        content = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        names = [other.name for other in file.parent.glob("*.onnx")] if file.parent.is_dir() else []
        raise ConfigError(f"{file}: there is no such file{nearest(file.name, names)}") from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    return look_into(content, [rules for name in EXPORTERS.own if (rules := EXPORTERS.load(name).rules)])


def problems_in(content: bytes, known: Sequence[OnnxRules] = ()) -> list[str]:
    """Returns what is wrong with the content of an ONNX file; see `look_into`."""
    return look_into(content, known).problems


def look_into(content: bytes, known: Sequence[OnnxRules] = ()) -> Look:
    """Looks at the content of an ONNX file.

    Args:
        content: The content.
        known: Rules of programs that it may be for.
    """
    import onnx

    look = Look()
    try:
        model = onnx.load_from_string(content)
    except Exception:  # protobuf's own
        look.problems.append(_unreadable(content))
        return look
    if not model.graph.node and not model.graph.output:
        look.problems.append(_unreadable(content))
        return look
    named = _facts_about(look, model)
    rules = next((one for one in known if one.marks & named), ANY_PROGRAM)
    look.kind, look.purpose = rules.kind, rules.purpose
    if any(tensor.data_location == tensor.EXTERNAL for tensor in _tensors(model)):
        look.problems.append("Its weights stand in other files, which are not read.")
        return look
    try:
        onnx.checker.check_model(model)
    except Exception as error:  # of several kinds
        look.problems.append(f"It breaks the rules of ONNX: {_line(error)}.")
        return look
    if rules is not ANY_PROGRAM:
        rules.check(look, _constants(model))
    _try_out(look, content, rules)
    return look


def _tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Yields all arrays of a model: those of its graph, of graphs inside nodes, and of attributes."""
    graphs: list[GraphProto] = [model.graph]
    nodes = [node for function in model.functions for node in function.node]
    while graphs or nodes:
        if graphs:
            graph = graphs.pop()
            yield from graph.initializer
            for sparse in graph.sparse_initializer:
                yield from (sparse.values, sparse.indices)
            nodes += graph.node
        for attribute in (attribute for node in nodes for attribute in node.attribute):
            yield from (attribute.t, *attribute.tensors, attribute.sparse_tensor.values)
            graphs += [attribute.g] * attribute.HasField("g") + list(attribute.graphs)
        nodes = []


def _unreadable(content: bytes) -> str:
    """Says what is wrong with the content of a file in which there is no graph."""
    if not content:
        return "It is empty, so incomplete: write or copy it again."
    if content[:1] == FIRST:
        return "It begins like an ONNX file and has no end, so it is incomplete: write or copy it again."
    return "It is not an ONNX file: it does not begin like one."


def _facts_about(look: Look, model: ModelProto) -> set[str]:
    """Notes what stands in a model; gives the names of its inputs, outputs and constants."""
    stored = {tensor.name for tensor in model.graph.initializer}
    look.inputs = [_port(value) for value in model.graph.input if value.name not in stored]
    look.outputs = [_port(value) for value in model.graph.output]
    look.opset = max((one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), default=0)
    look.told = {prop.key: prop.value for prop in model.metadata_props}
    for node in model.graph.node:
        name = f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
        look.operators[name] = look.operators.get(name, 0) + 1
    return {name for name, _, _ in (*look.inputs, *look.outputs)} | stored


def _port(value: ValueInfoProto) -> tuple[str, str, tuple[int | str, ...]]:
    from onnx import helper

    kind = value.type.tensor_type
    shape = tuple(dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in kind.shape.dim)
    try:
        dtype = str(helper.tensor_dtype_to_np_dtype(kind.elem_type))
    except (KeyError, TypeError):
        dtype = "unknown"
    return value.name, dtype, shape


def _constants(model: ModelProto) -> dict[str, np.ndarray]:
    """Values of outputs that are constants: initializers, or nodes that give one on."""
    from onnx import numpy_helper

    found = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            found[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
        elif node.op_type == "Identity" and node.input[0] in found:
            found[node.output[0]] = found[node.input[0]]
    return found


# --- running it -------------------------------------------------------------------------------------------------------


def _try_out(look: Look, content: bytes, rules: OnnxRules) -> None:
    """Runs a file: on zeros, as Unity does when it looks at one, and on numbers, in batches of several sizes."""
    try:
        session = session_of(content)
    except Exception as error:
        look.problems.append(f"onnxruntime refuses it: {_line(error)}.")
        return
    rng = np.random.default_rng(0)
    makers: list[Callable[[tuple[int, ...]], np.ndarray]] = [np.zeros, rng.standard_normal]
    for make in makers:
        for rows in ROWS:
            feeds: dict[str, np.ndarray] = {}
            for name, dtype, shape in look.inputs:
                sides = tuple(side if isinstance(side, int) and side > 0 else rows for side in shape)
                if math.prod(sides) > LARGEST_INPUT:
                    look.problems.append(f"{name} has the shape {sides}, of more numbers than are tried out.")
                    return
                feeds[name] = _values(name, make, sides, dtype)
            try:
                given = run(session, feeds, SECONDS)
            except Exception as error:
                told = "zeros" if make is np.zeros else "numbers"
                look.problems.append(f"It fails on a batch of {rows} of {told}: {_line(error)}.")
                return
            _check_given(look, given, rows, rules, zeros=make is np.zeros)
            if look.problems:
                return


def _values(name: str, make: Callable[..., np.ndarray], shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if "mask" not in name:
        return make(shape).astype(dtype)
    mask = make(shape) > 0
    if make is not np.zeros:
        mask[:] = True
    return mask.astype(dtype)


def _check_given(look: Look, given: dict[str, np.ndarray], rows: int, rules: OnnxRules, *, zeros: bool) -> None:
    for name, _, shape in look.outputs:
        value = given[name]
        rules.check_output(look, name, value, zeros)
        if shape and isinstance(shape[0], str) and value.shape[0] != rows:
            look.problems.append(f"{name} has {value.shape[0]} rows for a batch of {rows}.")
    rules.check_outputs(look, given)


def _line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".")
