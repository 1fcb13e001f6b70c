"""Layers for models of scripts, and their initializers.

Attributes have the names of 2021, because scripts read them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from rookery.face import ConfigError
from rookery_rllib.keras import framework as frameworks

Initializer = Callable[[Tensor], Any]

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "tanh": torch.tanh,
    "elu": functional.elu,
    "selu": functional.selu,
    "sigmoid": torch.sigmoid,
    "leaky_relu": functional.leaky_relu,
    "swish": functional.silu,
    "silu": functional.silu,
}
"""Activations as functions, which Keras layers take."""

PICTURE_FILTERS: dict[tuple[int, int], list[list[Any]]] = {
    (240, 320): [[16, [12, 16], [7, 9]], [32, [6, 6], 4], [256, [9, 9], 1]],
    (84, 84): [[16, [8, 8], 4], [32, [4, 4], 2], [256, [11, 11], 1]],
    (42, 42): [[16, [4, 4], 2], [32, [4, 4], 2], [256, [11, 11], 1]],
}
"""Default convolutions ``[channels, kernel, stride]`` by height and width of images."""


def get_activation_fn(name: Any = None, framework: str = "tf") -> Any:
    """Returns an activation by its name; None for ``linear`` and None.

    For the framework ``torch`` it is a class of `torch.nn.Module`, else a function on tensors for Keras layers.
    """
    if callable(name):
        return name
    if framework == "torch" or name in (None, "linear") or name not in FUNCTIONS:
        return frameworks.get_activation_fn(name, framework)
    return FUNCTIONS[name]


def get_initializer(name: Any = None, framework: str = "tf") -> Any:
    """Returns a function that fills a weight in place; for other frameworks than ``torch`` the name in Keras."""
    if callable(name):
        return name
    known = {"xavier_uniform": nn.init.xavier_uniform_, "xavier_normal": nn.init.xavier_normal_}
    name = "xavier_uniform" if name in (None, "default") else name
    if name not in known:
        raise ConfigError(f"initializer {name!r} is unknown; use {' or '.join(known)}, or a function of a tensor")
    return known[name] if framework == "torch" else {"xavier_uniform": "glorot_uniform"}.get(name, "glorot_normal")


def get_filter_config(shape: Sequence[int]) -> list[list[Any]]:
    sides = [tuple(shape[:2]), tuple(shape[1:])]
    for size, filters in PICTURE_FILTERS.items():
        if len(shape) in (2, 3) and size in sides:
            return [list(one) for one in filters]
    sizes = ", ".join(f"{height}x{width}" for height, width in PICTURE_FILTERS)
    raise ConfigError(
        f"model.conv_filters: there are no default filters for images of shape {list(shape)}, only for {sizes}; set "
        "conv_filters to [[channels, kernel, stride], ...], the last of which leaves one number of each channel"
    )


def normc_initializer(std: float = 1.0) -> Callable[..., Any]:
    """Returns a function that fills weights with normal numbers; the weights of each output have the norm `std`.

    The function takes a torch weight ``[outputs, ...]`` and fills it in place; of a shape, as Keras layers give it
    (outputs last), it returns a tensor.
    """

    def fill(weight: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(weight, Tensor):
            with torch.no_grad():
                weight.normal_()
                weight.mul_(std / weight.square().sum(1, keepdim=True).sqrt())
            return weight
        drawn = torch.randn(*weight, dtype=torch.float32, device="cpu")
        return drawn * std / drawn.square().sum(0, keepdim=True).sqrt()

    return fill


def _pair(value: Any) -> tuple[int, int]:
    return (int(value), int(value)) if isinstance(value, int | float) else (int(value[0]), int(value[1]))


def same_padding(in_size: Any, filter_size: Any, stride_size: Any) -> tuple[tuple[int, int, int, int], tuple[int, int]]:
    """Returns the padding ``(left, right, top, bottom)`` and the output size ``(height, width)``.

    With this padding only the stride shrinks an image.
    """
    sizes = zip(in_size, _pair(filter_size), _pair(stride_size), strict=True)
    rows, columns = ((math.ceil(side / stride), int(side), window, stride) for side, window, stride in sizes)

    def split(out: int, side: int, window: int, stride: int) -> tuple[int, int]:
        whole = max((out - 1) * stride + window - side, 0)
        return whole // 2, whole - whole // 2

    return (*split(*columns), *split(*rows)), (rows[0], columns[0])


def _activation(activation_fn: Any) -> list[nn.Module]:
    made = get_activation_fn(activation_fn, "torch")
    return [] if made is None else [made()]


class SlimFC(nn.Module):
    def __init__(
        self,
        in_size: int,
        out_size: int,
        initializer: Initializer | None = None,
        activation_fn: Any = None,
        use_bias: bool = True,
        bias_init: float = 0.0,
    ) -> None:
        super().__init__()
        linear = nn.Linear(int(in_size), int(out_size), bias=use_bias, dtype=torch.float32, device="cpu")
        (nn.init.xavier_uniform_ if initializer is None else initializer)(linear.weight)
        if use_bias:
            nn.init.constant_(linear.bias, bias_init)
        self._model = nn.Sequential(linear, *_activation(activation_fn))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self._model(x)
        return out


class SlimConv2d(nn.Module):
    """A convolution with its padding and its activation.

    The `initializer` ``default`` is Glorot's uniform one, None torch's own.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: Any,
        stride: Any,
        padding: Any,
        initializer: Any = "default",
        activation_fn: Any = "default",
        bias_init: float = 0.0,
    ) -> None:
        super().__init__()
        convolution = nn.Conv2d(
            in_channels, out_channels, _pair(kernel), _pair(stride), dtype=torch.float32, device="cpu"
        )
        if initializer is not None:
            get_initializer(initializer, "torch")(convolution.weight)
        assert convolution.bias is not None
        nn.init.constant_(convolution.bias, bias_init)
        padded = [nn.ZeroPad2d(padding)] if padding else []
        activation = _activation("relu" if activation_fn == "default" else activation_fn)
        self._model = nn.Sequential(*padded, convolution, *activation)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self._model(x)
        return out


class AppendBiasLayer(nn.Module):
    def __init__(self, num_bias_vars: int) -> None:
        super().__init__()
        self.log_std = nn.Parameter(torch.zeros(num_bias_vars, dtype=torch.float32, device="cpu"))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat((x, self.log_std.expand(len(x), -1)), 1)


class Reshape(nn.Module):
    def __init__(self, shape: Sequence[int]) -> None:
        super().__init__()
        self.shape = tuple(shape)

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(self.shape)


class NoisyLayer(nn.Module):
    """A linear layer with learned factorized noise on its weights (Fortunato et al. 2018), new at each call."""

    def __init__(self, in_size: int, out_size: int, sigma0: float, activation: Any = "relu") -> None:
        super().__init__()
        self.in_size, self.out_size, self.sigma0 = in_size, out_size, sigma0
        bound = in_size**-0.5
        self.w = nn.Parameter(torch.empty(in_size, out_size, dtype=torch.float32, device="cpu").uniform_(-bound, bound))
        self.b = nn.Parameter(torch.zeros(out_size, dtype=torch.float32, device="cpu"))
        self.sigma_w = nn.Parameter(torch.full((in_size, out_size), sigma0 * bound, dtype=torch.float32, device="cpu"))
        self.sigma_b = nn.Parameter(torch.full((out_size,), sigma0 * bound, dtype=torch.float32, device="cpu"))
        self.activation = nn.Sequential(*_activation(activation))

    def forward(self, inputs: Tensor) -> Tensor:
        rows, columns = (self._noise(size).to(inputs) for size in (self.in_size, self.out_size))
        weight = self.w + self.sigma_w * torch.outer(rows, columns)
        out: Tensor = self.activation(inputs @ weight + self.b + self.sigma_b * columns)
        return out

    @staticmethod
    def _noise(size: int) -> Tensor:
        drawn = torch.randn(size, dtype=torch.float32, device="cpu")
        return drawn.sign() * drawn.abs().sqrt()


class SkipConnection(nn.Module):
    def __init__(self, layer: nn.Module, fan_in_layer: nn.Module | None = None) -> None:
        super().__init__()
        self._layer = layer
        self._fan_in_layer = fan_in_layer

    def forward(self, inputs: Tensor, **kwargs: Any) -> Tensor:
        outputs = self._layer(inputs, **kwargs)
        both: Tensor = outputs + inputs if self._fan_in_layer is None else self._fan_in_layer((inputs, outputs))
        return both


class ConvTranspose2DStack(nn.Module):
    """Decoder of vectors to images with pixelwise normal distributions of standard deviation 1."""

    def __init__(
        self,
        *,
        input_size: int,
        filters: Sequence[Sequence[int]] = ((1024, 5, 2), (128, 5, 2), (64, 6, 2), (32, 6, 2)),
        initializer: Any = "default",
        bias_init: float = 0.0,
        activation_fn: Any = "relu",
        output_shape: Sequence[int] = (3, 64, 64),
    ) -> None:
        super().__init__()
        self.output_shape = tuple(output_shape)
        channels = [one[0] for one in filters] + [self.output_shape[0]]
        layers: list[nn.Module] = [
            nn.Linear(input_size, channels[0], dtype=torch.float32, device="cpu"),
            Reshape((-1, channels[0], 1, 1)),
        ]
        for number, (_, kernel, stride) in enumerate(filters):
            layer = nn.ConvTranspose2d(
                channels[number], channels[number + 1], kernel, stride, dtype=torch.float32, device="cpu"
            )
            get_initializer(initializer, "torch")(layer.weight)
            assert layer.bias is not None
            nn.init.constant_(layer.bias, bias_init)
            layers += [layer, *(_activation(activation_fn) if number < len(filters) - 1 else [])]
        self._model = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Any:
        mean = self._model(x).reshape(*x.shape[:-1], *self.output_shape)
        return torch.distributions.Independent(torch.distributions.Normal(mean, 1.0), len(self.output_shape))
