"""Linear and convolutional layers with orthogonal initial weights (Saxe et al. 2014) and zero biases; activations.

Weights are drawn from a given generator, never from torch's global one: equal seeds make equal networks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

LayerT = TypeVar("LayerT", nn.Linear, nn.Conv2d)

HIDDEN_GAIN = math.sqrt(2.0)


def orthogonal(*shape: int, gain: float, generator: torch.Generator) -> Tensor:
    """Returns a weight ``[outputs, inputs...]`` whose rows (or columns, whichever are fewer) are orthogonal, of length
    `gain`.
    """
    weight: Tensor = nn.init.orthogonal_(
        torch.empty(shape, dtype=torch.float32, device="cpu"), gain=gain, generator=generator
    )
    return weight


def normal(*shape: int, std: float, generator: torch.Generator) -> Tensor:
    """Returns a weight of independent normal numbers of mean 0."""
    weight: Tensor = nn.init.normal_(
        torch.empty(shape, dtype=torch.float32, device="cpu"), std=std, generator=generator
    )
    return weight


class _Unset:
    """Leaves the weights of a layer uninitialized: torch's `skip_init` imports SymPy, which takes a second."""

    def reset_parameters(self) -> None:
        """Does nothing."""


class _UnsetLinear(_Unset, nn.Linear):
    """Linear layer with uninitialized weights."""


class _UnsetConvolution(_Unset, nn.Conv2d):
    """Convolution with uninitialized weights."""


def linear(num_inputs: int, num_outputs: int, *, gain: float, generator: torch.Generator) -> nn.Linear:
    """Makes a linear layer."""
    layer: nn.Linear = _UnsetLinear(num_inputs, num_outputs, dtype=torch.float32, device="cpu")
    layer.__class__ = nn.Linear
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
    """Makes a convolution with zero padding."""
    layer: nn.Conv2d = _UnsetConvolution(
        num_inputs, num_outputs, kernel, stride, padding, dtype=torch.float32, device="cpu"
    )
    layer.__class__ = nn.Conv2d
    return _start(layer, orthogonal(num_outputs, num_inputs, kernel, kernel, gain=gain, generator=generator))


def _start(layer: LayerT, weight: Tensor) -> LayerT:
    assert layer.bias is not None
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.zero_()
    return layer


TANH_BY_SIGMOID_FROM = 4096
"""Elements from which on tanh is computed by the logistic function; for fewer, three calls cost more than one."""

MINUS_ONE = torch.tensor(-1.0, dtype=torch.float32, device="cpu")


def tanh(x: Tensor) -> Tensor:
    """Returns the hyperbolic tangent, elementwise.

    On a CPU torch's tanh costs about 2.5 ns per element and its logistic function a tenth of that, so large float32
    tensors use tanh(x) = 2 / (1 + exp(-2x)) - 1, which is exact to 1.2e-7.
    """
    if x.numel() < TANH_BY_SIGMOID_FROM or x.dtype != torch.float32 or not x.is_cpu:
        return torch.tanh(x)
    return torch.add(MINUS_ONE, torch.sigmoid(x + x), alpha=2)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": tanh,
    "relu": functional.relu,
    "elu": functional.elu,
    "silu": functional.silu,
    "gelu": functional.gelu,
    "linear": lambda x: x,
}
