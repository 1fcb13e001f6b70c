"""Files that Rookery writes into the directory of a run or an experiment, and removes when the run is replaced.

All other files there belong to the user and stay. A run or an experiment that was killed at its start, before its first
row and its first checkpoint, is moved aside at the next start.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from rookery.core.errors import ConfigError
from rookery.core.io.files import FOLDER, NUMBERED, FileError, WriteError, list_checkpoints
from rookery.core.io.leftovers import REPLACED, TEMPORARY, locked
from rookery.core.io.signing import is_signed_text
from rookery.core.settings.layers import yaml_layer
from rookery.core.settings.starting_folder import shown
from rookery.envs.logs import PLAYER_LOGS
from rookery.report.metrics_file import read_rows

CONFIG = "config.yaml"

TOKEN_FILE = "token"
"""The file with the token for clients of the environment; a run that replaces another keeps it."""

STAYING = ("run.lock", TOKEN_FILE, PLAYER_LOGS)
"""Files of Rookery that are not removed when a run is replaced: the start of the new run has written them."""

LEFTOVER = rf"{re.escape(TEMPORARY)}.+|{re.escape(REPLACED)}.+"

EVENTS = r"events\.out\.tfevents\..+"

TOP = re.compile(
    rf"{LEFTOVER}|{EVENTS}|config\.yaml|provenance\.json|command\.txt|versions\.json|metrics\.jsonl|timers\.json|"
    rf"script\.json|result\.json|judged\.jsonl|judged\.png|elo\.png|token|serve\.token|run\.lock|log\.txt|params\.json|error\.txt|"
    rf"trial\.json|checkpoints\.new|\.visible|configuration\.yaml|{PLAYER_LOGS}"
)
"""Names in the directory itself; of ML-Agents' files `configuration.yaml`, and of trials `params.json` and others."""

CHECKPOINT = NUMBERED.pattern

FOLDERS = {
    FOLDER: re.compile(rf"{LEFTOVER}|(?:{CHECKPOINT})(?:\.rank\d+)?|best\.json"),
    "videos": re.compile(rf"(?:{CHECKPOINT})\.\w+"),
    "demonstrations": re.compile(rf"{LEFTOVER}|.+-[0-9a-f]{{8}}"),
}
"""Names in folders of the directory."""

EXPERIMENT = re.compile(rf"{LEFTOVER}|{EVENTS}|journal\.jsonl|experiment\.yaml|trials|log\.txt")
"""Names in the directory of an experiment; ``trials`` holds directories of runs."""

JOURNAL, TRIALS = "journal.jsonl", "trials"

REPORTED = b'"kind":"result"'
"""Part of each journal line with a result of a trial."""

KILLED = "killed-at-start"
"""Ending of the name of a run that was moved aside because it was killed at its start."""

SHOWN = 5
"""Maximum number of paths in a note."""


def entries(folder: Path) -> Iterator[tuple[Path, bool]]:
    """Yields each path in the directory of a run and in the folders of Rookery there, and whether Rookery wrote it."""
    behaviors = behaviors_in(folder)
    inside = FOLDERS | {
        name: re.compile(rf"{LEFTOVER}|{EVENTS}|{re.escape(name)}-\d+(?:\.onnx)?") for name in behaviors
    }
    models = {f"{name}.onnx" for name in behaviors}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.name in inside and path.is_dir():
            yield from ((child, bool(inside[path.name].fullmatch(child.name))) for child in sorted(path.iterdir()))
        else:
            is_own = path.name in models or bool(TOP.fullmatch(path.name))
            yield path, is_own and not path.is_symlink()


def behaviors_in(folder: Path) -> list[str]:
    """Returns the names of the policies of a run in ML-Agents' files."""
    try:
        policies = yaml_layer(folder / CONFIG).values.get("policies")
    except (ConfigError, OSError):
        return []
    names = map(str, policies) if isinstance(policies, dict) else ()
    return [re.sub(r"[/\\\0]", "_", name) for name in names]


def foreign(folder: Path) -> list[Path]:
    """Returns the paths in the directory of a run that Rookery did not write."""
    return [path for path, is_own in entries(folder) if not is_own]


def holds_run(folder: Path) -> bool:
    """Returns whether Rookery wrote any file of a folder."""
    return any(is_own for _, is_own in entries(folder))


def has_begun(folder: Path) -> bool:
    """Returns whether a run has a row or a checkpoint."""
    return bool(read_rows(folder) or list_checkpoints(folder / FOLDER))


def was_killed_at_start(folder: Path) -> bool:
    """Returns whether a folder is empty, or holds nothing but the start of a run; its lock is not checked."""
    return folder.is_dir() and not has_begun(folder) and not foreign(folder)


def free_name(folder: Path, ending: str) -> Path:
    """Returns the path of a folder with an ending, and with a number if that exists."""
    first = folder.with_name(f"{folder.name}.{ending}")
    names = itertools.chain([first], (first.with_name(f"{first.name}-{number}") for number in itertools.count(2)))
    return next(path for path in names if not path.exists())


def aside_of_killed(folder: Path) -> Path:
    """Returns a free path for a run that was killed at its start."""
    return free_name(folder, KILLED)


def refuse_links(folder: Path) -> None:
    """Refuses the directory of a run in which a file or folder of Rookery is a link.

    Writing would change the target of the link, anywhere on the disk. Folders of the user's own runs may be links.

    Raises:
        FileError: If there is one; with advice.
    """
    config = folder / CONFIG
    is_own = config.is_file() and is_signed_text(CONFIG, config.read_text(encoding="utf-8", errors="replace"))
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        is_folder = path.name in FOLDERS or path.name == PLAYER_LOGS
        if path.is_symlink() and (is_folder or TOP.fullmatch(path.name)) and not (is_own and is_folder):
            raise _linked(path)


def refuse_links_of_trials(folder: Path) -> None:
    """Refuses an experiment in which files or folders of Rookery are links, as `refuse_links` does.

    Raises:
        FileError: If there is one; with advice.
    """
    refuse_links(folder)
    for path in (folder / JOURNAL, folder / TRIALS, *sorted((folder / TRIALS).glob("*"))):
        if path.is_symlink():
            raise _linked(path)
        refuse_links(path)


def _linked(path: Path) -> FileError:
    what = f"is a link to {os.readlink(path)}, which would be written to"
    return FileError(f"{shown(path)}: {what}; replace it by its target, or remove it")


def remove(folder: Path, keep: Collection[str] = STAYING) -> list[Path]:
    """Removes the files of Rookery from the directory of a run, settings first, so that remains do not look like a run.

    Args:
        folder: Directory of the run.
        keep: Names in it that stay.

    Returns:
        The paths that Rookery did not write, which stay.

    Raises:
        FileError: If a file cannot be removed; names it.
    """
    found = list(entries(folder))
    removable = [path for path, is_own in found if is_own and not {path.name, path.parent.name} & set(keep)]
    for path in sorted(removable, key=lambda path: path.name != CONFIG):
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise WriteError(f"{path}: cannot be removed: {error.strerror}") from None
    for parent in {path.parent for path in removable} - {folder}:
        with suppress(OSError):  # not empty, or a link
            parent.rmdir()
    return [path for path, is_own in found if not is_own]


def kept_note(folder: Path, kept: Iterable[Path]) -> list[str]:
    """Returns a note on the paths that were not removed; an empty list if there are none."""
    names = [str(path.relative_to(folder)) for path in kept]
    if not names:
        return []
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return [f"{shown(folder)}: kept what Rookery did not write: {', '.join(names[:SHOWN])}{more}"]


def killed_note(folder: Path, aside: Path) -> str:
    """Returns a note on a run that was moved aside because it was killed at its start."""
    where = f"its files are in {shown(aside)} now"
    return f"{shown(folder)}: an earlier start was killed before its first iteration was over; {where}"


def experiment_was_killed_at_start(folder: Path) -> bool:
    """Returns whether a folder is empty, or holds nothing but an experiment without a result of any trial."""
    if not folder.is_dir() or not all(EXPERIMENT.fullmatch(path.name) for path in folder.iterdir()):
        return False
    journal = folder / JOURNAL
    lines = journal.read_bytes().splitlines() if journal.exists() else []
    return not any(REPORTED in line for line in lines) and all(map(was_killed_at_start, (folder / TRIALS).glob("*")))


def move_killed_experiment(folder: Path) -> list[str]:
    """Moves aside an experiment that was killed at its start, if there is one; returns notes.

    Raises:
        FileError: If it is running, or cannot be moved.
    """
    if not experiment_was_killed_at_start(folder) or not any(path.stat().st_size for path in folder.iterdir()):
        return []
    with locked(folder / JOURNAL, patience=0.0) as is_free:
        if is_free is False:
            raise FileError(f"{folder}: this experiment is running; wait for it or stop it")
        aside = aside_of_killed(folder)
        try:
            folder.rename(aside)
        except OSError as error:
            raise WriteError(f"{folder}: cannot be moved aside: {error.strerror}") from None
    return [killed_note(folder, aside)]


def remove_trials(folder: Path) -> list[str]:
    """Removes the files of Rookery from the trials of an experiment; returns a note on other files, which stay.

    Raises:
        FileError: If a file cannot be removed; names it.
    """
    kept = []
    for trial in sorted((folder / TRIALS).glob("*")):
        kept += remove(trial, keep=()) if trial.is_dir() and not trial.is_symlink() else [trial]
        with suppress(OSError):  # not empty
            trial.rmdir()
    return kept_note(folder, kept)
