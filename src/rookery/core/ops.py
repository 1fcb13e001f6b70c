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
    error = reward + gamma * next_value - value
    return decayed_sums(error, torch.full_like(error, gamma * gae_lambda).masked_fill_(ended, 0.0))


def decayed_sums(term: Tensor, decay: Tensor) -> Tensor:
    """The sums ``x[t] = term[t] + decay[t] * x[t + 1]``, ``[T, ...]``; the last row is its own sum.

    In log2(T) rounds, each of which joins what two halves of a stretch have summed up (Hillis & Steele 1986), in the
    place of a loop over T. Where a decay is 0, nothing later is looked at, not even a NaN.

    Args:
        term: ``[T, ...]``.
        decay: ``[T, ...]``, of which the last row does not matter.
    """
    total, stretch = term.clone(), 1
    while stretch < len(term):
        decay = decay[: len(term) - stretch]  # over so many rows, from each on
        stops = decay == 0
        total[:-stretch] += (decay * total[stretch:]).masked_fill_(stops, 0.0)
        decay = (decay[:-stretch] * decay[stretch:]).masked_fill_(stops[:-stretch], 0.0)
        stretch *= 2
    return total


def vtrace(
    reward: Tensor,
    value: Tensor,
    next_value: Tensor,
    ended: Tensor,
    ratio: Tensor,
    *,
    gamma: float,
    gae_lambda: float,
    rho_bar: float,
    c_bar: float,
) -> tuple[Tensor, Tensor]:
    """Advantages and value targets from decisions of another policy (V-trace, Espeholt et al. 2018), ``[T, ...]``.

    The targets are eq. 1 of the paper with the decay of its remark 2. An advantage is what the decision earned plus the
    mix of value and target that followed, minus the value: the decision itself is given, and only what came after it
    is corrected. With ratios of 1 both are those of `gae`; with `gae_lambda` 1 the advantage is the paper's.

    Args:
        reward: As in `gae`, like the next three.
        value: ``[T, ...]``.
        next_value: ``[T, ...]``.
        ended: ``[T, ...]``.
        ratio: ``[T, ...]`` how much likelier each action is under the policy that learns than under the one that
            played.
        gamma: Discount.
        gae_lambda: Decay of later errors.
        rho_bar: Largest weight of an error: what lies above it shifts the targets towards the policy that played.
        c_bar: Largest factor by which later errors travel back: what lies above it costs time, not correctness.
    """
    error = reward + gamma * next_value - value
    correction = ratio.clamp(max=rho_bar) * error  # of the value, by the target
    trace = gamma * gae_lambda * ratio.clamp(max=c_bar)
    correction = decayed_sums(correction, trace.masked_fill(ended, 0.0))
    after = following(correction, torch.zeros_like(error[-1])).masked_fill_(ended, 0.0)  # one step later in the episode
    return error + gamma * gae_lambda * after, value + correction


def following(value: Tensor, last_value: Tensor) -> Tensor:
    """The value one step later, ``[T, F]``: row t holds ``value[t + 1]``, the last row `last_value` ``[F]``."""
    return torch.cat((value[1:], last_value.unsqueeze(0)))
