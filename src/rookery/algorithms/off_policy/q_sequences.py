"""Learning values along sequences (R2D2, Kapturowski et al. 2019): n-step windows within a part of a slot's
experience, and the burn-in that only updates the memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rookery.algorithms.off_policy.q_values import QNetwork
from rookery.core.batch import Rollout, Sequences, TensorTree, rows_of
from rookery.core.ops import n_step
from rookery.models.structure import Inputs
from rookery.native.forward import Forward
from rookery.policies.policy import Policy


@dataclass(frozen=True)
class NStepReturns:
    """n-step returns of the N valid decisions of a rollout, in their order.

    Attributes:
        reward: ``[N]`` rewards of a decision and the next ones.
        discount: ``[N]`` of the value after them; 0 if the episode terminated.
        after: ``[N]`` row of the time line (see `Rollout.timeline`) of that value; meaningless where `discount`
            is 0.
        fragment: ``[N]`` fragment of each decision.
    """

    reward: Tensor
    discount: Tensor
    after: Tensor
    fragment: Tensor


def n_step_returns(rollout: Rollout, *, n: int, gamma: float) -> NStepReturns:
    """Sums windows of n decisions each, or of fewer where the episode or the fragment ends earlier.

    Args:
        rollout: Parts of slots' experience.
        n: Largest number of decisions in a window.
        gamma: Discount.
    """
    fragments, device = len(rollout.length), rollout.length.device
    valid = rollout.valid
    ended = rollout.terminated | rollout.truncated | rollout.last
    reward, steps = n_step(rollout.reward, ended, n=n, gamma=gamma)
    number = (valid.flatten().cumsum(0) - 1).view_as(steps)
    count, every = rollout.num_decisions, torch.arange(fragments, device=device, dtype=torch.int64)
    after = torch.cat((number[1:], number[:1]))
    after[rollout.length - 1, every] = count + every
    finals = count + fragments + torch.arange(len(rollout.boot_index), device=device, dtype=torch.int64)
    after[rollout.boot_index[:, 0], rollout.boot_index[:, 1]] = finals
    last = torch.arange(len(steps), device=device, dtype=torch.int64).unsqueeze(1) + steps - 1
    discount = (gamma ** steps.float()).masked_fill_(rollout.terminated.gather(0, last), 0.0)
    time, fragment = valid.nonzero(as_tuple=True)
    at = time, fragment
    return NStepReturns(reward[at], discount[at].to(reward.dtype), after.gather(0, last)[at], fragment)


@dataclass(frozen=True)
class TimelinePart:
    """Part of a time line, with its own row numbers.

    Attributes:
        rows: ``[R]`` their numbers on the whole time line.
        which: ``[B]`` fragments with rows in it.
        sequences: Positions of the rows in time; None if rows are independent.
    """

    rows: Tensor
    which: Tensor
    sequences: Sequences | None

    def places(self, total: int) -> Tensor:
        """Returns the index in this part of each of the `total` rows of the time line, ``[total]``; -1 if absent."""
        places = torch.full((total,), -1, device=self.rows.device, dtype=torch.int64)
        places[self.rows] = torch.arange(len(self.rows), device=self.rows.device, dtype=torch.int64)
        return places


def split_timeline(
    policy: Policy, rollout: Rollout, burn_in: int
) -> tuple[TimelinePart, TimelinePart | None, TimelinePart]:
    """Returns the whole time line; the burn-in part that only updates the memory, None without one; and the part that
    is learned from.

    Args:
        policy: The policy that played.
        rollout: The experience.
        burn_in: Observations of each fragment that only update the memory, final ones of episodes included. Of the
            longest fragment at least one decision is learned from, however short it is.
    """
    fragments, device = len(rollout.length), rollout.length.device
    total = rollout.num_decisions + fragments + len(rollout.boot_index)
    rows, which = (
        torch.arange(total, device=device, dtype=torch.int64),
        torch.arange(fragments, device=device, dtype=torch.int64),
    )
    if policy.memory is None:
        whole = TimelinePart(rows, which, None)
        return whole, None, whole
    timeline = rollout.timeline()
    whole, steps = TimelinePart(rows, which, timeline), len(timeline.first)
    burn_in = min(burn_in, steps - 2)
    if not burn_in:
        return whole, None, whole
    which, rows, sequences = timeline.between(0, burn_in)
    burned = TimelinePart(rows, which, sequences)
    which, rows, sequences = timeline.between(burn_in, steps)
    return whole, burned, TimelinePart(rows, which, sequences)


@torch.no_grad()
def unroll(
    net: Forward[QNetwork],
    rows: TensorTree,
    noise: Tensor | None,
    memory: Tensor | None,
    burned: TimelinePart | None,
    rest: TimelinePart,
    keep: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Computes a network's values on a part of the time line, ``[R, A]`` or ``[R, A, M]``, and its memory, ``[B, M]``.

    Args:
        net: The network.
        rows: All rows of the time line.
        noise: As of `QNetwork.values`.
        memory: ``[F, M]`` memory before each fragment; None without a memory.
        burned: The burn-in before the part.
        rest: The part.
        keep: Whether a backward pass through the part will follow, on kernels.
    """
    if rest.sequences is None or memory is None:
        return net.values(Inputs(rows), noise), None
    if burned is not None:
        after = net.remembered(Inputs(rows_of(rows, burned.rows), memory, burned.sequences, laid_out=True))
        memory = after.index_select(0, rest.which)
    inputs = Inputs(rows_of(rows, rest.rows), memory, rest.sequences, laid_out=True)
    return net.values(inputs, noise, keep), memory
