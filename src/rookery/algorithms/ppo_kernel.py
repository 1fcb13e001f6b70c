"""PPO's loss in one call: what `ppo_gradient` computes, on kernels, for batches without a penalty.

It pays because the minibatches of PPO are small: on 256 rows the closed form in torch takes as long as the networks.
"""

from __future__ import annotations

from ctypes import byref
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rookery.algorithms.actor_critic import ActorCriticKernels
from rookery.core.batch import Minibatch
from rookery.core.metrics import Metrics
from rookery.core.native import PPOBatch, PPOSettings, address
from rookery.core.spaces import MASK

if TYPE_CHECKING:
    from rookery.algorithms.ppo import PPOConfig

STATISTICS = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction")
"""In the order of `losses.h`."""


def ppo_kernel(
    kernels: ActorCriticKernels, parts: list[Tensor], batch: Minibatch, cfg: PPOConfig
) -> tuple[list[Tensor], Metrics] | None:
    """The gradient of `ppo_loss` with respect to what the networks put out, and its metrics as means over the rows.

    Args:
        kernels: Networks that put out `parts`.
        parts: Head's output, perhaps log standard deviations, values.
        batch: The rows.
        cfg: Settings.

    Returns:
        A gradient for each of `parts`; None for batches that carry more than PPO without a penalty reads.
    """
    if type(batch) is not Minibatch:
        return None
    value_clip = -1.0 if cfg.value_clip is None else cfg.value_clip
    settings = PPOSettings(cfg.clip, value_clip, cfg.value_coef, cfg.entropy_coef, cfg.normalize_advantage)
    # slices of what was shuffled, so every row lies next to the one before
    rows = PPOBatch(
        batch.action.data_ptr(),
        batch.logp.data_ptr(),
        batch.advantage.data_ptr(),
        batch.value_target.data_ptr(),
        batch.value.data_ptr(),
        address(batch.importance),
        address(batch.obs.get(MASK)),
    )
    gradients = [torch.empty_like(part, memory_format=torch.contiguous_format) for part in parts]
    statistics = torch.empty(len(STATISTICS))
    log_std, log_std_gradient = (parts[1].data_ptr(), gradients[1].data_ptr()) if len(parts) == 3 else (None, None)
    kernels.build.call["ppo_gradient"](
        kernels.head.handle,
        byref(rows),
        byref(settings),
        len(batch),
        parts[0].data_ptr(),
        log_std,
        parts[-1].data_ptr(),
        gradients[0].data_ptr(),
        log_std_gradient,
        gradients[-1].data_ptr(),
        statistics.data_ptr(),
    )
    return gradients, dict(zip(STATISTICS, statistics.tolist(), strict=True))
