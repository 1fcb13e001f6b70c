"""Ratings of players after matches: a table, a matrix of scores, and a figure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table
from rich.text import Text

from rookery.report.curves import COLORS, new_figure, save_figure, style_axes
from rookery.report.statistics import SURE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_TICKS = 12
"""Approximate number of ticks below the curve of ratings."""

MOST_WRITTEN = 16
"""Largest number of players for which a matrix shows its scores as text."""


@dataclass(frozen=True)
class Record:
    """Numbers of games won, drawn and lost.

    Attributes:
        won: Games won.
        drawn: Games drawn.
        lost: Games lost.
    """

    won: int = 0
    drawn: int = 0
    lost: int = 0

    @property
    def games(self) -> int:
        """Number of games."""
        return self.won + self.drawn + self.lost

    @property
    def score(self) -> float | None:
        """The mean score in [0, 1], where a draw counts half; None if there were no games."""
        return (self.won + 0.5 * self.drawn) / self.games if self.games else None

    def plus(self, score: float) -> Record:
        """Returns the record with another game: 1 won, 0.5 drawn, 0 lost."""
        return Record(self.won + (score == 1.0), self.drawn + (score == 0.5), self.lost + (score == 0.0))

    def __str__(self) -> str:
        return f"{self.won} won, {self.drawn} drawn, {self.lost} lost"


@dataclass(frozen=True)
class Standing:
    """Rating and games of a player.

    Attributes:
        name: Name of the player.
        rating: Its rating, in Elo points.
        error: Standard error of the rating; 0 for a player whose rating is fixed.
        fixed: Whether its rating is fixed.
        all: All its games.
        against: Its games against each opponent.
        by_side: Its games on each side that it played.
    """

    name: str
    rating: float
    error: float
    fixed: bool
    all: Record
    against: Mapping[str, Record] = field(default_factory=dict)
    by_side: Mapping[str, Record] = field(default_factory=dict)


def standings_table(standings: Sequence[Standing], anchors: Sequence[str]) -> Table:
    """Returns a table of players, the best first.

    Args:
        standings: The players.
        anchors: Players with a column of scores against them.
    """
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("PLAYER", no_wrap=True)
    for head in ("rating", "± 95 %", "games", "score", "draws", *(f"vs {name}" for name in anchors)):
        table.add_column(head, justify="right", no_wrap=True)
    for one in sorted(standings, key=lambda one: -one.rating):
        draws = f"{100 * one.all.drawn / one.all.games:.0f} %" if one.all.games else ""
        table.add_row(
            Text(one.name, style="dim" if one.fixed else "bold"),
            f"{one.rating:.0f}",
            "fixed" if one.fixed else f"{SURE * one.error:.0f}",
            f"{one.all.games:,}",
            share(one.all.score),
            draws,
            *(share(one.against[name].score) if name in one.against else "" for name in anchors),
        )
    return table


def matrix_table(standings: Sequence[Standing]) -> Table:
    """Returns the mean score of each player, a line each, against each other, in percent; a draw counts half."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("SCORE AGAINST", no_wrap=True)
    for number in range(1, len(standings) + 1):
        table.add_column(str(number), justify="right", no_wrap=True)
    for number, one in enumerate(standings, 1):
        cells = [
            "·" if other is one else share(one.against[other.name].score, "") if other.name in one.against else ""
            for other in standings
        ]
        table.add_row(f"{number} {one.name}", *cells)
    return table


def share(part: float | None, unit: str = " %") -> str:
    """Returns a fraction in percent; an empty string for None."""
    return "" if part is None else f"{100 * part:.0f}{unit}"


# --- the figure -------------------------------------------------------------------------------------------------------


def draw_standings(standings: Sequence[Standing], title: str, target: Path) -> None:
    """Draws ratings with their 95 % intervals, over snapshots, and the matrix of scores beside them.

    Args:
        standings: The players, in the order of the matrix; ``main@3`` is snapshot 3 of ``main``, which comes last.
        title: Title of the figure.
        target: File to write; its suffix names the format.

    Raises:
        ConfigError: If matplotlib is not installed, or the file cannot be written.
    """
    side = min(9.0, max(3.6, 1.6 + 0.42 * len(standings)))
    figure = new_figure(6.0 + side + 0.6, max(4.2, side), "rookery elo")
    left, right = figure.subplots(1, 2, width_ratios=[6.0, side + 0.6])
    _draw_ratings(left, standings)
    left.set_title(title, loc="left", fontsize=12, fontweight="bold")
    _draw_matrix(right, standings)
    save_figure(figure, target, "-o")


def _draw_ratings(axes: Axes, standings: Sequence[Standing]) -> None:
    """Draws ratings with error bars over snapshots, and a line for each other player."""
    families: dict[str, list[tuple[int, Standing]]] = {}
    for one in standings:
        found = re.fullmatch(r"(.*)@(\d+)", one.name)
        if found:
            families.setdefault(found[1], []).append((int(found[2]), one))
    last = max((number for points in families.values() for number, _ in points), default=0)
    for one in standings:
        if one.name in families:
            families[one.name].append((last + 1, one))
    for color, (name, points) in zip(COLORS, families.items(), strict=False):
        x = [number for number, _ in points]
        y = [one.rating for _, one in points]
        axes.errorbar(x, y, [SURE * one.error for _, one in points], color=color, marker="o", markersize=4,
                      linewidth=1.6, elinewidth=1.0, capsize=2.5, label=name)  # fmt: skip
    others = [one for one in standings if "@" not in one.name and one.name not in families]
    for color, one in zip(COLORS[::-1], others, strict=False):
        axes.axhline(one.rating, color=color, linewidth=1.2, linestyle="--")
        if one.error:
            low, high = one.rating - SURE * one.error, one.rating + SURE * one.error
            axes.axhspan(low, high, color=color, alpha=0.12, linewidth=0)
        fixed = " (fixed)" if one.fixed else ""
        axes.annotate(f"{one.name}{fixed}", (0.995, one.rating), xycoords=("axes fraction", "data"), xytext=(0, 3),
                      textcoords="offset points", ha="right", fontsize=8, color=color)  # fmt: skip
    style_axes(axes)
    if families:
        numbers = sorted({number for points in families.values() for number, _ in points if number <= last})
        shown = numbers[:: max(1, len(numbers) // MOST_TICKS)]
        axes.set_xticks([*shown, last + 1], [*map(str, shown), "now"])
        axes.set_xlabel("snapshot", color="#444444")
    else:
        axes.set_xticks([])
    axes.set_ylabel("rating, Elo points, 95 % intervals", color="#444444")
    if len(families) > 1:
        axes.legend(frameon=False, fontsize=9)


def _draw_matrix(axes: Axes, standings: Sequence[Standing]) -> None:
    """Draws mean scores as colours: of a row's player against a column's."""
    names = [one.name for one in standings]
    scores = np.full((len(names), len(names)), np.nan)
    for row, one in enumerate(standings):
        for column, name in enumerate(names):
            if name in one.against and (score := one.against[name].score) is not None:
                scores[row, column] = score
    image = axes.imshow(scores, cmap="PuOr_r", vmin=0.0, vmax=1.0)
    if len(names) <= MOST_WRITTEN:
        for (row, column), score in np.ndenumerate(scores):
            if not np.isnan(score):
                color = "white" if abs(score - 0.5) > 0.29 else "#222222"
                axes.text(column, row, f"{100 * score:.0f}", ha="center", va="center", fontsize=8, color=color)
    every = max(1, len(names) // 24)
    shown = range(0, len(names), every)
    axes.set_xticks(shown, [names[place] for place in shown], rotation=60, ha="right", rotation_mode="anchor")
    axes.set_yticks(shown, [names[place] for place in shown])
    axes.tick_params(length=0, labelsize=8, labelcolor="#444444")
    axes.spines[:].set_visible(False)
    axes.set_title("score of the row against the column, %", loc="left", fontsize=10, color="#444444")
    assert axes.figure is not None
    bar = axes.figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02, ticks=[0, 0.5, 1])
    bar.ax.set_yticklabels(["0", "50", "100"], fontsize=8, color="#444444")
    bar.outline.set_visible(False)
