"""SAC for actions with several parts: discrete actions, each with its own temperature, and continuous ones.

The value of an action is the sum of the critics' values of each discrete action, given the continuous ones. So the
expected value of a policy is exact over all discrete actions, however many combinations there are, and sampled only
over the continuous ones; with a single discrete action it is that of Christodoulou 2019. (Value parts by branch:
Tavakoli et al. 2018, arXiv:1711.08946; discrete and continuous actions: Delalleau et al. 2019, arXiv:1912.11077,
section 4.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from rookery.algorithms.experience import RecurrentInput
from rookery.algorithms.off_policy.critics import (
    CriticBatch,
    Critics,
    CriticSettings,
    StateAction,
    critic_loss,
)
from rookery.core.batch import TensorTree
from rookery.core.metrics import Metrics
from rookery.core.spaces.arrays import ActionSpec
from rookery.models.distributions import Behavior, Composite, MultiCategorical
from rookery.models.squashed import Hybrid
from rookery.native.critics import action_values
from rookery.native.forward import Forward


@dataclass(frozen=True)
class BranchCriticBatch(CriticBatch):
    """Rows of the critics' loss.

    Attributes:
        chosen: ``[N, c]`` indices of the chosen options among all options of all discrete actions.
    """

    chosen: Tensor


@dataclass(frozen=True)
class ActorBatch:
    """Rows of the actor's loss, ``[N, ...]``.

    Attributes:
        obs: Observations as networks take them.
        noise: ``[N, k]`` standard normal numbers of the continuous actions.
        alpha: Temperature, a scalar; of actions with several parts ``[P]``, one per discrete action, then one for the
            continuous actions, if there are any.
        recurrent: Positions of the rows among the observations, for a policy with a memory; else None.
        known: Output of the policy's last layer, where kernels have computed it and kept what the backward pass needs;
            else None.
    """

    obs: TensorTree
    noise: Tensor
    alpha: Tensor
    recurrent: RecurrentInput | None = field(default_factory=lambda: None)
    known: Tensor | None = field(default_factory=lambda: None)

    def __len__(self) -> int:
        return len(self.noise)


@dataclass(frozen=True)
class Branches:
    """Values and entropies of the parts of a policy's actions.

    Attributes:
        value: ``[N, c]`` expected values of each discrete action under the policy.
        entropy: ``[N, P]`` entropy of each discrete action, then minus the log-probability of the continuous ones.
    """

    value: Tensor
    entropy: Tensor

    def soft_value(self, alpha: Tensor) -> Tensor:
        """Returns values with the entropy bonus, ``[N]``."""
        return self.value.sum(1) + self.entropy @ alpha


def has_branches(action: ActionSpec) -> bool:
    """Returns whether an action has several discrete parts, or discrete and continuous ones."""
    return action.kind in ("multi_discrete", "composite")


def num_temperatures(action: ActionSpec) -> int:
    """Returns the number of parts of an action that have their own temperature."""
    return len(action.sizes) + (action.num_numbers > 0)


def continuous_part(action: Tensor, spec: ActionSpec) -> Tensor:
    """Returns the continuous part ``[N, k]`` of stored actions ``[N, c + k]``; all of purely discrete ones (unused)."""
    return action[:, len(spec.sizes) :] if spec.num_numbers else action


def chosen_indices(action: Tensor, spec: ActionSpec) -> Tensor:
    """Returns the indices ``[N, c]`` of the chosen options among all options, for stored actions ``[N, c + k]``."""
    sizes = torch.tensor((0, *spec.sizes[:-1]), device=action.device, dtype=torch.int64)
    return action[:, : len(spec.sizes)].long() + sizes.cumsum(0)


def pad_options(values: Tensor, sizes: Sequence[int]) -> Tensor:
    """Reshapes values of all options, ``[..., sum(sizes)]``, to ``[..., c, widest]``, padded with zeros."""
    widest = max(sizes)
    parts = values.split(tuple(sizes), -1)
    return torch.stack([functional.pad(part, (0, widest - part.shape[-1])) for part in parts], -2)


def branch_values(
    behavior: Behavior, critics: Forward[Critics], obs: TensorTree, noise: Tensor, recurrent: RecurrentInput | None
) -> Branches:
    """Computes the critics' values of a policy's actions: for each option the lowest value.

    Args:
        behavior: Action distribution: a `Hybrid`, or a discrete one.
        critics: The critics, whose weights take no gradients here.
        obs: Observations as networks take them.
        noise: ``[N, k]`` standard normal numbers of the continuous actions.
        recurrent: Positions of the rows among the observations, for critics with a memory; else None.
    """
    choices: Any = behavior.parts[0] if isinstance(behavior, Composite) else behavior
    number, extra = noise, []
    if isinstance(behavior, Hybrid):
        choices = behavior.choices
        number, logp = behavior.numbers.sample_logp(noise)
        extra = [-logp.unsqueeze(1)]
    assert isinstance(choices, MultiCategorical)
    q = action_values(critics, StateAction(obs, number, recurrent=recurrent)).amin(0)
    value = (choices.choices.log_probs.exp() * pad_options(q, choices.sizes)).sum(-1)
    return Branches(value, torch.cat((choices.choices.entropy(), *extra), 1))


def branch_critic_loss(q: Tensor, batch: BranchCriticBatch, cfg: CriticSettings) -> tuple[Tensor, Metrics]:
    """Computes `critic_loss` of the sums of the chosen options, given values ``[K, N, A]`` of all options."""
    return critic_loss(q.gather(2, batch.chosen.expand(len(q), -1, -1)).sum(2), batch, cfg)


def branch_actor_loss(branches: Branches, batch: ActorBatch, cfg: CriticSettings) -> tuple[Tensor, Metrics]:
    """Negated soft value, exact over discrete actions; gradients of continuous ones flow through the critics."""
    loss = -branches.soft_value(batch.alpha).mean()
    return loss, {"actor_loss": loss.detach(), "entropy": branches.entropy.detach()}


def target_entropies(action: ActionSpec, share: float, mask: Tensor | None) -> Tensor:
    """Returns the target entropy of each part, ``[P]``, or ``[N, P]`` with masks: a share of the entropy of a uniform
    distribution over the allowed options, and minus their number for continuous actions in [-1, 1].

    Args:
        action: Layout of the actions.
        share: Share of the entropy of a uniform distribution.
        mask: ``[N, sum(sizes)]`` bool, allowed options; None = all.
    """
    if mask is None:
        wanted = share * torch.tensor(action.sizes, dtype=torch.float32, device="cpu").log()
    else:
        wanted = share * torch.stack([part.sum(1) for part in mask.split(action.sizes, -1)], 1).float().log()
    if not action.num_numbers:
        return wanted
    return torch.cat((wanted, wanted.new_full((*wanted.shape[:-1], 1), -float(action.num_numbers))), -1)
