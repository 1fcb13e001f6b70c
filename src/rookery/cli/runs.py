"""Where runs are: what a user calls one, made into its directory, or a message with those there are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from rookery.core.errors import ConfigError, nearest
from rookery.core.io.files import FOLDER, MANIFEST, checkpoint_number, list_checkpoints, read_content
from rookery.core.io.json_text import parse_json

ROOT = Path("runs")
"""Where runs are made, and looked for, unless a path says otherwise."""

JOURNAL = "journal.jsonl"
"""What the folder of an experiment has, and that of a run has not."""

NEWEST = 5

SavedRun = Annotated[
    Path, typer.Argument(help="Directory of the run, its name in runs/, or a checkpoint.", show_default=False)
]
"""The argument of verbs that load policies."""

TrustedCode = Annotated[
    bool,
    typer.Option("--trust-code", help="Run the code it names, whoever wrote it (docs/trust.md); one's own always is."),
]
"""The option of verbs that run code which a run or an experiment names."""

Provenance = dict[str, list[tuple[str, str]]]
"""For each setting every (source, value as text), lowest first; the last one won."""


def find_run(run: Path) -> Path:
    """Finds the directory of a run, given a path of it or its name in ``runs/``.

    Raises:
        ConfigError: If there is none; names the newest there are.
    """
    for place in (run, ROOT / run):
        if (place / "config.yaml").is_file():
            return place
        if trial := trial_in(place.parent, place.name) or trial_in(place.parent.parent, place.name):
            return trial
        if (place / JOURNAL).is_file():
            raise ConfigError(
                f"{run}: is an experiment of many runs; name one of its trials, as in {place / '00000'}; rookery tune "
                f"show {place} says which is the best"
            )
        if (place / "run.lock").is_file():
            raise ConfigError(
                f"{place}: this run was killed before its settings were written; begin it again by the command that "
                "began it"
            )
    raise not_found(run, "config.yaml", "run", "rookery train")


def find_experiment(folder: Path) -> Path:
    """Finds the folder of an experiment, given a path of it or its name in ``runs/``.

    Raises:
        ConfigError: If there is none; names the newest there are.
    """
    for place in (folder, ROOT / folder):
        if (place / JOURNAL).is_file():
            return place
    raise not_found(folder, JOURNAL, "experiment", "rookery tune")


def not_found(folder: Path, file: str, kind: str, maker: str) -> ConfigError:
    """Makes the error for a folder that is none of a kind; it names the newest there are.

    Args:
        folder: What the user said.
        file: File that folders of the kind have.
        kind: What was looked for: ``run`` or ``experiment``.
        maker: Command that makes one.
    """
    no_file = f"is not the directory of a{'n' * (kind[0] in 'aeiou')} {kind} (there is no {file} in it)"
    problem = no_file if folder.exists() else f"there is no such {kind}"
    roots = dict.fromkeys(root for root in (folder, folder.parent, ROOT) if root.is_dir())
    found = {path for root in roots for path in root.iterdir() if (path / file).is_file()}
    newest = sorted(found, key=lambda path: (-(path / file).stat().st_mtime, path.name))
    if not newest:
        return ConfigError(f"{folder}: {problem}, and there is no {kind} in {ROOT}; {maker} makes one")
    near = nearest(folder.name, [path.name for path in newest])
    return ConfigError(f"{folder}: {problem}{near}; the newest are {', '.join(map(str, newest[:NEWEST]))}")


def trial_in(experiment: Path, name: str) -> Path | None:
    """The directory of a training in an experiment, by the trial's name: ``runs/lr/00003``."""
    if not re.fullmatch(r"\d{5,}(-\d+)?", name) or not (experiment / JOURNAL).is_file():
        return None
    found = [path for path in (experiment / "trials").glob(f"{name}*") if re.fullmatch(rf"{name}(_.*)?", path.name)]
    return next((path for path in found if (path / "config.yaml").is_file()), None)


def in_runs(source: str) -> str:
    """A replay buffer as ``--replay`` takes it, with the path of the run where only its name in ``runs/`` was said."""
    name = re.split("[:*]", source, maxsplit=1)[0]
    return str(ROOT / source) if not Path(name).exists() and (ROOT / name).exists() else source


def find_saved(run: Path, checkpoint: str) -> Path:
    """What to load: a checkpoint that `run` names itself, or the ``last``, the ``best`` or one by name of a run.

    Raises:
        ConfigError: If there is none of that name; lists those there are.
    """
    from rookery.run.checkpoint.checkpoint import best_name

    is_checkpoint = run.parent.name == FOLDER and checkpoint_number(run.name) and run.is_dir()
    if (run / MANIFEST).is_file() or is_checkpoint:  # without a manifest, reading it says so
        return run
    run = find_run(run)
    found = {path.name: path for path in list_checkpoints(run / FOLDER)}
    if not found:
        raise ConfigError(f"{run}: holds no checkpoint yet; rookery resume {run} goes on with it until it writes one")
    there = ", ".join(found)
    wanted = f"{int(checkpoint):06d}" if checkpoint.isdigit() else checkpoint
    if checkpoint == "last":
        return list(found.values())[-1]
    if checkpoint == "best":
        wanted = best_name(run / FOLDER) or ""
        if not wanted:
            raise ConfigError(f"{run}: none of its checkpoints was called the best; there are {there}")
    if wanted not in found:
        raise ConfigError(f"{run}: --checkpoint {checkpoint}: there are {there}, best and last")
    return found[wanted]


def read_provenance(run: Path) -> Provenance:
    """Every value that each setting of a run was given.

    Raises:
        ConfigError: If the run has no record of that, or it cannot be read.
    """
    content = read_json(run / "provenance.json")
    return {path: [(source, value) for source, value in given] for path, given in content.items()}


def read_rows(run: Path) -> list[dict[str, Any]]:
    """The rows of `metrics.jsonl`; a last line that was cut short is left out.

    Raises:
        ConfigError: If the run has none yet, or a line cannot be read.
    """
    path = run / "metrics.jsonl"
    try:
        lines = read_content(path).decode().splitlines()
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is none yet: no iteration of this run is over") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            rows.append(parse_json(line))
        except ValueError:
            if number < len(lines):
                raise ConfigError(f"{path}:{number}: is not JSON") from None
    return rows


def read_json(path: Path) -> dict[str, Any]:
    """Reads a file of a run; raises a ConfigError if the run has none yet, or it cannot be read."""
    try:
        content: dict[str, Any] = parse_json(read_content(path))
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file; the run is too old, or has not got that far") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    return content
