"""Length of an iteration, and the learning pace of each policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rookery.algorithms.algorithm import Algorithm, Row
from rookery.algorithms.capabilities import algorithms_with, one_of
from rookery.core.errors import ConfigError, nearest
from rookery.replay.budget import gigabytes
from rookery.replay.replay import Replay
from rookery.run.parts import RunPart
from rookery.run.run import Progress, Run

ITERATION = 1000
"""Env steps of an iteration without a set length; gradient steps of one without sampling."""

CHUNK = 10
"""Gradient steps, or their env steps, between two checks for a stop."""

CAP = 10
"""Largest length of an iteration without a fixed length, as a multiple of the largest demand, in env steps."""


def remaining(run: Run, progress: Progress) -> int:
    """Returns the env steps that an iteration may still take. Steps in which environments rest, or that are skipped
    while sampling is paused, count too, so that every iteration ends.
    """
    passed = run._lane_steps - progress.lane_steps + progress.unplayed
    if run.config.sampling.iteration_steps is not None:
        return run.config.sampling.iteration_steps - passed
    if not run.learners:
        return (ITERATION if run.policies or not passed else 0) - passed
    if run._paused:
        return ITERATION - passed
    on_policy = {
        name: one
        for name, one in run.learners.items()
        if not (one.replay or one.cfg.capabilities.learns_single_decisions)
        and (all(learns(name) for learns in run._parts.is_learning) or name in progress.learned)
    }
    if not on_policy:
        left = int(run._criteria.get("env_steps", 0)) - progress.env_steps  # a run ends at its criterion
        return (min(ITERATION, left) if left > 0 else ITERATION) - passed
    if all(name in progress.learned for name in on_policy):
        return 0
    demands = [learner.demand for learner in on_policy.values()]
    return CAP * max(d.decisions or d.fragment_length * run.env.num_lanes * run._ranks.size for d in demands) - passed


def ahead(run: Run, progress: Progress) -> int:
    """Returns the steps that may be sampled ahead: the rest of this iteration, or else those of the next."""
    rest = remaining(run, progress)
    return rest if rest > 0 else remaining(run, run._begin_iteration())


def measured_pace(run: Run, replay: Replay, progress: Progress) -> Row:
    """Returns the gradient steps on a replay per env step of an iteration."""
    made = replay.gradient_steps - progress.gradient_steps.get(replay.name, 0)
    played = run.env_steps - progress.env_steps
    return {"updates_per_env_step": made / played if played else None}


def with_replay(run: Run, task: str, policies: Sequence[str] | None) -> list[str]:
    """Returns the names of policies (None = all) whose algorithms learn from replay, for a task.

    Raises:
        ConfigError: If there is none, or a named policy has no replay.
    """
    known = list(run.replays)
    if not known:
        there = ", ".join(f"{name} by {type(one).__name__}" for name, one in run.learners.items()) or "none"
        playing = one_of(algorithms_with(uses_replay=True, offline=False, needs_team=False))
        raise ConfigError(
            f"{task}: no policy of this run learns from replay (learning: {there}); choose an algorithm that does: "
            f"{playing}; or one that learns from data: {one_of(algorithms_with(offline=True))}"
            f"{'; trainer.train(stop={...}) plays and learns' if task == 'learn' else ''}"
        )
    if policies is None:
        return known
    names = [policies] if isinstance(policies, str) else list(policies)
    for name in names:
        if name not in known:
            why = "does not learn from replay" if name in run.policies else "does not exist"
            raise ConfigError(f"{task}: policy {name!r} {why}; there are {', '.join(known)}{nearest(name, known)}")
    return names


def steps_left(run: Run) -> int | None:
    """Returns the gradient steps that are left of a training on data only; None if a policy learns online: from the
    start, or because all policies have made their steps, can be fine-tuned online, and there is an environment.
    """
    learners: list[Any] = list(run.learners.values())
    known = [learner.cfg.capabilities for learner in learners]
    if not learners or not all(one.offline for one in known):
        return None
    plays_later = run.config.env.name is not None and all(one.supports_online_finetune for one in known)
    if plays_later and (run.env_steps or all(learner.replay.is_empty for learner in learners)):
        return None
    left: int = max(learner.planned_steps - learner.replay.gradient_steps for learner in learners)
    return None if plays_later and left < 1 else left


class MaxDecisionsPart(RunPart):
    """Ends the learning of policies that have reached their `max_decisions`."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def after_update(self, name: str) -> None:
        """Ends the learning of a policy that has reached its `max_decisions`; it continues to act."""
        self._run._retire(name)

    def is_learning(self, name: str) -> bool:
        """Returns whether a policy has not reached its `max_decisions`."""
        return name not in self._run._retired


def check_can_pause(run: Run) -> None:
    """Refuses to pause sampling if nothing could be learned.

    Raises:
        ConfigError: If no policy learns from replay, or none has enough experience to begin learning.
    """
    replays = [run.replays[name] for name in with_replay(run, "pause_sampling", None)]
    if all(replay.is_warming_up for replay in replays):
        held = ", ".join(f"{one.name} {one.buffer.total:,} of {one.cfg.learning_starts:,}" for one in replays)
        raise ConfigError(
            f"pause_sampling: no replay holds enough for learning to begin (decisions: {held}, learning_starts); "
            "sample first (trainer.collect)"
        )


def describe_pace(learner: Algorithm[Any]) -> str:
    """Returns the ratio of learning and sampling, and the size of the replay, in a few words."""
    if learner.replay is None:
        decisions = learner.demand.decisions
        if decisions is None:
            return f"an update for every {learner.demand.fragment_length:,} decisions of an agent"
        return f"an update for {decisions:,} decisions"
    known = learner.cfg.capabilities
    if known.offline and not known.supports_online_finetune:
        return f"data of {len(learner.replay.buffer):,} decisions, not online"
    ratio = learner.replay.cfg.updates_per_step
    if 0 < ratio < 1 and (1 / ratio).is_integer():
        pace = f"one gradient step for {1 / ratio:,.0f} decisions"
    else:
        pace = f"{ratio:g} gradient step{'' if ratio == 1 else 's'} a decision"
    own, data = learner.replay.own, "data, and online after that: " * known.offline
    return (
        f"{data}{pace} from decision {learner.replay.cfg.learning_starts:,} on, replay {own.capacity:,} decisions "
        f"({gigabytes(own.full_bytes)})"
    )
