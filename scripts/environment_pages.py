"""The generated parts of docs/environments/: presets, measured claims, bundled tasks and other suites.

A part stands between ``<!-- generated: KIND NAMES -->`` and ``<!-- end -->``; NAMES are those of presets or claims.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from rookery.cli.environments.listing import environment
from rookery.envs.adapters.bundled import OURS, TENSORS
from rookery.envs.catalog import OTHER_SUITES
from rookery.run.presets import ENV_PRESETS

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "environments"

PART = re.compile(r"(<!-- generated: ([a-z]+(?: suites)?)( [^>]*?)? -->\n).*?(<!-- end -->)", re.S)


def environment_pages() -> dict[str, str]:
    """Returns the text of each page about environments, by its path below docs/reference/."""
    pages = {}
    for page in sorted(PAGES.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        pages[f"../environments/{page.name}"] = PART.sub(
            lambda part: f"{part[1]}{PARTS[part[2]]((part[3] or '').split())}\n{part[4]}", text
        )
    return pages


def presets_table(names: list[str]) -> str:
    """Returns the presets of environments, a row for each algorithm."""
    lines = ["| environment | algorithm | env steps | environments |", "|---|---|---|---|"]
    for name in names:
        for algorithm, presets in ENV_PRESETS.items():
            if name in presets:
                values = presets[name]
                steps = values.get("stop.env_steps")
                copies = values.get("sampling.num_envs", "default")
                lines.append(f"| `{name}` | {algorithm} | {f'{steps:,}' if steps else 'no end'} | {copies} |")
    text = "The command line takes a preset unless it says `--preset none`; [all values](../reference/presets.md)."
    return "\n".join([*lines, "", text])


def claims_table(names: list[str]) -> str:
    """Returns the measured claims of a suite."""
    rows = json.loads((ROOT / "benchmarks/results/learning.json").read_text(encoding="utf-8"))["rows"]
    by_name: dict[str, Any] = {row["claim"]: row for row in rows}
    lines = ["| claim | score | needed | each seed | env steps | holds |", "|---|---|---|---|---|---|"]
    for name in names:
        row = by_name[name]
        seeds = ", ".join(f"{run['score']:g}" for run in row["runs"])
        lines.append(
            f"| `{name}` | {row['what']} | {row['threshold']:g} | {seeds} | {row['env_steps']:,} "
            f"| {'yes' if row['holds'] else 'no'} |"
        )
    return "\n".join(
        [*lines, "", "[Learning results](../../benchmarks/results/learning.md) have controls, seconds and the machine."]
    )


def bundled_table(_: list[str]) -> str:
    """Returns the bundled tasks with their spaces."""
    lines = ["| task | what it is | agents | observations | actions |", "|---|---|---|---|---|"]
    for name in OURS:
        found = environment(name) if name not in TENSORS else None
        if found is not None:
            obs, action = found.spaces
            lines.append(f"| `{name}` | {found.about.rstrip('.')} | {found.agents} | {obs} | {action} |")
    lines += [f"| `{name}` | in PyTorch tensors, on any device | 1 | | |" for name in TENSORS]
    return "\n".join(lines)


def suites_table(_: list[str]) -> str:
    """Returns suites that Rookery only knows how to name."""
    lines = ["| suite | install | named, for example |", "|---|---|---|"]
    lines += [f"| {suite.title} | `pip install '{suite.install}'` | `{suite.example}` |" for suite in OTHER_SUITES]
    return "\n".join(lines)


PARTS = {"presets": presets_table, "claims": claims_table, "bundled": bundled_table, "other suites": suites_table}
