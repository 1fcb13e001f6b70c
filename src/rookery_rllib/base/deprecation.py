"""Deprecation warnings, and wrappers that print them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

logger = logging.getLogger(__name__)

DEPRECATED_VALUE = -1


def deprecation_warning(old: str, new: str | None = None, error: Any = None) -> None:
    message = f"`{old}` is deprecated." + (f" Use `{new}`." if new else "")
    if error is True:
        raise ValueError(message)
    if isinstance(error, type) and issubclass(error, Exception):
        raise error(message)
    logger.warning("DeprecationWarning: %s", message)


def renamed_class(cls: Any, old_name: str) -> type:
    def constructor(self: Any, *args: Any, **kwargs: Any) -> None:
        deprecation_warning(old_name, f"{cls.__module__}.{cls.__name__}")
        cls.__init__(self, *args, **kwargs)

    return type(cls.__name__, (cls,), {"__init__": constructor})


def renamed_agent(cls: Any) -> type:
    return renamed_class(cls, cls.__name__.replace("Trainer", "Agent"))


def renamed_function(func: Callable[..., Any], old_name: str) -> Callable[..., Any]:
    def renamed(*args: Any, **kwargs: Any) -> Any:
        deprecation_warning(old_name, f"{func.__module__}.{func.__name__}")
        return func(*args, **kwargs)

    renamed.__name__ = func.__name__
    return renamed


def moved_function(func: Callable[..., Any]) -> Callable[..., Any]:
    deprecation_warning(f"import {func.__name__}", f"import {func.__module__}")
    return func
