"""Stretches of the life of slots, read from a replay buffer for policies that remember."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rookery.core.batch import Rollout

MAX_SHARE = 0.9
"""How much the largest error of a sequence counts in its priority; the rest is their mean (eta of the R2D2 paper)."""


@dataclass(frozen=True)
class SampledSequences:
    """Sequences drawn from a replay buffer.

    Attributes:
        rollout: F fragments of up to T decisions. Each has what the policy remembered before its first row, and only
            that: ``memory`` is ``[1, F, M]``. `version` is not known, and 0.
        weight: ``[F]`` importance weights; None if all count alike.
        row: ``[F]`` serial number of each fragment's first row, int64: what `update_priorities` takes.
    """

    rollout: Rollout
    weight: Tensor | None
    row: Tensor


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
