"""Spaces as JSON, so that a policy can be used where its environment is not installed."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.core.entity_set import EntitySet
from rookery.core.errors import SpaceError


def space_to_json(space: spaces.Space[Any]) -> dict[str, Any]:
    """A description of the space that `space_from_json` turns into an equal one.

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
    """The space that `space_to_json` described; raises a SpaceError if the description is of no known kind."""
    kind = text.get("kind")
    if kind == "Box":
        shape, dtype = tuple(text["shape"]), np.dtype(text["dtype"])
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
        return spaces.MultiBinary(text["n"])
    if kind == "Dict":  # ordered, because the order of a plain dict would be that of its sorted keys
        return spaces.Dict(OrderedDict((key, space_from_json(inner)) for key, inner in text["spaces"]))
    if kind == "Tuple":
        return spaces.Tuple([space_from_json(inner) for inner in text["spaces"]])
    if kind == "EntitySet":
        return EntitySet(space_from_json(text["space"]), text["max_entities"], stack=text["stack"])
    if kind == "Text":
        return spaces.Text(text["max_length"])
    raise SpaceError(f"a space of unknown kind {kind!r}")
