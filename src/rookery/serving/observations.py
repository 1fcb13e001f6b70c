"""Reads observations from the network, JSON lists or arrays, into the arrays of a policy, and explains errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.core.errors import RookeryError, SpaceError
from rookery.core.spaces.arrays import MASK, Leaf, Tree, part_of
from rookery.policies.policy import Policy


class WrongObservation(RookeryError):
    """The observations of a request do not fit the policy's observation space.

    Attributes:
        path: The wrong part, ``obs`` for the whole of a plain observation.
        expected: Description of that part of the space.
        got: Description of the given value.
    """

    def __init__(self, path: str, expected: str, got: str, problem: str = "") -> None:
        self.path, self.expected, self.got = path, expected, got
        super().__init__(problem or f"{path}: got {got}, expected {expected}")


def read_observation(policy: Policy, obs: Any, mask: Any = None) -> tuple[Tree, bool]:
    """Returns observations as arrays ``[N, *leaf.shape]`` by leaf path, and whether they were a batch.

    Args:
        policy: The policy.
        obs: One observation, or N of them stacked leaf by leaf, in the structure of the space: dicts, and for arrays
            lists or arrays; for sets of entities a list of N.
        mask: Allowed actions, if the environment has a mask beside its observations.

    Raises:
        WrongObservation: If they do not fit the space, or hold non-finite numbers.
    """
    spec = policy.own_spec
    found: dict[str, Any] = {}
    for leaf in spec.leaves:
        if leaf.kind == "mask" and (mask is not None or takes_mask(policy)):
            if mask is None:
                raise WrongObservation(MASK, describe_leaf(leaf), "nothing", f"{MASK}: got nothing; send it beside obs")
            found[leaf.path] = _array(leaf, mask)
            continue
        try:
            value = part_of(obs, leaf.path)
        except SpaceError:
            raise WrongObservation(leaf.path, describe_leaf(leaf), "nothing") from None
        found[leaf.path] = value if leaf.entities is not None else _array(leaf, value)
    try:
        tree, is_batch = spec.read(found)
        problem = spec.check(tree, slice(None)) if _rows(tree) else f"{spec.leaves[0].path}: the batch is empty"
    except (SpaceError, ValueError, TypeError, OverflowError) as error:
        problem = str(error)
    if not problem:
        return tree, is_batch
    leaf = next((leaf for leaf in spec.leaves if problem.startswith(f"{leaf.path}: ")), spec.leaves[0])
    raise WrongObservation(leaf.path, describe_leaf(leaf), _describe_value(found[leaf.path]), problem)


def takes_mask(policy: Policy) -> bool:
    """Returns whether masks are sent beside observations, not in them."""
    space = policy.own_spec.space
    return policy.own_spec.has_mask and not (isinstance(space, spaces.Dict) and MASK in space.spaces)


def describe_leaf(leaf: Leaf) -> str:
    """Returns a description of a part of the space."""
    shape = f"of shape {leaf.shape} (or a batch of them)"
    if leaf.kind == "mask":
        return f"{leaf.shape[0]} flags, true for actions that are allowed {shape}"
    if leaf.entities is not None:
        return f"a set of at most {leaf.entities.max_entities} entities"
    if leaf.kind == "discrete":
        return f"a whole number from {leaf.start} to {leaf.start + leaf.sizes[0] - 1} (or a batch of them)"
    if leaf.kind == "multi_discrete":
        return f"whole numbers {shape}, each below {(np.asarray(leaf.sizes).reshape(leaf.shape) + leaf.start).tolist()}"
    if leaf.kind == "multi_binary":
        return f"flags, 0 or 1, {shape}"
    return f"{'whole numbers from 0 to 255' if leaf.dtype == np.uint8 else 'finite numbers'} {shape}"


def _rows(tree: Tree) -> int:
    return len(next(iter(tree.values())))


def _array(leaf: Leaf, value: Any) -> np.ndarray:
    """Returns a part as an array; whole numbers become bytes if the space has bytes."""
    try:
        if leaf.kind == "mask" and isinstance(value, tuple):
            value = np.concatenate([np.asarray(part).ravel() for part in value])
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError):
        raise WrongObservation(leaf.path, describe_leaf(leaf), "a list whose parts differ in length or kind") from None
    if array.dtype.kind not in "fiub":
        raise WrongObservation(leaf.path, describe_leaf(leaf), _describe_value(value))
    if leaf.kind == "box" and leaf.dtype == np.uint8 and array.dtype.kind in "iu":
        if array.size and (array.min() < 0 or array.max() > 255):
            raise WrongObservation(leaf.path, describe_leaf(leaf), f"{array.min()} to {array.max()}")
        array = array.astype(np.uint8)
    return array


def _describe_value(value: Any) -> str:
    """Returns a short description of a value."""
    if isinstance(value, str) or value is None:
        return "nothing" if value is None else "a text"
    if isinstance(value, Mapping):
        return f"an object with {', '.join(map(str, list(value)[:8])) or 'no fields'}"
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError):
        return "a list whose parts differ in length or kind"
    if array.dtype.kind not in "fiub":
        return f"values that are not numbers, of shape {array.shape}"
    if array.ndim == 0:
        return f"{array}"
    bad = array[~np.isfinite(array)].tolist() if array.dtype.kind == "f" else []
    return f"numbers of type {array.dtype} and shape {array.shape}{f', among them {bad[0]}' if len(bad) else ''}"
