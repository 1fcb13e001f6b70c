"""Many policies of one shape acting on kernels in one call, each for its own rows."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from rookery.core.native import ADDRESS, array_address
from rookery.core.spaces.arrays import MASK
from rookery.native.actor import NativeActor


class StackedActors:
    """Acts for policies that differ in nothing but weights and statistics, which must stay as they are.

    A row's action is what its policy alone would have done, bit for bit.
    """

    def __init__(self) -> None:
        self._actors: dict[int, NativeActor] = {}
        self._handles = np.zeros((3, 0), dtype=np.uint64)  # by number: network, head, standard deviations

    def add(self, number: int, actor: NativeActor) -> None:
        """Adds a policy.

        Args:
            number: What it is called here, from 0.
            actor: Acts for the policy alone; `stackable` says whether it can be one of several.
        """
        actor.pack()
        if number >= self._handles.shape[1]:
            more = np.zeros((3, 2 * number + 8), dtype=np.uint64)
            more[:, : self._handles.shape[1]] = self._handles
            self._handles = more
        self._handles[:, number] = actor.handles()
        self._actors[number] = actor

    def remove(self, number: int) -> None:
        """Removes a policy; there need be none of that number."""
        self._actors.pop(number, None)

    def __contains__(self, number: int) -> bool:
        return number in self._actors

    def act(
        self,
        numbers: np.ndarray,
        starts: np.ndarray,
        order: np.ndarray,
        obs: dict[str, np.ndarray],
        noise: Tensor | None,
        action: np.ndarray,
        logp: np.ndarray,
    ) -> None:
        """Writes actions and their log-probabilities.

        Args:
            numbers: ``[P]`` the policies that act.
            starts: ``[P + 1]`` int32; the rows of policy p are those that `order` names from ``starts[p]`` to
                ``starts[p + 1]``.
            order: ``[N]`` int64 every row once.
            obs: Raw observations ``[N, ...]`` by leaf path, types as stored, contiguous.
            noise: ``[N, noise.width]`` float32, contiguous; None = the most probable actions.
            action: ``[N, ...]`` contiguous, written here; so is `logp`.
            logp: ``[N]``.
        """
        first = self._actors[int(numbers[0])]
        networks, heads, spreads = (np.ascontiguousarray(part) for part in self._handles[:, numbers])
        leaves = (ADDRESS * len(first.paths))(*[array_address(obs[path]) for path in first.paths])
        first.build.call["policies_step"](
            array_address(networks),
            array_address(heads),
            array_address(spreads) if spreads[0] else None,
            array_address(starts),
            len(numbers),
            array_address(order),
            leaves,
            array_address(obs[MASK]) if first.masked else None,
            None if noise is None else noise.data_ptr(),
            array_address(action),
            array_address(logp),
        )


def stackable(actor: NativeActor | None) -> bool:
    """Whether an actor can be one of `StackedActors`: its policy remembers nothing."""
    return actor is not None and not actor.remembers
