"""Forward passes of networks: by kernels if they support the declared structure, else by the network's modules.

`attach` returns the `Forward` that an algorithm passes to `gradient_step` in place of the network. The torch modules
remain the reference; kernels read and write the same weights. Outside of a gradient step an algorithm calls `outputs`,
`values` and `log_probs` of a `Forward`, regardless of which one computes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from rookery.core.batch import Sequences, TensorTree
from rookery.core.native import Build, DrawingHead, Networks, best_build, places, write_gradient
from rookery.core.spaces.arrays import MASK
from rookery.models.build import Encoder
from rookery.models.heads import ActionHead
from rookery.models.q_head import QHead
from rookery.models.structure import Declared, Inputs, Structure, Tower
from rookery.native.networks import NativeMemory, NativeTrunk, last_layers, layout_of
from rookery.native.qualify import has_hooks, obstacle, overridden

NetT = TypeVar("NetT", bound=Declared)

THIRDS = 3
"""Number of bfloat16 numbers whose sum equals a float32 number exactly."""


class Forward(Generic[NetT]):
    """Computes a network's outputs, on kernels if they support it.

    Args:
        net: A network that declares its structure.
        learns: Whether its weights learn: kernels then run it only if all of them have memory for a gradient.
        sharing: A `Forward` of a network with equal structure and the same weights, whose kernels this one uses too; a
            pass kept by one of them is lost with the next pass that the other keeps.

    Attributes:
        net: As given.
        obstacle: Reason why it runs in torch, in a few words; empty if it runs on kernels.
    """

    def __init__(self, net: NetT, learns: bool, sharing: Forward[NetT] | None) -> None:
        self.net = net
        self._sharing = sharing
        self.obstacle = _undeclared(net)
        self._learns = learns
        structure = None if self.obstacle else net.structure()
        self._weights = [] if structure is None else structure.weights
        self._modules = [] if structure is None else [module for part in structure.parts for module in part.modules()]
        self._kernels: NetworkKernels | None = None
        self._where: list[Any] = []  # addresses of weights, and other conditions
        self._last_place: object = None

    def __call__(self, batch: Any) -> Any:
        """Computes the inputs of a loss, by the network's modules."""
        return self.net(batch)

    def outputs(self, batch: Any) -> Any:
        """Computes the inputs of a loss. Call this and the next three under ``torch.no_grad()``."""
        if (kernels := self.kernels) is None:
            return self.net(batch)
        structure = kernels.structure if self._sharing is None else self.net.structure()
        inputs = structure.inputs(batch)
        parts = kernels.run(inputs)
        parts = parts if inputs.rows is None else [part.index_select(0, inputs.rows) for part in parts]
        return structure.outputs(parts, batch)

    def values(self, inputs: Inputs, noise: Tensor | None = None, keep: bool = False) -> Tensor:
        """Computes state values ``[N, S]``, or Q-values ``[N, A]`` or ``[N, A, M]``, of a network with a method
        `value`.

        Args:
            inputs: Observations, and the memory before them.
            noise: ``[1, W]`` numbers for noisy layers; None = their means.
            keep: Whether a gradient step on these outputs follows (`Inputs.known`); for kernels only.
        """
        if (kernels := self.kernels) is not None:
            return kernels.last(inputs.obs) if inputs.sequences is None else kernels.run(inputs, keep)[-1]
        net: Any = self.net
        given = inputs[:1] if inputs.memory is None else inputs[:3]
        values: Tensor = net.value(*given) if noise is None else net.value(*given, noise=noise)
        return values

    def remembered(self, inputs: Inputs) -> Tensor:
        """Computes the memory after each sequence, ``[B, M]``."""
        if (kernels := self.kernels) is None:
            net: Any = self.net
            remembered: Tensor = net.remembered(*inputs[:3])
            return remembered
        assert inputs.memory is not None
        after = torch.empty_like(inputs.memory)
        kernels.run(inputs, after=after)
        return after

    def log_probs(self, inputs: Inputs, action: Tensor) -> Tensor:
        """Computes the log-probabilities of actions ``[N, ...]`` under the network's policy, ``[N]``; independent rows
        always use the modules.
        """
        net: Any = self.net
        kernels = None if inputs.sequences is None else self.kernels
        if kernels is None:
            behavior = net.behavior(*inputs[:3])
        else:
            behavior = net.policy.behavior(kernels.run(inputs), inputs.obs.get(MASK))
        log_probs: Tensor = behavior.log_prob(action)
        return log_probs

    def __getstate__(self) -> dict[str, Any]:
        """Returns the state of a copy: without the kernels, which are bound to these weights."""
        return {**self.__dict__, "_kernels": None, "_where": [], "_last_place": None}

    @property
    def kernels(self) -> NetworkKernels | None:
        """The network's kernels; None if they do not support it, or it does not learn yet."""
        shared = None if self._sharing is None else self._sharing.kernels
        if shared is not None or not self._weights:
            return shared
        weight = self._weights[-1]  # all weights move together
        if (places(weight) if self._learns else weight.data_ptr()) != self._last_place:
            self.refresh()
        return self._kernels

    @property
    def on_kernels(self) -> bool:
        """Whether kernels run the network."""
        return self.kernels is not None

    def refresh(self) -> None:
        """Selects kernels again if weights have moved, or gradients or hooks have changed; call it once per update."""
        if not self._weights:
            return
        weights = self._weights
        where = [type(self.net), has_hooks(self._modules), *[weight.requires_grad for weight in weights]]
        where += [weight.data_ptr() for weight in weights]
        last = places(weights[-1]) if self._learns else weights[-1].data_ptr()
        if where != self._where or last != self._last_place:
            self._where, self._last_place = where, last
            self._kernels = self._find_kernels()

    def _find_kernels(self) -> NetworkKernels | None:
        self.obstacle = _undeclared(self.net)
        if self.obstacle:
            return None
        structure = self.net.structure()
        towers = structure.towers
        heads = [head for tower in towers for head in tower.heads]
        self.obstacle = structure.obstacle or obstacle(
            structure.model, [tower.trunk for tower in towers], heads, towers[0].memory
        )
        if not self.obstacle and self._learns and not all(all(places(weight)) for weight in self._weights):
            self.obstacle = "weights that do not learn"
        build = best_build()
        return None if self.obstacle or build is None else NetworkKernels(structure, build)


class TorchForward(Forward[NetT]):
    """Computes a network's outputs only by its modules, if settings exclude kernels.

    Args:
        net: The network.
        obstacle: Reason why it runs in torch, in a few words.
    """

    kernels = None

    def __init__(self, net: NetT, obstacle: str) -> None:
        self.net = net
        self.obstacle = obstacle

    def refresh(self) -> None:
        """Does nothing: there are no kernels to find."""


def attach(net: NetT, *, learns: bool = True, sharing: Forward[NetT] | None = None) -> Forward[NetT]:
    """Attaches kernels to a network, which then runs on them if they support its structure.

    Args:
        net: A network that declares its structure, such as `ActorCritic` or a subclass.
        learns: Whether its weights learn, which then must be in flat memory; target networks do not learn.
        sharing: A `Forward` on the same weights; see there.

    Returns:
        The argument `forward` of `gradient_step`.
    """
    unwanted = "" if sharing is not None or _undeclared(net) else _unwanted(net.structure())
    return TorchForward(net, unwanted) if unwanted else Forward(net, learns, sharing)


def _undeclared(net: object) -> str:
    """Returns the reason why kernels cannot use a network's declaration, or an empty string."""
    return overridden(net) if hasattr(net, "structure") else f"{type(net).__name__} declares no structure"


def _unwanted(structure: Structure) -> str:
    """Returns the setting that excludes kernels, or an empty string."""
    return "" if structure.obstacle or structure.model.native else "model.native=false"


class NetworkKernels:
    """A network on kernels: computes the outputs of its heads' layers, without a graph.

    Args:
        structure: Declaration of the network; its weights are at their final addresses.
        build: The compiled kernels.

    Attributes:
        structure: As given.
        build: As given.
        towers: Description of each tower.
        head: Layout of actions in the first head's output; None for a head that draws no actions.
        options: ``[choices]``, number of options of each discrete action of the first head.
        num_weights: Number of weights whose gradients `write_gradients` writes.
        call: Data that a loss's own kernel keeps from one minibatch to the next.
        passes: Number of passes kept so far.
        remembers: Whether a network has a memory.
    """

    def __init__(self, structure: Structure, build: Build) -> None:
        self.structure, self.build = structure, build
        parts = 1 if structure.rounds and structure.model.precision == "bfloat16" else THIRDS
        self.towers = [_described(build, tower, parts) for tower in structure.towers]
        self._heads = [[_LastLayers(head) for head in tower.heads] for tower in structure.towers]
        last = self.towers[-1]
        self._last_trunk = last if isinstance(last, NativeTrunk) else None
        first, self.head = structure.towers[0].heads[0], None
        if isinstance(first, ActionHead) or (isinstance(first, QHead) and first.spec.values == "mean"):
            self.head = DrawingHead(build, layout_of(first))
            self.options = torch.tensor(first.action_spec.sizes, dtype=torch.int64, device="cpu")
        self._stack = None
        if structure.stacked:
            self._stack = Networks(build, [tower.network for tower in self.towers if isinstance(tower, NativeTrunk)])
        self.num_weights = sum(weight.numel() for weight in structure.weights)
        self.remembers = any(tower.memory is not None for tower in structure.towers)
        self.call: object = None
        self.passes = 0
        self._rows: Tensor | None = None
        """Rows of the last kept pass that a loss uses."""
        self._place: Tensor | None = None
        """Positions of its rows in time, if they were arranged in time."""
        self._count = 0

    def forward(self, batch: Any) -> list[Tensor]:
        """Computes the heads' outputs for a batch, one tensor after the other."""
        inputs = self.structure.inputs(batch)
        parts = self.run(inputs, keep=True) if inputs.known is None else [inputs.known]
        self._rows = inputs.rows
        return parts if inputs.rows is None else [part.index_select(0, inputs.rows) for part in parts]

    def outputs(self, parts: list[Tensor], batch: Any) -> Any:
        """Converts the heads' outputs to the inputs of a loss."""
        return self.structure.outputs(parts, batch)

    def run(self, inputs: Inputs, keep: bool = False, after: Tensor | None = None) -> list[Tensor]:
        """Computes the heads' outputs, one tensor after the other, for all rows.

        Args:
            inputs: Inputs of the network.
            keep: Whether a backward pass follows.
            after: ``[B, M]``, if given, receives the memory after each sequence.
        """
        self.passes += keep
        if self._stack is not None:
            first = self.towers[0]
            assert isinstance(first, NativeTrunk)
            return [self._stack.forward(first.read(inputs.obs), keep)]
        obs, sequences = inputs.obs, inputs.sequences
        place = sequences.place if sequences is not None and inputs.laid_out else None
        if sequences is not None and place is not None:
            obs = {path: sequences.grid(leaf).flatten(0, 1) for path, leaf in obs.items()}
            sequences = Sequences(sequences.first, sequences.length, None)
        parts: list[Tensor] = []
        for tower, heads in zip(self.towers, self._heads, strict=True):
            if isinstance(tower, NativeTrunk):
                raw = tower.forward(obs, keep)
            else:
                assert inputs.memory is not None
                assert sequences is not None
                raw = tower.forward(obs, inputs.memory, sequences, keep, after)
            at = 0
            for head in heads:
                parts += head.parts(raw, at)
                at += head.count
        if keep:
            self._place, self._count = place, parts[0].shape[0]
        return parts if place is None else [part.index_select(0, place) for part in parts]

    def run_some(self, inputs: Inputs, chosen: Sequence[int]) -> Tensor:
        """Computes the outputs of some of the stacked towers, ``[k, N, ...]``; no backward pass follows."""
        some = [tower for tower in map(self.towers.__getitem__, chosen) if isinstance(tower, NativeTrunk)]
        return Networks(self.build, [tower.network for tower in some]).forward(some[0].read(inputs.obs), keep=False)

    def last(self, obs: TensorTree) -> Tensor:
        """Computes only the last head's output, for independent rows: values ``[N, ...]``."""
        assert self._last_trunk is not None
        raw, head = self._last_trunk.forward(obs), self._heads[-1][-1]
        return raw[-1] if head.is_plain else head.parts(raw, len(raw) - head.count)[0]

    def write_gradients(self, gradients: Sequence[Tensor]) -> None:
        """Writes the gradients of all weights, given those of the last outputs of `forward`."""
        if self._stack is not None:
            self._stack.write_gradients(gradients[0])
            return
        rows, place = self._rows, self._place
        if rows is not None:
            place = rows if place is None else place.index_select(0, rows)
        if place is not None:
            gradients = [part.new_zeros(self._count, *part.shape[1:]).index_copy_(0, place, part) for part in gradients]
        at = 0
        for tower, heads in zip(self.towers, self._heads, strict=True):
            raw: list[Tensor] = []
            for head in heads:
                raw += head.gradients(gradients, at)
                at += head.num_parts
            tower.write_gradients(raw)

    def input_gradient(self, gradient: Tensor) -> Tensor:
        """Returns the gradient of the inputs of stacked towers, ``[K, N, numbers]``, and leaves those of the weights
        unchanged.

        Args:
            gradient: ``[K, N]`` or ``[K, N, ...]``, the gradient of the outputs of the last kept pass.
        """
        assert self._stack is not None
        inputs = self._stack.write_gradients(gradient, inputs=True, weights=False)
        assert inputs is not None
        return inputs


class _LastLayers:
    """Converts the outputs of a head's linear layers to its parts, and the parts' gradients back.

    A head's parts are its layer's output, followed by the `log_std` of continuous actions with one; Q-values are one
    part, ``[N, A]`` or ``[N, A, M]``, with or without dueling streams.

    Args:
        head: A supported head.
    """

    def __init__(self, head: nn.Module) -> None:
        self.count = len(last_layers(head))
        """Number of layers."""
        self._log_std = head.log_std if isinstance(head, ActionHead) else None
        self.num_parts = 1 if self._log_std is None else 2
        self._dueling = isinstance(head, QHead) and head.spec.dueling
        self._shape: tuple[int, ...] | None = None
        if isinstance(head, QHead):
            self._shape = (head.num_actions,) if head.spec.values == "mean" else (head.num_actions, head.atoms)
        self.is_plain = self._shape is None and self._log_std is None
        """Whether its only part is its layer's output."""

    def parts(self, raw: Sequence[Tensor], at: int) -> list[Tensor]:
        """Converts the layers' outputs, ``[N, ...]`` each, to parts, from index `at` of a tower's outputs on."""
        if self._shape is None:
            return [raw[at]] if self._log_std is None else [raw[at], self._log_std.detach()]
        if not self._dueling:
            return [raw[at].view(-1, *self._shape)]
        value, advantage = raw[at].unsqueeze(1), raw[at + 1].view(len(raw[at]), self._shape[0], -1)
        return [(value + advantage - advantage.mean(1, keepdim=True)).view(-1, *self._shape)]

    def gradients(self, given: Sequence[Tensor], at: int) -> list[Tensor]:
        """Converts the gradients of all parts, the head's from index `at` on, to gradients of the layers' outputs."""
        gradient = given[at]
        if self._log_std is not None:
            write_gradient(self._log_std, given[at + 1])
        if self._shape is None:
            return [gradient]
        if not self._dueling:
            return [gradient.flatten(1)]
        streams = gradient.view(len(gradient), self._shape[0], -1)
        return [streams.sum(1), (streams - streams.mean(1, keepdim=True)).flatten(1)]


def _described(build: Build, tower: Tower, parts: int) -> NativeTrunk | NativeMemory:
    """Describes a supported tower to kernels."""
    assert isinstance(tower.trunk, Encoder)
    layers = [layer for head in tower.heads for layer in last_layers(head)]
    if tower.memory is None:
        return NativeTrunk(build, tower.trunk, layers, {}, parts=parts)
    return NativeMemory(build, tower.trunk, tower.memory, layers, {})
