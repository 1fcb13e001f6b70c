"""Describes the machine: versions, compiler, cores, memory, disk and extras."""

from __future__ import annotations

from typing import Any

from rookery.core.errors import ConfigError


def machine_report() -> dict[str, Any]:
    """Returns facts about the machine by name, without tokens and environment variables."""
    raise ConfigError("name a run, as in rookery doctor runs/pole")


def machine_lines(report: dict[str, Any]) -> list[str]:
    """Returns the facts of `machine_report` as lines of text."""
    return [f"{name:<16}{value}" for name, value in report.items()]
