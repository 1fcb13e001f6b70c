"""Words about names that changed, and wrappers that say them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

logger = logging.getLogger(__name__)

DEPRECATED_VALUE = -1
"""Stands for a setting that nobody gave."""


def deprecation_warning(old: str, new: str | None = None, error: Any = None) -> None:
    """Warns that a name is old, or raises.

    Args:
        old: The old name.
        new: What to use instead.
        error: True to raise a ValueError, an exception class to raise that; else the logger warns.

    Raises:
        ValueError: If `error` is True.
    """
    message = f"`{old}` is deprecated." + (f" Use `{new}`." if new else "")
    if error is True:
        raise ValueError(message)
    if isinstance(error, type) and issubclass(error, Exception):
        raise error(message)
    logger.warning("DeprecationWarning: %s", message)


def renamed_class(cls: Any, old_name: str) -> type:
    """Returns a subclass whose constructor says that the class had another name.

    Args:
        cls: The class.
        old_name: What it was called.
    """

    def constructor(self: Any, *args: Any, **kwargs: Any) -> None:
        deprecation_warning(old_name, f"{cls.__module__}.{cls.__name__}")
        cls.__init__(self, *args, **kwargs)

    return type(cls.__name__, (cls,), {"__init__": constructor})


def renamed_agent(cls: Any) -> type:
    """Returns a subclass of a trainer whose constructor says that it was called an agent."""
    return renamed_class(cls, cls.__name__.replace("Trainer", "Agent"))


def renamed_function(func: Callable[..., Any], old_name: str) -> Callable[..., Any]:
    """Returns a function that says that it had another name, and calls the other.

    Args:
        func: The function.
        old_name: What it was called.
    """

    def renamed(*args: Any, **kwargs: Any) -> Any:
        deprecation_warning(old_name, f"{func.__module__}.{func.__name__}")
        return func(*args, **kwargs)

    renamed.__name__ = func.__name__
    return renamed


def moved_function(func: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that was moved, and says so."""
    deprecation_warning(f"import {func.__name__}", f"import {func.__module__}")
    return func
