"""What SAC learns from where an action has several parts: choices, each with a temperature of its own, and numbers.

The value of an action is the sum of what critics say of each choice, given the numbers. So the value expected of a
policy is exact in all choices, however many actions they make together, and drawn in the numbers alone; with a single
choice it is that of Christodoulou 2019. (Parts of a value by branch: Tavakoli et al. 2018, arXiv:1711.08946; choices
beside numbers: Delalleau et al. 2019, arXiv:1912.11077, section 4.)
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
        chosen: ``[N, c]`` which of the values of all options of all choices are those of the options that were taken.
    """

    chosen: Tensor


@dataclass(frozen=True)
class ActorBatch:
    """Rows of the actor's loss, ``[N, ...]``.

    Attributes:
        obs: Observations as networks take them.
        noise: ``[N, k]`` standard normal numbers behind the numbers of its actions.
        alpha: Temperature, without dimensions; of actions with several parts ``[P]``, one for each choice, and behind
            them one for the numbers, if there are any.
        recurrent: Where the rows stand among the observations, for a policy that remembers; else None.
        known: What the policy's last layer puts out for them, where kernels have computed it and kept what the way back
            needs; else None.
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
    """What a policy would do, and what that is worth.

    Attributes:
        value: ``[N, c]`` the values of each choice, as expected of the policy.
        entropy: ``[N, P]`` entropy of each choice, and behind them minus the log-probability of the numbers.
    """

    value: Tensor
    entropy: Tensor

    def soft_value(self, alpha: Tensor) -> Tensor:
        """Values with what their entropy is worth, ``[N]``."""
        return self.value.sum(1) + self.entropy @ alpha


def has_branches(action: ActionSpec) -> bool:
    """Whether an action has more than one choice, or choices and numbers."""
    return action.kind in ("multi_discrete", "composite")


def num_temperatures(action: ActionSpec) -> int:
    """How many parts of an action have a temperature of their own."""
    return len(action.sizes) + (action.num_numbers > 0)


def numbers_of(action: Tensor, spec: ActionSpec) -> Tensor:
    """The numbers ``[N, k]`` of stored actions ``[N, c + k]``; all of an action that has none, whom critics ignore."""
    return action[:, len(spec.sizes) :] if spec.num_numbers else action


def chosen_of(action: Tensor, spec: ActionSpec) -> Tensor:
    """The places ``[N, c]`` of what was chosen among all options of all choices, of stored actions ``[N, c + k]``."""
    sizes = torch.tensor((0, *spec.sizes[:-1]), device=action.device, dtype=torch.int64)
    return action[:, : len(spec.sizes)].long() + sizes.cumsum(0)


def tabled(values: Tensor, sizes: Sequence[int]) -> Tensor:
    """Values of all options side by side, ``[..., sum(sizes)]``, as ``[..., c, widest]``, filled up with zeros."""
    widest = max(sizes)
    parts = values.split(tuple(sizes), -1)
    return torch.stack([functional.pad(part, (0, widest - part.shape[-1])) for part in parts], -2)


def branches_of(
    behavior: Behavior, critics: Forward[Critics], obs: TensorTree, noise: Tensor, recurrent: RecurrentInput | None
) -> Branches:
    """What a policy would do, and what critics say of it: of each option the lowest of their values.

    Args:
        behavior: What actions are drawn from: a `Hybrid`, or choices alone.
        critics: The critics, whose weights take no gradients here.
        obs: Observations as networks take them.
        noise: ``[N, k]`` standard normal numbers behind its numbers.
        recurrent: Where the rows stand among the observations, for critics that remember; else None.
    """
    choices: Any = behavior.parts[0] if isinstance(behavior, Composite) else behavior
    number, extra = noise, []
    if isinstance(behavior, Hybrid):
        choices = behavior.choices
        number, logp = behavior.numbers.sample_logp(noise)
        extra = [-logp.unsqueeze(1)]
    assert isinstance(choices, MultiCategorical)
    q = action_values(critics, StateAction(obs, number, recurrent=recurrent)).amin(0)
    value = (choices.choices.log_probs.exp() * tabled(q, choices.sizes)).sum(-1)
    return Branches(value, torch.cat((choices.choices.entropy(), *extra), 1))


def branch_critic_loss(q: Tensor, batch: BranchCriticBatch, cfg: CriticSettings) -> tuple[Tensor, Metrics]:
    """`critic_loss` of the sums of what was chosen, given the values ``[K, N, A]`` of all options of all choices."""
    return critic_loss(q.gather(2, batch.chosen.expand(len(q), -1, -1)).sum(2), batch, cfg)


def branch_actor_loss(branches: Branches, batch: ActorBatch, cfg: CriticSettings) -> tuple[Tensor, Metrics]:
    """Minus the soft value, exact in the choices; gradients of the numbers go through the critics."""
    loss = -branches.soft_value(batch.alpha).mean()
    return loss, {"actor_loss": loss.detach(), "entropy": branches.entropy.detach()}


def target_entropies(action: ActionSpec, share: float, mask: Tensor | None) -> Tensor:
    """What the entropy of each part should be, ``[P]``, or ``[N, P]`` where masks forbid some options: a share of that
    of an even choice among what is allowed, and of the numbers minus their number, on [-1, 1].

    Args:
        action: Layout of the actions.
        share: Of the entropy of an even choice.
        mask: ``[N, sum(sizes)]`` bool, what is allowed; None = everything.
    """
    if mask is None:
        wanted = share * torch.tensor(action.sizes, dtype=torch.float32, device="cpu").log()
    else:
        wanted = share * torch.stack([part.sum(1) for part in mask.split(action.sizes, -1)], 1).float().log()
    if not action.num_numbers:
        return wanted
    return torch.cat((wanted, wanted.new_full((*wanted.shape[:-1], 1), -float(action.num_numbers))), -1)
