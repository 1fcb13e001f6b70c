"""Noisy layers: the size of the noise on weights is learned, and explores (Fortunato et al. 2018, 1706.10295).

The noise is factorised (their equation 10): that of a weight is the product of a number of its input and one of its
output. So each row of a batch can have noise of its own, as if it had a network of its own, at the price of a second
layer: ``(sigma * f(e_out) f(e_in)^T) x = f(e_out) * (sigma (f(e_in) * x))``.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


class NoisyLinear(nn.Module):
    """A linear layer with noise on weights and biases.

    Args:
        num_inputs: Width of the input.
        num_outputs: Width of the output.
        std: First size of the noise, divided by the root of `num_inputs`: sigma_0 in the paper, which takes 0.5.
        generator: Draws the weights.

    Attributes:
        width: Normal numbers that the noise of one row takes: one for each input, then one for each output.
        weight: ``[num_outputs, num_inputs]`` means.
        bias: ``[num_outputs]`` means.
        weight_sigma: ``[num_outputs, num_inputs]`` sizes of the noise.
        bias_sigma: ``[num_outputs]``.
    """

    def __init__(self, num_inputs: int, num_outputs: int, std: float, *, generator: torch.Generator) -> None:
        super().__init__()
        self.width = num_inputs + num_outputs
        self._split = (num_inputs, num_outputs)
        bound, size = 1.0 / math.sqrt(num_inputs), std / math.sqrt(num_inputs)
        self.weight = nn.Parameter(torch.empty(num_outputs, num_inputs).uniform_(-bound, bound, generator=generator))
        self.bias = nn.Parameter(torch.empty(num_outputs).uniform_(-bound, bound, generator=generator))
        self.weight_sigma = nn.Parameter(torch.full((num_outputs, num_inputs), size))
        self.bias_sigma = nn.Parameter(torch.full((num_outputs,), size))

    def forward(self, x: Tensor, noise: Tensor | None = None) -> Tensor:
        """Outputs ``[N, num_outputs]`` of inputs ``[N, num_inputs]``.

        Args:
            x: The inputs.
            noise: Normal numbers ``[N, width]``, or ``[1, width]`` for all rows; None = the means alone.
        """
        means = functional.linear(x, self.weight, self.bias)
        if noise is None:
            return means
        of_input, of_output = (noise.sign() * noise.abs().sqrt()).split(self._split, -1)
        return torch.addcmul(means, of_output, functional.linear(x * of_input, self.weight_sigma, self.bias_sigma))
