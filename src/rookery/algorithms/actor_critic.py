"""What actor-critics share: a policy beside a value function, and the targets both learn towards."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rookery.algorithms.algorithm import Row
from rookery.core.batch import Minibatch, Rollout, TensorTree, flat
from rookery.core.device import device_of
from rookery.core.ops import following, gae, vtrace
from rookery.core.spaces import MASK
from rookery.models.build import ModelConfig, build_trunk
from rookery.models.distributions import Distribution
from rookery.models.heads import ValueHead
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
    """The policy and a value function, on one trunk or on two.

    Takes observations that are normalized already (once an update, instead of once a gradient step).
    """

    def __init__(self, policy: Policy, model: ModelConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.policy = policy
        self.critic_trunk = None if model.shared_trunk else build_trunk(policy.obs_spec, model, generator=generator)
        self.value_head = ValueHead(policy.num_features, generator=generator)
        self.to(device_of(policy))

    @property
    def parts(self) -> list[nn.Module]:
        """All that learns, in the order in which it lies in memory: actor head, trunk, critic."""
        critic = [part for part in (self.critic_trunk, self.value_head) if part is not None]
        return [self.policy.head, self.policy.trunk, *critic]

    def forward(self, batch: Minibatch) -> Outputs:
        """Distribution and value for each row."""
        features = self.policy.trunk(batch.obs)
        distribution = self.policy.head(features, batch.obs.get(MASK))
        seen = features if self.critic_trunk is None else self.critic_trunk(batch.obs)
        return Outputs(distribution, self.value_head(seen))

    def value(self, obs: TensorTree) -> Tensor:
        """Values ``[N]`` alone."""
        trunk = self.policy.trunk if self.critic_trunk is None else self.critic_trunk
        value: Tensor = self.value_head(trunk(obs))
        return value


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
        ``[N]`` rows, observations normalized.
    """
    obs = net.policy.normalize({path: leaf.flatten(0, 1) for path, leaf in rollout.obs.items()})
    value = net.value(obs).view_as(reward)
    next_value = following_values(net, rollout, value)
    ended = rollout.terminated | rollout.truncated | rollout.last
    if stale:
        distribution = net.policy.head(net.policy.trunk(obs), obs.get(MASK))
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
    return Minibatch(
        obs=obs if rows is None else {path: leaf.index_select(0, rows) for path, leaf in obs.items()},
        action=flat(rollout.action, rows),
        logp=flat(logp, rows),
        advantage=flat(advantage, rows),
        value_target=flat(value_target, rows),
        value=flat(value, rows),
        importance=None if ratio is None else flat(ratio.clamp(max=RHO_BAR), rows),
    )


def importance_metrics(data: Minibatch) -> Row:
    """How far the weights that played were from those that learn; nothing if they were the same."""
    if data.importance is None:
        return {}
    deviation, mean = torch.std_mean(data.importance, correction=0)
    return {"importance_mean": float(mean), "importance_std": float(deviation)}


@torch.no_grad()
def following_values(net: ActorCritic, rollout: Rollout, value: Tensor) -> Tensor:
    """The value of what came after each decision, ``[T, F]``, given that of what it was made on.

    That is nothing after a terminal one, the value of the final observation after a truncated one, that of the last
    observation at the end of a fragment, and else that of the next row.
    """
    last_value = net.value(net.policy.normalize(rollout.last_obs))
    next_value = following(value, last_value)
    next_value[rollout.length - 1, torch.arange(len(last_value), device=value.device)] = last_value
    if len(rollout.boot_index):
        final_value = net.value(net.policy.normalize(rollout.final_obs))
        next_value[rollout.boot_index[:, 0], rollout.boot_index[:, 1]] = final_value
    return next_value.masked_fill_(rollout.terminated, 0.0)
