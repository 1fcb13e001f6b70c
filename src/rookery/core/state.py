"""What an object must remember for a run to continue: declared, field by field, so that none can be forgotten.

A class with state derives from `Stateful` and sorts the names of its attributes into `saved` (what changes while
training) and `fixed` (what a new object gets again from settings, or derives from what is saved). A test walks every
object of a trainer and fails when an attribute is in neither.
"""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import numpy as np
from torch import Tensor


class Stateful:
    """Gives `state_dict` and `load_state_dict` from the declared names; both lists add up along the base classes."""

    saved: ClassVar[tuple[str, ...]] = ()
    fixed: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def saved_names(cls) -> list[str]:
        """All names in `saved`, base classes first."""
        return [name for base in reversed(cls.__mro__) for name in base.__dict__.get("saved", ())]

    @classmethod
    def fixed_names(cls) -> list[str]:
        """All names in `fixed`, base classes first."""
        return [name for base in reversed(cls.__mro__) for name in base.__dict__.get("fixed", ())]

    def state_dict(self) -> dict[str, Any]:
        """A copy of the saved attributes; objects with a `state_dict` of their own give that."""
        return {name: _pack(getattr(self, name)) for name in self.saved_names()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave; raises a KeyError if `state` lacks a saved attribute, or has one more."""
        names = self.saved_names()
        if set(names) != set(state):
            raise KeyError(f"{type(self).__name__}: state has {sorted(state)}, expected {sorted(names)}")
        for name in names:
            setattr(self, name, _unpack(getattr(self, name, None), state[name]))


def _pack(value: Any) -> Any:
    if isinstance(value, np.random.Generator):
        return copy.deepcopy(value.bit_generator.state)
    if hasattr(value, "state_dict"):
        return _pack(value.state_dict())  # a module gives its live tensors
    if isinstance(value, dict):
        return {key: _pack(item) for key, item in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(_pack(item) for item in value)
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, Tensor):
        return value.detach().clone()
    return copy.deepcopy(value)


def _unpack(now: Any, state: Any) -> Any:
    if isinstance(now, np.random.Generator):
        now.bit_generator.state = copy.deepcopy(state)
        return now
    if hasattr(now, "load_state_dict"):
        now.load_state_dict(state)
        return now
    if isinstance(now, dict) and isinstance(state, dict):
        return {key: _unpack(now.get(key), item) for key, item in state.items()}
    if isinstance(now, list) and isinstance(state, list) and len(now) == len(state):
        return [_unpack(mine, item) for mine, item in zip(now, state, strict=True)]
    if isinstance(now, Tensor) and isinstance(state, Tensor) and now.shape == state.shape:
        now.data.copy_(state)
        return now
    return copy.deepcopy(state)
