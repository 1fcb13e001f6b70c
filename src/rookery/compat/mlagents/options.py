"""Options of an ML-Agents run, as its configuration file and its flags give them: `RunOptions`, `read_options`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path

from rookery.compat.mlagents.sections import (
    BehaviorOptions,
    CheckpointOptions,
    EngineOptions,
    EnvOptions,
    OwnOptions,
    ParameterOptions,
    Plain,
    TorchOptions,
)
from rookery.core.errors import ConfigError, nearest

__all__ = ["FLAGS", "BehaviorOptions", "RunOptions", "plain", "read_options"]


@dataclass(frozen=True)
class RunOptions:
    """Everything that decides an ML-Agents run.

    Attributes:
        behaviors: The behaviours that the file names, each complete.
        default_settings: What a behaviour gets that the file does not name; None = such a behaviour is an error.
        places: Where each key was given, by its dotted path: ``ball.yaml:12`` or ``--seed``. Keys that have their
            default are not in it. Paths of behaviours hold the behaviour's name, wherever its value came from.
        file: Name of the configuration file; None = none was given.
        notes: Lines that a user should read once.
    """

    behaviors: dict[str, BehaviorOptions] = field(default_factory=dict)
    default_settings: BehaviorOptions | None = None
    env_settings: EnvOptions = field(default_factory=EnvOptions)
    engine_settings: EngineOptions = field(default_factory=EngineOptions)
    environment_parameters: dict[str, ParameterOptions] = field(default_factory=dict)
    checkpoint_settings: CheckpointOptions = field(default_factory=CheckpointOptions)
    torch_settings: TorchOptions = field(default_factory=TorchOptions)
    debug: bool = False
    places: dict[str, str] = field(default_factory=dict)
    file: str | None = None
    notes: tuple[str, ...] = ()

    def of(self, behavior: str) -> BehaviorOptions:
        """Gives the options of a behaviour.

        Raises:
            ConfigError: If the file does not name it and has no ``default_settings``.
        """
        if behavior in self.behaviors:
            return self.behaviors[behavior]
        if self.default_settings is not None:
            return self.default_settings
        near = nearest(behavior, list(self.behaviors))
        raise ConfigError(
            f"{self.file}: behaviors: the environment has a behaviour {behavior!r}, and there is no such entry{near}; "
            "add one, or default_settings for all that have none"
        )

    def as_dict(self) -> dict[str, Plain]:
        """Gives the mapping that ``configuration.yaml`` holds: every key, and values as YAML has them."""
        beside = {"places", "file", "notes"}
        return {one.name: plain(getattr(self, one.name)) for one in fields(self) if one.name not in beside}


def plain(value: object) -> Plain:
    """Gives options as YAML has them.

    Raises:
        TypeError: If a value is of a type that YAML does not have.
    """
    if isinstance(value, OwnOptions):
        return value.values
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{value!r} has no form in YAML")


FLAGS = {
    "env": "env_settings.env_path",
    "env_args": "env_settings.env_args",
    "base_port": "env_settings.base_port",
    "num_envs": "env_settings.num_envs",
    "num_areas": "env_settings.num_areas",
    "timeout_wait": "env_settings.timeout_wait",
    "seed": "env_settings.seed",
    "max_lifetime_restarts": "env_settings.max_lifetime_restarts",
    "restarts_rate_limit_n": "env_settings.restarts_rate_limit_n",
    "restarts_rate_limit_period_s": "env_settings.restarts_rate_limit_period_s",
    "width": "engine_settings.width",
    "height": "engine_settings.height",
    "quality_level": "engine_settings.quality_level",
    "time_scale": "engine_settings.time_scale",
    "target_frame_rate": "engine_settings.target_frame_rate",
    "capture_frame_rate": "engine_settings.capture_frame_rate",
    "no_graphics": "engine_settings.no_graphics",
    "no_graphics_monitor": "engine_settings.no_graphics_monitor",
    "run_id": "checkpoint_settings.run_id",
    "initialize_from": "checkpoint_settings.initialize_from",
    "load": "checkpoint_settings.load_model",
    "resume": "checkpoint_settings.resume",
    "force": "checkpoint_settings.force",
    "train": "checkpoint_settings.train_model",
    "inference": "checkpoint_settings.inference",
    "results_dir": "checkpoint_settings.results_dir",
    "torch_device": "torch_settings.device",
    "debug": "debug",
}
"""The key that each flag of ``mlagents-learn`` sets, by the flag's name with underscores; ``deterministic`` is beside
them, which sets ``network_settings.deterministic`` of all behaviours."""


def read_options(path: str | Path | None, flags: Mapping[str, object]) -> RunOptions:
    """Reads the options of a run.

    Args:
        path: A configuration file; None = there is none, and every behaviour has the defaults.
        flags: Flags that were given, by their names with underscores, as in `FLAGS`; None = not given.

    Raises:
        ConfigError: With a line for each mistake: ``file:line: key = value: what is allowed; what to do``.
    """
    raise NotImplementedError
