"""Linear and convolution layers that start with orthogonal weights (Saxe et al. 2014) and zero biases.

Weights are drawn from a given generator, never from torch's global one: equal seeds give equal networks, whatever ran
before.
"""

from __future__ import annotations

import math
from typing import TypeVar

import torch
from torch import Tensor, nn

LayerT = TypeVar("LayerT", nn.Linear, nn.Conv2d)

HIDDEN_GAIN = math.sqrt(2.0)


def orthogonal(*shape: int, gain: float, generator: torch.Generator) -> Tensor:
    """A weight ``[outputs, inputs...]`` whose rows (or columns, the fewer) are orthogonal, of length `gain`."""
    weight: Tensor = nn.init.orthogonal_(torch.empty(shape), gain=gain, generator=generator)
    return weight


def linear(num_inputs: int, num_outputs: int, *, gain: float, generator: torch.Generator) -> nn.Linear:
    """A linear layer."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, num_inputs, num_outputs)
    return _start(layer, orthogonal(num_outputs, num_inputs, gain=gain, generator=generator))


def convolution(
    num_inputs: int,
    num_outputs: int,
    kernel: int,
    stride: int,
    padding: int = 0,
    *,
    gain: float,
    generator: torch.Generator,
) -> nn.Conv2d:
    """A convolution; `padding` zeros stand around the picture."""
    layer: nn.Conv2d = nn.utils.skip_init(nn.Conv2d, num_inputs, num_outputs, kernel, stride, padding)
    return _start(layer, orthogonal(num_outputs, num_inputs, kernel, kernel, gain=gain, generator=generator))


def _start(layer: LayerT, weight: Tensor) -> LayerT:
    assert layer.bias is not None
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.zero_()
    return layer
