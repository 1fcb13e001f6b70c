"""Compute paths and threads of a run: kernels, or torch with threads; chosen by rule, so that runs are repeatable."""

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
    """Returns the number of threads for the gradient steps of a learner with a number of environments."""
    policy, demand = learner.policy, learner.demand
    if sees_images(policy):
        return shared_cores()
    rows = learner.rows_per_step or demand.decisions or demand.fragment_length * num_lanes
    weights = sum(weight.numel() for weight in policy.parameters())
    critic = 1 if learner.cfg.model.shared_trunk or policy.memory is not None else 2
    if not learner.on_kernels and policy.memory is not None:  # torch computes one time step after the other
        rows //= policy.model.memory.sequence_length
    flops = 6.0 * rows * weights * critic  # forward, and twice that backward, with two operations per product
    if learner.on_kernels:
        return kernel_thread_rule(flops)
    return min(thread_rule(flops, TORCH_WORTH_THREADS), shared_cores())


def acting_threads(learners: Mapping[str, Algorithm[Any]], threads: Mapping[str, int]) -> int:
    """Returns the number of threads for inference: one, or that of learning for image policies."""
    return max((threads[name] for name, learner in learners.items() if sees_images(learner.policy)), default=1)


def paths_of(policies: Mapping[str, Policy], learners: Mapping[str, Algorithm[Any]]) -> dict[str, str]:
    """Returns the compute path of each policy, by name: ``kernels x86-64-v4`` for example, or ``torch``."""
    return {
        name: path_name(learners[name].on_kernels if name in learners else native_actor(policy) is not None)
        for name, policy in policies.items()
    }


def describe_path(path: str, policy: Policy, learner: Algorithm[Any] | None = None) -> str:
    """Returns a compute path as text, with the reason if kernels do not compute it."""
    why = ""
    if path == "torch":
        why = obstacle(policy.model, [policy.trunk], [policy.head], policy.memory) or (
            learner.obstacle if learner else ""
        )
    return f"{path}: {why}" if why else path


def describe_memory(policy: Policy) -> str:
    """Returns the memory of a policy in a few words."""
    cfg, parts = policy.model.memory, []
    if policy.memory is not None:
        parts.append(policy.memory.word if cfg.kind == "none" else f"{cfg.kind} {cfg.size}")
    parts += [f"{cfg.frame_stack} frames"] * (cfg.frame_stack > 1)
    parts += ["previous action"] * cfg.previous_action + ["previous reward"] * cfg.previous_reward
    return ", ".join(parts)


def changed_paths(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Returns a line for each policy whose compute path has changed."""
    return [
        f"policy {name}: {before[name]} until here, {path} from here on; last bits will differ from an uninterrupted "
        "run"
        for name, path in now.items()
        if before.get(name, path) != path
    ]


def sees_images(policy: Policy) -> bool:
    """Returns whether a policy's trunk has an image large enough for the Nature network; images of grid worlds are as
    cheap as vectors.
    """
    layouts = [image_layout(leaf) for leaf in policy.input_spec.leaves]
    return any(min(layout[1:3]) >= SMALLEST_NATURE for layout in layouts if layout is not None)
