"""Demonstrations: what somebody else has decided, to be imitated. They are replay that is only read."""

from __future__ import annotations

import numpy as np
import torch

from rookery.core.batch import Decisions
from rookery.replay.buffer import ReplayBuffer


class StoredDemonstrations:
    """Draws decisions from a buffer evenly, with random numbers of its own.

    Args:
        buffer: What was decided.
        rng: Decides what is drawn; whoever learns saves it.
        device: Where decisions are wanted.
    """

    def __init__(self, buffer: ReplayBuffer, rng: np.random.Generator, device: torch.device) -> None:
        self.buffer = buffer
        self.rng = rng
        self.device = device

    def __len__(self) -> int:
        return len(self.buffer)

    def decisions(self, number: int) -> Decisions:
        """Draws so many decisions with replacement."""
        row = torch.from_numpy(self.rng.integers(self.buffer.first, self.buffer.total, number))
        return self.buffer.steps(row, n_step=1, gamma=1.0).to(self.device)
