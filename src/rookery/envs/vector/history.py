"""`ActionHistory`: the actions of running episodes, so that an episode can be replayed from its seed."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np

LOG_LIMIT = 10_000
"""Longest unfinished episode, in steps, whose actions are kept so that it can be replayed after a restart."""

TIDY_EVERY = 256
"""Steps after which actions that no running episode needs are dropped."""


class ActionHistory:
    """The actions of the last vector steps, at most `LOG_LIMIT` of them.

    An episode's log is a list with an entry per step: for a Gymnasium lane its action, or None if its agent rested; for
    others a list of (kind, column, action) of all acting agents.
    """

    def __init__(self, single: bool, num_lanes: int) -> None:
        """Creates an empty history; `single`: each lane has one agent, which always acts."""
        self._single = single
        self._num_lanes = num_lanes
        self._clock = 0  # vector steps so far
        self._steps: deque[tuple[list[np.ndarray], Sequence[np.ndarray], tuple[int, ...]]] = deque()
        self._before: dict[
            int, tuple[int, int, list[Any]]
        ] = {}  # lane: step of resuming, step of begin, log until then

    def add(self, given: Sequence[np.ndarray], waiting: Sequence[np.ndarray], sizes: tuple[int, ...]) -> None:
        """Stores a copy of the actions `given` to the waiting rows of each kind, with its number of rows."""
        kept = [deepcopy(actions) if actions.dtype == object else actions.copy() for actions in given]
        self._steps.append((kept, waiting, sizes))
        self._clock += 1
        if len(self._steps) > LOG_LIMIT:
            self._steps.popleft()

    def add_steps(self, actions: np.ndarray, waiting: Sequence[np.ndarray], sizes: tuple[int, ...]) -> None:
        """Stores the actions ``[T, lanes, ...]`` of many steps in which all rows of the one kind have acted."""
        self._steps.extend(([each], waiting, sizes) for each in actions)
        self._clock += len(actions)
        while len(self._steps) > LOG_LIMIT:
            self._steps.popleft()

    def tidy(self, began: Sequence[int] | np.ndarray, steps: int) -> None:
        """Drops the steps before `began`, the starts of the lanes' episodes, from time to time; called every
        `steps`.
        """
        if self._clock % TIDY_EVERY < steps:
            needed = self._clock - min(began)
            while len(self._steps) > needed:
                self._steps.popleft()

    def log(self, lane: int, began: int, but_last: bool = False) -> list[Any] | None:
        """Returns the actions of a lane's episode, as copies; None if not all of them are known.

        Args:
            lane: Number of the lane.
            began: Step in which the episode began.
            but_last: Whether to leave out those of the last step.
        """
        start, taken_up = began, self._before.get(lane)
        log: list[Any] = []
        if taken_up is not None and taken_up[1] == began:
            start, log = taken_up[0], deepcopy(taken_up[2])
        length = self._clock - start
        if length > len(self._steps) or len(log) + length > LOG_LIMIT:
            return None
        for at in range(len(self._steps) - length, len(self._steps) - but_last):
            log.append(self._entry(lane, *self._steps[at]))
        return log

    def _entry(self, lane: int, given: list[np.ndarray], waiting: Sequence[np.ndarray], sizes: tuple[int, ...]) -> Any:
        if self._single:
            rows = waiting[0]
            at = lane if len(rows) == self._num_lanes else int(np.searchsorted(rows, lane))
            return deepcopy(given[0][at]) if at < len(rows) and rows[at] == lane else None
        entry = []
        for k, (actions, rows, size) in enumerate(zip(given, waiting, sizes, strict=True)):
            width = size // self._num_lanes
            first, last = np.searchsorted(rows, (lane * width, (lane + 1) * width)).tolist()
            columns = (rows[first:last] - lane * width).tolist()
            entry += [
                (k, column, deepcopy(action)) for column, action in zip(columns, actions[first:last], strict=True)
            ]
        return entry

    def restore_episodes(self, clock: int, began: Sequence[int], logs: Sequence[list[Any] | None]) -> None:
        """Starts again from saved episodes.

        Args:
            clock: Vector steps so far.
            began: ``[lanes]`` the step in which each episode began.
            logs: ``[lanes]`` their actions until now; None if they are not known.
        """
        self._clock = clock
        self._steps.clear()
        self._before = {
            lane: (clock, start, log)
            for lane, (start, log) in enumerate(zip(began, logs, strict=True))
            if log is not None
        }
