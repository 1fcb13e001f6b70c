"""Policies as ONNX files for Unity: inputs and outputs as the package com.unity.ml-agents reads them.

Version 3 is read by packages from 2.0 on (Barracuda and Sentis), version 2 by those of 1.x and by later ones.
Observations are called ``obs_0``, ``obs_1``, ... in the order of the policy's leaves; images have their channels
first and numbers from 0 to 1; categories are one-hots; of a set, entities whose numbers are all 0 are absent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rookery.face import (
    BATCH,
    CATEGORIES,
    MASK,
    Allowed,
    ConfigError,
    Decision,
    Exported,
    Exporter,
    ExportError,
    Graph,
    Leaf,
    ObsSpec,
    ObsValue,
    Policy,
    Port,
    Tree,
    Written,
    check_opset,
    decide,
    image_layout,
    metadata_of,
    number_bounds,
    own_modes,
    probes_of,
    within,
    write,
)
from rookery_mlagents.onnx_unity_rules import UNITY_RULES

OPSET = 9
"""Default ONNX operator set of files for Unity: every version of the package reads it."""

MASKS, MEMORY_IN, MEMORY_OUT = "action_masks", "recurrent_in", "recurrent_out"
VECTOR, PICTURE, PLANE = "vector_observation", "visual_observation_", "obs_"
FLOAT, WHOLE = np.dtype(np.float32), np.dtype(np.int64)


@own_modes()
def write_unity(
    policy: Policy,
    path: str | Path,
    *,
    opset: int = OPSET,
    version: int = 3,
    observations: Tree | None = None,
) -> Written:
    """Writes a policy as an ONNX file for Unity, compares it with the policy, and checks it like Unity's importer.

    Args:
        policy: The policy.
        path: The file, which is replaced only by one that passes.
        opset: Version of ONNX operators, 9 to 15.
        version: Of ML-Agents' models, 2 or 3.
        observations: What to compare on, ``[N, ...]`` by leaf path; None = random ones.

    Raises:
        ConfigError: If the extra is not installed, or there is no such opset or version.
        ExportError: If a part of the policy cannot be exported, or the file does not act as the policy does.
        FileError: If the file cannot be written.
    """
    check_opset(opset)
    if version not in (2, 3):
        raise ConfigError(f"version {version}: models of ML-Agents have version 2 or 3")
    return write(policy, Path(path), lambda own: unity_model(own, opset, version), opset, observations, [UNITY_RULES])


UNITY = Exporter(write_unity, ".onnx", ("opset", "version"), UNITY_RULES)


def unity_model(policy: Policy, opset: int, version: int) -> Exported:
    """Builds the model; arguments and errors as of `write_unity`."""
    _check(policy, version)
    graph, action = Graph(opset), policy.action_spec
    senses = senses_of(policy.own_spec)
    inputs, obs = _inputs(graph, senses, version)
    widths = [*action.sizes, *[2] * action.num_flags]
    allowed = Allowed()
    if widths:
        inputs.append(Port(MASKS, FLOAT, (BATCH, sum(widths))))
        parts = graph.split(graph.above(MASKS, 0.5), widths)
        choices = parts[: len(action.sizes)]
        allowed = Allowed(graph.concat(choices) if choices else "", tuple(parts[len(action.sizes) :]))
    remembered = ""
    if policy.memory_size:
        inputs.append(Port(MEMORY_IN, FLOAT, (BATCH, 1, policy.memory_size)))
        remembered = graph.reshape(MEMORY_IN, -1, policy.memory_size)
    decision = decide(graph, policy, obs, allowed, remembered, "")
    outputs = _facts(graph, version, policy.memory_size)
    outputs += _legacy_outputs(graph, policy, decision) if version == 2 else _outputs(graph, policy, decision)
    probes = probes_of(graph, action, decision.acts)
    metadata = {**metadata_of(policy), **{sense.name(version): sense.leaf.path for sense in senses}}
    low, high, *_ = number_bounds(action) if action.num_numbers else (np.zeros(0), np.zeros(0))
    count = len(widths)

    def feeds(tree: Tree, memory: np.ndarray, earned: np.ndarray) -> dict[str, np.ndarray]:
        mask = tree[MASK].astype(np.float32) if MASK in tree else np.ones((len(memory), sum(action.sizes)), FLOAT)
        mask = np.concatenate((mask, np.ones((len(memory), 2 * action.num_flags), FLOAT)), 1)
        return {**fed(senses, tree, version), MASKS: mask, MEMORY_IN: memory[:, None]}

    def expected(stored: np.ndarray) -> dict[str, np.ndarray]:
        numbers, whole = np.clip(stored[:, count:], low, high), stored[:, :count].astype(np.int64)
        if version == 2:
            return {} if count else {"deterministic_action": numbers}
        found = {"deterministic_continuous_actions": numbers} if action.num_numbers else {}
        return {**found, **({"deterministic_discrete_actions": whole} if count else {})}

    extra = [] if version == 3 or count else [_deterministic(graph, policy, decision)]
    return Exported(
        graph.model(inputs, outputs, metadata),
        graph.model(inputs, [*outputs, *probes, *extra], metadata),
        feeds,
        expected,
        MEMORY_OUT if policy.memory_size else "",
    )


def _check(policy: Policy, version: int) -> None:
    """Raises an error for policies that Unity's format does not support."""
    who, action, memory = f"policy {policy.name!r}", policy.action_spec, policy.model.memory
    if policy.reward_column is not None:
        raise ExportError(
            f"{who}: Unity passes no rewards to a model, and this one observes its last reward (memory.previous_reward)"
        )
    if memory.previous_action:
        raise ExportError(
            f"{who}: memory.previous_action: a file for Unity both draws actions and takes the most probable ones, and "
            "what it remembers could be right for one of them only; --onnx writes a file that has both"
        )
    if version == 2 and policy.memory_size:
        what = policy.model.memory.kind if policy.memory is not None else f"memory.frame_stack={memory.frame_stack}"
        raise ExportError(f"{who} remembers ({what}), and Unity refuses models of version 2 that do: use version 3")
    if version == 2 and action.num_numbers and action.sizes + (2,) * action.num_flags:
        raise ExportError(f"{who} acts by numbers and choices, and models of version 2 do one of them: use version 3")


# --- inputs -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sense:
    """Observation of one of Unity's sensors, for a leaf of the observation.

    Attributes:
        leaf: The leaf.
        index: Number of the sensor.
        picture: Number among the sensors that give images.
        shape: Shape of its values: categories as one-hots, images with their channels first.
        channels_last: Whether the leaf is an image with its channels last.
    """

    leaf: Leaf
    index: int
    picture: int
    shape: tuple[int, ...]
    channels_last: bool

    def name(self, version: int) -> str:
        """Returns the name of the model input that contains this observation."""
        if version == 2 and len(self.shape) != 2:
            return VECTOR if len(self.shape) == 1 else f"{PICTURE}{self.picture}"
        return f"{PLANE}{self.index}"

    def feed(self, stored: np.ndarray) -> np.ndarray:
        """Converts stored observations ``[N, ...]`` to the values sent by the sensor."""
        leaf, num = self.leaf, len(stored)
        if leaf.kind in CATEGORIES:
            columns = stored.reshape(num, -1).T
            ones = [np.eye(size, dtype=np.float32)[column] for size, column in zip(leaf.sizes, columns, strict=True)]
            return np.concatenate(ones, 1)
        given = stored[..., 1:] if leaf.kind == "entities" else stored
        given = given.astype(np.float32) / np.float32(leaf.scale)
        return (np.moveaxis(given, -1, 1) if self.channels_last else given).reshape(num, *self.shape)

    def seen(self, graph: Graph, value: str) -> ObsValue:
        """Adds the operators that convert the sensor's value to the stored leaf."""
        leaf = self.leaf
        if leaf.kind in CATEGORIES:
            return ObsValue("", one_hot=value)
        if leaf.kind == "entities":
            largest = graph.op("ReduceMax", graph.op("Abs", value), axes=[2], keepdims=1)
            there = graph.cast(graph.above(largest, 0.0), np.float32)
            return ObsValue(graph.concat([there, value], 2))
        return ObsValue(graph.transpose(value, 0, 2, 3, 1) if self.channels_last else value, leaf.scale)


def senses_of(spec: ObsSpec) -> list[Sense]:
    """Returns the sensors of a policy's observations, in their order.

    Leaves that are called ``obs_0``, ``obs_1``, ... keep their numbers; all others are counted as they come, which in a
    Dict space is by name, as Unity sorts its sensors.

    Raises:
        ExportError: If a leaf has more axes than a sensor can have.
    """
    leaves = [leaf for leaf in spec.leaves if leaf.kind != "mask"]
    numbers = [re.fullmatch(r"obs_(\d+)", leaf.path) for leaf in leaves]
    numbered = sorted(int(found[1]) for found in numbers if found)
    if numbered == list(range(len(leaves))):
        leaves.sort(key=lambda leaf: int(leaf.path.removeprefix("obs_")))
    senses: list[Sense] = []
    num_images = 0
    for index, leaf in enumerate(leaves):
        layout = image_layout(leaf)
        shape = leaf.shape or (1,)
        if leaf.kind in CATEGORIES:
            shape = (sum(leaf.sizes),)
        elif leaf.kind == "entities":
            shape = (leaf.shape[0], leaf.shape[1] - 1)
        elif layout is not None:
            shape = layout[:3]
        if len(shape) > 3:
            raise ExportError(f"{leaf.path!r} has {len(shape)} axes, and Unity's sensors have three at most")
        senses.append(Sense(leaf, index, num_images, shape, layout is not None and layout[3]))
        num_images += len(shape) == 3
    return senses


def _inputs(graph: Graph, senses: list[Sense], version: int) -> tuple[list[Port], dict[str, ObsValue]]:
    """Adds the inputs, and the observation built from them."""
    ports: dict[str, Port] = {}
    obs: dict[str, ObsValue] = {}
    vectors = [sense for sense in senses if sense.name(version) == VECTOR]
    width, start = sum(sense.shape[0] for sense in vectors), 0
    for sense in senses:
        name = value = sense.name(version)
        if name == VECTOR:
            ports[name] = Port(name, FLOAT, (BATCH, width))
            value = name if len(vectors) == 1 else graph.slice(name, start, start + sense.shape[0])
            start += sense.shape[0]
        else:
            ports[name] = Port(name, FLOAT, (BATCH, *sense.shape))
        obs[sense.leaf.path] = sense.seen(graph, value)
    return list(ports.values()), obs


def fed(senses: list[Sense], tree: Tree, version: int) -> dict[str, np.ndarray]:
    """Converts stored observations ``[N, ...]`` by leaf path to the values sent by Unity's sensors, by input name."""
    found: dict[str, np.ndarray] = {}
    for sense in senses:
        name, value = sense.name(version), sense.feed(tree[sense.leaf.path])
        found[name] = np.concatenate((found[name], value), 1) if name in found else value
    return found


# --- outputs ----------------------------------------------------------------------------------------------------------


def _fact(graph: Graph, name: str, value: object, dtype: type = np.float32) -> Port:
    """Adds a constant that is also an output: old packages read constants, later ones outputs."""
    array: np.ndarray = np.asarray(value, dtype)
    graph.named_constant(f"{name}.value", array)
    return Port(graph.name(f"{name}.value", name), array.dtype, array.shape)


def _facts(graph: Graph, version: int, memory_size: int) -> list[Port]:
    return [_fact(graph, "version_number", [version]), _fact(graph, "memory_size", [memory_size])]


def _outputs(graph: Graph, policy: Policy, decision: Decision) -> list[Port]:
    """Adds actions and memory in the format of version 3."""
    ports, acts, action = [], decision.acts, policy.action_spec
    if acts.numbers is not None:
        low, high, *_ = number_bounds(action)
        count = action.num_numbers
        drawn, best = (within(graph, value, low, high) for value in (acts.numbers.drawn, acts.numbers.best))
        ports.append(Port(graph.name(drawn, "continuous_actions"), FLOAT, (BATCH, count)))
        ports.append(_fact(graph, "continuous_action_output_shape", [count]))
        ports.append(Port(graph.name(best, "deterministic_continuous_actions"), FLOAT, (BATCH, count)))
    branches = [*acts.choices, *acts.flags]
    if branches:
        sizes = [*action.sizes, *[2] * action.num_flags]
        drawn = graph.concat([branch.drawn for branch in branches])
        best = graph.concat([branch.best for branch in branches])
        ports.append(Port(graph.name(drawn, "discrete_actions"), WHOLE, (BATCH, len(sizes))))
        ports.append(_fact(graph, "discrete_action_output_shape", [sizes]))
        ports.append(Port(graph.name(best, "deterministic_discrete_actions"), WHOLE, (BATCH, len(sizes))))
    if decision.memory:
        whole = graph.reshape(decision.memory, -1, 1, policy.memory_size)
        ports.append(Port(graph.name(whole, MEMORY_OUT), FLOAT, (BATCH, 1, policy.memory_size)))
    return ports


def _legacy_outputs(graph: Graph, policy: Policy, decision: Decision) -> list[Port]:
    """Adds actions in the format of version 2: continuous actions, or log-probabilities from which Unity draws discrete
    actions.
    """
    action, parameters = policy.action_spec, decision.acts.parameters
    if decision.acts.numbers is not None:
        low, high, *_ = number_bounds(action)
        value, width = within(graph, decision.acts.numbers.drawn, low, high), action.num_numbers
    elif "log_probs" in parameters and not action.num_flags:
        value, width = parameters["log_probs"], sum(action.sizes)
    else:
        raise ExportError(
            f"policy {policy.name!r}: in models of version 2 Unity draws choices by their probabilities, and it has "
            "none (values of actions, or flags): use version 3"
        )
    return [
        Port(graph.name(value, "action"), FLOAT, (BATCH, width)),
        _fact(graph, "action_output_shape", [width], np.int32),
        _fact(graph, "is_continuous_control", [int(decision.acts.numbers is not None)], np.int32),
    ]


def _deterministic(graph: Graph, policy: Policy, decision: Decision) -> Port:
    """Returns the most probable continuous actions for comparison, if a file has no such output."""
    assert decision.acts.numbers is not None
    low, high, *_ = number_bounds(policy.action_spec)
    best = within(graph, decision.acts.numbers.best, low, high)
    return Port(graph.name(best, "deterministic_action"), FLOAT, (BATCH, policy.action_spec.num_numbers))
