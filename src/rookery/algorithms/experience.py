"""What actor-critics learn from: decisions drawn from a replay buffer, each for itself or along time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from torch import Tensor

from rookery.algorithms.off_policy.q_sequences import n_step_returns
from rookery.core.batch import Rollout, Sequences, Transitions, flat, rows_of
from rookery.policies.policy import Policy


@dataclass(frozen=True)
class RecurrentInput:
    """Where rows stand in time, for networks that remember: these go through all observations, in their order.

    Attributes:
        sequences: How observations ``[R, ...]`` lie in time.
        memory: ``[B, M]`` what the policy remembered before each sequence.
        rows: ``[N]`` which of the observations the rows are.
    """

    sequences: Sequences
    memory: Tensor
    rows: Tensor


@dataclass(frozen=True)
class Experience(Transitions):
    """Decisions to learn from. For networks that remember, `obs` and `next_obs` are the same observations ``[R, ...]``,
    decided on or not, and `row` tells of F sequences.

    Attributes:
        recurrent: Where the decisions stand among `obs`; None where each row stands for itself.
        next_recurrent: Where what came after them stands among `next_obs`.
        fragment: ``[N]`` which of the F sequences a decision is of; None where it was drawn by itself.
    """

    recurrent: RecurrentInput | None = field(default_factory=lambda: None)
    next_recurrent: RecurrentInput | None = field(default_factory=lambda: None)
    fragment: Tensor | None = field(default_factory=lambda: None)

    @classmethod
    def of(cls, rows: Transitions) -> Self:
        """Gives decisions that stand each for itself."""
        return cls(rows.obs, rows.action, rows.reward, rows.next_obs, rows.discount, rows.weight, rows.row)


def sequence_experience(
    policy: Policy,
    rollout: Rollout,
    row: Tensor,
    weight: Tensor | None,
    *,
    burn_in: int,
    n_step: int,
    gamma: float,
) -> Experience:
    """Sequences of a slot's past as decisions to learn from.

    Args:
        policy: Who played them.
        rollout: F sequences, with what the policy remembered before each.
        row: ``[F]`` their numbers in the memory.
        weight: ``[F]`` their weights; None if all count alike.
        burn_in: Decisions at the start of each that are gone through, so that the memory is up to date, and not learned
            from. Of the longest sequence at least one is.
        n_step: Decisions in a window, at most; windows stay within a sequence.
        gamma: Discount.
    """
    seen, window = rollout.timeline_rows(*policy.sights(rollout)), n_step_returns(rollout, n=n_step, gamma=gamma)
    time, _ = rollout.valid.nonzero(as_tuple=True)
    learned = (time >= min(burn_in, int(rollout.length.max()) - 1)).nonzero().squeeze(1)
    after = window.after.index_select(0, learned)
    fragment = window.fragment.index_select(0, learned)
    obs = next_obs = seen
    recurrent = next_recurrent = None
    if policy.memory is None:
        obs, next_obs = rows_of(seen, learned), rows_of(seen, after)
    else:
        assert rollout.memory is not None
        timeline, memory = rollout.timeline(), policy.learned(rollout.memory[0])
        recurrent, next_recurrent = RecurrentInput(timeline, memory, learned), RecurrentInput(timeline, memory, after)
    return Experience(
        obs=obs,
        action=flat(rollout.action, rollout.valid_rows()).index_select(0, learned),
        reward=window.reward.index_select(0, learned),
        next_obs=next_obs,
        discount=window.discount.index_select(0, learned),
        weight=None if weight is None else weight.index_select(0, fragment),
        row=row,
        recurrent=recurrent,
        next_recurrent=next_recurrent,
        fragment=fragment,
    )
