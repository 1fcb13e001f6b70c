"""Result of an off-policy evaluation, as a table, a row of a file and a figure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from rich.table import Table
from rich.text import Text

from rookery.report.curves import COLORS, new_figure, save_figure, style_axes

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
"""Long names of the methods."""

FEW = 0.1
"""Share of the episodes below which the effective sample size is called small."""

ALONE = 3.0
"""Effective sample size below which single episodes dominate weighted estimates."""

BY_WEIGHTS = ("is", "wis", "pdis", "dr")
"""Methods based on importance weights, which single episodes may dominate."""

MARKS = (5, 25, 50, 75, 95)
"""Percentiles in a row."""


@dataclass(frozen=True)
class ReturnEstimate:
    """Estimate of a return by one method.

    Attributes:
        method: Name of the method, one of `LONG`.
        value: The estimate; None if there is none.
        interval: Its 95 % interval.
        reason: Reason why there is none.
    """

    method: str
    value: float | None
    interval: tuple[float, float] | None
    reason: str = ""


@dataclass(frozen=True)
class Coverage:
    """Degree to which data contain the actions that a policy takes.

    Attributes:
        measure: ``probability`` of the policy's discrete actions under the behaviour; ``distance`` of its continuous
            actions from the data's.
        level: Probability, or distance, beyond which data do not cover an action.
        share: Share of the decisions in which the policy takes such an action.
        policy: Measures of the policy's actions.
        data: Measures of the recorded actions.
    """

    measure: Literal["probability", "distance"]
    level: float
    share: float
    policy: tuple[float, ...]
    data: tuple[float, ...]

    def text(self) -> str:
        """Returns the coverage as a sentence."""
        mine, own = (float(np.median(values)) for values in (self.policy, self.data))
        if self.measure == "probability":
            return (
                f"{self.share:.1%} of the policy's actions have a probability below {self.level:g} in the data; "
                f"median {mine:.2f}, of recorded actions {own:.2f}"
            )
        return (
            f"{self.share:.1%} of the policy's actions lie farther from the data's than {self.level:.2g}, which 5 % of "
            f"the data's own do; median {mine:.2g}, of recorded actions {own:.2g}"
        )

    def row(self) -> dict[str, Any]:
        """Returns the coverage as a row, with percentiles of the measures."""
        marks = {
            name: dict(zip(map(str, MARKS), np.percentile(values, MARKS).tolist(), strict=True))
            for name, values in (("policy", self.policy), ("data", self.data))
        }
        return {"measure": self.measure, "level": self.level, "share": self.share, "percentiles": marks}


@dataclass(frozen=True)
class OfflineEvaluation:
    """Result of an off-policy evaluation: estimates of the return, and how reliable they are.

    Attributes:
        source: Checkpoint of the policy.
        policy: Name of the policy.
        data: Replay that the estimates are from.
        deterministic: Whether the most likely actions were evaluated; else sampled ones.
        gamma: Discount of a decision; 1 = none.
        episodes: Whole episodes of the data.
        left_out: Number of episodes that the data hold only in part.
        decisions: Number of decisions of the whole episodes.
        probabilities: Source of the behaviour's probabilities: ``recorded`` or ``cloned``; ``none`` if they cannot be
            used.
        estimates: Estimate of each method, the data's own return first.
        effective_size: Effective sample size in episodes; None without weights.
        mean_ratio: Mean probability ratio of single actions, about 1 if the probabilities are right and the data cover
            the policy's actions; None without weights.
        log_likelihood: Mean log-probability of the data's actions under the stochastic policy; None if it has none.
        td_error: Root mean squared temporal-difference error; None if not available.
        td_source: ``critics`` of the run, or ``fitted``.
        coverage: Coverage of the policy's actions by the data; None if it cannot be measured.
        resamples: Number of bootstrap samples.
        max_weight: Weight at which larger ones were clipped; None = no limit.
        seed: Random seed.
        notes: Further remarks.
        data_return: Mean undiscounted return of the whole episodes; None in results of earlier versions.
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
    data_return: float | None = None

    def __getitem__(self, method: str) -> ReturnEstimate:
        """Returns the estimate of a method."""
        return next(one for one in self.estimates if one.method == method)

    @property
    def dominated(self) -> tuple[str, ...]:
        """The methods whose estimates single episodes dominate."""
        few = self.effective_size is not None and self.effective_size < ALONE
        return tuple(one.method for one in self.estimates if few and one.value is not None and one.method in BY_WEIGHTS)

    @property
    def return_name(self) -> str:
        """Name of the estimated quantity: ``return``, or ``discounted return (gamma 0.99)``."""
        return "return" if self.gamma == 1 else f"discounted return (gamma {self.gamma:g})"

    @property
    def meaning(self) -> str:
        """Description of the estimated quantity."""
        return f"{self.return_name} of an episode, until it ends or is cut off as the data's are"

    def row(self) -> dict[str, Any]:
        """Returns the evaluation as a row of a file."""
        given = asdict(self) | {"coverage": None if self.coverage is None else self.coverage.row()}
        given["estimates"] = {one.pop("method"): one for one in given["estimates"]}
        return given


def number(value: float) -> str:
    """Returns a value as text of a table."""
    return f"{value:.2f}" if abs(value) < 1e4 else f"{value:.3g}"


def estimates_table(evaluation: OfflineEvaluation) -> Table:
    """Returns a table of estimates, one line each; those that cannot be made have a ``-``."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("METHOD", no_wrap=True)
    table.add_column(evaluation.return_name, justify="right", no_wrap=True)
    table.add_column("95 % interval")
    for one in evaluation.estimates:
        label = Text(LONG[one.method], style="dim" if one.method == "data" else "bold")
        if one.value is None or one.interval is None:
            table.add_row(label, "-", "")
        else:
            table.add_row(label, number(one.value), f"[{number(one.interval[0])}, {number(one.interval[1])}]")
    return table


def lines_of(evaluation: OfflineEvaluation) -> Iterator[tuple[str, str]]:
    """Yields the line above the table and those below it: label and text."""
    yield "estimated", evaluation.meaning
    for one in evaluation.estimates:
        if one.value is None:
            yield "-", f"{LONG[one.method]} (--method {one.method}): {one.reason}"
    if evaluation.data_return is not None and evaluation.gamma != 1:
        yield "return", f"{number(evaluation.data_return)} of an episode of the data, undiscounted (--set gamma=1)"
    whole = f"{evaluation.episodes:,} whole episodes, {evaluation.decisions:,} decisions"
    yield (
        "data",
        f"{evaluation.data}: {whole}" + (f"; {evaluation.left_out:,} in part left out" * bool(evaluation.left_out)),
    )
    how = {"recorded": "as recorded", "cloned": "estimated by cloning", "none": "not usable here"}
    yield "behaviour", f"probabilities of recorded actions: {how[evaluation.probabilities]}"
    if evaluation.effective_size is not None:
        share = evaluation.effective_size / evaluation.episodes
        small = ": estimates by weights rest on few episodes" if share < FEW else ""
        if evaluation.effective_size < ALONE:
            small = (
                ": single episodes dominate the estimates by weights; neither these nor their intervals are reliable"
            )
        yield "weights", f"effective sample size {evaluation.effective_size:.1f} of {evaluation.episodes:,}{small}"
    if evaluation.mean_ratio is not None:
        yield "ratio", f"{evaluation.mean_ratio:.2f} mean over single decisions, 1 if probabilities are right"
    if evaluation.td_error is not None:
        whose = "of the run's critics" if evaluation.td_source == "critics" else "of fitted Q"
        yield "TD error", f"{evaluation.td_error:.4g} {whose}, root mean square"
    if evaluation.log_likelihood is not None:
        yield (
            "likelihood",
            f"{evaluation.log_likelihood:.3f}, mean log-probability of the data's actions under the policy",
        )
    if evaluation.coverage is not None:
        yield "coverage", evaluation.coverage.text()
    for note in evaluation.notes:
        yield "note", note


# --- the figure -------------------------------------------------------------------------------------------------------


def draw_evaluation(evaluation: OfflineEvaluation, title: str, target: Path) -> None:
    """Draws estimates with their 95 % intervals, and beside them the coverage.

    Args:
        evaluation: The evaluation.
        title: Title of the figure.
        target: File to write; its suffix names the format.

    Raises:
        ConfigError: If matplotlib is not installed, or the file cannot be written.
    """
    panels = 1 + (evaluation.coverage is not None)
    figure = new_figure(6.4 * panels, 4.2, "rookery evaluate --replay")
    axes = figure.subplots(1, panels, squeeze=False)[0]
    _draw_estimates(axes[0], evaluation)
    axes[0].set_title(title, loc="left", fontsize=12, fontweight="bold")
    if evaluation.coverage is not None:
        _draw_coverage(axes[1], evaluation.coverage)
    save_figure(figure, target, "-o")


def _draw_estimates(axes: Axes, evaluation: OfflineEvaluation) -> None:
    """Draws a point and its interval for each method, hollow if single episodes dominate it, and a line at the data's
    own return.
    """
    known = [one for one in evaluation.estimates if one.value is not None and one.interval is not None]
    hollow = evaluation.dominated
    for place, one in enumerate(reversed(known)):
        assert one.value is not None and one.interval is not None
        color = "#555555" if one.method == "data" else COLORS[0]
        axes.plot(one.interval, (place, place), color=color, linewidth=2.0)
        axes.plot([one.value], [place], "o", color=color, markerfacecolor="white" if one.method in hollow else color)
        if one.method == "data":
            label = "behaviour's mean return"
            axes.axvline(one.value, color="#999999", linewidth=1.0, linestyle="--", zorder=1, label=label)
    if hollow:
        label = "dominated by single episodes: not reliable"
        axes.plot([], [], "o", color=COLORS[0], markerfacecolor="white", label=label)
    axes.legend(frameon=False, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    axes.set_yticks(range(len(known)), [LONG[one.method] for one in reversed(known)])
    axes.margins(y=0.12)
    style_axes(axes)
    axes.set_xlabel(f"{evaluation.return_name} of an episode\nwith 95 % interval", color="#444444")


def _draw_coverage(axes: Axes, coverage: Coverage) -> None:
    """Draws two histograms, of the policy's actions and the data's own, and a line at the level."""
    most = 1.0 if coverage.measure == "probability" else float(np.quantile((*coverage.policy, *coverage.data), 0.995))
    bins = np.linspace(0.0, most or 1.0, 31)
    for values, label, color in ((coverage.data, "the data's own", "#999999"), (coverage.policy, "policy", COLORS[1])):
        weight = np.full(len(values), 1.0 / len(values))
        axes.hist(np.clip(values, 0.0, bins[-1]), bins.tolist(), weights=weight, color=color, alpha=0.6, label=label)
    axes.axvline(coverage.level, color="#333333", linewidth=1.0, linestyle="--")
    style_axes(axes)
    what = {
        "probability": "probability in the data's behaviour\nof the action",
        "distance": "distance of the action from the data's nearby actions\n"
        "half ranges (standard deviations without bounds)",
    }
    axes.set_xlabel(what[coverage.measure], color="#444444")
    axes.set_ylabel("share of the decisions", color="#444444")
    beyond = "below" if coverage.measure == "probability" else "above"
    axes.set_title(f"{coverage.share:.1%} of decisions {beyond} {coverage.level:.2g}", loc="left", fontsize=11)
    axes.legend(frameon=False, fontsize=9)
