"""What ``rookery mlagents learn`` does: options become a training of Rookery, in a folder as ML-Agents makes it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rookery.compat.mlagents.behaviors import behaviors_of
from rookery.compat.mlagents.options import RunOptions, read_options
from rookery.compat.mlagents.run_files import CONFIGURATION, RunFiles, folder_name
from rookery.compat.mlagents.sections import BehaviorOptions
from rookery.compat.mlagents.their_weights import check_kind, read_weights, take_over
from rookery.compat.mlagents.translate import BehaviorSpaces, layers_of
from rookery.core.errors import ConfigError, nearest
from rookery.core.files import FOLDER, list_checkpoints, read_checkpoint_files
from rookery.core.layers import Layer, override_layer
from rookery.core.trust import TrustCode
from rookery.envs.make import make_env
from rookery.policies.export import FILE
from rookery.policies.policy import Policy
from rookery.report.live import write_line
from rookery.training.trainer import Trainer

MLAGENTS = "mlagents"
"""The console style that shows ML-Agents' lines."""

SOURCE = "rookery mlagents"
"""The source of values that this command gives by itself."""

SUFFIXES = ("", ".x86_64", ".x86", ".exe", ".app")
"""What the name of a player may lack."""

Changes = Callable[[Path, Sequence[Layer], TrustCode], Layer]
"""Gives what layers of settings change in the run of a folder; refuses what cannot be changed there."""


@dataclass(frozen=True)
class Request:
    """What a user has asked for.

    Attributes:
        file: The configuration file, or None.
        flags: Flags of ML-Agents by name, as of `read_options`.
        console: ``mlagents``, or a style of `logging.console`.
        episodes: With ``--inference``, episodes after which it ends; None = when it is interrupted.
        trust_pickle: Whether a ``checkpoint.pt`` of ML-Agents may be read.
        trust_code: Whether code that a run names may be run, whoever wrote it.
    """

    file: str | None
    flags: Mapping[str, object]
    console: str
    episodes: int | None
    trust_pickle: bool
    trust_code: TrustCode


@dataclass(frozen=True)
class Session:
    """A training that is about to begin, or to go on.

    Attributes:
        trainer: The training.
        files: What writes ML-Agents' files.
        options: The options.
        folder: The folder of the run.
    """

    trainer: Trainer
    files: RunFiles
    options: RunOptions
    folder: Path


# --- options and folders ----------------------------------------------------------------------------------------------


def options_of(request: Request) -> RunOptions:
    """Reads the options; those of a run that goes on without a file are the ones it has written down.

    Raises:
        ConfigError: If the file is one of before 0.17, or anything in it is wrong.
    """
    file = request.file
    if file is not None:
        return read_options(file, request.flags)
    options = read_options(None, request.flags)
    kept = folder_of(options) / CONFIGURATION
    return read_options(kept, request.flags) if options.checkpoint_settings.resume and kept.is_file() else options


def folder_of(options: RunOptions) -> Path:
    """The folder of a run."""
    settings = options.checkpoint_settings
    return Path(settings.results_dir) / settings.run_id


def check_folder(options: RunOptions) -> Path:
    """Gives the folder of a run, if what is asked for can be done there.

    Raises:
        ConfigError: If it exists and is neither to be resumed nor replaced, or is to be resumed and does not exist.
    """
    settings, folder = options.checkpoint_settings, folder_of(options)
    if Path(settings.run_id).name != settings.run_id or settings.run_id in ("", ".", ".."):
        raise ConfigError(f"--run-id {settings.run_id!r}: must be the name of a folder, not a path")
    exists, is_ours = folder.exists(), (folder / "config.yaml").is_file()
    if settings.resume:
        if not exists:
            raise ConfigError(
                f"--resume: there is no run {settings.run_id!r}: {folder} does not exist{near_runs(folder)}; leave "
                "--resume out to begin one"
            )
        if not is_ours:
            raise ConfigError(
                f"--resume: {folder} is no run of Rookery; weights of a run of ML-Agents itself can be taken over into "
                f"a new one: --initialize-from {settings.run_id} --trust-pickle, with another --run-id"
            )
    elif exists and any(folder.iterdir()):
        if not settings.force or settings.inference:
            raise ConfigError(
                f"--run-id {settings.run_id}: there is data of that run already in {folder}: give another --run-id, "
                "--resume to go on with it, or --force to replace it"
            )
        if not is_ours:
            raise ConfigError(
                f"--force: {folder} holds no run of Rookery (there is no config.yaml in it), so nothing there is "
                "replaced; give another --run-id, or remove it yourself"
            )
    return folder


def near_runs(folder: Path) -> str:
    """Says which run beside one that does not exist has the nearest name."""
    there = [path.name for path in folder.parent.iterdir() if path.is_dir()] if folder.parent.is_dir() else []
    return nearest(folder.name, there)


# --- the environment --------------------------------------------------------------------------------------------------


def environment_of(options: RunOptions) -> Layer:
    """Gives the environment and its arguments as settings.

    Raises:
        ConfigError: If none is named, or it is a Unity player.
    """
    settings = options.env_settings
    name, place = settings.env_path, options.places.get("env_settings.env_path", "--env")
    if name is None:
        raise ConfigError(
            "--env: no environment is named: a Gymnasium id, my.module:MyEnv, or a task such as rookery.tasks:Basic; "
            "the Unity Editor and players cannot be connected to yet"
        )
    for suffix in SUFFIXES:
        player = Path(f"{name}{suffix}")
        if (player.is_dir() and suffix == ".app") or (player.is_file() and os.access(player, os.X_OK)):
            raise ConfigError(
                f"{place}: {player} is a program, so a Unity player: these cannot be connected to yet; name an "
                "environment in Python, such as CartPole-v1 or my.module:MyEnv"
            )
    if Path(name).exists():
        raise ConfigError(
            f"{place}: {name} is a file and no program: neither a Unity player nor the name of an environment"
        )
    words = [word.lstrip("-") for word in settings.env_args or ()]
    said = options.places.get("env_settings.env_args", "--env-args")
    given = dict(override_layer(words, said).values)
    values: dict[str, Any] = {"env.name": name} | ({"env.config": given} if given else {})
    return Layer(
        SOURCE, values, {"env.name": place, "env.config": said, **{f"env.config.{key}": said for key in given}}
    )


def copies_of(options: RunOptions) -> Layer:
    """Gives the number of copies of an environment in Python: num_envs times num_areas, if either is given.

    A Unity scene holds many agents, so that one player is the default there. An environment in Python has its own few;
    where nobody says how many copies there are to be, Rookery's own default holds. What a run has written down about
    itself says nothing: there each key has a value.
    """
    settings = options.env_settings
    keys = ("env_settings.num_envs", "env_settings.num_areas")
    given = [options.places[key] for key in keys if key in options.places]
    given = [place for place in given if not place.startswith(f"{CONFIGURATION}:")]
    if not given:
        return Layer(SOURCE, {})
    number = settings.num_envs * settings.num_areas
    return Layer(SOURCE, {"sampling.num_envs": number}, {"sampling.num_envs": given[0]})


def spaces_in(options: RunOptions, env: Layer) -> dict[str, BehaviorSpaces]:
    """Makes the environment once, to see which behaviours it has."""
    name = env.values["env.name"]
    seen = make_env(name, env.values.get("env.config"), (), 1, "auto")
    try:
        return behaviors_of(options, seen, name)
    finally:
        seen.close()


# --- weights to begin with --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Starts:
    """What behaviours begin with.

    Attributes:
        runs: A run or checkpoint of Rookery, with the policy in it, by behaviour.
        theirs: A ``checkpoint.pt`` of ML-Agents, by behaviour.
    """

    runs: Mapping[str, str]
    theirs: Mapping[str, Path]

    def layer(self) -> Layer:
        """Gives the former as settings."""
        entries = {name: {"init_from": source} for name, source in self.runs.items()}
        return Layer(SOURCE, {"policies": entries} if entries else {})


def starts_of(options: RunOptions, behaviors: Mapping[str, BehaviorSpaces], trust_pickle: bool) -> Starts:
    """Finds what `initialize_from` and each `init_path` name.

    Raises:
        ConfigError: If it is not there, a behaviour is missing in it, or it is of a kind that cannot be read.
    """
    settings = options.checkpoint_settings
    runs: dict[str, str] = {}
    theirs: dict[str, Path] = {}
    if settings.initialize_from is not None and not settings.resume:
        place = Path(settings.results_dir) / settings.initialize_from
        flag = options.places.get("checkpoint_settings.initialize_from", "--initialize-from")
        there = behaviors_in(place, flag)
        for name in behaviors:
            if name not in there:
                raise ConfigError(
                    f"{flag}: behaviour {name!r} is not in {place}{nearest(name, list(there))}; there are "
                    f"{', '.join(there)}; give init_path to those that are to begin with weights"
                )
            _sort(name, there[name], runs, theirs, trust_pickle)
    for name in behaviors:
        path = options.of(name).init_path
        if path is None or settings.resume:
            continue
        if not Path(path.partition(":")[0]).exists() and "/" not in path and settings.initialize_from:
            path = str(Path(settings.results_dir) / settings.initialize_from / folder_name(name) / path)
        _sort(name, path, runs, theirs, trust_pickle)
    return Starts(runs, theirs)


def _sort(name: str, source: str, runs: dict[str, str], theirs: dict[str, Path], trust_pickle: bool) -> None:
    """Puts what a behaviour begins with where it belongs."""
    runs.pop(name, None)
    theirs.pop(name, None)
    place = Path(source.partition(":")[0]) if not Path(source).exists() else Path(source)
    if place.is_dir():
        runs[name] = source
    else:
        check_kind(place, trust_pickle)
        theirs[name] = place


def behaviors_in(place: Path, flag: str) -> dict[str, str]:
    """Gives the behaviours of a run with what to begin from: one of Rookery, or one of ML-Agents itself.

    Raises:
        ConfigError: If there is no such run, or nothing in it.
    """
    if not place.is_dir():
        raise ConfigError(f"{flag}: there is no run in {place}{near_runs(place)}")
    if list_checkpoints(place / FOLDER):
        import json

        _, files, _ = read_checkpoint_files(place)
        return {name: f"{place}:{name}" for name in json.loads(files[FILE])}
    found = {path.parent.name: str(path) for path in sorted(place.glob("*/checkpoint.pt"))}
    if not found:
        raise ConfigError(f"{flag}: {place} holds no checkpoint: neither of Rookery nor a checkpoint.pt of ML-Agents")
    return found


# --- training ---------------------------------------------------------------------------------------------------------


@contextmanager
def learning(request: Request, changes: Changes) -> Iterator[Session]:
    """Begins a training or goes on with one; when this ends, the files of the run are complete.

    Args:
        request: What is asked for.
        changes: Says what settings of a run that goes on are changed.

    Raises:
        ConfigError: If anything that was asked for cannot be done; says what, and what to do.
    """
    options = options_of(request)
    folder = check_folder(options)
    env = environment_of(options)
    behaviors = spaces_in(options, env)
    starts = starts_of(options, behaviors, request.trust_pickle)
    files = run_files(options, request.console == MLAGENTS)
    layers = [*run_layers(options, behaviors, env, request), starts.layer()]
    settings = options.checkpoint_settings
    if settings.resume and list_checkpoints(folder / FOLDER):
        layer = changes(folder, layers, request.trust_code)
        trainer = Trainer.load(folder, resume=True, callbacks=[files], config=[layer], trust_code=request.trust_code)
    else:
        trainer = Trainer(config=layers, callbacks=[files], run_dir=folder, force=settings.force or settings.resume)
        begin_with(trainer, starts, request.trust_pickle)
    with trainer:
        trainer.notes.extend(options.notes)
        try:
            yield Session(trainer, files, options, folder)
        finally:
            files.end(trainer)


def run_layers(
    options: RunOptions, behaviors: Mapping[str, BehaviorSpaces], env: Layer, request: Request
) -> list[Layer]:
    """Gives all settings of a run, lowest layer first."""
    console = "quiet" if request.console == MLAGENTS else request.console
    own = Layer(SOURCE, {"logging.tensorboard": False, "logging.console": console})
    return [own, *layers_of(options, behaviors), env, copies_of(options)]


def run_files(options: RunOptions, shows_lines: bool) -> RunFiles:
    """Gives what writes the files of a run."""
    return RunFiles(options.as_dict(), options_by_name(options), write_line if shows_lines else None, exporter())


def options_by_name(options: RunOptions) -> Callable[[str], BehaviorOptions]:
    """Gives the options of a behaviour by its name; a policy that the file does not know, as an opponent that is
    trained beside, has the defaults.
    """

    def find(name: str) -> BehaviorOptions:
        try:
            return options.of(name)
        except ConfigError:
            return BehaviorOptions()

    return find


def exporter() -> Callable[[Policy, Path], None]:
    """Gives what writes ONNX files; where the package is missing, the first file says so."""

    def export(policy: Policy, path: Path) -> None:
        from rookery.onnx import write_unity

        write_unity(policy, path)

    return export


def begin_with(trainer: Trainer, starts: Starts, trust_pickle: bool) -> None:
    """Gives behaviours the weights of ML-Agents that they are to begin with, and hands them out."""
    for name, path in starts.theirs.items():
        take_over(trainer.policies[name], read_weights(path, trust_pickle), path)
    changed = [name for name in starts.theirs if name in trainer.learners]
    trainer.pool.set_weights({name: trainer.learners[name].behaviour for name in changed})


def callbacks_of_run(folder: Path) -> list[RunFiles]:
    """Gives what writes ML-Agents' files of a run that has them; nothing for other runs. Who goes on with a run by
    ``rookery resume`` goes on with its files too.
    """
    configuration = folder / CONFIGURATION
    if not configuration.is_file():
        return []
    with suppress(ConfigError):
        return [run_files(read_options(configuration, {}), shows_lines=False)]
    return []
