"""PPO's gradient in one call: networks forward, `ppo_loss` in closed form, networks backward, on kernels.

It pays because the minibatches of PPO are small: on 256 rows of a small network the closed form in torch, and the calls
in between, take about as long as the arithmetic.
"""

from __future__ import annotations

from ctypes import byref
from typing import TYPE_CHECKING

import torch

from rookery.algorithms.actor_critic import ActorCriticKernels
from rookery.core.batch import Minibatch
from rookery.core.metrics import Metrics
from rookery.core.native import PPOBatch, PPOSettings, address, is_plain, places
from rookery.core.spaces import MASK

if TYPE_CHECKING:
    from rookery.algorithms.ppo import PPOConfig

STATISTICS = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction")
"""In the order of `losses.h`."""


def ppo_kernel(kernels: ActorCriticKernels, batch: Minibatch, cfg: PPOConfig) -> Metrics | None:
    """Writes the gradients of `ppo_loss` with respect to all weights.

    Args:
        kernels: Networks.
        batch: The rows.
        cfg: Settings.

    Returns:
        The metrics of the loss, means over the rows; None for batches that carry a penalty, or lie in memory otherwise
        than a kernel can read them.
    """
    if type(batch) is not Minibatch:
        return None
    whole, order = batch.source or (batch, None)
    numbers = whole.logp, whole.advantage, whole.value_target, whole.value, whole.importance
    if not kernels.can_read(whole.obs, whole.action) or not all(map(is_plain, numbers)):
        return None
    value_clip = -1.0 if cfg.value_clip is None else cfg.value_clip
    settings = PPOSettings(cfg.clip, value_clip, cfg.value_coef, cfg.entropy_coef, cfg.normalize_advantage)
    rows = PPOBatch(address(whole.action), *map(address, numbers), address(whole.obs.get(MASK)), address(order))
    statistics = torch.empty(len(STATISTICS))
    log_std = (None, None) if kernels.log_std is None else places(kernels.log_std)
    kernels.build.call["ppo_gradients"](
        *kernels.at_rows(whole.obs), byref(rows), byref(settings), len(batch), *log_std, statistics.data_ptr()
    )
    return dict(zip(STATISTICS, statistics.tolist(), strict=True))
