"""Munchausen value targets (Vieillard et al. 2020, arXiv:2007.14430): the log-probability of the stored action, under
the softmax policy of the target network, is added to its reward, and the next state has its soft value.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rookery.core.settings.fields import NonNegative, PositiveFloat, Settings


@dataclass(frozen=True)
class MunchausenConfig(Settings):
    """Settings of Munchausen targets."""

    weight: NonNegative = 0.0
    """Weight of the log-probability added to the reward (paper: 0.9); 0 = targets of DQN."""

    temperature: PositiveFloat = 0.03
    """Temperature of the softmax policy, in units of the values."""

    low: float = -1.0
    """Lowest value of temperature times log-probability that is added."""


def scaled_log_policy(q: Tensor, temperature: float, mask: Tensor | None = None) -> Tensor:
    """Returns temperature times the logarithm of the softmax policy, ``[N, A]``, without overflow (appendix B.1).

    Args:
        q: ``[N, A]`` values.
        temperature: That of the softmax.
        mask: ``[N, A]`` allowed actions; the others get -inf. None = all.
    """
    if mask is not None:
        q = torch.where(mask, q, -torch.inf)
    above = q - q.amax(1, keepdim=True)
    return above - temperature * torch.logsumexp(above / temperature, 1, keepdim=True)


def bonus(log_policy: Tensor, action: Tensor, cfg: MunchausenConfig) -> Tensor:
    """Returns what is added to rewards, ``[N]``: the clipped `scaled_log_policy` of the stored action, weighted."""
    return cfg.weight * log_policy.gather(1, action.unsqueeze(1)).squeeze(1).clamp(cfg.low, 0.0)


def soft_value(values: Tensor, log_policy: Tensor, temperature: float) -> Tensor:
    """Returns the expectation of values minus `scaled_log_policy` over the softmax policy.

    Args:
        values: ``[N, A]`` means, or quantiles ``[N, A, M]``.
        log_policy: ``[N, A]`` `scaled_log_policy` of their means; -inf for actions that are not allowed.
        temperature: That of the softmax.

    Returns:
        ``[N]``, or ``[N, M]``.
    """
    policy = (log_policy / temperature).exp()
    entropy = -(policy * log_policy.clamp_min(torch.finfo(log_policy.dtype).min)).sum(1)
    if values.dim() == 2:
        return (policy * values).sum(1) + entropy
    return (policy.unsqueeze(2) * values).sum(1) + entropy.unsqueeze(1)
