"""What computes while a run learns and acts: kernels, or torch on so many threads; by rule, so that a run repeats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rookery.algorithms.algorithm import Algorithm
from rookery.core.native import path_name
from rookery.core.process.runtime import (
    TORCH_WORTH_THREADS,
    kernel_thread_rule,
    shared_cores,
    thread_rule,
)
from rookery.models.image_encoders import SMALLEST_NATURE, image_layout
from rookery.native.actor import native_actor
from rookery.native.qualify import obstacle
from rookery.policies.policy import Policy


def learning_threads(learner: Algorithm[Any], num_lanes: int) -> int:
    """Returns the threads that the gradient steps of a learner are worth, where so many copies are played."""
    policy, demand = learner.policy, learner.demand
    if sees_pictures(policy):
        return shared_cores()
    rows = learner.rows_per_step or demand.decisions or demand.fragment_length * num_lanes
    weights = sum(weight.numel() for weight in policy.parameters())
    critic = 1 if learner.cfg.model.shared_trunk or policy.memory is not None else 2
    if not learner.on_kernels and policy.memory is not None:  # torch takes one time step after the other
        rows //= policy.model.memory.sequence_length
    flops = 6.0 * rows * weights * critic  # forward and twice that backward, two operations a product
    if learner.on_kernels:
        return kernel_thread_rule(flops)
    return min(thread_rule(flops, TORCH_WORTH_THREADS), shared_cores())


def acting_threads(learners: Mapping[str, Algorithm[Any]], threads: Mapping[str, int]) -> int:
    """Threads to act with: one, or what learning has where a few rows of pictures are work for all of them."""
    return max((threads[name] for name, learner in learners.items() if sees_pictures(learner.policy)), default=1)


def paths_of(policies: Mapping[str, Policy], learners: Mapping[str, Algorithm[Any]]) -> dict[str, str]:
    """What computes each policy, by name: ``kernels x86-64-v4`` for one, or ``torch``."""
    return {
        name: path_name(learners[name].on_kernels if name in learners else native_actor(policy) is not None)
        for name, policy in policies.items()
    }


def describe_path(path: str, policy: Policy, learner: Algorithm[Any] | None = None) -> str:
    """Describes a path, with the reason why it is not that of kernels."""
    why = ""
    if path == "torch":
        why = obstacle(policy.model, [policy.trunk], [policy.head], policy.memory) or (
            learner.obstacle if learner else ""
        )
    return f"{path}: {why}" if why else path


def describe_memory(policy: Policy) -> str:
    """What a policy remembers, in a few words."""
    cfg, parts = policy.model.memory, []
    if policy.memory is not None:
        parts.append(policy.memory.word if cfg.kind == "none" else f"{cfg.kind} {cfg.size}")
    parts += [f"{cfg.frame_stack} frames"] * (cfg.frame_stack > 1)
    parts += ["previous action"] * cfg.previous_action + ["previous reward"] * cfg.previous_reward
    return ", ".join(parts)


def changed_paths(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """A line for each policy that is computed otherwise than before."""
    return [
        f"policy {name}: {before[name]} until here, {path} from here on; last bits will differ from a run that was not "
        "stopped"
        for name, path in now.items()
        if before.get(name, path) != path
    ]


def sees_pictures(policy: Policy) -> bool:
    """Whether there is a picture large enough for the Nature network among what a policy's trunk sees; those of grid
    worlds are as little work as numbers.
    """
    layouts = [image_layout(leaf) for leaf in policy.input_spec.leaves]
    return any(min(layout[1:3]) >= SMALLEST_NATURE for layout in layouts if layout is not None)
