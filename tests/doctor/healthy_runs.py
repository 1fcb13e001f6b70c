"""Reads the healthy runs of `healthy/`, which `benchmarks/healthy_runs.py` has trained."""

import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent / "healthy"


class HealthyRun(NamedTuple):
    """A stored run.

    Attributes:
        name: Its name.
        about: Its goal, the mean return of its last episodes, and the env steps of an iteration.
        settings: Its settings, as in `config.yaml`.
        rows: Rows of `metrics.jsonl`.
    """

    name: str
    about: dict[str, Any]
    settings: dict[str, Any]
    rows: list[dict[str, Any]]


def healthy_runs(*, aside):
    """Returns the stored runs: those that are kept aside, or the others."""
    return [read(path) for path in sorted((FOLDER / "aside" if aside else FOLDER).glob("*.jsonl.gz"))]


def read(path):
    """Returns the run of a file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        about, *rows = map(json.loads, file)
    return HealthyRun(about["name"], about, about.pop("settings"), rows)
