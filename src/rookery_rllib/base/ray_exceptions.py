"""What goes wrong with tasks and actors, under the names of ``ray.exceptions``."""

from __future__ import annotations

from functools import cache

from rookery.core.errors import RookeryError


class RayError(RookeryError):
    """Anything that Ray raises."""


class CrossLanguageError(RayError):
    """A task of another language has failed."""


class TaskCancelledError(RayError):
    """A task was cancelled."""


class RayTaskError(RayError):
    """A task has raised; the error that is caught is of the class of what it raised, too.

    Args:
        function_name: What has raised.
        cause: What was raised.
    """

    def __init__(self, function_name: str = "", cause: BaseException | None = None) -> None:
        super().__init__(f"{function_name} raised {type(cause).__name__}: {cause}")
        self.function_name, self.cause = function_name, cause

    def as_instanceof_cause(self) -> BaseException:
        """Returns an error that is caught as this one, and as what was raised."""
        if self.cause is None or not isinstance(self.cause, Exception):
            return self
        made = _both(type(self.cause))  # type: ignore[arg-type]
        if made is None:
            return self
        error = made.__new__(made)
        error.__dict__.update(self.cause.__dict__)
        error.function_name, error.cause = self.function_name, self.cause  # type: ignore[attr-defined]
        error.args = (str(self),)
        error.__cause__ = self.cause
        return error


@cache
def _both(kind: type[BaseException]) -> type[BaseException] | None:
    """A class of errors that are of another class too; None where the two cannot be one."""
    try:
        return type(f"RayTaskError({kind.__name__})", (RayTaskError, kind), {"__str__": lambda self: self.args[0]})
    except TypeError:
        return None


class WorkerCrashedError(RayError):
    """A worker has crashed."""


class RayActorError(RayError):
    """An actor is gone."""


class RaySystemError(RayError):
    """Ray itself has failed."""


class ObjectStoreFullError(RayError):
    """There is no room for objects."""


class ObjectLostError(RayError):
    """An object is gone."""


class GetTimeoutError(RayError):
    """An object was not there in time."""


class PlasmaObjectNotAvailable(RayError):  # the name of 2021
    """An object is not there."""


class AsyncioActorExit(RayError):  # the name of 2021
    """An actor ends itself."""
