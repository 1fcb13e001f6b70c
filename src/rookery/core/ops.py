"""The mathematics of returns, as pure functions of time-major tensors ``[T, ...]``. No settings, no defaults."""

from __future__ import annotations

import torch
from torch import Tensor


def gae(reward: Tensor, value: Tensor, next_value: Tensor, ended: Tensor, *, gamma: float, gae_lambda: float) -> Tensor:
    """Generalized advantage estimates (Schulman et al. 2016, eq. 16), ``[T, ...]``; plus the value: lambda-returns.

    Args:
        reward: ``[T, ...]`` what each decision earned.
        value: ``[T, ...]`` value of the observation decided on.
        next_value: ``[T, ...]`` value of what came after: 0 where the episode terminated, the value of the final
            observation where it was truncated, else the value of the next observation.
        ended: ``[T, ...]`` bool, where the sum over later errors stops: the last decision of an episode or of a
            fragment. Nothing after it is looked at, not even a NaN.
        gamma: Discount.
        gae_lambda: Decay of later errors, from 0 (one-step) to 1 (Monte Carlo).
    """
    advantage = reward + gamma * next_value - value
    later = torch.zeros_like(advantage[-1])
    for row, stop in zip(reversed(advantage.unbind()), reversed(ended.unbind()), strict=True):
        row.add_(later.masked_fill(stop, 0.0), alpha=gamma * gae_lambda)
        later = row
    return advantage


def following(value: Tensor, last_value: Tensor) -> Tensor:
    """The value one step later, ``[T, F]``: row t holds ``value[t + 1]``, the last row `last_value` ``[F]``."""
    return torch.cat((value[1:], last_value.unsqueeze(0)))
