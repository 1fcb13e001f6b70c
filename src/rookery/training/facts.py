"""Plain facts about a run, taken from its environment, policies and learners for those who report them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rookery.algorithms.algorithm import Algorithm
from rookery.envs.base import VectorEnv
from rookery.policies.policy import Policy
from rookery.report.console import PolicyFacts, RunFacts
from rookery.training.compute import describe_memory, describe_path, paths_of
from rookery.training.pace import describe_pace, describe_replay


def run_facts(
    env: VectorEnv,
    seed: int,
    policies: Mapping[str, Policy],
    learners: Mapping[str, Algorithm[Any]],
    notes: Sequence[str],
    criteria: Mapping[str, float],
) -> RunFacts:
    """Returns the facts that a reporter shows before the first iteration.

    Args:
        env: Environment that the run plays in.
        seed: Seed of the run.
        policies: All policies, by name.
        learners: Algorithms of the policies that learn, by name; the other policies are frozen.
        notes: Lines that a user should read once.
        criteria: Criteria that end the training, and their thresholds.
    """
    paths = paths_of(policies, learners)
    replays = {name: describe_replay(learner) for name, learner in learners.items()}
    paces = {}
    if any(replays.values()):
        paces = {name: ", ".join(filter(None, (describe_pace(learners[name]), replays[name]))) for name in learners}
    facts = {
        name: PolicyFacts(
            algorithm=type(learners[name]).__name__ if name in learners else "frozen",
            path=describe_path(paths[name], policy, learners.get(name)),
            weights=sum(parameter.numel() for parameter in policy.parameters()),
            action_space=str(policy.action_spec.space),
            memory_size=policy.memory_size,
            memory=describe_memory(policy) if policy.memory_size else "",
            pace=paces.get(name, ""),
        )
        for name, policy in policies.items()
    }
    num_agents = sum(len(kind.agents) for kind in env.kinds)
    return RunFacts(env.name, env.num_lanes, num_agents, seed, facts, notes, criteria)
