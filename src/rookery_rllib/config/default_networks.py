"""The default networks of 2021 that our settings cannot express: `DefaultNetwork`.

Other activations than ours, and convolutions listed one by one, need a module. All other networks are described by
settings, and run on kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional

from rookery.face import ConfigError

FUNCTIONS: dict[str, Callable[[Tensor], Tensor] | None] = {
    "tanh": torch.tanh,
    "relu": functional.relu,
    "elu": functional.elu,
    "gelu": functional.gelu,
    "swish": functional.silu,
    "silu": functional.silu,
    "sigmoid": torch.sigmoid,
    "selu": functional.selu,
    "leaky_relu": functional.leaky_relu,
    "softplus": functional.softplus,
    "linear": None,
}
"""Activations by their names in configurations; None = none."""

HIDDEN_GAIN = math.sqrt(2.0)

MASK = "action_mask"
"""Key of the action mask in an observation."""


class DefaultNetwork(nn.Module):
    """Convolutions over an image, or an observation as one vector, and fully connected layers on top.

    All convolutions but the last pad such that only the stride shrinks the image; the last has no padding, as in 2021.

    Args:
        obs_space: The observation space.
        hidden: Widths of the layers.
        activation: Name of the activation after each of them.
        filters: ``[channels, kernel, stride]`` of each convolution; empty = images are flattened.
        conv_activation: Name of the activation after each convolution.

    Attributes:
        num_features: Width of the output.
    """

    def __init__(
        self,
        obs_space: gymnasium.Space[Any],
        hidden: Sequence[int] = (),
        activation: str = "tanh",
        filters: Sequence[Sequence[Any]] = (),
        conv_activation: str = "relu",
    ) -> None:
        super().__init__()
        self.space = obs_space
        self._function, self._picture_function = FUNCTIONS[activation], FUNCTIONS[conv_activation]
        self.convolutions = nn.ModuleList()
        self.strides: list[tuple[int, int]] = []
        width = _size(obs_space) if not filters else self._convolve(obs_space, filters)
        self.layers = nn.ModuleList()
        for size in hidden:
            layer = nn.Linear(width, size, dtype=torch.float32, device="cpu")
            nn.init.orthogonal_(layer.weight, HIDDEN_GAIN)
            nn.init.zeros_(layer.bias)
            self.layers.append(layer)
            width = size
        self.num_features = width

    def _convolve(self, space: gymnasium.Space[Any], filters: Sequence[Sequence[Any]]) -> int:
        """Builds the convolutions; returns the number of features after them."""
        shape = space.shape
        if not isinstance(space, spaces.Box) or shape is None or len(shape) not in (2, 3):
            raise ConfigError(
                f"rllib config: model.conv_filters: they are for images [height, width, channels], and observations "
                f"are {space}; leave conv_filters out, or register a custom_model"
            )
        channels = shape[2] if len(shape) == 3 else 1
        size = [shape[0], shape[1]]
        for number, (out, kernel, stride) in enumerate(filters):
            window, step = _pair(kernel), _pair(stride)
            last = number == len(filters) - 1
            size = [
                (side - w) // s + 1 if last else math.ceil(side / s)
                for side, w, s in zip(size, window, step, strict=True)
            ]
            if min(size) < 1:
                raise ConfigError(
                    f"rllib config: model.conv_filters: the kernel {list(window)} of filter {number + 1} is larger "
                    f"than its input of an image {shape}; give a smaller one"
                )
            layer = nn.Conv2d(channels, out, window, step, dtype=torch.float32, device="cpu")
            nn.init.orthogonal_(layer.weight, HIDDEN_GAIN)
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)
            self.convolutions.append(layer)
            self.strides.append(step)
            channels = out
        return channels * size[0] * size[1]

    def forward(self, obs: Any) -> Tensor:
        """Computes features ``[N, num_features]``."""
        x = self._pictures(obs) if len(self.convolutions) else _flat(self.space, obs)
        for layer in self.layers:
            x = layer(x)
            x = x if self._function is None else self._function(x)
        return x

    def _pictures(self, obs: Tensor) -> Tensor:
        x = obs.unsqueeze(1) if obs.dim() == 3 else obs.permute(0, 3, 1, 2)
        for number, layer in enumerate(self.convolutions):
            if number < len(self.convolutions) - 1:
                x = functional.pad(x, _same(x.shape[2:], layer))
            x = layer(x)
            x = x if self._picture_function is None else self._picture_function(x)
        return x.flatten(1)


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])


def _same(size: Sequence[int], layer: Any) -> list[int]:
    """Returns the padding ``[left, right, top, bottom]`` with which only the stride shrinks an image."""
    padding: list[int] = []
    for side, window, step in zip(reversed(size), reversed(layer.kernel_size), reversed(layer.stride), strict=True):
        whole = max((math.ceil(side / step) - 1) * step + window - side, 0)
        padding += [whole // 2, whole - whole // 2]
    return padding


def _size(space: gymnasium.Space[Any]) -> int:
    """Returns the length of an observation as one vector, without action masks."""
    if isinstance(space, spaces.Dict):
        return sum(_size(part) for key, part in space.spaces.items() if key != MASK)
    return int(spaces.flatdim(space))


def _flat(space: gymnasium.Space[Any], obs: Any) -> Tensor:
    """Flattens observations to vectors ``[N, F]``; categories become one-hot."""
    if isinstance(space, spaces.Discrete):
        return functional.one_hot(obs.long(), int(space.n)).float()
    if isinstance(space, spaces.MultiDiscrete):
        sizes = [int(size) for size in space.nvec.flatten()]
        columns = obs.long().flatten(1)
        return torch.cat([functional.one_hot(columns[:, at], size) for at, size in enumerate(sizes)], 1).float()
    if isinstance(space, spaces.Dict):
        return torch.cat([_flat(space[key], obs[key]) for key in space.spaces if key != MASK], 1)
    if isinstance(space, spaces.Tuple):
        return torch.cat([_flat(part, value) for part, value in zip(space.spaces, obs, strict=True)], 1)
    flat: Tensor = obs.float().flatten(1)
    return flat
