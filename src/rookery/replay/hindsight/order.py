"""Rows of a replay buffer in the order of their episodes.

Rows of several slots interleave in the ring of a replay buffer. Here the rows of each ended episode have consecutive
places in a second ring, so that any later row of an episode is found in one step. The order is derived from the rows
of the buffer, after rows were added: it has no state of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rookery.core.state import Stateful
from rookery.replay.buffer import ReplayBuffer


@dataclass(frozen=True)
class Span:
    """Stored parts of episodes, seen from one row of each; places are those of `EpisodeOrder`.

    Attributes:
        first: ``[N]`` place of the first row of the episode that is still stored.
        at: ``[N]`` place of the row.
        earlier: ``[N]`` number of rows before it.
        later: ``[N]`` number of rows after it.
        last_row: ``[N]`` the last row of the episode.
    """

    first: np.ndarray
    at: np.ndarray
    earlier: np.ndarray
    later: np.ndarray
    last_row: np.ndarray


class EpisodeOrder(Stateful):
    """Places of the rows of ended episodes.

    Args:
        buffer: The replay buffer.
    """

    fixed = ("buffer", "ring", "_place", "_last", "_first", "_row", "_end", "_seen", "_oldest")

    def __init__(self, buffer: ReplayBuffer) -> None:
        capacity = buffer.capacity
        self.buffer = buffer
        self.ring = 2 * capacity  # rows of long episodes take their places later than rows that are newer
        """Number of places."""
        self._place = np.full(capacity, -1, np.int32)  # of a row; -1 while its episode is running
        self._last = np.empty(capacity, np.int32)  # of a row: place of the last row of its episode
        self._first = np.empty(capacity, np.int32)  # of the last row of an episode: place of the first stored one
        self._row = np.empty(self.ring, np.int32)  # of a place
        self.forget()

    def forget(self) -> None:
        """Removes all rows."""
        self._place.fill(-1)
        self._end = 0  # the next free place
        self._seen = self._oldest = self.buffer.first  # serial numbers of the next row to take, and of the oldest one

    def follow(self) -> None:
        """Takes the rows that were added to the buffer since the last call, and drops those that were overwritten."""
        buffer = self.buffer
        if buffer.total == self._seen:
            return
        self._drop(np.arange(self._oldest, min(buffer.first, self._seen)) % buffer.capacity)
        serial = np.arange(max(self._seen, buffer.first), buffer.total)
        self._seen, self._oldest = buffer.total, buffer.first
        rows = serial % buffer.capacity
        self._place[rows] = -1
        ends = serial[buffer.terminated[rows] | buffer.truncated[rows]]
        begins = buffer.begins[rows] & (buffer.before[rows] > 0)
        previous = (serial - buffer.before[rows])[begins]
        previous = previous[previous >= buffer.first]
        at = previous % buffer.capacity
        interrupted = previous[~(buffer.terminated[at] | buffer.truncated[at])]
        self._place_episodes(np.concatenate((ends, interrupted)))

    def _drop(self, rows: np.ndarray) -> None:
        """Drops rows, in the order of time: the stored parts of their episodes begin later."""
        rows = rows[self._place[rows] >= 0]
        self._first[self._row[self._last[rows]]] = (self._place[rows] + 1) % self.ring  # of equal ones the last counts

    def _place_episodes(self, ends: np.ndarray) -> None:
        """Gives places to the rows of episodes.

        Args:
            ends: ``[E]`` serial numbers of their last rows.
        """
        buffer = self.buffer
        serial, episode, steps = ends, np.arange(len(ends)), 0
        walked = []
        while len(serial):
            rows = serial % buffer.capacity
            walked.append((rows, episode, np.full(len(rows), steps)))
            previous = serial - buffer.before[rows]
            there = (previous < serial) & (previous >= buffer.first)
            there &= buffer.after[previous % buffer.capacity] == rows
            serial, episode, steps = previous[there], episode[there], steps + 1
        if not walked:
            return
        rows, episode, back = (np.concatenate(column) for column in zip(*walked, strict=True))
        length = np.bincount(episode)
        after = self._end + np.cumsum(length)
        self._first[ends % buffer.capacity] = (after - length) % self.ring
        last = (after - 1)[episode]
        self._last[rows] = last % self.ring
        place = (last - back) % self.ring
        self._place[rows] = place
        self._row[place] = rows
        self._end = int(after[-1]) % self.ring

    def is_placed(self, rows: np.ndarray) -> np.ndarray:
        """Returns whether the episodes of rows ``[N]`` have ended, ``[N]``."""
        placed: np.ndarray = self._place[rows] >= 0
        return placed

    def span(self, rows: np.ndarray) -> Span:
        """Returns the stored parts of the episodes of rows ``[N]``, which must have ended."""
        at, last = self._place[rows], self._last[rows]
        last_row = self._row[last]
        first = self._first[last_row]
        return Span(first, at, (at - first) % self.ring, (last - at) % self.ring, last_row)

    def rows_at(self, place: np.ndarray, distance: np.ndarray) -> np.ndarray:
        """Returns the rows ``[N]`` at a distance, in rows, after these places ``[N]``."""
        rows: np.ndarray = self._row[(place + distance) % self.ring]
        return rows
