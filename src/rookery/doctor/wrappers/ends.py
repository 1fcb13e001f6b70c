"""Rules about ends that a wrapper ignores, hides, or changes."""

from __future__ import annotations

from collections.abc import Sequence

from rookery.doctor.wrappers.record import ALL, USUAL, LevelCall, Recorder
from rookery.report.finding import Finding
from rookery.run.findings.catalog import finding

FEWEST = 3
"""Fewest ends of a kind for a finding."""


def late_steps(calls: Sequence[LevelCall]) -> int:
    """Returns the number of steps of a level that were taken after an end and before a reset."""
    count, over = 0, False
    for call in calls:
        count += over and not call.is_reset
        over = call.over if not call.is_reset else False
    return count


def steps_after_end(recorder: Recorder) -> list[Finding]:
    """Finds the outermost wrapper that steps on after the environment below it has reported an end."""
    if late_steps(recorder.levels[0]):
        return []
    for name, inner, calls in zip(recorder.names, recorder.names[1:], recorder.levels[1:], strict=False):
        if (count := late_steps(calls)) >= FEWEST:
            ends = sum(call.over for call in calls)
            return [
                finding(
                    "steps-after-end",
                    f"{name} steps {inner} again after it has reported an end, without a reset",
                    f"{count:,} such steps in random play, of {len(calls):,}, and {ends:,} reports of an end",
                )
            ]
    return []


def ends_changed(recorder: Recorder) -> list[Finding]:
    """Finds wrappers that hide ends, or tell a termination as a truncation or the other way round."""
    found = []
    for name, calls in zip(recorder.names[:-1], recorder.levels, strict=False):
        steps = [call for call in calls if call.steps_below]
        if name in USUAL or not steps:
            continue
        ended = [(call, _flags(call.steps_below)) for call in steps if any(one.over for one in call.steps_below)]
        hidden = [one for one in ended if not one[0].over]
        as_cut = [
            one for one in ended if one[0].over and one[1][0] - one[0].terminated and not one[0].terminated - {ALL}
        ]
        as_end = [one for one in ended if one[0].over and one[0].terminated and one[1][1] and not one[1][0]]
        for these, line, rest in (
            (hidden, "hides ends: episodes end below it, and continue above it", "the end of an episode is not seen"),
            (as_cut, "reports terminations as truncations", "values after the end still count"),
            (as_end, "reports truncations as terminations", "values after a time limit count as 0"),
        ):
            if len(these) >= FEWEST:
                seen = f"{len(these):,} of {len(ended):,} ends below it in random play"
                found.append(finding("ends-changed", f"{name} {line}", seen, rest))
                break
    return found[:1]


def _flags(calls: Sequence[LevelCall]) -> tuple[frozenset[str], frozenset[str]]:
    """Returns the agents that have terminated, and those that were truncated, in some calls."""
    return frozenset().union(*(one.terminated for one in calls)), frozenset().union(*(one.truncated for one in calls))
