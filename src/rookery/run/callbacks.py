"""`Callback`: base class of callbacks, which are passed as ``Trainer(..., callbacks=[MyCallback()])``."""

from __future__ import annotations

import inspect
from pathlib import Path

from rookery.core.errors import ConfigError, nearest
from rookery.core.settings.hints import ForeignNames
from rookery.report.results import EvaluationResult, IterationResult
from rookery.rollout.hooks import EpisodeListener
from rookery.run.trainer import Trainer

OF_STABLE_BASELINES3 = {
    "_on_training_start": "on_train_start(self, trainer)",
    "_on_rollout_start": "on_iteration(self, trainer, result), which is called after each iteration",
    "_on_step": "on_episode_step(self, episode), or on_iteration(self, trainer, result)",
    "_on_rollout_end": "on_iteration(self, trainer, result)",
    "_on_training_end": "on_train_end(self, trainer, result)",
}
"""Methods of callbacks in Stable-Baselines3, and their replacements."""

OF_RLLIB = {
    "on_train_result": "on_iteration(self, trainer, result)",
    "on_learn_on_batch": "on_iteration(self, trainer, result)",
    "on_evaluate_end": "on_evaluate(self, trainer, evaluation)",
    "on_algorithm_init": "on_train_start(self, trainer)",
    "on_trainer_init": "on_train_start(self, trainer)",
    "on_episode_created": "on_episode_start(self, episode)",
    "on_checkpoint_loaded": "load_state_dict(self, state)",
}
"""Methods of callbacks in RLlib, and their replacements."""


class Callback(ForeignNames, EpisodeListener):
    """Base class of callbacks; all methods do nothing, and a subclass overrides some of them.

    There are ``on_episode_start(episode)``, ``on_episode_step(episode)`` and ``on_episode_end(episode)`` too, see
    `rollout/hooks.py`. They are called for training episodes only. An overridden `on_episode_step` costs time at each
    step, the others only when an episode starts or ends. A callback with its own state may have `state_dict()` and
    `load_state_dict(state)`: the state is then part of every checkpoint.

    Raises:
        ConfigError: When a subclass has a public method ``on_...`` that is never called, or that cannot take its
            arguments (such as one written for RLlib), or a method that Stable-Baselines3 would call.
    """

    def __init_subclass__(cls) -> None:
        """Refuses methods ``on_...`` that would never be called, or cannot take their arguments."""
        super().__init_subclass__()
        known = moments_named_in(Callback)
        for name in moments_named_in(cls):
            if name not in known:
                near = f"; write {OF_RLLIB[name]}" if name in OF_RLLIB else nearest(name, known)
                raise ConfigError(
                    f"callback {cls.__name__}.{name}: a Callback has no such method{near}; it has "
                    f"{', '.join(known)}; a method of your own needs a name that does not begin with on_"
                )
            _check_signature(cls, name)
        for name, ours in OF_STABLE_BASELINES3.items():
            if callable(getattr(cls, name, None)):
                raise ConfigError(
                    f"callback {cls.__name__}.{name}: a Callback of Rookery has no such method; write {ours}"
                )

    def on_train_start(self, trainer: Trainer) -> None:
        """Called when training begins or resumes."""

    def on_iteration(self, trainer: Trainer, result: IterationResult) -> None:
        """Called after each iteration."""

    def on_evaluate(self, trainer: Trainer, evaluation: EvaluationResult) -> None:
        """Called after each evaluation."""

    def on_checkpoint(self, trainer: Trainer, path: Path) -> None:
        """Called after each checkpoint."""

    def on_train_end(self, trainer: Trainer, result: IterationResult) -> None:
        """Called when training has ended by a criterion."""


def moments_named_in(cls: type) -> list[str]:
    """Returns the names of the methods ``on_...`` of a class."""
    return [name for name in dir(cls) if name.startswith("on_") and callable(getattr(cls, name))]


def _check_signature(cls: type[Callback], name: str) -> None:
    """Refuses a method that cannot be called with the arguments of the same method of `Callback`."""
    given, expected = inspect.signature(getattr(cls, name)), inspect.signature(getattr(Callback, name))
    try:
        given.bind(*expected.parameters)
    except TypeError as error:
        arguments = ", ".join(list(expected.parameters)[1:])
        raise ConfigError(f"callback {cls.__name__}.{name}{given}: {error}; write {name}(self, {arguments})") from None
