"""Resuming in other environments: another build, other arguments, another number of environments or agents.

Learning continues with all of its state; playing begins anew, as after the construction of a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rookery.core.errors import ConfigError
from rookery.envs.placeholder_env import PlaceholderEnv
from rookery.rollout.pool import LocalPool
from rookery.run.checkpoint.checkpoint import Saved
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
        ConfigError: If the run has opponents, or other processes that play.
    """
    if run.config.self_play or not isinstance(run._pool, LocalPool):
        what = "self-play" if run.config.self_play else "workers in other processes"
        raise ConfigError(f"a run with {what} resumes in the same environments only, with as many of them")
    fresh, old = run._pool.state_dict(), state["pool"]["worker"]
    counted = {name: old[name] for name in COUNTERS if name in old}
    worker = {**fresh["worker"], **counted, "listeners": old["listeners"]}
    return {**state, "pool": {**fresh, "worker": worker}, "progress": None, "apart": {}}


def load_state(run: Run, saved: Saved, other_env: bool) -> None:
    """Restores the state of a checkpoint; in other environments playing begins anew, and the run is no longer exact.
    Policies whose agents have not appeared there yet are made for the agents that they had.

    Raises:
        ConfigError: As `state_for_other_env`.
    """
    state = saved.state
    if not other_env:
        run.load_state_dict(state)
        return
    if missing := [name for name in state["policies"] if name not in run.policies]:
        kinds, played = PlaceholderEnv(saved.facts["env"]).kinds, state["pool"]["worker"]["policies"]
        run._introduce({name: kinds[played[name]["kind"]] for name in missing})
    run.load_state_dict(state_for_other_env(run, state))
    run._pool.set_weights({name: learner.behaviour for name, learner in run.learners.items()})
    if run.config.curriculum:
        run._pool.change_lessons(run._curriculum.lessons, False)
    run.env.exact = False
