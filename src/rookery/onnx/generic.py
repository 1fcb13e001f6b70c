"""Generic ONNX files: inputs named by the paths of the observation, actions as the environment takes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.core.process.torch_modes import own_modes
from rookery.core.spaces.arrays import CATEGORIES, MASK, ActionSpec, Tree
from rookery.onnx.check import ANY_PROGRAM
from rookery.onnx.compare import Exported, probes_of
from rookery.onnx.exporter import Exporter
from rookery.onnx.graph import BATCH, Graph, Port, check_opset
from rookery.onnx.heads import Allowed, GraphAction, number_bounds, within
from rookery.onnx.network import decide
from rookery.onnx.obs_value import ObsValue
from rookery.onnx.written import Written, metadata_of, write
from rookery.policies.policy import Policy

OPSET = 15
"""Default version of operators."""

ACTION, SAMPLED = "action", "action_sampled"
MEMORY_IN, MEMORY_OUT, MEMORY_SAMPLED, REWARD = "memory_in", "memory_out", "memory_out_sampled", "previous_reward"
FLOAT, WHOLE, BYTES, FLAGS = np.dtype(np.float32), np.dtype(np.int64), np.dtype(np.uint8), np.dtype(np.bool_)


@own_modes()
def write_generic(policy: Policy, path: str | Path, *, opset: int = OPSET, observations: Tree | None = None) -> Written:
    """Writes a policy as an ONNX file, normalizer included, compared with the policy.

    Inputs have the names of the policy's observation paths (``obs`` if it is one array) and take the environment's
    observations; ``action_mask`` is bool. Outputs are ``action``, the most probable one, ``action_sampled`` if the
    policy samples actions, both as the environment takes them (``action/PATH`` for each part of a Dict or Tuple), and
    the parameters of their distribution: ``log_probs``, ``flag_logits``, ``mean`` and ``log_std``, or ``values`` of
    actions. A policy with memory has ``memory_in`` and ``memory_out``, zeros at the start of an episode.

    Args:
        policy: The policy.
        path: The file; an existing one is replaced only after the checks have passed.
        opset: Version of ONNX operators, 9 to 15.
        observations: Observations for the comparison, ``[N, ...]`` by leaf path; None = random ones.

    Raises:
        ConfigError: If the extra is not installed, or the opset is not supported.
        ExportError: If a part of the policy cannot be exported, or the file's actions differ from the policy's.
        FileError: If the file cannot be written.
    """
    check_opset(opset)
    return write(policy, Path(path), lambda own: generic_model(own, opset), opset, observations)


GENERIC = Exporter(write_generic, ".generic.onnx", ("opset",), ANY_PROGRAM)


def generic_model(policy: Policy, opset: int) -> Exported:
    """Builds the model; arguments and errors as in `write_generic`."""
    graph, spec = Graph(opset), policy.own_spec
    inputs, obs = _inputs(graph, policy)
    allowed = Allowed()
    if spec.has_mask:
        inputs.append(Port(MASK, FLAGS, (BATCH, *spec.leaves[-1].shape)))
        allowed = Allowed(MASK)
    remembered = reward = ""
    if policy.memory_size:
        inputs.append(Port(MEMORY_IN, FLOAT, (BATCH, policy.memory_size)))
        remembered = MEMORY_IN
    if policy.reward_column is not None:
        inputs.append(Port(REWARD, FLOAT, (BATCH,)))
        reward = graph.reshape(REWARD, -1, 1)
    decision = decide(graph, policy, obs, allowed, remembered, reward)
    acts, parts = decision.acts, list(parts_of(policy.action_spec))
    outputs = [_action(graph, acts, part, ACTION, drawn=False) for part in parts]
    if any(draw.best != draw.drawn for draw in (*acts.choices, *acts.flags, *filter(None, [acts.numbers]))):
        outputs += [_action(graph, acts, part, SAMPLED, drawn=True) for part in parts]
    extra = probes_of(graph, policy.action_spec, acts, "")
    probes = probes_of(graph, policy.action_spec, acts)
    if decision.memory:
        both = {MEMORY_OUT: decision.memory}
        if policy.recall is not None and policy.recall.num_choices + policy.recall.num_numbers:
            both[MEMORY_SAMPLED] = decision.memory_drawn
        extra += [Port(graph.name(value, name), FLOAT, (BATCH, policy.memory_size)) for name, value in both.items()]

    def feeds(tree: Tree, memory: np.ndarray, earned: np.ndarray) -> dict[str, np.ndarray]:
        given = {leaf.path: tree[leaf.path] for leaf in spec.leaves}
        for leaf in spec.leaves:
            if leaf.kind in CATEGORIES:
                given[leaf.path] = given[leaf.path] + np.asarray(leaf.start)
        return {**given, MEMORY_IN: memory, REWARD: earned}

    def expected(stored: np.ndarray) -> dict[str, np.ndarray]:
        return {part.output(ACTION): part.as_output(stored) for part in parts}

    facts = metadata_of(policy)
    return Exported(
        graph.model(inputs, [*outputs, *extra], facts),
        graph.model(inputs, [*outputs, *extra, *probes], facts),
        feeds,
        expected,
        MEMORY_OUT if policy.memory_size else "",
    )


def _inputs(graph: Graph, policy: Policy) -> tuple[list[Port], dict[str, ObsValue]]:
    """Returns the inputs, with the environment's types, and the observation built from them."""
    ports: list[Port] = []
    obs: dict[str, ObsValue] = {}
    for leaf in policy.own_spec.leaves:
        if leaf.kind == "mask":
            continue
        ports.append(Port(leaf.path, leaf.dtype, (BATCH, *leaf.shape)))
        value = leaf.path
        if leaf.kind in CATEGORIES:
            if np.any(leaf.start):
                value = graph.op("Sub", value, graph.constant(leaf.start, np.int64))
            value = graph.reshape(graph.cast(value, np.float32), -1, len(leaf.sizes))
        elif leaf.dtype != np.float32:
            value = graph.cast(value, np.float32)
        obs[leaf.path] = ObsValue(value)
    return ports, obs


@dataclass(frozen=True)
class ActionPart:
    """A simple space in an action.

    Attributes:
        path: Path in the action; empty if it is the whole action.
        spec: Its layout.
        columns: Its elements of a stored action.
        choices: Index of its first discrete branch within the whole action; likewise `flags` and `numbers`.
        flags: See `choices`.
        numbers: See `choices`.
    """

    path: str
    spec: ActionSpec
    columns: slice
    choices: int
    flags: int
    numbers: int

    def output(self, name: str) -> str:
        """Returns the name of its output."""
        return f"{name}/{self.path}" if self.path else name

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one action, as the environment takes it."""
        return tuple(self.spec.space.shape or ())

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of its output: int64 or float32."""
        space = self.spec.space
        return FLOAT if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating) else WHOLE

    def as_output(self, stored: np.ndarray) -> np.ndarray:
        """Returns stored actions ``[N, elements]`` as the environment takes them, in the type of the output."""
        own = stored[:, self.columns].astype(self.spec.dtype).reshape(len(stored), *self.spec.shape)
        return self.spec.to_env(own).astype(self.dtype)


def parts_of(action: ActionSpec) -> Iterator[ActionPart]:
    """Yields the simple spaces of an action, in the order of its layout."""
    if not action.parts:
        yield ActionPart("", action, slice(None), 0, 0, 0)
        return
    choices = flags = numbers = 0
    for path, (part, columns) in zip(_paths(action.space, ""), action.parts, strict=True):
        yield ActionPart(path, part, columns, choices, flags, numbers)
        choices, flags, numbers = choices + len(part.sizes), flags + part.num_flags, numbers + part.num_numbers


def _paths(space: spaces.Space[Any], path: str) -> Iterator[str]:
    """Yields the paths of the simple spaces in a Dict or Tuple."""
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        yield path
        return
    for key, part in space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces):
        yield from _paths(part, f"{path}/{key}" if path else str(key))


def _action(graph: Graph, acts: GraphAction, part: ActionPart, name: str, *, drawn: bool) -> Port:
    """Returns the output for a part of an action, as the environment takes it."""
    space, count = part.spec.space, part.spec.num_numbers
    if count:
        assert acts.numbers is not None
        low, high, half, center, whole = number_bounds(part.spec)
        value = acts.numbers.drawn if drawn else acts.numbers.best
        value = within(graph, graph.slice(value, part.numbers, part.numbers + count), low, high)
        value = graph.add(graph.mul(value, graph.constant(half[None])), graph.constant(center[None]))
        if whole.all():
            value = graph.cast(graph.rounded(value), np.int64)
    else:
        own = acts.choices[part.choices :][: len(part.spec.sizes)] + acts.flags[part.flags :][: part.spec.num_flags]
        value = graph.concat([one.drawn if drawn else one.best for one in own])
        start = getattr(space, "start", 0)
        if np.any(start):
            value = graph.op("Add", value, graph.constant(np.reshape(start, (1, -1)), np.int64))
    value = graph.reshape(value, -1, *part.shape)
    return Port(graph.name(value, part.output(name)), part.dtype, (BATCH, *part.shape))
