"""`RunOptions`, `read_options`: options of an ML-Agents run from its configuration file and its flags."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path

from rookery.face import FOLDER, ConfigError, list_checkpoints, nearest
from rookery_mlagents.files.reading import Reader
from rookery_mlagents.files.reading_behaviors import ELSEWHERE_IN, read_behavior
from rookery_mlagents.files.reading_parameters import read_parameter
from rookery_mlagents.files.sections import (
    BehaviorOptions,
    CheckpointOptions,
    EngineOptions,
    EnvOptions,
    OwnOptions,
    ParameterOptions,
    Plain,
    TorchOptions,
)
from rookery_mlagents.files.yaml_file import Node, merged, read_tree
from rookery_mlagents.link.scheme import is_player
from rookery_mlagents.old.old_files import OLD, convert_command, is_old, old_file_message

__all__ = ["FLAGS", "BehaviorOptions", "RunOptions", "goes_on", "plain", "read_options"]


@dataclass(frozen=True)
class RunOptions:
    """All options of an ML-Agents run.

    Attributes:
        behaviors: The behaviours that the file names, each complete.
        default_settings: Settings of behaviours that the file does not name; None = such a behaviour is an error.
        places: Where each key was given, by its dotted path: ``ball.yaml:12`` or ``--seed``. Keys that have their
            default are not in it. Paths of behaviours hold the behaviour's name, wherever its value came from.
        file: Path of the configuration file as given; None = no file.
        folder: Directory of that file.
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
    folder: Path | None = None
    notes: tuple[str, ...] = ()

    @property
    def plays_unity(self) -> bool:
        """Whether the environment is a Unity player or the Editor, instead of a Python environment."""
        path = self.env_settings.env_path
        return path is None or is_player(path)

    def of(self, behavior: str) -> BehaviorOptions:
        """Returns the options of a behaviour.

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

    def place_of(self, behavior: str, key: str) -> str | None:
        """Returns the place where a key of a behaviour, ``hyperparameters.beta``, was set; None if it has its
        default.
        """
        section = f"behaviors.{behavior}" if behavior in self.behaviors else "default_settings"
        return self.places.get(f"{section}.{key}")

    def with_behaviors(self, names: Iterable[str]) -> RunOptions:
        """Returns options with an entry for each of some behaviours, as in ``configuration.yaml``.

        Raises:
            ConfigError: As `of`.
        """
        return replace(self, behaviors={**self.behaviors, **{name: self.of(name) for name in names}})

    def as_dict(self) -> dict[str, Plain]:
        """Returns the mapping for ``configuration.yaml``: every key, with values in the types of YAML."""
        beside = {"places", "file", "folder", "notes"}
        return {one.name: plain(getattr(self, one.name)) for one in fields(self) if one.name not in beside}


def plain(value: object) -> Plain:
    """Returns options in the types of YAML.

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
"""Key of each flag of ``mlagents-learn``, by the flag's name with underscores; the additional flag ``deterministic``
sets ``network_settings.deterministic`` of all behaviours."""


SECTIONS = (
    "default_settings",
    "behaviors",
    "env_settings",
    "engine_settings",
    "environment_parameters",
    "checkpoint_settings",
    "torch_settings",
    "debug",
)
"""Top-level keys of a file."""


def read_options(path: str | Path | None, flags: Mapping[str, object]) -> RunOptions:
    """Reads the options of a run.

    Args:
        path: A configuration file; None = there is none, and every behaviour has the defaults.
        flags: Flags that were given, by their names with underscores, as in `FLAGS`, and ``deterministic``; None =
            not given.

    Raises:
        ConfigError: With a line for each mistake: ``file:line: key = value: what is allowed; what to do``.
    """
    tree = Node({}, "") if path is None else read_tree(path)
    reader = Reader(ELSEWHERE_IN)
    if path is not None:
        _refuse_old(tree, Path(path))
    tree = _with_flags(tree, flags, reader)
    inside = reader.mapping(tree, "")
    reader.refuse_unknown(inside, SECTIONS, "")
    empty = Node({}, "")
    common = inside.get("default_settings")
    default = None
    if common is not None and common.value is None:
        common = None
    if common is not None:
        default = read_behavior(reader, common, "default_settings", None)
    behaviors = {}
    for name, node in reader.mapping(inside.get("behaviors", empty), "behaviors").items():
        behaviors[name] = read_behavior(reader, node, f"behaviors.{name}", common)
    if path is None:
        settings = Node({}, "")
        if flags.get("deterministic"):
            settings = Node({"network_settings": Node({"deterministic": Node(True, "--deterministic")}, "")}, "")
        default = read_behavior(reader, settings, "default_settings", None)
        reader.notes.append("no configuration file is given: every behaviour has the defaults of ML-Agents")
    parameters = reader.mapping(inside.get("environment_parameters", empty), "environment_parameters")
    options = RunOptions(
        behaviors,
        default,
        reader.section(EnvOptions, inside.get("env_settings", empty), "env_settings"),
        reader.section(EngineOptions, inside.get("engine_settings", empty), "engine_settings"),
        {
            name: read_parameter(reader, name, node, list(behaviors), default is not None)
            for name, node in parameters.items()
        },
        _one_start(
            reader, reader.section(CheckpointOptions, inside.get("checkpoint_settings", empty), "checkpoint_settings")
        ),
        reader.section(TorchOptions, inside.get("torch_settings", empty), "torch_settings"),
        bool(reader.value(bool, inside.get("debug", Node(False, "")), "debug")),
        reader.places,
        None if path is None else str(path),
        None if path is None else Path(path).parent,
    )
    if options.env_settings.num_envs > 1 and options.env_settings.env_path is None:
        place = reader.places.get("env_settings.num_envs", "default")
        reader.problems.append(
            f"{place}: env_settings.num_envs = {options.env_settings.num_envs}: must be 1 where no environment is "
            "named: give --env, or env_path"
        )
    reader.done()
    return replace(options, notes=tuple(dict.fromkeys(reader.notes)))


def demo_place(demo: str, beside: Path | None) -> Path | None:
    """Returns the file or directory of a ``demo_path``: relative to the working directory, or to the configuration
    file.

    Args:
        demo: The given path; also ``PATH:policy`` of a replay of Rookery.
        beside: Directory of the configuration file; None = there is none.
    """
    for text in (demo, demo.rpartition(":")[0]):
        for start in (Path(), *([] if beside is None else [beside])):
            if text and (start / text).exists():
                return start / text
    return None


def demonstration_problem(options: RunOptions, behavior: str, key: str, demo: str) -> str | None:
    """Returns the problem of demonstrations: they do not exist or are not in ML-Agents' format; None if they are valid.

    Args:
        options: Options of the run.
        behavior: The behaviour that imitates.
        key: The key in its section, ``behavioral_cloning.demo_path``.
        demo: The key's value.
    """
    place, found = options.place_of(behavior, key), demo_place(demo, options.folder)
    start = f"{place or options.file or 'default'}: {behavior}: {key} = {demo!r}: "
    if found is None:
        return (
            f"{start}there is no such file or directory, neither from here ({Path.cwd()}) nor from where the "
            "configuration file is; a path of Unity's project has to be written so that it can be found"
        )
    if found.is_file() and found.suffix != ".demo":
        return (
            f"{start}a file of demonstrations ends in .demo; give one, a directory of them, or a directory that "
            "rookery replay record or rookery replay import has written"
        )
    if found.is_dir() and not any(found.iterdir()):
        return f"{start}the directory is empty"
    return None


def _with_flags(tree: Node, flags: Mapping[str, object], reader: Reader) -> Node:
    """Merges flags over the settings of a file."""
    for name, value in flags.items():
        if value is None:
            continue
        flag = f"--{name.replace('_', '-')}"
        if name == "deterministic":
            tree = _deterministic(tree, bool(value), flag)
            continue
        if name in ("torch", "tensorflow"):
            reader.notes.append(f"{flag} does nothing: networks are torch's")
            continue
        if name not in FLAGS:
            known = nearest(name.replace("_", "-"), [one.replace("_", "-") for one in FLAGS])
            reader.problems.append(f"{flag}: there is no such flag{known}")
            continue
        if name in ("load", "train"):
            meant = "--resume" if name == "load" else "nothing: training is what happens without --inference"
            reader.notes.append(f"{flag} is of old versions, and does nothing; today it is {meant}")
        *sections, key = FLAGS[name].split(".")
        written = list(value) if isinstance(value, tuple | list) else value
        node = (
            Node([Node(str(one), flag) for one in written], flag)
            if isinstance(written, list)
            else Node(written if isinstance(written, bool | int | float) else str(written), flag)
        )
        for section in [key, *reversed(sections)]:
            node = Node({section: node}, "")
        tree = merged(tree, node)
    return tree


def _deterministic(tree: Node, value: bool, flag: str) -> Node:
    """Sets ``deterministic`` in the network settings of all behaviours."""
    settings = Node({"network_settings": Node({"deterministic": Node(value, flag)}, "")}, "")
    inside = tree.section or {}
    over: dict[str, Node] = {}
    if inside.get("default_settings") is not None:
        over["default_settings"] = settings
    named = inside["behaviors"].section if "behaviors" in inside else None
    if named:
        over["behaviors"] = Node(dict.fromkeys(named, settings), "")
    return merged(tree, Node(over, ""))


def goes_on(settings: CheckpointOptions) -> bool:
    """Returns whether a run will be resumed and has a checkpoint; without one it starts with initial weights."""
    return settings.resume and bool(list_checkpoints(Path(settings.results_dir) / settings.run_id / FOLDER))


def _one_start(reader: Reader, settings: CheckpointOptions) -> CheckpointOptions:
    """Selects one of ``resume`` and ``initialize_from``: a flag takes precedence over the file, then ``resume``, unless
    the run has no checkpoint and starts anew.
    """
    if not (settings.resume and settings.initialize_from is not None):
        return settings
    by_flag = [
        key for key in ("resume", "initialize_from")
        if reader.places.get(f"checkpoint_settings.{key}", "").startswith("--")
    ]  # fmt: skip
    if by_flag == ["initialize_from"]:
        reader.notes.append("--initialize-from counts, and resume of the file does not")
        return replace(settings, resume=False)
    if not goes_on(settings):
        return settings
    reader.notes.append("resume counts, and initialize_from does not: a resumed run has its own weights")
    return replace(settings, initialize_from=None)


def _refuse_old(tree: Node, path: Path) -> None:
    """Raises an error for files of ML-Agents 0.13 to 0.18, which have another format."""
    document = tree.written()
    if not isinstance(document, Mapping):
        raise ConfigError(
            f"{tree.place}: must be a mapping of sections, behaviors first, not {type(tree.value).__name__}"
        )
    inside = tree.section or {}
    behaviors = inside["behaviors"].section or {} if "behaviors" in inside else {}
    flat = [one["trainer"] for node in behaviors.values() if "trainer" in (one := node.section or {})]
    if flat:  # of between 0.16 and the form of today
        raise ConfigError(
            f"{flat[0].place}: behaviors have the flat keys of {OLD} (trainer); convert the file: "
            f"{convert_command(path)}"
        )
    if is_old(document):
        raise ConfigError(old_file_message(path, document))
