"""Writing an exported file: made, compared with its policy, checked, and only then put in its place."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rookery.core.device import device_of
from rookery.core.errors import RookeryError
from rookery.core.io.files import make_folder, write_file
from rookery.core.spaces.arrays import Tree
from rookery.onnx.check import OnnxRules, problems_in
from rookery.onnx.compare import Exported, compare
from rookery.onnx.graph import ExportError, require_onnx
from rookery.onnx.network import check_exportable, check_head
from rookery.onnx.observations import check_observations, random_observations, without_empty_entities
from rookery.policies.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = 64
"""Observations that a file is compared with its policy on, at most."""


@dataclass(frozen=True)
class Written:
    """A file that was written.

    Attributes:
        path: Where.
        opset: Version of its operators.
        rows: Observations that it was compared with its policy on.
        given: Whether these were given, and not drawn at random.
        difference: The largest one between a number of the file's and the policy's, see `compare.py:TOLERANCE`.
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
    """Makes a model of a policy and writes it, if it acts as the policy does.

    Args:
        policy: The policy.
        path: The file.
        make: Makes the model.
        opset: Version of its operators.
        observations: What to compare on, ``[N, ...]`` by leaf path; None = random ones.
        rules: Rules of the program that the file is for.

    Raises:
        ConfigError: If the extra is not installed, or observations do not fit the policy.
        ExportError: If the policy cannot be exported, or the file differs from it; a file that was there stays.
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
            told = f"policy {policy.name!r}"
            if isinstance(error, ExportError) and not str(error).startswith(told):
                raise ExportError(f"{told}: {error}") from error
            raise
        except Exception as error:  # so that whoever exports while training goes on has one kind of error to expect
            raise ExportError(f"policy {policy.name!r} cannot be exported: {type(error).__name__}: {error}") from error
    if problems := problems_in(content, rules):
        raise ExportError(f"policy {policy.name!r}: the file would not be accepted: {'; '.join(problems)}")
    make_folder(path.parent)
    write_file(path, content)
    return Written(path, opset, agreement.rows, given, agreement.difference)


@contextmanager
def _evaluating(policy: Policy) -> Iterator[None]:
    """Puts a policy in evaluation mode for a while."""
    training = [module for module in policy.modules() if module.training]
    policy.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def told_of(policy: Policy) -> dict[str, str]:
    """Gives facts about a policy that stand in its file."""
    return {
        "policy": policy.name,
        "observation_space": str(policy.own_spec.space),
        "action_space": str(policy.action_spec.space),
    }
