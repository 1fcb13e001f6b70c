"""Rules for an ONNX file, of Unity's importer and of onnxruntime: what is wrong with it, in sentences.

The rules for Unity mirror those by which com.unity.ml-agents (`SentisModelParamLoader`, `SentisModelInfo` and their
Barracuda twins) looks at a model before an agent may use it, and Unity's list of ONNX operators. No Unity runs here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rookery.core.errors import ConfigError, nearest
from rookery.onnx.compare import run, session_of
from rookery.onnx.graph import OPSETS, require_onnx

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto

LARGEST_INPUT = 1 << 26
"""Most numbers in an input of a file that is tried."""

SECONDS = 30.0
"""Most seconds of a file for one batch when it is tried."""

ROWS = (1, 3)
"""Sizes of the batches that a file is tried with."""

SENTIS = frozenset(
    [
        "Abs", "Acos", "Acosh", "Add", "And", "ArgMax", "ArgMin", "Asin", "Asinh", "Atan", "Atanh", "AveragePool",
        "BatchNormalization", "Bernoulli", "Cast", "CastLike", "Ceil", "Celu", "Clip", "Compress", "Concat",
        "Constant", "ConstantOfShape", "Conv", "ConvTranspose", "Cos", "Cosh", "CumSum", "DepthToSpace", "Div",
        "Dropout", "Einsum", "Elu", "Equal", "Erf", "Exp", "Expand", "Flatten", "Floor", "Gather", "GatherElements",
        "GatherND", "Gelu", "Gemm", "GlobalAveragePool", "GlobalMaxPool", "Greater", "GreaterOrEqual", "HardSigmoid",
        "HardSwish", "Hardmax", "Identity", "InstanceNormalization", "IsInf", "IsNaN", "LRN", "LSTM",
        "LayerNormalization", "LeakyRelu", "Less", "LessOrEqual", "Log", "LogSoftmax", "MatMul", "Max", "MaxPool",
        "Mean", "Min", "Mod", "Mul", "Multinomial", "Neg", "NonMaxSuppression", "NonZero", "Not", "OneHot", "Or",
        "PRelu", "Pad", "Pow", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Range",
        "Reciprocal", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
        "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Relu", "Reshape", "Resize", "Round",
        "ScatterElements", "ScatterND", "Selu", "Shape", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Size", "Slice",
        "Softmax", "Softplus", "Softsign", "SpaceToDepth", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Tan", "Tanh",
        "ThresholdedRelu", "Tile", "TopK", "Transpose", "Trilu", "Unsqueeze", "Upsample", "Where", "Xor",
    ]
)  # fmt: skip
"""Operators that Unity's Sentis (the Inference Engine) imports."""

NOT_IN_BARRACUDA = frozenset(
    [
        "CumSum", "Einsum", "Erf", "GatherElements", "GatherND", "IsInf", "IsNaN", "Mod", "Range", "Sign", "Trilu",
    ]
)  # fmt: skip
"""Some of these that its forerunner Barracuda, of packages up to 2.3, does not know; the exact GELU needs the first."""

FIRST = b"\x08"
"""What ONNX files begin with: the tag of the version of their format."""

FACTS = ("version_number", "memory_size")
PLAIN_INPUTS = ("action_masks", "recurrent_in")
MARKS = (*FACTS, "obs_0", "vector_observation", "continuous_actions", "discrete_actions", "is_continuous_control")
"""Names by which a file is taken to be for Unity."""

PAIRS = {"continuous_actions": "continuous_action_output_shape", "discrete_actions": "discrete_action_output_shape"}
"""Outputs with actions, and those that say how they are laid out."""


@dataclass
class Look:
    """What was found in a file.

    Attributes:
        kind: ``unity`` or ``generic``.
        version: Of ML-Agents' models, 0 of other files.
        opset: Version of its operators.
        inputs: Name, type and shape of each.
        outputs: Likewise.
        operators: How often each is used.
        told: Facts that stand in the file.
        problems: What is wrong, a sentence each.
        notes: What is right but may surprise.
    """

    kind: str = "generic"
    version: int = 0
    opset: int = 0
    inputs: list[tuple[str, str, tuple[int | str, ...]]] = field(default_factory=list)
    outputs: list[tuple[str, str, tuple[int | str, ...]]] = field(default_factory=list)
    operators: dict[str, int] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


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
    return look_into(content)


def problems_in(content: bytes) -> list[str]:
    """Says what is wrong with the content of an ONNX file."""
    return look_into(content).problems


def look_into(content: bytes) -> Look:
    """Looks at the content of an ONNX file."""
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
    _facts_about(look, model)
    if any(tensor.data_location == tensor.EXTERNAL for tensor in _tensors(model)):
        look.problems.append("Its weights stand in other files, which are not read.")
        return look
    try:
        onnx.checker.check_model(model)
    except Exception as error:  # of several kinds
        look.problems.append(f"It breaks the rules of ONNX: {_line(error)}.")
        return look
    if look.kind == "unity":
        constants = _constants(model)
        _check_operators(look)
        _check_version(look, constants)
        _check_inputs(look)
        _check_actions(look, constants)
        _check_memory(look, constants)
    _try_out(look, content)
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


def _facts_about(look: Look, model: ModelProto) -> None:
    stored = {tensor.name for tensor in model.graph.initializer}
    look.inputs = [_port(value) for value in model.graph.input if value.name not in stored]
    look.outputs = [_port(value) for value in model.graph.output]
    look.opset = max((one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), default=0)
    look.told = {prop.key: prop.value for prop in model.metadata_props}
    for node in model.graph.node:
        name = f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
        look.operators[name] = look.operators.get(name, 0) + 1
    named = {name for name, _, _ in (*look.inputs, *look.outputs)} | stored
    if named & {*MARKS}:
        look.kind = "unity"


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


# --- rules of Unity ---------------------------------------------------------------------------------------------------


def _check_operators(look: Look) -> None:
    unknown = sorted(set(look.operators) - SENTIS)
    if unknown:
        look.problems.append(f"Unity knows no operator {', '.join(unknown)}.")
    if look.opset not in OPSETS:
        look.problems.append(f"Its opset is {look.opset}; Unity's importers read {OPSETS[0]} to {OPSETS[-1]}.")
    late = sorted(set(look.operators) & NOT_IN_BARRACUDA)
    if late:
        look.notes.append(f"Barracuda (packages up to 2.3) knows no {', '.join(late)}; Sentis (from 3.0 on) does.")


def _fact(look: Look, constants: dict[str, np.ndarray], name: str) -> np.ndarray | None:
    """A constant that must be an output; says what is wrong with it."""
    if name not in _named(look.outputs):
        there = name in constants
        look.problems.append(
            f"{name} is a constant but no output, and Sentis reads outputs." if there else f"There is no output {name}."
        )
        return constants.get(name)
    if name not in constants:
        look.problems.append(f"{name} is computed, and Barracuda looks for a constant: let an Identity give one on.")
        return None
    return constants[name]


def _check_version(look: Look, constants: dict[str, np.ndarray]) -> None:
    value = _fact(look, constants, "version_number")
    if value is None or not value.size:
        return
    look.version = int(value.flat[0])
    if look.version not in (2, 3):
        look.problems.append(f"version_number is {value.flat[0]:g}; the package reads models of version 2 and 3.")
    _check_float(look, "version_number", value)


def _check_float(look: Look, name: str, value: np.ndarray) -> None:
    if value.dtype != np.float32:
        look.problems.append(f"{name} has the type {value.dtype}, and the package reads float32.")


def _check_inputs(look: Look) -> None:
    names = [name for name, _, _ in look.inputs]
    pattern = r"obs_\d+" if look.version != 2 else r"obs_\d+|vector_observation|visual_observation_\d+"
    for name, dtype, shape in look.inputs:
        if not re.fullmatch(pattern, name) and name not in PLAIN_INPUTS:
            look.problems.append(f"{name} is no input that the package gives{nearest(name, [*PLAIN_INPUTS, 'obs_0'])}.")
            continue
        if dtype != "float32":
            look.problems.append(f"Input {name} has the type {dtype}, and the package gives float32.")
        if shape and isinstance(shape[0], int) and shape[0] != 1:
            look.problems.append(f"Input {name} takes {shape[0]} agents at once, and any number may ask.")
        if shape and shape[0] == 1:
            look.problems.append(f"Input {name} takes one agent at a time: its first axis must be of any length.")
        if any(not isinstance(side, int) or side < 1 for side in shape[1:]):
            look.problems.append(f"Input {name} has axes of unknown length besides the first: {_told(shape)}.")
        if name not in PLAIN_INPUTS and not 2 <= len(shape) <= 4:
            look.problems.append(f"Input {name} has {len(shape)} axes; sensors give one to three, and the batch.")
    numbers = sorted(int(name[4:]) for name in names if re.fullmatch(r"obs_\d+", name))
    if look.version != 2 and numbers != list(range(len(numbers))):
        look.problems.append(f"Observations are numbered {numbers}, and sensors are counted from 0 without gaps.")
    if not [name for name in names if name not in PLAIN_INPUTS]:
        look.problems.append("It takes no observation.")


def _check_actions(look: Look, constants: dict[str, np.ndarray]) -> None:
    outputs = _named(look.outputs)
    if look.version == 2 and not PAIRS.keys() & outputs.keys():
        _check_legacy(look, constants)
        return
    if not PAIRS.keys() & outputs.keys():
        look.problems.append("There is no output with actions: continuous_actions or discrete_actions.")
    for name, shape_name in PAIRS.items():
        if name not in outputs:
            continue
        shape = _fact(look, constants, shape_name)
        if f"deterministic_{name}" not in outputs:
            look.notes.append(f"There is no output deterministic_{name}: agents cannot use Deterministic Inference.")
        if shape is None:
            continue
        _check_float(look, shape_name, shape)
        width = int(shape.flat[0]) if name == "continuous_actions" else shape.size
        if (shape < 1).any():
            look.problems.append(f"{shape_name} is {shape.ravel().tolist()}, which are no numbers of actions.")
        for output in (name, f"deterministic_{name}"):
            dtype, axes = outputs.get(output, ("", (0, width)))
            if isinstance(axes[-1], int) and axes[-1] != width:
                look.problems.append(f"{output} is {axes[-1]} wide where {shape_name} says {width}.")
            wanted = ("float32",) if name == "continuous_actions" else ("int64", "int32")
            if dtype and dtype not in wanted:
                look.problems.append(f"{output} has the type {dtype}, and the package reads {wanted[0]}.")
        if name == "discrete_actions":
            _check_masks(look, int(shape.sum()))


def _check_masks(look: Look, width: int) -> None:
    masks = _named(look.inputs).get("action_masks")
    if masks is None:
        look.problems.append("It chooses among actions and has no input action_masks.")
    elif masks[1][-1] != width:
        look.problems.append(f"action_masks is {masks[1][-1]} wide where the branches have {width} choices together.")


def _check_legacy(look: Look, constants: dict[str, np.ndarray]) -> None:
    """Outputs of version 2: one action, how wide it is, and whether it is numbers."""
    outputs = _named(look.outputs)
    if "action" not in outputs:
        look.problems.append("There is no output with actions: action, of a model of version 2.")
        return
    shape = _fact(look, constants, "action_output_shape")
    numbers = _fact(look, constants, "is_continuous_control")
    if shape is None or numbers is None:
        return
    for name, value in (("action_output_shape", shape), ("is_continuous_control", numbers)):
        if value.dtype.kind != "i":
            look.notes.append(f"{name} has the type {value.dtype}; Sentis (packages from 3.0) reads whole numbers.")
    width = outputs["action"][1][-1]
    if isinstance(width, int) and width != int(shape.flat[0]):
        look.problems.append(f"action is {width} wide where action_output_shape says {int(shape.flat[0])}.")
    if not numbers.flat[0]:
        _check_masks(look, int(shape.flat[0]))


def _check_memory(look: Look, constants: dict[str, np.ndarray]) -> None:
    value = _fact(look, constants, "memory_size")
    if value is None or not value.size:
        return
    _check_float(look, "memory_size", value)
    size = int(value.flat[0])
    both = {"recurrent_in": _named(look.inputs), "recurrent_out": _named(look.outputs)}
    if size < 0:
        look.problems.append(f"memory_size is {size}.")
    if size > 0 and look.version == 2:
        look.problems.append("It remembers, and the package refuses models of version 2 that do.")
        return
    for name, ports in both.items():
        if size > 0 and name not in ports:
            look.problems.append(f"memory_size is {size}, and there is no {name}.")
        elif size == 0 and name in ports:
            look.problems.append(f"There is {name}, and memory_size is 0.")
        elif name in ports:
            shape = ports[name][1]
            if len(shape) != 3 or shape[1:] != (1, size):
                look.problems.append(
                    f"{name} has the shape {_told(shape)}, not [batch, 1, {size}] as memory_size says."
                )


def _named(ports: Sequence[tuple[str, str, tuple[int | str, ...]]]) -> dict[str, tuple[str, tuple[int | str, ...]]]:
    return {name: (dtype, shape) for name, dtype, shape in ports}


# --- running it -------------------------------------------------------------------------------------------------------


def _try_out(look: Look, content: bytes) -> None:
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
            _check_given(look, given, feeds, rows, zeros=make is np.zeros)
            if look.problems:
                return


def _values(name: str, make: Callable[..., np.ndarray], shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if "mask" not in name:
        return make(shape).astype(dtype)
    mask = make(shape) > 0
    if make is not np.zeros:
        mask[:] = True
    return mask.astype(dtype)


def _check_given(
    look: Look, given: dict[str, np.ndarray], feeds: dict[str, np.ndarray], rows: int, *, zeros: bool
) -> None:
    for name, _, shape in look.outputs:
        value = given[name]
        if value.dtype.kind == "f" and not np.isfinite(value).all() and look.kind == "unity":
            look.problems.append(f"{name} is not finite for a batch of {'zeros' if zeros else 'numbers'}.")
        if shape and isinstance(shape[0], str) and value.shape[0] != rows:
            look.problems.append(f"{name} has {value.shape[0]} rows for a batch of {rows}.")
    shape_of = given.get("discrete_action_output_shape")
    if look.kind != "unity" or shape_of is None:
        return
    sizes = shape_of.ravel().astype(int)
    for name in ("discrete_actions", "deterministic_discrete_actions"):
        actions = given.get(name)
        if actions is not None and ((actions < 0) | (actions >= sizes)).any():
            look.problems.append(f"{name} has {actions.max()} where the branches have {sizes.tolist()} choices.")


def _told(shape: tuple[int | str, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".")
