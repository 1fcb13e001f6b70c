"""The order of fragments in a rollout, which does not depend on the workers that played them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rookery.core.batch import OF_FRAGMENTS, Rollout


def in_order(rollout: Rollout) -> Rollout:
    """Returns a rollout with its fragments sorted by the clock of their first decision, then by slot, and its final
    observations by the clock of the decision that bootstraps from them, then by slot.

    The order follows from the fragments alone, so it does not depend on the worker that played them. A rollout already
    in that order is returned as it is, and so is one in which a slot was given to another agent: its clock began anew
    there, and fragments of one slot stay in the order of time.
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
        return tensor.index_select(0 if path in OF_FRAGMENTS else 1, of)

    return rollout.map(moved)


def _moves(order: np.ndarray) -> bool:
    return bool((order[1:] < order[:-1]).any())
