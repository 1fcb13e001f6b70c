"""Random numbers of actions: a fixed amount for each slot and vector step, independent of everything else.

Numbers come in blocks of 256 vector steps, slot by slot, from a stream named by policy and block. A block for more
slots begins with the block for fewer, so a slot's actions do not depend on how many others there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rookery.core.seeding import Role, Streams

BLOCK = 256


@dataclass
class ActionNoise:
    """Random numbers of one policy's actions.

    Attributes:
        streams: The run's streams.
        policy: The policy's name.
        uniform: Uniform numbers per decision, in [0, 1); they come first.
        normal: Standard normal numbers per decision.
        device: Device of the policy; a block is copied there at once.
        first_slot: Number of slot 0 among the policy's slots in the whole run.
    """

    streams: Streams
    policy: str
    uniform: int
    normal: int
    device: torch.device
    first_slot: int = 0

    def __post_init__(self) -> None:
        self._number = -1
        self._slots = 0
        self._block = torch.empty(0, dtype=torch.float32, device="cpu")
        self._steps: Sequence[Tensor] = ()  # of each vector step in the block, [slots, n]

    def at(self, slots: np.ndarray | None, num_slots: int, vector_step: int) -> Tensor:
        """Returns ``[N, uniform + normal]`` float32 for the given slots (None = the first `num_slots`) in a vector
        step; read
        it before the next block is drawn.
        """
        number, offset = divmod(vector_step, BLOCK)
        if number != self._number or num_slots > self._slots:
            self._renew(number, max(num_slots, self._slots))
        step = self._steps[offset]
        if slots is not None:
            # NumPy picks a few rows faster
            return torch.from_numpy(step.numpy()[slots]) if step.is_cpu else step[torch.from_numpy(slots)]
        return step if num_slots == self._slots else step[:num_slots]

    def ahead(self, num_slots: int, vector_step: int, steps: int) -> Tensor:
        """Returns ``[steps, N, uniform + normal]`` for the first `num_slots` in the next `steps` vector steps of a
        block.
        """
        self.at(None, num_slots, vector_step)
        offset = vector_step % BLOCK
        return self._block[offset : offset + steps, :num_slots]

    @property
    def slots(self) -> int:
        """Slots for which numbers are drawn."""
        return self._slots

    def _renew(self, number: int, slots: int) -> None:
        """Draws a block of numbers for `slots` slots."""
        block = self._draw(self.first_slot + slots, number)[self.first_slot :].transpose(0, 1)
        if slots == self._slots:  # the views of single steps take longer to make than the numbers
            self._block.copy_(block)
        else:
            self._block = block.contiguous().to(self.device)
            self._steps = self._block.unbind()
        self._number, self._slots = number, slots

    def _draw(self, slots: int, number: int) -> Tensor:
        parts = []
        if self.uniform:
            rng = self.streams.generator(Role.ACTION, self.policy, number, 0)
            parts.append(rng.random((slots, BLOCK, self.uniform), dtype=np.float32))
        if self.normal:
            rng = self.streams.generator(Role.ACTION, self.policy, number, 1)
            parts.append(rng.standard_normal((slots, BLOCK, self.normal), dtype=np.float32))
        return torch.from_numpy(np.concatenate(parts, axis=2))
