"""Reward scaling: the environment's reward divided by the running standard deviation of its discounted return.

Engstrom et al. 2020, "Implementation matters in deep policy gradients", section 2. The mean is not subtracted, which
would change the optimal policy. Statistics cover every slot and continue from rollout to rollout.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rookery.core.batch import Rollout
from rookery.core.state import Stateful
from rookery.policies.normalize import RunningMeanStd

CLIP = 10.0


class ReturnScale(Stateful):
    """Scales the rewards of one policy.

    Args:
        gamma: Discount of the return whose standard deviation is measured.
        clip: Largest magnitude of a scaled reward; None = no limit.
    """

    saved = ("statistics", "running")
    fixed = ("gamma", "clip")

    def __init__(self, gamma: float, clip: float | None = CLIP) -> None:
        self.gamma = gamma
        self.clip = clip
        self.statistics = RunningMeanStd(())
        self.running = np.zeros(0)

    def __call__(self, rollout: Rollout) -> Tensor:
        """Updates the statistics with the rollout and returns its rewards ``[T, F]``, scaled and clipped."""
        returns = self.discounted(rollout)
        self.statistics.update(torch.from_numpy(returns[rollout.valid.numpy(force=True)]))
        reward = rollout.reward / self.deviation
        return reward if self.clip is None else reward.clamp(-self.clip, self.clip)

    @property
    def deviation(self) -> float:
        """The standard deviation of returns so far."""
        return float(torch.sqrt(self.statistics.var + 1e-8))

    def discounted(self, rollout: Rollout) -> np.ndarray:
        """Returns the discounted sum of rewards up to each decision, ``[T, F]``, continued from a slot's earlier
        fragments.
        """
        slot, length, first = (part.numpy(force=True) for part in (rollout.slot, rollout.length, rollout.first))
        reward = rollout.reward.numpy(force=True)
        ended = (rollout.terminated | rollout.truncated).numpy(force=True)
        if len(slot) and slot.max() >= len(self.running):
            self.running = np.concatenate((self.running, np.zeros(int(slot.max()) + 1 - len(self.running))))
        returns = np.zeros(reward.shape)
        order = np.argsort(slot, kind="stable")  # fragments of a slot come in the order of time
        _, starts = np.unique(slot[order], return_index=True)
        turn = np.arange(len(order)) - np.repeat(starts, np.diff((*starts, len(order))))
        for wave in range(int(turn.max(initial=-1)) + 1):  # the fragment number `wave` of every slot that has one
            fragments = order[turn == wave]
            total = np.where(first[fragments], 0.0, self.running[slot[fragments]])
            for t in range(int(length[fragments].max())):
                valid = t < length[fragments]
                total = np.where(valid, total * self.gamma + reward[t, fragments], total)
                returns[t, fragments] = total
                total = np.where(valid & ended[t, fragments], 0.0, total)
            self.running[slot[fragments]] = total
        return returns
