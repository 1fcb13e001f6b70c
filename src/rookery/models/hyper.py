"""Goal conditioning: a layer whose weights depend on the goal, made by a hypernetwork (Ha et al. 2017).

As in ML-Agents, the last hidden layer is such a layer and the others are plain. Initial weights follow Chang et al.
2020, "Principled weight initialization for hypernetworks": the generated layer starts with the variance of a plain one.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from rookery.models.layers import HIDDEN_GAIN, orthogonal

MOST_ROWS = 1024
"""Rows processed at once without gradients: each row has its own copy of a whole layer's weights."""

MOST_GOALS = 16
"""Distinct goals in a batch up to which rows with the same goal share a generated weight."""


class HyperLinear(nn.Module):
    """Linear layer with separate weights for each row: ``W(e) x + b(e)``, linear in the goal embedding e.

    ``W(e)`` is a weight shared by all goals, plus a mixture of E others with coefficients e. e is first scaled to a
    mean square of 1; as in Chang et al., the E others start with 1 / E of the target variance of the generated weight.
    That is half of a plain layer's, and the shared weight has the other half: together they start like a plain layer
    for any goal. A goal of all zeros uses only the shared weight. Biases start at zero.

    Args:
        num_inputs: Width of x.
        num_outputs: Width of the output.
        goal_size: E, width of e.
        generator: Draws the weights.
    """

    def __init__(self, num_inputs: int, num_outputs: int, goal_size: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.shape = (num_inputs, num_outputs)
        shared = orthogonal(num_outputs, num_inputs, gain=HIDDEN_GAIN / math.sqrt(2), generator=generator)
        self.shared = nn.Parameter(shared.T.contiguous())
        # an orthogonal weight of this gain has elements of variance gain^2 / max(inputs, outputs)
        std = HIDDEN_GAIN / math.sqrt(2 * max(num_inputs, num_outputs) * goal_size)
        self.mixed = nn.Parameter(
            torch.empty(num_inputs * num_outputs, goal_size, dtype=torch.float32, device="cpu").normal_(
                0, std, generator=generator
            )
        )
        self.bias = nn.Parameter(torch.zeros(num_outputs, dtype=torch.float32, device="cpu"))
        self.mixed_bias = nn.Parameter(torch.zeros(num_outputs, goal_size, dtype=torch.float32, device="cpu"))

    def forward(self, x: Tensor, goal: Tensor) -> Tensor:
        """Returns outputs ``[N, num_outputs]`` of inputs ``[N, num_inputs]`` for goal embeddings ``[N, goal_size]``."""
        if torch.is_grad_enabled() or len(x) <= MOST_ROWS:
            return self._forward(x, goal)
        parts = zip(x.split(MOST_ROWS), goal.split(MOST_ROWS), strict=True)
        return torch.cat([self._forward(some, their) for some, their in parts])

    def shared_by_rows(self, x: Tensor, goal: Tensor, which: Tensor) -> Tensor:
        """Returns the outputs of `forward` for a few goals ``[G, goal_size]``; ``which [N]`` is the goal's index of
        each row. A weight is generated once for each goal, and all rows go through all of them.
        """
        weight, bias = self._generated(goal)
        every = torch.baddbmm(bias.unsqueeze(1), x.expand(len(goal), *x.shape), weight)
        return every[which, torch.arange(len(x), device=x.device, dtype=torch.int64)]

    def _forward(self, x: Tensor, goal: Tensor) -> Tensor:
        weight, bias = self._generated(goal)
        return torch.baddbmm(bias.unsqueeze(1), x.unsqueeze(1), weight).squeeze(1)

    def _generated(self, goal: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the weights ``[N, num_inputs, num_outputs]`` and biases ``[N, num_outputs]`` of goals."""
        goal = functional.rms_norm(goal, goal.shape[-1:], eps=1e-6)
        weight = functional.linear(goal, self.mixed, self.shared.flatten()).view(-1, *self.shape)
        return weight, functional.linear(goal, self.mixed_bias, self.bias)
