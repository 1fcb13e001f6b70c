"""Methods that one thread at a time may run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def with_lock(func: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a method that holds its object's `_lock` while it runs.

    Args:
        func: Method of an object whose constructor makes ``self._lock = threading.RLock()``.

    Raises:
        AttributeError: From the method, if there is no such lock.
    """

    @functools.wraps(func)
    def locked(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not hasattr(self, "_lock"):
            raise AttributeError(
                f"{type(self).__name__} has no `_lock`; make one in its constructor: threading.RLock()"
            )
        with self._lock:
            return func(self, *args, **kwargs)

    return locked
