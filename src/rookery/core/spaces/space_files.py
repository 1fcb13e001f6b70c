"""Spaces as JSON, so that a policy can be used without its environment; and spaces as written by users."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.core.errors import SpaceError, nearest
from rookery.core.spaces.entity_set import EntitySet


def space_to_json(space: spaces.Space[Any]) -> dict[str, Any]:
    """Returns a description of a space that `space_from_json` converts back to an equal space.

    Spaces that Rookery cannot observe (texts, graphs, an environment's own kinds) come back as a Text, which it leaves
    out of observations just the same.
    """
    if isinstance(space, spaces.Box):
        bounds = {"low": space.low.ravel().tolist(), "high": space.high.ravel().tolist()}
        for name, values in bounds.items():
            if len(set(values)) == 1:
                bounds[name] = values[:1]
        return {"kind": "Box", **bounds, "shape": list(space.shape), "dtype": str(space.dtype)}
    if isinstance(space, spaces.Discrete):
        return {"kind": "Discrete", "n": int(space.n), "start": int(space.start), "dtype": str(space.dtype)}
    if isinstance(space, spaces.MultiDiscrete):
        start = np.broadcast_to(space.start, space.nvec.shape).tolist()
        return {"kind": "MultiDiscrete", "nvec": space.nvec.tolist(), "start": start, "dtype": str(space.dtype)}
    if isinstance(space, spaces.MultiBinary):
        return {"kind": "MultiBinary", "n": np.asarray(space.n).tolist()}
    if isinstance(space, spaces.Dict):
        return {"kind": "Dict", "spaces": [[key, space_to_json(inner)] for key, inner in space.spaces.items()]}
    if isinstance(space, spaces.Tuple):
        return {"kind": "Tuple", "spaces": [space_to_json(inner) for inner in space.spaces]}
    if isinstance(space, EntitySet):
        element = space_to_json(space.feature_space)
        return {"kind": "EntitySet", "space": element, "max_entities": space.max_entities, "stack": space.stack}
    return {"kind": "Text", "max_length": getattr(space, "max_length", 1)}


def space_from_json(text: dict[str, Any]) -> spaces.Space[Any]:
    """Returns the space described by `space_to_json`.

    Raises:
        SpaceError: If the description is of an unknown kind, invalid, or of more than `LARGEST_SPACE` numbers.
    """
    try:
        sized([numbers_in(text, image_divisor=1)])
        return _space_from_json(text)
    except SpaceError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, AssertionError, OverflowError, RecursionError) as error:
        raise SpaceError(f"no space: {type(error).__name__}: {error}") from None


def _space_from_json(text: Any) -> spaces.Space[Any]:
    kind = text.get("kind")
    if kind == "Box":
        shape, dtype = sized(text["shape"]), np.dtype(text["dtype"])
        low, high = (np.resize(np.array(text[name], dtype=dtype), shape) for name in ("low", "high"))
        return spaces.Box(low, high, shape, dtype.type)
    if kind == "Discrete":
        own = {} if text["dtype"] == "int64" else {"dtype": np.dtype(text["dtype"]).type}
        return spaces.Discrete(text["n"], start=text["start"], **own)
    if kind == "MultiDiscrete":
        dtype = np.dtype(text["dtype"])
        nvec, start = (np.array(text[name], dtype=dtype) for name in ("nvec", "start"))
        return spaces.MultiDiscrete(nvec, dtype=dtype.type, start=start)
    if kind == "MultiBinary":
        sized(text["n"])
        return spaces.MultiBinary(text["n"])
    if kind == "Dict":  # ordered, because the order of a plain dict would be that of its sorted keys
        return spaces.Dict(OrderedDict((key, _space_from_json(inner)) for key, inner in text["spaces"]))
    if kind == "Tuple":
        return spaces.Tuple([_space_from_json(inner) for inner in text["spaces"]])
    if kind == "EntitySet":
        element = _space_from_json(text["space"])
        sized([text["max_entities"], *(element.shape or ())])
        return EntitySet(element, text["max_entities"], stack=text["stack"])
    if kind == "Text":
        return spaces.Text(text["max_length"])
    raise SpaceError(f"a space of unknown kind {kind!r}")


def numbers_in(text: Any, image_divisor: int = 4) -> int:
    """Returns the number of network inputs or outputs for an element of a space.

    Args:
        text: The description of the space; elements of a set count once.
        image_divisor: How many numbers of an image become one before they meet other layers; 1 = none do: those that
            the bounds of the space hold, where categories count as one.
    """
    kind = text.get("kind")
    if kind in ("Dict", "Tuple"):
        parts = [part[1] for part in text["spaces"]] if kind == "Dict" else text["spaces"]
        return sum(numbers_in(part, image_divisor) for part in parts)
    if kind == "EntitySet":
        return numbers_in(text["space"], image_divisor)
    if kind == "Box":
        return math.prod(sized(text["shape"])) // (image_divisor if len(text["shape"]) > 2 else 1)
    if kind == "MultiBinary":
        return math.prod(sized(text["n"]))
    if kind == "Discrete" and image_divisor > 1:
        return int(text["n"])
    return int(np.sum(text["nvec"])) if kind == "MultiDiscrete" and image_divisor > 1 else 1


def sized(shape: Any) -> tuple[int, ...]:
    """Returns the shape of a space as a tuple, checked before arrays of this shape are created.

    Args:
        shape: A whole number, or a list of these.

    Raises:
        ValueError: If they are not whole numbers, or their product is above `LARGEST_SPACE`.
    """
    sizes = tuple(shape) if isinstance(shape, list | tuple) else (shape,)
    if not all(type(size) is int and size >= 0 for size in sizes) or math.prod(sizes) > LARGEST_SPACE:
        raise ValueError(f"{shape!r} where whole numbers are expected, with a product of at most {LARGEST_SPACE:,}")
    return sizes


LARGEST_SPACE = 1 << 25
"""Maximum number of values in a space: more than in an image of 4,096 x 2,304 pixels in three colours."""

WRITTEN = {
    "box": ("low", "high", "dtype"),
    "discrete": ("start",),
    "multi_discrete": (),
    "multi_binary": (),
    "dict": (),
    "tuple": (),
}
"""First words of a written space, each with the words allowed beside it."""


def written_space(text: Any, place: str) -> spaces.Space[Any]:
    """Returns the space of a written description: ``{box: [4], low: -1, high: 1}``, ``{discrete: 2}``, ``{dict:
    {...}}``.

    What `space_to_json` gives will do, too.

    Args:
        text: The description; ``low`` and ``high`` are a number for all elements or a list of one for each.
        place: Its place, for messages.

    Raises:
        SpaceError: If it describes no space; names the place and the expected form.
    """
    forms = ", ".join(WRITTEN)
    if not isinstance(text, Mapping):
        raise SpaceError(
            f"{place}: {repr(text)[:200]} is no space; write one of {forms}, as in {{box: [4], low: -1, high: 1}}"
        )
    if "kind" in text:
        try:
            return space_from_json(dict(text))
        except SpaceError as error:
            raise SpaceError(f"{place}: {error}, in a space of kind {text['kind']}") from None
    words = [word for word in text if word in WRITTEN]
    if len(words) != 1:
        hint = nearest(str(next(iter(text), "")), [*WRITTEN])
        raise SpaceError(f"{place}: {str(dict(text))[:200]} is no space{hint}; write one of {forms}")
    (word,) = words
    for key in (word, *WRITTEN[word]):
        if text.get(key, key) is None:
            raise SpaceError(f"{place}.{key}: is null: give it a value, or leave it out")
    for key in text:
        if key != word and key not in WRITTEN[word]:
            allowed = ", ".join(WRITTEN[word]) or "nothing"
            raise SpaceError(
                f"{place}.{key}: not known{nearest(str(key), [*WRITTEN[word]])}; {word} takes {allowed} besides"
            )
    value = text[word]
    if word == "dict":
        if not isinstance(value, Mapping) or not value:
            raise SpaceError(f"{place}.dict: {value!r}: expected spaces by name")
        return spaces.Dict(
            OrderedDict((str(key), written_space(part, f"{place}.{key}")) for key, part in value.items())
        )
    if word == "tuple":
        if not isinstance(value, list | tuple) or not value:
            raise SpaceError(f"{place}.tuple: {value!r}: expected a list of spaces")
        return spaces.Tuple([written_space(part, f"{place}.{number}") for number, part in enumerate(value)])
    try:
        return _written_leaf(word, value, text)
    except (KeyError, TypeError, ValueError, AttributeError, AssertionError, OverflowError) as error:
        raise SpaceError(f"{place}: {str(dict(text))[:200]} is no space: {error}") from None


def _written_leaf(word: str, value: Any, text: Mapping[str, Any]) -> spaces.Space[Any]:
    """Returns a written space without nested spaces; raises a ValueError or the like if it is invalid."""
    sizes = np.asarray(value)
    if sizes.dtype.kind not in "iu" or sizes.size == 0 or (sizes < 1).any():
        raise ValueError(f"{word}: {value!r}: expected whole numbers from 1 on")
    if word == "discrete":
        return spaces.Discrete(int(value), start=int(text.get("start", 0)))
    if word == "multi_discrete":
        return spaces.MultiDiscrete(sizes)
    sized([int(size) for size in sizes.ravel()])
    if word == "multi_binary":
        return spaces.MultiBinary(int(value) if sizes.ndim == 0 else [int(size) for size in value])
    shape = tuple(int(size) for size in sizes.ravel())
    dtype = np.dtype(text.get("dtype", "float32"))
    whole = dtype.kind in "iu"
    ends = (np.iinfo(dtype).min, np.iinfo(dtype).max) if whole else (-np.inf, np.inf)
    bounds = (text.get("low", ends[0]), text.get("high", ends[1]))
    low, high = (np.broadcast_to(np.asarray(bound, dtype=np.float64), shape).astype(dtype) for bound in bounds)
    if not (low <= high).all():
        raise ValueError("low is greater than high")
    return spaces.Box(low, high, shape, dtype.type)
