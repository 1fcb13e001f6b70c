"""The gradient of DQN's loss in one call: target network, targets, the loss in closed form, backward, on kernels.

It pays for the same reason as that of PPO: sixty-four rows of a small network take less time than what torch is asked
to do with them.
"""

from __future__ import annotations

from ctypes import byref, c_float
from dataclasses import dataclass
from typing import Any

import torch

from rookery.core.batch import Transitions
from rookery.core.metrics import Metrics
from rookery.core.native import TDBatch, TDSettings, address, is_plain
from rookery.core.spaces import MASK
from rookery.native.forward import NetworkKernels
from rookery.native.networks import NativeTrunk

STATISTICS = ("loss", "q_mean", "td_error")
"""In the order of `values.h`."""


@dataclass(frozen=True)
class TDRows:
    """Holds rows of `mean_loss` whose targets the kernel makes itself.

    Attributes:
        drawn: The decisions, with observations as the trunk takes them.
        target: The network that values what comes next.
        delta: Errors up to this count by their square.
    """

    drawn: Transitions
    target: NetworkKernels
    delta: float

    def can_be_read(self, kernels: NetworkKernels) -> bool:
        """Tells whether the rows lie in memory as kernels read them."""
        drawn, rows = self.drawn, len(self.drawn)
        numbers = drawn.reward, drawn.discount, drawn.weight
        return (
            all(each.head is not None and isinstance(each.towers[0], NativeTrunk) for each in (kernels, self.target))
            and all(part is None or (is_plain(part) and part.shape == (rows,)) for part in numbers)
            and is_plain(drawn.action, torch.int64)
            and all(_trunk(kernels).can_read(obs) for obs in (drawn.obs, drawn.next_obs))
            and all(len(leaf) == rows for obs in (drawn.obs, drawn.next_obs) for leaf in obs.values())
            and is_plain(drawn.next_obs.get(MASK), torch.bool)
        )


def td_kernel(kernels: NetworkKernels, batch: Any, cfg: Any) -> Metrics | None:
    """Writes the gradients of `mean_loss` with respect to all weights.

    Args:
        kernels: The network that learns.
        batch: The rows.
        cfg: Settings of DQN.

    Returns:
        The metrics of the loss; None for a batch that comes with its targets.
    """
    if not isinstance(batch, TDRows):
        return None
    drawn, rows = batch.drawn, len(batch.drawn)
    error = torch.empty(rows, dtype=torch.float32)
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
    """The only tower of a network of values of actions, which remembers nothing."""
    (tower,) = kernels.towers
    assert isinstance(tower, NativeTrunk)
    return tower
