"""Your code in the loop: override what you need of `Callback` and pass ``Trainer(..., callbacks=[Mine()])``."""

from __future__ import annotations

from pathlib import Path

from rookery.report.results import EvaluationResult, IterationResult
from rookery.rollout.hooks import EpisodeListener
from rookery.training.trainer import Trainer


class Callback(EpisodeListener):
    """Does nothing at every moment of a training; a subclass overrides some of the methods.

    There are ``on_episode_start(episode)``, ``on_episode_step(episode)`` and ``on_episode_end(episode)`` too, see
    `rollout/hooks.py`. They are called for training episodes only. An overridden `on_episode_step` costs time at each
    step, the others only when an episode starts or ends. A callback that has state of its own may give it as
    `state_dict()` and take it back by `load_state_dict(state)`: it is then part of every checkpoint.
    """

    def on_train_start(self, trainer: Trainer) -> None:
        """Training begins, or goes on."""

    def on_iteration(self, trainer: Trainer, result: IterationResult) -> None:
        """An iteration is over."""

    def on_evaluate(self, trainer: Trainer, evaluation: EvaluationResult) -> None:
        """Policies were measured."""

    def on_checkpoint(self, trainer: Trainer, path: Path) -> None:
        """A checkpoint was written."""

    def on_train_end(self, trainer: Trainer, result: IterationResult) -> None:
        """Training has ended by a criterion."""
