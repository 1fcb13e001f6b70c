"""Decorators that mark methods of the API; only `override` checks something."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def override(cls: type) -> Callable[[T], T]:
    def check(method: T) -> T:
        name = getattr(method, "__name__", "")
        if name not in dir(cls):
            raise NameError(f"{name} overrides nothing: {cls.__name__} has no method of that name")
        return method

    return check


def PublicAPI(obj: T) -> T:
    return obj


def DeveloperAPI(obj: T) -> T:
    return obj


def Deprecated(*args: Any, **kwargs: Any) -> Any:
    if len(args) == 1 and not kwargs and callable(args[0]):
        return args[0]
    return lambda obj: obj
