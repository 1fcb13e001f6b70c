"""Checks of ONNX files: their content, and problems by the rules of onnxruntime and of the target program."""

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
"""Largest number of elements of an input in a test run."""

SECONDS = 30.0
"""Time limit of a test run for one batch, in seconds."""

ROWS = (1, 3)
"""Batch sizes of test runs."""

FIRST = b"\x08"
"""First byte of ONNX files: the tag of the format version."""


@dataclass
class FileReport:
    """Content and problems of a file.

    Attributes:
        kind: Name of the rules of the check: ``unity``, ``generic``.
        purpose: Purpose of the file, as shown to a user.
        version: Version of its kind, 0 if the kind has none.
        opset: Version of its operators.
        inputs: Name, type and shape of each.
        outputs: Likewise.
        operators: Number of uses of each.
        metadata: Facts that the file stores.
        problems: Problems, one sentence each.
        notes: Correct but unexpected properties.
    """

    kind: str = "generic"
    purpose: str = "for any program"
    version: int = 0
    opset: int = 0
    inputs: list[tuple[str, str, tuple[int | str, ...]]] = field(default_factory=list)
    outputs: list[tuple[str, str, tuple[int | str, ...]]] = field(default_factory=list)
    operators: dict[str, int] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class OnnxRules:
    """Rules of files for one program; the base class only requires that a file can be run.

    Attributes:
        kind: Name of the rules.
        purpose: Purpose of such a file, as shown to a user.
        marks: Names of inputs, outputs and constants, any of which identifies a file for this program.
        facts: Names of outputs that describe the model, with no row for each row of a batch.
    """

    kind: str = "generic"
    purpose: str = "for any program"
    marks: frozenset[str] = frozenset()
    facts: frozenset[str] = frozenset()

    def check(self, report: FileReport, constants: dict[str, np.ndarray]) -> None:
        """Adds problems of a model before it is run.

        Args:
            report: Report so far; receives problems, notes, version and purpose.
            constants: Values of its outputs that are constants.
        """

    def check_output(self, report: FileReport, name: str, value: np.ndarray, zeros: bool) -> None:
        """Adds problems of an output.

        Args:
            report: Receives the problems.
            name: Name of the output.
            value: Its value, ``[N, ...]``.
            zeros: Whether all inputs were 0.
        """

    def check_outputs(self, report: FileReport, given: dict[str, np.ndarray]) -> None:
        """Adds problems of outputs in relation to each other.

        Args:
            report: Receives the problems.
            given: Values of outputs by name.
        """


ANY_PROGRAM = OnnxRules()


def check_file(path: str | Path) -> list[str]:
    """Returns the problems of an ONNX file, one sentence each; an empty list if it can be used.

    A file with names of ML-Agents is checked as Unity's importer would, any other only by running it.

    Raises:
        ConfigError: If the extra is not installed, or the file does not exist.
    """
    return inspect_file(path).problems


def inspect_file(path: str | Path) -> FileReport:
    """Returns content and problems of an ONNX file; raises as `check_file`."""
    require_onnx()
    file = Path(path)
    try:
        content = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        names = [other.name for other in file.parent.glob("*.onnx")] if file.parent.is_dir() else []
        raise ConfigError(f"{file}: there is no such file{nearest(file.name, names)}") from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    return inspect_content(content, [rules for name in EXPORTERS.own if (rules := EXPORTERS.load(name).rules)])


def problems_in(content: bytes, known: Sequence[OnnxRules] = ()) -> list[str]:
    """Returns the problems of the content of an ONNX file; see `inspect_content`."""
    return inspect_content(content, known).problems


def inspect_content(content: bytes, known: Sequence[OnnxRules] = ()) -> FileReport:
    """Returns a report on the content of an ONNX file.

    Args:
        content: The content.
        known: Rules of programs that the file may be for.
    """
    import onnx

    report = FileReport()
    try:
        model = onnx.load_from_string(content)
    except Exception:  # protobuf's own errors
        report.problems.append(_unreadable(content))
        return report
    if not model.graph.node and not model.graph.output:
        report.problems.append(_unreadable(content))
        return report
    named = _facts_about(report, model)
    rules = next((one for one in known if one.marks & named), ANY_PROGRAM)
    report.kind, report.purpose = rules.kind, rules.purpose
    if any(tensor.data_location == tensor.EXTERNAL for tensor in _tensors(model)):
        report.problems.append("Its weights are in other files, which are not read.")
        return report
    try:
        onnx.checker.check_model(model)
    except Exception as error:  # several types
        report.problems.append(f"It breaks the rules of ONNX: {_line(error)}.")
        return report
    if rules is not ANY_PROGRAM:
        rules.check(report, _constants(model))
    _try_out(report, content, rules)
    return report


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
    """Returns the problem of content without a graph."""
    if not content:
        return "It is empty, so incomplete: write or copy it again."
    if content[:1] == FIRST:
        return "It begins like an ONNX file and has no end, so it is incomplete: write or copy it again."
    return "It is not an ONNX file: it does not begin like one."


def _facts_about(report: FileReport, model: ModelProto) -> set[str]:
    """Adds the content of a model to a report; returns the names of its inputs, outputs and constants."""
    stored = {tensor.name for tensor in model.graph.initializer}
    report.inputs = [_port(value) for value in model.graph.input if value.name not in stored]
    report.outputs = [_port(value) for value in model.graph.output]
    report.opset = max((one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), default=0)
    report.metadata = {prop.key: prop.value for prop in model.metadata_props}
    for node in model.graph.node:
        name = f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
        report.operators[name] = report.operators.get(name, 0) + 1
    return {name for name, _, _ in (*report.inputs, *report.outputs)} | stored


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
    """Returns values of constant outputs: initializers, or nodes that pass one on."""
    from onnx import numpy_helper

    found = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            found[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
        elif node.op_type == "Identity" and node.input[0] in found:
            found[node.output[0]] = found[node.input[0]]
    return found


# --- running it -------------------------------------------------------------------------------------------------------


def _try_out(report: FileReport, content: bytes, rules: OnnxRules) -> None:
    """Runs a file: on zeros, as Unity does on import, and on random numbers, in batches of several sizes."""
    try:
        session = session_of(content)
    except Exception as error:
        report.problems.append(f"onnxruntime refuses it: {_line(error)}.")
        return
    rng = np.random.default_rng(0)
    makers: list[Callable[[tuple[int, ...]], np.ndarray]] = [np.zeros, rng.standard_normal]
    for make in makers:
        for rows in ROWS:
            feeds: dict[str, np.ndarray] = {}
            for name, dtype, shape in report.inputs:
                sides = tuple(side if isinstance(side, int) and side > 0 else rows for side in shape)
                if math.prod(sides) > LARGEST_INPUT:
                    report.problems.append(f"{name} has the shape {sides}, too large for a test run.")
                    return
                feeds[name] = _values(name, make, sides, dtype)
            try:
                given = run(session, feeds, SECONDS)
            except Exception as error:
                kind_of_input = "zeros" if make is np.zeros else "random numbers"
                report.problems.append(f"It fails on a batch of {rows} of {kind_of_input}: {_line(error)}.")
                return
            _check_given(report, given, rows, rules, zeros=make is np.zeros)
            if report.problems:
                return


def _values(name: str, make: Callable[..., np.ndarray], shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if "mask" not in name:
        return make(shape).astype(dtype)
    mask = make(shape) > 0
    if make is not np.zeros:
        mask[:] = True
    return mask.astype(dtype)


def _check_given(report: FileReport, given: dict[str, np.ndarray], rows: int, rules: OnnxRules, *, zeros: bool) -> None:
    for name, _, shape in report.outputs:
        value = given[name]
        rules.check_output(report, name, value, zeros)
        if shape and isinstance(shape[0], str) and value.shape[0] != rows and name not in rules.facts:
            report.problems.append(f"{name} has {value.shape[0]} rows for a batch of {rows}.")
    rules.check_outputs(report, given)


def _line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".")
