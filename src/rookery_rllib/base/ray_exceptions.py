"""Errors of tasks and actors, under the names of ``ray.exceptions``."""

from __future__ import annotations

from functools import cache

from rookery.face import RookeryError


class RayError(RookeryError): ...


class CrossLanguageError(RayError): ...


class TaskCancelledError(RayError): ...


class RayTaskError(RayError):
    def __init__(self, function_name: str = "", cause: BaseException | None = None) -> None:
        super().__init__(f"{function_name} raised {type(cause).__name__}: {cause}")
        self.function_name, self.cause = function_name, cause

    def as_instanceof_cause(self) -> BaseException:
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
    """Returns a class of errors that derives from both classes; None if the two cannot be combined."""
    try:
        return type(f"RayTaskError({kind.__name__})", (RayTaskError, kind), {"__str__": lambda self: self.args[0]})
    except TypeError:
        return None


class WorkerCrashedError(RayError): ...


class RayActorError(RayError): ...


class RaySystemError(RayError): ...


class ObjectStoreFullError(RayError): ...


class ObjectLostError(RayError): ...


class GetTimeoutError(RayError): ...


class PlasmaObjectNotAvailable(RayError):  # the name of 2021
    ...


class AsyncioActorExit(RayError):  # the name of 2021
    ...
