"""The form of objects in an interpreter and in a notebook: a `repr` of one line, and tables in HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

MOST_ROWS = 100
"""Largest number of rows of a table; others are counted below it."""


class ShownAsFacts:
    """Base of classes that have a `repr` of one line and a table of two columns in notebooks, from their facts."""

    def _facts(self) -> Mapping[str, object]:
        """Returns facts about the object, by label; None where one is not known."""
        raise NotImplementedError

    def _details(self) -> Mapping[str, object]:
        """Returns further facts for the table."""
        return {}

    def __repr__(self) -> str:
        facts = ", ".join(f"{name} {cell_text(value)}" for name, value in self._facts().items() if value is not None)
        return f"<{type(self).__name__}: {facts}>"

    def _repr_html_(self) -> str:
        facts = {**self._facts(), **self._details()}
        return html_table(type(self).__name__, [(name, value) for name, value in facts.items() if value is not None])


class ShownAsRows:
    """Base of classes that notebooks show as a table of their rows: trials of an experiment."""

    def rows(self) -> list[dict[str, Any]]:
        """Returns the rows, with equal or different columns."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        rows = self.rows()
        names = list(dict.fromkeys(name for row in rows for name in row))
        head_names = [name for name in names if name in COLUMNS or name.startswith("config/")]
        cells = [[row.get(name) for name in head_names] for row in rows]
        return html_table(repr(self), cells, [name.removeprefix("config/") for name in head_names])


COLUMNS = ("trial", "status", "score", "iteration", "env_steps", "error")
"""Columns of a trial in a notebook, beside its parameters; `Analysis.dataframe` has all."""


def html_table(title: str, rows: Sequence[Sequence[object]], head_names: Sequence[str] = ()) -> str:
    """Returns a table in HTML; title, head_names and cells are escaped.

    Args:
        title: Caption of the table.
        rows: Cells of each row; numbers are rounded, and aligned right.
        head_names: Heads of the columns; none if empty.
    """
    caption = f'<caption style="text-align:left;font-weight:bold">{escape(title)}</caption>'
    head = "".join(f"<th>{escape(name)}</th>" for name in head_names)
    lines = ["".join(_cell(value) for value in row) for row in rows[:MOST_ROWS]]
    if len(rows) > MOST_ROWS:
        lines.append(f'<td colspan="{max(len(head_names), 1)}">and {len(rows) - MOST_ROWS:,} more</td>')
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table>{caption}{f'<thead><tr>{head}</tr></thead>' if head_names else ''}<tbody>{body}</tbody></table>"


def cell_text(value: object) -> str:
    """Returns a value as text: rounded numbers, a dash for None."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}" if 1 <= abs(value) < 1e6 else f"{value:.4g}"
    return str(value)


def _cell(value: object) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f'<td style="text-align:{"right" if is_number else "left"}">{escape(cell_text(value))}</td>'
