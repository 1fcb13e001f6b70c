"""Observations that an export is compared on: random ones, and parts of those that were given."""

from __future__ import annotations

import numpy as np

from rookery.core.errors import ConfigError
from rookery.core.spaces.arrays import Leaf, Tree
from rookery.policies.normalize import RunningMeanStd
from rookery.policies.policy import Policy

SEED = 0


def random_observations(policy: Policy, num_rows: int) -> Tree:
    """Draws observations ``[num_rows, ...]`` of every kind that a policy may see, masks among them.

    Numbers are normal: around what the normalizer has seen if there is one, else around 0.
    """
    rng = np.random.default_rng(SEED)
    spread: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    if policy.normalizer is not None:
        for path, seen in zip(policy.normalizer.paths, policy.normalizer.statistics, strict=True):
            assert isinstance(seen, RunningMeanStd)
            spread[path] = seen.mean.cpu().numpy(), seen.var.sqrt().cpu().numpy()
    return {leaf.path: _drawn(leaf, num_rows, rng, spread.get(leaf.path)) for leaf in policy.own_spec.leaves}


def _drawn(
    leaf: Leaf, num_rows: int, rng: np.random.Generator, spread: tuple[np.ndarray, np.ndarray] | None
) -> np.ndarray:
    shape = (num_rows, *leaf.shape)
    if leaf.kind == "mask":
        return _masks(leaf, num_rows, rng)
    if leaf.kind in ("discrete", "multi_discrete"):
        sizes = np.reshape(leaf.sizes, leaf.shape)
        return rng.integers(0, sizes, shape, dtype=np.int64)
    if leaf.kind == "multi_binary":
        return rng.integers(0, 2, shape, dtype=np.uint8)
    if leaf.dtype == np.uint8:
        return rng.integers(0, int(leaf.scale) + 1, shape).astype(np.uint8)
    mean, std = spread or (np.float64(0.0), np.float64(1.0))
    numbers = (mean + std * rng.standard_normal(shape)).astype(np.float32)
    if leaf.entities is None:
        if len(leaf.shape) == 2 and leaf.shape[0] > 1:  # it may be a set, in which rows of zeros are absent members
            numbers[rng.random(shape[:2]) < 0.2] = 0.0
        return numbers
    numbers[..., 0] = 1.0
    for part in leaf.entities.parts:
        columns = numbers[..., part.start : part.start + part.width]
        if part.sizes:
            columns[:] = _one_hots(part.sizes, columns.shape[:2], rng)
    there = np.arange(leaf.shape[0]) < rng.integers(0, leaf.shape[0] + 1, (num_rows, 1))
    numbers[~there] = 0.0
    return numbers


def _one_hots(sizes: tuple[int, ...], leading: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    return np.concatenate([np.eye(size, dtype=np.float32)[rng.integers(0, size, leading)] for size in sizes], -1)


def _masks(leaf: Leaf, num_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Masks in which each choice has something that is allowed."""
    mask = rng.random((num_rows, *leaf.shape)) < 0.6
    start = 0
    for size in leaf.sizes:
        mask[np.arange(num_rows), start + rng.integers(0, size, num_rows)] = True
        start += size
    return mask


def check_observations(policy: Policy, obs: Tree) -> Tree:
    """Gives the leaves that a policy acts on.

    Raises:
        ConfigError: If one is missing or has another shape.
    """
    found: Tree = {}
    for leaf in policy.own_spec.leaves:
        array = obs.get(leaf.path)
        if array is None or array.shape[1:] != leaf.shape or not len(array):
            shape = "missing" if array is None else f"of shape {array.shape}"
            raise ConfigError(f"observations to compare with: {leaf.path!r} is {shape}, not [N, {leaf.shape}]")
        found[leaf.path] = array.astype(leaf.dtype, copy=False)
    return found


def without_empty_entities(policy: Policy, obs: Tree) -> Tree:
    """Gives observations in which entities whose numbers are all 0 are absent, as ML-Agents has it."""
    tree = dict(obs)
    for leaf in policy.own_spec.leaves:
        if leaf.entities is not None:
            there = (obs[leaf.path][..., 1:] != 0).any(-1, keepdims=True)
            tree[leaf.path] = obs[leaf.path] * there
    return tree
