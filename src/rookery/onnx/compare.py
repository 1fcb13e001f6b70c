"""Comparison of an exported file, run by onnxruntime, with its policy."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rookery.core.device import device_of
from rookery.core.spaces.arrays import MASK, ActionSpec, Tree
from rookery.onnx.graph import BATCH, ExportError, Graph, Port
from rookery.onnx.heads import GraphAction, parameters_of, width_of
from rookery.policies.policy import Policy

if TYPE_CHECKING:
    from onnx import ModelProto

TOLERANCE = 1e-5
"""Largest allowed difference between a file and its policy, relative to the largest value of a row if that is above 1:
all values of the row carry its rounding error.
"""

FORBIDDEN = 1e7
"""Values of at least this magnitude mark masked actions."""

TIE = 1e-3
"""Difference of scores below which two actions count as tied."""

STEPS = 4
"""Number of successive decisions in the comparison of a policy with memory."""

PROBE = "probe/"
"""Prefix of values that are compared, but not outputs of the file."""


@dataclass(frozen=True)
class Exported:
    """A model with functions for its inputs and outputs.

    Attributes:
        model: The model to write.
        probe: The same model, with parameters of the action distribution as outputs, named with the prefix `PROBE`.
        feeds: Maps observations, memory ``[N, memory_size]`` and last reward ``[N]`` to inputs.
        expected: Maps actions ``[N, elements]`` as the policy stores them, float32, to expected outputs.
        memory_out: Output with the memory; empty for a policy without memory.
    """

    model: ModelProto
    probe: ModelProto
    feeds: Callable[[Tree, np.ndarray, np.ndarray], dict[str, np.ndarray]]
    expected: Callable[[np.ndarray], dict[str, np.ndarray]]
    memory_out: str


@dataclass(frozen=True)
class Agreement:
    """Result of a comparison of a file with its policy.

    Attributes:
        rows: Number of compared observations.
        difference: Largest difference, relative as in `TOLERANCE`.
    """

    rows: int
    difference: float


def probes_of(graph: Graph, action: ActionSpec, acts: GraphAction, prefix: str = PROBE) -> list[Port]:
    """Adds the parameters of the action distribution as outputs, by the names of `parameters_of` after a prefix."""
    return [
        Port(graph.name(value, prefix + name), np.dtype(np.float32), (BATCH, width_of(action, name)))
        for name, value in acts.parameters.items()
    ]


def session_of(content: bytes) -> Any:
    """Returns an onnxruntime session of a model, on one core and without messages."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def compare(policy: Policy, exported: Exported, obs: Tree) -> Agreement:
    """Compares a model with its policy: the most probable actions, their distribution, and the memory.

    Args:
        policy: The policy, in evaluation mode.
        exported: The model.
        obs: Observations ``[N, ...]`` by leaf path.

    Raises:
        ExportError: If they differ by more than `TOLERANCE`, and by more than the policy differs from itself with
            weights that are rounded differently; names the output that differs most, and the difference.
    """
    try:
        session = session_of(exported.probe.SerializeToString())
    except Exception as error:  # onnxruntime has many types
        raise ExportError(f"policy {policy.name!r}: onnxruntime refuses the file: {_line(error)}") from error
    num_rows = len(next(iter(obs.values())))
    steps = min(STEPS, num_rows) if policy.memory_size else 1
    rows = num_rows // steps
    apart: dict[str, float] = {}
    for count in {1, rows}:
        parts = [{path: array[step * rows :][:count] for path, array in obs.items()} for step in range(steps)]
        for name, difference in _compare_steps(policy, exported, session, parts).items():
            apart[name] = max(difference, apart.get(name, 0.0))
    name = max(apart, key=lambda name: apart[name])
    worst = apart[name]
    if worst > TOLERANCE and worst > 2.0 * _own_rounding(policy, obs):
        raise ExportError(
            f"policy {policy.name!r}: {name} differs from the policy's by {worst:.3g}, more than {TOLERANCE:g}"
        )
    return Agreement(rows * steps, worst)


def _parameters(policy: Policy, obs: Tree, memory: torch.Tensor) -> dict[str, np.ndarray]:
    device = device_of(policy)
    rows = {path: torch.from_numpy(np.ascontiguousarray(array)).to(device) for path, array in obs.items()}
    with torch.no_grad():
        return {name: value.cpu().numpy() for name, value in parameters_of(policy(rows, memory)).items()}


def _own_rounding(policy: Policy, obs: Tree) -> float:
    """Returns the change of the policy's parameters if the last bit of each weight changes."""
    other = copy.deepcopy(policy)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in other.parameters():
            sign = (
                torch.randint(0, 2, weight.shape, generator=generator, dtype=torch.int64, device="cpu").to(
                    weight.device
                )
                * 2
                - 1
            )
            weight.mul_(1.0 + sign * 2.0**-23)
    memory = policy.initial_memory(len(next(iter(obs.values()))))
    mine, expected = _parameters(other, obs, memory.clone()), _parameters(policy, obs, memory)
    everywhere = np.ones(len(memory), bool)
    return max(_difference(policy, name, mine[name], expected[name], everywhere) for name in mine)


def _compare_steps(policy: Policy, exported: Exported, session: Any, parts: list[Tree]) -> dict[str, float]:
    """Returns the largest difference of each output over successive decisions."""
    count = len(next(iter(parts[0].values())))
    rng, device = np.random.default_rng(0), device_of(policy)
    memory = policy.initial_memory(count)
    remembered = np.zeros((count, policy.memory_size), np.float32)
    apart: dict[str, float] = {}
    for step, part in enumerate(parts):
        earned = rng.standard_normal(count).astype(np.float32) * (step > 0)
        if policy.reward_column is not None:
            memory[:, policy.reward_column] = torch.from_numpy(earned).to(device)
        parameters = _parameters(policy, part, memory)
        rows = {path: torch.from_numpy(np.ascontiguousarray(array)).to(device) for path, array in part.items()}
        with torch.no_grad():
            action, _ = policy.act(rows, None, True, memory if policy.memory_size else None)
        stored = action.cpu().numpy().reshape(count, -1).astype(np.float32)
        try:
            given = run(session, exported.feeds(part, remembered, earned))
        except Exception as error:
            message = f"policy {policy.name!r}: onnxruntime fails on {count} rows: {_line(error)}"
            raise ExportError(message) from error
        clear = ~_tied(policy, parameters, part.get(MASK), count)
        everywhere = np.ones(count, bool)
        pairs = [(name, given[PROBE + name], value, everywhere) for name, value in parameters.items()]
        pairs += [(name, given[name], value, clear) for name, value in exported.expected(stored).items()]
        if exported.memory_out:
            remembered = given[exported.memory_out].reshape(count, -1)
            wanted, sure = memory.cpu().numpy(), clear if policy.recall is not None else everywhere
            pairs.append((exported.memory_out, remembered, wanted, sure))
            remembered = np.where(sure[:, None], remembered, wanted)
        for name, mine, expected, where in pairs:
            apart[name] = max(_difference(policy, name, mine, expected, where), apart.get(name, 0.0))
    return apart


def run(session: Any, feeds: Mapping[str, np.ndarray], seconds: float | None = None) -> dict[str, np.ndarray]:
    """Runs a model on those of the arrays that are inputs; returns its outputs by name.

    Args:
        session: The model.
        feeds: Arrays by the names of inputs.
        seconds: Time limit, checked between two operators; None = no limit.

    Raises:
        Exception: From onnxruntime, also at the time limit.
    """
    import onnxruntime

    options = onnxruntime.RunOptions()
    timer = None if seconds is None else threading.Timer(seconds, setattr, (options, "terminate", True))
    wanted = {one.name for one in session.get_inputs()}
    names = [one.name for one in session.get_outputs()]
    if timer is not None:
        timer.start()
    try:
        values = session.run(names, {name: value for name, value in feeds.items() if name in wanted}, options)
    finally:
        if timer is not None:
            timer.cancel()
    return dict(zip(names, values, strict=True))


def _difference(policy: Policy, name: str, mine: np.ndarray, expected: np.ndarray, clear: np.ndarray) -> float:
    """Returns the difference of an output from its expected value, in rows ``[N]`` without a tie; raises if a discrete
    action differs.
    """
    if mine.shape != expected.shape:
        raise ExportError(
            f"policy {policy.name!r}: {name} has shape {mine.shape} where the policy has {expected.shape}"
        )
    if expected.dtype.kind in "iub":
        wrong = int((mine[clear] != expected[clear]).any(axis=tuple(range(1, mine.ndim))).sum())
        if wrong:
            raise ExportError(
                f"policy {policy.name!r}: {name} differs from the policy's action in {wrong} of {len(mine)} rows"
            )
        return 0.0
    compared = np.isfinite(expected) & (np.abs(expected) < FORBIDDEN)  # values of masked actions have no meaning
    compared &= clear.reshape(-1, *[1] * (expected.ndim - 1))
    whole = tuple(range(1, expected.ndim))
    size = np.max(np.abs(expected), axis=whole, where=compared, initial=1.0, keepdims=True)
    apart = (np.abs(mine - np.where(compared, expected, mine)) / size)[compared]
    return float(np.max(np.nan_to_num(apart, nan=np.inf), initial=0.0))


def _tied(policy: Policy, parameters: Mapping[str, np.ndarray], mask: np.ndarray | None, count: int) -> np.ndarray:
    """Returns a mask of rows ``[N]`` in which the scores of two actions, or the odds of a flag, are nearly equal."""
    tied = np.zeros(count, bool)
    if "flag_logits" in parameters:
        tied |= (np.abs(parameters["flag_logits"]) < TIE).any(1)
    scores, start = parameters.get("log_probs", parameters.get("values")), 0
    for size in policy.action_spec.sizes if scores is not None else ():
        assert scores is not None
        own = scores[:, start : start + size]
        own = own if mask is None else np.where(mask[:, start : start + size], own, -np.inf)
        if size > 1:
            best = np.sort(own, 1)[:, -2:]
            tied |= best[:, 1] - best[:, 0] < TIE * np.maximum(1.0, np.abs(best[:, 1]))
        start += size
    return tied


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
