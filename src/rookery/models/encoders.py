"""Encoders: from an observation tree to features.

Numbers, flags and categories all meet in the first linear layer: it equals one linear layer on their concatenation with
categories as one-hots, but looks categories up in a table instead of multiplying zeros. Pictures go through a
convolutional network each, whose outputs are further inputs of that layer. Action masks are never encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from rookery.core.batch import TensorTree
from rookery.core.spaces import Leaf, ObsSpec
from rookery.models.layers import HIDDEN_GAIN, convolution, linear, orthogonal

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": functional.relu,
    "elu": functional.elu,
    "silu": functional.silu,
    "gelu": functional.gelu,
}

SMALLEST_PICTURE = 3  # pixels; a three-dimensional box with a shorter side is read as a vector
SMALLEST_NATURE = 36  # pixels: the shortest side on which the three layers of the Nature network leave one pixel
NATURE_LAYERS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # filters, kernel, stride
NATURE_FEATURES = 512
SMALL_FILTERS = (16, 32, 64)
SMALL_FEATURES = 128
SMALL_STRIDE_FROM = 14  # pixels: from here on a small network halves its picture


def image_layout(leaf: Leaf) -> tuple[int, int, int, bool] | None:
    """Channels, height, width, and whether channels come last, of a leaf that is a picture; None for any other leaf.

    A picture is a box of three dimensions, uint8 or float. Its channels are the shorter of the first and the last axis,
    the last if they are equal; the other two are at least 3 pixels long.
    """
    if leaf.kind != "box" or len(leaf.shape) != 3:
        return None
    first, middle, last = leaf.shape
    channels_last = last <= first
    channels, height, width = (last, first, middle) if channels_last else (first, middle, last)
    return (channels, height, width, channels_last) if min(height, width) >= SMALLEST_PICTURE else None


def convolutions(height: int, width: int) -> tuple[tuple[int, int, int], ...]:
    """Filters, kernel and stride of the layers for a picture of this size.

    From 36 pixels on both sides these are the layers of Mnih et al. 2015. Smaller pictures, as of grid worlds, get up
    to three layers of 16, 32 and 64 filters with 3x3 kernels, or 2x2 when the shorter side is below 7; a layer halves a
    picture of 14 pixels and more; layers end where the kernel no longer fits.
    """
    side = min(height, width)
    if side >= SMALLEST_NATURE:
        return NATURE_LAYERS
    kernel = 3 if side >= 7 else 2
    layers: list[tuple[int, int, int]] = []
    for filters in SMALL_FILTERS:
        if side < kernel:
            break
        stride = 2 if side >= SMALL_STRIDE_FROM else 1
        side = (side - kernel) // stride + 1
        layers.append((filters, kernel, stride))
    return tuple(layers)


class ImageEncoder(nn.Module):
    """Convolutions and one linear layer, ReLU after each: 512 features, or 128 of a picture below 36 pixels.

    Args:
        leaf: The picture; its `scale` divides the pixels.
        generator: Draws the weights.
    """

    def __init__(self, leaf: Leaf, *, generator: torch.Generator) -> None:
        super().__init__()
        layout = image_layout(leaf)
        assert layout is not None
        channels, height, width, self.channels_last = layout
        self.scale = leaf.scale
        layers: list[nn.Module] = []
        plan = convolutions(height, width)
        for filters, kernel, stride in plan:
            layers.append(convolution(channels, filters, kernel, stride, gain=HIDDEN_GAIN, generator=generator))
            channels, height, width = filters, (height - kernel) // stride + 1, (width - kernel) // stride + 1
        self.convolutions = nn.ModuleList(layers)
        self.num_features = NATURE_FEATURES if plan is NATURE_LAYERS else SMALL_FEATURES
        self.linear = linear(channels * height * width, self.num_features, gain=HIDDEN_GAIN, generator=generator)

    def forward(self, image: Tensor) -> Tensor:
        """Features ``[N, F]`` of pictures ``[N, ...]`` in the layout of the leaf."""
        if self.channels_last:
            image = image.permute(0, 3, 1, 2)  # a view, already in the memory order that convolutions like best
        x = image.to(torch.float32, memory_format=torch.channels_last)
        if self.scale != 1.0:
            x = x / self.scale
        for layer in self.convolutions:
            x = functional.relu(layer(x))
        return functional.relu(self.linear(x.flatten(1)))


class MixedLinear(nn.Module):
    """A linear layer on numbers and categories: equal to one on the numbers followed by the categories as one-hots.

    Args:
        num_inputs: How many numbers.
        sizes: How many values each category has.
        num_outputs: Width of the output.
        generator: Draws the weights, orthogonal as a whole.
    """

    offsets: Tensor
    weight: nn.Parameter | None
    table: nn.Parameter | None

    def __init__(self, num_inputs: int, sizes: Sequence[int], num_outputs: int, *, generator: torch.Generator) -> None:
        super().__init__()
        whole = orthogonal(num_outputs, num_inputs + sum(sizes), gain=HIDDEN_GAIN, generator=generator)
        self.weight = nn.Parameter(whole[:, :num_inputs].clone()) if num_inputs else None
        self.table = nn.Parameter(whole[:, num_inputs:].T.contiguous()) if sizes else None
        self.bias = nn.Parameter(torch.zeros(num_outputs))
        self.register_buffer("offsets", torch.tensor([0, *sizes], dtype=torch.int64).cumsum(0)[:-1], persistent=False)

    def forward(self, numbers: Tensor | None, categories: Tensor | None) -> Tensor:
        """Output ``[N, num_outputs]`` of numbers ``[N, num_inputs]`` and categories ``[N, len(sizes)]``, int64."""
        output: Tensor = self.bias
        if self.weight is not None:
            assert numbers is not None
            output = functional.linear(numbers, self.weight, self.bias)
        if self.table is not None:
            assert categories is not None
            if len(self.offsets) == 1:  # a plain look-up is twice as fast as a sum of one
                looked_up = functional.embedding(categories.squeeze(1), self.table)
            else:
                looked_up = functional.embedding_bag(categories + self.offsets, self.table, mode="sum")
            output = looked_up + output
        return output


class Encoder(nn.Module):
    """The trunk for any observation layout: pictures through their own networks, then linear layers on everything.

    Args:
        obs: Layout of the observations.
        hidden: Widths of the layers; without any, the features are the inputs themselves, categories as one-hots.
        activation: A name in `ACTIVATIONS`, used after each of these layers.
        generator: Draws the weights.
    """

    def __init__(self, obs: ObsSpec, *, hidden: Sequence[int], activation: str, generator: torch.Generator) -> None:
        super().__init__()
        leaves = [leaf for leaf in obs.leaves if leaf.kind != "mask"]
        pictures = [leaf for leaf in leaves if image_layout(leaf)]
        self.vectors = tuple(leaf for leaf in leaves if leaf.kind in ("box", "multi_binary") and not image_layout(leaf))
        self.categories = tuple(leaf for leaf in leaves if leaf.kind in ("discrete", "multi_discrete"))
        self.sizes = tuple(size for leaf in self.categories for size in leaf.sizes)
        self.pictures = tuple(leaf.path for leaf in pictures)
        # A list, because paths are the user's words, and a module cannot be called "keys" or hold a dot.
        images = [ImageEncoder(leaf, generator=generator) for leaf in pictures]
        self.images = nn.ModuleList(images)
        self.activation = activation
        num_numbers = sum(int(np.prod(leaf.shape)) for leaf in self.vectors)
        num_numbers += sum(image.num_features for image in images)
        self.first = MixedLinear(num_numbers, self.sizes, hidden[0], generator=generator) if hidden else None
        self.layers = nn.ModuleList(
            linear(hidden[i], hidden[i + 1], gain=HIDDEN_GAIN, generator=generator) for i in range(len(hidden) - 1)
        )
        self.num_features = hidden[-1] if hidden else num_numbers + sum(self.sizes)

    def forward(self, obs: TensorTree) -> Tensor:
        """Features ``[N, num_features]`` of observations ``[N, ...]`` by leaf path."""
        numbers = self._numbers(obs)
        categories = self._categories(obs)
        if self.first is None:
            return _one_hots(numbers, categories, self.sizes)
        activation = ACTIVATIONS[self.activation]
        x = activation(self.first(numbers, categories))
        for layer in self.layers:
            x = activation(layer(x))
        return x

    def _numbers(self, obs: TensorTree) -> Tensor | None:
        """Boxes, flags and picture features side by side, float32."""
        parts: list[Tensor] = []
        for leaf in self.vectors:
            part = obs[leaf.path]
            if len(leaf.shape) != 1:
                part = part.reshape(len(part), -1)
            if leaf.dtype != np.float32:
                part = part.to(torch.float32)
            parts.append(part if leaf.scale == 1.0 else part / leaf.scale)
        parts += [image(obs[path]) for path, image in zip(self.pictures, self.images, strict=True)]
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1) if parts else None

    def _categories(self, obs: TensorTree) -> Tensor | None:
        """All categories side by side, int64 ``[N, len(sizes)]``."""
        parts = [obs[leaf.path].reshape(-1, len(leaf.sizes)) for leaf in self.categories]
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1) if parts else None


def _one_hots(numbers: Tensor | None, categories: Tensor | None, sizes: Sequence[int]) -> Tensor:
    """Numbers followed by categories as one-hots, float32 ``[N, num_inputs + sum(sizes)]``."""
    parts = [] if numbers is None else [numbers]
    if categories is not None:
        parts += [functional.one_hot(categories[:, i], size).float() for i, size in enumerate(sizes)]
    return torch.cat(parts, 1)
