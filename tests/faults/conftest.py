"""Counts of the fault tests, and the page for them when the tests run at length (``make test-faults``)."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "benchmarks" / "results" / "faults.md"

OTHER = "\n## Damaged files\n"
"""What begins the part of the page that other tests are reported in, which is kept."""

ROWS: list[tuple[str, str, str, float]] = []


@pytest.fixture(autouse=True)
def _fresh(fresh_children):
    """Fresh child processes: tests kill and starve what users start."""


@pytest.fixture
def measured():
    """Notes what was done, how often and what came of it; the seconds are those of the whole test."""
    began = time.monotonic()
    noted = []
    yield lambda what, how_many, outcome: noted.append((what, str(how_many), outcome))
    for what, how_many, outcome in noted:
        ROWS.append((what, how_many, outcome, time.monotonic() - began))


def pytest_sessionfinish(session, exitstatus):
    if "ROOKERY_FAULTS" not in os.environ or not ROWS or hasattr(session.config, "workerinput"):
        return
    lines = [
        "# Faults",
        "",
        "Written by `make test-faults`; `make test-all` runs the same with smaller numbers, `make test` a few of them. "
        "A run is CartPole-v1 with PPO, reward scaling, observation statistics, a memory and evaluations, "
        "checkpointed after every iteration.",
        "",
        "| what | how many | outcome | seconds |",
        "|---|---|---|---|",
        *(f"| {what} | {how_many} | {outcome} | {seconds:.0f} |" for what, how_many, outcome, seconds in ROWS),
        "",
        f"{_cpu()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}; {'all passed' if exitstatus == 0 else 'NOT ALL PASSED'}.",
    ]
    written = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    other = written.partition(OTHER)
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text("\n".join(lines) + "\n" + "".join(other[1:]), encoding="utf-8")


def _cpu():
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown CPU")
