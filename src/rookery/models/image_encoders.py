"""Image networks: Mnih et al. 2015 (*Nature*), the residual one of Espeholt et al. 2018 (IMPALA), that of DrQ-v2
(Yarats et al. 2021), a small one, and those of ML-Agents.

They are fast on a CPU, with equal results, because: activations use the ``channels_last`` memory format; a strided
convolution reads several columns as one with more channels; uint8 pixels become floats in one pass, because their scale
divides the few weights of the first layer instead; and learning may compute products in bfloat16, which is twice as
fast on recent CPUs. Weights, gradients of weights, features, acting and targets are always float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from rookery.core.batch import Stacked
from rookery.core.errors import ConfigError
from rookery.core.spaces.arrays import Leaf, image_axes
from rookery.models.layers import HIDDEN_GAIN, convolution, linear, normal

SMALLEST_NATURE = 36  # pixels: the shortest side for which the three layers of the Nature network output one pixel
NATURE_LAYERS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # filters, kernel, stride
DRQ_LAYERS = ((32, 3, 2), (32, 3, 1), (32, 3, 1), (32, 3, 1))
SIMPLE_LAYERS = ((16, 8, 4), (32, 4, 2))
MATCH3_LAYERS = ((35, 3, 1), (144, 3, 1))
FIXED_LAYERS = {
    "nature": NATURE_LAYERS,
    "nature_leaky": NATURE_LAYERS,
    "drq": DRQ_LAYERS,
    "simple": SIMPLE_LAYERS,
    "match3": MATCH3_LAYERS,
    "flat": (),
}
"""Layers of the networks that do not depend on the image size."""

SMALLEST = {
    "nature": SMALLEST_NATURE,
    "nature_leaky": SMALLEST_NATURE,
    "drq": 15,
    "simple": 20,
    "resnet": 15,
    "match3": 5,
}
"""Pixels: the shortest side for which the layers of these networks output one pixel."""

LEAKY = 0.01
SLOPES = {"nature_leaky": LEAKY, "simple": LEAKY, "match3": LEAKY, "flat": LEAKY}
"""Slope below 0 of networks with leaky ReLUs."""

IMPALA_FILTERS = (16, 32, 32)
SMALL_FILTERS = (16, 32, 64)
SMALL_STRIDE_FROM = 14  # pixels: from this size on a small network halves its image
FEATURES = {
    "nature": 512,
    "impala": 256,
    "small": 128,
    "drq": 50,
    "simple": 128,
    "nature_leaky": 128,
    "resnet": 128,
    "match3": 128,
    "flat": 128,
}
RESIDUAL = ("impala", "resnet")
"""Residual networks: that of the paper, and ML-Agents' form of it, with unpadded max pooling and swish."""

NORMALIZED = ("drq",)
"""Networks whose features are normalized (LayerNorm) and pass through tanh, instead of a ReLU."""

NUM_CODES = 32
"""Number of categories of a categorical image, from 0 on; greater values count as the greatest category."""

CODE_SIZE = 32
"""Width of a category's embedding."""

WORDS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integer types by size in bytes: one number moves that many uint8 pixels at once."""


def image_layout(leaf: Leaf) -> tuple[int, int, int, bool] | None:
    """Returns channels, height, width, and whether channels come last, of a leaf that is an image, uint8 or float; None
    for any other leaf. See `image_axes`.
    """
    return image_axes(leaf.shape) if leaf.kind == "box" else None


def network_for(cnn: str, leaf: Leaf) -> str:
    """Returns the name of an image's network: the setting itself, or for ``auto``, ``nature`` or ``small`` by size.

    Raises:
        ConfigError: If the image is too small for the chosen network.
    """
    layout = image_layout(leaf)
    assert layout is not None
    _, height, width, _ = layout
    side = min(height, width)
    if cnn == "auto":
        return "nature" if side >= SMALLEST_NATURE else "small"
    if side < SMALLEST.get(cnn, 0):
        fit = [name for name in FEATURES if side >= SMALLEST.get(name, 0)]
        raise ConfigError(
            f"model.cnn = {cnn!r}: the image {leaf.path!r} of {height} x {width} pixels is too small, its sides "
            f"must be at least {SMALLEST[cnn]}; use auto, {', '.join(fit[:-1])} or {fit[-1]}"
        )
    return cnn


def small_layers(height: int, width: int) -> tuple[tuple[int, int, int], ...]:
    """Returns filters, kernel and stride of the small network's layers, for images such as grid worlds.

    Up to three layers of 16, 32 and 64 filters with 3x3 kernels, or 2x2 when the shorter side is below 7; a layer
    halves an image of 14 pixels and more; there are no layers after the kernel no longer fits.
    """
    side = min(height, width)
    kernel = 3 if side >= 7 else 2
    layers: list[tuple[int, int, int]] = []
    for filters in SMALL_FILTERS:
        if side < kernel:
            break
        stride = 2 if side >= SMALL_STRIDE_FROM else 1
        side = (side - kernel) // stride + 1
        layers.append((filters, kernel, stride))
    return tuple(layers)


def joins(layer: nn.Conv2d, width: int) -> bool:
    """Whether a layer can read images of this width with joined columns, see `convolved`."""
    size = layer.stride[1]
    return size > 1 and layer.kernel_size[1] % size == 0 and width % size == 0 and layer.padding == (0, 0)


def convolved(layer: nn.Conv2d, x: Tensor, scale: float) -> Tensor:
    """Returns ``layer(x / scale)``; divides the weights, because they are fewer.

    If s divides the width, a layer of stride s reads s columns as one column with s times as many channels, at stride
    1: with its weights in the same order it sums the same products, and CPUs are faster with many channels.

    Args:
        layer: The convolution.
        x: ``[N, channels, height, width]``, channels last in memory, or the result of `joined_bytes`.
        scale: Divisor of the pixels.
    """
    weight = layer.weight if scale == 1.0 else layer.weight / scale
    by_planes = x.shape[1] != layer.in_channels
    if not (by_planes or joins(layer, x.shape[3])):
        return functional.conv2d(x, weight, layer.bias, layer.stride, layer.padding)
    size = layer.stride[1]
    parts = weight.unflatten(3, (-1, size))  # [filters, channels, rows, columns / s, s]
    if by_planes:
        weight = parts.permute(0, 1, 4, 2, 3).flatten(1, 2)
    else:
        weight = parts.permute(0, 4, 1, 2, 3).flatten(1, 2)
        x = x.permute(0, 2, 3, 1).unflatten(2, (-1, size)).flatten(3).permute(0, 3, 1, 2)  # a view
    return functional.conv2d(x, weight, layer.bias, (layer.stride[0], 1))


def joined_bytes(image: Tensor, size: int) -> Tensor:
    """Joins every `size` columns of uint8 images ``[N, channels, height, width]``: returns ``[N, channels * size,
    height, width / size]``, channels last in memory. Moves `size` bytes at once.
    """
    words = image.contiguous().view(WORDS[size]).permute(0, 2, 3, 1)
    rows = words.flatten(2).view(torch.uint8)
    joined: Tensor = rows.unflatten(2, (words.shape[2], -1))
    return joined.permute(0, 3, 1, 2)


def leaky_relu(x: Tensor, slope: float) -> Tensor:
    """Applies a leaky ReLU in place: ``x`` where it is above 0, ``slope * x`` elsewhere."""
    return functional.leaky_relu_(x, slope) if slope else torch.relu_(x)


class PlainStack(nn.ModuleList):
    """Convolutions with a ReLU after each; without layers, the pixels themselves.

    Args:
        channels: Channels of an image.
        plan: Filters, kernel and stride of each layer.
        slope: Slope of the ReLU below 0.
        generator: Draws the weights.
    """

    def __init__(
        self,
        channels: int,
        plan: Sequence[tuple[int, int, int]],
        *,
        slope: float = 0.0,
        generator: torch.Generator,
    ) -> None:
        layers = []
        for filters, kernel, stride in plan:
            layers.append(convolution(channels, filters, kernel, stride, gain=HIDDEN_GAIN, generator=generator))
            channels = filters
        super().__init__(layers)
        self.slope = slope

    def forward(self, pixels: Tensor, scale: float) -> Tensor:
        """Computes maps ``[N, filters, h, w]`` of images ``[N, channels, height, width]`` divided by `scale`."""
        if not len(self):
            return pixels if scale == 1.0 else pixels / scale
        *others, last = self
        x = pixels
        for layer in others:
            assert isinstance(layer, nn.Conv2d)
            x = leaky_relu(convolved(layer, x, scale), self.slope)
            scale = 1.0
        assert isinstance(last, nn.Conv2d)
        # Contiguous before the ReLU: the gradient of the following linear layer arrives in this memory format.
        return leaky_relu(convolved(last, x, scale).contiguous(), self.slope)


class Residual(nn.Module):
    """Residual block of two 3x3 convolutions, each after a ReLU or swish."""

    def __init__(self, channels: int, *, swish: bool, generator: torch.Generator) -> None:
        super().__init__()
        self.swish = swish
        self.first = convolution(channels, channels, 3, 1, padding=1, gain=HIDDEN_GAIN, generator=generator)
        self.second = convolution(channels, channels, 3, 1, padding=1, gain=HIDDEN_GAIN, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        """Returns maps of the shape of `x`, ``[N, channels, height, width]``."""
        if self.swish:
            added: Tensor = self.second(functional.silu(self.first(functional.silu(x))))
        else:
            added = self.second(torch.relu_(self.first(torch.relu(x))))
        return added.add_(x)


class Section(nn.Module):
    """A 3x3 convolution, a 3x3 max pooling of stride 2, and two residual blocks.

    Args:
        channels: Channels of its input.
        filters: Channels of its output.
        padding: Padding of the max pooling: 1, or 0 as in ML-Agents.
        swish: Whether blocks use swish instead of ReLUs.
        generator: Draws the weights.
    """

    def __init__(self, channels: int, filters: int, *, padding: int, swish: bool, generator: torch.Generator) -> None:
        super().__init__()
        self.padding = padding
        self.convolution = convolution(channels, filters, 3, 1, padding=1, gain=HIDDEN_GAIN, generator=generator)
        self.blocks = nn.ModuleList(Residual(filters, swish=swish, generator=generator) for _ in range(2))

    def forward(self, x: Tensor, scale: float) -> Tensor:
        """Returns maps ``[N, filters, height / 2, width / 2]`` of `x` divided by `scale`; with padding, sizes are
        rounded up.
        """
        x = functional.max_pool2d(convolved(self.convolution, x, scale), 3, stride=2, padding=self.padding)
        for block in self.blocks:
            x = block(x)
        return x


class ResidualStack(nn.ModuleList):
    """Sections with the filters `widths`, and a final ReLU or swish; arguments as of `Section`."""

    def __init__(
        self, channels: int, widths: Sequence[int], *, padding: int, swish: bool, generator: torch.Generator
    ) -> None:
        inputs = (channels, *widths)
        super().__init__(Section(i, o, padding=padding, swish=swish, generator=generator) for i, o in pairwise(inputs))
        self.swish = swish

    def forward(self, pixels: Tensor, scale: float) -> Tensor:
        """Computes maps ``[N, filters, h, w]`` of images ``[N, channels, height, width]`` divided by `scale`."""
        x = pixels
        for section in self:
            x = section(x, scale)
            scale = 1.0
        return functional.silu(x) if self.swish else torch.relu_(x)


class CodeEmbedding(nn.Module):
    """Embedding of categorical images: looks up a vector for each value, and sums those of a cell's channels.

    It equals a 1x1 convolution on one-hot categories: values that name objects, colours or states have no order that a
    network should have to unlearn.

    Args:
        channels: Values per cell, each with its own table.
        generator: Draws the embeddings.
    """

    offsets: Tensor

    def __init__(self, channels: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.table = nn.Parameter(normal(channels * NUM_CODES, CODE_SIZE, std=channels**-0.5, generator=generator))
        self.register_buffer(
            "offsets", torch.arange(channels, dtype=torch.int64, device="cpu") * NUM_CODES, persistent=False
        )

    def forward(self, image: Tensor) -> Tensor:
        """Returns maps ``[N, CODE_SIZE, height, width]`` of categories ``[N, height, width, channels]``."""
        codes = image.to(torch.int64).clamp_(0, NUM_CODES - 1) + self.offsets
        cells = functional.embedding_bag(codes.flatten(0, 2), self.table, mode="sum")
        return cells.view(*codes.shape[:3], CODE_SIZE).permute(0, 3, 1, 2)


@dataclass(frozen=True)
class Maps:
    """Images of which the convolutions are already computed. It replaces a tensor in a `TensorTree`, and image networks
    accept it.

    Attributes:
        values: ``[N, numbers]`` float32, the flattened maps.
    """

    values: Tensor

    def __len__(self) -> int:
        return len(self.values)


class ImageEncoder(nn.Module):
    """Convolutional network and one linear layer with a ReLU: 512 features (nature), 256 (impala) or 128 (the
    others); of ``drq`` 50, with LayerNorm and tanh instead.

    Args:
        leaf: Layout of the image; its `scale` divides the pixels.
        codes: Whether its values are categories, which get embeddings, instead of brightness.
        cnn: Name of the network: ``auto``, or one of `FEATURES`.
        cnn_width: Factor on the filters of every layer.
        cnn_features: Number of features; None = the default of the network.
        precision: ``float32``, or ``bfloat16`` for products while learning.
        generator: Draws the weights.

    Raises:
        ConfigError: If the image is too small for the chosen network, or `cnn_width` is set for one without filters.
    """

    def __init__(
        self,
        leaf: Leaf,
        *,
        cnn: str,
        cnn_width: int,
        cnn_features: int | None,
        precision: str,
        codes: bool,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        layout = image_layout(leaf)
        assert layout is not None
        channels, height, width, self.channels_last = layout
        self.scale = 1.0 if codes else leaf.scale
        self.embedding = CodeEmbedding(channels, generator=generator) if codes else None
        channels = CODE_SIZE if codes else channels
        self.learns_in_bfloat16 = precision == "bfloat16"
        network = network_for(cnn, leaf)
        self.num_features = cnn_features or FEATURES[network]
        self.slope = SLOPES.get(network, 0.0)
        if network == "flat" and cnn_width != 1:
            raise ConfigError(
                f"model.cnn_width = {cnn_width} multiplies filters, and model.cnn = 'flat' has none: leave it out, or "
                "set model.cnn_features for more features"
            )
        if network in RESIDUAL:
            widths, padding = [filters * cnn_width for filters in IMPALA_FILTERS], 1 if network == "impala" else 0
            swish = network == "resnet"
            self.convolutions: nn.Module = ResidualStack(
                channels, widths, padding=padding, swish=swish, generator=generator
            )
            for _ in widths:
                height, width = ((side + 2 * padding - 3) // 2 + 1 for side in (height, width))
            channels = widths[-1]
        else:
            layers = small_layers(height, width) if network == "small" else FIXED_LAYERS[network]
            plan = [(filters * cnn_width, kernel, stride) for filters, kernel, stride in layers]
            self.convolutions = PlainStack(channels, plan, slope=self.slope, generator=generator)
            for _, kernel, stride in plan:
                height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
            channels = plan[-1][0] if plan else channels
        self.linear = linear(channels * height * width, self.num_features, gain=HIDDEN_GAIN, generator=generator)
        is_normalized = network in NORMALIZED
        self.norm = nn.LayerNorm(self.num_features, dtype=torch.float32, device="cpu") if is_normalized else None
        first = self.convolutions[0] if isinstance(self.convolutions, PlainStack) and len(self.convolutions) else None
        joined = isinstance(first, nn.Conv2d) and joins(first, layout[2]) and first.stride[1] in WORDS
        self._joined = first.stride[1] if isinstance(first, nn.Conv2d) and joined else 0

    def forward(self, image: Tensor | Stacked | Maps) -> Tensor:
        """Returns float32 features ``[N, F]`` of images ``[N, ...]`` in the leaf's layout."""
        if isinstance(image, Maps):
            return self._features(image.values)
        return self._at_precision(image, lambda image, dtype: self._features(self._maps(image, dtype)))

    def maps(self, image: Tensor | Stacked | Maps) -> Maps:
        """Computes the convolutions alone, which several networks may share."""
        return image if isinstance(image, Maps) else Maps(self._at_precision(image, self._maps))

    def _at_precision(self, image: Tensor | Stacked, compute: Callable[[Tensor, torch.dtype], Tensor]) -> Tensor:
        """Computes a function of images and the type of its products; returns float32."""
        image = image.tensor() if isinstance(image, Stacked) else image
        if self.learns_in_bfloat16 and self.linear.weight.requires_grad and torch.is_grad_enabled():
            with torch.autocast(image.device.type, torch.bfloat16, cache_enabled=False):  # each weight is used once
                return compute(image, torch.bfloat16).float()
        return compute(image, torch.float32)

    def _maps(self, image: Tensor, dtype: torch.dtype) -> Tensor:
        if self.embedding is not None:
            x = self.embedding(image if self.channels_last else image.permute(0, 2, 3, 1))
        elif self.channels_last:
            x = image.to(dtype).permute(0, 3, 1, 2)
        elif self._joined and image.dtype == torch.uint8:
            x = joined_bytes(image, self._joined).to(dtype)
        else:  # plane by plane: twice as fast as a copy in the other order
            x = torch.stack(image.unbind(1), -1).to(dtype).permute(0, 3, 1, 2)
        maps: Tensor = self.convolutions(x, self.scale)
        return maps.flatten(1)

    def _features(self, maps: Tensor) -> Tensor:
        x = self.linear(maps)
        return leaky_relu(x, self.slope) if self.norm is None else torch.tanh_(self.norm(x))
