"""Callbacks for trials, results and checkpoints, in the process of the script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rookery_rllib.trainer.trial.loggers import CSVLogger, JsonLogger, Logger, TBXLogger


class Callback:
    """Base of callbacks. Subclasses override what they need; all arguments are passed by name."""

    def setup(self) -> None:
        """Called when the experiment begins."""

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Called before each round of the loop."""

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Called after each round of the loop."""

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Called when a trial begins or resumes."""

    def on_trial_restore(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Called when a trial resumes from a checkpoint."""

    def on_trial_save(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Called after a trial was saved."""

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: Any, **info: Any) -> None:
        """Called with each result."""

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Called when a trial is complete."""

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Called when a trial has failed for good."""

    def on_checkpoint(self, iteration: int, trials: list[Any], trial: Any, checkpoint: Any, **info: Any) -> None:
        """Called with a new checkpoint in the directory of a trial."""


class CallbackList:
    """Calls several callbacks."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self._callbacks = list(callbacks)

    def notify(self, event: str, **info: Any) -> None:
        """Calls a hook of each callback."""
        for callback in self._callbacks:
            getattr(callback, event)(**info)


class LoggerCallback(Callback):
    """Writes the results of all trials. Subclasses override the ``log_`` methods they need."""

    def log_trial_start(self, trial: Any) -> None:
        """Called when a trial begins or resumes."""

    def log_trial_restore(self, trial: Any) -> None:
        """Called when a trial resumes from a checkpoint."""

    def log_trial_save(self, trial: Any) -> None:
        """Called after a trial was saved."""

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        """Writes a result."""

    def log_trial_end(self, trial: Any, failed: bool = False) -> None:
        """Called when a trial is complete."""

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.log_trial_start(trial)

    def on_trial_restore(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.log_trial_restore(trial)

    def on_trial_save(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.log_trial_save(trial)

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: Any, **info: Any) -> None:
        self.log_trial_result(iteration, trial, result)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.log_trial_end(trial, failed=False)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.log_trial_end(trial, failed=True)


class LegacyLoggerCallback(LoggerCallback):
    """Logs all trials by loggers of single trials."""

    def __init__(self, logger_classes: Sequence[Any]) -> None:
        self.logger_classes = [logger_classes] if isinstance(logger_classes, type) else list(logger_classes)
        self._loggers: dict[Any, list[Logger]] = {}

    def log_trial_start(self, trial: Any) -> None:
        if trial in self._loggers:
            for logger in self._loggers[trial]:
                logger.update_config(trial.config)
        else:
            self._loggers[trial] = [made(trial.config, trial.logdir, trial) for made in self.logger_classes]

    def log_trial_save(self, trial: Any) -> None:
        for logger in self._loggers.get(trial, ()):
            logger.flush()

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        for logger in self._loggers.get(trial, ()):
            logger.on_result(result)

    def log_trial_end(self, trial: Any, failed: bool = False) -> None:
        for logger in self._loggers.pop(trial, ()):
            logger.flush()
            logger.close()

    def close(self) -> None:
        for trial in list(self._loggers):
            self.log_trial_end(trial)


class JsonLoggerCallback(LegacyLoggerCallback):
    """Writes params.json and result.json of each trial."""

    def __init__(self) -> None:
        super().__init__([JsonLogger])


class CSVLoggerCallback(LegacyLoggerCallback):
    """Writes progress.csv of each trial."""

    def __init__(self) -> None:
        super().__init__([CSVLogger])


class TBXLoggerCallback(LegacyLoggerCallback):
    """Writes TensorBoard events of each trial."""

    def __init__(self) -> None:
        super().__init__([TBXLogger])


def default_loggers(callbacks: Sequence[Callback]) -> list[Callback]:
    """Returns the callbacks that write a trial's files, without those that are given already."""
    kinds = (JsonLoggerCallback, CSVLoggerCallback, TBXLoggerCallback)
    return [kind() for kind in kinds if not any(isinstance(given, kind) for given in callbacks)]
