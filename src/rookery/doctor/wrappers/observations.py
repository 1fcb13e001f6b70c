"""Rules about observations and masks that a wrapper passes on late, or that lose what the level below shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from rookery.doctor.reward_fit import explained
from rookery.doctor.wrappers.record import USUAL, LevelCall, Recorder
from rookery.report.finding import Finding
from rookery.run.findings.catalog import finding

FEWEST, NEARLY = 100, 0.95
"""Fewest steps for a finding, and share of the steps in which a relation holds."""

STILL, MOVING = 1e-4, 1e-2
"""Deviation of a statistic over observations, in units of their largest value: no change, and clear change."""

DISTINCT = 20
"""Fewest different values of observations whose scale is judged."""

EXPLAINED, LOST = 0.5, 0.5
"""Share of the variance of rewards that observations below explain, and part of it above from which on it is lost."""

PART = 0.9999
"""Correlation from which on elements are the same one."""

SOON = 5
"""Steps within which an end is soon."""

STATISTICS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "the same minimum and maximum": lambda rows: np.stack([rows.min(axis=1), rows.max(axis=1)]),
    "the same mean and standard deviation": lambda rows: np.stack([rows.mean(axis=1), rows.std(axis=1)]),
    "the same length": lambda rows: np.linalg.norm(rows, axis=1)[None],
    "the same sum": lambda rows: rows.sum(axis=1)[None],
}
"""Statistics of an observation that stay the same if it is scaled by itself."""


def observation_findings(recorder: Recorder, policy: str, *, remembers: bool) -> list[Finding]:
    """Returns the findings of the observations and masks that wrappers pass on.

    Args:
        recorder: Random play.
        policy: Name of the policy; empty if unknown.
        remembers: Whether the policy remembers earlier observations.
    """
    found: list[Finding] = []
    for name, calls in zip(recorder.names[:-1], recorder.levels, strict=False):
        pairs = [(call, call.below[-1]) for call in calls if call.below]
        if name not in USUAL and len(pairs) >= FEWEST:
            found += [
                *obs_late(name, pairs, policy),
                *scaled_by_itself(name, pairs, policy),
                *mask_changed(name, pairs),
            ]
    if not remembers and not any(one.rule == "obs-merged" for one in found):
        found += information_lost(recorder, policy)
    return found


def obs_late(name: str, pairs: Sequence[tuple[LevelCall, LevelCall]], policy: str) -> list[Finding]:
    """Finds a wrapper that returns the observation of the step before."""
    steps = [
        (one.key, other.key, before.key)
        for (_, before), (one, other) in pairwise(pairs)
        if not one.is_reset and before.key != other.key and len(one.below) == 1
    ]
    if len(steps) < FEWEST or not all(above == before for above, _, before in steps):
        return []
    line = f"{name} returns the observation of the step before"
    return [finding("obs-late", line, f"in all of {len(steps):,} random steps with another one below it",
                    policy=policy)]  # fmt: skip


def scaled_by_itself(name: str, pairs: Sequence[tuple[LevelCall, LevelCall]], policy: str) -> list[Finding]:
    """Finds observations that are scaled by a statistic of their own, so that those of another level become equal."""
    rows = [(one.values, other.values) for one, other in pairs if one.values is not None and other.values is not None]
    if len(rows) < FEWEST or len({(len(one), len(other)) for one, other in rows}) > 1:
        return []
    above, below = (np.stack(part) for part in zip(*rows, strict=True))
    if min(above.shape[1], below.shape[1]) < 2 or len(np.unique(below)) < DISTINCT or not np.isfinite(above).all():
        return []
    if len(np.unique(above, axis=0)) < 2 or _is_part(above, below):
        return []
    for text, statistic in STATISTICS.items():
        spread, before = (_spread(statistic(part), part) for part in (above, below))
        if spread.max() < STILL and before.max() > MOVING:
            return [
                finding(
                    "obs-merged",
                    f"{name} scales each observation by itself: all have {text}, and those below it differ",
                    f"{len(rows):,} observations of random play; {_merged(above, below)}",
                    policy=policy,
                    causes=("the scale is computed from the observation, and not from the limits of the space or from "
                            "many observations",),
                )
            ]  # fmt: skip
    return []


def _is_part(above: np.ndarray, below: np.ndarray) -> bool:
    """Returns whether each element above is one from below, up to a factor and a constant."""
    columns = [part[:, part.std(axis=0) > 0.0] for part in (above, below)]
    above, below = ((part - part.mean(axis=0)) / part.std(axis=0) for part in columns)
    return bool((np.abs(above.T @ below / len(above)).max(axis=1, initial=0.0) > PART).all())


def _spread(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Returns the standard deviation of statistics over most observations, in units of the largest element."""
    middle = np.abs(values - np.median(values, axis=1, keepdims=True))
    spread: np.ndarray = np.quantile(middle, NEARLY, axis=1) / max(float(np.abs(rows).max()), 1e-12)
    return spread


def _merged(above: np.ndarray, below: np.ndarray) -> str:
    """Returns in words how many different observations there are on both sides of a wrapper."""
    counts = [len(np.unique(np.round(part / max(float(np.abs(part).max()), 1e-12), 4), axis=0)) for part in
              (below, above)]  # fmt: skip
    return f"{counts[0]:,} different ones below become {counts[1]:,}"


def mask_changed(name: str, pairs: Sequence[tuple[LevelCall, LevelCall]]) -> list[Finding]:
    """Finds action masks that a wrapper loses, inverts, or passes on a step late."""
    agents = {agent for _, below in pairs for agent in below.masks}
    for agent in sorted(agents):
        both = [(one.masks.get(agent), other.masks.get(agent)) for one, other in pairs]
        masks = [(one, other) for one, other in both if other is not None]
        if len(masks) < FEWEST:
            continue
        whose = f" of {agent}" if len(agents) > 1 else ""
        seen = f"{len(masks):,} masks in random play"
        if all(one is None for one, _ in masks):
            return [finding("mask-changed", f"{name} does not pass on the action mask{whose}", seen)]
        if all(one == bytes(1 - byte for byte in other) for one, other in masks):
            return [finding("mask-changed", f"{name} inverts the action mask{whose}", seen)]
        steps = [
            (above[0], before[1], above[1])
            for before, above, (call, _) in zip(both, both[1:], pairs[1:], strict=False)
            if not call.is_reset and before[1] != above[1]
        ]
        if len(steps) >= FEWEST // 5 and all(above == before for above, before, _ in steps):
            return [finding("mask-changed", f"{name} passes on the action mask{whose} of the step before", seen)]
    return []


def information_lost(recorder: Recorder, policy: str) -> list[Finding]:
    """Finds wrappers above which observations explain far less of the rewards and ends than below.

    Regressions predict the next reward, and whether the episode is soon over, from the observation before it and the
    action, at each level. A wrapper of which the level above explains less than half of what the level below explains
    has lost what the reward depends on.

    Args:
        recorder: Random play.
        policy: Name of the policy; empty if unknown.
    """
    views = [_view(recorder, number) for number in range(len(recorder.levels))]
    action, episode = _actions(recorder), _episodes(recorder)
    for what, target in _targets(recorder).items():
        if len(target) < 3 * FEWEST or not np.ptp(target):
            continue
        shares: list[float] = []
        before: np.ndarray | None = None
        for view in reversed(views):
            is_same = view is None or (before is not None and np.array_equal(view, before))
            share = None if is_same or view is None else explained(_beside(view, action), target, episode)
            before = view
            shares.append(shares[-1] if share is None and shares else share or 0.0)
            if shares[0] < EXPLAINED:
                break
        if shares[-1] >= LOST * shares[0] or shares[0] < EXPLAINED:
            continue
        place = int(np.argmin(np.diff(shares)))  # the innermost level is the first one
        name, below, above = recorder.names[-2 - place], shares[place], max(shares[place + 1], 0.0)
        return [
            finding(
                "obs-merged",
                f"{name} loses what {what} depends on: observations below it explain {100 * below:.0f} % of its "
                f"variance, and those above it {100 * above:.0f} %",
                f"regressions on observation and action, {len(target):,} steps of random play",
                policy=policy,
            )
        ]
    return []


def _steps(recorder: Recorder) -> list[tuple[LevelCall, LevelCall]]:
    """Returns each outermost call with the step that follows it in the same episode."""
    calls = recorder.levels[0]
    return [(one, other) for one, other in pairwise(calls) if not other.is_reset and not one.over]


def _view(recorder: Recorder, level: int) -> np.ndarray | None:
    """Returns the observations ``[N, elements]`` of a level before each step; None where they are not kept."""
    found = []
    for before, _ in _steps(recorder):
        call: LevelCall | None = before
        for _ in range(level):
            call = call.below[-1] if call is not None and call.below else None
        if call is None or call.values is None:
            return None
        found.append(call.values)
    if not found or len({len(one) for one in found}) > 1:
        return None
    rows = np.stack(found)
    return rows if np.isfinite(rows).all() else None


def _actions(recorder: Recorder) -> np.ndarray | None:
    """Returns the actions ``[N, elements]``, discrete ones as flags; None if they are no numbers."""
    rows = [step.given for _, step in _steps(recorder)]
    if any(one is None for one in rows) or len({len(one) for one in rows}) > 1:
        return None
    actions = np.stack(rows)
    if actions.shape[1] == 1 and len(values := np.unique(actions)) <= DISTINCT:
        actions = np.asarray(actions == values[None, 1:], np.float64)
    return actions


def _targets(recorder: Recorder) -> dict[str, np.ndarray]:
    """Returns what follows each observation: the reward, and the end within a few steps."""
    steps = [step for _, step in _steps(recorder)]
    reward = np.array([sum(step.reward.values()) for step in steps])
    ended = np.array([bool(step.terminated) for step in steps])
    episode, soon = _episodes(recorder), np.zeros(len(steps))
    for ahead in range(SOON):
        same = episode[ahead:] == episode[: len(episode) - ahead]
        soon[: len(soon) - ahead] += (ended[ahead:] & same).astype(np.float64)
    return {"the reward": reward, "the end of an episode": soon}


def _episodes(recorder: Recorder) -> np.ndarray:
    """Returns the number of the episode of each step."""
    found, episode = [], 0
    calls = recorder.levels[0]
    for before, call in pairwise(calls):
        episode += call.is_reset
        if not call.is_reset and not before.over:
            found.append(episode)
    return np.array(found)


def _beside(view: np.ndarray, action: np.ndarray | None) -> np.ndarray:
    """Returns observations with the actions beside them."""
    return view if action is None else np.concatenate([view, action], axis=1)
