"""Rules of Unity's importer for ONNX files: `UNITY_RULES`.

They mirror those by which com.unity.ml-agents (`SentisModelParamLoader`, `SentisModelInfo` and their Barracuda twins)
looks at a model before an agent may use it, and Unity's list of ONNX operators. No Unity runs here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rookery.face import OPSETS, FileReport, OnnxRules, nearest

_OPERATORS = json.loads(Path(__file__).with_name("unity_operators.json").read_text(encoding="utf-8"))

NOT_IN_BARRACUDA = frozenset(_OPERATORS["sentis"])
"""Operators supported by Sentis, but not by its predecessor Barracuda in packages up to 2.3."""

SENTIS = NOT_IN_BARRACUDA.union(_OPERATORS["barracuda"])
"""Operators supported by Unity's Sentis (the Inference Engine). The exact GELU needs `Erf`."""

FACTS = ("version_number", "memory_size")
PLAIN_INPUTS = ("action_masks", "recurrent_in")
MARKS = (*FACTS, "obs_0", "vector_observation", "continuous_actions", "discrete_actions", "is_continuous_control")
"""Names of inputs and outputs by which a file for Unity is recognized."""

PAIRS = {"continuous_actions": "continuous_action_output_shape", "discrete_actions": "discrete_action_output_shape"}
"""Outputs with actions, each with the output that describes their layout."""

LOG_PROBABILITIES = ("action", "discrete_actions")
"""Outputs of models of version 2 with the log-probabilities of all choices, from which the package draws."""


class UnityRules(OnnxRules):
    """Rules by which the package com.unity.ml-agents accepts a model."""

    kind = "unity"
    purpose = "for Unity, model version ?"
    marks = frozenset(MARKS)
    facts = frozenset((*FACTS, *PAIRS.values(), "action_output_shape", "is_continuous_control"))

    def check(self, report: FileReport, constants: dict[str, np.ndarray]) -> None:
        """See `OnnxRules.check`."""
        _check_operators(report)
        _check_version(report, constants)
        _check_inputs(report)
        _check_actions(report, constants)
        _check_memory(report, constants)
        report.purpose = f"for Unity, model version {report.version or '?'}"

    def check_output(self, report: FileReport, name: str, value: np.ndarray, zeros: bool) -> None:
        """See `OnnxRules.check_output`."""
        if zeros and report.version == 2 and name in LOG_PROBABILITIES and "action_masks" in _named(report.inputs):
            return  # the mask forbids all choices, which no agent does
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            report.problems.append(f"{name} is not finite for a batch of {'zeros' if zeros else 'numbers'}.")

    def check_outputs(self, report: FileReport, given: dict[str, np.ndarray]) -> None:
        """See `OnnxRules.check_outputs`."""
        shape_of = given.get("discrete_action_output_shape")
        if shape_of is None:
            return
        sizes = shape_of.ravel().astype(int)
        if report.version == 2:
            actions = given.get("discrete_actions")
            if actions is not None and actions.shape[-1] != sizes.sum():
                width = f"discrete_actions is {actions.shape[-1]} wide where the branches have {sizes.sum()} choices"
                note = f"{width} together; the package loads such a model of version 2, and cannot draw from it."
                report.notes += [note] * (note not in report.notes)
            return
        for name in ("discrete_actions", "deterministic_discrete_actions"):
            actions = given.get(name)
            if actions is not None and ((actions < 0) | (actions >= sizes)).any():
                report.problems.append(f"{name} has {actions.max()} where the branches have {sizes.tolist()} choices.")


UNITY_RULES = UnityRules()


def _check_operators(report: FileReport) -> None:
    unknown = sorted(set(report.operators) - SENTIS)
    if unknown:
        report.problems.append(f"Unity knows no operator {', '.join(unknown)}.")
    if report.opset not in OPSETS:
        report.problems.append(f"Its opset is {report.opset}; Unity's importers read {OPSETS[0]} to {OPSETS[-1]}.")
    late = sorted(set(report.operators) & NOT_IN_BARRACUDA)
    if late:
        report.notes.append(f"Barracuda (packages up to 2.3) knows no {', '.join(late)}; Sentis (from 3.0 on) does.")


def _fact(report: FileReport, constants: dict[str, np.ndarray], name: str) -> np.ndarray | None:
    """Checks a constant that must be an output; adds its problem."""
    if name not in _named(report.outputs):
        there = name in constants
        report.problems.append(
            f"{name} is a constant but no output, and Sentis reads outputs." if there else f"There is no output {name}."
        )
        return constants.get(name)
    if name not in constants:
        report.problems.append(f"{name} is computed, and Barracuda looks for a constant: let an Identity give one on.")
        return None
    return constants[name]


def _check_version(report: FileReport, constants: dict[str, np.ndarray]) -> None:
    value = _fact(report, constants, "version_number")
    if value is None or not value.size:
        return
    report.version = int(value.flat[0])
    if report.version not in (2, 3):
        report.problems.append(f"version_number is {value.flat[0]:g}; the package reads models of version 2 and 3.")
    _check_float(report, "version_number", value)


def _check_float(report: FileReport, name: str, value: np.ndarray) -> None:
    if value.dtype != np.float32:
        report.problems.append(f"{name} has the type {value.dtype}, and the package reads float32.")


def _check_inputs(report: FileReport) -> None:
    names = [name for name, _, _ in report.inputs]
    pattern = r"obs_\d+" if report.version != 2 else r"obs_\d+|vector_observation|visual_observation_\d+"
    for name, dtype, shape in report.inputs:
        if not re.fullmatch(pattern, name) and name not in PLAIN_INPUTS:
            report.problems.append(
                f"{name} is no input that the package gives{nearest(name, [*PLAIN_INPUTS, 'obs_0'])}."
            )
            continue
        if dtype != "float32":
            report.problems.append(f"Input {name} has the type {dtype}, and the package gives float32.")
        if shape and isinstance(shape[0], int) and shape[0] != 1:
            report.problems.append(f"Input {name} takes {shape[0]} agents at once, and any number may ask.")
        if shape and shape[0] == 1:
            report.problems.append(f"Input {name} takes one agent at a time: its first axis must be of any length.")
        if any(not isinstance(side, int) or side < 1 for side in shape[1:]):
            report.problems.append(f"Input {name} has axes of unknown length besides the first: {_shape_text(shape)}.")
        if name not in PLAIN_INPUTS and not 2 <= len(shape) <= 4:
            report.problems.append(f"Input {name} has {len(shape)} axes; sensors give one to three, and the batch.")
    numbers = sorted(int(name[4:]) for name in names if re.fullmatch(r"obs_\d+", name))
    if report.version != 2 and numbers != list(range(len(numbers))):
        report.problems.append(f"Observations are numbered {numbers}, and sensors are counted from 0 without gaps.")
    if not [name for name in names if name not in PLAIN_INPUTS]:
        report.problems.append("It takes no observation.")


def _check_actions(report: FileReport, constants: dict[str, np.ndarray]) -> None:
    outputs = _named(report.outputs)
    if report.version == 2 and not PAIRS.keys() & outputs.keys():
        _check_legacy(report, constants)
        return
    if not PAIRS.keys() & outputs.keys():
        report.problems.append("There is no output with actions: continuous_actions or discrete_actions.")
    for name, shape_name in PAIRS.items():
        if name not in outputs:
            continue
        shape = _fact(report, constants, shape_name)
        if f"deterministic_{name}" not in outputs:
            report.notes.append(f"There is no output deterministic_{name}: agents cannot use Deterministic Inference.")
        if shape is None:
            continue
        _check_float(report, shape_name, shape)
        is_discrete, is_old = name == "discrete_actions", report.version == 2
        width = shape.size if is_discrete else int(shape.flat[0])
        if (shape < 1).any():
            report.problems.append(f"{shape_name} is {shape.ravel().tolist()}, which are no numbers of actions.")
        for output in (name, f"deterministic_{name}"):
            dtype, axes = outputs.get(output, ("", (0, width)))
            if isinstance(axes[-1], int) and axes[-1] != width and not (is_discrete and is_old):
                report.problems.append(f"{output} is {axes[-1]} wide where {shape_name} says {width}.")
            wanted = ("int64", "int32") if is_discrete and not is_old else ("float32",)
            if dtype and dtype not in wanted:
                report.problems.append(f"{output} has the type {dtype}, and the package reads {wanted[0]}.")
        if is_discrete:
            _check_masks(report, int(shape.sum()))


def _check_masks(report: FileReport, width: int) -> None:
    masks = _named(report.inputs).get("action_masks")
    if masks is None:
        report.problems.append("It chooses among actions and has no input action_masks.")
    elif masks[1][-1] != width:
        report.problems.append(f"action_masks is {masks[1][-1]} wide where the branches have {width} choices together.")


def _check_legacy(report: FileReport, constants: dict[str, np.ndarray]) -> None:
    """Checks the outputs of version 2: one action, its width, and whether it is continuous."""
    outputs = _named(report.outputs)
    if "action" not in outputs:
        report.problems.append("There is no output with actions: action, of a model of version 2.")
        return
    shape = _fact(report, constants, "action_output_shape")
    numbers = _fact(report, constants, "is_continuous_control")
    if shape is None or numbers is None:
        return
    for name, value in (("action_output_shape", shape), ("is_continuous_control", numbers)):
        if value.dtype.kind != "i":
            report.notes.append(f"{name} has the type {value.dtype}; Sentis (packages from 3.0) reads whole numbers.")
    width = outputs["action"][1][-1]
    if isinstance(width, int) and width != int(shape.flat[0]):
        report.problems.append(f"action is {width} wide where action_output_shape says {int(shape.flat[0])}.")
    if not numbers.flat[0]:
        _check_masks(report, int(shape.flat[0]))


def _check_memory(report: FileReport, constants: dict[str, np.ndarray]) -> None:
    value = _fact(report, constants, "memory_size")
    if value is None or not value.size:
        return
    _check_float(report, "memory_size", value)
    size = int(value.flat[0])
    both = {"recurrent_in": _named(report.inputs), "recurrent_out": _named(report.outputs)}
    if size < 0:
        report.problems.append(f"memory_size is {size}.")
    if size > 0 and report.version == 2:
        report.problems.append("It remembers, and the package refuses models of version 2 that do.")
        return
    for name, ports in both.items():
        if size > 0 and name not in ports:
            report.problems.append(f"memory_size is {size}, and there is no {name}.")
        elif size == 0 and name in ports:
            report.problems.append(f"There is {name}, and memory_size is 0.")
        elif name in ports:
            shape = ports[name][1]
            if len(shape) != 3 or shape[1:] != (1, size):
                report.problems.append(
                    f"{name} has the shape {_shape_text(shape)}, not [batch, 1, {size}] as memory_size says."
                )


def _named(ports: Sequence[tuple[str, str, tuple[int | str, ...]]]) -> dict[str, tuple[str, tuple[int | str, ...]]]:
    return {name: (dtype, shape) for name, dtype, shape in ports}


def _shape_text(shape: tuple[int | str, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"
