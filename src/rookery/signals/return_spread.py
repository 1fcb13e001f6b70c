"""Spread of returns: what normalized advantages are divided by at least, where the rewards of a rollout do not differ.

Without such a difference, advantages are only the errors of a critic that has not converged. Normalized to a standard
deviation of 1 they would be as large as real ones, and the policy would follow noise until its entropy is gone.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from rookery.core.batch import Rollout, flat
from rookery.core.ops import decayed_sums
from rookery.core.state import Stateful

LEAST = 0.05
"""Least deviation of advantages, as part of the range of returns so far (benchmarks/results/no_signal.md)."""


class ReturnSpread(Stateful):
    """Range of the returns of one policy, over the whole run.

    Args:
        gamma: Discount of the returns.

    Attributes:
        low: Lowest discounted sum of rewards from a decision to the end of its episode or fragment.
        high: The highest.
        differed: Whether any rollout has shown a difference of rewards.
    """

    saved = ("low", "high", "differed")
    fixed = ("gamma", "everywhere")

    def __init__(self, gamma: float) -> None:
        self.gamma = gamma
        self.everywhere: Callable[..., list[list[float]]] = lambda *numbers: [list(numbers)]
        """Returns numbers of all ranks, one row per rank."""
        self.low = math.inf
        self.high = -math.inf
        self.differed = False

    def least_deviation(self, rollout: Rollout, reward: Tensor, unit: float) -> float:
        """Adds a rollout; returns the least deviation of its advantages, in `unit`.

        It is 0 if the rewards of the rollout differ, or equal ones are cut short by a termination. Equal rewards of
        episodes that only a time limit ends are no signal, since all behavior earns the same. Without a signal, it is
        `LEAST` of the range so far. Before the first signal, it is infinite if all rewards have been 0, so that nothing
        moves the policy; equal rewards other than 0 are not enlarged, because their critic favors rare observations.

        Args:
            rollout: The rollout.
            reward: ``[T, F]`` sum of the rewards of all signals, in units of learning.
            unit: The unit of values, in which advantages that are not enlarged are divided by at least 1.
        """
        rows = rollout.valid_rows()
        ended = rollout.terminated | rollout.truncated | rollout.last
        returns = decayed_sums(reward, torch.full_like(reward, self.gamma).masked_fill_(ended, 0.0))
        rewards, sums = flat(reward, rows), flat(returns, rows)
        cut = bool(flat(rollout.terminated, rows).any())
        found = [float(bound) for part in (rewards, sums) for bound in part.aminmax()]
        ranks = self.everywhere(*found, float(cut))
        least, most, low, high, cut_short = zip(*ranks, strict=True)
        if all(map(math.isfinite, (*low, *high))):
            self.low, self.high = min(self.low, *low), max(self.high, *high)
        differs = min(least) != max(most) or (any(cut_short) and most[0] != 0)
        self.differed |= differs
        if differs:
            return 0.0
        if self.differed:
            return LEAST * (self.high - self.low) / unit
        return 1.0 if self.low < self.high or self.low else math.inf
