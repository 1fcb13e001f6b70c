"""A whole policy in a graph: normalizer, recall, trunk, memory and head, as in `Policy.act`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from rookery.models.build import CustomMemory, CustomTrunk
from rookery.models.teams import TeamTrunk
from rookery.onnx.graph import ExportError, Graph
from rookery.onnx.heads import HEADS, Allowed, GraphAction, add_head
from rookery.onnx.memories import advance, recall_inputs, updated_recall
from rookery.onnx.obs_value import ObsValue
from rookery.onnx.traced import traced_memory, traced_trunk
from rookery.onnx.trunks import normalized, trunk_features
from rookery.policies.policy import Policy


@dataclass(frozen=True)
class Decision:
    """Action and new memory of one decision, in a graph.

    Attributes:
        acts: The action.
        memory: New memory after the most probable action, ``[N, memory_size]``; empty for a policy without memory.
        memory_drawn: New memory after the sampled action.
    """

    acts: GraphAction
    memory: str
    memory_drawn: str


def check_exportable(policy: Policy) -> None:
    """Raises an ExportError for a policy that acts by custom code instead of a network; names its class."""
    kind = type(policy)
    for name in ("act", "forward", "features", "normalize", "_advance"):
        if getattr(kind, name) is not getattr(Policy, name) or name in vars(policy):
            raise ExportError(f"policy {policy.name!r} acts by code of {kind.__name__}, not by a network alone")


def check_head(policy: Policy) -> None:
    """Raises an ExportError for a policy whose head has no graph operators; names the head."""
    head = policy.head
    if type(head) in HEADS:
        return
    team = " (a team that acts as one)" if isinstance(policy.trunk, TeamTrunk) else ""
    raise ExportError(f"policy {policy.name!r} has the head {type(head).__name__}{team}, which cannot be exported")


def decide(
    graph: Graph, policy: Policy, obs: Mapping[str, ObsValue], allowed: Allowed, remembered: str, reward: str
) -> Decision:
    """Adds the operators of a policy.

    Args:
        graph: Receives the operators.
        policy: The policy.
        obs: Its observations by leaf path.
        allowed: Masks.
        remembered: Memory ``[N, memory_size]``; empty for a policy without memory.
        reward: ``[N, 1]`` last reward; empty for a policy that does not observe it.

    Raises:
        ExportError: If a part of it has no graph operators; names the part.
    """
    recall, memory = policy.recall, policy.memory
    kept, learned = 0 if recall is None else recall.size, ""
    if memory is not None:
        learned = graph.slice(remembered, kept, policy.memory_size)
    if recall is None:
        seen = normalized(graph, policy.normalizer, obs)
    else:
        recalled = recall_inputs(graph, recall, obs, graph.slice(remembered, 0, kept), reward, policy.normalizer)
        seen = recalled.obs
    features, after = _features(graph, policy, seen, allowed.choices, learned)
    acted = add_head(graph, policy.head, features, allowed)
    parts = [[after] if after else [] for _ in range(2)]
    if recall is not None:
        for drawn, part in zip((False, True), parts, strict=True):
            part.insert(0, updated_recall(graph, recall, recalled, acted.stored(graph, drawn=drawn)))
    both = [graph.concat(part) if part else "" for part in parts]
    return Decision(acted, *both)


def _features(graph: Graph, policy: Policy, seen: Mapping[str, ObsValue], mask: str, learned: str) -> tuple[str, str]:
    """Returns features ``[N, F]`` and the new memory; empty without one."""
    trunk, memory = policy.trunk, policy.memory
    if isinstance(memory, CustomMemory):
        own = memory.model
        assert isinstance(own, CustomTrunk)
        given = traced_trunk(graph, own, policy.input_spec, seen, mask, (memory, learned))
        return given[0], given[1]
    _check_hooks(trunk)
    features = trunk_features(graph, trunk, seen)
    if features is None:
        (features,) = traced_trunk(graph, trunk, policy.input_spec, seen, mask, None)
    if memory is None:
        return features, ""
    pair = advance(graph, memory, features, learned)
    if pair is not None:
        return pair
    given = traced_memory(graph, memory, int(trunk.num_features), features, learned)  # type: ignore[arg-type]
    return given[0], given[1]


def _check_hooks(trunk: nn.Module) -> None:
    """Raises an ExportError if the trunk has forward hooks."""
    for module in trunk.modules():
        if module._forward_hooks or module._forward_pre_hooks:
            raise ExportError(f"{type(module).__name__} has a forward hook, which cannot be exported")
