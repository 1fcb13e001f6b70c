"""Kernels for many policies of one shape: one call in which each policy acts for its own rows."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from rookery.core.native import ADDRESS, array_address
from rookery.core.spaces.arrays import MASK
from rookery.native.actor import NativeActor


class StackedActors:
    """Actor of several policies that differ only in weights and statistics, which must not change.

    Actions are bit-identical to those of the single policies.
    """

    def __init__(self) -> None:
        self._actors: dict[int, NativeActor] = {}
        self._handles = np.zeros((3, 0), dtype=np.uint64)  # by index: network, head, standard deviations

    def add(self, number: int, actor: NativeActor) -> None:
        """Adds a policy.

        Args:
            number: Its index here, from 0.
            actor: Actor of the policy alone, for which `stackable` is true.
        """
        actor.pack()
        if number >= self._handles.shape[1]:
            more = np.zeros((3, 2 * number + 8), dtype=np.uint64)
            more[:, : self._handles.shape[1]] = self._handles
            self._handles = more
        self._handles[:, number] = actor.handles()
        self._actors[number] = actor

    def remove(self, number: int) -> None:
        """Removes a policy, if there is one of that index."""
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
            numbers: ``[P]`` indices of the acting policies.
            starts: ``[P + 1]`` int32; the rows of policy p are ``order[starts[p]:starts[p + 1]]``.
            order: ``[N]`` int64, every row once.
            obs: Raw observations ``[N, ...]`` by leaf path, types as stored, contiguous.
            noise: ``[N, noise.width]`` float32, contiguous; None = the most probable actions.
            action: ``[N, ...]`` contiguous, written here, as is `logp`.
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
    """Whether an actor can be part of `StackedActors`: its policy has no memory."""
    return actor is not None and not actor.remembers
