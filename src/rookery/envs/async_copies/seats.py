"""Who of a copy's agents has which row: `Seats`, for one kind of agents in all lanes.

Agents come with ids of the copy's own, end and never come back. A seat is a column of the kind's rows; who comes takes
the lowest that is free, among those of its group. So an agent that is followed by another goes on in the same slot.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np


class Seats:
    """The seats of one kind.

    Args:
        num_lanes: Copies.
        columns: For each seat of a copy, whom it is kept for: agents of a behaviour and, by its number, of a group, or
            -1.
        names: Ids of agents that have a seat of their own each, in the order of `columns`.

    Attributes:
        columns: The same; may grow.
        names: The same.
    """

    def __init__(self, num_lanes: int, columns: Sequence[tuple[str, int]], names: Sequence[str] = ()) -> None:
        self.columns = list(columns)
        self.names = tuple(names)
        self._own: dict[Hashable, int] = {name: seat for seat, name in enumerate(names)}
        self._seat_of: list[dict[Hashable, int]] = [{} for _ in range(num_lanes)]
        self._taken: list[set[int]] = [set() for _ in range(num_lanes)]
        self._latest: list[tuple[Sequence[Hashable], np.ndarray]] = [((), NO_SEATS)] * num_lanes

    def find(self, lane: int, ids: Sequence[Hashable]) -> np.ndarray:
        """``[N]`` the seats of agents; -1 for those that have none."""
        known, found = self._latest[lane]
        if known == ids:
            return found
        seat_of = self._seat_of[lane]
        return np.array([seat_of.get(agent, -1) for agent in ids], dtype=np.int64)

    def take(
        self, lane: int, behavior: str, ids: Sequence[Hashable], groups: Sequence[int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Gives seats to those who have none; there are more seats after it, where none is free.

        Args:
            lane: The copy.
            behavior: Of the agents.
            ids: ``[N]`` the agents.
            groups: ``[N]`` the numbers of their groups, -1 for who has none; empty where nobody has one.

        Returns:
            ``[N]`` their seats; and ``[N]`` bool, who has just come.
        """
        seats = self.find(lane, ids)
        new = seats < 0
        if new.any():
            taken = self._taken[lane]
            for place in np.flatnonzero(new).tolist():
                wanted = behavior, groups[place] if len(groups) else -1
                free = (seat for seat, kept_for in enumerate(self.columns) if kept_for == wanted and seat not in taken)
                seat = self._own[ids[place]] if ids[place] in self._own else next(free, len(self.columns))
                if seat == len(self.columns):
                    self.columns.append(wanted)
                taken.add(seat)
                self._seat_of[lane][ids[place]] = seats[place] = seat
            self._latest[lane] = list(ids), seats
        return seats, new

    def leave(self, lane: int, ids: Sequence[Hashable]) -> None:
        """Frees the seats of agents."""
        for agent in ids:
            seat = self._seat_of[lane].pop(agent, None)
            if seat is not None:
                self._taken[lane].discard(seat)
        self._latest[lane] = (), NO_SEATS

    def held(self, lane: int) -> set[int]:
        """The seats of a lane that are taken."""
        return self._taken[lane]

    def clear(self, lane: int) -> np.ndarray:
        """Frees all seats of a lane; gives those that were taken, ascending."""
        seats = np.array(sorted(self._taken[lane]), dtype=np.int64)
        self._seat_of[lane], self._taken[lane] = {}, set()
        self._latest[lane] = (), NO_SEATS
        return seats


NO_SEATS = np.zeros(0, dtype=np.int64)
