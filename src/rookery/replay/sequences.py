"""Stretches of the life of slots, read from a replay memory for policies that remember."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rookery.core.batch import Rollout
from rookery.replay.ring import Ring

MAX_SHARE = 0.9
"""How much the largest error of a sequence counts in its priority; the rest is their mean (eta of the R2D2 paper)."""


@dataclass(frozen=True)
class SampledSequences:
    """Sequences drawn from a replay memory.

    Attributes:
        rollout: F fragments of up to T decisions. Each has what the policy remembered before its first row, and only
            that: ``memory`` is ``[1, F, M]``. `version` is not known, and 0.
        weight: ``[F]`` importance weights; None if all count alike.
        row: ``[F]`` serial number of each fragment's first row, int64: what `update_priorities` takes.
    """

    rollout: Rollout
    weight: Tensor | None
    row: Tensor


def read_sequences(ring: Ring, rows: np.ndarray, length: int) -> Rollout:
    """The decisions of one slot each from `rows` on, as fragments.

    Args:
        ring: Where they are.
        rows: ``[F]`` where they begin: rows before which it is known what was remembered.
        length: T, of which a fragment has fewer where nothing newer is known of its slot.
    """
    at = np.empty((length, len(rows)), np.int64)
    at[0] = rows
    valid = np.ones(at.shape, bool)
    for t in range(1, length):
        following = ring.follow.take(at[t - 1])
        valid[t] = valid[t - 1] & (following >= 0)
        at[t] = np.where(valid[t], following, at[t - 1])
    lengths = valid.sum(axis=0)
    after = ring.after[at]
    terminated = ring.terminated[at] & valid
    # an episode that was cut off without a word ended with what was seen last, as a truncated one does
    aside = after >= ring.capacity
    truncated = aside & (ring.truncated[at] | (ring.follow[at] >= 0)) & valid
    boot = np.argwhere(truncated)
    where = at.reshape(-1)
    obs = ring.observations.gather_rows(where)
    ends = after[lengths - 1, np.arange(len(rows))]
    return Rollout(
        obs={path: torch.from_numpy(leaf.reshape(*at.shape, *leaf.shape[1:])) for path, leaf in obs.items()},
        action=torch.from_numpy(ring.action[at]),
        logp=torch.from_numpy(ring.logp[at]),
        reward=torch.from_numpy(np.where(valid, ring.reward[at], np.float32(0))),
        terminated=torch.from_numpy(terminated),
        truncated=torch.from_numpy(truncated),
        last_obs=tensors(ring.observations.gather(ends)),
        final_obs=tensors(ring.observations.gather(after[boot[:, 0], boot[:, 1]])),
        boot_index=torch.from_numpy(boot),
        slot=torch.from_numpy(ring.slot[rows]),
        clock=torch.from_numpy(ring.clock[rows]),
        length=torch.from_numpy(lengths),
        first=torch.from_numpy(ring.begins[rows]),
        version=torch.zeros(len(rows), dtype=torch.int64),
        memory=torch.from_numpy(ring.memories[ring.stored[rows]][None]),
        memory_every=length,
    )


def tensors(tree: dict[str, np.ndarray]) -> dict[str, Tensor]:
    """An observation as tensors on the same memory."""
    return {path: torch.from_numpy(leaf) for path, leaf in tree.items()}


def sequence_priorities(priority: Tensor, fragment: Tensor, fragments: int) -> tuple[Tensor, Tensor]:
    """Gives sequences 0.9 times the largest and 0.1 times the mean of the priorities of their rows.

    Args:
        priority: ``[N]`` of rows.
        fragment: ``[N]`` the sequence that each row is of.
        fragments: F, how many sequences there are.

    Returns:
        The sequences that have rows ``[B]``, and their priorities ``[B]``.
    """
    largest = priority.new_zeros(fragments).scatter_reduce_(0, fragment, priority, "amax")
    total = priority.new_zeros(fragments).index_add_(0, fragment, priority)
    count = torch.bincount(fragment, minlength=fragments)
    mixed = MAX_SHARE * largest + (1 - MAX_SHARE) * total / count.clamp(min=1)
    present = count.nonzero().squeeze(1)
    return present, mixed[present]
