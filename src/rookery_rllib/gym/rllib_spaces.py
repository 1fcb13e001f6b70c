"""Spaces that RLlib adds to Gym's, and functions about spaces: flattening, batches, actions within bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from rookery.face import EntitySet, SpaceError
from rookery_rllib.base import nested


class UnsupportedSpaceException(SpaceError):
    """Raised for a space that a function does not support."""


class Repeated(EntitySet):
    """A list of up to `max_len` elements of one space; Rookery's networks read it as a set of entities."""

    def __init__(self, child_space: Space[Any], max_len: int) -> None:
        super().__init__(child_space, max_len)

    @property
    def child_space(self) -> Space[Any]:
        return self.feature_space

    @property
    def max_len(self) -> int:
        return self.max_entities

    def sample(self, mask: Any = None, probability: Any = None) -> list[Any]:
        return [self.child_space.sample() for _ in range(int(self.np_random.integers(1, self.max_len + 1)))]

    def contains(self, x: Any) -> bool:
        return isinstance(x, list | tuple) and len(x) <= self.max_len and all(holds(self.child_space, one) for one in x)

    def __repr__(self) -> str:
        return f"Repeated({self.child_space}, {self.max_len})"


class Simplex(Space[np.ndarray]):
    """Vectors that sum to 1 along the last axis, of a Dirichlet distribution; `concentration` None = even."""

    def __init__(self, shape: Iterable[int], concentration: Any = None, dtype: Any = np.float32) -> None:
        super().__init__(tuple(shape), dtype)
        assert self.shape is not None
        if not self.shape:
            raise ValueError("Simplex: shape is (), it needs a last axis whose shares sum to 1")
        self.dim = self.shape[-1]
        self.concentration = np.ones(self.dim) if concentration is None else np.asarray(concentration, np.float64)
        if self.concentration.shape != (self.dim,):
            raise ValueError(f"Simplex: concentration of shape {self.concentration.shape}, expected ({self.dim},)")

    def sample(self, mask: Any = None, probability: Any = None) -> np.ndarray:
        assert self.shape is not None
        return self.np_random.dirichlet(self.concentration, size=self.shape[:-1]).astype(self.dtype)

    def contains(self, x: Any) -> bool:
        array = np.asarray(x)
        return array.shape == self.shape and bool(np.all(array >= 0) and np.allclose(array.sum(axis=-1), 1.0))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Simplex) or self.shape != other.shape:
            return False
        return bool(np.allclose(self.concentration, other.concentration))

    __hash__ = None  # type: ignore[assignment]  # as of all spaces

    def __repr__(self) -> str:
        return f"Simplex({self.shape}; {self.concentration.tolist()})"


class FlexDict(Dict):
    """Dict space to which entries can be added later, ``space["key"] = Box(...)``."""

    def __init__(self, spaces: Mapping[str, Space[Any]] | None = None, **spaces_kwargs: Space[Any]) -> None:
        super().__init__({**(spaces or {}), **spaces_kwargs}, sort_keys=False)

    def __setitem__(self, key: str, value: Space[Any]) -> None:
        if not isinstance(value, Space):
            raise TypeError(f"FlexDict: {key!r} is {type(value).__name__}, expected a space")
        self.spaces[key] = value

    def __repr__(self) -> str:
        return f"FlexDict({', '.join(f'{key}:{space}' for key, space in self.spaces.items())})"


def holds(space: Space[Any], value: Any) -> bool:
    """Returns whether a space contains a value, as Gym did until 2021: lists count as arrays, float64 as float32."""
    if isinstance(space, Dict):
        same = isinstance(value, Mapping) and set(value) == set(space.spaces)
        return same and all(holds(part, value[key]) for key, part in space.spaces.items())
    if isinstance(space, Tuple):
        same = isinstance(value, list | tuple | np.ndarray) and len(value) == len(space.spaces)
        return same and all(holds(part, one) for part, one in zip(space.spaces, value, strict=True))
    if isinstance(space, Box | MultiDiscrete | MultiBinary):
        try:
            array = np.asarray(value)
        except ValueError:  # rows of different lengths
            return False
        if array.shape != space.shape or array.dtype.kind not in "biuf":
            return False
        if isinstance(space, Box):
            return bool(np.all(array >= space.low) and np.all(array <= space.high))
        if isinstance(space, MultiDiscrete):
            return bool(np.all(array >= space.start) and np.all(array < space.start + space.nvec))
        return bool(np.all((array == 0) | (array == 1)))
    return bool(space.contains(value))


def flatten_space(space: Space[Any]) -> list[Space[Any]]:
    if isinstance(space, Dict | Tuple):
        parts = space.spaces.values() if isinstance(space, Dict) else space.spaces
        return [simple for part in parts for simple in flatten_space(part)]
    return [space]


def get_base_struct_from_space(space: Space[Any]) -> Any:
    if isinstance(space, Tuple):
        return tuple(get_base_struct_from_space(part) for part in space.spaces)
    if isinstance(space, Dict):
        return {key: get_base_struct_from_space(part) for key, part in space.spaces.items()}
    return space


def get_dummy_batch_for_space(
    space: Space[Any],
    batch_size: int = 32,
    fill_value: Any = 0.0,
    time_size: int | None = None,
    time_major: bool = False,
) -> Any:
    """Builds a batch of one space that holds the same value everywhere; the value ``"random"`` draws each row."""
    if isinstance(space, Dict | Tuple):
        base = get_base_struct_from_space(space)
        return nested.map_structure(
            lambda part: get_dummy_batch_for_space(part, batch_size, fill_value, time_size, time_major), base
        )
    lead: tuple[int, ...] = (batch_size,)
    if time_size is not None:
        lead = (time_size, batch_size) if time_major else (batch_size, time_size)
    if fill_value == "random":
        drawn = np.stack([np.asarray(space.sample()) for _ in range(int(np.prod(lead)))])
        return drawn.reshape(*lead, *drawn.shape[1:])
    dtype = np.dtype(np.int64) if isinstance(space, Discrete) else space.dtype
    return np.full((*lead, *(space.shape or ())), fill_value, dtype)


def flatten_to_single_ndarray(input_: Any) -> Any:
    """Concatenates all arrays of a structure into one flat array; a single array is unchanged."""
    if isinstance(input_, list | tuple | Mapping):
        return np.concatenate([np.reshape(part, -1) for part in nested.flatten(input_)])
    return input_


def unbatch(batches_struct: Any) -> list[Any]:
    columns = nested.flatten(batches_struct)
    return [nested.unflatten_as(batches_struct, row) for row in zip(*columns, strict=True)]


def _by_box(action: Any, action_space: Any, change: Any) -> Any:
    """Maps the parts of an action that have a Box; the space is one, or a structure of spaces."""
    struct = get_base_struct_from_space(action_space) if isinstance(action_space, Space) else action_space
    spaces = nested.flatten(struct)
    parts = nested.flatten(action) if len(spaces) > 1 or isinstance(struct, Mapping | list | tuple) else [action]
    changed = [
        change(part, space) if isinstance(space, Box) else part for part, space in zip(parts, spaces, strict=True)
    ]
    return nested.unflatten_as(struct, changed)


def _bounded(space: Box) -> np.ndarray:
    finite: np.ndarray = np.isfinite(space.low) & np.isfinite(space.high)
    return finite


def clip_action(action: Any, action_space: Any) -> Any:
    return _by_box(action, action_space, lambda part, box: np.clip(part, box.low, box.high))


def unsquash_action(action: Any, action_space: Any) -> Any:
    """Maps the parts of an action that have a bounded Box from [-1, 1] to its bounds; others are unchanged."""

    def unsquashed(part: Any, box: Box) -> Any:
        inside = box.low + (np.clip(part, -1.0, 1.0) + 1.0) * (box.high - box.low) / 2.0
        inside = np.clip(inside, box.low, box.high)
        if np.issubdtype(box.dtype, np.integer):
            inside = np.rint(inside)
        return np.where(_bounded(box), inside, part).astype(box.dtype)

    return _by_box(action, action_space, unsquashed)


def normalize_action(action: Any, action_space: Any) -> Any:
    """Maps the parts of an action that have a bounded Box from its bounds to [-1, 1]; others are unchanged."""

    def normalized(part: Any, box: Box) -> Any:
        width = np.where(_bounded(box) & (box.high > box.low), box.high - box.low, 1.0)
        return np.where(_bounded(box), (part - box.low) * 2.0 / width - 1.0, part).astype(np.float32)

    return _by_box(action, action_space, normalized)
