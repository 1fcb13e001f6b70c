"""`wrapper_findings`: compares each wrapper of an environment with the level below it, in the same random play."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rookery.core.errors import RookeryError
from rookery.doctor.own_statistics import own_statistics
from rookery.doctor.wrappers.actions import actions_changed
from rookery.doctor.wrappers.ends import ends_changed, steps_after_end
from rookery.doctor.wrappers.lost_rewards import rewards_lost
from rookery.doctor.wrappers.observations import observation_findings
from rookery.doctor.wrappers.record import ONE, Recorder, play_recorded
from rookery.doctor.wrappers.rewards import reordered_rewards
from rookery.doctor.wrappers.rounding import rounded, rounded_by_env
from rookery.policies.policy import Policy
from rookery.report.finding import Finding
from rookery.run.findings.catalog import finding

SHARE = 0.4
"""Share of the time for random play."""


def wrapper_findings(
    make: Callable[[], Any] | None, until: float, policy: Policy | None = None, called: str = ""
) -> list[Finding]:
    """Returns the findings of the wrappers of an environment, and of whole numbers in its observations; none for
    environments of another style.

    Args:
        make: Makes a single throwaway environment, wrapped; None if there are no single ones.
        until: Time of `time.monotonic` at which it ends.
        policy: The only policy of the run, whose behaviour is played, too; None without one.
        called: Its name.
    """
    now = time.monotonic()
    if make is None or now > until:
        return []
    found: list[Finding] = []
    with suppress(RookeryError):  # environments of another style, and those that fail, have findings of their own
        chance = play_recorded(make, None, now + SHARE * (until - now))
        if len(chance.levels) == 1:
            return rounded_by_env(make, called)
        remembers = policy is not None and bool(policy.memory_size or policy.model.remembers)
        found += recorded_findings(chance, called, remembers=remembers)
        found += rounded(chance, called) or rounded_by_env(make, called)
        known = own_statistics(chance.env)  # they begin anew for each behaviour, so returns cannot be compared
        single = all(list(call.reward) == [ONE] for call in chance.levels[0] if not call.is_reset)
        if policy is not None and single and not known:
            others = reordered_rewards(make, chance, policy, until)
            explained = any(one.rule == "rewards-lost" and one.counts for one in found)
            found += [one for one in others if one.counts or not explained]
    return found


def recorded_findings(recorder: Recorder, policy: str, *, remembers: bool) -> list[Finding]:
    """Returns the findings of recorded random play.

    Args:
        recorder: The play.
        policy: Name of the policy; empty if unknown.
        remembers: Whether the policy remembers earlier observations.
    """
    return [
        *steps_after_end(recorder),
        *ends_changed(recorder),
        *rewards_lost(recorder),
        *observation_findings(recorder, policy, remembers=remembers),
        *actions_changed(recorder),
        *seed_kept(recorder),
    ]


def seed_kept(recorder: Recorder) -> list[Finding]:
    """Finds the outermost wrapper that does not pass the seed of a reset on, or passes on always the same one."""
    for name, calls in zip(recorder.names[:-1], recorder.levels, strict=False):
        given = [(call.given, one.given) for call in calls if call.is_reset for one in call.below[:1] if one.is_reset]
        above, below = ({pair[place] for pair in given} for place in (0, 1))
        seen = f"in all of {len(given):,} resets"
        if len(above) < 2 or None in above or len(below) > 1:
            continue
        (seed,) = below
        if seed is not None:
            return [finding("starts-alike", f"{name} resets the level below with the seed {seed} always", seen)]
        line = f"{name} does not pass the seed of reset on, so episodes cannot be repeated"
        return [finding("not-deterministic", line, seen, severity="note")]
    return []
