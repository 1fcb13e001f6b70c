"""Rules about rewards of the level below that a wrapper drops, delays or gives to another agent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rookery.doctor.wrappers.record import USUAL, LevelCall, Recorder
from rookery.report.finding import Finding
from rookery.run.findings.catalog import finding

FEWEST = 10
"""Fewest steps with a reward for a finding."""

NEARLY, MOSTLY, SOME = 0.95, 0.5, 0.02
"""Share of the steps in which another relation holds, share of those that keep the usual one, and share of the rewards
that have to be lost.
"""


def rewards_lost(recorder: Recorder) -> list[Finding]:
    """Finds the wrappers that lose rewards of the level below, pass them on late, or exchange those of agents."""
    found = []
    for name, calls in zip(recorder.names[:-1], recorder.levels, strict=False):
        if name not in USUAL and any(call.steps_below for call in calls):
            found += exchanged(name, calls) or lost(name, calls)
    return found[:1]


def exchanged(name: str, calls: Sequence[LevelCall]) -> list[Finding]:
    """Finds rewards that agents get for each other."""
    steps = [
        (call.reward, call.steps_below[0].reward)
        for call in calls
        if len(call.steps_below) == 1 and len(call.reward) > 1
    ]
    agents = list(steps[0][0]) if steps else []
    wrong = []
    for agent in agents:
        differ = [(above, below) for above, below in steps if above.get(agent) != below.get(agent)]
        for other in agents if len(differ) >= FEWEST else ():
            if other != agent and all(above.get(agent) == below.get(other) for above, below in steps):
                wrong.append((agent, other))
                break
    if not wrong:
        return []
    pairs = " and ".join(f"{agent} gets that of {other}" for agent, other in wrong[:4])
    return [
        finding("rewards-swapped", f"{name} gives rewards to other agents: {pairs}", f"in {len(steps):,} random steps")
    ]


def lost(name: str, calls: Sequence[LevelCall]) -> list[Finding]:
    """Finds rewards that are lost or late, where others are passed on, but for a constant factor.

    Args:
        name: Name of the wrapper.
        calls: Its calls.
    """
    steps = [call for call in calls if not call.is_reset]
    above, below, last = (
        np.array([_sum(part) for part in parts])
        for parts in (
            [[call] for call in steps],
            [call.steps_below for call in steps],
            [call.steps_below[-1:] for call in steps],
        )
    )
    paid, several = below != 0.0, np.array([len(call.steps_below) > 1 for call in steps])
    both = paid & (above != 0.0)
    if paid.sum() < FEWEST or not (np.isfinite(above).all() and np.isfinite(below).all()):
        return []
    factor = float(np.median(above[both] / below[both])) if both.any() else 1.0
    kept, gone = np.isclose(above, factor * below), paid & (above == 0.0)
    if (apart := several & ~np.isclose(last, below)).sum() >= FEWEST and kept[paid].mean() < NEARLY:
        factors = above[apart & (last != 0.0)] / last[apart & (last != 0.0)]
        own = float(np.median(factors)) if len(factors) else 1.0
        if np.isclose(above, own * last)[apart].mean() >= NEARLY:
            most = max(len(call.steps_below) for call in steps)
            line = f"{name} steps up to {most} times, and returns the last reward of these steps instead of their sum"
            return [_found(line, f"the sum differs from it in {apart.sum():,} of {len(steps):,} random steps")]
    if late := _late(steps, above, below):
        return [_found(f"{name} passes on rewards a step late", late)]
    if both.sum() < FEWEST:
        return _moved(name, steps, above, below, int(gone.sum()))
    if kept[both].mean() < MOSTLY or gone.sum() < max(FEWEST // 3, SOME * paid.sum()):
        return []
    return [_found(f"{name} loses rewards: they are 0 above it", _which(steps, below, gone, paid))]


def _which(steps: Sequence[LevelCall], below: np.ndarray, gone: np.ndarray, paid: np.ndarray) -> str:
    """Returns in words which rewards are lost."""
    over = np.array([call.over for call in steps])
    kept = paid & ~gone
    count = f"{gone.sum():,} of {paid.sum():,} rewards of random play, from {below[gone].min():.4g} to "
    count += f"{below[gone].max():.4g}"
    if over[gone].all() and not over[kept].any():
        return f"{count}: those of the last step of each episode"
    for sign, word in ((-1.0, "negative"), (1.0, "positive")):
        if (sign * below[gone] > 0.0).all() and not (sign * below[kept] > 0.0).any():
            return f"{count}: all {word} ones"
    return count


def _late(steps: Sequence[LevelCall], above: np.ndarray, below: np.ndarray) -> str:
    """Returns in words that rewards are those of the step before; an empty string if they are not."""
    begins = np.array([True, *(call.over for call in steps[:-1])])
    later = np.flatnonzero(~begins)
    differ = later[~np.isclose(below[later], below[later - 1])]
    if len(differ) < FEWEST or np.isclose(above, below).mean() >= MOSTLY:
        return ""
    if not np.isclose(above[later], below[later - 1]).all():
        return ""
    return f"in all of {len(later):,} steps after the first of an episode its reward is that of the step before"


def _moved(name: str, steps: Sequence[LevelCall], above: np.ndarray, below: np.ndarray, gone: int) -> list[Finding]:
    """Finds rewards that are paid in other steps than below: nearly none where they are earned."""
    ends = np.flatnonzero([call.over for call in steps])
    if not len(ends):
        return []
    count = ends[-1] + 1
    sums = [np.add.reduceat(part[:count], np.array([0, *(ends[:-1] + 1)])) for part in (above, below)]
    if np.allclose(sums[0], sums[1]) and len(ends) >= 3:
        line = f"{name} passes on rewards in other steps than those in which they are earned"
        return [_found(line, f"the sums of {len(ends):,} episodes are equal, and {gone:,} rewards are 0 above it",
                       severity="note")]  # fmt: skip
    if not above.any():
        return [_found(f"{name} loses rewards: all are 0 above it", f"{gone:,} rewards in {len(steps):,} random steps")]
    return []


def _found(line: str, *evidence: str, severity: str | None = None) -> Finding:
    """Returns a finding of lost rewards."""
    return finding("rewards-lost", line, *evidence, severity="note" if severity == "note" else None)


def _sum(calls: Sequence[LevelCall]) -> float:
    """Returns the sum of the rewards of all agents in some calls."""
    return sum(value for call in calls for value in call.reward.values())
