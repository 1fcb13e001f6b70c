"""Rules about actions that a wrapper ignores, delays, or makes equal on their way down."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rookery.doctor.wrappers.record import USUAL, LevelCall, Recorder
from rookery.report.finding import Finding
from rookery.run.findings.catalog import finding

FEWEST, TRIED = 100, 5
"""Fewest steps for a finding, and fewest with each discrete action."""

MOSTLY = 0.5
"""Share of the steps with the same value from which on a continuous action is mostly cut off."""

BOUND, FREE = 0.999, 0.9
"""Correlation of two elements that belong together, and of two that do not."""

FEW_VALUES, MANY_VALUES = 12, 100
"""Values of a continuous action after rounding, and before."""


def actions_changed(recorder: Recorder) -> list[Finding]:
    """Finds the wrappers below which actions that differ are equal, or are those of the step before."""
    for name, calls in zip(recorder.names[:-1], recorder.levels, strict=False):
        if name in USUAL:
            continue
        steps = [call for call in calls if not call.is_reset and call.steps_below]
        pairs = [(call.given, call.steps_below[0].given) for call in steps]
        usable = [one is not None and other is not None for one, other in pairs]
        if len(steps) < FEWEST or not all(usable) or len({(len(one), len(other)) for one, other in pairs}) > 1:
            continue
        above, below = (np.stack(part) for part in zip(*pairs, strict=True))
        if (above == above[:1]).all():
            continue
        if line := _ignored(above, below) or _late(steps, above, below) or _equal(above, below) or _cut(above, below):
            return [finding("actions-changed", f"{name} {line}", f"{len(steps):,} steps of random play")]
    return []


def _ignored(above: np.ndarray, below: np.ndarray) -> str:
    """Returns in words that all actions below are equal, or an empty string."""
    if (below != below[:1]).any():
        return ""
    return f"ignores the action: always {np.array2string(below[0], precision=4, threshold=6)} reaches the level below"


def _late(steps: Sequence[LevelCall], above: np.ndarray, below: np.ndarray) -> str:
    """Returns in words that actions below are those of the step before, or an empty string."""
    begins = np.array([True, *(call.over for call in steps[:-1])])
    later = np.flatnonzero(~begins)
    if above.shape != below.shape or len(later) < FEWEST:
        return ""
    own, former = (_bound(above[rows], below[later]) for rows in (later, later - 1))
    return "passes on the action of the step before" if former.min() > BOUND and own.max() < FREE else ""


def _bound(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Returns the correlation of each element of two arrays ``[N, elements]``, as a size."""
    centered = [part - part.mean(axis=0) for part in (one, other)]
    scale = np.linalg.norm(centered[0], axis=0) * np.linalg.norm(centered[1], axis=0)
    size: np.ndarray = np.abs((centered[0] * centered[1]).sum(axis=0)) / np.maximum(scale, 1e-12)
    return size


def _equal(above: np.ndarray, below: np.ndarray) -> str:
    """Returns in words which discrete actions become the same one, or an empty string."""
    if above.shape[1] != 1 or len(np.unique(above)) > MANY_VALUES // 4:
        return ""
    becomes: dict[bytes, list[int]] = {}
    for value in np.unique(above):
        own = np.unique(below[above[:, 0] == value], axis=0)
        if len(own) > 1 or (above == value).sum() < TRIED:
            return ""
        becomes.setdefault(own[0].tobytes(), []).append(int(value))
    same = [values for values in becomes.values() if len(values) > 1]
    return f"makes actions {' and '.join(map(str, same[0]))} the same one" if same else ""


def _cut(above: np.ndarray, below: np.ndarray) -> str:
    """Returns in words that continuous actions are cut off or rounded, or an empty string."""
    if above.shape != below.shape or len(np.unique(above)) < MANY_VALUES:
        return ""
    for place, (one, other) in enumerate(zip(above.T, below.T, strict=True)):
        if len(np.unique(one)) < MANY_VALUES:
            continue
        values, counts = np.unique(other, return_counts=True)
        what = f"element {place} of the action" if above.shape[1] > 1 else "the action"
        at_ends = counts[values == values.min()].sum() + counts[values == values.max()].sum()
        if len(values) > FEW_VALUES and at_ends >= MOSTLY * len(other):
            return (
                f"cuts off {what}: {100 * at_ends / len(other):.0f} % of the values become {values.min():.4g} or "
                f"{values.max():.4g}"
            )
        if len(values) <= FEW_VALUES:
            return f"rounds {what}: {len(np.unique(one)):,} values become {len(values)}"
    return ""
