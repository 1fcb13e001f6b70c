"""Served policies: all of one checkpoint together, each run once before the first request."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from rookery.core.device import device_of
from rookery.core.errors import RookeryError
from rookery.core.io.files import DIGEST, FileError
from rookery.core.settings.trust import TrustCode
from rookery.native.actor import attach_actor
from rookery.policies.export import read_policies
from rookery.policies.policy import Policy


@dataclass(frozen=True)
class ServedVersion:
    """The policies of one checkpoint.

    Attributes:
        name: Name of the checkpoint.
        path: Its directory.
        digest: Hash of its manifest, which distinguishes checkpoints of the same name.
        policies: Policies by name.
        loaded: Time of loading, in seconds since the epoch.
    """

    name: str
    path: Path
    digest: str
    policies: Mapping[str, Policy]
    loaded: float


def load_version(
    path: Path, names: Collection[str] = (), trust_code: TrustCode = False, before: ServedVersion | None = None
) -> ServedVersion:
    """Reads policies of a checkpoint, and runs each once.

    Args:
        path: The checkpoint.
        names: Names of policies; none = all.
        trust_code: As in `policies/export.py:read_policy`.
        before: The current version, whose networks are reused if the new ones are alike.

    Raises:
        FileError: If the checkpoint is broken, or some weights are not finite.
        ConfigError: If there is no policy of a name, or its code is not trusted.
    """
    like = {} if before is None else before.policies
    policies, manifest = read_policies(path, names, trust_code, like=like)
    for name, policy in policies.items():
        for parameter, value in policy.state_dict().items():
            if value.is_floating_point() and not bool(torch.isfinite(value).all()):
                raise FileError(f"{path}: policy {name!r}: {parameter} holds numbers that are not finite")
        warm_up(attach_actor(policy))
    return ServedVersion(path.name, path, str(manifest.get(DIGEST, "")), policies, time.time())


def warm_up(policy: Policy) -> None:
    """Computes an action once, so that the first request does not wait for initialization."""
    tree = policy.own_spec.allocate(1)
    for deterministic in (True, False):
        policy.env_actions(tree, fresh_memory(policy, 1, deterministic), deterministic)


def memory_width(policy: Policy) -> int:
    """Returns the size of a session's memory: that of the policy, and the state of exploration."""
    width: int = policy.memory_size + policy.exploration_size
    return width


def fresh_memory(policy: Policy, num_rows: int, deterministic: bool) -> torch.Tensor | None:
    """Returns the memory before a first decision, ``[num_rows, width]`` zeros, for `Policy.env_actions`."""
    width = policy.memory_size if deterministic else memory_width(policy)
    return torch.zeros(num_rows, width, device=device_of(policy), dtype=torch.float32) if width else None


def check_compatible(version: ServedVersion, before: ServedVersion) -> None:
    """Refuses policies that cannot replace others while clients use them.

    Raises:
        RookeryError: If the spaces or the memory size of a policy differ.
    """
    for name, old in before.policies.items():
        new = version.policies[name]
        if new.own_spec != old.own_spec or new.action_spec != old.action_spec:
            raise RookeryError(
                f"{version.path}: policy {name!r} observes {new.own_spec.space} and acts in {new.action_spec.space}; "
                f"the served policy observes {old.own_spec.space} and acts in {old.action_spec.space}"
            )
        if (new.memory_size, new.exploration_size) != (old.memory_size, old.exploration_size):
            raise RookeryError(
                f"{version.path}: policy {name!r} has a memory of {memory_width(new)} numbers, the served policy of "
                f"{memory_width(old)}"
            )


def num_rows(tree: Mapping[str, np.ndarray]) -> int:
    """Returns the number of observations."""
    return len(next(iter(tree.values())))
