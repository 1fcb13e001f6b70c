"""Your code in the loop: override what you need of `Callback` and pass ``Trainer(..., callbacks=[Mine()])``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.core.errors import ConfigError
from rookery.report.results import EvaluationResult, IterationResult
from rookery.rollout.hooks import Episode

if TYPE_CHECKING:
    from rookery.training.trainer import Trainer

EPISODE_METHODS = ("on_episode_start", "on_episode_step", "on_episode_end")


class Callback:
    """Does nothing at every moment of a training; a subclass overrides some of the methods.

    Methods about episodes are called for training episodes only, and cost time only if they are overridden. A callback
    that has state of its own may give it as `state_dict()` and take it back by `load_state_dict(state)`: it is then
    part of every checkpoint.
    """

    def on_train_start(self, trainer: Trainer) -> None:
        """Training begins, or goes on."""

    def on_iteration(self, trainer: Trainer, result: IterationResult) -> None:
        """An iteration is over."""

    def on_episode_start(self, episode: Episode) -> None:
        """An episode has begun."""

    def on_episode_step(self, episode: Episode) -> None:
        """The environment was stepped."""

    def on_episode_end(self, episode: Episode) -> None:
        """An episode is over: fill `episode.metrics` and `episode.histograms`."""

    def on_evaluate(self, trainer: Trainer, evaluation: EvaluationResult) -> None:
        """Policies were measured."""

    def on_checkpoint(self, trainer: Trainer, path: Path) -> None:
        """A checkpoint was written."""

    def on_train_end(self, trainer: Trainer, result: IterationResult) -> None:
        """Training has ended by a criterion."""


def checked(callbacks: Any) -> list[Callback]:
    """The callbacks as a list.

    Raises:
        ConfigError: If they are no objects in a list.
    """
    if isinstance(callbacks, Callback) or not isinstance(callbacks, Sequence):
        raise ConfigError(f"callbacks = {callbacks!r}: pass a list, as in callbacks=[{_name(callbacks)}()]")
    for callback in callbacks:
        if isinstance(callback, type):
            raise ConfigError(
                f"callbacks: {_name(callback)} is a class; pass an object, callbacks=[{_name(callback)}()]"
            )
        if not isinstance(callback, Callback):
            raise ConfigError(f"callbacks: {callback!r} is no Callback; derive its class from rookery.Callback")
    return list(callbacks)


def _name(callback: Any) -> str:
    return str(getattr(callback, "__name__", type(callback).__name__))


def watches_episodes(callback: Any) -> bool:
    """Whether a callback overrides any method about episodes."""
    return any(getattr(type(callback), name, None) is not getattr(Callback, name) for name in EPISODE_METHODS)
