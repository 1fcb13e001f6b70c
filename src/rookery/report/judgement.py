"""What a policy was judged to earn from data alone: as a table, a row of numbers, and a picture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from rich.table import Table
from rich.text import Text

from rookery.report.curves import COLORS, dress, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONG = {
    "data": "the data themselves",
    "fqe": "fitted Q",
    "is": "importance sampling",
    "wis": "weighted importance sampling",
    "pdis": "per-decision importance sampling",
    "dr": "doubly robust",
}
"""What methods are called."""

FEW = 0.1
"""Part of the episodes below which the effective sample size is called small."""

ALONE = 3.0
"""Effective sample size below which single episodes decide what weights say."""

BY_WEIGHTS = ("is", "wis", "pdis", "dr")
"""Methods that single episodes may carry."""

MARKS = (5, 25, 50, 75, 95)
"""Percentiles that a row says of what is drawn."""


@dataclass(frozen=True)
class ReturnEstimate:
    """What one method says of a return.

    Attributes:
        method: Name of the method, one of `LONG`.
        value: The estimate; None where there is none.
        interval: Its 95 % interval.
        reason: Why there is none.
    """

    method: str
    value: float | None
    interval: tuple[float, float] | None
    reason: str = ""


@dataclass(frozen=True)
class Coverage:
    """How far data show what a policy would do.

    Attributes:
        measure: ``probability`` of what the policy chooses, in the behaviour; ``distance`` of its numbers from those of
            the data.
        level: Probability, or distance, beyond which data do not show an action.
        share: Part of the decisions in which the policy does such an action.
        policy: What was measured of the policy's actions.
        data: What was measured of the data's own.
    """

    measure: Literal["probability", "distance"]
    level: float
    share: float
    policy: tuple[float, ...]
    data: tuple[float, ...]

    def text(self) -> str:
        """Says it in words."""
        mine, own = (float(np.median(values)) for values in (self.policy, self.data))
        if self.measure == "probability":
            return (
                f"{self.share:.1%} of the policy's choices had a probability below {self.level:g} in the data; in the "
                f"middle {mine:.2f}, of what was done {own:.2f}"
            )
        return (
            f"{self.share:.1%} of the policy's actions lie farther from the data's than {self.level:.2g}, which 5 % of "
            f"the data's own do; in the middle {mine:.2g}, of what was done {own:.2g}"
        )

    def row(self) -> dict[str, Any]:
        """Gives its numbers, of what was measured percentiles."""
        marks = {
            name: dict(zip(map(str, MARKS), np.percentile(values, MARKS).tolist(), strict=True))
            for name, values in (("policy", self.policy), ("data", self.data))
        }
        return {"measure": self.measure, "level": self.level, "share": self.share, "percentiles": marks}


@dataclass(frozen=True)
class Judgement:
    """What a policy was judged to earn, and how well data could say so.

    Attributes:
        source: Checkpoint of the policy.
        policy: Name of the policy.
        data: Replay that it was judged by.
        deterministic: Whether its likeliest actions were judged; else drawn ones.
        gamma: Discount of a decision; 1 = none.
        episodes: Whole episodes of the data.
        left_out: Episodes that the data hold in part.
        decisions: Decisions of the whole episodes.
        probabilities: Where probabilities of the data's actions come from: ``recorded`` or ``cloned``; ``none`` where
            they cannot be used.
        estimates: What each method says, the data's own return first.
        effective_size: Episodes of equal weight that say as much; None without weights.
        mean_ratio: Mean of how much likelier single actions were under the policy, about 1 if the probabilities are
            right and data show all that the policy does; None without.
        log_likelihood: Mean log-probability of the data's actions under the policy, drawn; None if it has none.
        td_error: Root of the mean squared temporal-difference error; None where there is none.
        td_source: Whose that is: ``critics`` of the run, or ``fitted``.
        coverage: How far the data show what the policy would do; None where that cannot be said.
        resamples: Drawings of the bootstrap.
        max_weight: Weight that larger ones were cut off at; None = none was.
        seed: Names all that was drawn.
        notes: What else is to be known.
    """

    source: str
    policy: str
    data: str
    deterministic: bool
    gamma: float
    episodes: int
    left_out: int
    decisions: int
    probabilities: str
    estimates: tuple[ReturnEstimate, ...]
    effective_size: float | None
    mean_ratio: float | None
    log_likelihood: float | None
    td_error: float | None
    td_source: str
    coverage: Coverage | None
    resamples: int
    max_weight: float | None
    seed: int
    notes: tuple[str, ...] = field(default_factory=tuple)

    def __getitem__(self, method: str) -> ReturnEstimate:
        """Gives the estimate of a method."""
        return next(one for one in self.estimates if one.method == method)

    @property
    def carried(self) -> tuple[str, ...]:
        """The methods whose estimates single episodes carry."""
        few = self.effective_size is not None and self.effective_size < ALONE
        return tuple(one.method for one in self.estimates if few and one.value is not None and one.method in BY_WEIGHTS)

    @property
    def meaning(self) -> str:
        """Says in words what is estimated."""
        how = "undiscounted" if self.gamma == 1 else f"discounted by {self.gamma:g} a decision"
        return f"return of an episode, {how}, until it ends or is cut off as the data's are"

    def row(self) -> dict[str, Any]:
        """Gives all of it as a line of a file."""
        given = asdict(self) | {"coverage": None if self.coverage is None else self.coverage.row()}
        given["estimates"] = {one.pop("method"): one for one in given["estimates"]}
        return given


def number(value: float) -> str:
    """A number for a table."""
    return f"{value:.2f}" if abs(value) < 1e4 else f"{value:.3g}"


def estimates_table(judgement: Judgement) -> Table:
    """Gives a table of estimates, a line each."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("METHOD", no_wrap=True)
    table.add_column("return", justify="right", no_wrap=True)
    table.add_column("95 % interval")
    before = ""
    for one in judgement.estimates:
        label = Text(LONG[one.method], style="dim" if one.method == "data" else "bold")
        if one.value is None or one.interval is None:
            table.add_row(label, "-", "likewise" if one.reason and one.reason == before else one.reason)
            before = one.reason
        else:
            table.add_row(label, number(one.value), f"[{number(one.interval[0])}, {number(one.interval[1])}]")
    return table


def lines_of(judgement: Judgement) -> Iterator[tuple[str, str]]:
    """Gives what stands beside the table: label and text."""
    yield "estimated", judgement.meaning
    whole = f"{judgement.episodes:,} whole episodes, {judgement.decisions:,} decisions"
    yield (
        "data",
        f"{judgement.data}: {whole}" + (f"; {judgement.left_out:,} in part left out" * bool(judgement.left_out)),
    )
    how = {"recorded": "as they were recorded", "cloned": "estimated by cloning", "none": "of no use here"}
    yield "behaviour", f"probabilities of what was done: {how[judgement.probabilities]}"
    if judgement.effective_size is not None:
        share = judgement.effective_size / judgement.episodes
        small = ": estimates by weights rest on few of them" if share < FEW else ""
        if judgement.effective_size < ALONE:
            small = ": single episodes carry the estimates by weights, which say nothing, and their intervals neither"
        yield "weights", f"effective sample size {judgement.effective_size:.1f} of {judgement.episodes:,}{small}"
    if judgement.mean_ratio is not None:
        yield "ratio", f"{judgement.mean_ratio:.2f} in the mean of single decisions, 1 where probabilities are right"
    if judgement.td_error is not None:
        whose = "of the run's critics" if judgement.td_source == "critics" else "of fitted Q"
        yield "TD error", f"{judgement.td_error:.4g} {whose}, root of the mean square"
    if judgement.log_likelihood is not None:
        yield (
            "likelihood",
            f"{judgement.log_likelihood:.3f}, mean log-probability of the data's actions under the policy",
        )
    if judgement.coverage is not None:
        yield "coverage", judgement.coverage.text()
    for note in judgement.notes:
        yield "note", note


# --- the picture ------------------------------------------------------------------------------------------------------


def draw_judgement(judgement: Judgement, title: str, target: Path) -> None:
    """Draws estimates with their 95 % intervals, and beside them how far the data show what the policy does.

    Args:
        judgement: What was judged.
        title: What stands above.
        target: File to write; its suffix names the format.

    Raises:
        ConfigError: If matplotlib is not installed, or the file cannot be written.
    """
    panels = 1 + (judgement.coverage is not None)
    figure = new_figure(6.4 * panels, 4.2, "rookery evaluate --replay")
    axes = figure.subplots(1, panels, squeeze=False)[0]
    _draw_estimates(axes[0], judgement)
    axes[0].set_title(title, loc="left", fontsize=12, fontweight="bold")
    if judgement.coverage is not None:
        _draw_coverage(axes[1], judgement.coverage)
    save_figure(figure, target, "-o")


def _draw_estimates(axes: Axes, judgement: Judgement) -> None:
    """A point and its interval for each method, hollow where single episodes carry it, and a line where the data's own
    return lies.
    """
    known = [one for one in judgement.estimates if one.value is not None and one.interval is not None]
    hollow = judgement.carried
    for place, one in enumerate(reversed(known)):
        assert one.value is not None and one.interval is not None
        color = "#555555" if one.method == "data" else COLORS[0]
        axes.plot(one.interval, (place, place), color=color, linewidth=2.0)
        axes.plot([one.value], [place], "o", color=color, markerfacecolor="white" if one.method in hollow else color)
        if one.method == "data":
            label = "behaviour's mean return"
            axes.axvline(one.value, color="#999999", linewidth=1.0, linestyle="--", zorder=1, label=label)
    if hollow:
        label = "single episodes carry it: says nothing"
        axes.plot([], [], "o", color=COLORS[0], markerfacecolor="white", label=label)
    axes.legend(frameon=False, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    axes.set_yticks(range(len(known)), [LONG[one.method] for one in reversed(known)])
    axes.margins(y=0.12)
    dress(axes)
    discount = "undiscounted" if judgement.gamma == 1 else f"discounted by {judgement.gamma:g} a decision"
    axes.set_xlabel(f"return of an episode with 95 % interval\nsum of rewards, {discount}", color="#444444")


def _draw_coverage(axes: Axes, coverage: Coverage) -> None:
    """Two histograms, of the policy's actions and the data's own, and a line where the level lies."""
    most = 1.0 if coverage.measure == "probability" else float(np.quantile((*coverage.policy, *coverage.data), 0.995))
    bins = np.linspace(0.0, most or 1.0, 31)
    for values, label, color in ((coverage.data, "the data's own", "#999999"), (coverage.policy, "policy", COLORS[1])):
        weight = np.full(len(values), 1.0 / len(values))
        axes.hist(np.clip(values, 0.0, bins[-1]), bins.tolist(), weights=weight, color=color, alpha=0.6, label=label)
    axes.axvline(coverage.level, color="#333333", linewidth=1.0, linestyle="--")
    dress(axes)
    what = {
        "probability": "probability in the data's behaviour\nof what is done",
        "distance": "distance of what is done from the data's actions near by\n"
        "half ranges (standard deviations without bounds)",
    }
    axes.set_xlabel(what[coverage.measure], color="#444444")
    axes.set_ylabel("part of the decisions", color="#444444")
    beyond = "below" if coverage.measure == "probability" else "above"
    axes.set_title(f"{coverage.share:.1%} of decisions {beyond} {coverage.level:.2g}", loc="left", fontsize=11)
    axes.legend(frameon=False, fontsize=9)
