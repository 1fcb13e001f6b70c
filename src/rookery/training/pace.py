"""How long an iteration is, and at what pace each policy learns in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rookery.algorithms.algorithm import Algorithm, Row
from rookery.replay.budget import gigabytes
from rookery.training.results import Progress

if TYPE_CHECKING:
    from rookery.training.trainer import Trainer

ITERATION = 1000
"""Env steps of an iteration whose length nobody says; gradient steps of one in which nothing is played."""

CHUNK = 10
"""Gradient steps, or env steps they belong to, between two looks at whether somebody asked to stop."""

CAP = 10
"""An iteration without a fixed length ends at the latest after this many times the largest demand, in env steps."""


def remaining(trainer: Trainer, progress: Progress) -> int:
    """Steps of copies that an iteration may still take; those in which they rest, or that are not played while sampling
    is paused, count too, so that every iteration ends.
    """
    passed = trainer.pool.lane_steps - progress.lane_steps + progress.unplayed
    if trainer.config.sampling.iteration_steps is not None:
        return trainer.config.sampling.iteration_steps - passed
    if not trainer.learners:
        return (ITERATION if trainer.policies or not passed else 0) - passed
    slow = {name: one for name, one in trainer.learners.items() if one.replay is None}
    if trainer.paused:
        return ITERATION - passed
    if not slow:
        left = int(trainer.criteria.get("env_steps", 0)) - progress.env_steps  # a run ends where it was told to end
        return (min(ITERATION, left) if left > 0 else ITERATION) - passed
    if all(name in progress.learned for name in slow):
        return 0
    demands = [learner.demand for learner in slow.values()]
    largest = max(d.decisions or d.fragment_length * trainer.env.num_lanes for d in demands)
    return CAP * largest - passed


def ahead(trainer: Trainer, progress: Progress) -> int:
    """Steps that may be played ahead: what remains of this iteration, or else those of the next."""
    rest = remaining(trainer, progress)
    return rest if rest > 0 else remaining(trainer, trainer.begin_iteration())


def measured_pace(trainer: Trainer, learner: Algorithm[Any], progress: Progress) -> Row:
    """The gradient steps that a learner with a replay memory has made in an iteration for each env step of it."""
    if learner.replay is None:
        return {}
    made = learner.replay.gradient_steps - progress.gradient_steps.get(learner.name, 0)
    played = trainer.env_steps - progress.env_steps
    return {"updates_per_env_step": made / played if played else None}


def told_pace(learner: Algorithm[Any]) -> str:
    """How much a learner learns from how much play, in a few words."""
    replay = learner.replay
    if replay is None:
        decisions = learner.demand.decisions
        if decisions is None:
            return f"an update for every {learner.demand.fragment_length:,} decisions of an agent"
        return f"an update for {decisions:,} decisions"
    ratio = replay.cfg.updates_per_step
    if 0 < ratio < 1 and (1 / ratio).is_integer():
        told = f"one gradient step for {1 / ratio:,.0f} decisions"
    else:
        told = f"{ratio:g} gradient step{'' if ratio == 1 else 's'} a decision"
    return f"{told} from decision {replay.cfg.learning_starts:,} on"


def told_replay(learner: Algorithm[Any]) -> str:
    """The replay memory of a learner, in a few words; empty if it has none."""
    if learner.replay is None:
        return ""
    own = learner.replay.own
    return f"replay {own.capacity:,} decisions ({gigabytes(own.full_bytes)})"
