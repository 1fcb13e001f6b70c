"""Picture networks: Mnih et al. 2015 (*Nature*), the residual one of Espeholt et al. 2018 (IMPALA), a small one, and
those that ML-Agents has beside them.

What makes them fast on a processor, none of which changes what is computed: activations lie in memory pixel by pixel
(``channels_last``); bytes become numbers in one pass, because their scale divides the few weights of the first layer
instead; and while they learn, products may be taken in bfloat16, in which recent processors are twice as fast. Weights,
gradients of weights, features, acting and targets are float32 in any case.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from rookery.core.errors import ConfigError
from rookery.core.spaces import Leaf, picture_axes
from rookery.models.layers import HIDDEN_GAIN, convolution, linear, normal

SMALLEST_NATURE = 36  # pixels: the shortest side on which the three layers of the Nature network leave one pixel
NATURE_LAYERS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # filters, kernel, stride
SIMPLE_LAYERS = ((16, 8, 4), (32, 4, 2))
MATCH3_LAYERS = ((35, 3, 1), (144, 3, 1))
FIXED_LAYERS = {"nature": NATURE_LAYERS, "simple": SIMPLE_LAYERS, "match3": MATCH3_LAYERS, "flat": ()}
"""Layers of the networks that are the same for pictures of all sizes."""

SMALLEST = {"nature": SMALLEST_NATURE, "simple": 20, "match3": 5}
"""Pixels: the shortest side on which the layers of these networks leave one pixel."""

LEAKY = 0.01
SLOPES = {"simple": LEAKY, "match3": LEAKY, "flat": LEAKY}
"""Slope below 0 of the units of networks whose units are leaky."""

IMPALA_FILTERS = (16, 32, 32)
SMALL_FILTERS = (16, 32, 64)
SMALL_STRIDE_FROM = 14  # pixels: from here on a small network halves its picture
FEATURES = {"nature": 512, "impala": 256, "small": 128, "simple": 128, "match3": 128, "flat": 128}
NUM_CODES = 32
"""Codes that a number of a picture may be, counted from 0; greater numbers are read as the greatest code."""

CODE_SIZE = 32
"""Width of the vector that a code is looked up as."""


def image_layout(leaf: Leaf) -> tuple[int, int, int, bool] | None:
    """Channels, height, width, and whether channels come last, of a leaf that is a picture, uint8 or float; None for
    any other leaf. See `picture_axes`.
    """
    return picture_axes(leaf.shape) if leaf.kind == "box" else None


def network_for(cnn: str, leaf: Leaf) -> str:
    """The network for this picture: the one that the setting names, or if it says ``auto``, ``nature`` or ``small`` by
    size.

    Raises:
        ConfigError: If the picture is too small for the network that was asked for.
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
            f"model.cnn = {cnn!r}: the picture {leaf.path!r} of {height} x {width} pixels is too small, its sides "
            f"must be at least {SMALLEST[cnn]}; use auto, {', '.join(fit[:-1])} or {fit[-1]}"
        )
    return cnn


def small_layers(height: int, width: int) -> tuple[tuple[int, int, int], ...]:
    """Filters, kernel and stride of the small network's layers, for pictures as of grid worlds.

    Up to three layers of 16, 32 and 64 filters with 3x3 kernels, or 2x2 when the shorter side is below 7; a layer
    halves a picture of 14 pixels and more; layers end where the kernel no longer fits.
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


def on_pixels(layer: nn.Conv2d, pixels: Tensor, scale: float) -> Tensor:
    """``layer(pixels / scale)``, with the division done on the weights, of which there are fewer."""
    return functional.conv2d(pixels, layer.weight / scale, layer.bias, layer.stride, layer.padding)


def rectified(x: Tensor, slope: float) -> Tensor:
    """``x`` where it is above 0, ``slope * x`` elsewhere, written over `x`."""
    return functional.leaky_relu_(x, slope) if slope else torch.relu_(x)


class PlainStack(nn.ModuleList):
    """Convolutions with a ReLU after each, or, without any, the pixels themselves.

    Args:
        channels: Of a picture.
        plan: Filters, kernel and stride of each layer.
        slope: Of the ReLU below 0.
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
        """Maps ``[N, filters, height, width]`` of pictures ``[N, channels, height, width]`` divided by `scale`."""
        if not len(self):
            return pixels if scale == 1.0 else pixels / scale
        first, *others = self
        assert isinstance(first, nn.Conv2d)
        x = rectified(on_pixels(first, pixels, scale), self.slope)
        for layer in others:
            x = rectified(layer(x), self.slope)
        return x


class Residual(nn.Module):
    """Two 3x3 convolutions whose result is added to what came in."""

    def __init__(self, channels: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.first = convolution(channels, channels, 3, 1, padding=1, gain=HIDDEN_GAIN, generator=generator)
        self.second = convolution(channels, channels, 3, 1, padding=1, gain=HIDDEN_GAIN, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        """Maps of the shape of `x`, ``[N, channels, height, width]``."""
        added: Tensor = self.second(torch.relu_(self.first(torch.relu(x))))
        return added.add_(x)


class Section(nn.Module):
    """A 3x3 convolution, a 3x3 maximum that halves the picture, and two residual blocks."""

    def __init__(self, channels: int, filters: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.convolution = convolution(channels, filters, 3, 1, padding=1, gain=HIDDEN_GAIN, generator=generator)
        self.blocks = nn.ModuleList(Residual(filters, generator=generator) for _ in range(2))

    def forward(self, x: Tensor, scale: float) -> Tensor:
        """Maps ``[N, filters, height / 2, width / 2]``, rounded up, of `x` divided by `scale`."""
        x = functional.max_pool2d(on_pixels(self.convolution, x, scale), 3, stride=2, padding=1)
        for block in self.blocks:
            x = block(x)
        return x


class ResidualStack(nn.ModuleList):
    """Sections of so many filters each (`widths`), and a ReLU at the end."""

    def __init__(self, channels: int, widths: Sequence[int], *, generator: torch.Generator) -> None:
        inputs = (channels, *widths)
        super().__init__(Section(i, o, generator=generator) for i, o in pairwise(inputs))

    def forward(self, pixels: Tensor, scale: float) -> Tensor:
        """Maps ``[N, filters, height, width]`` of pictures ``[N, channels, height, width]`` divided by `scale`."""
        x = pixels
        for section in self:
            x = section(x, scale)
            scale = 1.0
        return torch.relu_(x)


class CodeEmbedding(nn.Module):
    """Looks up a vector for each number of a picture of codes, and sums those of a cell's channels.

    It equals a 1x1 convolution on the codes as one-hots: numbers that name things, colours or states have no order
    that a network should have to unlearn.

    Args:
        channels: Numbers of a cell, each with a table of its own.
        generator: Draws the vectors.
    """

    offsets: Tensor

    def __init__(self, channels: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.table = nn.Parameter(normal(channels * NUM_CODES, CODE_SIZE, std=channels**-0.5, generator=generator))
        self.register_buffer("offsets", torch.arange(channels) * NUM_CODES, persistent=False)

    def forward(self, image: Tensor) -> Tensor:
        """Maps ``[N, CODE_SIZE, height, width]`` of codes ``[N, height, width, channels]``."""
        codes = image.to(torch.int64).clamp_(0, NUM_CODES - 1) + self.offsets
        cells = functional.embedding_bag(codes.flatten(0, 2), self.table, mode="sum")
        return cells.view(*codes.shape[:3], CODE_SIZE).permute(0, 3, 1, 2)


class ImageEncoder(nn.Module):
    """Convolutions, then one linear layer with a ReLU: 512 features (nature), 256 (impala) or 128 (the others).

    Args:
        leaf: The picture; its `scale` divides the pixels.
        codes: Whether its numbers are codes, which are looked up first, and not how bright a pixel is.
        cnn: Which network: ``auto``, or one of `FEATURES`.
        cnn_width: Multiplies the filters of every layer.
        cnn_features: Features; None = as many as the network has by itself.
        precision: ``float32``, or ``bfloat16`` for products while learning.
        generator: Draws the weights.

    Raises:
        ConfigError: If the picture is too small for the network that was asked for, or that has no filters to multiply.
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
        if network == "impala":
            widths = [filters * cnn_width for filters in IMPALA_FILTERS]
            self.convolutions: nn.Module = ResidualStack(channels, widths, generator=generator)
            for _ in widths:
                height, width = (height + 1) // 2, (width + 1) // 2
            channels = widths[-1]
        else:
            layers = small_layers(height, width) if network == "small" else FIXED_LAYERS[network]
            plan = [(filters * cnn_width, kernel, stride) for filters, kernel, stride in layers]
            self.convolutions = PlainStack(channels, plan, slope=self.slope, generator=generator)
            for _, kernel, stride in plan:
                height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
            channels = plan[-1][0] if plan else channels
        self.linear = linear(channels * height * width, self.num_features, gain=HIDDEN_GAIN, generator=generator)

    def forward(self, image: Tensor) -> Tensor:
        """Features ``[N, F]``, float32, of pictures ``[N, ...]`` in the layout of the leaf."""
        if self.learns_in_bfloat16 and self.linear.weight.requires_grad and torch.is_grad_enabled():
            with torch.autocast(image.device.type, torch.bfloat16):
                return self._features(image, torch.bfloat16).float()
        return self._features(image, torch.float32)

    def _features(self, image: Tensor, dtype: torch.dtype) -> Tensor:
        if not self.channels_last:
            image = torch.stack(image.unbind(1), -1)  # plane by plane: twice as fast as a copy in the other order
        x = image.to(dtype).permute(0, 3, 1, 2) if self.embedding is None else self.embedding(image)
        return rectified(self.linear(self.convolutions(x, self.scale).flatten(1)), self.slope)
