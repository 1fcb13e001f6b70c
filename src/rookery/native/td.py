"""The gradient of DQN's loss in one call: target network, targets, the loss in closed form, backward, on kernels.

It is faster for the same reason as that of PPO: the arithmetic on 64 rows of a small network takes less time than
torch's calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref, c_float
from dataclasses import dataclass
from typing import Any

import torch

from rookery.core.batch import Places, Transitions, TransitionsInPlace
from rookery.core.metrics import Metrics
from rookery.core.native import TDBatch, TDSettings, address, array_address, is_plain
from rookery.core.optim import KernelStep
from rookery.core.spaces.arrays import MASK
from rookery.native.forward import Forward, NetworkKernels
from rookery.native.networks import NativeTrunk

STATISTICS = ("loss", "q_mean", "td_error")
"""In the order of `values.h`."""


@dataclass(frozen=True)
class TDRows:
    """Rows of `mean_loss` whose targets the kernel computes itself.

    Attributes:
        drawn: The decisions, with observations in the trunk's form.
        target: The target network.
        delta: Errors up to this size count squared (Huber loss).
    """

    drawn: Transitions
    target: NetworkKernels
    delta: float

    @property
    def places(self) -> Places | None:
        """Their location in a replay buffer; None if they were copied out of it."""
        return self.drawn.places if isinstance(self.drawn, TransitionsInPlace) else None


def td_rows(drawn: Transitions, forward: Forward[Any], target: Forward[Any], delta: float) -> TDRows | None:
    """Returns rows for the kernel; None if the networks do not run on kernels, or kernels cannot read the rows.

    Args:
        drawn: The decisions.
        forward: The learning network.
        target: The target network.
        delta: Errors up to this size count squared (Huber loss).
    """
    kernels, after = forward.kernels, target.kernels
    if kernels is None or after is None:
        return None
    for each in (kernels, after):
        if each.head is None or not isinstance(each.towers[0], NativeTrunk):
            return None
    rows = TDRows(drawn, after, delta)
    if _call_for(kernels, rows) is not None:
        return rows
    count = len(drawn)
    numbers = drawn.reward, drawn.discount, drawn.weight
    can_read = (
        all(part is None or (is_plain(part) and part.shape == (count,)) for part in numbers)
        and is_plain(drawn.action, torch.int64)
        and all(_trunk(kernels).can_read(obs) for obs in (drawn.obs, drawn.next_obs))
        and all(len(leaf) == count for obs in (drawn.obs, drawn.next_obs) for leaf in obs.values())
        and is_plain(drawn.next_obs.get(MASK), torch.bool)
    )
    return rows if can_read else None


class TDCall:
    """Prepared call of the kernel; batches from a replay buffer differ in the indices of their rows, and in their
    rewards.

    Args:
        kernels: The learning network.
        rows: The first batch.
    """

    def __init__(self, kernels: NetworkKernels, rows: TDRows) -> None:
        places, target = rows.places, rows.target
        assert places is not None
        assert kernels.head is not None
        self._for = places.stored, target, rows.delta
        obs = {path: torch.from_numpy(leaf) for path, leaf in places.stored.obs.items()}
        action, mask, lines = torch.from_numpy(places.stored.action), obs.get(MASK), len(places.stored.action)
        trunk = _trunk(kernels)
        self.can_read = (
            trunk.can_read(obs)
            and all(len(leaf) == lines for leaf in obs.values())
            and is_plain(action, torch.int64)
            and is_plain(mask, torch.bool)
        )
        """Whether the kernel can read these rows; if not, all else is undefined."""
        self._error = torch.empty(len(rows.drawn), dtype=torch.float32, device="cpu")
        self._rows = TDBatch(address(action), next_mask=address(mask), error=address(self._error))
        self._settings, self._statistics = TDSettings(False, rows.delta), (c_float * len(STATISTICS))()
        leaves = trunk.addresses(obs)
        handles = trunk.network.handle, _trunk(target).network.handle, kernels.head.handle
        self._before = (*handles, leaves, leaves, byref(self._rows), byref(self._settings))
        self._call = kernels.build.call

    def is_for(self, rows: TDRows, places: Places) -> bool:
        """Returns whether the call was prepared for this replay buffer, target network and loss."""
        stored, target, delta = self._for
        return places.stored is stored and rows.target is target and rows.delta == delta

    def gradients(self, rows: TDRows, double: bool) -> Metrics:
        """Writes the gradients of all weights; returns metrics, means over the rows."""
        self._call["td_gradients"](*self._before, self._take(rows, double), self._statistics)
        return self._metrics()

    def make_step(self, rows: TDRows, double: bool, step: KernelStep) -> Metrics:
        """Makes a gradient step; returns metrics, means over the rows, and ``grad_norm``."""
        norm = self._call["td_step"](*self._before, self._take(rows, double), self._statistics, *step)
        return {**self._metrics(), "grad_norm": norm}

    def _take(self, rows: TDRows, double: bool) -> int:
        """Sets the rows of the call, and returns their number."""
        drawn, batch, places = rows.drawn, self._rows, rows.places
        assert places is not None
        batch.order, batch.next_order = array_address(places.row), array_address(places.after)
        batch.reward, batch.discount = drawn.reward.data_ptr(), drawn.discount.data_ptr()
        batch.weight, self._settings.is_double = address(drawn.weight), double
        count = len(drawn)
        if self._error.shape[0] != count:
            self._error = torch.empty(count, dtype=torch.float32, device="cpu")
            batch.error = address(self._error)
        return count

    def _metrics(self) -> Metrics:
        return {**dict(zip(STATISTICS, self._statistics, strict=True)), "priority": self._error}


def _call_for(kernels: NetworkKernels, rows: TDRows) -> TDCall | None:
    """Returns the prepared call for rows in a replay buffer; None if the kernel cannot read them."""
    places, call = rows.places, kernels.call
    if places is None:
        return None
    if not (isinstance(call, TDCall) and call.is_for(rows, places)):
        kernels.call = call = TDCall(kernels, rows)
    return call if call.can_read else None


def td_steps(kernels: NetworkKernels, batches: Sequence[Any], step: KernelStep, cfg: Any) -> list[Metrics] | None:
    """Makes a gradient step of `mean_loss` for each batch in a replay buffer, each in one call.

    Args:
        kernels: The learning network.
        batches: The rows of each step.
        step: Updates the weights.
        cfg: Settings of DQN.

    Returns:
        The metrics of each step, as `gradient_step` returns them; None if nothing was done.
    """
    calls = [_call_for(kernels, batch) if isinstance(batch, TDRows) else None for batch in batches]
    if None in calls:
        return None
    return [
        call.make_step(batch, cfg.double, step) for call, batch in zip(calls, batches, strict=True) if call is not None
    ]


def td_kernel(kernels: NetworkKernels, batch: Any, cfg: Any) -> Metrics | None:
    """Writes the gradients of `mean_loss` with respect to all weights.

    Args:
        kernels: The learning network.
        batch: The rows.
        cfg: Settings of DQN.

    Returns:
        The metrics of the loss; None for a batch with precomputed targets.
    """
    if not isinstance(batch, TDRows):
        return None
    call = _call_for(kernels, batch)
    if call is not None:
        return call.gradients(batch, cfg.double)
    drawn, rows = batch.drawn, len(batch.drawn)
    error = torch.empty(rows, dtype=torch.float32, device="cpu")
    numbers = (drawn.action, drawn.reward, drawn.discount, drawn.weight, drawn.next_obs.get(MASK), error)
    settings, statistics = TDSettings(cfg.double, batch.delta), (c_float * len(STATISTICS))()
    assert kernels.head is not None
    kernels.build.call["td_gradients"](
        _trunk(kernels).network.handle,
        _trunk(batch.target).network.handle,
        kernels.head.handle,
        _trunk(kernels).addresses(drawn.obs),
        _trunk(kernels).addresses(drawn.next_obs),
        byref(TDBatch(*map(address, numbers))),
        byref(settings),
        rows,
        statistics,
    )
    return {**dict(zip(STATISTICS, statistics, strict=True)), "priority": error}


def _trunk(kernels: NetworkKernels) -> NativeTrunk:
    """Returns the only tower of a memoryless Q-network."""
    (tower,) = kernels.towers
    assert isinstance(tower, NativeTrunk)
    return tower
