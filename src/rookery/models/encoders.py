"""Encoders: from an observation tree to features.

Numbers, flags and categories all meet in the first linear layer: it equals one linear layer on their concatenation with
categories as one-hots, but looks categories up in a table instead of multiplying zeros. Pictures go through a
convolutional network each, and sets of entities through attention; their outputs are further inputs of that layer.
Action masks are never encoded.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from rookery.core.batch import TensorTree
from rookery.core.spaces import ObsSpec
from rookery.models.entities import EntityEncoder
from rookery.models.layers import ACTIVATIONS, HIDDEN_GAIN, linear, orthogonal
from rookery.models.pictures import ImageEncoder, image_layout

Normalizer = tuple[tuple[int, ...], Tensor, Tensor] | None
"""What `functional.layer_norm` takes after its input; None for a layer that is not normalized."""


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
    """The trunk for any observation layout: pictures and sets through networks of their own, then linear layers.

    Args:
        obs: Layout of the observations.
        hidden: Widths of the layers; without any, the features are the inputs themselves, categories as one-hots.
        activation: A name in `ACTIVATIONS`, used after each of these layers.
        layer_norm: Whether each of these layers puts out numbers of mean 0 and variance 1 before that, which are then
            scaled and shifted by learned weights (Ba et al. 2016).
        cnn: Which picture network: ``auto``, ``nature``, ``impala`` or ``small``.
        cnn_width: Multiplies the filters of picture networks.
        precision: ``float32``, or ``bfloat16`` for picture networks while they learn.
        entities: Paths of leaves that are read as sets of entities; others are read as numbers, row by row.
        entity_size: Width of what is learned of entities.
        entity_heads: Heads of attention over them.
        generator: Draws the weights.

    Raises:
        ConfigError: If a picture is too small for the network that was asked for, or heads cannot share their width.
    """

    def __init__(
        self,
        obs: ObsSpec,
        *,
        hidden: Sequence[int],
        activation: str,
        layer_norm: bool,
        cnn: str,
        cnn_width: int,
        precision: str,
        entities: Collection[str],
        entity_size: int,
        entity_heads: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        leaves = [leaf for leaf in obs.leaves if leaf.kind != "mask"]
        sets = [leaf for leaf in leaves if leaf.path in entities]
        pictures = [leaf for leaf in leaves if image_layout(leaf)]
        numbers = [leaf for leaf in leaves if leaf.kind in ("box", "multi_binary", "entities")]
        elsewhere = {leaf.path for leaf in (*sets, *pictures)}
        self.vectors = tuple(leaf for leaf in numbers if leaf.path not in elsewhere)
        self.categories = tuple(leaf for leaf in leaves if leaf.kind in ("discrete", "multi_discrete"))
        self.sizes = tuple(size for leaf in self.categories for size in leaf.sizes)
        self.pictures = tuple(leaf.path for leaf in pictures)
        # A list, because paths are the user's words, and a module cannot be called "keys" or hold a dot.
        images = [
            ImageEncoder(leaf, cnn=cnn, cnn_width=cnn_width, precision=precision, generator=generator)
            for leaf in pictures
        ]
        self.images = nn.ModuleList(images)
        self.activation = activation
        self._activate = ACTIVATIONS[activation]
        num_numbers = sum(int(np.prod(leaf.shape)) for leaf in self.vectors)
        num_numbers += sum(image.num_features for image in images)
        self.sets: EntityEncoder | None = None
        if sets:
            num_self = num_numbers + sum(self.sizes)
            self.sets = EntityEncoder(sets, num_self, entity_size, entity_heads, generator=generator)
            num_numbers += entity_size
        self.first = MixedLinear(num_numbers, self.sizes, hidden[0], generator=generator) if hidden else None
        self.layers = nn.ModuleList(
            linear(hidden[i], hidden[i + 1], gain=HIDDEN_GAIN, generator=generator) for i in range(len(hidden) - 1)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for width in hidden if layer_norm)
        self.num_features = hidden[-1] if hidden else num_numbers + sum(self.sizes)
        # One vector of numbers, the usual case, is its own input: nothing is put together, and the first layer is a
        # layer like the others. Parameters are kept at hand, because to call a module for them costs as much as a
        # product of eight rows.
        plain = [leaf.path for leaf in self.vectors if leaf.dtype == np.float32 and leaf.scale == 1.0]
        alone = len(leaves) == 1 and len(leaves[0].shape) == 1 and self.first is not None
        self._plain_path = plain[0] if plain and alone else None
        chain = [] if self.first is None else [self.first, *self.layers]
        norms: list[Normalizer] = [_normalizer(norm) for norm in self.norms] or [None] * len(chain)
        skipped = 0 if self._plain_path is not None else 1
        self._first_norm = norms[0] if norms else None
        self._chain = tuple(
            (layer.weight, layer.bias, norm) for layer, norm in list(zip(chain, norms, strict=True))[skipped:]
        )

    def forward(self, obs: TensorTree) -> Tensor:
        """Features ``[N, num_features]`` of observations ``[N, ...]`` by leaf path."""
        activation = self._activate
        if self._plain_path is not None:
            x = obs[self._plain_path]
        else:
            numbers, categories = self._numbers(obs), self._categories(obs)
            if self.sets is not None:
                own = _one_hots(numbers, categories, self.sizes)
                found = self.sets(obs, own)
                numbers = found if numbers is None else torch.cat((numbers, found), 1)
            if self.first is None:
                features = _one_hots(numbers, categories, self.sizes)
                assert features is not None
                return features
            x = self.first(numbers, categories)
            x = activation(x if self._first_norm is None else functional.layer_norm(x, *self._first_norm))
        for weight, bias, norm in self._chain:
            x = functional.linear(x, weight, bias)
            x = activation(x if norm is None else functional.layer_norm(x, *norm))
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


def _normalizer(norm: nn.Module) -> Normalizer:
    assert isinstance(norm, nn.LayerNorm)
    return norm.normalized_shape, norm.weight, norm.bias


def _one_hots(numbers: Tensor | None, categories: Tensor | None, sizes: Sequence[int]) -> Tensor | None:
    """Numbers followed by categories as one-hots, float32 ``[N, num_inputs + sum(sizes)]``; None of nothing."""
    parts = [] if numbers is None else [numbers]
    if categories is not None:
        parts += [functional.one_hot(categories[:, i], size).float() for i, size in enumerate(sizes)]
    return torch.cat(parts, 1) if parts else None
