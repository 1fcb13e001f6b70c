"""The one order in which fragments are handed over, whoever has played them: one worker, or many with a share each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rookery.core.batch import Rollout


def in_order(rollout: Rollout) -> Rollout:
    """Gives a rollout whose fragments stand by the clock of their first decision, and among equal ones by slot; final
    observations stand by the clock of the decision that bootstraps from them, and then by slot.

    The order follows from what fragments say of themselves, so it does not depend on which worker has played them. A
    rollout that has it already is returned as it is, and so is one in which a slot was given to another agent: its
    clock began anew there, and fragments of one slot stay in the order of time.
    """
    slot, clock = rollout.slot.numpy(), rollout.clock.numpy()
    by_slot = np.argsort(slot, kind="stable")
    if ((np.diff(slot[by_slot]) == 0) & (np.diff(clock[by_slot]) <= 0)).any():
        return rollout
    order = np.lexsort((slot, clock))
    boot = rollout.boot_index.numpy()
    finals = np.lexsort((slot[boot[:, 1]], clock[boot[:, 1]] + boot[:, 0]))
    if not (_moves(order) or _moves(finals)):
        return rollout
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    boot = np.stack((boot[:, 0], place[boot[:, 1]]), axis=1)[finals]
    of, first = torch.from_numpy(order), torch.from_numpy(finals)

    def moved(name: str, tensor: Tensor) -> Tensor:
        path = name.partition("/")[0]
        if path == "boot_index":
            return torch.from_numpy(boot)
        if path == "final_obs":
            return tensor.index_select(0, first)
        return tensor.index_select(0 if path in OF_FRAGMENTS_ALONE else 1, of)

    return rollout.map(moved)


OF_FRAGMENTS_ALONE = ("last_obs", "slot", "clock", "length", "first", "version")
"""Fields of a rollout whose first dimension is that of fragments."""


def joined(rollouts: Sequence[Rollout]) -> Rollout:
    """Puts rollouts of one policy together, as if one worker had played them all.

    Args:
        rollouts: One or more; their tensors are copied.
    """
    steps = max(len(rollout.reward) for rollout in rollouts)
    by_name: dict[str, list[Tensor]] = {}
    before = 0
    for rollout in rollouts:
        for name, tensor in rollout.named_tensors().items():
            at = tensor if name != "boot_index" else tensor + torch.tensor([0, before])
            by_name.setdefault(name, []).append(at)
        before += len(rollout.length)
    whole = {name: _side_by_side(name, tensors, steps) for name, tensors in by_name.items()}
    return in_order(rollouts[0].map(lambda name, _: whole[name]))


def _side_by_side(name: str, tensors: Sequence[Tensor], steps: int) -> Tensor:
    """One tensor of several, along the dimension of fragments; shorter ones are filled up with zeros."""
    path = name.partition("/")[0]
    if path in (*OF_FRAGMENTS_ALONE, "final_obs", "boot_index"):
        return torch.cat(list(tensors))
    rows = max(len(tensor) for tensor in tensors)  # of memory there are fewer than steps
    assert rows <= steps
    full = [tensor if len(tensor) == rows else _filled_up(tensor, rows) for tensor in tensors]
    return torch.cat(full, dim=1)


def _filled_up(tensor: Tensor, rows: int) -> Tensor:
    whole = tensor.new_zeros(rows, *tensor.shape[1:])
    whole[: len(tensor)] = tensor
    return whole


def _moves(order: np.ndarray) -> bool:
    return bool((order[1:] < order[:-1]).any())
