"""What actor-critics share: a policy beside a value function, and the targets both learn towards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from rookery.algorithms.algorithm import Row
from rookery.algorithms.kernels import ActorCriticKernels, RecurrentKernels
from rookery.core.batch import Minibatch, Rollout, Sequences, TensorTree, flat
from rookery.core.device import device_of
from rookery.core.errors import RookeryError
from rookery.core.native import places
from rookery.core.ops import following, gae, vtrace
from rookery.core.spaces import MASK
from rookery.models.build import ModelConfig, build_trunk
from rookery.models.heads import Outputs, ValueHead, distribution_for
from rookery.models.native import is_hooked, kernels_for
from rookery.models.recall import put_together, rows_of
from rookery.policies.policy import Policy

RHO_BAR = 2.0
"""Largest importance weight of a decision. It decides what is learned, so it should hardly ever cut: between the
weights of two updates probabilities rarely double.
"""
C_BAR = 1.0
"""Largest factor by which a later error counts for an earlier decision. It decides only how fast values are learned,
and 1 keeps products of many ratios from growing, as in the paper.
"""


class ActorCritic(nn.Module):
    """The policy and a value function, on one trunk or on two; where the policy has a memory, both stand on that.

    Takes observations as the trunk sees them, normalized and widened (once an update, not once a gradient step).

    Args:
        policy: The policy that learns.
        model: Settings of the networks.
        generator: Draws the weights of the value function.
        columns: S, reward signals whose values are learned.
    """

    def __init__(self, policy: Policy, model: ModelConfig, generator: torch.Generator, columns: int = 1) -> None:
        super().__init__()
        self.policy = policy
        self._remembers, self._recalls = policy.memory is not None, policy.recall is not None  # kept at hand
        shared = model.shared_trunk or self._remembers
        self.critic_trunk = None if shared else build_trunk(policy.input_spec, model, generator=generator)
        self.value_head = ValueHead(policy.num_features, generator=generator, columns=columns)
        self.model = model
        self._weights = [weight for part in self.parts for weight in part.parameters()]
        self._modules_at_hand = [module for part in self.parts for module in part.modules()]
        self._kernels: ActorCriticKernels | RecurrentKernels | None = None
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
        obs = put_together(batch.obs) if self._recalls else batch.obs  # pictures may still stand once each
        features = self.policy.trunk(obs)
        if self._remembers:
            memory = self.policy.memory
            assert memory is not None
            features, _ = memory(features, batch.memory, batch.sequences)
        distribution = self.policy.head(features, obs.get(MASK))
        seen = features if self.critic_trunk is None else self.critic_trunk(obs)
        return Outputs(distribution, self.value_head(seen))

    def value(self, obs: TensorTree) -> Tensor:
        """Gives values ``[N, S]`` alone, of rows that stand for themselves; of a policy that remembers see `along`."""
        if self._remembers:
            raise RookeryError(f"policy {self.policy.name!r} remembers: its values are along sequences (`along`)")
        if not torch.is_grad_enabled() and isinstance(kernels := self.kernels, ActorCriticKernels):
            return kernels.value(obs)
        trunk = self.policy.trunk if self.critic_trunk is None else self.critic_trunk
        value: Tensor = self.value_head(trunk(obs))
        return value

    def along(self, obs: TensorTree, memory: Tensor, sequences: Sequences) -> tuple[Tensor, Tensor]:
        """Along a policy's memory: the head's output ``[N, W]`` and values ``[N, S]``, without gradients.

        Args:
            obs: ``[N, ...]`` as the trunk takes them.
            memory: ``[B, M]`` what its memory kept before each sequence.
            sequences: How the rows lie in time.
        """
        if isinstance(kernels := self.kernels, RecurrentKernels):
            return kernels.along(obs, memory, sequences)
        assert self.policy.memory is not None
        with torch.no_grad():
            features, _ = self.policy.memory(self.policy.trunk(obs), memory, sequences)
            return self.policy.head.linear(features), self.value_head(features)

    @property
    def kernels(self) -> ActorCriticKernels | RecurrentKernels | None:
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

    def _find_kernels(self) -> ActorCriticKernels | RecurrentKernels | None:
        policy = self.policy
        trunks = [trunk for trunk in (policy.trunk, self.critic_trunk) if trunk is not None]
        build = kernels_for(self.model, trunks, [policy.head, self.value_head], policy.memory)
        learns = all(all(places(weight)) for weight in self._weights)
        ours = type(self) is ActorCritic and type(policy) is Policy
        if build is None or not learns or not ours:
            return None
        return ActorCriticKernels(self, build) if policy.memory is None else RecurrentKernels(self, build)


@dataclass(frozen=True)
class ValueColumn:
    """A reward signal as its values are learned.

    Attributes:
        gamma: Discount of its rewards.
        strength: What its advantages count in the policy's loss.
    """

    gamma: float
    strength: float = 1.0


@dataclass(frozen=True)
class RolloutValues:
    """What the networks say about a rollout before an update.

    Attributes:
        obs: ``[T * F, ...]`` its observations as the trunk takes them.
        value: ``[T, F, S]``.
        last_value: ``[F, S]``, of the last observations.
        final_value: ``[K, S]``, of the final ones; None if there are none.
    """

    obs: TensorTree
    value: Tensor
    last_value: Tensor
    final_value: Tensor | None


@torch.no_grad()
def values_of(net: ActorCritic, rollout: Rollout) -> RolloutValues:
    """Passes a rollout through the networks: row by row, or, for a policy with a memory, along the time line."""
    policy, shape = net.policy, rollout.reward.shape
    if policy.recall is None:
        obs = policy.normalize({path: leaf.flatten(0, 1) for path, leaf in rollout.obs.items()})
        last, final = policy.normalize(rollout.last_obs), policy.normalize(rollout.final_obs)
        whole = obs
    else:
        obs, last, final = policy.recall.unroll(rollout, policy.normalize)
        whole, last, final = put_together(obs), put_together(last), put_together(final)
    if policy.memory is None:
        value, last_value = net.value(whole).view(*shape, -1), net.value(last)
        final_value = net.value(final) if len(rollout.boot_index) else None
        return RolloutValues(obs, value, last_value, final_value)
    rows, memory = rollout.valid_rows(), rollout.memory
    assert memory is not None
    decided = whole if rows is None else {path: leaf.index_select(0, rows) for path, leaf in whole.items()}
    together = {path: torch.cat((leaf, last[path], final[path])) for path, leaf in decided.items()}
    _, value = net.along(together, policy.learned(memory[0]), rollout.timeline())
    num, fragments = len(rollout.reward.flatten()) if rows is None else len(rows), len(rollout.length)
    values, last_value, final_value = value.split((num, fragments, len(rollout.boot_index)))
    if rows is not None:
        values = values.new_zeros(shape.numel(), values.shape[1]).index_copy(0, rows, values)
    return RolloutValues(obs, values.view(*shape, -1), last_value, final_value)


@torch.no_grad()
def logp_now(
    net: ActorCritic, rollout: Rollout, obs: TensorTree, sequences: Sequences | None, memory: Tensor | None
) -> Tensor:
    """Log-probabilities ``[T, F]`` of what was played, under the policy that learns, as its minibatches will find them:
    of a policy that remembers, from the memories that were kept.

    Args:
        net: The networks.
        rollout: What was played.
        obs: ``[T * F, ...]`` as the trunk takes them.
        sequences: How minibatches have the rows; None if each stands for itself.
        memory: ``[B, M]`` what was kept before each sequence.
    """
    policy, rows, action = net.policy, rollout.valid_rows(), rollout.action.flatten(0, 1)
    if sequences is None or memory is None:
        output = policy.head.linear(policy.trunk(put_together(obs)))
    else:
        decided = obs if rows is None else rows_of(obs, rows)
        output, _ = net.along(put_together(decided), memory, sequences)
        if rows is not None:
            output = output.new_zeros(len(action), output.shape[1]).index_copy(0, rows, output)
    distribution = distribution_for(policy.action_spec, output, policy.head.log_std, obs.get(MASK))
    return distribution.log_prob(action).view_as(rollout.reward)


@torch.no_grad()
def advantage_targets(
    net: ActorCritic,
    rollout: Rollout,
    reward: Tensor,
    columns: Sequence[ValueColumn],
    *,
    gae_lambda: float,
    stale: bool = False,
) -> Minibatch:
    """Computes advantages and value targets of every valid decision of a rollout, for each reward signal by itself.

    Args:
        net: Says what observations are worth.
        rollout: The experience.
        reward: ``[T, F, S]`` rewards, scaled or not; ``[T, F]`` of a single signal.
        columns: The S signals.
        gae_lambda: Decay of later errors.
        stale: Older weights than those of `net` may have played: V-trace takes the place of GAE, and rows carry their
            importance.

    Returns:
        ``[N]`` rows, observations as the trunk takes them; in sequences, if the policy has a memory that is learned.
        Advantages are the sum over signals by strength.
    """
    reward = reward.unsqueeze(-1) if reward.dim() == 2 else reward
    net.look_again()
    policy, seen = net.policy, values_of(net, rollout)
    obs, value = seen.obs, seen.value
    if not len(columns) == reward.shape[-1] == value.shape[-1]:
        raise RookeryError(
            f"policy {policy.name!r}: {len(columns)} value columns, rewards of {reward.shape[-1]} and values of "
            f"{value.shape[-1]} signals; columns, rewards(rollout) and make_net must agree"
        )
    sequences = memory = None
    if policy.memory is not None:
        sequences, kept = rollout.sequences()
        memory = policy.learned(kept)
    next_value = following_values(rollout, seen)
    ended = (rollout.terminated | rollout.truncated | rollout.last).unsqueeze(-1)
    only = columns[0] if len(columns) == 1 else None
    gamma = only.gamma if only else value.new_tensor([column.gamma for column in columns])
    decay: dict[str, Any] = {"gamma": gamma, "gae_lambda": gae_lambda}
    if stale:
        logp = logp_now(net, rollout, obs, sequences, memory)
        ratio = (logp - rollout.logp).exp()
        bounds = {"rho_bar": RHO_BAR, "c_bar": C_BAR}
        advantage, value_target = vtrace(reward, value, next_value, ended, ratio.unsqueeze(-1), **decay, **bounds)
    else:
        logp, ratio = rollout.logp, None
        advantage = gae(reward, value, next_value, ended, **decay)
        value_target = advantage + value
    if only and only.strength == 1:
        advantage = advantage.squeeze(-1)
    else:
        advantage = advantage @ value.new_tensor([column.strength for column in columns])
    rows = rollout.valid_rows()
    return Minibatch(
        obs=obs if rows is None else rows_of(obs, rows),
        action=flat(rollout.action, rows),
        logp=flat(logp, rows),
        advantage=flat(advantage, rows),
        value_target=flat(value_target, rows),
        value=flat(value, rows),
        importance=None if ratio is None else flat(ratio.clamp(max=RHO_BAR), rows),
        sequences=sequences,
        memory=memory,
    )


def value_error(value: Tensor, target: Tensor) -> Tensor:
    """Computes the mean squared error of values ``[N, S]``, summed over columns."""
    error = functional.mse_loss(value, target)
    return error if value.shape[1] == 1 else error * value.shape[1]


def importance_metrics(data: Minibatch) -> Row:
    """How far the weights that played were from those that learn; nothing if they were the same."""
    if data.importance is None:
        return {}
    deviation, mean = torch.std_mean(data.importance, correction=0)
    return {"importance_mean": float(mean), "importance_std": float(deviation)}


def following_values(rollout: Rollout, seen: RolloutValues) -> Tensor:
    """Gives the values of what came after each decision, ``[T, F, S]``.

    That is nothing after a terminal one, the value of the final observation after a truncated one, that of the last
    observation at the end of a fragment, and else that of the next row.
    """
    next_value = following(seen.value, seen.last_value)
    next_value[rollout.length - 1, torch.arange(len(seen.last_value), device=next_value.device)] = seen.last_value
    if seen.final_value is not None:
        next_value[rollout.boot_index[:, 0], rollout.boot_index[:, 1]] = seen.final_value
    return next_value.masked_fill_(rollout.terminated.unsqueeze(-1), 0.0)
