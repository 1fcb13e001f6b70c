"""What actor-critics share: a policy beside a value function, and the targets both learn towards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rookery.algorithms.algorithm import Row
from rookery.core.batch import Minibatch, Rollout, TensorTree, flat
from rookery.core.device import device_of
from rookery.core.native import Build, Head, is_plain, places, write_gradient
from rookery.core.ops import following, gae, vtrace
from rookery.core.spaces import MASK
from rookery.models.build import ModelConfig, build_trunk
from rookery.models.distributions import Distribution
from rookery.models.encoders import Encoder
from rookery.models.heads import ValueHead, distribution_for
from rookery.models.native import NativeTrunk, is_hooked, kernels_for
from rookery.models.recall import put_together
from rookery.policies.policy import Policy

RHO_BAR = 2.0
"""Largest importance weight of a decision. It decides what is learned, so it should hardly ever cut: between the
weights of two updates probabilities rarely double.
"""
C_BAR = 1.0
"""Largest factor by which a later error counts for an earlier decision. It decides only how fast values are learned,
and 1 keeps products of many ratios from growing, as in the paper.
"""


@dataclass(frozen=True)
class Outputs:
    """What the networks say about N observations: a distribution over actions, and values ``[N]``."""

    distribution: Distribution
    value: Tensor


class ActorCritic(nn.Module):
    """The policy and a value function, on one trunk or on two; where the policy has a memory, both stand on that.

    Takes observations as the trunk sees them, normalized and widened (once an update, not once a gradient step).
    """

    def __init__(self, policy: Policy, model: ModelConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.policy = policy
        shared = model.shared_trunk or policy.memory is not None
        self.critic_trunk = None if shared else build_trunk(policy.input_spec, model, generator=generator)
        self.value_head = ValueHead(policy.num_features, generator=generator)
        self.model = model
        self._weights = [weight for part in self.parts for weight in part.parameters()]
        self._modules_at_hand = [module for part in self.parts for module in part.modules()]
        self._kernels: ActorCriticKernels | None = None
        self._where: list[int | None] = []  # weights lie, and what else may change
        self._last_place: tuple[int | None, int | None] = None, None
        self.to(device_of(policy))

    def __getstate__(self) -> dict[str, Any]:
        """What a copy takes over: not the kernels, whose weights are these."""
        return {**self.__dict__, "_kernels": None, "_where": [], "_last_place": (None, None)}

    @property
    def parts(self) -> list[nn.Module]:
        """All that learns, in the order in which it lies in memory: actor head, trunk, critic."""
        parts = [self.policy.head, self.policy.trunk, self.policy.memory, self.critic_trunk, self.value_head]
        return [part for part in parts if part is not None]

    def forward(self, batch: Minibatch) -> Outputs:
        """Distribution and value for each row."""
        features = self.policy.trunk(batch.obs)
        if self.policy.memory is not None:
            features, _ = self.policy.memory(features, batch.memory, batch.sequences)
        distribution = self.policy.head(features, batch.obs.get(MASK))
        seen = features if self.critic_trunk is None else self.critic_trunk(batch.obs)
        return Outputs(distribution, self.value_head(seen))

    def value(self, obs: TensorTree) -> Tensor:
        """Values ``[N]`` alone."""
        if not torch.is_grad_enabled() and (kernels := self.kernels) is not None:
            return kernels.value(obs)
        trunk = self.policy.trunk if self.critic_trunk is None else self.critic_trunk
        value: Tensor = self.value_head(trunk(obs))
        return value

    @property
    def kernels(self) -> ActorCriticKernels | None:
        """What runs it in the place of torch; None if it does not qualify, or does not learn yet."""
        if places(self._weights[-1]) != self._last_place:  # weights move together
            self.look_again()
        return self._kernels

    def look_again(self) -> None:
        """Finds kernels anew if weights have moved, or what learns or listens has changed; comes once an update."""
        weights = self._weights
        where: list[int | None] = [is_hooked(self._modules_at_hand), *[weight.requires_grad for weight in weights]]
        where += [weight.data_ptr() for weight in weights]
        last = places(weights[-1])
        if where != self._where or last != self._last_place:
            self._where, self._last_place = where, last
            self._kernels = self._find_kernels()

    def _find_kernels(self) -> ActorCriticKernels | None:
        trunks = [trunk for trunk in (self.policy.trunk, self.critic_trunk) if trunk is not None]
        build = kernels_for(self.model, trunks, [self.policy.head, self.value_head])
        learns = all(all(places(weight)) for weight in self._weights)
        ours = type(self) is ActorCritic and type(self.policy) is Policy
        if self.policy.memory is not None:
            return None
        return ActorCriticKernels(self, build) if build is not None and learns and ours else None


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
        self.head = Head(build, spec.sizes, spec.num_flags, spec.num_numbers, spec.dtype == np.int64)
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
    """An `ActorCritic` on kernels; values ``[N]`` come last.

    Args:
        net: Whose weights are used, which lie in flat memory.
        build: What runs it.
    """

    def __init__(self, net: ActorCritic, build: Build) -> None:
        value, trunk = net.value_head.linear, net.critic_trunk
        super().__init__(net.policy, build, [value] if trunk is None else [])
        assert trunk is None or isinstance(trunk, Encoder)
        self.call: object = None
        """What a loss's own kernel keeps from one minibatch to the next."""
        self._critic = self._actor if trunk is None else NativeTrunk(build, trunk, [value], {})

    def forward(self, batch: Minibatch) -> list[Tensor]:
        """What a batch of observations gives."""
        output, *value = self._actor.forward(batch.obs, keep=True)
        (last,) = value or self._critic.forward(batch.obs, keep=True)
        return [output, *self._spread(), last.squeeze(1)]

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
        """Values ``[N]`` alone."""
        return self._critic.forward(obs)[-1].squeeze(1)


@dataclass(frozen=True)
class Seen:
    """What the networks say about a rollout before an update.

    Attributes:
        obs: ``[T * F, ...]`` its observations as the trunk takes them.
        features: ``[T * F, num_features]`` what the policy's head stands on; None where the trunk gives it at once.
        value: ``[T, F]``.
        last_value: ``[F]``, of the last observations.
        final_value: ``[K]``, of the final ones.
    """

    obs: TensorTree
    features: Tensor | None
    value: Tensor
    last_value: Tensor
    final_value: Tensor


@torch.no_grad()
def look(net: ActorCritic, rollout: Rollout) -> Seen:
    """Passes a rollout through the networks: row by row, or, for a policy with a memory, along the time line."""
    policy, shape = net.policy, rollout.reward.shape
    if policy.recall is None:
        obs = policy.normalize({path: leaf.flatten(0, 1) for path, leaf in rollout.obs.items()})
        last, final = policy.normalize(rollout.last_obs), policy.normalize(rollout.final_obs)
    else:
        obs, last, final = policy.recall.unroll(rollout, policy.normalize)
    if policy.memory is None:
        value, last_value = net.value(put_together(obs)).view(shape), net.value(put_together(last))
        final_value = net.value(put_together(final)) if len(rollout.boot_index) else last_value[:0]
        return Seen(obs, None, value, last_value, final_value)
    rows, memory = rollout.valid_rows(), rollout.memory
    assert memory is not None
    seen = [policy.trunk(put_together(tree)) for tree in (obs, last, final)]
    seen[0] = seen[0] if rows is None else seen[0].index_select(0, rows)
    along, _ = policy.memory(torch.cat(seen), policy.learned(memory[0]), rollout.timeline())
    decided, *others = along.split([len(part) for part in seen])
    features = decided
    if rows is not None:
        features = decided.new_zeros(shape.numel(), decided.shape[1]).index_copy(0, rows, decided)
    last_value, final_value = (net.value_head(part) for part in others)
    return Seen(obs, features, net.value_head(features).view(shape), last_value, final_value)


@torch.no_grad()
def advantage_targets(
    net: ActorCritic, rollout: Rollout, reward: Tensor, *, gamma: float, gae_lambda: float, stale: bool = False
) -> Minibatch:
    """Advantages and value targets of every valid decision of a rollout.

    Args:
        net: Says what observations are worth.
        rollout: The experience.
        reward: ``[T, F]`` its rewards, scaled or not.
        gamma: Discount.
        gae_lambda: Decay of later errors.
        stale: Older weights than those of `net` may have played: V-trace takes the place of GAE, and rows carry their
            importance.

    Returns:
        ``[N]`` rows, observations as the trunk takes them; in sequences, if the policy has a memory that is learned.
    """
    net.look_again()
    policy, seen = net.policy, look(net, rollout)
    obs, value = seen.obs, seen.value
    next_value = following_values(rollout, seen)
    ended = rollout.terminated | rollout.truncated | rollout.last
    if stale:
        features = policy.trunk(put_together(obs)) if seen.features is None else seen.features
        distribution = policy.head(features, obs.get(MASK))
        logp = distribution.log_prob(rollout.action.flatten(0, 1)).view_as(reward)
        ratio = (logp - rollout.logp).exp()
        advantage, value_target = vtrace(
            reward, value, next_value, ended, ratio, gamma=gamma, gae_lambda=gae_lambda, rho_bar=RHO_BAR, c_bar=C_BAR
        )
    else:
        logp, ratio = rollout.logp, None
        advantage = gae(reward, value, next_value, ended, gamma=gamma, gae_lambda=gae_lambda)
        value_target = advantage + value
    rows = rollout.valid_rows()
    sequences, memory = (None, None) if policy.memory is None else rollout.sequences()
    return Minibatch(
        obs=obs if rows is None else {path: leaf.index_select(0, rows) for path, leaf in obs.items()},
        action=flat(rollout.action, rows),
        logp=flat(logp, rows),
        advantage=flat(advantage, rows),
        value_target=flat(value_target, rows),
        value=flat(value, rows),
        importance=None if ratio is None else flat(ratio.clamp(max=RHO_BAR), rows),
        sequences=sequences,
        memory=None if memory is None else policy.learned(memory),
    )


def importance_metrics(data: Minibatch) -> Row:
    """How far the weights that played were from those that learn; nothing if they were the same."""
    if data.importance is None:
        return {}
    deviation, mean = torch.std_mean(data.importance, correction=0)
    return {"importance_mean": float(mean), "importance_std": float(deviation)}


def following_values(rollout: Rollout, seen: Seen) -> Tensor:
    """The value of what came after each decision, ``[T, F]``.

    That is nothing after a terminal one, the value of the final observation after a truncated one, that of the last
    observation at the end of a fragment, and else that of the next row.
    """
    next_value = following(seen.value, seen.last_value)
    fragments = torch.arange(len(seen.last_value), device=next_value.device)
    next_value[rollout.length - 1, fragments] = seen.last_value
    if len(rollout.boot_index):
        next_value[rollout.boot_index[:, 0], rollout.boot_index[:, 1]] = seen.final_value
    return next_value.masked_fill_(rollout.terminated, 0.0)
