"""Lists of different lengths as one padded tensor: the input of a model for a `Repeated` space."""

from __future__ import annotations

from typing import Any


class RepeatedValues:
    """A batch of lists: `values` ``[B, max_len, ...]`` are padded; the first `lengths` ``[B]`` of each list count."""

    def __init__(self, values: Any, lengths: Any, max_len: int) -> None:
        self.values = values
        self.lengths = lengths
        self.max_len = max_len
        self._lists: list[Any] | None = None

    def unbatch_all(self) -> list[list[Any]]:
        if self._lists is None:
            self._lists = [
                [_at(self.values, row, place) for place in range(int(length))]
                for row, length in enumerate(self.lengths)
            ]
        return self._lists

    def unbatch_repeat_dim(self) -> list[Any]:
        return [_place(self.values, place) for place in range(self.max_len)]

    def __repr__(self) -> str:
        return f"RepeatedValues(value={self.values!r}, lengths={self.lengths!r}, max_len={self.max_len})"


def _place(values: Any, place: int) -> Any:
    """Returns the elements at one index of all lists."""
    if isinstance(values, dict):
        return {key: _place(part, place) for key, part in values.items()}
    if isinstance(values, tuple | list):
        return tuple(_place(part, place) for part in values)
    if isinstance(values, RepeatedValues):
        return RepeatedValues(_place(values.values, place), values.lengths[:, place], values.max_len)
    return values[:, place]


def _at(values: Any, row: int, place: int) -> Any:
    """Returns the element at one index of the list of one row."""
    if isinstance(values, dict):
        return {key: _at(part, row, place) for key, part in values.items()}
    if isinstance(values, tuple | list):
        return tuple(_at(part, row, place) for part in values)
    if isinstance(values, RepeatedValues):
        length = int(values.lengths[row, place])
        return [_at(_row(values.values, row), place, inner) for inner in range(length)]
    return values[row, place]


def _row(values: Any, row: int) -> Any:
    """Returns one row of the batch as a list."""
    if isinstance(values, dict):
        return {key: _row(part, row) for key, part in values.items()}
    if isinstance(values, tuple | list):
        return tuple(_row(part, row) for part in values)
    if isinstance(values, RepeatedValues):
        return RepeatedValues(_row(values.values, row), values.lengths[row], values.max_len)
    return values[row]
