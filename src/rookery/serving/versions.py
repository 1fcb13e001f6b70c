"""Policies as they are served: all of one checkpoint together, tried once before anybody is answered by them."""

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
        name: What the checkpoint is called.
        path: Its directory.
        digest: The hash of its manifest, which tells it from another of the same name.
        policies: By name.
        loaded: When, in seconds since the epoch.
    """

    name: str
    path: Path
    digest: str
    policies: Mapping[str, Policy]
    loaded: float


def load_version(
    path: Path, names: Collection[str] = (), trust_code: TrustCode = False, before: ServedVersion | None = None
) -> ServedVersion:
    """Reads policies of a checkpoint, and tries each.

    Args:
        path: The checkpoint.
        names: Which policies; none = all.
        trust_code: As of `policies/export.py:read_policy`.
        before: What is served now, which the new policies probably are like.

    Raises:
        FileError: If the checkpoint is broken, or weights in it are no finite numbers.
        ConfigError: If there is no policy of a name, or it is made of code that is not trusted.
    """
    like = {} if before is None else before.policies
    policies, manifest = read_policies(path, names, trust_code, like=like)
    for name, policy in policies.items():
        for parameter, value in policy.state_dict().items():
            if value.is_floating_point() and not bool(torch.isfinite(value).all()):
                raise FileError(f"{path}: policy {name!r}: {parameter} holds numbers that are not finite")
        try_out(attach_actor(policy))
    return ServedVersion(path.name, path, str(manifest.get(DIGEST, "")), policies, time.time())


def try_out(policy: Policy) -> None:
    """Asks a policy for an action once, so that the first who is answered does not wait for what is made then."""
    tree = policy.own_spec.allocate(1)
    for deterministic in (True, False):
        policy.env_actions(tree, fresh_memory(policy, 1, deterministic), deterministic)


def memory_width(policy: Policy) -> int:
    """Gives how many numbers are kept of a session: what is remembered, and what exploration carries."""
    width: int = policy.memory_size + policy.exploration_size
    return width


def fresh_memory(policy: Policy, num_rows: int, deterministic: bool) -> torch.Tensor | None:
    """Gives the memory before a first decision, ``[num_rows, width]`` zeros, as `Policy.env_actions` takes it."""
    width = policy.memory_size if deterministic else memory_width(policy)
    return torch.zeros(num_rows, width, device=device_of(policy), dtype=torch.float32) if width else None


def refuse_other(version: ServedVersion, before: ServedVersion) -> None:
    """Refuses policies that cannot take the place of others while clients talk to them.

    Raises:
        RookeryError: If the spaces of one differ, or the size of what it remembers; says which.
    """
    for name, old in before.policies.items():
        new = version.policies[name]
        if new.own_spec != old.own_spec or new.action_spec != old.action_spec:
            raise RookeryError(
                f"{version.path}: policy {name!r} observes {new.own_spec.space} and acts in {new.action_spec.space}; "
                f"the one that is served observes {old.own_spec.space} and acts in {old.action_spec.space}"
            )
        if (new.memory_size, new.exploration_size) != (old.memory_size, old.exploration_size):
            raise RookeryError(
                f"{version.path}: policy {name!r} remembers {memory_width(new)} numbers, the one that is served "
                f"{memory_width(old)}"
            )


def rows_of(tree: Mapping[str, np.ndarray]) -> int:
    """Gives how many observations there are."""
    return len(next(iter(tree.values())))
