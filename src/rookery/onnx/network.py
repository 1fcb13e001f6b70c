"""A whole policy in a graph: normalizer, what it recalls, trunk, memory and head, as `Policy.act` has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from rookery.models.build import CustomMemory, CustomTrunk
from rookery.models.teams import TeamTrunk
from rookery.onnx.graph import ExportError, Graph
from rookery.onnx.heads import HEADS, Acts, Allowed, acts
from rookery.onnx.memories import advance, look, remember
from rookery.onnx.seen import Seen
from rookery.onnx.traced import traced_memory, traced_trunk
from rookery.onnx.trunks import normalized, trunk_features
from rookery.policies.policy import Policy


@dataclass(frozen=True)
class Decision:
    """What a policy does in one decision, in a graph.

    Attributes:
        acts: The action.
        memory: What is remembered after the most probable action, ``[N, memory_size]``; empty for a policy that
            remembers nothing.
        memory_drawn: The same after the one that was drawn.
    """

    acts: Acts
    memory: str
    memory_drawn: str


def check_exportable(policy: Policy) -> None:
    """Raises an ExportError for a policy that acts by code of its own and not by a network; names its class."""
    kind = type(policy)
    for name in ("act", "forward", "features", "normalize", "_advance"):
        if getattr(kind, name) is not getattr(Policy, name) or name in vars(policy):
            raise ExportError(f"policy {policy.name!r} acts by code of {kind.__name__}, not by a network alone")


def check_head(policy: Policy) -> None:
    """Raises an ExportError for a policy that ends in a head which there is no graph of; names the head."""
    head = policy.head
    if type(head) in HEADS:
        return
    team = " (a team that acts as one)" if isinstance(policy.trunk, TeamTrunk) else ""
    raise ExportError(f"policy {policy.name!r} ends in {type(head).__name__}{team}, and there is no graph of that head")


def decide(
    graph: Graph, policy: Policy, obs: Mapping[str, Seen], allowed: Allowed, remembered: str, reward: str
) -> Decision:
    """Adds a policy.

    Args:
        graph: Takes the operators.
        policy: The policy.
        obs: Its own observations by leaf path.
        allowed: Masks.
        remembered: ``[N, memory_size]``; empty for a policy that remembers nothing.
        reward: ``[N, 1]`` what the last action earned; empty for a policy that does not see it.

    Raises:
        ExportError: If a part of it has no graph; names the part.
    """
    recall, memory = policy.recall, policy.memory
    kept, learned = 0 if recall is None else recall.size, ""
    if memory is not None:
        learned = graph.slice(remembered, kept, policy.memory_size)
    if recall is None:
        seen = normalized(graph, policy.normalizer, obs)
    else:
        looked = look(graph, recall, obs, graph.slice(remembered, 0, kept), reward, policy.normalizer)
        seen = looked.obs
    features, after = _features(graph, policy, seen, allowed.choices, learned)
    acted = acts(graph, policy.head, features, allowed)
    parts = [[after] if after else [] for _ in range(2)]
    if recall is not None:
        for drawn, part in zip((False, True), parts, strict=True):
            part.insert(0, remember(graph, recall, looked, acted.stored(graph, drawn=drawn)))
    both = [graph.concat(part) if part else "" for part in parts]
    return Decision(acted, *both)


def _features(graph: Graph, policy: Policy, seen: Mapping[str, Seen], mask: str, learned: str) -> tuple[str, str]:
    """Features ``[N, F]``, and what is remembered of the memory; empty without one."""
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
    """Raises an ExportError if somebody changes what the trunk computes by a hook."""
    for module in trunk.modules():
        if module._forward_hooks or module._forward_pre_hooks:
            raise ExportError(f"{type(module).__name__} has a forward hook, which no graph knows")
