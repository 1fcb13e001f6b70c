"""Entity sets: observations of a variable number of entities, and their memory layout.

A Gymnasium ``Sequence`` has no bound; an `EntitySet` is one with a maximum number of elements. It is stored as float32
``[max_entities, 1 + k]``: the first column is 1 for a present entity, the others are its k numbers, with categories as
one-hots; absent entities are zeros, and follow the present ones.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import iterate

from rookery.core.errors import SpaceError

ELEMENTS = "Box, Discrete, MultiDiscrete or MultiBinary, or Dict and Tuple of these"
"""Supported spaces of elements, as text."""


class EntitySet(spaces.Sequence):
    """A ``Sequence`` of at most `max_entities` elements, for environments with a known maximum.

    Args:
        space: What one entity looks like.
        max_entities: Maximum number of elements.
        stack: Whether observations come as one array (or dict or tuple of arrays) ``[n, ...]`` instead of a tuple of n.
        seed: Of `sample`.
    """

    def __init__(self, space: spaces.Space[Any], max_entities: int, *, stack: bool = False, seed: Any = None) -> None:
        if isinstance(max_entities, bool) or not isinstance(max_entities, int | np.integer) or max_entities < 1:
            raise ValueError(f"EntitySet: max_entities is {max_entities!r}, it must be an integer of at least 1")
        super().__init__(space, seed, stack)
        self.max_entities = int(max_entities)

    def generate_sample_length(self, length_mask: Any, mask_type: str | None) -> int:
        """Returns the number of elements of a sample with a mask; never more than the maximum."""
        return min(int(super().generate_sample_length(length_mask, mask_type)), self.max_entities)

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """Returns a random set whose size is uniform in 0 to `max_entities`, unless a mask sets the size."""
        if mask is None and probability is None:
            mask = (self.np_random.integers(self.max_entities + 1), None)
        return super().sample(mask, probability)

    def contains(self, x: Any) -> bool:
        """Returns whether `x` is a sequence of such elements that is not too long."""
        if not super().contains(x):
            return False
        elements = iterate(self.stacked_feature_space, x) if self.stack else x
        return sum(1 for _ in elements) <= self.max_entities

    def __repr__(self) -> str:
        return f"EntitySet({self.feature_space}, {self.max_entities}, stack={self.stack})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EntitySet) and super().__eq__(other) and self.max_entities == other.max_entities

    __hash__ = None  # type: ignore[assignment]  # as of all spaces


def bounded(space: spaces.Space[Any], max_entities: int | None) -> spaces.Space[Any]:
    """Returns the space with each ``Sequence`` replaced by an `EntitySet`; the same space if it has none.

    Args:
        space: An observation space.
        max_entities: Room for the elements of a Sequence that does not say itself how many there are; None leaves it
            as it is.
    """
    if isinstance(space, spaces.Dict):
        inside = {key: bounded(part, max_entities) for key, part in space.spaces.items()}
        if all(inside[key] is part for key, part in space.spaces.items()):
            return space
        return spaces.Dict(OrderedDict(inside))  # ordered, because the order of a plain dict is that of its sorted keys
    if isinstance(space, spaces.Tuple):
        parts = [bounded(part, max_entities) for part in space.spaces]
        return space if all(a is b for a, b in zip(parts, space.spaces, strict=True)) else spaces.Tuple(parts)
    if isinstance(space, spaces.Sequence) and not isinstance(space, EntitySet) and max_entities is not None:
        return EntitySet(space.feature_space, max_entities, stack=space.stack)
    return space


@dataclass(frozen=True)
class Part:
    """Simple space within an element, and its columns of an entity.

    Attributes:
        keys: Its path in an element; empty if it is the element.
        kind: ``numbers`` (Box, MultiBinary) or ``categories`` (Discrete, MultiDiscrete).
        shape: Its shape.
        start: Its first column.
        width: Number of columns.
        sizes: Number of options of each category.
        first: Smallest category in the environment's own numbering.
        scale: What numbers are divided by: the upper bound of bytes, else 1.
    """

    keys: tuple[Any, ...]
    kind: Literal["numbers", "categories"]
    shape: tuple[int, ...]
    start: int
    width: int
    sizes: tuple[int, ...] = ()
    first: Any = 0
    scale: float = 1.0


@dataclass(frozen=True)
class EntityLayout:
    """Memory layout of the entities of a set.

    Attributes:
        path: Path of the set in the observation.
        max_entities: Maximum number of entities.
        stack: Whether they come as arrays ``[n, ...]``.
        parts: What one consists of.
    """

    path: str
    max_entities: int
    stack: bool
    parts: tuple[Part, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of a stored set, ``[max_entities, 1 + k]``."""
        return self.max_entities, self.parts[-1].start + self.parts[-1].width

    def write(self, value: Any, rows: np.ndarray) -> None:
        """Stores one set.

        Args:
            value: The set as the environment gave it.
            rows: ``[max_entities, 1 + k]`` float32, to write to.

        Raises:
            SpaceError: If there are too many, or one does not fit the space.
        """
        num = -1
        for part in self.parts:
            column = self._column(part, value)
            if num not in (-1, len(column)):
                raise SpaceError(f"{self.path}: {len(column)} and {num} entities in different parts of one set")
            num = len(column)
            if num > self.max_entities:
                room = f"there is room for {self.max_entities}; set env.max_entities={num} or more"
                own = "an EntitySet of the environment says its own max_entities"
                raise SpaceError(f"{self.path}: {num} entities where {room} ({own})")
            self._fill(part, column, rows[:num, part.start : part.start + part.width])
        rows[:num, 0] = 1.0
        rows[num:] = 0.0

    def _column(self, part: Part, value: Any) -> np.ndarray:
        """Returns one part of all entities, ``[n, *shape]``."""
        try:
            if part.keys and not self.stack:
                value = [_inside(element, part.keys) for element in value]
            elif part.keys:
                value = _inside(value, part.keys)
            column = np.asarray(value)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            detail = f"{type(error).__name__}: {error}"
            raise SpaceError(f"{self.path}: {_named(part)} cannot be read from all entities ({detail})") from None
        if column.ndim and len(column) == 0:
            return np.zeros((0, *part.shape), np.float32 if part.kind == "numbers" else np.int64)
        if column.ndim == 0 or column.shape[1:] != part.shape:
            inner = ", ".join(("n", *map(str, part.shape)))
            raise SpaceError(f"{self.path}: {_named(part)} have shape {column.shape} where the space says ({inner})")
        if column.dtype.kind not in ("fiub" if part.kind == "numbers" else "iub"):
            raise SpaceError(f"{self.path}: {_named(part)} have dtype {column.dtype}, expected {part.kind}")
        return column

    def _fill(self, part: Part, column: np.ndarray, target: np.ndarray) -> None:
        """Writes ``[n, *shape]`` into ``[n, width]``."""
        num = len(column)
        if part.kind == "numbers":
            target[...] = column.reshape(num, part.width)
            if part.scale != 1.0:
                target /= part.scale
            return
        chosen = (column.astype(np.int64) - part.first).reshape(num, len(part.sizes))
        wrong = (chosen < 0) | (chosen >= part.sizes)
        if wrong.any():
            raise SpaceError(f"{self.path}: category {column.reshape(num, -1)[wrong][0]} is outside the space")
        target[...] = 0.0
        offsets = np.cumsum((0, *part.sizes[:-1]))
        np.put_along_axis(target, chosen + offsets, 1.0, axis=1)


def entity_layout(space: spaces.Sequence, path: str) -> EntityLayout | None:
    """Returns the memory layout of the sets of a space; None if its elements are not supported.

    Args:
        space: The set.
        path: Path in the observation.

    Raises:
        SpaceError: If it does not define a maximum number of elements.
    """
    parts: list[Part] = []

    def walk(part: spaces.Space[Any], keys: tuple[Any, ...]) -> bool:
        start = 1 + sum(other.width for other in parts)
        if isinstance(part, spaces.Dict | spaces.Tuple):
            items = part.spaces.items() if isinstance(part, spaces.Dict) else enumerate(part.spaces)
            return all(walk(inner, (*keys, key)) for key, inner in items)
        if isinstance(part, spaces.Discrete):
            parts.append(Part(keys, "categories", (), start, int(part.n), (int(part.n),), int(part.start)))
        elif isinstance(part, spaces.MultiDiscrete):
            sizes = tuple(int(n) for n in part.nvec.ravel())
            first = np.asarray(part.start) if np.any(part.start) else 0
            parts.append(Part(keys, "categories", part.shape, start, sum(sizes), sizes, first))
        elif isinstance(part, spaces.Box | spaces.MultiBinary):
            assert part.shape is not None
            bytes_of = part.high if isinstance(part, spaces.Box) and part.dtype == np.uint8 else 1
            scale, width = float(np.max(bytes_of, initial=1)), int(np.prod(part.shape))
            parts.append(Part(keys, "numbers", part.shape, start, width, scale=scale))
        else:
            return False
        return parts[-1].width > 0

    if not walk(space.feature_space, ()) or not parts:
        return None
    if not isinstance(space, EntitySet):
        way_out = "set env.max_entities, or make it a rookery.EntitySet(space, max_entities)"
        raise SpaceError(f"{path}: a Sequence does not say how many elements there are at most; {way_out}")
    return EntityLayout(path, space.max_entities, space.stack, tuple(parts))


def _inside(value: Any, keys: tuple[Any, ...]) -> Any:
    for key in keys:
        value = value[key]
    return value


def _named(part: Part) -> str:
    return f"{'/'.join(map(str, part.keys))!r} of its entities" if part.keys else "its entities"
