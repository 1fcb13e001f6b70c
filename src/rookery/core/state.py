"""State that objects need to resume a run, declared attribute by attribute.

A class with state derives from `Stateful` and sorts the names of its attributes into `saved` (what changes while
training) and `fixed` (what a new object gets again from settings, or derives from what is saved). A test walks every
object of a trainer and fails when an attribute is in neither.

States of older versions of Rookery can still be loaded: a class whose saved attributes change in name or meaning raises
its `state_version` and defines `upgrade`. A class that has never changed has version 1, which is not written.
"""

from __future__ import annotations

import copy
import types
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from rookery.core.errors import RookeryError

VERSIONS = "@versions"
"""Key in a state for the versions of its classes; no attribute has this name."""


class StateError(RookeryError):
    """A state does not fit the object that loads it: another version of Rookery or another class wrote it."""

    exit_code = 2


class Stateful:
    """Base of classes with state: `state_dict` and `load_state_dict` by the declared names, including those of base
    classes.

    Attributes:
        state_version: Version of the attributes that this class itself declares in `saved`. It is not inherited: each
            class has its own, and a state holds those above 1 of all base classes.
    """

    saved: ClassVar[tuple[str, ...]] = ()
    fixed: ClassVar[tuple[str, ...]] = ()
    state_version: ClassVar[int] = 1

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if _own_version(cls) > 1 and "upgrade" not in vars(cls):
            raise TypeError(f"{cls.__name__}: state_version is {cls.state_version}, so it must define upgrade")
        names = [base.__name__ for base in cls.__mro__ if _own_version(base) > 1]
        if len(names) > len(set(names)):
            raise TypeError(f"{cls.__name__}: two base classes with a state_version have the same name; rename one")
        attributes = set(cls._saved_names())
        if len(attributes) > len({cls._key_of(name) for name in attributes}):
            raise TypeError(f"{cls.__name__}: two saved attributes have the same key in a state; rename one")

    @classmethod
    def _saved_names(cls) -> list[str]:
        """Returns all names in `saved`, base classes first."""
        return [name for base in reversed(cls.__mro__) for name in base.__dict__.get("saved", ())]

    @classmethod
    def _fixed_names(cls) -> list[str]:
        """Returns all names in `fixed`, base classes first."""
        return [name for base in reversed(cls.__mro__) for name in base.__dict__.get("fixed", ())]

    @classmethod
    def _key_of(cls, name: str) -> str:
        """Returns the key of a saved attribute in a state: its name. A class overrides this method to rename attributes
        without a change of its stored states.
        """
        return name

    @classmethod
    def _state_versions(cls) -> dict[str, int]:
        """Returns the versions above 1 by class name, base classes first."""
        return {base.__name__: _own_version(base) for base in reversed(cls.__mro__) if _own_version(base) > 1}

    def upgrade(self, state: dict[str, Any], version: int) -> dict[str, Any]:
        """Converts a state of an older version to the form of the defining class's present version.

        Each class with a version above 1 defines its own, without `super()`: base classes have upgraded their part
        before. Values of attributes that the older version did not have may be taken from `self`, a newly made object.

        Args:
            state: The state; must not be changed in place.
            version: Version of the defining class that wrote it, from 1.
        """
        raise NotImplementedError(f"{type(self).__name__}: define upgrade beside state_version")

    def _upgraded(self, state: dict[str, Any]) -> dict[str, Any]:
        """Returns a state in the form of Rookery's present version; an up-to-date state is returned unchanged.

        `load_state_dict` calls it. A method that reads a state before that calls it first.

        Raises:
            StateError: If a newer version of Rookery wrote the state.
        """
        wrote, now = state.get(VERSIONS, {}), self._state_versions()
        for name, version in wrote.items():
            if version > now.get(name, 1):
                raise StateError(
                    f"{type(self).__name__}: the state of {name} has version {version}, and this version of Rookery "
                    f"reads versions up to {now.get(name, 1)}; resume with the newer Rookery that wrote it (see "
                    "versions.json of the run)"
                )
        if wrote == now:
            return state
        for base in reversed(type(self).__mro__):
            version = wrote.get(base.__name__, 1)
            if version < _own_version(base):
                state = vars(base)["upgrade"](self, state, version)
        return {**state, VERSIONS: now}

    def state_dict(self) -> dict[str, Any]:
        """Returns a copy of the saved attributes; for objects with a `state_dict`, its result."""
        versions = self._state_versions()
        own = {self._key_of(name): _pack(getattr(self, name)) for name in self._saved_names()}
        return {VERSIONS: versions, **own} if versions else own

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the result of `state_dict`, of this or an older version of Rookery.

        Raises:
            StateError: If `state` lacks a saved attribute or has one more, or a newer version of Rookery wrote it.
        """
        state = self._upgraded(state)
        keys = {name: self._key_of(name) for name in self._saved_names()}
        if {*keys.values()} != state.keys() - {VERSIONS}:
            there = sorted(state.keys() - {VERSIONS})
            raise StateError(f"{type(self).__name__}: state has {there}, expected {sorted(keys.values())}")
        for name, key in keys.items():
            setattr(self, name, _unpack(getattr(self, name, None), state[key]))


def _own_version(cls: type) -> int:
    version: int = vars(cls).get("state_version", 1)
    return version


_CONSTANT = frozenset({bool, int, float, str, types.NoneType})
"""Types whose values never change."""


def _pack(value: Any) -> Any:
    if type(value) in _CONSTANT:
        return value
    if isinstance(value, np.random.Generator):
        return copy.deepcopy(value.bit_generator.state)
    if hasattr(value, "state_dict"):
        return _pack(value.state_dict())  # a module returns its live tensors
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
    if isinstance(now, list) and any(hasattr(mine, "load_state_dict") for mine in now):
        raise StateError(f"there are {len(now)} {type(now[0]).__name__}, and the state has {len(state)}")
    if isinstance(now, Tensor) and isinstance(state, Tensor) and now.shape == state.shape:
        now.data.copy_(state)
        return now
    return copy.deepcopy(state)
