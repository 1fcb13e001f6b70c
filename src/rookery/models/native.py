"""Which networks run on kernels, and how they are described to them.

A network qualifies if it is our own encoder on vectors and categories, with linear heads, in float32 on the processor.
Pictures, sets of entities, goal conditioning, custom models, and what is compiled by `torch.compile` run in torch, as
everything does where there is no build (see `core/native.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import Array, c_void_p

import numpy as np
import torch
from torch import Tensor, nn

from rookery.core.batch import TensorTree
from rookery.core.native import (
    ADDRESS,
    BYTES,
    CATEGORIES,
    FLOATS,
    MAX_LAYERS,
    MAX_LEAVES,
    MAX_PARTS,
    Build,
    HeadLayout,
    Leaf,
    Linear,
    Network,
    Norm,
    Table,
    best_build,
    is_plain,
    why_none,
)
from rookery.models.build import ModelConfig
from rookery.models.deterministic import DeterministicHead
from rookery.models.encoders import Encoder
from rookery.models.heads import ActionHead, Head, ValueHead
from rookery.models.hyper import GoalTrunk
from rookery.models.memory import GRU, LSTM, Attention, Memory, Scan
from rookery.models.q_head import QHead
from rookery.models.squashed import CLAMPED, SCALED, SquashedHead

MOST_WEIGHTS = 2**18
"""Of a layer. Kernels take two cores at most: wider ones are left to torch, which takes all."""

DTYPES = {FLOATS: torch.float32, BYTES: torch.uint8, CATEGORIES: torch.int64}

RECURRENT: dict[type[Memory], str] = {LSTM: "lstm", GRU: "gru", Scan: "scan"}
"""Memories that there are kernels for, by their names there."""

Normalized = Mapping[str, tuple[Tensor, Tensor, float]]
"""Mean, inverse standard deviation and clip of the leaves that are normalized, by path."""


def kernels_for(
    model: ModelConfig, trunks: Sequence[nn.Module], heads: Sequence[nn.Module], memory: Memory | None = None
) -> Build | None:
    """What networks run on: the build of kernels, or None if torch must run them.

    Args:
        model: Their settings.
        trunks: From observations to features.
        heads: Our own, on top of these.
        memory: What stands between, if anything does.
    """
    return None if obstacle(model, trunks, heads, memory) else best_build()


def obstacle(
    model: ModelConfig, trunks: Sequence[nn.Module], heads: Sequence[nn.Module], memory: Memory | None = None
) -> str:
    """Why networks cannot run on kernels, in a few words; nothing if they can. Arguments as of `kernels_for`."""
    if not model.native:
        return "model.native=false"
    if model.compile:
        return "model.compile"
    for trunk in trunks:
        if why := _obstacle_in(trunk):
            return why
    parts = (*trunks, *heads, *(() if memory is None else (memory,)))
    if memory is not None and type(memory) not in RECURRENT:
        return "attention" if type(memory) is Attention else "a memory of your own"
    modules = [module for part in parts for module in part.modules()]
    if is_hooked(modules):
        return "forward hooks"
    for head in heads:
        if why := _obstacle_in_head(head):
            return why
    weights = [weight for part in parts for weight in part.parameters()]
    if not all(map(is_plain, weights)):
        return "not float32 on the processor"
    if max(weight.numel() for weight in weights) > MOST_WEIGHTS:
        return f"a layer of more than {MOST_WEIGHTS:,} weights"
    return "" if best_build() else why_none()


def is_hooked(modules: Sequence[nn.Module]) -> bool:
    """Whether a module tells somebody of its forward passes."""
    return any(module._forward_hooks or module._forward_pre_hooks for module in modules)


def _obstacle_in(trunk: nn.Module) -> str:
    if type(trunk) is GoalTrunk:
        return "goal conditioning"
    if type(trunk) is not Encoder:
        return "model.module"
    if trunk.sets is not None:
        return "entities"
    if trunk.pictures:
        return "pictures"
    leaves = [*trunk.vectors, *trunk.categories]
    readable = all(
        (leaf.dtype == np.float32 and leaf.scale == 1.0) or leaf.dtype in (np.uint8, np.bool_) for leaf in trunk.vectors
    )
    if not readable or not all(np.prod(leaf.shape, dtype=int) > 0 for leaf in leaves):
        return "observations of an unusual type"
    if not 0 < len(leaves) <= MAX_LEAVES or len(trunk.layers) + 2 > MAX_LAYERS:
        return "too many parts or layers"
    return "one-hot features" if trunk.first is None and trunk.categories else ""


def _obstacle_in_head(head: nn.Module) -> str:
    if type(head) not in (nn.Linear, ActionHead, ValueHead, QHead, SquashedHead, DeterministicHead):
        return "a head of your own"
    if isinstance(head, QHead) and head.spec.noisy:
        return "noisy layers"
    if isinstance(head, QHead) and head.spec.dueling and head.spec.dueling_hidden:
        return "dueling streams with layers of their own"
    if isinstance(head, SquashedHead) and head.log_spread is not None:
        return "state-dependent noise"
    return ""


def obstacle_to_drawing(head: Head) -> str:
    """Why kernels cannot draw actions from what a network with this head puts out; nothing if they can."""
    if head.exploration_size:
        return "noise that goes on from decision to decision"
    if isinstance(head, QHead) and head.spec.values != "mean":
        return "distributions over returns"
    return ""


def last_layers(head: Head) -> list[nn.Linear]:
    """The linear layers of a head that qualifies, side by side on the features."""
    assert isinstance(head, ActionHead | QHead | SquashedHead | DeterministicHead)
    layers = [*head.value, *head.advantage] if isinstance(head, QHead) and head.spec.dueling else [head.linear]
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    assert len(linear) == len(layers)
    return linear


def layout_of(head: Head) -> HeadLayout:
    """What the outputs of `last_layers` mean, side by side."""
    spec = head.action_spec
    layout = HeadLayout(spec.sizes, spec.num_flags, spec.num_numbers, spec.dtype == np.int64)
    if isinstance(head, QHead):
        softmax = head.spec.explore == "boltzmann"
        rate = head.temperature if softmax else head.epsilon
        return layout._replace(kind="softmax" if softmax else "values", dueling=head.spec.dueling, rate=rate)
    if isinstance(head, SquashedHead):
        smooth = head.spec.log_std == "tanh"
        bounds = SCALED if smooth else CLAMPED
        return layout._replace(kind="squashed", log_std=bounds, smooth=smooth, rate=head.random)
    if isinstance(head, DeterministicHead):
        return layout._replace(kind="deterministic", rate=head.random, spread=head.std)
    return layout


class NativeTrunk:
    """A trunk with linear layers on top of it, on kernels.

    Args:
        build: What runs it.
        trunk: An encoder that qualifies.
        heads: Linear layers, each on the trunk's features.
        normalized: What is shifted and scaled before the trunk; empty if observations come as the trunk takes them.
        bfloat16: Numbers may be rounded to that before they are multiplied; see `Network`.
    """

    def __init__(
        self,
        build: Build,
        trunk: Encoder,
        heads: Sequence[nn.Linear],
        normalized: Normalized,
        *,
        bfloat16: bool = False,
    ) -> None:
        assert len(heads) <= MAX_PARTS
        leaves = []
        for leaf in trunk.vectors:
            width = int(np.prod(leaf.shape))
            mean, inverse, clip = normalized.get(leaf.path, (None, None, 0.0))
            kind = FLOATS if leaf.dtype == np.float32 else BYTES
            leaves.append(Leaf(kind, width, leaf.scale, mean, inverse, clip))
        leaves += [Leaf(CATEGORIES, len(leaf.sizes)) for leaf in trunk.categories]
        layers, table, first = [], None, trunk.first
        if first is not None:
            weight = torch.empty(len(first.bias), 0) if first.weight is None else first.weight
            table = None if first.table is None else Table(first.table, first.offsets)
            layers.append([Linear(weight, first.bias)])
        layers += [[_linear(layer)] for layer in trunk.layers]
        layers.append([_linear(head) for head in heads])
        norms = [Norm(norm.weight, norm.bias, norm.eps) for norm in trunk.norms if isinstance(norm, nn.LayerNorm)]
        self.network = Network(build, leaves, layers, trunk.activation, table, norms, bfloat16)
        self.paths = tuple(leaf.path for leaf in (*trunk.vectors, *trunk.categories))
        """Leaves of an observation, in the order in which the network reads them."""
        self._types = tuple(DTYPES[leaf.kind] for leaf in leaves)
        self._widths = tuple(leaf.width for leaf in leaves)

    def forward(self, obs: TensorTree, keep: bool = False) -> list[Tensor]:
        """What each head puts out, ``[N, outputs]``, for observations ``[N, ...]`` by leaf path.

        Args:
            obs: Types as stored, normalized unless this trunk does that.
            keep: A backward pass will follow.
        """
        return self.network.forward(self.read(obs), keep)

    def read(self, obs: TensorTree) -> list[Tensor]:
        """Observations as the network reads them, leaf by leaf."""
        return [obs[path].to(dtype).contiguous() for path, dtype in zip(self.paths, self._types, strict=True)]

    def can_read(self, obs: TensorTree) -> bool:
        """Whether observations lie in memory as the network reads them."""
        leaves = [obs[path] for path in self.paths]
        wide = all(leaf.numel() == len(leaf) * width for leaf, width in zip(leaves, self._widths, strict=True))
        return wide and all(is_plain(leaf, dtype) for leaf, dtype in zip(leaves, self._types, strict=True))

    def addresses(self, obs: TensorTree) -> Array[c_void_p]:
        """Where observations lie that the network can read, for a kernel; only as long as they are there."""
        return (ADDRESS * len(self.paths))(*[obs[path].data_ptr() for path in self.paths])

    def write_gradients(self, gradients: Sequence[Tensor]) -> None:
        """Writes the gradients of all weights, given those of what the heads put out in the last pass that kept."""
        self.network.write_gradients([gradient.contiguous() for gradient in gradients])


def _linear(layer: nn.Module) -> Linear:
    assert isinstance(layer, nn.Linear)
    return Linear(layer.weight, layer.bias)
