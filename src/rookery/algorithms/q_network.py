"""Values of actions as one network: the trunk, memory and head of a policy, or copies of them."""

from __future__ import annotations

import copy
from typing import Self

import torch
from torch import Tensor, nn

from rookery.algorithms.q_kernel import QKernels, RecurrentQKernels
from rookery.algorithms.q_losses import QBatch
from rookery.core.batch import Sequences, TensorTree
from rookery.models.memory import Memory
from rookery.models.q_head import QHead


class QNetwork(nn.Module):
    """From observations, as the trunk takes them, to what is learned of each action.

    Args:
        head: Says it.
        trunk: From observations to features.
        memory: Makes these depend on what came before; None if they do not.
    """

    def __init__(self, head: QHead, trunk: nn.Module, memory: Memory | None) -> None:
        super().__init__()
        self.head = head
        self.trunk = trunk
        self.memory = memory
        self.kernels: QKernels | RecurrentQKernels | None = None
        """What runs it in the place of torch, if anything does."""

    @property
    def parts(self) -> list[nn.Module]:
        """All that learns, in the order in which it lies in memory: head, trunk, memory."""
        return [part for part in (self.head, self.trunk, self.memory) if part is not None]

    def twin(self) -> Self:
        """One with weights of its own, equal to these."""
        return copy.deepcopy(self)

    def values(self, obs: TensorTree, noise: Tensor | None) -> Tensor:
        """``[N, A]`` or ``[N, A, M]``, of rows ``[N, ...]`` that stand for themselves.

        Args:
            obs: By leaf path.
            noise: ``[1, W]`` numbers for noisy layers, the same for all rows; None = their means.
        """
        if isinstance(self.kernels, QKernels) and not torch.is_grad_enabled():
            return self.kernels.values(obs)
        return self._values(self.trunk(obs), noise)

    def along(
        self, obs: TensorTree, noise: Tensor | None, memory: Tensor, sequences: Sequences, keep: bool = False
    ) -> tuple[Tensor, Tensor]:
        """The same of rows in sequences; and what is remembered after each sequence, ``[B, M]``.

        Args:
            obs: As of `values`, like the next.
            noise: ``[1, W]``.
            memory: ``[B, M]`` what is remembered before each sequence.
            sequences: How the rows lie in time.
            keep: A backward pass will follow, through kernels.
        """
        assert self.memory is not None
        if isinstance(self.kernels, RecurrentQKernels) and not torch.is_grad_enabled():
            return self.kernels.along(obs, memory, sequences, keep)
        features, after = self.memory(self.trunk(obs), memory, sequences)
        return self._values(features, noise), after

    def forward(self, batch: QBatch) -> Tensor:
        """What is learned of each action, for the rows of a batch."""
        if batch.sequences is None or batch.memory is None:
            values = self.values(batch.obs, batch.noise)
        else:
            values, _ = self.along(batch.obs, batch.noise, batch.memory, batch.sequences)
        return values if batch.learned is None else values.index_select(0, batch.learned)

    def _values(self, features: Tensor, noise: Tensor | None) -> Tensor:
        return self.head.values(features, None if noise is None else noise.expand(len(features), -1))
