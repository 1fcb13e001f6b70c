"""Slots with their own exploration rates, as the actors of Ape-X (Horgan et al. 2018, 1803.00933, section 4.1)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from rookery.policies.policy import Policy
from rookery.rollout.noise import ActionNoise
from rookery.rollout.slots import SlotStore, WorkerPolicy
from rookery.rollout.storage import DecisionSlab


class PerEnvEpsilonPolicy(WorkerPolicy):
    """A policy whose slot i of N explores at the common rate raised to the power ``1 + per_env_epsilon * i / (N - 1)``.

    Log-probabilities of its actions are nan: those of its head belong to the common rate.

    Args:
        name: Name in the policy mapping.
        number: Its place among the worker's policies.
        policy: Its own copy of weights and normalizer.
        store: Storage of its decisions.
        noise: Random numbers of its actions.
        slots_in_run: N, in the whole run; slots beyond N explore as the last one does.
    """

    fixed: ClassVar[tuple[str, ...]] = (*WorkerPolicy.fixed, "_last", "_power")

    def __init__(
        self, name: str, number: int, policy: Policy, store: SlotStore, noise: ActionNoise, slots_in_run: int
    ) -> None:
        super().__init__(name, number, policy, store, noise)
        self._last = max(slots_in_run - 1, 1)
        self._power = torch.empty(0, 1, dtype=torch.float32, device="cpu")

    def act(self, decisions: DecisionSlab, noise: Tensor | None, memory: np.ndarray | None) -> None:
        """Writes actions, from one forward pass; see `WorkerPolicy.act`."""
        if noise is None:
            super().act(decisions, None, memory)
            return
        if len(self._power) != len(self.taken):
            number = torch.arange(len(self.taken), dtype=torch.int64, device="cpu") + self.noise.first_slot
            place = number.float() / self._last
            power = 1.0 + self.policy.noise.per_env_epsilon * place.clamp(max=1.0)
            self._power = power.unsqueeze(1).to(noise.device)
        power = self._power if self.deciding is None else self._power[torch.from_numpy(self.deciding)]
        super().act(decisions, self.policy.head.of_slots(noise, power), memory)
        decisions.logp[...] = np.nan
