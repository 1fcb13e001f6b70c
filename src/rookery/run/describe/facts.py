"""Facts about a run for reporters, taken from its environment, policies and learners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rookery.report.console import PolicyFacts, RunFacts
from rookery.run.compute import describe_memory, describe_path, paths_of
from rookery.run.pace import describe_pace
from rookery.run.run import Run


def run_facts(run: Run, notes: Sequence[str], criteria: Mapping[str, float]) -> RunFacts:
    """Returns the facts that a reporter shows before the first iteration, with notes and the stop criteria."""
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
    notes, lanes = [*filter(None, [run._ranks.description]), *notes], env.num_lanes * run._ranks.size
    made = max((one.gradient_steps for one in run.replays.values()), default=0)
    return RunFacts(env.name, lanes, num_agents, run.seed, facts, notes, criteria, made)


def finished_lines(run: Run) -> list[str]:
    """Returns a line for each policy that has reached its `max_decisions`, with the source of that setting."""
    lines = []
    for name in sorted(run._retired):
        path = f"policies.{name}.max_decisions"
        source, most = run.resolved.history[path][-1]
        learned = f"{name} has learned from {run._decisions.get(name, 0):,} decisions"
        lines.append(f"{learned}, and has a limit of {most:,} ({path}, given by {source})")
    return lines


def nothing_to_do(run: Run, reason: str) -> str:
    """Returns a note that a resumed run has reached its end already, with the reason and how to continue it.

    Args:
        run: The run.
        reason: The reached criterion, as text.
    """
    lines = finished_lines(run) if reason.startswith(("finished_policies", "finished_share")) else []
    if lines:
        return f"nothing to do: {'; '.join(lines)}; set a larger limit to continue"
    return f"nothing to do: {reason} already; set a higher criterion to continue"
