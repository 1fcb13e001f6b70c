"""Policies and values on compiled kernels (docs/kernels.md): what `core/optim.py` asks of networks, for ours.

They put out the head's output ``[N, W]``, logarithms of standard deviations ``[k]`` where actions have any, and, of an
actor-critic, values ``[N, S]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from rookery.core.batch import Minibatch, Sequences, TensorTree
from rookery.core.native import Build, Head, is_plain, write_gradient
from rookery.core.spaces import MASK
from rookery.models.encoders import Encoder
from rookery.models.heads import Outputs, distribution_for
from rookery.models.native import NativeTrunk, layout_of
from rookery.models.native_memory import NativeRecurrence
from rookery.policies.policy import Policy

if TYPE_CHECKING:
    from rookery.algorithms.actor_critic import ActorCritic


class PolicyKernels:
    """Trunk and head of a policy on kernels.

    They put out the head's output ``[N, W]`` and, where actions have any, logarithms of standard deviations ``[k]``.

    Args:
        policy: Whose weights are used, which lie in flat memory.
        build: What runs it.
        others: Linear layers on the same trunk, whose outputs come after the head's.
    """

    def __init__(self, policy: Policy, build: Build, others: Sequence[nn.Linear] = ()) -> None:
        spec, trunk, linear = policy.action_spec, policy.trunk, policy.head.linear
        assert isinstance(trunk, Encoder)
        self.build = build
        self.head = Head(build, layout_of(policy.head))
        self.action_spec = spec
        self._sizes = torch.tensor(spec.sizes)
        self._action_type = torch.int64 if spec.dtype == np.int64 else torch.float32
        self.log_std = policy.head.log_std
        self._actor = NativeTrunk(build, trunk, [linear, *others], {})

    def forward(self, batch: Any) -> list[Tensor]:
        """What a batch of observations gives."""
        return [*self._actor.forward(batch.obs, keep=True), *self._spread()]

    def outputs(self, parts: list[Tensor], batch: Any) -> Any:
        """The same as a loss takes it: a distribution."""
        log_std = None if self.log_std is None else parts[1]
        return distribution_for(self.action_spec, parts[0], log_std, batch.obs.get(MASK))

    def write_gradients(self, gradients: Sequence[Tensor]) -> None:
        """Writes the gradients of all weights, given those of what `forward` put out last."""
        self._actor.write_gradients(gradients[:1])
        self._write_spread(gradients)

    def _spread(self) -> list[Tensor]:
        return [] if self.log_std is None else [self.log_std.detach()]

    def _write_spread(self, gradients: Sequence[Tensor]) -> None:
        if self.log_std is not None:
            write_gradient(self.log_std, gradients[1])


class ActorCriticKernels(PolicyKernels):
    """An `ActorCritic` on kernels; values ``[N, S]`` come last.

    Args:
        net: Whose weights are used, which lie in flat memory.
        build: What runs it.
    """

    def __init__(self, net: ActorCritic, build: Build) -> None:
        value, trunk = net.value_head.linear, net.critic_trunk
        super().__init__(net.policy, build, [value] if trunk is None else [])
        assert trunk is None or isinstance(trunk, Encoder)
        self.columns = value.out_features
        """Values that each row has."""
        self.call: object = None
        """What a loss's own kernel keeps from one minibatch to the next."""
        self._critic = self._actor if trunk is None else NativeTrunk(build, trunk, [value], {})

    def forward(self, batch: Minibatch) -> list[Tensor]:
        """What a batch of observations gives."""
        output, *value = self._actor.forward(batch.obs, keep=True)
        (last,) = value or self._critic.forward(batch.obs, keep=True)
        return [output, *self._spread(), last]

    def outputs(self, parts: list[Tensor], batch: Minibatch) -> Outputs:
        """The same as a loss takes it: a distribution and values."""
        return Outputs(super().outputs(parts, batch), parts[-1])

    def write_gradients(self, gradients: Sequence[Tensor]) -> None:
        """Writes the gradients of all weights, given those of what `forward` put out last."""
        if self._critic is self._actor:
            self._actor.write_gradients([gradients[0], gradients[-1]])
        else:
            self._actor.write_gradients(gradients[:1])
            self._critic.write_gradients(gradients[-1:])
        self._write_spread(gradients)

    def can_read(self, obs: TensorTree, action: Tensor) -> bool:
        """Whether rows lie in memory as kernels read them."""
        mask, spec, rows = obs.get(MASK), self.action_spec, len(action)
        choices = action.reshape(rows, -1)[:, : len(spec.sizes)]
        return (
            self._actor.can_read(obs)
            and action.shape[1:] == spec.shape
            and all(len(leaf) == rows for leaf in obs.values())
            and bool(((choices >= 0) & (choices < self._sizes)).all())
            and (self._critic is self._actor or self._critic.can_read(obs))
            and is_plain(action, self._action_type)
            and is_plain(mask, torch.bool)
        )

    def at_rows(self, obs: TensorTree) -> tuple[Any, ...]:
        """Actor, critic (None on a shared trunk) and head, and where actor and critic read these rows, for a kernel."""
        actor, critic, head = self._actor, self._critic, self.head.handle
        if critic is actor:
            return actor.network.handle, None, head, actor.addresses(obs), None
        return actor.network.handle, critic.network.handle, head, actor.addresses(obs), critic.addresses(obs)

    def value(self, obs: TensorTree) -> Tensor:
        """Values ``[N, S]`` alone."""
        return self._critic.forward(obs)[-1]


class RecurrentKernels:
    """An `ActorCritic` whose policy remembers, on kernels: head and value stand on the same memory.

    Args:
        net: Whose weights are used, which lie in flat memory.
        build: What runs it.
    """

    def __init__(self, net: ActorCritic, build: Build) -> None:
        policy = net.policy
        assert isinstance(policy.trunk, Encoder)
        assert policy.memory is not None
        heads = [policy.head.linear, net.value_head.linear]
        self.build = build
        self._spec, self._log_std = policy.action_spec, policy.head.log_std
        self._net = NativeRecurrence(build, policy.trunk, policy.memory, heads, {})

    def forward(self, batch: Minibatch) -> list[Tensor]:
        """What a batch of sequences gives."""
        assert batch.memory is not None
        assert batch.sequences is not None
        output, value = self._net.forward(batch.obs, batch.memory, batch.sequences, keep=True)
        return [output, *([] if self._log_std is None else [self._log_std.detach()]), value]

    def outputs(self, parts: list[Tensor], batch: Minibatch) -> Outputs:
        """The same as a loss takes it: a distribution and values."""
        log_std = None if self._log_std is None else parts[1]
        return Outputs(distribution_for(self._spec, parts[0], log_std, batch.obs.get(MASK)), parts[-1])

    def write_gradients(self, gradients: Sequence[Tensor]) -> None:
        """Writes the gradients of all weights, given those of what `forward` put out last."""
        self._net.write_gradients([gradients[0], gradients[-1]])
        if self._log_std is not None:
            write_gradient(self._log_std, gradients[1])

    def along(self, obs: TensorTree, memory: Tensor, sequences: Sequences) -> tuple[Tensor, Tensor]:
        """The head's output ``[N, W]`` and values ``[N, S]``; arguments as of `NativeRecurrence.forward`."""
        output, value = self._net.forward(obs, memory, sequences)
        return output, value
