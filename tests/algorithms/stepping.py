"""Shared parts of tests of off-policy algorithms: one gradient step with its metrics, and their optimizers."""

from __future__ import annotations

from rookery.core.metrics import Means


def step(learner):
    """One gradient step of each network; returns the means of its metrics."""
    learner.replay.means = Means()
    learner.learn(1)
    return learner.replay.means.result()


def optimizers(learner):
    """Those of actor, critics and temperature, of which there are any."""
    several = (learner.actor_optimizer, learner.critics.optimizer, getattr(learner, "temperature_optimizer", None))
    return tuple(one for one in several if one is not None)
