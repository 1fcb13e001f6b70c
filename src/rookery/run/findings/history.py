"""`History`: the rows of a run as rules read them, and the course of its return."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from statistics import median
from typing import Any

from rookery.run.findings.plain_settings import PlainSettings
from rookery.run.findings.window import Entry, Window

IMPROVED = 0.1
"""Share of the usual range of returns by which their mean must rise to count as improved."""

STILL, EXPLAINED = 0.15, 0.1
"""Share of the usual range of returns within which a return stands still, and explained variance that is hardly any."""

NEGLIGIBLE, LUCKY = 0.1, 0.5
"""Shares of the mean return without learning, and of the range of such returns, below which a gain is negligible. Both
have to hold. A gain below half of the range ends at what a lucky episode has without learning; but a range can be wide
where luck decides, as in games. A tenth of the mean is little; but a mean can be large by a reward that every step has.
"""

FEW, ENDED = 30, 0.5
"""Episodes whose mean return is the beginning of a run, and share of the steps so far that belong to ended episodes:
before, mostly short episodes have ended, whose returns may be far from the usual ones.
"""

ANNEALED = 0.1
"""Share of its largest value below which a learning rate or clip range counts as annealed."""

ENOUGH = 10
"""Fewest values of a column that are judged."""

CURVE = 24
"""Largest number of values in a curve of a finding."""


class History:
    """The rows of a run, and its settings.

    Args:
        window: The rows.
        settings: Values of the settings by path, schedules as mappings.
    """

    def __init__(self, window: Window, settings: Mapping[str, Any]) -> None:
        self.settings = settings if isinstance(settings, PlainSettings) else PlainSettings(settings)
        self.recent: Sequence[Entry] = list(window.recent)
        last = self.recent[-1:]
        self.past: Sequence[Entry] = window.past if window.past[-1:] == last else [*window.past, *last]
        self.evaluations: Sequence[Entry] = list(window.evaluations)
        self._columns: dict[tuple[str, str, bool], list[float]] = {}
        self._rows: dict[tuple[str, bool], list[Mapping[str, Any]]] = {}

    @property
    def now(self) -> Entry:
        """The last row."""
        return self.recent[-1]

    @property
    def span(self) -> tuple[int, int]:
        """First and last iteration of the last rows."""
        return self.recent[0]["iteration"], self.now["iteration"]

    def setting(self, path: str, policy: str = "") -> Any:
        """Returns a setting of a policy, or of the run for an empty name; None if there is none."""
        return self.settings.of(path, policy)

    def number(self, path: str, policy: str = "") -> float | None:
        """Returns a setting as its largest number; the same for a schedule; None for anything else."""
        return largest(self.setting(path, policy))

    @cached_property
    def budget(self) -> float | None:
        """Env steps after which the run ends; None if unknown."""
        return self.number("stop.env_steps")

    @cached_property
    def part(self) -> float | None:
        """Share of the budget of env steps that is used; None if the budget is unknown."""
        return self.now["env_steps"] / self.budget if self.budget else None

    def column(self, name: str, policy: str = "", past: bool = False) -> list[float]:
        """Returns the finite values of a column of the run or of a policy, in the last rows or in the whole run."""
        key = (name, policy, past)
        if (known := self._columns.get(key)) is None:
            rows = self._rows_of(policy, past)
            # a number minus itself is 0, but for NaN and infinity
            known = [value for row in rows if (value := row.get(name)) is not None and value - value == 0]
            self._columns[key] = known
        return known

    def _rows_of(self, policy: str, past: bool) -> Sequence[Mapping[str, Any]]:
        """Returns the columns of a policy, or of the run for an empty name."""
        entries = self.past if past else self.recent
        if not policy:
            return entries
        if (known := self._rows.get((policy, past))) is None:
            known = self._rows[policy, past] = [entry["policies"].get(policy, {}) for entry in entries]
        return known

    # --- the return ---------------------------------------------------------------------------------------------------

    @cached_property
    def _ended(self) -> list[Entry]:
        """Rows of the whole run after the end of the first episode."""
        return [one for one in self.past if one["return_mean"] is not None]

    @cached_property
    def returns(self) -> list[tuple[int, float]]:
        """Iteration and mean return of the rows of the whole run that have one."""
        return [(one["iteration"], one["return_mean"]) for one in self._ended]

    @cached_property
    def scatter(self) -> float:
        """Usual range of returns within a window of episodes, over the whole run."""
        wide = [one["return_max"] - one["return_min"] for one in self.past if one["return_max"] is not None]
        return median(wide) if wide else 0.0

    @cached_property
    def is_judged(self) -> bool:
        """Whether the return says how good a policy is: not in self-play, nor for opponents whose sum is constant."""
        agents = [one for one in self.now["agents"].values() if one is not None]
        total = abs(math.fsum(agents))
        opposed = len(agents) > 1 and total < 0.01 * math.fsum(map(abs, agents))
        return not self.now.get("self_play") and not opposed

    @cached_property
    def latest(self) -> float | None:
        """Mean return of the last tenth of the rows; None before the first episode ends."""
        values = [value for _, value in self.returns]
        tail = values[-max(len(values) // 10, 1) :]
        return math.fsum(tail) / len(tail) if tail else None

    @cached_property
    def beginning(self) -> float:
        """Mean return at the beginning: of the first `FEW` episodes, because those that end first are short, but not
        later than after a tenth of the rows; and of the first typical episodes, after a quarter at the latest.
        """
        ended = self._ended
        place = next((place for place, one in enumerate(ended) if one["episodes"] >= FEW), len(ended))
        early = len(ended) - len(self.typical)
        value: float = ended[max(min(place, len(ended) // 10), min(early, len(ended) // 4))]["return_mean"]
        return value

    @cached_property
    def typical(self) -> list[tuple[int, float]]:
        """Iteration and mean return of the rows from which on most steps so far belong to ended episodes."""
        for place, one in enumerate(self._ended):
            if one["episodes"] * (one["length_mean"] or 0.0) >= ENDED * one["env_steps"]:
                return self.returns[place:]
        return []

    @cached_property
    def has_improved(self) -> bool:
        """Whether the return is clearly above its beginning."""
        if self.latest is None:
            return False
        first = self.beginning
        return self.latest - first > max(IMPROVED * self.scatter, 1e-9 * abs(first))

    @cached_property
    def has_hardly_improved(self) -> bool:
        """Whether the return is above its beginning by a negligible amount at most."""
        return self.latest is not None and is_negligible(self.latest - self.beginning, self.beginning, self.scatter)

    @cached_property
    def has_fallen(self) -> bool:
        """Whether the return has lost most of its gain, or is clearly below its beginning, for a sixth of the run."""
        values = [value for _, value in self.typical]
        if len(values) < 12:
            return False
        tail, first, best = values[-max(len(values) // 6, 2) :], self.beginning, max(values)
        gain, noise = best - first, max(IMPROVED * self.scatter, 1e-9 * abs(first))
        if gain > 3 * noise:
            return max(tail) < first + 0.4 * gain
        return max(tail) < first - 3 * noise

    @cached_property
    def is_stuck(self) -> bool:
        """Whether the return has not improved, or has fallen, although it says how good the policy is."""
        return self.is_judged and bool(self.returns) and (not self.has_improved or self.has_fallen)

    @cached_property
    def still_since(self) -> int | None:
        """Iteration since which the return has stood still, if that is half of the run or more; else None."""
        found, count = None, 0
        for iteration, value in reversed(self.returns):
            if self.latest is None or abs(value - self.latest) > STILL * self.scatter:
                break
            found, count = iteration, count + 1
        return found if count >= max(ENOUGH, len(self.returns) / 2) else None

    @property
    def explains_nothing(self) -> bool:
        """Whether the critics of all policies that have one explain hardly any variance of their targets."""
        each = [self.column("explained_variance", name) for name in self.now["policies"]]
        return any(each) and all(median(values) < EXPLAINED for values in each if values)

    @cached_property
    def are_alike(self) -> bool:
        """Whether all last episodes have equal returns."""
        return self.now["return_min"] is not None and self.now["return_min"] == self.now["return_max"]

    def columns(self, names: Sequence[str], policy: str) -> Iterator[tuple[str, list[float]]]:
        """Yields those of some columns that have enough values in the last rows, with these."""
        for name in names:
            values = self.column(name, policy)
            if len(values) >= ENOUGH:
                yield name, values

    def is_annealed(self, policy: str) -> bool:
        """Whether the learning rate or the clip range of a policy is near the end of its schedule."""
        for name in ("lr", "clip"):
            values = self.column(name, policy, past=True)
            if values and max(values) > 0 and values[-1] < ANNEALED * max(values):
                return True
        return False

    def value_size(self, policy: str) -> float | None:
        """Returns the largest discounted return that the rewards so far suggest; None before the first episode ends."""
        now, gamma = self.now, self.number("gamma", policy)
        length: float | None = now["length_mean"]
        if now["return_mean"] is None or gamma is None or not length:
            return None
        size = float(max(abs(now["return_min"]), abs(now["return_max"])))
        return size if gamma >= 1.0 else size * min(1.0, 1.0 / ((1.0 - gamma) * length))


def is_negligible(gain: float, mean: float, width: float) -> bool:
    """Returns whether a gain is negligible, however certain it is.

    Args:
        gain: Difference of mean returns.
        mean: Mean return without learning.
        width: Range of returns without learning, or of returns in general.
    """
    return gain < NEGLIGIBLE * abs(mean) and gain < LUCKY * width


def largest(value: Any) -> float | None:
    """Returns a number, or the largest one of a schedule; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, Mapping):
        ends = [value.get("start"), value.get("end"), *(point[-1] for point in value.get("points") or ())]
        numbers = [float(one) for one in ends if isinstance(one, int | float)]
        return max(numbers) if numbers else None
    return None


def curve(values: Sequence[float]) -> tuple[float, ...]:
    """Returns at most `CURVE` of some values, evenly chosen, with four digits."""
    step = max(-(-len(values) // CURVE), 1)
    return tuple(float(f"{value:.4g}") for value in values[::-1][::step][::-1])
