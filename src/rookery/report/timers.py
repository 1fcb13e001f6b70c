"""The timer tree of a run as a table that says where the code of each step stands."""

from __future__ import annotations

from collections.abc import Sequence

from rookery.core.timers import TimerRow


def timer_table(rows: Sequence[TimerRow], places: Sequence[str]) -> list[str]:
    """Returns the lines of the table: label, seconds, share of the parent, calls, place in the code.

    Args:
        rows: Nodes of the tree, at least one, in the order of `Timers.rows`.
        places: Place of each node's code, ``file:line``; empty where it is not known.
    """
    labels = ["  " * row.depth + row.label for row in rows]
    width = max(map(len, labels))
    lines = [f"{'':<{width}}  {'seconds':>10}  {'share':>7}  {'calls':>11}"]
    for label, row, place in zip(labels, rows, places, strict=True):
        numbers = f"{row.seconds:>10,.2f}  {100 * row.share:>5.1f} %  {row.count:>11,}"
        lines.append(f"{label:<{width}}  {numbers}  {place}".rstrip())
    return lines
