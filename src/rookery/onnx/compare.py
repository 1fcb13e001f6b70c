"""An exported file beside the policy: what onnxruntime makes of observations, and what the policy does."""

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
from rookery.onnx.heads import Acts, parameters_of, width_of
from rookery.policies.policy import Policy

if TYPE_CHECKING:
    from onnx import ModelProto

TOLERANCE = 1e-5
"""Largest difference between a file and its policy, in proportion to the largest number of a row where that is above
1: all of them carry its rounding.
"""

FORBIDDEN = 1e7
"""Numbers of this size and more stand for what is not allowed."""

TIE = 1e-3
"""Choices whose scores differ by less may be taken the one for the other."""

STEPS = 4
"""Decisions in a row that a policy with a memory is compared over."""

PROBE = "probe/"
"""Begins the names of values that a file does not give, but is compared by."""


@dataclass(frozen=True)
class Exported:
    """A model, and how to feed it.

    Attributes:
        model: What is written.
        probe: The same, with the parameters that actions are drawn from as outputs, by names that begin with `PROBE`.
        feeds: From observations, what is remembered ``[N, memory_size]`` and what was earned ``[N]`` to inputs.
        expected: From actions ``[N, elements]`` as the policy stores them, float32, to outputs that should be equal.
        memory_out: Output with what is remembered; empty for a policy that remembers nothing.
    """

    model: ModelProto
    probe: ModelProto
    feeds: Callable[[Tree, np.ndarray, np.ndarray], dict[str, np.ndarray]]
    expected: Callable[[np.ndarray], dict[str, np.ndarray]]
    memory_out: str


@dataclass(frozen=True)
class Agreement:
    """How a file and its policy agree.

    Attributes:
        rows: Observations that they were compared on.
        difference: The largest one between two numbers, in proportion as `TOLERANCE` has it.
    """

    rows: int
    difference: float


def probes_of(graph: Graph, action: ActionSpec, acts: Acts, prefix: str = PROBE) -> list[Port]:
    """Adds what an action is drawn from as outputs, by the names of `parameters_of` after a prefix."""
    return [
        Port(graph.name(value, prefix + name), np.dtype(np.float32), (BATCH, width_of(action, name)))
        for name, value in acts.told.items()
    ]


def session_of(content: bytes) -> Any:
    """Makes what runs a model, on one core and in silence."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def compare(policy: Policy, exported: Exported, obs: Tree) -> Agreement:
    """Compares a model with its policy: the most probable actions, what they are drawn from, and what is remembered.

    Args:
        policy: The policy, in evaluation mode.
        exported: The model.
        obs: Observations ``[N, ...]`` by leaf path.

    Raises:
        ExportError: If they differ by more than `TOLERANCE`, and by more than the policy differs from itself with
            weights that are rounded otherwise; names the output that differs most, and by how much.
    """
    try:
        session = session_of(exported.probe.SerializeToString())
    except Exception as error:  # of onnxruntime's own many kinds
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
    """How far the policy's parameters move when the last bit of each weight is another: what float32 can tell."""
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
    mine, theirs = _parameters(other, obs, memory.clone()), _parameters(policy, obs, memory)
    everywhere = np.ones(len(memory), bool)
    return max(_difference(policy, name, mine[name], theirs[name], everywhere) for name in mine)


def _compare_steps(policy: Policy, exported: Exported, session: Any, parts: list[Tree]) -> dict[str, float]:
    """The largest difference of each output over decisions in a row."""
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
            told = f"policy {policy.name!r}: onnxruntime fails on {count} rows: {_line(error)}"
            raise ExportError(told) from error
        clear = ~_tied(policy, parameters, part.get(MASK), count)
        everywhere = np.ones(count, bool)
        pairs = [(name, given[PROBE + name], value, everywhere) for name, value in parameters.items()]
        pairs += [(name, given[name], value, clear) for name, value in exported.expected(stored).items()]
        if exported.memory_out:
            remembered = given[exported.memory_out].reshape(count, -1)
            wanted, sure = memory.cpu().numpy(), clear if policy.recall is not None else everywhere
            pairs.append((exported.memory_out, remembered, wanted, sure))
            remembered = np.where(sure[:, None], remembered, wanted)
        for name, mine, theirs, where in pairs:
            apart[name] = max(_difference(policy, name, mine, theirs, where), apart.get(name, 0.0))
    return apart


def run(session: Any, feeds: Mapping[str, np.ndarray], seconds: float | None = None) -> dict[str, np.ndarray]:
    """Runs a model on what it is fed, as far as it takes it; gives its outputs by name.

    Args:
        session: The model.
        feeds: Arrays by the names of inputs.
        seconds: When it is stopped, between two of its operators; None = never.

    Raises:
        Exception: What onnxruntime raises, also where the model was stopped.
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


def _difference(policy: Policy, name: str, mine: np.ndarray, theirs: np.ndarray, clear: np.ndarray) -> float:
    """How far an output is from what it should be, in rows ``[N]`` that are clear; raises if another choice is made."""
    if mine.shape != theirs.shape:
        raise ExportError(f"policy {policy.name!r}: {name} has shape {mine.shape} where the policy has {theirs.shape}")
    if theirs.dtype.kind in "iub":
        wrong = int((mine[clear] != theirs[clear]).any(axis=tuple(range(1, mine.ndim))).sum())
        if wrong:
            raise ExportError(
                f"policy {policy.name!r}: {name} is not what the policy does in {wrong} of {len(mine)} rows"
            )
        return 0.0
    told = np.isfinite(theirs) & (np.abs(theirs) < FORBIDDEN)  # of what is not allowed, values mean nothing
    told &= clear.reshape(-1, *[1] * (theirs.ndim - 1))
    whole = tuple(range(1, theirs.ndim))
    size = np.max(np.abs(theirs), axis=whole, where=told, initial=1.0, keepdims=True)
    apart = (np.abs(mine - np.where(told, theirs, mine)) / size)[told]
    return float(np.max(np.nan_to_num(apart, nan=np.inf), initial=0.0))


def _tied(policy: Policy, parameters: Mapping[str, np.ndarray], mask: np.ndarray | None, count: int) -> np.ndarray:
    """Rows ``[N]`` in which two choices are nearly as good as each other, or a flag is nearly at even odds."""
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
