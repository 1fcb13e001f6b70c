"""Functions for a function trainable: ``tune.report``, ``tune.checkpoint_dir`` and its identity."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from rookery.face import RookeryError


class _Session:
    """The reporter of the function that runs in this process; threads of a script find it too."""

    reporter: ClassVar[Any] = None


def begin(reporter: Any) -> None:
    _Session.reporter = reporter


def end(reporter: Any) -> None:
    if _Session.reporter is reporter:
        _Session.reporter = None


def is_session_enabled() -> bool:
    return _Session.reporter is not None


def get_session() -> Any:
    if _Session.reporter is None:
        raise RookeryError(
            "tune: no trial runs here: report and similar functions are for a function that tune.run calls; a "
            "Trainable class returns its results from step()"
        )
    return _Session.reporter


def report(
    _metric: Any = None, *, checkpoint: Any = None, metrics: Mapping[str, Any] | None = None, **kwargs: Any
) -> None:
    """Reports an iteration of the running function, and waits until the next one is requested.

    Args:
        _metric: A number; in RLlib 2.x a dict of metrics.
        checkpoint: A directory that the function has written, or an object with its `path`.
        metrics: A dict of metrics.
        kwargs: Metrics by name.
    """
    reporter = get_session()
    if isinstance(_metric, Mapping):
        _metric, metrics = None, _metric
    if checkpoint is not None:
        folder = reporter.make_checkpoint_dir(reporter.iteration + 1)
        shutil.copytree(getattr(checkpoint, "path", checkpoint), folder, dirs_exist_ok=True)
        reporter.set_checkpoint(folder)
    reporter(_metric, **(metrics or {}), **kwargs)


def get_checkpoint() -> Any:
    """Returns the directory of the checkpoint that the function continues from; None if it begins."""
    return get_session().checkpoint


@contextlib.contextmanager
def checkpoint_dir(step: int) -> Iterator[str]:
    """Yields a directory for a checkpoint, which counts if the block ends without an exception."""
    reporter = get_session()
    folder = reporter.make_checkpoint_dir(step)
    yield folder
    reporter.set_checkpoint(folder)


def make_checkpoint_dir(step: int | None = None) -> str:
    """Refuses, as Ray did since 0.8.7."""
    raise RookeryError("tune.make_checkpoint_dir: write `with tune.checkpoint_dir(step=...) as folder:` instead")


def save_checkpoint(checkpoint: Any) -> None:
    """Refuses, as Ray did since 0.8.7."""
    raise RookeryError("tune.save_checkpoint: write `with tune.checkpoint_dir(step=...) as folder:` instead")


def get_trial_name() -> Any:
    return get_session().trial_name if is_session_enabled() else None


def get_trial_id() -> Any:
    return get_session().trial_id if is_session_enabled() else None


def get_trial_dir() -> Any:
    return get_session().logdir if is_session_enabled() else None


def get_trial_resources() -> Any:
    return get_session().trial_resources if is_session_enabled() else None
