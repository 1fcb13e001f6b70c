"""Folders of the relative paths in a stored run: paths are stored as typed, together with the folder they refer to.

A checkpoint has the folder of each such setting beside its settings, `config.yaml` in a comment; both are signed. Where
the signature is not the user's own, the folders are not used: paths refer to the working directory (docs/trust.md).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rookery.algorithms.names import ALGORITHMS
from rookery.core.config import Resolved, resolve
from rookery.core.io.json_text import parse_json
from rookery.core.io.signing import is_signed_text
from rookery.core.settings.layers import Layer
from rookery.core.settings.path_settings import locate
from rookery.core.settings.reach import argument_hints
from rookery.core.settings.starting_folder import is_relative, started_in, starting_folder
from rookery.envs.foreign_config import maker_of
from rookery.envs.schemes import scheme_of
from rookery.run.settings import RunConfig

COMMENT = "# folders of relative paths: "
"""Begins the line of `config.yaml` with the folders."""

NAME, ARGUMENT = "env.name", "env.config.{}"
"""Paths of the settings of an environment that may be or hold paths."""


def folders_of(resolved: Resolved[RunConfig]) -> dict[str, str]:
    """Returns the folder of each setting that may hold relative paths, by path of the setting."""
    name = resolved.history[NAME][-1][1]
    is_plain = not (isinstance(name, str) and set(name) & set("./"))  # such as CartPole-v1
    return {path: folder for path, folder in resolved.folders.items() if path != NAME or not is_plain}


def with_folders(text: str, resolved: Resolved[RunConfig]) -> str:
    """Returns the text of `config.yaml` with a last line, a comment, that holds the folders, if there are any."""
    folders = folders_of(resolved)
    return f"{text}{COMMENT}{json.dumps(folders)}\n" if folders else text


def without_folders(text: str) -> str:
    """Returns a text of `with_folders` without the folders."""
    return text.rpartition(COMMENT)[0] or text


def folders_in(file: Path) -> dict[str, str]:
    """Returns the folders in a file `config.yaml`; none if it does not have the user's signature."""
    text = file.read_text(encoding="utf-8", errors="replace")
    if COMMENT not in text or not is_signed_text("config.yaml", text):
        return {}
    found: dict[str, str] = parse_json(text.rpartition(COMMENT)[2].partition("\n")[0])
    return found


def resolve_run(layers: Sequence[Layer]) -> Resolved[RunConfig]:
    """Resolves the settings of a run, with paths of a stored environment from the folder where its run was started.

    Environments are made in the starting folder, to which their relative paths refer. Paths of a stored run that was
    started elsewhere refer to the folder there: the file that is an environment's name, and arguments that are marked
    as paths. Whether a text is a path for a third-party environment is not known.
    """
    resolved: Resolved[RunConfig] = resolve(RunConfig, layers, ALGORITHMS)
    here, env = starting_folder(), resolved.config.env
    elsewhere = {path: folder for path, folder in resolved.folders.items() if folder not in ("", here)}
    notes: list[str] = []
    if NAME in elsewhere and isinstance(env.name, str):
        env = env.replace(name=_located_name(env.name, (elsewhere[NAME], here), notes))
    stored = {name: folder for name in env.config if (folder := elsewhere.get(ARGUMENT.format(name)))}
    hints = argument_hints(maker_of(env.name)) if stored else {}
    for name in stored.keys() & hints.keys():
        value, _, found = locate(hints[name], env.config[name], (stored[name], here))
        env = env.replace(config={**env.config, name: value})
        notes += [f"{ARGUMENT.format(name)} = {note}" for note in found]
    if env is resolved.config.env:
        return resolved
    return replace(resolved, config=resolved.config.replace(env=env), notes=(*resolved.notes, *notes))


def as_typed(resolved: Resolved[RunConfig]) -> RunConfig:
    """Returns the settings with the environment's paths as typed: machines of a cluster have other folders.

    Its working directory is absolute, since it is sent from here.
    """
    config, history = resolved.config, resolved.history
    if config.cluster.ray == "here":
        return config
    typed = {
        name: history[path][-1][1] if (path := ARGUMENT.format(name)) in history else value
        for name, value in config.env.config.items()
    }
    return config.replace(env=config.env.replace(name=history[NAME][-1][1], config=typed))


def _located_name(name: str, folders: Sequence[str], notes: list[str]) -> str:
    """Returns the name of an environment, as an absolute path if it is a file in one of these folders."""
    scheme = scheme_of(name)
    file = scheme.file_in(name)
    if not file or not is_relative(file):
        return name
    for folder in folders:
        with started_in(folder):
            if scheme.has_file(name):
                if folder != folders[0]:
                    notes.append(f"{NAME} = {name}: is not in {folders[0]}, where the run was started; {folder} has it")
                return f"{name.removesuffix(file)}{Path(folder, file)}"
    return name
