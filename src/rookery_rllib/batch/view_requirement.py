"""Columns of a trajectory that a model or policy needs, with time shifts."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box


class ViewRequirement:
    def __init__(
        self,
        data_col: str | None = None,
        space: Space[Any] | None = None,
        shift: Any = 0,
        index: int | None = None,
        batch_repeat_value: int = 1,
        used_for_compute_actions: bool = True,
        used_for_training: bool = True,
    ) -> None:
        self.data_col = data_col
        self.space = Box(-np.inf, np.inf, shape=()) if space is None else space
        self.shift = np.array(shift) if isinstance(shift, list | tuple) else shift
        self.shift_from: int | None = None
        self.shift_to: int | None = None
        if isinstance(shift, str):
            first, colon, last = shift.partition(":")
            if not colon:
                raise ValueError(f"shift is {shift!r}, expected a range such as '-3:0'")
            self.shift_from, self.shift_to = int(first), int(last)
        self.index = index
        self.batch_repeat_value = batch_repeat_value
        self.used_for_compute_actions = used_for_compute_actions
        self.used_for_training = used_for_training

    def shifts(self) -> tuple[list[int], bool]:
        """Returns the time steps relative to the present one, and whether they form a separate axis."""
        if self.shift_from is not None and self.shift_to is not None:
            return list(range(self.shift_from, self.shift_to + 1)), True
        if isinstance(self.shift, np.ndarray):
            return [int(step) for step in self.shift], True
        return [int(self.shift)], False

    def __repr__(self) -> str:
        return f"ViewRequirement(data_col={self.data_col!r}, shift={self.shift!r}, space={self.space})"
