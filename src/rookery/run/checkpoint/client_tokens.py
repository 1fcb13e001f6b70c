"""Token file in the directory of a run, for its external clients (`envs/external/env.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from rookery.core.io.files import FOLDER
from rookery.core.settings.layers import nested
from rookery.envs.external.env import SCHEME
from rookery.run.checkpoint.checkpoint import Saved
from rookery.run.checkpoint.own_files import TOKEN_FILE

RUN_DIRECTORY = "run directory"
"""Source of the path of a token file in the directory of its run."""

PATH = "env.config.token_file"


def token_path(folder: Path) -> str:
    """Returns the path of the token file of a run."""
    return str((folder / TOKEN_FILE).absolute())


def with_own_token(saved: Saved) -> Saved:
    """Returns a run with the current path of the token file in its directory, since the run may have been copied."""
    source = saved.history.get(PATH, [("", None)])[-1][0]
    if source != RUN_DIRECTORY or saved.path.parent.name != FOLDER:
        return saved
    return _with(saved, saved.path.parent.parent)


def with_new_token(saved: Saved, folder: Path) -> Saved:
    """Returns a foreign run with a new token file in the directory where it is resumed; an old one is removed."""
    env = nested(saved.values).get("env")
    if not (isinstance(env, Mapping) and str(env.get("name")).startswith(SCHEME)):
        return saved
    with suppress(FileNotFoundError):
        (folder / TOKEN_FILE).unlink()
    return _with(saved, folder)


def _with(saved: Saved, folder: Path) -> Saved:
    values = {**saved.values, PATH: token_path(folder)}
    return replace(saved, values=values, history={**saved.history, PATH: [(RUN_DIRECTORY, values[PATH])]})
