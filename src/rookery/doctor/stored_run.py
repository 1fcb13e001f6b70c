"""`StoredRun`: the files of a run as the doctor reads them: nothing that they name is imported or run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rookery.core.errors import ConfigError
from rookery.core.io.files import FOLDER, MANIFEST, checkpoint_number, list_checkpoints
from rookery.core.io.json_text import parse_json
from rookery.core.io.yaml_reader import load_yaml
from rookery.core.timers import Timers
from rookery.doctor.result_rows import DEFAULT, RESULTS, read_results
from rookery.report.metrics_file import METRICS, read_rows
from rookery.run.findings.catalog import MAIN

CONFIG = "config.yaml"
JOURNAL = "journal.jsonl"


@dataclass(frozen=True)
class StoredRun:
    """Files of a run.

    Attributes:
        folder: Its directory.
        rows: Rows of `metrics.jsonl`, oldest first.
        settings: Values of the settings by path, schedules as mappings.
        checkpoint: The checkpoint to look at; None if there is none.
        command: The command that started it; empty if unknown.
        timers: Its timer tree.
        is_trial: Whether it is a trial of `tune.run` of 2021.
    """

    folder: Path
    rows: list[dict[str, Any]]
    settings: Mapping[str, Any]
    checkpoint: Path | None
    command: str = ""
    timers: Timers = field(default_factory=Timers)
    is_trial: bool = False

    @property
    def env(self) -> str:
        """Name of its environment; empty if it has none by name."""
        name = self.settings.get("env.name")
        return name if isinstance(name, str) else ""


def is_run(place: Path) -> bool:
    """Returns whether a path is the directory of a run, of one of its checkpoints, or of an experiment."""
    return any((place / name).is_file() for name in (CONFIG, JOURNAL, METRICS, RESULTS)) or is_checkpoint(place)


def is_checkpoint(place: Path) -> bool:
    """Returns whether a path is a checkpoint in the directory of a run."""
    return place.parent.name == FOLDER and checkpoint_number(place.name) is not None and place.is_dir()


def read_run(place: Path) -> StoredRun:
    """Reads the files of a run, given its directory or one of its checkpoints, up to which its rows are then read.

    Raises:
        ConfigError: If its settings cannot be read.
    """
    if (place / RESULTS).is_file() and not (place / CONFIG).is_file():
        return _read_trial(place)
    checkpoint: Path | None = None
    if is_checkpoint(place):
        checkpoint, place = place, place.parent.parent
    else:
        checkpoint = next(reversed(list_checkpoints(place / FOLDER)), None) if (place / FOLDER).is_dir() else None
    rows = read_rows(place)
    if checkpoint is not None and is_checkpoint(checkpoint) and (number := checkpoint_number(checkpoint.name)):
        rows = [row for row in rows if row["iteration"] <= number[0]] if checkpoint != last_of(place) else rows
    settings: dict[str, Any] = {}
    if (place / CONFIG).is_file():
        settings = settings_by_path(load_yaml((place / CONFIG).read_text(encoding="utf-8"), str(place / CONFIG)) or {})
    command = ""
    with suppress(OSError):
        command = (place / "command.txt").read_text(encoding="utf-8").strip()
    timers = Timers()
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        timers.load_state_dict(parse_json((place / "timers.json").read_text(encoding="utf-8")))
    return StoredRun(place, rows, settings, checkpoint, command, timers)


def _read_trial(place: Path) -> StoredRun:
    """Reads a trial of `tune.run` of 2021, whose settings are in its checkpoints."""
    found = sorted(path.parent for path in place.glob("checkpoint_*/config.json") if (path.parent / MANIFEST).is_file())
    settings: dict[str, Any] = {}
    if found:
        with suppress(OSError, ValueError, KeyError, TypeError):
            stored = settings_by_path(parse_json((found[-1] / "config.json").read_text(encoding="utf-8"))["values"])
            settings = {path.replace(f".{DEFAULT}.", f".{MAIN}.", 1): value for path, value in stored.items()}
    return StoredRun(place, read_results(place), settings, found[-1] if found else None, is_trial=True)


def last_of(folder: Path) -> Path | None:
    """Returns the newest checkpoint of a run; None if there is none."""
    return next(reversed(list_checkpoints(folder / FOLDER)), None)


def settings_by_path(tree: Mapping[Any, Any], above: str = "") -> dict[str, Any]:
    """Returns the values of nested settings by path, schedules as mappings."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        path = f"{above}.{name}" if above else str(name)
        if isinstance(value, Mapping) and not ("points" in value or {"start", "end"} <= value.keys()):
            found |= settings_by_path(value, path)
        else:
            found[path] = value
    return found


def trials_of(experiment: Path) -> list[Path]:
    """Returns the directories of the trainings of an experiment that have rows.

    Raises:
        ConfigError: If there are none.
    """
    found = sorted(path.parent for path in (experiment / "trials").glob(f"*/{METRICS}"))
    if not found:
        raise ConfigError(f"{experiment}: no trial of this experiment has finished an iteration yet")
    return found


def worst_trials(experiment: Path, count: int) -> list[Path]:
    """Returns the trials of an experiment whose last mean return is the lowest, the worst first.

    Args:
        experiment: Folder of the experiment.
        count: Largest number of trials.
    """
    scores = {}
    for folder in trials_of(experiment):
        rows = read_rows(folder)
        value = rows[-1].get("return_mean") if rows else None
        scores[folder] = float("-inf") if value is None else float(value)
    return sorted(scores, key=lambda folder: (scores[folder], folder.name))[:count]


def own_seed_aside(settings: Mapping[str, Any]) -> str:
    """Returns settings without the seed and the names of files, as a text to compare."""
    others = {path: value for path, value in settings.items() if path != "seed" and not path.startswith("logging.")}
    return json.dumps(others, sort_keys=True, default=str)
