"""Options that ``configuration.yaml`` of a foreign run may set (docs/trust.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rookery.face import (
    ConfigError,
    Objection,
    Trust,
    TrustCode,
    is_signed_text,
    objections_to,
    of_settings,
    override_layer,
    refuse_reach,
    texts_in,
    yaml_layer,
)
from rookery_mlagents.files.run_options import FLAGS
from rookery_mlagents.files.sections import CheckpointOptions, EngineOptions, EnvOptions, TorchOptions
from rookery_mlagents.link.scheme import is_player

DEMONSTRATIONS = "demo_path"

SECTIONS = {
    "env_settings": EnvOptions,
    "engine_settings": EngineOptions,
    "checkpoint_settings": CheckpointOptions,
    "torch_settings": TorchOptions,
}


def check_reach(configuration: Path, flags: Mapping[str, object], trust_code: TrustCode) -> None:
    """Raises an error for options of a foreign run that give access to a program or a path.

    The file has no signature. Texts that are also in a ``config.yaml`` beside it with the user's signature are the
    user's own, and so are the demonstrations then, which that file names in another way.

    Args:
        configuration: The file.
        flags: The user's own options now, by the names of flags.
        trust_code: What of the code that the run names may be run.

    Raises:
        ConfigError: With a line for each option.
    """
    beside = configuration.with_name("config.yaml")
    text = beside.read_text(encoding="utf-8") if beside.is_file() else ""
    if Trust.of(False, trust_code).everything:
        return
    is_own = is_signed_text("config.yaml", text)
    given_paths = {FLAGS[name] for name, value in flags.items() if value is not None and name in FLAGS}
    found = objections_in(yaml_layer(configuration).values, flags.get("env"))
    refuse_reach(
        configuration, (one for one in found if one.path not in given_paths and not (is_own and _is_known(one, text)))
    )


def _is_known(one: Objection, text: str) -> bool:
    return one.path.endswith(DEMONSTRATIONS) or all(part in text for part in texts_in(one.value))


def objections_in(values: Mapping[str, Any], given_env: object = None) -> Iterator[Objection]:
    """Yields the objections to foreign options.

    Args:
        values: The options.
        given_env: The environment that the user gives instead of that of the file.
    """
    for name, section in SECTIONS.items():
        given = values.get(name)
        if isinstance(given, Mapping):
            yield from of_settings(section, given, name)
    env = values.get("env_settings")
    if isinstance(env, Mapping) and env.get("env_args"):
        path, player = "env_settings.env_args", given_env or env.get("env_path")
        words = [str(word).lstrip("-") for word in env["env_args"]]
        if player is None or is_player(str(player)):
            yield Objection(path, words, "reaches a program")
        else:
            try:
                given = override_layer(words).values
            except ConfigError:
                given = {"": words}
            yield from (Objection(path, words, one.why) for one in objections_to(player, given))
    yield from _paths_in(values.get("behaviors"), "behaviors")
    yield from _paths_in(values.get("default_settings"), "default_settings")


def _paths_in(values: Any, path: str) -> Iterator[Objection]:
    """Yields the paths of demonstrations in the settings of behaviours."""
    for key, value in values.items() if isinstance(values, Mapping) else ():
        if key == DEMONSTRATIONS and value:
            yield Objection(f"{path}.{key}", value, "reaches a path")
        yield from _paths_in(value, f"{path}.{key}")
