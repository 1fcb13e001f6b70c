"""Experience of actor-critics: decisions drawn from a replay buffer, single ones or sequences."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from torch import Tensor

from rookery.algorithms.off_policy.q_sequences import n_step_returns
from rookery.core.batch import Rollout, Sequences, Transitions, flat, rows_of
from rookery.policies.policy import Policy


@dataclass(frozen=True)
class RecurrentInput:
    """Positions of rows in time, for networks with a memory, which process all observations in their order.

    Attributes:
        sequences: Positions of the observations ``[R, ...]`` in time.
        memory: ``[B, M]`` memory of the policy before each sequence.
        rows: ``[N]`` index of each row among the observations.
    """

    sequences: Sequences
    memory: Tensor
    rows: Tensor


@dataclass(frozen=True)
class Experience(Transitions):
    """Decisions to learn from. For networks with a memory, `obs` and `next_obs` are the same observations ``[R, ...]``,
    with or without a decision, and `row` numbers F sequences.

    Attributes:
        recurrent: Positions of the decisions among `obs`; None if rows are independent.
        next_recurrent: Positions of the following observations among `next_obs`.
        fragment: ``[N]`` sequence of each decision, of F; None if decisions were drawn singly.
    """

    recurrent: RecurrentInput | None = field(default_factory=lambda: None)
    next_recurrent: RecurrentInput | None = field(default_factory=lambda: None)
    fragment: Tensor | None = field(default_factory=lambda: None)

    @classmethod
    def of(cls, rows: Transitions) -> Self:
        """Returns decisions without positions in time."""
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
    """Turns sequences of a slot's experience into decisions to learn from.

    Args:
        policy: The policy that played them.
        rollout: F sequences, with the policy's memory before each.
        row: ``[F]`` their numbers in replay.
        weight: ``[F]`` their weights; None if all have the same.
        burn_in: Decisions at the start of each sequence that only bring the memory up to date, and are not learned
            from. Of the longest sequence at least one decision is learned from.
        n_step: Largest number of decisions in a window; windows stay within a sequence.
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
