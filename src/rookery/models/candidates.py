"""Candidates of evolution strategies: policies whose weights differ from the learned ones by drawn directions.

Candidates ``2 i`` and ``2 i + 1`` have the learned weights plus and minus `noise_std` times direction i. Directions are
not sent: acting and learning sides draw them from a seed and the number of the generation, which are buffers of the
head (as the shared noise of Salimans et al. 2017, arXiv:1703.03864, section 2.1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from rookery.core.spaces.arrays import ActionSpec
from rookery.models.heads import ActionHead, HeadSpec


@dataclass(frozen=True)
class CandidateHead(HeadSpec):
    """Spec of the head of a policy that is learned by its candidates: that of policy gradients, with buffers `seed`,
    `generation` (int64) and `noise_std`. The policy itself acts by the learned weights.

    Attributes:
        directions: Directions of a generation; it has twice as many candidates.
        episodes: Episodes that each candidate plays in its generation.
    """

    directions: int
    episodes: int = 1

    @property
    def candidates(self) -> int:
        """Candidates of a generation."""
        return 2 * self.directions

    def build(
        self, num_features: int, action: ActionSpec, *, log_std_init: float, generator: torch.Generator
    ) -> ActionHead:
        """Builds the head; arguments as of `HeadSpec.build`."""
        head = ActionHead(num_features, action, log_std_init=log_std_init, generator=generator)
        for name in ("seed", "generation"):
            head.register_buffer(name, torch.zeros((), dtype=torch.int64, device="cpu"))
        head.register_buffer("noise_std", torch.zeros((), dtype=torch.float32, device="cpu"))
        return head


def perturbed_modules(trunk: nn.Module, head: ActionHead) -> list[nn.Module]:
    """Returns the modules whose weights, in this order, are the vector that directions change. The standard deviation
    of continuous actions is not part of it, because candidates do not draw actions.
    """
    return [trunk, head.linear]


def weight_vector(modules: list[nn.Module]) -> Tensor:
    """Returns the weights ``[W]`` of modules, as one vector."""
    return torch.cat([weight.reshape(-1) for module in modules for weight in module.parameters()])


def direction(seed: int, generation: int, number: int, like: Tensor) -> Tensor:
    """Draws a direction: standard normal numbers ``[W]``.

    Args:
        seed: Seed of the policy.
        generation: Number of the generation, from 0.
        number: Number of the direction in it.
        like: ``[W]`` the weights.
    """
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(generation, number))))
    return torch.from_numpy(rng.standard_normal(len(like), dtype=np.float32)).to(like.device)
