"""Findings of the rows and settings of a run: by rules alone, without playing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rookery.core.config import Resolved
from rookery.core.schedules import Schedule, write_schedule
from rookery.report.finding import Finding
from rookery.run.findings.catalog import causes_first
from rookery.run.findings.history import History
from rookery.run.findings.plain_settings import PlainSettings
from rookery.run.findings.policy_rules import POLICY_RULES
from rookery.run.findings.rule import Rule
from rookery.run.findings.run_rules import RUN_RULES
from rookery.run.findings.settings_rules import SETTINGS_RULES
from rookery.run.findings.value_rules import VALUE_RULES
from rookery.run.findings.window import Window
from rookery.run.settings import RunConfig

LIVE_RULES: tuple[Rule, ...] = (*SETTINGS_RULES, *POLICY_RULES, *VALUE_RULES, *RUN_RULES)
"""Rules that need rows and settings only."""

OFTEN = 0.34
"""Share of the looks at a run in which a finding must have stood to be reported after it has passed."""


def findings_of(window: Window, settings: Mapping[str, Any], ignored: Collection[str] = ()) -> list[Finding]:
    """Returns the findings of the rules that need rows and settings only, the worst first.

    Args:
        window: The rows.
        settings: Values of the settings by path, schedules as mappings.
        ignored: Names of rules that are left out.
    """
    if not window.recent:
        return []
    run = History(window, settings)
    policies: dict[str, dict[str, Any]] = run.now["policies"]
    found = []
    for rule in LIVE_RULES:
        for name in [""] if rule.of_run else policies:
            if not rule.of_run and any(policies[name].get(column) is None for column in rule.needs):
                continue
            one = rule.check(run, name)
            if one is not None and one.rule not in ignored:
                found.append(one)
    return causes_first(found)


def findings_of_rows(
    rows: Sequence[Mapping[str, Any]], settings: Mapping[str, Any], ignored: Collection[str] = ()
) -> list[Finding]:
    """Returns the findings of all rows of a run: those that stand at its end, then those that stood often before.

    Args:
        rows: Rows of `metrics.jsonl`, oldest first.
        settings: Values of the settings by path, schedules as mappings.
        ignored: Names of rules that are left out.
    """
    window, looks = Window(), 0
    stood: dict[tuple[str, str], list[Finding]] = {}
    for row in rows:
        if window.add_row(row):
            looks += 1
            for one in findings_of(window, settings, ignored):
                stood.setdefault((one.rule, one.subject), []).append(one)
    last = findings_of(window, settings, ignored)
    standing = {(one.rule, one.subject) for one in last}
    before = [
        found[-1]
        for key, found in stood.items()
        if key not in standing and len(found) > OFTEN * looks and History(window, settings).is_stuck
    ]
    return causes_first([*last, *before])


def plain_settings(resolved: Resolved[RunConfig]) -> PlainSettings:
    """Returns the values of the settings of a run by path, schedules as mappings."""
    values = {path: given[-1][1] for path, given in resolved.history.items() if given}
    return PlainSettings(
        {path: write_schedule(one) if isinstance(one, Schedule) else one for path, one in values.items()}
    )
