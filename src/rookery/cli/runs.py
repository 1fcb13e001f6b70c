"""Finds the directories of runs by path or name, with messages that list the existing ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from rookery.core.errors import ConfigError, nearest
from rookery.core.io.files import FOLDER, MANIFEST, best_name, checkpoint_number, list_checkpoints, read_content
from rookery.core.io.json_text import parse_json

ROOT = Path("runs")
"""Default folder of runs."""

JOURNAL = "journal.jsonl"
"""File in the folder of an experiment, but not of a run."""

NEWEST = 5


def run_names(incomplete: str) -> Iterator[str]:
    """Yields the runs in ``runs/`` that begin with a text, the newest first; a shell completes them."""
    found = [place for place in ROOT.glob(f"{incomplete}*") if (place / "config.yaml").is_file()]
    return (place.name for place in sorted(found, key=lambda place: place.stat().st_mtime, reverse=True))


SavedRun = Annotated[
    Path,
    typer.Argument(
        help="Directory of the run, its name in runs/, or a checkpoint.",
        show_default=False,
        autocompletion=run_names,
    ),
]
"""Argument of verbs that load policies."""

RunFolder = Annotated[
    Path,
    typer.Argument(help="Directory of the run, or its name in runs/.", show_default=False, autocompletion=run_names),
]
"""Argument of verbs that read the files of a run."""

TrustedCode = Annotated[
    bool,
    typer.Option("--trust-code", help="Run code named by a foreign run (docs/trust.md); your own runs are trusted."),
]
"""Option of verbs that run code named by a run or an experiment."""

Provenance = dict[str, list[tuple[str, str]]]
"""For each setting all (source, value as text), lowest first; the last one wins."""


def find_run(run: Path) -> Path:
    """Returns the directory of a run, given its path or its name in ``runs/``.

    Raises:
        ConfigError: If there is none; with the newest existing ones.
    """
    for place in (run, ROOT / run):
        if (place / "config.yaml").is_file():
            return place
        if trial := find_trial(place.parent, place.name) or find_trial(place.parent.parent, place.name):
            return trial
        if (place / JOURNAL).is_file():
            raise ConfigError(
                f"{run}: this is an experiment of many runs; name one of its trials, as in {place / '00000'}; rookery "
                f"tune show {place} names the best one"
            )
        if (place / "run.lock").is_file():
            raise ConfigError(
                f"{place}: this run was killed before its settings were written; start it again with the same command"
            )
    raise not_found(run, "config.yaml", "run", "rookery train")


def find_experiment(folder: Path) -> Path:
    """Returns the folder of an experiment, given its path or its name in ``runs/``.

    Raises:
        ConfigError: If there is none; with the newest existing ones.
    """
    for place in (folder, ROOT / folder):
        if (place / JOURNAL).is_file():
            return place
    raise not_found(folder, JOURNAL, "experiment", "rookery tune")


def not_found(folder: Path, file: str, kind: str, maker: str) -> ConfigError:
    """Returns the error for a folder of another kind, with the newest existing ones.

    Args:
        folder: Path or name given by the user.
        file: File in folders of the kind.
        kind: The kind: ``run`` or ``experiment``.
        maker: Command that makes one.
    """
    no_file = f"this is not the directory of a{'n' * (kind[0] in 'aeiou')} {kind} (there is no {file} in it)"
    problem = no_file if folder.exists() else f"there is no such {kind}"
    roots = dict.fromkeys(root for root in (folder, folder.parent, ROOT) if root.is_dir())
    found = {path for root in roots for path in root.iterdir() if (path / file).is_file()}
    newest = sorted(found, key=lambda path: (-(path / file).stat().st_mtime, path.name))
    if folder.is_file():
        return ConfigError(
            f"{folder}: is a file, and not the directory of a{'n' * (kind[0] in 'aeiou')} {kind}; files of "
            "settings are for rookery train and rookery tune, those of ML-Agents for rookery mlagents learn"
        )
    if not newest:
        return ConfigError(f"{folder}: {problem}, and there is no {kind} in {ROOT}; {maker} makes one")
    near = nearest(folder.name, [path.name for path in newest])
    return ConfigError(f"{folder}: {problem}{near}; the newest are {', '.join(map(str, newest[:NEWEST]))}")


def find_trial(experiment: Path, name: str) -> Path | None:
    """Returns the directory of a training in an experiment, by the trial's name: ``runs/lr/00003``; None if absent."""
    if not re.fullmatch(r"\d{5,}(-\d+)?", name) or not (experiment / JOURNAL).is_file():
        return None
    found = [path for path in (experiment / "trials").glob(f"{name}*") if re.fullmatch(rf"{name}(_.*)?", path.name)]
    return next((path for path in found if (path / "config.yaml").is_file()), None)


def in_runs_folder(source: str) -> str:
    """Returns the argument of ``--replay``, with the path of the run if only its name in ``runs/`` was given."""
    name = re.split("[:*]", source, maxsplit=1)[0]
    return str(ROOT / source) if not Path(name).exists() and (ROOT / name).exists() else source


def find_saved(run: Path, checkpoint: str) -> Path:
    """Returns the checkpoint to load: `run` itself, or the ``last``, the ``best`` or a named one of a run.

    Raises:
        ConfigError: If there is none of that name; with the existing ones.
    """
    is_checkpoint = run.parent.name == FOLDER and checkpoint_number(run.name) and run.is_dir()
    if (run / MANIFEST).is_file() or is_checkpoint:  # reading reports a missing manifest
        return run
    run = find_run(run)
    found = {path.name: path for path in list_checkpoints(run / FOLDER)}
    if not found:
        raise ConfigError(
            f"{run}: the run has no checkpoint yet; rookery resume {run} continues it until it writes one"
        )
    there = ", ".join(found)
    wanted = f"{int(checkpoint):06d}" if checkpoint.isdigit() else checkpoint
    if checkpoint == "last":
        return list(found.values())[-1]
    if checkpoint == "best":
        wanted = best_name(run / FOLDER) or ""
        if not wanted:
            raise ConfigError(f"{run}: no checkpoint is marked as the best; there are {there}")
    if wanted not in found:
        raise ConfigError(f"{run}: --checkpoint {checkpoint}: there are {there}, best and last")
    return found[wanted]


def read_provenance(run: Path) -> Provenance:
    """Returns all values of each setting of a run, with their sources.

    Raises:
        ConfigError: If the run has no such file, or it cannot be read.
    """
    content = read_json(run / "provenance.json")
    return {path: [(source, value) for source, value in given] for path, given in content.items()}


def read_rows(run: Path) -> list[dict[str, Any]]:
    """Returns the rows of `metrics.jsonl`; an incomplete last line is left out.

    Raises:
        ConfigError: If the run has none yet, or a line cannot be read.
    """
    path = run / "metrics.jsonl"
    try:
        lines = read_content(path).decode().splitlines()
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file yet: no iteration of this run is over") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: the file cannot be read: {error}") from None
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            rows.append(parse_json(line))
        except ValueError:
            if number < len(lines):
                raise ConfigError(f"{path}:{number}: the line is not JSON") from None
    return rows


def read_json(path: Path) -> dict[str, Any]:
    """Returns the content of a file of a run; raises a ConfigError if it does not exist, or cannot be read."""
    try:
        content: dict[str, Any] = parse_json(read_content(path))
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file; the run is too old, or has not written it yet") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: the file cannot be read: {error}") from None
    return content
