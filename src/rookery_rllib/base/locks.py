"""Decorator for methods that only one thread may run at a time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def with_lock(func: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(func)
    def locked(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not hasattr(self, "_lock"):
            raise AttributeError(
                f"{type(self).__name__} has no `_lock`; make one in its constructor: threading.RLock()"
            )
        with self._lock:
            return func(self, *args, **kwargs)

    return locked
