"""Settings of ``rookery train external:PORT``: the spaces from a file, and the path of the token."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rookery.core.errors import ConfigError
from rookery.core.settings.layers import Layer, yaml_layer


def space_values(file: Path | None) -> dict[str, Any]:
    """Returns the observation and action spaces of a file, as a setting by its path; nothing without a file.

    Args:
        file: YAML or JSON: ``obs`` and ``action``, or ``agents`` with these two by name.

    Raises:
        ConfigError: If it cannot be read, or does not describe spaces; with file and line.
    """
    if file is None:
        return {}
    from rookery.core.errors import EnvError
    from rookery.envs.external.spaces import read_spaces

    layer = yaml_layer(file)  # JSON is YAML
    try:
        read_spaces(layer.values)
    except EnvError as error:
        place = str(error).partition(":")[0].removeprefix("spaces.")
        raise ConfigError(f"{_place_of(layer, place, file)}: {error}") from None
    return {"env.config.spaces": dict(layer.values)}


def _place_of(layer: Layer, place: str, file: Path) -> str:
    """Returns the place of a path in a file, or of the nearest path above it."""
    while place:
        if place in layer.lines:
            return layer.lines[place]
        place = place.rpartition(".")[0]
    return file.name


def token_layer(layers: Sequence[Layer], folder: Path) -> list[Layer]:
    """Returns a layer that keeps the token in the folder of a run, for external clients if no token is given.

    Args:
        layers: The layers of the command.
        folder: The folder of the run.
    """
    from rookery.algorithms.names import ALGORITHMS
    from rookery.core.config import resolve
    from rookery.envs.external.env import SCHEME, TOKEN
    from rookery.run.checkpoint.client_tokens import PATH, RUN_DIRECTORY, token_path
    from rookery.run.settings import RunConfig

    env = resolve(RunConfig, layers, ALGORITHMS).config.env
    if not str(env.name).startswith(SCHEME) or os.environ.get(TOKEN) or {"token", "token_file"} & env.config.keys():
        return []
    return [Layer(RUN_DIRECTORY, {PATH: token_path(folder)})]
