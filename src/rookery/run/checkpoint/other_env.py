"""Resuming in other environments: another build, other arguments, another number of environments or agents.

Learning continues with all of its state; playing begins anew, as after the construction of a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rookery.core.errors import ConfigError
from rookery.rollout.pool import LocalPool
from rookery.run.run import Run

COUNTERS = ("env_steps", "vector_steps", "standstills", "finals_stale", "rewards_unclaimed", "actions_not_learned",
            "version")  # fmt: skip
"""What a worker counts over the whole life of a run."""

PLAYED = ("env.name", "env.config.", "sampling.num_envs", "policy_mapping")
"""Settings of the environments, by the beginnings of their paths."""


def is_of_env(path: str) -> bool:
    """Returns whether a setting may change when a run resumes in other environments."""
    return f"{path}.".startswith(PLAYED)


def state_for_other_env(run: Run, state: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the state of a run with a pool that has not played, and the counters of the former one.

    Args:
        run: The new run, in the other environments.
        state: The state of a checkpoint.

    Raises:
        ConfigError: If the run has opponents, other processes that play, or behaviours that are not there yet.
    """
    if run.config.self_play or not isinstance(run._pool, LocalPool):
        what = "self-play" if run.config.self_play else "workers in other processes"
        raise ConfigError(f"a run with {what} resumes in the same environments only, with as many of them")
    missing = [name for name in state["policies"] if name not in run.policies]
    if missing:
        raise ConfigError(
            f"policy {missing[0]!r} of the run has no agent in these environments yet, which have "
            f"{', '.join(run.policies)}: resume in the same ones, or let one of its agents be there from the start"
        )
    fresh, old = run._pool.state_dict(), state["pool"]["worker"]
    counted = {name: old[name] for name in COUNTERS if name in old}
    worker = {**fresh["worker"], **counted, "listeners": old["listeners"]}
    return {**state, "pool": {**fresh, "worker": worker}, "progress": None, "apart": {}}


def load_state(run: Run, state: dict[str, Any], other_env: bool) -> None:
    """Restores the state of a checkpoint; in other environments playing begins anew, and the run is no longer exact.

    Raises:
        ConfigError: As `state_for_other_env`.
    """
    if not other_env:
        run.load_state_dict(state)
        return
    run.load_state_dict(state_for_other_env(run, state))
    run._pool.set_weights({name: learner.behaviour for name, learner in run.learners.items()})
    if run.config.curriculum:
        run._pool.change_lessons(run._curriculum.lessons, False)
    run.env.exact = False
