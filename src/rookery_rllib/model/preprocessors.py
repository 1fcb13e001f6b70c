"""Preprocessors of RLlib: observations as one flat vector, with categories as one-hots.

A `Preprocessor` transforms one observation of the environment. `RowPreprocessor` does the same for many observations at
once in Rookery's storage (a tree of leaf paths, see `core/spaces/arrays.py`), in NumPy or torch, and back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from rookery.face import MASK, EntityLayout, EntitySet, as_tensor, entity_layout
from rookery_rllib.batch.repeated_values import RepeatedValues
from rookery_rllib.gym.rllib_spaces import UnsupportedSpaceException, holds

ATARI_OBS_SHAPE = (210, 160, 3)
ATARI_RAM_OBS_SHAPE = (128,)

OBS_VALIDATION_INTERVAL = 100
"""One of this number of observations is compared with the space."""

PICTURE_OPTIONS: dict[str, Any] = {"dim": 84, "grayscale": False, "zero_mean": True}
"""Default options of image preprocessing for Atari games."""


class Preprocessor:
    def __init__(self, obs_space: Space[Any], options: Mapping[str, Any] | None = None) -> None:
        self._obs_space = obs_space
        self._options = {**PICTURE_OPTIONS, **(options or {})}
        self.shape = self._init_shape(obs_space, self._options)
        self._size = int(np.prod(self.shape))
        self._i = 0

    def _init_shape(self, obs_space: Space[Any], options: Any) -> tuple[int, ...]:
        raise NotImplementedError

    def transform(self, observation: Any) -> Any:
        raise NotImplementedError

    def write(self, observation: Any, array: np.ndarray, offset: int) -> None:
        array[offset : offset + self._size] = np.asarray(self.transform(observation)).ravel()

    def check_shape(self, observation: Any) -> None:
        """Compares one of `OBS_VALIDATION_INTERVAL` observations with the space."""
        if self._i % OBS_VALIDATION_INTERVAL == 0 and not holds(self._obs_space, observation):
            raise ValueError(f"Observation ({observation}) is outside of the space ({self._obs_space})")
        self._i += 1

    @property
    def size(self) -> int:
        return self._size

    @cached_property
    def observation_space(self) -> Space[Any]:
        """The space of its results; `original_space` is that of the environment if it was flattened."""
        space: Any = Box(-1.0, 1.0, tuple(self.shape), dtype=np.float32)
        if isinstance(self, FLATTENING):
            space.original_space = self._obs_space
        found: Space[Any] = space
        return found


class NoPreprocessor(Preprocessor):
    def _init_shape(self, obs_space: Space[Any], options: Any) -> tuple[int, ...]:
        if obs_space.shape is None:
            name = type(obs_space).__name__
            raise UnsupportedSpaceException(f"observation space {obs_space}: there is no preprocessor for {name}")
        return obs_space.shape

    def transform(self, observation: Any) -> Any:
        self.check_shape(observation)
        return observation

    def write(self, observation: Any, array: np.ndarray, offset: int) -> None:
        array[offset : offset + self._size] = np.asarray(observation).ravel()

    @property
    def observation_space(self) -> Space[Any]:
        return self._obs_space


class OneHotPreprocessor(Preprocessor):
    def _init_shape(self, obs_space: Any, options: Any) -> tuple[int, ...]:
        discrete = isinstance(obs_space, Discrete)
        self._first = np.ravel(obs_space.start)
        sizes = [int(obs_space.n)] if discrete else obs_space.nvec.ravel().tolist()
        self._offsets = np.cumsum([0, *sizes[:-1]]) - self._first
        return (int(sum(sizes)),)

    def transform(self, observation: Any) -> np.ndarray:
        self.check_shape(observation)
        array = np.zeros(self.shape, np.float32)
        array[np.ravel(observation).astype(np.int64) + self._offsets] = 1.0
        return array


class GenericPixelPreprocessor(Preprocessor):
    """Atari images ``[210, 160, 3]``, cropped to the playing field and resized to ``[dim, dim, 3]``, or to grey
    ``[dim, dim, 1]``; numbers from -1 to 1, or from 0 to 1 without ``zero_mean``.
    """

    def _init_shape(self, obs_space: Space[Any], options: Any) -> tuple[int, ...]:
        return (options["dim"], options["dim"], 1 if options["grayscale"] else 3)

    def transform(self, observation: Any) -> np.ndarray:
        self.check_shape(observation)
        shrunk: np.ndarray = _shrunk(torch.from_numpy(np.asarray(observation))[None], self._options)[0].numpy()
        return shrunk


class AtariRamPreprocessor(Preprocessor):
    """The 128 bytes of an Atari game's memory, as numbers from -1 to 1."""

    def _init_shape(self, obs_space: Space[Any], options: Any) -> tuple[int, ...]:
        return ATARI_RAM_OBS_SHAPE

    def transform(self, observation: Any) -> np.ndarray:
        self.check_shape(observation)
        return (np.asarray(observation).astype(np.float32) - 128.0) / 128.0


class _FlatteningPreprocessor(Preprocessor):
    """The parts of an observation, preprocessed, in one vector."""

    def _parts(self, observation: Any) -> list[Any]:
        """Returns the parts of an observation in the order of the space."""
        raise NotImplementedError

    def _init_shape(self, obs_space: Any, options: Any) -> tuple[int, ...]:
        parts = obs_space.spaces.values() if isinstance(obs_space, Dict) else obs_space.spaces
        self.preprocessors = [get_preprocessor(part)(part, options) for part in parts]
        return (sum(part.size for part in self.preprocessors),)

    def transform(self, observation: Any) -> np.ndarray:
        self.check_shape(observation)
        array = np.zeros(self.shape, np.float32)
        self.write(observation, array, 0)
        return array

    def write(self, observation: Any, array: np.ndarray, offset: int) -> None:
        for part, preprocessor in zip(self._parts(observation), self.preprocessors, strict=True):
            preprocessor.write(part, array, offset)
            offset += preprocessor.size


class TupleFlatteningPreprocessor(_FlatteningPreprocessor):
    def _parts(self, observation: Any) -> list[Any]:
        return list(observation)


class DictFlatteningPreprocessor(_FlatteningPreprocessor):
    def _parts(self, observation: Any) -> list[Any]:
        space: Any = self._obs_space
        return [observation[key] for key in space.spaces]


class RepeatedValuesPreprocessor(Preprocessor):
    """A list in one vector: its length, then its elements, preprocessed; zeros where there are none."""

    def _init_shape(self, obs_space: Any, options: Any) -> tuple[int, ...]:
        child = obs_space.feature_space
        self.child_preprocessor = get_preprocessor(child)(child, options)
        return (1 + self.child_preprocessor.size * obs_space.max_entities,)

    def transform(self, observation: Any) -> np.ndarray:
        array = np.zeros(self.shape, np.float32)
        self.write(observation, array, 0)
        return array

    def write(self, observation: Any, array: np.ndarray, offset: int) -> None:
        space: Any = self._obs_space
        if not isinstance(observation, list | tuple):
            raise ValueError(f"{space}: an observation is {type(observation).__name__}, expected a list")
        if len(observation) > space.max_entities:
            raise ValueError(
                f"{space}: {len(observation)} elements in an observation, at most {space.max_entities} fit"
            )
        array[offset] = len(observation)
        offset += 1
        for element in observation:
            self.child_preprocessor.check_shape(element)
            self.child_preprocessor.write(element, array, offset)
            offset += self.child_preprocessor.size


FLATTENING = (
    OneHotPreprocessor,
    TupleFlatteningPreprocessor,
    DictFlatteningPreprocessor,
    RepeatedValuesPreprocessor,
)
"""Preprocessors that flatten, so that their space does not show the parts of an observation."""


def get_preprocessor(space: Space[Any]) -> type[Preprocessor]:
    if isinstance(space, Discrete | MultiDiscrete):
        return OneHotPreprocessor
    if isinstance(space, Tuple):
        return TupleFlatteningPreprocessor
    if isinstance(space, Dict):
        return DictFlatteningPreprocessor
    if isinstance(space, EntitySet):
        return RepeatedValuesPreprocessor
    if space.shape == ATARI_OBS_SHAPE:
        return GenericPixelPreprocessor
    if space.shape == ATARI_RAM_OBS_SHAPE:
        return AtariRamPreprocessor
    return NoPreprocessor


def _shrunk(images: torch.Tensor, options: Mapping[str, Any]) -> torch.Tensor:
    """Resizes images ``[N, 210, 160, 3]`` as `GenericPixelPreprocessor` does, ``[N, dim, dim, channels]`` float32."""
    image = images[:, 25:-25].permute(0, 3, 1, 2).float()
    sides = [options["dim"]] if options["dim"] >= 84 else [84, options["dim"]]  # in two steps fewer pixels are lost
    for side in sides:
        image = torch.nn.functional.interpolate(image, (side, side), mode="bilinear", align_corners=False)
        image = image.round()  # small images are bytes, too
    if options["grayscale"]:
        image = image.mean(1, keepdim=True)
    image = (image - 128.0) / 128.0 if options["zero_mean"] else image / 255.0
    return image.permute(0, 2, 3, 1)


# --- many rows at once ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Segment:
    """The elements of a flat row that one leaf has."""

    path: str
    kind: Literal["numbers", "categories", "bytes", "ram", "pixels", "flags", "entities", "mask"]
    start: int
    stop: int
    shape: tuple[int, ...]
    sizes: tuple[int, ...] = ()
    entities: EntityLayout | None = None


class RowPreprocessor:
    """A space's preprocessor for N stored observations at once, as Rookery's trees.

    If the space needs no preprocessor, rows are the stored arrays themselves.

    Args:
        space: Observation space of the environment.
        options: The model's configuration, of which ``dim``, ``grayscale`` and ``zero_mean`` matter.

    Raises:
        UnsupportedSpaceException: If a part of the space has no layout (text, lists within lists).
    """

    def __init__(self, space: Space[Any], options: Mapping[str, Any] | None = None) -> None:
        self.space = space
        self.preprocessor = get_preprocessor(space)(space, options)
        self.shape = tuple(self.preprocessor.shape)
        self.size = self.preprocessor.size
        self._options = {**PICTURE_OPTIONS, **(options or {})}
        self.plain = isinstance(self.preprocessor, NoPreprocessor)
        self._segments: list[_Segment] = []
        self._lay_out(space, "", 0)
        picked = [segment for segment in self._segments if segment.kind == "categories"]
        self._picked = picked
        offsets = [segment.start + np.cumsum([0, *segment.sizes[:-1]]) for segment in picked]
        self._offsets = np.concatenate(offsets) if offsets else np.zeros(0, np.int64)

    def _lay_out(self, space: Any, path: str, start: int) -> int:
        """Appends the segments of a space, from `start` on; returns where they end."""
        name = path or "obs"
        if isinstance(space, Dict | Tuple):
            for key, part in space.spaces.items() if isinstance(space, Dict) else enumerate(space.spaces):
                start = self._lay_out(part, f"{path}/{key}" if path else str(key), start)
            return start
        stop = start + get_preprocessor(space)(space, self._options).size
        shape = tuple(space.shape or ())
        if isinstance(space, Discrete | MultiDiscrete):
            sizes = (int(space.n),) if isinstance(space, Discrete) else tuple(int(n) for n in space.nvec.ravel())
            self._segments.append(_Segment(name, "categories", start, stop, shape, sizes))
        elif isinstance(space, EntitySet):
            layout = entity_layout(space, name)
            if layout is None:
                raise UnsupportedSpaceException(f"{name}: rows of {space} have no layout; use its preprocessor")
            self._segments.append(_Segment(name, "entities", start, stop, layout.shape, entities=layout))
        elif isinstance(space, Box | MultiBinary):
            kind: Any = "flags" if isinstance(space, MultiBinary) else "bytes" if space.dtype == np.uint8 else "numbers"
            kind = {ATARI_OBS_SHAPE: "pixels", ATARI_RAM_OBS_SHAPE: "ram"}.get(shape, kind)
            kind = "mask" if name == MASK and path else kind
            self._segments.append(_Segment(name, kind, start, stop, shape))
        else:
            raise UnsupportedSpaceException(f"{name}: {space} has no preprocessor")
        return stop

    @property
    def observation_space(self) -> Space[Any]:
        return self.preprocessor.observation_space

    def rows(self, tree: Mapping[str, Any]) -> Any:
        """Preprocesses stored observations.

        Args:
            tree: Array or tensor ``[N, *leaf.shape]`` for each leaf path; all leaves of a tree are of the same kind.

        Returns:
            ``[N, *shape]``, an array or a tensor as the tree has them; float32, or, of a space without a preprocessor,
            as it is stored.
        """
        first = tree[self._segments[0].path]
        if self.plain:
            return first
        is_torch = isinstance(first, torch.Tensor)
        if is_torch:
            flat = first.new_zeros((len(first), self.size), dtype=torch.float32)
        else:
            flat = np.zeros((len(first), self.size), np.float32)
        for segment in self._segments:
            if segment.kind != "categories":
                flat[:, segment.start : segment.stop] = self._numbers(segment, tree[segment.path])
        if self._picked:
            parts = [tree[segment.path].reshape(len(first), -1) for segment in self._picked]
            if is_torch:
                chosen = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
                flat.scatter_(1, chosen + torch.from_numpy(self._offsets).to(first.device), 1.0)
            else:
                chosen = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
                np.put_along_axis(flat, chosen + self._offsets, 1.0, axis=1)
        return flat.reshape(len(first), *self.shape)

    def _numbers(self, segment: _Segment, value: Any) -> Any:
        """Returns the elements ``[N, stop - start]`` of a leaf without categories."""
        num = len(value)
        if segment.kind == "ram":
            as_floats = value.float() if isinstance(value, torch.Tensor) else value.astype(np.float32)
            return (as_floats.reshape(num, -1) - 128.0) / 128.0
        if segment.kind == "pixels":
            small = _shrunk(as_tensor(value), self._options).reshape(num, -1)
            return small if isinstance(value, torch.Tensor) else small.numpy()
        if segment.entities is not None:
            elements = value[:, :, 1:]
            scale = self._scale(segment.entities)
            if scale is not None:
                elements = elements * (elements.new_tensor(scale) if isinstance(elements, torch.Tensor) else scale)
            there, elements = value[:, :, 0].sum(1).reshape(num, 1), elements.reshape(num, -1)
            if isinstance(value, torch.Tensor):
                return torch.cat((there, elements), dim=1)
            return np.concatenate((there, elements), axis=1)
        return value.reshape(num, -1)

    @staticmethod
    def _scale(layout: EntityLayout) -> np.ndarray | None:
        """Returns the scale of entities stored as bytes, as shares of their bound; None if there are none."""
        scale = np.concatenate([np.full(part.width, part.scale, np.float32) for part in layout.parts])
        return None if (scale == 1.0).all() else scale

    def restore(self, rows: Any) -> dict[str, Any]:
        """Returns the stored observations that preprocessed rows came from: the inverse of `rows`.

        Args:
            rows: ``[N, *shape]`` or ``[N, size]``, of NumPy or torch. Of one-hots the largest element counts.

        Raises:
            UnsupportedSpaceException: If a part was resized, as Atari images are.
        """
        if self.plain:
            return {self._segments[0].path: rows.reshape(len(rows), *self.shape)}
        flat = rows.reshape(len(rows), -1)
        return {segment.path: self._leaf(segment, flat[:, segment.start : segment.stop]) for segment in self._segments}

    def _leaf(self, segment: _Segment, part: Any) -> Any:
        """Builds a stored leaf ``[N, *leaf.shape]`` from its elements ``[N, stop - start]``."""
        num, is_torch = len(part), isinstance(part, torch.Tensor)
        if segment.kind == "pixels":
            raise UnsupportedSpaceException(f"{segment.path}: a resized image cannot be restored")
        if segment.kind == "categories":
            ends = np.cumsum(segment.sizes).tolist()
            starts = [0, *ends[:-1]]
            columns = [part[:, a:b].argmax(1) for a, b in zip(starts, ends, strict=True)]
            chosen = torch.stack(columns, 1) if is_torch else np.stack(columns, 1)
            return chosen.reshape(num, *segment.shape)
        if segment.entities is not None:
            return self._entities(segment.entities, part)
        if segment.kind == "ram":
            part = part * 128.0 + 128.0
        if segment.kind == "mask":
            return part > 0.5
        part = part.reshape(num, *segment.shape)
        if segment.kind == "numbers":
            return part
        rounded = part.round()
        return rounded.to(torch.uint8) if is_torch else rounded.astype(np.uint8)

    def _entities(self, layout: EntityLayout, part: Any) -> Any:
        """Builds a stored set ``[N, max_entities, 1 + k]`` from its elements."""
        room, width = layout.shape
        elements = part[:, 1:].reshape(len(part), room, width - 1)
        scale = self._scale(layout)
        if isinstance(part, torch.Tensor):
            there = (torch.arange(room, device=part.device, dtype=torch.int64) < part[:, :1]).to(part.dtype)
            elements = elements if scale is None else elements / elements.new_tensor(scale)
            return torch.cat((there.unsqueeze(2), elements), dim=2)
        there = (np.arange(room) < part[:, :1]).astype(np.float32)
        elements = elements if scale is None else elements / scale
        return np.concatenate((there[:, :, None], elements), axis=2)


def preprocess_rows(space: Space[Any], tree: Mapping[str, Any], options: Mapping[str, Any] | None = None) -> Any:
    """Preprocesses stored observations of a space; see `RowPreprocessor.rows`, which lays out the space only once."""
    return RowPreprocessor(space, options).rows(tree)


def restore_rows(space: Space[Any], rows: Any, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Restores stored observations from rows; see `RowPreprocessor.restore`."""
    return RowPreprocessor(space, options).restore(rows)


# --- flat observations in the form of their space ---------------------------------------------------------------------


def restore_original_dimensions(obs: Any, obs_space: Space[Any], tensorlib: Any = None) -> Any:
    """Returns flat observations as dicts, tuples and `RepeatedValues` of tensors, categories as one-hots."""
    return _unpacked(obs, getattr(obs_space, "original_space", obs_space))


def _unpacked(obs: Any, space: Any) -> Any:
    if not isinstance(space, Dict | Tuple | EntitySet):
        return obs
    if isinstance(obs, dict | list | tuple | RepeatedValues):
        return obs  # unpacked before
    preprocessor: Any = get_preprocessor(space)(space)
    if len(obs.shape) < 2 or obs.shape[-1] != preprocessor.size:
        raise ValueError(f"flat observations have shape {tuple(obs.shape)}, expected [..., {preprocessor.size}]")
    lead = tuple(obs.shape[:-1])
    if isinstance(space, EntitySet):
        elements = obs[..., 1:].reshape(*lead, space.max_entities, preprocessor.child_preprocessor.size)
        child = space.feature_space
        if not isinstance(child, Dict | Tuple | EntitySet):
            elements = elements.reshape(*lead, space.max_entities, *preprocessor.child_preprocessor.shape)
        return RepeatedValues(_unpacked(elements, child), obs[..., 0], space.max_entities)
    parts, offset = [], 0
    inner = list(space.spaces.values()) if isinstance(space, Dict) else list(space.spaces)
    for part, its in zip(inner, preprocessor.preprocessors, strict=True):
        piece = obs[..., offset : offset + its.size].reshape(*lead, *its.shape)
        parts.append(_unpacked(piece, part))
        offset += its.size
    return dict(zip(space.spaces, parts, strict=True)) if isinstance(space, Dict) else parts
