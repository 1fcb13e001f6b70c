"""Decorators that mark what a method is; only `override` checks something."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def override(cls: type) -> Callable[[T], T]:
    """Returns a decorator that checks that a method overrides one of `cls`.

    Args:
        cls: The class above.

    Raises:
        NameError: From the decorator, if `cls` has no such method.
    """

    def check(method: T) -> T:
        name = getattr(method, "__name__", "")
        if name not in dir(cls):
            raise NameError(f"{name} overrides nothing: {cls.__name__} has no method of that name")
        return method

    return check


def PublicAPI(obj: T) -> T:
    """Returns what it is given, which is meant for users."""
    return obj


def DeveloperAPI(obj: T) -> T:
    """Returns what it is given, which is meant for those who write algorithms."""
    return obj


def Deprecated(*args: Any, **kwargs: Any) -> Any:
    """Returns a decorator that leaves things as they are, or, used without arguments, what it is given."""
    if len(args) == 1 and not kwargs and callable(args[0]):
        return args[0]
    return lambda obj: obj
