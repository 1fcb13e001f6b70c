"""Tables of rows: the policy and slot of each row of a kind of agents, and how rows split by policy in a step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rookery.core.state import Stateful
from rookery.envs.base import Rows
from rookery.rollout.slots import WorkerPolicy
from rookery.rollout.storage import DecisionSlab


@dataclass
class Route:
    """Rows of one kind's slab for which one policy acts in a step.

    Attributes:
        policy: The policy.
        rows: Numbers of its rows, ascending; a slice where they are evenly spaced.
        slots: Its slots in the order of `rows`; None if these are all its slots in order.
    """

    policy: WorkerPolicy
    rows: slice | np.ndarray
    slots: np.ndarray | None


class RowTable(Stateful):
    """Policy, slot and returns of each of the R rows of one kind.

    An agent keeps its slot when its episode ends, so that an agent that acts late in the next episode, or died and
    returns, continues its fragment. The slot is freed when another policy is to play the agent.

    Args:
        size: Rows (R).

    Attributes:
        policy_of: ``[R]`` number of the policy of the row, or -1.
        slot_of: ``[R]`` slot of the row at that policy, or -1.
        joined: ``[R]`` whether the agent has had to act in this episode, so that its policy is known.
        returns: ``[R]`` rewards summed over the episode so far, without group rewards.
        decisions: ``[R]`` actions in this episode; counted where agents have episodes of their own.
        in_play: ``[R]`` whether the agent has acted in this episode and not ended; kept where there are group rewards.
        routes: How the rows split by policy when all of them wait; None if this must be computed again.
        acted: The routes of the last step.
        all_acted: Whether all rows acted in the last step.
    """

    saved = ("policy_of", "slot_of", "joined", "returns", "decisions", "in_play")
    fixed = ("routes", "acted", "all_acted")

    def __init__(self, size: int) -> None:
        self.policy_of = np.full(size, -1)
        self.slot_of = np.full(size, -1)
        self.joined = np.zeros(size, dtype=bool)
        self.returns = np.zeros(size)
        self.decisions = np.zeros(size, dtype=np.int64)
        self.in_play = np.zeros(size, dtype=bool)
        self.routes: list[Route] | None = None
        self.acted: list[Route] = []
        self.all_acted = False

    def begin_anew(self, rows: slice, keep_players: bool = False) -> None:
        """Resets returns and counts of rows and, unless `keep_players`, their policies."""
        self.returns[rows] = 0.0
        self.decisions[rows] = 0
        self.in_play[rows] = False
        if not keep_players:
            self.joined[rows] = False
            self.routes = None

    def earned(self, rows: Rows) -> np.ndarray:
        """Returns ``[R]`` rewards to learn from: the agent's own reward, and its group's while it is in play."""
        if rows.group_reward is None:
            return rows.reward
        for route in self.acted:
            self.in_play[route.rows] = True
        earned = rows.reward + np.where(self.in_play, rows.group_reward, 0.0)
        self.in_play &= ~(rows.terminated | rows.truncated)
        return np.asarray(earned)

    def widened(self, lanes: int, old_width: int, width: int) -> RowTable:
        """Returns the table with more agents in each lane; rows keep their data.

        Args:
            lanes: Number of vectorized environments.
            old_width: Agents of the kind so far.
            width: Agents of the kind from now on.
        """

        def moved(rows: np.ndarray) -> np.ndarray:
            lane, column = np.divmod(rows, old_width)
            return np.asarray(lane * width + column)

        wider, every_row = RowTable(lanes * width), np.arange(lanes * old_width)
        for name in RowTable.saved:
            getattr(wider, name)[moved(every_row)] = getattr(self, name)
        wider.acted = [Route(route.policy, moved(every_row[route.rows]), route.slots) for route in self.acted]
        return wider

    def route(self, rows: np.ndarray, policies: Sequence[WorkerPolicy]) -> list[Route]:
        """Groups rows ``[N]`` by their policies, in the order of `policies`."""
        players = self.policy_of[rows]
        routes = []
        for policy in policies:
            mine = rows[players == policy.number]
            if len(mine):
                slots = self.slot_of[mine]
                everyone = np.array_equal(slots, np.arange(len(policy.taken)))
                routes.append(Route(policy, as_slice(mine), None if everyone else slots))
        return routes

    def decisions_of(self, first: int, last: int) -> Iterator[tuple[int, DecisionSlab, int]]:
        """Yields the decisions of the last step in rows `first` to `last` - 1: row, slab of decisions, index there."""
        for route in self.acted:
            rows, decided = route.rows, route.policy.decided
            assert decided is not None
            if isinstance(rows, slice):
                start = max(rows.start, first + (rows.start - first) % rows.step)
                for row in range(start, min(rows.stop, last), rows.step):
                    yield row, decided, (row - rows.start) // rows.step
            else:
                for position in np.flatnonzero((rows >= first) & (rows < last)).tolist():
                    yield int(rows[position]), decided, position


def as_slice(rows: np.ndarray) -> slice | np.ndarray:
    """Returns a slice for evenly spaced rows, which selects views instead of copies; other rows are unchanged."""
    if len(rows) == 1:
        return slice(int(rows[0]), int(rows[0]) + 1, 1)
    stride = int(rows[1] - rows[0])
    if (np.diff(rows) == stride).all():
        return slice(int(rows[0]), int(rows[-1]) + 1, stride)
    return rows
