"""Plain facts about a run, taken from its environment, policies and learners for those who report them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rookery.report.console import PolicyFacts, RunFacts
from rookery.training.compute import describe_memory, describe_path, paths_of
from rookery.training.pace import describe_pace
from rookery.training.run import Run


def run_facts(run: Run, notes: Sequence[str], criteria: Mapping[str, float]) -> RunFacts:
    """Returns the facts that a reporter shows before the first iteration, with notes to read once and what ends it."""
    env, learners, paths = run.env, run.learners, paths_of(run.policies, run.learners)
    facts = {
        name: PolicyFacts(
            algorithm=type(learners[name]).__name__ if name in learners else "frozen",
            path=describe_path(paths[name], policy, learners.get(name)),
            weights=sum(parameter.numel() for parameter in policy.parameters()),
            action_space=str(policy.action_spec.space),
            memory_size=policy.memory_size,
            memory=describe_memory(policy) if policy.memory_size else "",
            pace=describe_pace(learners[name]) if run.replays and name in learners else "",
        )
        for name, policy in run.policies.items()
    }
    num_agents = sum(len(kind.agents) for kind in env.kinds)
    return RunFacts(env.name, env.num_lanes, num_agents, run.seed, facts, notes, criteria)
