"""Spaces of Gym before 0.26: those of Gymnasium, with the former arguments and results.

An object of Gymnasium's class counts as one of these (``isinstance(env.action_space, gym.spaces.Discrete)``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces


class _Todays(type):
    """Metaclass of classes that represent one of Gymnasium's in `isinstance` and `issubclass`."""

    def __instancecheck__(cls, instance: Any) -> bool:
        current_id = vars(cls).get("current_id")
        return isinstance(instance, current_id) if current_id else super().__instancecheck__(instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        current_id = vars(cls).get("current_id")
        return issubclass(subclass, current_id) if current_id else super().__subclasscheck__(subclass)


class Box(spaces.Box, metaclass=_Todays):
    """A box, possibly unbounded, in R^n.

    Lists are accepted as bounds. `contains` checks shape and bounds, not the element type.
    """

    current_id = spaces.Box

    def __init__(self, low: Any, high: Any, shape: Any = None, dtype: Any = np.float32, seed: Any = None) -> None:
        low = np.asarray(low) if isinstance(low, list | tuple) else low
        high = np.asarray(high) if isinstance(high, list | tuple) else high
        if shape is None:
            arrays = [bound.shape for bound in (low, high) if isinstance(bound, np.ndarray)]
            shape = arrays[0] if arrays else (1,)
        dtype = np.float32 if dtype is None else dtype
        super().__init__(_full(low, shape, dtype), _full(high, shape, dtype), tuple(map(int, shape)), dtype, seed)

    def contains(self, x: Any) -> bool:
        try:
            array = np.asarray(x)
            return array.shape == self.shape and bool(np.all(array >= self.low) and np.all(array <= self.high))
        except (TypeError, ValueError):
            return False


def _full(bound: Any, shape: Any, dtype: Any) -> Any:
    """Returns a bound as an array of the box's element type, clipped to its range."""
    full = np.broadcast_to(np.asarray(bound, dtype=float), tuple(map(int, shape))) if np.ndim(bound) else bound
    if np.issubdtype(np.dtype(dtype), np.integer):
        reach = np.iinfo(dtype)
        cut = np.clip(np.asarray(full, dtype=float), float(reach.min), float(reach.max))
        if not np.array_equal(cut, np.asarray(full, dtype=float)):
            return np.where(np.isinf(np.asarray(full)), cut, full).clip(reach.min, reach.max).astype(dtype)
    return np.asarray(full).astype(dtype) if np.ndim(full) else full


class Discrete(spaces.Discrete, metaclass=_Todays):
    """The numbers from 0 to n-1; samples are Python ints."""

    current_id = spaces.Discrete

    def __init__(self, n: Any, seed: Any = None, start: int = 0) -> None:
        super().__init__(int(n), seed, int(start))

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        return int(super().sample(mask, probability))
