"""Memory layouts of observations and actions of any Gymnasium space.

An observation becomes a *tree*: a flat dict from leaf path to array. A plain space has the one leaf ``"obs"``; Dict and
Tuple spaces have a leaf for each space inside, named by its path (``"camera/left"``, ``"0/1"``). An action mask is a
leaf too, ``"action_mask"`` (True = allowed); it is never fed to a network as an observation. The part under the key
``"central"`` of a Dict is for critics only: policies do not observe it, so they can act without it. No torch here:
`envs/` builds on this file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from gymnasium import spaces

from rookery.core.errors import SpaceError
from rookery.core.spaces.entity_set import ELEMENTS, EntityLayout, entity_layout

Tree = dict[str, np.ndarray]

MASK = "action_mask"

CENTRAL = "central"
"""Key of a Dict observation for the part that only critics observe."""

CENTRAL_ACTED = f"{CENTRAL}/acted"
"""Path of the flag for whether a row's agent still acts, if groups are shown (`envs/groups.py`)."""

CATEGORIES = ("discrete", "multi_discrete")
"""Kinds of leaves with one of several categories, stored from 0."""

USABLE = "Discrete, MultiDiscrete, MultiBinary or Box, or Dict and Tuple of these"
"""Supported action spaces, as text."""


SMALLEST_IMAGE = 3
"""Minimum side of an image in pixels; three-dimensional boxes with a shorter side are read as vectors."""


def image_axes(shape: tuple[int, ...]) -> tuple[int, int, int, bool] | None:
    """Returns channels, height, width, and whether channels come last, of a box of this shape; None if it is not an
    image.

    An image has three dimensions. Its channels are the shorter of the first and the last axis, the last if they are
    equal; the other two are at least 3 pixels long.
    """
    if len(shape) != 3:
        return None
    first, middle, last = shape
    channels_last = last <= first
    channels, height, width = (last, first, middle) if channels_last else (first, middle, last)
    return (channels, height, width, channels_last) if min(height, width) >= SMALLEST_IMAGE else None


@dataclass(frozen=True)
class Leaf:
    """One array of an observation.

    Attributes:
        path: Path in the observation, ``"obs"`` for a plain space.
        kind: Kind of values, for encoders: ``box`` (numbers), ``discrete`` and ``multi_discrete`` (categories, stored
            from 0), ``multi_binary`` (flags), ``entities`` (a set of things, see `core/spaces/entity_set.py`), ``mask``
            (allowed actions).
        shape: Shape of one stored observation; ``()`` for Discrete.
        dtype: Type it is stored in: float32, uint8, int64 or bool.
        sizes: Categories of each element of a ``discrete`` or ``multi_discrete`` leaf; of a ``mask``, the choices of
            each action element, whose flags are concatenated; else empty.
        scale: Divisor of a uint8 box when it is encoded: its upper bound (255 for images); else 1.
        start: Smallest category in the environment's own numbering, subtracted when stored (an array for
            MultiDiscrete).
        entities: Of a set of entities, how these are stored.
    """

    path: str
    kind: Literal["box", "discrete", "multi_discrete", "multi_binary", "entities", "mask"]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    sizes: tuple[int, ...] = ()
    scale: float = 1.0
    start: Any = 0
    entities: EntityLayout | None = None

    @property
    def is_image(self) -> bool:
        """Whether the leaf is an image: a uint8 box with height, width and channels in either order."""
        return self.kind == "box" and len(self.shape) == 3 and self.dtype == np.uint8

    @property
    def is_central(self) -> bool:
        """Whether only critics observe this leaf."""
        return self.path == CENTRAL or self.path.startswith(f"{CENTRAL}/")


@dataclass(frozen=True, eq=False)
class ObsSpec:
    """Layout of one agent's observations. Two specs are equal if their leaves are.

    Attributes:
        space: The environment's own space.
        leaves: The arrays an observation is stored in; the mask, if there is one, comes last.
        dropped: ``path: reason`` for each part of the space that cannot be used (text, say).
    """

    space: spaces.Space[Any]
    leaves: tuple[Leaf, ...]
    dropped: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, ObsSpec) and repr(self.leaves) == repr(other.leaves))

    def __hash__(self) -> int:
        return hash(repr(self.leaves))

    @property
    def has_mask(self) -> bool:
        """Whether the observations contain an action mask."""
        return self.leaves[-1].kind == "mask"

    @property
    def own(self) -> ObsSpec:
        """Returns the layout that policies observe: without the critics' part."""
        return self.without(CENTRAL)

    def without(self, *paths: str) -> ObsSpec:
        """Returns the layout without the parts at these paths; the same object if it has none of them."""
        left_out = {leaf.path for leaf in self.leaves if any(f"{leaf.path}/".startswith(f"{path}/") for path in paths)}
        if not left_out:
            return self
        leaves = tuple(leaf for leaf in self.leaves if leaf.path not in left_out)
        return ObsSpec(_pruned(self.space, "", paths), leaves, self.dropped)

    def is_within(self, other: ObsSpec) -> bool:
        """Whether observations of another layout fit this one, apart from their additional parts for critics."""
        return self == other or (self.own == other.own and {*map(repr, self.leaves)} <= {*map(repr, other.leaves)})

    def allocate(self, *leading: int) -> Tree:
        """Returns zeroed arrays for `leading` observations, ``[*leading, *leaf.shape]`` each; a mask starts as all
        allowed.
        """
        return {leaf.path: np.full((*leading, *leaf.shape), leaf.kind == "mask", leaf.dtype) for leaf in self.leaves}

    def write(self, obs: Any, tree: Tree, row: int, mask: Any = None) -> None:
        """Stores one observation of the environment in row `row` of `tree`.

        Args:
            obs: The observation as the environment gave it.
            tree: Arrays from `allocate`.
            row: Where to write.
            mask: The action mask, when the environment gives it in `info` instead of in the observation.

        Raises:
            SpaceError: If a part is missing or has another shape or a type that does not fit; names the part.
        """
        for leaf in self.leaves:
            value = mask if leaf.kind == "mask" and mask is not None else part_of(obs, leaf.path)
            if leaf.kind == "mask" and isinstance(value, tuple | list):
                value = np.concatenate([np.asarray(part).ravel() for part in value])
            if leaf.entities is not None:
                leaf.entities.write(value, tree[leaf.path][row])
                continue
            array = value if isinstance(value, np.ndarray) else np.asarray(value)
            if array.shape != leaf.shape:
                if leaf.kind != "discrete" or array.size != 1:
                    raise SpaceError(
                        f"{leaf.path}: shape {array.shape} where the space says {leaf.shape}{_hint(value)}"
                    )
                array = array.reshape(())  # a Discrete observation is often an array of one element
            if array.dtype != leaf.dtype or leaf.kind in CATEGORIES:
                array = _stored(array, leaf)
            tree[leaf.path][row] = array

    def read(self, obs: Any, mask: Any = None) -> tuple[Tree, bool]:
        """Returns observations of the environment, one or a batch, as arrays ``[N, *leaf.shape]``; and whether it was a
        batch.

        Args:
            obs: One observation, or N of them stacked leaf by leaf in the structure of the space; of sets of entities,
                a list or tuple of N.
            mask: The action mask, when the environment gives it in `info` instead of in the observation.

        Raises:
            SpaceError: If a part is missing or has another shape or a type that does not fit; names the part.
        """
        num = self._batch_size(obs)
        if num is None:
            tree = self.allocate(1)
            self.write(obs, tree, 0, mask)
            return tree, False
        tree = self.allocate(num)
        for leaf in self.leaves:
            value = mask if leaf.kind == "mask" and mask is not None else part_of(obs, leaf.path)
            if leaf.kind == "mask" and isinstance(value, tuple | list):
                value = np.concatenate([np.asarray(part).reshape(num, -1) for part in value], axis=1)
            if leaf.entities is not None:
                if len(value) != num:
                    raise SpaceError(f"{leaf.path}: {len(value)} sets in a batch of {num} observations")
                for one, rows in zip(value, tree[leaf.path], strict=True):
                    leaf.entities.write(one, rows)
                continue
            array = np.asarray(value)
            if array.shape != (num, *leaf.shape):
                raise SpaceError(f"{leaf.path}: shape {array.shape} (expected {(num, *leaf.shape)} in this batch)")
            tree[leaf.path][:] = _stored(array, leaf)
        return tree, True

    def _batch_size(self, obs: Any) -> int | None:
        """Returns the batch size of `obs`; None if it is one observation. Raises SpaceError if it is neither."""
        first = next((leaf for leaf in self.leaves if leaf.kind not in ("entities", "mask")), self.leaves[0])
        value = part_of(obs, first.path)
        if first.entities is not None:  # nothing but sets: a set is what can be read as one
            try:
                first.entities.write(value, self.allocate(1)[first.path][0])
            except SpaceError:
                if not isinstance(value, tuple | list | np.ndarray) or not len(value):
                    raise
                first.entities.write(value[0], self.allocate(1)[first.path][0])
                return len(value)
            return None
        shape = np.shape(value)
        if shape == first.shape:
            return None
        num = shape[0] if shape else 0
        if shape != (num, *first.shape):
            batch = ", ".join(("N", *map(str, first.shape)))
            raise SpaceError(
                f"{first.path}: shape {shape} (expected {first.shape}, or ({batch}) for a batch){_hint(value)}"
            )
        return num

    def to_env(self, tree: Tree) -> Any:
        """Returns stored observations ``[N, ...]`` in the structure of the space, leaf by leaf, as `read` takes them.

        Parts that cannot be used are left out, and sets of entities stay as they are stored.
        """
        leaves = {leaf.path: leaf for leaf in self.leaves}

        def shown(space: spaces.Space[Any], path: str) -> Any:
            if isinstance(space, spaces.Dict | spaces.Tuple):
                items = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
                parts = {key: shown(part, f"{path}/{key}" if path else str(key)) for key, part in items}
                used = {key: part for key, part in parts.items() if part is not None}
                return used if isinstance(space, spaces.Dict) else tuple(used.values())
            leaf = leaves.get(path or "obs")
            if leaf is None or leaf.entities is not None:
                return None if leaf is None else tree[leaf.path]
            value = tree[leaf.path]
            value = value + leaf.start if leaf.kind in CATEGORIES else value.reshape(len(value), *(space.shape or ()))
            return value.astype(space.dtype, copy=False)

        return shown(self.space, "")

    def check(self, tree: Tree, rows: np.ndarray | slice, names: Mapping[str, str] | None = None) -> str:
        """Describes invalid values in `rows` of `tree` (non-finite numbers, unknown categories), or returns an empty
        string. `names` has other names of leaves, by path, for the description.
        """
        for leaf in self.leaves:
            value, name = tree[leaf.path][rows], (names or {}).get(leaf.path, leaf.path)
            if leaf.kind in ("box", "entities") and leaf.dtype.kind == "f":
                if False in np.isfinite(value).tobytes():  # faster than `all`
                    bad = value[~np.isfinite(value)][0]
                    return f"{name}: non-finite observation {bad} (expected finite numbers)"
            elif leaf.kind in CATEGORIES:
                sizes = np.asarray(leaf.sizes).reshape(leaf.shape)
                wrong = (value < 0) | (value >= sizes)
                if wrong.any():
                    category = (value + leaf.start)[wrong][0]
                    return f"{name}: category {category} is outside the space (expected {_categories(leaf)})"
            elif leaf.kind == "multi_binary":
                if (value > 1).any():
                    return f"{name}: flag {value.max()} (expected 0 or 1)"
            elif leaf.kind == "mask":
                starts = np.cumsum((0, *leaf.sizes[:-1]))
                if not np.logical_or.reduceat(value, starts, axis=-1).all():
                    return f"{name}: no action is allowed (expected at least one)"
        return ""


def _hint(value: Any) -> str:
    """Returns the remedy for a dictionary, such as one by agent, in place of an array; empty for other values."""
    if not isinstance(value, Mapping):
        return ""
    return (
        f"; it is a dictionary with {', '.join(map(repr, value))}: an observation is that of one agent, and an "
        "environment of several agents has possible_agents, observation_spaces and action_spaces"
    )


def _pruned(space: spaces.Space[Any], path: str, left_out: Collection[str]) -> spaces.Space[Any]:
    """Returns a space without the entries of its Dicts at these paths."""
    if not isinstance(space, spaces.Dict):
        return space
    inside = {key: f"{path}/{key}" if path else str(key) for key in space.spaces}
    return spaces.Dict(
        {key: _pruned(part, inside[key], left_out) for key, part in space.spaces.items() if inside[key] not in left_out}
    )


def part_of(obs: Any, path: str) -> Any:
    """Returns the part of an observation at a leaf path."""
    if path == "obs" and not (isinstance(obs, Mapping) and "obs" in obs):
        return obs
    rest = path
    while rest:
        if isinstance(obs, Mapping) and rest in obs:  # the whole rest first, because a key may have a slash in it
            return obs[rest]
        key, _, rest = rest.partition("/")
        try:
            obs = obs[key] if isinstance(obs, Mapping) and key in obs else obs[int(key)]
        except (KeyError, IndexError, TypeError, ValueError):
            raise SpaceError(f"{path}: missing from the observation") from None
    return obs


def _stored(array: np.ndarray, leaf: Leaf) -> np.ndarray:
    """Converts the values of one leaf to the stored type, if that is possible without loss."""
    if array.dtype != leaf.dtype:
        whole = leaf.kind in ("discrete", "multi_discrete", "multi_binary")
        if array.dtype.kind not in ("iub" if whole else "" if leaf.dtype == np.uint8 else "fiub"):
            raise SpaceError(f"{leaf.path}: dtype {array.dtype} where the space gives {leaf.kind} ({leaf.dtype})")
    if leaf.kind in CATEGORIES:
        array = array.astype(np.int64) - leaf.start  # first wide, because a small or unsigned type would wrap around
    return array


def _categories(leaf: Leaf) -> str:
    if leaf.kind == "discrete":
        return f"{leaf.start} to {leaf.start + leaf.sizes[0] - 1}"
    return f"below {(np.asarray(leaf.sizes).reshape(leaf.shape) + leaf.start).tolist()}"


def obs_spec(space: spaces.Space[Any], action: spaces.Space[Any], *, info_mask: bool = False) -> ObsSpec:
    """Returns the layout of observations of `space`.

    Args:
        space: Observation space: Box, Discrete, MultiDiscrete, MultiBinary, EntitySet, or Dict and Tuple of these,
            nested.
        action: Action space; a Dict entry ``action_mask``, which must fit it, is lifted out as the mask.
        info_mask: The environment gives the action mask in `info`.

    Raises:
        SpaceError: If no part of the space can be used, a ``Sequence`` does not say how many elements it may have, or
            a mask does not fit the actions.
    """
    leaves: list[Leaf] = []
    dropped: list[str] = []
    width = mask_width(action)
    mask_leaf = Leaf(MASK, "mask", (width,), np.dtype(bool), _choices(action))
    mask: list[Leaf] = [mask_leaf] if info_mask else []

    def walk(part: spaces.Space[Any], path: str) -> None:
        name = path or "obs"
        if isinstance(part, spaces.Dict | spaces.Tuple):
            items = part.spaces.items() if isinstance(part, spaces.Dict) else enumerate(part.spaces)
            for key, inner in items:
                inside = f"{path}/{key}" if path else str(key)
                if key == MASK and not path:
                    _check_mask(inner, action, width)
                    mask[:] = [mask_leaf]
                else:
                    walk(inner, inside)
        elif isinstance(part, spaces.Box):
            if part.dtype == np.uint8:
                scale = float(np.max(part.high, initial=1))
                leaves.append(Leaf(name, "box", part.shape, np.dtype(np.uint8), scale=scale))
            else:
                leaves.append(Leaf(name, "box", part.shape, np.dtype(np.float32)))
        elif isinstance(part, spaces.Discrete):
            leaves.append(Leaf(name, "discrete", (), np.dtype(np.int64), (int(part.n),), start=int(part.start)))
        elif isinstance(part, spaces.MultiDiscrete):
            start = np.asarray(part.start) if np.any(part.start) else 0
            sizes = tuple(int(n) for n in part.nvec.ravel())
            leaves.append(Leaf(name, "multi_discrete", part.shape, np.dtype(np.int64), sizes, start=start))
        elif isinstance(part, spaces.MultiBinary):
            leaves.append(Leaf(name, "multi_binary", part.shape, np.dtype(np.uint8)))
        elif isinstance(part, spaces.Sequence):
            layout = entity_layout(part, name)
            if layout is None:
                dropped.append(f"{name}: sets of {part.feature_space} cannot be used, their elements may be {ELEMENTS}")
            else:
                leaves.append(Leaf(name, "entities", layout.shape, np.dtype(np.float32), entities=layout))
        else:
            dropped.append(f"{name}: {type(part).__name__} observations cannot be used")

    walk(space, "")
    if not any(np.prod(leaf.shape, dtype=np.int64) for leaf in leaves if not leaf.is_central):
        reason = "; ".join(dropped) or "it is empty: where there is nothing to see, give a constant, as Discrete(1) has"
        raise SpaceError(f"no part of the observation space {space} can be used; {reason}")
    return ObsSpec(space, (*leaves, *mask), tuple(dropped))


def _check_mask(space: spaces.Space[Any], action: spaces.Space[Any], width: int) -> None:
    """Raises a SpaceError if the entry ``action_mask`` of observations is not an action mask of `width` flags."""
    check_maskable(action, "the observation")
    flags = isinstance(space, spaces.Box | spaces.MultiBinary) and int(np.prod(space.shape or (0,)))
    if flags != width:
        raise SpaceError(
            f"{MASK}: {space} is no mask of actions of {action}, which needs {width} flags, as in "
            f"MultiBinary({width}); give it so many, or give that entry of the observation another name than {MASK}"
        )


def check_maskable(action: spaces.Space[Any], place: str) -> None:
    """Raises a SpaceError if masked actions are not discrete.

    Args:
        action: Space of the actions.
        place: Where the mask is an entry.
    """
    if not mask_width(action):
        raise SpaceError(
            f"{MASK}: actions of {action} have no choices that a mask could allow; leave it out, or give that entry of "
            f"{place} another name than {MASK}"
        )


def mask_width(action: spaces.Space[Any]) -> int:
    """Returns the number of flags in an action mask of `action`: n for Discrete, the sum of nvec for MultiDiscrete, the
    sum over the parts for Dict and Tuple, 0 for others.
    """
    return sum(_choices(action))


def _choices(action: spaces.Space[Any]) -> tuple[int, ...]:
    """Returns the number of options of each discrete element of an action; empty for other actions."""
    if isinstance(action, spaces.Discrete):
        return (int(action.n),)
    if isinstance(action, spaces.MultiDiscrete):
        return tuple(int(n) for n in action.nvec.ravel())
    return tuple(size for _, part in _parts(action) for size in _choices(part))


def _parts(space: spaces.Space[Any], path: str = "") -> list[tuple[str, spaces.Space[Any]]]:
    """Returns the spaces nested in a Dict or Tuple by path; empty for other spaces."""
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return []
    found = []
    for key, part in space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces):
        inside = f"{path}{key}"
        nested = isinstance(part, spaces.Dict | spaces.Tuple)
        found += _parts(part, f"{inside}/") if nested else [(inside, part)]
    return found


LARGEST = 2**24
"""Maximum number of options of an element of a composite action: stored as float32, which holds integers up to this."""


@dataclass(frozen=True, eq=False)
class ActionSpec:
    """Layout of one agent's actions: a vector of integers or floats, and its conversion to the environment's actions.

    The elements of an action are of three sorts: choices (one of several), flags (yes or no) and numbers. A Dict or
    Tuple space is a *composite*: one float32 vector of all choices, then all flags, then all numbers, each in the order
    of the parts. An action mask has the flags of all choices in that order.

    A Box action is stored as the policy drew it. Elements with two finite bounds are in [-1, 1] and are clipped and
    rescaled to the bounds when the environment gets them; other elements are clipped to the bounds they have.

    Attributes:
        space: The environment's own space.
        kind: ``discrete``, ``multi_discrete``, ``multi_binary``, ``box`` or ``composite``.
        shape: Shape of one stored action: ``()`` for Discrete, else a flat vector.
        dtype: int64, or float32 for a box or composite.
        sizes: Number of options of each discrete element.
        num_flags: Number of flags.
        num_numbers: Number of continuous elements.
        parts: Of a composite, the layouts of the spaces inside, each with the elements of the vector that are its own.
    """

    space: spaces.Space[Any]
    kind: Literal["discrete", "multi_discrete", "multi_binary", "box", "composite"]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    sizes: tuple[int, ...] = ()
    num_flags: int = 0
    num_numbers: int = 0
    parts: tuple[tuple[ActionSpec, slice], ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActionSpec) and bool(self.space == other.space)

    def __hash__(self) -> int:
        return hash((self.kind, self.shape, self.sizes))

    @property
    def num_parameters(self) -> int:
        """Number of parameters of a distribution over such actions: logits, means, and the log of the spread of each
        mean.
        """
        return sum(self.sizes) + self.num_flags + 2 * self.num_numbers

    def to_env(self, action: np.ndarray) -> np.ndarray:
        """Converts stored actions ``[N, *shape]`` to the environment's actions ``[N, *space.shape]``.

        For a composite: ``[N]`` objects, each a dict or tuple of its own, with arrays of its own in it.
        """
        if isinstance(self.space, spaces.Discrete):
            return action + self.space.start if self.space.start else action
        if self.kind == "composite":
            return self._composed(action)
        assert self.space.shape is not None
        shaped = action.reshape(len(action), *self.space.shape)
        if isinstance(self.space, spaces.MultiDiscrete):
            return np.asarray((shaped + self.space.start).astype(self.space.dtype, copy=False))
        if isinstance(self.space, spaces.MultiBinary):
            return shaped.astype(self.space.dtype)
        return self._within_bounds(shaped)

    def _within_bounds(self, shaped: np.ndarray) -> np.ndarray:
        """Returns the values of a Box ``[N, *space.shape]``, clipped and rescaled to the bounds."""
        assert isinstance(self.space, spaces.Box)
        low, high, scaled, center, half = self._bounds
        in_range = np.minimum(np.maximum(shaped, -1.0), 1.0)  # faster than np.clip
        if not self._is_unit:
            in_range = center + half * in_range
        shaped = in_range if self.is_bounded else np.where(scaled, in_range, np.clip(shaped, low, high))
        if self.space.dtype.kind in "iu":
            shaped = np.rint(shaped)
        return np.asarray(shaped.astype(self.space.dtype, copy=False))

    def from_env(self, action: Any) -> np.ndarray:
        """Converts the environment's actions ``[N, *space.shape]`` to stored actions ``[N, *shape]``; the inverse of
        `to_env`.

        A number that has two bounds is stored in units of half its range, as closely as float32 can (exactly where that
        is a power of two around 0), and not beyond the bounds. For a composite: N dicts or tuples.

        Raises:
            SpaceError: If one does not fit the space; names its index, from 0.
        """
        if self.kind == "composite":
            values = [list(flat_action(self.space, one)) for one in action]
            stored = np.zeros((len(values), *self.shape), self.dtype)
            for number, (part, mine) in enumerate(self.parts):
                column = np.array([value[number] for value in values]).reshape(len(values), *(part.space.shape or ()))
                stored[:, mine] = part.from_env(column).reshape(len(values), -1)
            return stored
        array, shape = np.asarray(action), tuple(self.space.shape or ())
        if array.shape[1:] != shape and not (self.kind == "discrete" and array.size == len(array)):
            raise SpaceError(f"actions have shape {array.shape[1:]} where {self.space} says {shape}")
        array = array.reshape(len(array), *self.shape)
        if array.dtype.kind not in "fiub":
            raise SpaceError(f"actions have the type {array.dtype} where {self.space} says {self.space.dtype}")
        bad = ~np.isfinite(array)
        if self.kind != "box":
            array = array - np.asarray(getattr(self.space, "start", 0)).reshape(self.shape if self.sizes else ())
            most = np.array(self.sizes or 2).reshape(self.shape if self.sizes else ())
            bad = bad | (array < 0) | (array >= most) | (array != np.rint(array))
        if bad.any():
            row = int(np.argmax(bad.reshape(len(bad), -1).any(axis=1)))
            raise SpaceError(f"action {row} is {np.asarray(action)[row]}, which is not in {self.space}")
        if self.kind == "box":
            _, _, scaled, center, half = (part.ravel() for part in self._bounds)
            in_units = np.clip((array - center) / np.where(half == 0, 1.0, half), -1.0, 1.0)
            array = np.where(scaled, in_units, array)
        return array.astype(self.dtype)

    def _composed(self, action: np.ndarray) -> np.ndarray:
        """Converts vectors ``[N, elements]`` to Dicts and Tuples ``[N]``."""
        num = len(action)
        columns = [
            part.to_env(action[:, mine].astype(part.dtype).reshape(num, *part.shape)) for part, mine in self.parts
        ]
        composed = np.empty(num, dtype=object)
        for row in range(num):
            composed[row] = nested(self.space, iter([column[row] for column in columns]))
        return composed

    @cached_property
    def _bounds(self) -> tuple[np.ndarray, ...]:
        assert isinstance(self.space, spaces.Box)
        low, high = self.space.low.astype(np.float64), self.space.high.astype(np.float64)
        scaled = np.isfinite(low) & np.isfinite(high)
        top, bottom = np.where(scaled, high, 0) / 2, np.where(scaled, low, 0) / 2  # halves cannot overflow
        return low, high, scaled, top + bottom, np.where(scaled, top - bottom, 1)

    @cached_property
    def _is_unit(self) -> bool:
        """Whether the bounds of all elements of an action are -1 and 1, so that no element is rescaled."""
        _, _, scaled, center, half = self._bounds
        return bool(scaled.all() and (center == 0.0).all() and (half == 1.0).all())

    @cached_property
    def scale(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Midpoints and half-widths of a box with two bounds per element; None if all bounds are -1 and 1."""
        return None if self._is_unit else (self._bounds[3], self._bounds[4])

    @cached_property
    def is_bounded(self) -> bool:
        """Whether all elements of an action have two bounds."""
        return bool(self._bounds[2].all())


def nested(space: spaces.Space[Any], values: Iterator[Any]) -> Any:
    """Returns one action in the structure of `space`, built from consecutive `values`."""
    if isinstance(space, spaces.Dict):
        return {key: nested(part, values) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(nested(part, values) for part in space.spaces)
    value = next(values)
    return value if isinstance(space, spaces.Discrete) else np.array(value)  # no view of memory that others share


def flat_action(space: spaces.Space[Any], action: Any) -> Iterator[Any]:
    """Returns the values of a nested action, in the order of `nested`."""
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            yield from flat_action(part, action[key])
    elif isinstance(space, spaces.Tuple):
        for part, value in zip(space.spaces, action, strict=True):
            yield from flat_action(part, value)
    else:
        yield action


def action_spec(space: spaces.Space[Any]) -> ActionSpec:
    """Returns the layout of actions of `space`: Discrete, MultiDiscrete, MultiBinary, Box, or Dict and Tuple of these,
    nested.

    Raises:
        SpaceError: For any other space, and for one in which there is nothing to decide.
    """
    spec = _action_spec(space)
    if not np.prod(spec.shape, dtype=np.int64):
        raise SpaceError(f"action space {space} is empty: use {USABLE}")
    return spec


def _action_spec(space: spaces.Space[Any]) -> ActionSpec:
    """Returns the layout of actions of `space`, which may be a part without elements."""
    integer, real = np.dtype(np.int64), np.dtype(np.float32)
    sizes, count = _choices(space), int(np.prod(space.shape or ()))
    if isinstance(space, spaces.Discrete):
        return ActionSpec(space, "discrete", (), integer, sizes)
    if isinstance(space, spaces.MultiDiscrete):
        return ActionSpec(space, "multi_discrete", (len(sizes),), integer, sizes)
    if isinstance(space, spaces.MultiBinary):
        return ActionSpec(space, "multi_binary", (count,), integer, num_flags=count)
    if isinstance(space, spaces.Box):
        return ActionSpec(space, "box", (count,), real, num_numbers=count)
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        raise SpaceError(f"action space {space}: use {USABLE}")
    if not (inside := _parts(space)):
        raise SpaceError(f"action space {space} is empty: use {USABLE}")
    specs = []
    for path, part in inside:
        try:
            specs.append(_action_spec(part))
        except SpaceError as error:
            raise SpaceError(f"part {path!r} of the action space: {error}") from None
        if max(specs[-1].sizes, default=0) > LARGEST:
            raise SpaceError(f"part {path!r} of the action space: {part} has more than {LARGEST:,} choices")
    num_flags, num_numbers = sum(spec.num_flags for spec in specs), sum(spec.num_numbers for spec in specs)
    ends = [0, len(sizes), len(sizes) + num_flags]  # where the next choices, flags, numbers of a part begin
    parts = []
    for spec in specs:
        sort = 0 if spec.sizes else 1 if spec.num_flags else 2
        count = len(spec.sizes) + spec.num_flags + spec.num_numbers
        parts.append((spec, slice(ends[sort], ends[sort] + count)))
        ends[sort] += count
    return ActionSpec(space, "composite", (ends[2],), real, sizes, num_flags, num_numbers, tuple(parts))
