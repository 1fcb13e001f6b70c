"""The mathematics of returns, as pure functions of time-major tensors ``[T, ...]``. No settings, no defaults."""

from __future__ import annotations

import torch
from torch import Tensor


def gae(
    reward: Tensor, value: Tensor, next_value: Tensor, ended: Tensor, *, gamma: float, gae_lambda: float
) -> Tensor:
    """Generalized advantage estimates (Schulman et al. 2016, eq. 16), ``[T, ...]``.

    Args:
        reward: ``[T, ...]`` what each decision earned.
        value: ``[T, ...]`` value of the observation decided on.
        next_value: ``[T, ...]`` value of what came after: 0 where the episode terminated, the value of the final
            observation where it was truncated, else the value of the next observation.
        ended: ``[T, ...]`` bool, where the sum over later errors stops: the last decision of an episode or of a fragment.
        gamma: Discount.
        gae_lambda: Decay of later errors, from 0 (one-step) to 1 (Monte Carlo).
    """
    delta = reward + gamma * next_value - value
    decay = (gamma * gae_lambda) * (~ended).to(delta.dtype)
    for t in range(len(delta) - 2, -1, -1):
        delta[t].addcmul_(decay[t], delta[t + 1])
    return delta


def following(value: Tensor, last_value: Tensor) -> Tensor:
    """The value one step later, ``[T, F]``: row t holds ``value[t + 1]``, the last row `last_value` ``[F]``."""
    return torch.cat((value[1:], last_value.unsqueeze(0)))
