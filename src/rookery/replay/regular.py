"""Regular rollouts: the slots of the one before, all of them for as long, and no episode's end. They are most of what a
replay buffer gets, and are added with few copies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rookery.core.batch import Rollout
from rookery.core.spaces import Tree


@dataclass
class RolloutArrays:
    """Holds the arrays of one rollout of T rows of F fragments; many rollouts come as the same object, written over.

    Attributes:
        rollout: The rollout.
        header: The rollout's ``slot``, ``clock``, ``length`` and ``first``.
        ends: ``terminated`` and ``truncated`` ``[T, F]``.
        rows: ``action``, ``logp`` and ``reward`` ``[T * F, ...]``.
        obs: ``[T * F, ...]``.
        last_obs: ``[F, ...]``.
    """

    rollout: Rollout
    header: tuple[np.ndarray, ...]
    ends: tuple[np.ndarray, ...]
    rows: dict[str, np.ndarray]
    obs: Tree
    last_obs: Tree

    @classmethod
    def of(cls, rollout: Rollout) -> RolloutArrays | None:
        """Returns the arrays of a rollout; None if its rows do not lie one after the other."""
        steps, fragments = rollout.reward.shape
        size = steps * fragments
        rows = {name: getattr(rollout, name).numpy() for name in ("action", "logp", "reward")}
        obs = {path: leaf.numpy() for path, leaf in rollout.obs.items()}
        if not all(array.flags.c_contiguous for array in (*rows.values(), *obs.values())):
            return None
        return cls(
            rollout,
            tuple(getattr(rollout, name).numpy() for name in ("slot", "clock", "length", "first")),
            (rollout.terminated.numpy(), rollout.truncated.numpy()),
            {name: array.reshape(size, *array.shape[2:]) for name, array in rows.items()},
            {path: array.reshape(size, *array.shape[2:]) for path, array in obs.items()},
            {path: leaf.numpy() for path, leaf in rollout.last_obs.items()},
        )


@dataclass
class Regular:
    """Says where the slots of the last rollout stand, whose newest rows are the newest of all and ended no episode.

    Attributes:
        slot: ``[F]``.
        due: ``[F]`` clock of the next decision of each.
        newest: ``[F]`` the newest row of each.
        tails: ``[F]`` the place aside where it stands what each saw last.
        arrays: The arrays of the last rollout.
    """

    slot: np.ndarray
    due: np.ndarray
    newest: np.ndarray
    tails: np.ndarray
    arrays: RolloutArrays

    def arrays_of(self, rollout: Rollout) -> RolloutArrays | None:
        """Returns the arrays of a rollout that is regular; None if it is not."""
        steps, fragments = rollout.reward.shape
        if fragments != len(self.slot):
            return None
        arrays = self.arrays if self.arrays.rollout is rollout else RolloutArrays.of(rollout)
        if arrays is None:
            return None
        slot, clock, length, first = arrays.header
        same = slot.tobytes() == self.slot.tobytes() and clock.tobytes() == self.due.tobytes()
        if not same or length.tobytes() != steps.to_bytes(8, "little") * fragments:
            return None
        if 1 in first.tobytes() or any(1 in flags.tobytes() for flags in arrays.ends):
            return None
        self.arrays = arrays
        return arrays
