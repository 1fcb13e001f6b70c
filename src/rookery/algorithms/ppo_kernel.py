"""PPO's gradient in one call: networks forward, `ppo_loss` in closed form, networks backward, on kernels.

It pays because the minibatches of PPO are small: on 256 rows of a small network the closed form in torch, and the calls
in between, take about as long as the arithmetic.
"""

from __future__ import annotations

from ctypes import byref, c_float
from typing import TYPE_CHECKING
from weakref import ref

import torch
from torch import Tensor

from rookery.algorithms.kernels import ActorCriticKernels, RecurrentKernels
from rookery.core.batch import Minibatch
from rookery.core.metrics import Metrics
from rookery.core.native import PPOBatch, PPOSettings, address, is_plain, num_threads, places
from rookery.core.spaces import MASK

if TYPE_CHECKING:
    from rookery.algorithms.ppo import PPOConfig

STATISTICS = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction")
"""In the order of `losses.h`."""


class PPOCall:
    """A call of the kernel, which differs from one minibatch of an update to the next in the numbers of its rows alone.

    Args:
        kernels: Networks.
        whole: The batch of the update.
        cfg: Settings.
    """

    def __init__(self, kernels: ActorCriticKernels, whole: Minibatch, cfg: PPOConfig) -> None:
        self._for = ref(whole), cfg
        value_clip = -1.0 if cfg.value_clip is None else cfg.value_clip
        settings = PPOSettings(cfg.clip, value_clip, cfg.value_coef, cfg.entropy_coef, cfg.normalize_advantage)
        self._rows = PPOBatch(address(whole.action), *map(address, _numbers(whole)), address(whole.obs.get(MASK)))
        self._statistics = (c_float * len(STATISTICS))()
        self._before = (*kernels.at_rows(whole.obs), byref(self._rows), byref(settings))
        log_std = (None, None) if kernels.log_std is None else places(kernels.log_std)
        self._after = (*log_std, self._statistics, num_threads())
        self._function = kernels.build.call["ppo_gradients"]

    def is_for(self, whole: Minibatch, cfg: PPOConfig) -> bool:
        """Whether it was made for this update."""
        return self._for[0]() is whole and self._for[1] is cfg

    def __call__(self, order: Tensor | None, count: int) -> Metrics:
        """Writes the gradients of all weights for the rows of these numbers; the metrics are means over them."""
        self._rows.order = address(order)
        self._function(*self._before, count, *self._after)
        return dict(zip(STATISTICS, self._statistics, strict=True))


def ppo_kernel(kernels: ActorCriticKernels | RecurrentKernels, batch: Minibatch, cfg: PPOConfig) -> Metrics | None:
    """Writes the gradients of `ppo_loss` with respect to all weights.

    Args:
        kernels: Networks.
        batch: The rows.
        cfg: Settings.

    Returns:
        The metrics of the loss, means over the rows; None for batches that carry a penalty, or lie in memory otherwise
        than a kernel can read them, and for networks that remember.
    """
    if isinstance(kernels, RecurrentKernels):
        return None
    whole, order = batch.source or (batch, None)
    call = kernels.call
    if not isinstance(call, PPOCall) or not call.is_for(whole, cfg):
        numbers = _numbers(whole)
        plain = kernels.can_read(whole.obs, whole.action) and all(map(is_plain, numbers))
        rows = len(whole.action)
        as_long = all(each is None or each.shape == (rows,) for each in (whole.logp, whole.advantage, whole.importance))
        as_wide = all(each.shape == (rows, kernels.columns) for each in (whole.value_target, whole.value))
        if type(batch) is not Minibatch or not (plain and as_long and as_wide):
            return None
        call = kernels.call = PPOCall(kernels, whole, cfg)
    if not is_plain(order, torch.int64):
        return None
    return call(order, len(whole) if order is None else len(order))


def _numbers(batch: Minibatch) -> tuple[Tensor | None, ...]:
    return batch.logp, batch.advantage, batch.value_target, batch.value, batch.importance
