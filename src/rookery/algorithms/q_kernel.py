"""Networks of values of actions on compiled kernels (docs/kernels.md); and the gradient of `mean_loss` in one call:
target network, targets, the loss in closed form, backward.

It pays for the same reason as that of PPO: sixty-four rows of a small network take less time than what torch is asked
to do with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref, c_float
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rookery.core.batch import Sequences, TensorTree
from rookery.core.metrics import Metrics
from rookery.core.native import Build, Head, TDBatch, TDSettings, address, is_plain
from rookery.core.spaces import MASK
from rookery.models.build import ModelConfig
from rookery.models.encoders import Encoder
from rookery.models.q_head import QHead
from rookery.native.networks import NativeRecurrence, NativeTrunk, last_layers, layout_of
from rookery.native.qualify import kernels_for

if TYPE_CHECKING:
    from rookery.algorithms.q_values import QNetwork

STATISTICS = ("loss", "q_mean", "td_error")
"""In the order of `values.h`."""


class LastLayers:
    """What the linear layers of a head make of each action: ``[N, A]``, or ``[N, A, M]``.

    Args:
        head: Whose layers they are.
    """

    def __init__(self, head: QHead) -> None:
        self._dueling = head.spec.dueling
        self._shape = (head.num_actions,) if head.spec.values == "mean" else (head.num_actions, head.atoms)

    def values(self, parts: Sequence[Tensor]) -> Tensor:
        """What is learned of each action, from what the layers put out."""
        if not self._dueling:
            return parts[0].view(-1, *self._shape)
        value, advantage = parts[0].unsqueeze(1), parts[1].view(len(parts[0]), self._shape[0], -1)
        return (value + advantage - advantage.mean(1, keepdim=True)).view(-1, *self._shape)

    def gradients(self, gradient: Tensor) -> list[Tensor]:
        """The gradients of what the layers put out, from that of `values`."""
        if not self._dueling:
            return [gradient.flatten(1)]
        streams = gradient.view(len(gradient), self._shape[0], -1)
        return [streams.sum(1), (streams - streams.mean(1, keepdim=True)).flatten(1)]


class QKernels:
    """A `QNetwork` on kernels. It puts out what is learned of each action, ``[N, A]`` or ``[N, A, M]``.

    Args:
        net: Whose weights are used, which lie in flat memory.
        build: What runs it.
        bfloat16: Numbers may be rounded to that before they are multiplied.
    """

    def __init__(self, net: QNetwork, build: Build, *, bfloat16: bool) -> None:
        head = net.head
        assert isinstance(net.trunk, Encoder)
        self.build = build
        self.trunk = NativeTrunk(build, net.trunk, last_layers(head), {}, bfloat16=bfloat16)
        self.head = Head(build, layout_of(head)) if head.spec.values == "mean" else None
        """How the mean values lie in what the network puts out."""
        self._last = LastLayers(head)

    def values(self, obs: TensorTree, keep: bool = False) -> Tensor:
        """What is learned of each action, without a graph.

        Args:
            obs: ``[N, ...]`` as the trunk takes them.
            keep: `write_gradients` will follow.
        """
        return self._last.values(self.trunk.forward(obs, keep))

    def forward(self, batch: Any) -> list[Tensor]:
        """The same, for a batch that a loss learns."""
        return [self.values(batch.obs, keep=True)]

    def outputs(self, parts: list[Tensor], batch: Any) -> Tensor:
        """The same as a loss takes it."""
        return parts[0]

    def write_gradients(self, gradients: Sequence[Tensor]) -> None:
        """Writes the gradients of all weights, given those of what `forward` put out last."""
        self.trunk.write_gradients(self._last.gradients(gradients[0]))


class RecurrentQKernels:
    """A `QNetwork` that remembers, on kernels. It puts out the same, of rows that stand in sequences.

    Args:
        net: Whose weights are used, which lie in flat memory.
        build: What runs it.
    """

    def __init__(self, net: QNetwork, build: Build) -> None:
        assert isinstance(net.trunk, Encoder)
        assert net.memory is not None
        self._net = NativeRecurrence(build, net.trunk, net.memory, last_layers(net.head), {})
        self._last = LastLayers(net.head)
        self._learned: Tensor | None = None
        """Which rows of the last pass that kept a loss looks at."""
        self._kept: tuple[Tensor | None, int] = None, 0
        """Where its rows lie on the grid, and how many places that has."""

    def along(self, obs: TensorTree, memory: Tensor, sequences: Sequences, keep: bool = False) -> tuple[Tensor, Tensor]:
        """What is learned of each action, without a graph, and what is remembered after each sequence, ``[B, M]``.

        Args:
            obs: ``[N, ...]`` as the trunk takes them.
            memory: ``[B, M]`` before each sequence.
            sequences: How the rows lie in time.
            keep: `write_gradients` will follow.
        """
        after, laid, place = torch.empty_like(memory), obs, sequences.place
        if place is not None:  # observations are less to lay out, and few places are left empty
            laid = {path: sequences.grid(leaf).flatten(0, 1) for path, leaf in obs.items()}
            sequences = Sequences(sequences.first, sequences.length, None)
        values = self._last.values(self._net.forward(laid, memory, sequences, keep, after))
        if keep:
            self._kept = place, len(values)
        return values if place is None else values.index_select(0, place), after

    def forward(self, batch: Any) -> list[Tensor]:
        """The values of those rows of a batch that a loss learns; its own, if a pass that kept has given them."""
        values = batch.values
        if values is None:
            values, _ = self.along(batch.obs, batch.memory, batch.sequences, keep=True)
        self._learned = batch.learned
        return [values if batch.learned is None else values.index_select(0, batch.learned)]

    def outputs(self, parts: list[Tensor], batch: Any) -> Tensor:
        """The same as a loss takes it."""
        return parts[0]

    def write_gradients(self, gradients: Sequence[Tensor]) -> None:
        """Writes the gradients of all weights, given those of what `forward` put out last."""
        (gradient,), (place, rows) = gradients, self._kept
        if self._learned is not None:
            place = self._learned if place is None else place.index_select(0, self._learned)
        if place is not None:
            gradient = gradient.new_zeros(rows, *gradient.shape[1:]).index_copy_(0, place, gradient)
        self._net.write_gradients(self._last.gradients(gradient))


def q_kernels(net: QNetwork, model: ModelConfig) -> QKernels | RecurrentQKernels | None:
    """What runs a network, whose weights lie where they will stay; None if torch must."""
    build = kernels_for(model, [net.trunk], [net.head], net.memory)
    if build is None:
        return None
    if net.memory is not None:
        return RecurrentQKernels(net, build)
    return QKernels(net, build, bfloat16=model.precision == "bfloat16")


@dataclass(frozen=True)
class TDRows:
    """Rows of `mean_loss` whose targets the kernel makes itself; all fields ``[N, ...]``.

    Attributes:
        obs: What was decided on, as the trunk takes it.
        action: Which action was played.
        reward: What it earned.
        discount: What the value of what came next is multiplied by.
        next_obs: What came next, as the trunk takes it.
        weight: Importance weight of each row; None if all count alike.
        target: The network that values what comes next.
        delta: Errors up to this count by their square.
    """

    obs: TensorTree
    action: Tensor
    reward: Tensor
    discount: Tensor
    next_obs: TensorTree
    weight: Tensor | None
    target: QKernels
    delta: float

    def can_be_read(self, kernels: QKernels) -> bool:
        """Whether the rows lie in memory as kernels read them."""
        numbers, rows = (self.reward, self.discount, self.weight), len(self.action)
        return (
            kernels.head is not None
            and self.target.head is not None
            and all(part is None or (is_plain(part) and part.shape == (rows,)) for part in numbers)
            and is_plain(self.action, torch.int64)
            and all(kernels.trunk.can_read(obs) for obs in (self.obs, self.next_obs))
            and all(len(leaf) == rows for obs in (self.obs, self.next_obs) for leaf in obs.values())
            and is_plain(self.next_obs.get(MASK), torch.bool)
        )


def td_kernel(kernels: QKernels, batch: Any, cfg: Any) -> Metrics | None:
    """Writes the gradients of `mean_loss` with respect to all weights.

    Args:
        kernels: The network that learns.
        batch: The rows.
        cfg: Settings.

    Returns:
        The metrics of the loss; None for a batch that comes with its targets.
    """
    if not isinstance(batch, TDRows):
        return None
    rows = len(batch.action)
    error = torch.empty(rows, dtype=torch.float32)
    numbers = (batch.action, batch.reward, batch.discount, batch.weight, batch.next_obs.get(MASK), error)
    settings, statistics = TDSettings(cfg.double, batch.delta), (c_float * len(STATISTICS))()
    assert kernels.head is not None
    kernels.build.call["td_gradients"](
        kernels.trunk.network.handle,
        batch.target.trunk.network.handle,
        kernels.head.handle,
        kernels.trunk.addresses(batch.obs),
        kernels.trunk.addresses(batch.next_obs),
        byref(TDBatch(*map(address, numbers))),
        byref(settings),
        rows,
        statistics,
    )
    return {**dict(zip(STATISTICS, statistics, strict=True)), "priority": error}
