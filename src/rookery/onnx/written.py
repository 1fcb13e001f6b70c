"""Writes an exported file after comparison with its policy and a check."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rookery.core.device import device_of
from rookery.core.errors import ConfigError, RookeryError
from rookery.core.io.files import make_folder, write_file
from rookery.core.spaces.arrays import Leaf, Tree
from rookery.onnx.check import OnnxRules, problems_in
from rookery.onnx.compare import Exported, compare
from rookery.onnx.graph import ExportError, require_onnx
from rookery.onnx.network import check_exportable, check_head
from rookery.policies.normalize import RunningMeanStd
from rookery.policies.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = 64
"""Largest number of observations in the comparison of a file with its policy."""


@dataclass(frozen=True)
class Written:
    """Result of an export.

    Attributes:
        path: The file.
        opset: Version of its operators.
        rows: Number of observations in the comparison with the policy.
        given: Whether these were given, not random.
        difference: Largest difference between file and policy, see `compare.py:TOLERANCE`.
    """

    path: Path
    opset: int
    rows: int
    given: bool
    difference: float


def write(
    policy: Policy,
    path: Path,
    make: Callable[[Policy], Exported],
    opset: int,
    observations: Tree | None,
    rules: Sequence[OnnxRules] = (),
) -> Written:
    """Builds a model of a policy and writes it if its actions agree with the policy's.

    Args:
        policy: The policy.
        path: The file.
        make: Builds the model.
        opset: Version of its operators.
        observations: Observations for the comparison, ``[N, ...]`` by leaf path; None = random ones.
        rules: Rules of the program that the file is for.

    Raises:
        ConfigError: If the extra is not installed, or observations do not fit the policy.
        ExportError: If the policy cannot be exported, or the file differs from it; an existing file stays.
        FileError: If the file cannot be written.
    """
    require_onnx()
    if device_of(policy).type != "cpu":
        policy = copy.deepcopy(policy).to("cpu")
    given = observations is not None
    obs = random_observations(policy, ROWS) if observations is None else check_observations(policy, observations)
    obs = {leaf: array[:ROWS] for leaf, array in without_empty_entities(policy, obs).items()}
    with _evaluating(policy):
        try:
            check_exportable(policy)
            check_head(policy)
            exported = make(policy)
            agreement = compare(policy, exported, obs)
            content = exported.model.SerializeToString()
        except RookeryError as error:
            prefix = f"policy {policy.name!r}"
            if isinstance(error, ExportError) and not str(error).startswith(prefix):
                raise ExportError(f"{prefix}: {error}") from error
            raise
        except Exception as error:  # one type of error for callers that export during training
            raise ExportError(f"policy {policy.name!r} cannot be exported: {type(error).__name__}: {error}") from error
    if problems := problems_in(content, rules):
        raise ExportError(f"policy {policy.name!r}: the file would not be accepted: {'; '.join(problems)}")
    make_folder(path.parent)
    write_file(path, content)
    return Written(path, opset, agreement.rows, given, agreement.difference)


@contextmanager
def _evaluating(policy: Policy) -> Iterator[None]:
    """Puts a policy in evaluation mode within the context."""
    training = [module for module in policy.modules() if module.training]
    policy.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def metadata_of(policy: Policy) -> dict[str, str]:
    """Returns the metadata of a policy's file."""
    return {
        "policy": policy.name,
        "observation_space": str(policy.own_spec.space),
        "action_space": str(policy.action_spec.space),
    }


# --- observations for the comparison ----------------------------------------------------------------------------------


SEED = 0


def random_observations(policy: Policy, num_rows: int) -> Tree:
    """Draws random observations ``[num_rows, ...]`` for all leaves of a policy's spec, masks included.

    Numbers are normal, with the normalizer's mean and deviation if there is one, else standard normal.
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
        if len(leaf.shape) == 2 and leaf.shape[0] > 1:  # possibly a set, in which rows of zeros are absent entities
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
    """Returns random masks with at least one allowed action in each branch."""
    mask = rng.random((num_rows, *leaf.shape)) < 0.6
    start = 0
    for size in leaf.sizes:
        mask[np.arange(num_rows), start + rng.integers(0, size, num_rows)] = True
        start += size
    return mask


def check_observations(policy: Policy, obs: Tree) -> Tree:
    """Returns the leaves that a policy observes.

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
    """Returns observations in which entities of zeros are absent, as in ML-Agents."""
    tree = dict(obs)
    for leaf in policy.own_spec.leaves:
        if leaf.entities is not None:
            there = (obs[leaf.path][..., 1:] != 0).any(-1, keepdims=True)
            tree[leaf.path] = obs[leaf.path] * there
    return tree
