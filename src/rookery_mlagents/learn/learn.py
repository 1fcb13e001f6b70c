"""``rookery mlagents learn``: converts options to a Rookery training, in a folder with ML-Agents' layout."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import randbelow
from typing import Any

from rookery.face import (
    ALGORITHMS,
    FOLDER,
    ITERATION,
    LONGEST_NAME,
    MINIBATCH,
    ConfigError,
    EnvError,
    EpisodeListener,
    FileError,
    Layer,
    Logger,
    Policy,
    RunConfig,
    RunDir,
    SamplingConfig,
    SpaceError,
    Trainer,
    TrustCode,
    VectorEnv,
    aside_of,
    check_stored,
    finished_lines,
    first_plan_by,
    flow,
    groups_of,
    is_of_env,
    is_only_one,
    list_checkpoints,
    locked,
    logs_in,
    make_env,
    name_refusal,
    nearest,
    override_layer,
    own_files,
    plan_before,
    read_checkpoint_files,
    resolve,
    restore,
    write_line,
    yaml_layer,
)
from rookery.face import POLICY_FILE as FILE
from rookery_mlagents.files.behaviors import (
    BehaviorSpaces,
    behaviors_of_players,
    entries_to_come,
    match_behaviors,
)
from rookery_mlagents.files.foreign_options import check_reach
from rookery_mlagents.files.mlagents_checkpoint import check_kind, read_weights, take_over
from rookery_mlagents.files.run_files import CONFIGURATION, RESERVED, Pace, RunFiles, folder_name
from rookery_mlagents.files.run_options import FLAGS, RunOptions, goes_on, read_options
from rookery_mlagents.files.sections import A2COptions, BehaviorOptions, CheckpointOptions, POCAOptions, PPOOptions
from rookery_mlagents.key_meanings import parameters_of
from rookery_mlagents.learn.demonstrations import import_demonstrations, with_absolute_paths
from rookery_mlagents.learn.schedule_ends import StoredEnds
from rookery_mlagents.learn.stats_plugins import StatsPlugins, stats_writers_of
from rookery_mlagents.learn.translate import AS_IS, DEFAULT, layers_of, notes_of
from rookery_mlagents.link.player_program import EDITOR, PREFIX

MLAGENTS = "mlagents"
"""Console style that prints ML-Agents' lines."""

SOURCE = "rookery mlagents"
"""Source of values set by this command itself."""

ENV_ARG = (
    "name=value, an argument of the environment's constructor, as size=5; a Python environment has no command line of "
    "its own"
)
"""Required form of an argument after ``--env-args``."""

OUR_DEFAULT = "Rookery's default"
"""Source of a default of Rookery that is preferred to ML-Agents' default."""

DEMONSTRATIONS = "demonstrations"
"""Folder of a run with imported ML-Agents demonstrations, as replay."""

COMMAND_LINE = "command line"
"""Source of settings of Rookery that the command line gives as ``path=value``."""

FLAG_OF = {
    "env": "--env and --env-args, and environment_parameters in the file",
    "sampling.num_envs": "--num-envs",
    "seed": "--seed",
    "device": "--torch-device",
    "policy_mapping": "behaviors in the file",
    "logging.console": "--console",
    "curriculum": "environment_parameters in the file",
}
"""Settings that are flags or keys of ML-Agents."""

DRAWN_SEEDS = 10_000
"""Number of seeds from which that of a run without one is drawn."""

PLAYER_KEYS = (
    "base_port", "num_areas", "timeout_wait", "max_lifetime_restarts", "restarts_rate_limit_n",
    "restarts_rate_limit_period_s", "width", "height", "quality_level", "time_scale", "target_frame_rate",
    "capture_frame_rate", "no_graphics", "no_graphics_monitor",
)  # fmt: skip
"""Keys of `env_settings` and `engine_settings` that are passed to a Unity player under the same names."""


@dataclass(frozen=True)
class Request:
    """Request from the command line.

    Attributes:
        file: The configuration file, or None.
        flags: Flags of ML-Agents by name, as of `read_options`.
        console: ``mlagents``, or a style of `logging.console`.
        episodes: With ``--inference``, episodes after which it ends; None = when it is interrupted.
        trust_pickle: Whether a ``checkpoint.pt`` of ML-Agents may be read.
        trust_code: Whether code that a run names may be run, also if another user wrote it.
        keep_schedules: Whether a larger ``max_steps`` leaves the end of schedules where it is.
        overrides: Settings of Rookery as ``path=value``, which take precedence over the file.
    """

    file: str | None
    flags: Mapping[str, object]
    console: str
    episodes: int | None
    trust_pickle: bool
    trust_code: TrustCode
    keep_schedules: bool = False
    overrides: Sequence[str] = ()


Changes = Callable[[Path, Sequence[Layer], Request], Layer]
"""Returns the changes that layers of settings make to the run of a folder; raises an error for changes that are not
possible.
"""


@dataclass(frozen=True)
class Session:
    """A training before it starts or resumes.

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
    """Reads the options; a run that resumes without a file uses its stored ones.

    Raises:
        ConfigError: If anything in it is wrong.
    """
    usual = CheckpointOptions()
    run = {name: request.flags.get(name, getattr(usual, name)) for name in ("results_dir", "run_id")}
    kept = Path(*map(str, run.values())) / CONFIGURATION
    if request.file is None and request.flags.get("resume") and kept.is_file():
        options = kept_options(kept, {**request.flags, **run}, request.trust_code)  # it lies where it was found
        check_reach(kept, request.flags, request.trust_code)  # which looks at the environment, whose code is known now
        return options
    return read_options(request.file, request.flags)


def kept_options(configuration: Path, flags: Mapping[str, object], trust_code: TrustCode) -> RunOptions:
    """Reads the stored options of a run.

    Raises:
        ConfigError: If another user has written the run, and it names code that is not trusted (docs/trust.md).
    """
    values = yaml_layer(configuration).values
    behaviors, env, common = (values.get(name) for name in ("behaviors", "env_settings", "default_settings"))
    named: dict[str, Any] = {"algorithm.name": common.get("trainer_type")} if isinstance(common, Mapping) else {}
    if isinstance(env, Mapping) and "env" not in flags:
        named["env.name"] = env.get("env_path")
    for name, one in behaviors.items() if isinstance(behaviors, Mapping) else ():
        named[f"policies.{name}.name"] = one.get("trainer_type") if isinstance(one, Mapping) else None
    if (configuration.parent / "config.yaml").is_file():
        check_stored(configuration.parent, {path: one for path, one in named.items() if one is not None}, trust_code)
    return read_options(configuration, flags)


def folder_of(options: RunOptions) -> Path:
    """Returns the folder of a run."""
    settings = options.checkpoint_settings
    return Path(settings.results_dir) / settings.run_id


def check_folder(options: RunOptions) -> Path:
    """Returns the folder of a run, after checking that the request is possible there.

    Raises:
        ConfigError: If it exists and is neither to be resumed nor replaced, or is to be resumed and does not exist.
    """
    settings, folder = options.checkpoint_settings, folder_of(options)
    if Path(settings.run_id).name != settings.run_id or settings.run_id in ("", ".", ".."):
        raise ConfigError(f"--run-id {settings.run_id!r}: must be the name of a folder, not a path")
    if reason := name_refusal(settings.run_id):
        raise ConfigError(f"--run-id: {reason}; choose another name")
    if (size := len(os.fsencode(settings.run_id))) > LONGEST_NAME:
        raise ConfigError(f"--run-id: the name has {size:,} bytes; a folder's name may have {LONGEST_NAME}")
    recover(folder)
    exists, is_ours = folder.exists(), (folder / "config.yaml").is_file()
    is_empty = own_files.was_killed_at_start(folder)
    if settings.resume:
        if not exists:
            raise ConfigError(
                f"--resume: there is no run {settings.run_id!r}: {folder} does not exist{near_runs(folder)}; leave "
                "--resume out to begin one"
            )
        if not is_ours and is_empty:
            raise ConfigError(
                f"--resume: {folder} was killed before it had begun; leave --resume out to begin it again"
            )
        if not is_ours:
            raise ConfigError(
                f"--resume: {folder} is no run of Rookery; weights of a run of ML-Agents itself can be taken over into "
                f"a new one: --initialize-from {settings.run_id} --trust-pickle, with another --run-id"
            )
    elif exists and not is_empty:
        if not settings.force or settings.inference:
            raise ConfigError(
                f"--run-id {settings.run_id}: there is data of that run already in {folder}: give another --run-id, "
                + (
                    "or --resume to play it"
                    if settings.inference
                    else "--resume to continue it, or --force to replace it"
                )
            )
        if not own_files.holds_run(folder):
            raise ConfigError(
                f"--force: {folder} holds no run of Rookery, so nothing there is replaced; give another --run-id, or "
                "remove it yourself"
            )
    return folder


def near_runs(folder: Path) -> str:
    """Returns a hint with the most similar run name, for a run that does not exist."""
    there = [path.name for path in folder.parent.iterdir() if path.is_dir()] if folder.parent.is_dir() else []
    return nearest(folder.name, there)


# --- the environment --------------------------------------------------------------------------------------------------


def environment_of(options: RunOptions) -> Layer:
    """Returns the environment and its arguments as settings; the default is the Unity Editor.

    Raises:
        ConfigError: If the name is that of a file, and of no program.
    """
    settings = options.env_settings
    name, place = settings.env_path, options.places.get("env_settings.env_path", "--env")
    if options.plays_unity:
        return _player_layer(options, f"{PREFIX}{EDITOR}" if name is None else name, place)
    assert name is not None
    if Path(name).exists():
        stem = Path(name).stem
        remedy = f"; for a class in it give {stem}:CLASS, in its folder" if name == f"{stem}.py" else ""
        raise ConfigError(
            f"{place}: {name} is a file and no program: neither a Unity player nor the name of an environment{remedy}"
        )
    words = [word.lstrip("-") for word in settings.env_args or ()]
    source = options.places.get("env_settings.env_args", "--env-args")
    if late := next((word for word in settings.env_args or () if word.lstrip("-").replace("-", "_") in FLAGS), None):
        raise ConfigError(f"{source}: takes all words after it, {late} too: give {source} last")
    given = dict(override_layer(words, source, ENV_ARG).values)
    values: dict[str, Any] = {"env.name": name} | ({"env.config": given} if given else {})
    return Layer(
        SOURCE, values, {"env.name": place, "env.config": source, **{f"env.config.{key}": source for key in given}}
    )


def _player_layer(options: RunOptions, name: str, place: str) -> Layer:
    """Returns the settings of a Unity player, or the Editor, that differ from the defaults."""
    env, given = options.env_settings, dict[str, Any]()
    lines = {"env.name": place}
    usual = RunOptions()
    for section in ("env_settings", "engine_settings"):
        for key, value in vars(getattr(options, section)).items():
            if key in PLAYER_KEYS and value != getattr(getattr(usual, section), key):
                given[key] = value
                lines[f"env.config.{key}"] = options.places.get(f"{section}.{key}", DEFAULT)
    if env.env_args:
        given["args"] = list(env.env_args)
        lines["env.config.args"] = options.places.get("env_settings.env_args", "--env-args")
    if env.seed >= 0:
        given["seed"], lines["env.config.seed"] = env.seed, options.places.get("env_settings.seed", "--seed")
    return Layer(SOURCE, {"env.name": name} | ({"env.config": given} if given else {}), lines)


def with_seed(options: RunOptions) -> RunOptions:
    """Returns the options with a seed if there is none and players are to be started: that of the resumed run, or a
    drawn one from 0 to 9,999, as in ML-Agents. So players get a seed, and parameters that are drawn by it, at once.
    """
    if options.env_settings.seed >= 0 or not options.plays_unity:
        return options
    if goes_on(options.checkpoint_settings):
        config = yaml_layer(folder_of(options) / "config.yaml").values.get("env")
        arguments = config.get("config") if isinstance(config, Mapping) else None
        seed = arguments.get("seed", -1) if isinstance(arguments, Mapping) else -1
    else:
        seed = randbelow(DRAWN_SEEDS)
    return replace(options, env_settings=replace(options.env_settings, seed=seed))


def first_parameters(options: RunOptions) -> AbstractContextManager[None]:
    """Context in which environments begin with the parameters of the run; a later reset would be their second one."""
    seed = options.env_settings.seed
    values = {**parameters_of(options), **({"seed": seed} if seed >= 0 else {})}
    return first_plan_by(plan_before(resolve(RunConfig, [Layer(SOURCE, values)], ALGORITHMS)))


def with_copies(options: RunOptions) -> RunOptions:
    """Returns the options with a number of environments where none is given: that of the resumed run, or the default.

    The default is one player, because a Unity scene has many agents; of environments in Python it is Rookery's own.
    """
    key, areas = "env_settings.num_envs", "env_settings.num_areas"
    if key in options.places or (areas in options.places and not options.plays_unity):
        return options
    count: Any = options.env_settings.num_envs if options.plays_unity else SamplingConfig().num_envs
    if goes_on(options.checkpoint_settings):
        kept = yaml_layer(folder_of(options) / "config.yaml").values.get("sampling")
        count = kept.get("num_envs", count) if isinstance(kept, Mapping) else count
    elif options.plays_unity:
        return options
    settings = replace(options.env_settings, num_envs=count)
    return replace(options, env_settings=settings, places={**options.places, key: OUR_DEFAULT})


def spaces_in(options: RunOptions, env: Layer) -> tuple[dict[str, BehaviorSpaces], VectorEnv | None]:
    """Creates the environment once to find its behaviours.

    Returns:
        What each behaviour sees and does; and what was made, where it is the only one and so what is to be trained in.

    Raises:
        ConfigError: If its agents do not belong to the behaviours of the file, or a behaviour's folder would be one of
            the run's own.
    """
    name = env.values["env.name"]
    count = options.env_settings.num_envs if options.plays_unity else 1
    try:
        with first_parameters(options) if options.plays_unity else nullcontext():
            seen = make_env(name, env.values.get("env.config"), (), count, "auto")
    except EnvError as error:  # which calls arguments what settings call them
        line = env.lines.get("env.config")
        raise EnvError(str(error).replace("env.config", line or "env.config")) from error
    kept = False
    try:
        called = str(name).rpartition(":")[2].rpartition(".")[2].partition("-v")[0]
        if options.plays_unity:
            found = behaviors_of_players(options, seen.kinds, goals_of(seen))
        else:
            found = match_behaviors(options, seen.kinds, groups_of(seen), called)
        alone = is_only_one(seen) and options.env_settings.num_envs * options.env_settings.num_areas == 1
        kept = options.plays_unity or alone
    finally:
        if not kept:
            seen.close()
    if not options.behaviors and not options.plays_unity and [len(kind.agents) for kind in seen.kinds] == [1]:
        # whose agent is called agent
        found = {re.sub(r"[^\w-]+", "-", name.rpartition(":")[2]): spaces for spaces in found.values()}
    for name in found:
        if folder_name(name) in RESERVED:
            seen.close()
            raise ConfigError(f"behaviors.{name}: a run has a folder of that name; call the behaviour otherwise")
    return found, seen if kept else None


def goals_of(env: VectorEnv) -> dict[str, tuple[str, ...]]:
    """Returns the paths of sensors that players mark as goals, by behaviour with team; empty for Python
    environments.
    """
    from rookery_mlagents.link.unity_env import UnityEnv  # which needs packages that environments in Python do without

    return {name: one.goals for name, one in env.players.layouts.items()} if isinstance(env, UnityEnv) else {}


# --- weights to begin with --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Starts:
    """Initial weights of behaviours.

    Attributes:
        runs: A run or checkpoint of Rookery, with the policy in it, by behaviour.
        mlagents_files: A ``checkpoint.pt`` of ML-Agents, by behaviour.
    """

    runs: Mapping[str, str]
    mlagents_files: Mapping[str, Path]

    def layer(self) -> Layer:
        """Returns `runs` as settings."""
        entries = {name: {"init_from": source} for name, source in self.runs.items()}
        return Layer(SOURCE, {"policies": entries} if entries else {})


def starts_of(options: RunOptions, behaviors: Mapping[str, BehaviorSpaces], trust_pickle: bool) -> Starts:
    """Finds the runs and files in `initialize_from` and in each `init_path`.

    Raises:
        ConfigError: If it is not there, a behaviour is missing in it, or it is of a kind that cannot be read.
    """
    settings = options.checkpoint_settings
    runs: dict[str, str] = {}
    mlagents_files: dict[str, Path] = {}
    if goes_on(settings):
        return Starts(runs, mlagents_files)
    to_come = entries_to_come(options, behaviors)
    all_names = (*behaviors, *to_come)
    if settings.initialize_from is not None:
        place = Path(settings.results_dir) / settings.initialize_from
        flag = options.places.get("checkpoint_settings.initialize_from", "--initialize-from")
        if settings.initialize_from == settings.run_id:
            raise ConfigError(f"{flag}: {place} is the run itself; give another --run-id, or --resume to continue it")
        there = behaviors_in(place, flag)
        if missing := [name for name in all_names if name not in there and not options.of(name).init_path]:
            given = "; ".join(f"behaviors.{name}.init_path: {there[name]}" for name in all_names if name in there)
            raise ConfigError(
                f"{flag}: {'; '.join(_not_in(name, place, there, name in to_come) for name in missing)}. It has "
                f"{', '.join(there)}. Leave {flag} out, and give init_path in the file to those that are to begin with "
                f"weights: {given or f'init_path: {next(iter(there.values()))}'}; all others begin with new ones"
            )
        for name in (name for name in all_names if name in there):
            _sort(name, there[name], runs, mlagents_files, trust_pickle)
    for name in all_names:
        path = options.of(name).init_path
        if path is None:
            continue
        if not Path(path.partition(":")[0]).exists() and "/" not in path and settings.initialize_from:
            path = str(Path(settings.results_dir) / settings.initialize_from / folder_name(name) / path)
        try:
            _sort(name, path, runs, mlagents_files, trust_pickle)
        except ConfigError as error:
            where = options.place_of(name, "init_path") or options.file
            raise ConfigError(*(f"{where}: {name}: init_path: {line}" for line in error.problems)) from None
    if late := [name for name in to_come if name in mlagents_files]:
        raise ConfigError(
            f"behaviors.{late[0]}: has not appeared yet, and weights of ML-Agents ({mlagents_files[late[0]]}) are read "
            "for behaviours that are there at the start: let an agent of it ask for a decision in the first step, or "
            "give it init_path of a run of Rookery"
        )
    return Starts(runs, mlagents_files)


def _not_in(name: str, place: Path, there: Mapping[str, str], is_late: bool) -> str:
    """Returns the explanation that a behaviour is not in a run."""
    late = ", which has not appeared yet," if is_late else ""
    return f"behaviour {name!r}{late} is not in {place}{nearest(name, list(there))}"


def _sort(name: str, source: str, runs: dict[str, str], mlagents_files: dict[str, Path], trust_pickle: bool) -> None:
    """Adds the source of a behaviour's initial weights to runs of Rookery or to files of ML-Agents."""
    runs.pop(name, None)
    mlagents_files.pop(name, None)
    place = Path(source) if restore(Path(source)) else Path(source.partition(":")[0])
    if restore(place) and place.is_dir():
        runs[name] = source
    else:
        check_kind(place, trust_pickle)
        mlagents_files[name] = place


def behaviors_in(place: Path, flag: str) -> dict[str, str]:
    """Returns the behaviours of a run with their sources of initial weights, of Rookery or of ML-Agents.

    Raises:
        ConfigError: If there is no such run, or nothing in it.
    """
    if not place.is_dir():
        raise ConfigError(f"{flag}: there is no run in {place}{near_runs(place)}")
    if list_checkpoints(place / FOLDER):
        _, files, _ = read_checkpoint_files(place)
        return {name: f"{place}:{name}" for name in json.loads(files[FILE])}
    found = {path.parent.name: str(path) for path in sorted(place.glob("*/checkpoint.pt"))}
    if not found:
        raise ConfigError(f"{flag}: {place} holds no checkpoint: neither of Rookery nor a checkpoint.pt of ML-Agents")
    return found


# --- training ---------------------------------------------------------------------------------------------------------


@contextmanager
def learning(request: Request, changes: Changes) -> Iterator[Session]:
    """Starts or resumes a training, as a context; at its end, the files of the run are complete.

    Args:
        request: The request.
        changes: Returns the changed settings of a resumed run.

    Raises:
        ConfigError: If a part of the request is not possible; names it and a remedy.
    """
    options = options_of(request)
    folder = check_folder(options)
    is_resumed, is_continued = options.checkpoint_settings.resume, goes_on(options.checkpoint_settings)
    stays = DEMONSTRATIONS if is_resumed else None
    moved: list[str] = []
    writers = stats_writers_of(folder if is_resumed else None, options, request.trust_code)
    with ExitStack() as stack:
        replaced = stack.enter_context(put_aside(folder, is_replaced=not is_continued, stays=stays))
        stack.enter_context(logs_in(folder))
        plan = planned(request, options, folder)
        stack.enter_context(closed_on_error(plan.copies))
        options, play = plan.options, plan.copies or True
        files = run_files(with_absolute_paths(options), request.console == MLAGENTS, writers)
        layers = plan.layers(request, folder / DEMONSTRATIONS)
        if is_continued:
            layer, trust_code = changes(folder, layers, request), request.trust_code
            ends = StoredEnds(folder)
            other = [path for path in layer.values if is_of_env(path)]
            trainer = Trainer.load(
                folder, resume=True, play=play, callbacks=[files], config=[layer], trust_code=trust_code,
                other_env=bool(other) and (not options.plays_unity or "sampling.num_envs" in other),
            )  # fmt: skip
            moved = [*ends.notes(trainer), *other_env_notes(layer, other)]
        else:
            trainer = Trainer(config=layers, callbacks=[files], run_dir=folder, stand_in=plan.copies)
            plan.begin(trainer, request.trust_pickle)
    with trainer:
        notes = [*trainer._notes, *notes_of(options, plan.behaviors)]
        trainer._notes[:] = notes if options.debug else filter(is_asked_for, notes)
        trainer._notes += [*moved, *finished_notes(trainer), *replaced]
        try:
            yield Session(trainer, files, options, folder)
        except (ConfigError, SpaceError) as error:
            raise ConfigError(*(with_key(line, trainer) for line in str(error).splitlines())) from error
        finally:
            files.end(trainer)


def with_key(line: str, trainer: Trainer) -> str:
    """Returns a problem that appears during a training, such as that of a behaviour that has just appeared, with the
    key of the file that its setting comes from. Settings of a network are those of a behaviour that is not there yet.
    """
    told = line.partition(" ")[0].rstrip(":")
    late = [name for name in trainer.config.policies if name not in trainer.policies]
    for path, given in trainer.resolved.history.items():
        source, value = given[-1]
        files = [str(one) for one in (value if isinstance(value, list | tuple) else [value]) if "/" in str(one)]
        is_named = path == told or any(path == f"policies.{name}.{told}" for name in late)
        if path.startswith("policies.") and (is_named or told.startswith(tuple(files))):
            return f"{source}: {path.split('.')[1]}: {line}"
    return line


def other_env_notes(layer: Layer, paths: Sequence[str]) -> list[str]:
    """Returns a line for each setting of the environments that changes in a resumed run."""
    lines = [
        f"{layer.where(path)}: {path} = {flow(layer.values[path])} from here on"
        for path in paths
        if not path.startswith("policy_mapping")
    ]
    again = "episodes begin anew in these environments, and the run no longer repeats bit for bit (exact: false)"
    return [*lines, again] if paths else []


def finished_notes(trainer: Trainer) -> list[str]:
    """Returns notes on the behaviours of a resumed run that have stopped learning while others continue."""
    lines = finished_lines(trainer)
    if len(lines) < len(trainer.learners):
        until = "it plays on without learning until the other behaviours have come as far as they are to"
    elif trainer._progress is not None:
        until = "it plays on without learning until the iteration ends that was interrupted"
    else:
        return []  # the trainer reports that there is nothing to do
    return [f"{line}; {until}; a larger max_steps lets it learn on" for line in lines]


@contextmanager
def put_aside(folder: Path, *, is_replaced: bool, stays: str | None = None) -> Iterator[list[str]]:
    """Context that moves a run aside while it is replaced, and removes it at the end, or restores it after an error. If
    the process is killed, the next start restores it (`recover`).

    Args:
        folder: The run.
        is_replaced: Whether it is.
        stays: A folder in it that the new one has too.

    Yields:
        A list, to which notes for the user are added at the end.

    Raises:
        FileError: If the run is being written.
    """
    notes: list[str] = []
    with ExitStack() as stack:
        is_moved = is_replaced and folder.exists()
        if is_moved:
            RunDir(folder).close()  # no other process is writing there
            stack.enter_context(locked(folder))
            folder.rename(aside_of(folder))
        try:
            if is_moved and stays is not None and (aside_of(folder) / stays).is_dir():
                shutil.copytree(aside_of(folder) / stays, folder / stays)
            yield notes
        except BaseException:
            if is_replaced:
                shutil.rmtree(folder, ignore_errors=True)
                if is_moved:
                    aside_of(folder).rename(folder)
                with suppress(OSError):  # of a folder with other runs
                    folder.parent.rmdir()
            raise
        if is_moved:
            notes += remove_replaced(folder)


def recover(folder: Path) -> None:
    """Restores a run whose replacement was killed; the files of the new run are moved aside.

    Raises:
        FileError: If another process is replacing the run now.
    """
    aside = aside_of(folder)
    if aside.exists():
        with locked(aside, patience=0.0) as is_free:
            if is_free is False:
                raise FileError(f"{folder}: another process is replacing this run; wait for it or stop it")
            if folder.exists():
                folder.rename(own_files.aside_of_killed(folder))
            aside.rename(folder)


def remove_replaced(folder: Path) -> list[str]:
    """Removes a run that was replaced, except for the user's files, which move to the new run; returns notes.

    A run that was killed at its start is kept.
    """
    aside = aside_of(folder)
    if own_files.was_killed_at_start(aside):
        killed = own_files.aside_of_killed(folder)
        aside.rename(killed)
        return [own_files.killed_note(folder, killed)]
    old = own_files.free_name(folder, "replaced")
    aside.rename(old)  # first: killed from here on, the new run stays
    kept = {path: folder / path.relative_to(old) for path in own_files.remove(old, keep=())}
    for path, place in kept.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(place):
            path.rename(place)
    for part in [*sorted({path.parent for path in kept} - {old}), old]:
        with suppress(OSError):  # of one that holds what could not be moved
            part.rmdir()
    return own_files.kept_note(folder, kept.values())


@dataclass(frozen=True)
class Plan:
    """Plan of a run, before any part of it is created.

    Attributes:
        options: Its options, with an entry for each behaviour.
        folder: Its folder.
        env: Its environment, as settings.
        behaviors: What each behaviour sees and does.
        starts: What behaviours begin with.
        copies: The copies to train in, where they are there already.
    """

    options: RunOptions
    folder: Path
    env: Layer
    behaviors: Mapping[str, BehaviorSpaces]
    starts: Starts
    copies: VectorEnv | None

    def demonstrations(self, request: Request, folder: Path) -> dict[tuple[str, str], str]:
        """Imports demonstrations of ML-Agents into a folder, unless they exist there; returns the replay of each, by
        behaviour and path.
        """
        beside = None if request.file is None else Path(request.file).parent
        late = entries_to_come(self.options, self.behaviors)
        return import_demonstrations(self.options, self.behaviors, folder, beside, late)

    def layers(self, request: Request, demonstrations: Path) -> list[Layer]:
        """Returns all settings of the run, lowest layer first."""
        console = "quiet" if request.console == MLAGENTS else request.console
        length = iteration_steps(self.options, self.behaviors)
        own = Layer(SOURCE, {"logging.tensorboard": False, "logging.console": console} | length)
        replays = self.demonstrations(request, demonstrations)
        to_come = entries_to_come(self.options, self.behaviors)
        translated = layers_of(self.options, self.behaviors, replays, to_come)
        return [own, *translated, self.env, self.starts.layer(), overrides_of(request)]

    def begin(self, trainer: Trainer, trust_pickle: bool) -> None:
        """Loads the initial weights from ML-Agents into behaviours, and distributes them."""
        for name, path in self.starts.mlagents_files.items():
            take_over(trainer.policies[name], read_weights(path, trust_pickle), path)
        changed = [name for name in self.starts.mlagents_files if name in trainer.learners]
        trainer._pool.set_weights({name: trainer.learners[name].behaviour for name in changed})


def overrides_of(request: Request) -> Layer:
    """Returns the settings of Rookery in a request as a layer.

    Raises:
        ConfigError: If one is malformed, or has a flag or key of ML-Agents, by which the environment is opened.
    """
    layer = override_layer(request.overrides, COMMAND_LINE)
    problems = [
        f"{COMMAND_LINE}: {path}: give {other} instead"
        for path in layer.values
        for start, other in FLAG_OF.items()
        if f"{path}.".startswith(f"{start}.")
    ]
    if problems:
        raise ConfigError(*problems)
    return layer


def iteration_steps(options: RunOptions, behaviors: Mapping[str, BehaviorSpaces]) -> dict[str, int]:
    """Returns the env steps of an iteration if the usual length would skip summaries or checkpoints of a behaviour:
    until the next update if a single behaviour learns, or `ITERATION` env steps.
    """
    short = []
    for name, spaces in behaviors.items():
        one, agents = options.of(name), max(1, len(spaces.agents))
        usual = ITERATION * agents
        if isinstance(one.hyperparameters, PPOOptions | POCAOptions):
            usual = one.hyperparameters.buffer_size
        elif isinstance(one.hyperparameters, A2COptions):
            usual = one.hyperparameters.batch_size
        due = min(one.summary_freq, Pace.of(one).checkpoint_interval)
        if usual > due:
            short.append(max(1, due // agents))
    return {"sampling.iteration_steps": min(short)} if short else {}


def plan_of(request: Request) -> Plan:
    """Plans a run from a request: its options, folder, environment and settings.

    Raises:
        ConfigError: If a part of the request is not possible; names it and a remedy.
    """
    options = options_of(request)
    return planned(request, options, check_folder(options))


def planned(request: Request, options: RunOptions, folder: Path) -> Plan:
    """Plans a run from options in a folder; see `plan_of`."""
    options = with_copies(with_seed(options))
    env = environment_of(options)
    behaviors, copies = spaces_in(options, env)
    with closed_on_error(copies):
        options = options.with_behaviors(behaviors)
        return Plan(options, folder, env, behaviors, starts_of(options, behaviors, request.trust_pickle), copies)


@contextmanager
def closed_on_error(copies: VectorEnv | None) -> Iterator[None]:
    """Context that closes the environments, if there are any, after an error."""
    try:
        yield
    except BaseException:
        if copies is not None:
            copies.close()
        raise


def is_asked_for(note: str) -> bool:
    """Returns whether a note concerns a value set by the user rather than a default of ML-Agents. `buffer_size` is the
    number of decisions per update in ML-Agents, too, so it was not misread.
    """
    file = note.partition(":")[0]
    of_theirs = f"({AS_IS})" in note or f"({DEFAULT} " in note or ("buffer_size" in note and MINIBATCH in note)
    return Path(file).name != CONFIGURATION and not of_theirs


def run_files(options: RunOptions, shows_lines: bool, writers: StatsPlugins) -> RunFiles:
    """Returns the callback that writes the files of a run, and passes its summaries to stats writers."""
    show = write_line if shows_lines else None
    return RunFiles(options.as_dict(), options_by_name(options), show, exporter(), writers)


def options_by_name(options: RunOptions) -> Callable[[str], BehaviorOptions]:
    """Returns a function from the name of a behaviour to its options; a policy that is not in the file, such as a
    trained opponent, has the defaults.
    """

    def find(name: str) -> BehaviorOptions:
        try:
            return options.of(name)
        except ConfigError:
            return BehaviorOptions()

    return find


def exporter() -> Callable[[Policy, Path], object]:
    """Returns the writer of ONNX files, imported before training; if a package is missing, writing the first file
    raises the error.
    """
    from rookery.face import require_onnx
    from rookery_mlagents.onnx_unity import write_unity

    with suppress(ConfigError):
        require_onnx()

    return write_unity


def callbacks_of_run(folder: Path) -> list[RunFiles]:
    """Returns the callbacks that write ML-Agents' files of a run; empty for runs without such files. ``rookery resume``
    continues these files too.
    """
    configuration = folder / CONFIGURATION
    if not configuration.is_file():
        return []
    with suppress(ConfigError):
        options = kept_options(configuration, {}, False)
        return [run_files(options, shows_lines=False, writers=stats_writers_of(folder, options, False))]
    return []


def begin_anew(folder: Path, layers: Sequence[Layer], callbacks: Sequence[EpisodeListener]) -> Trainer:
    """Restarts a run with ML-Agents' files in its folder; its demonstrations are kept, as the settings refer to them.

    Args:
        folder: The run, which holds no checkpoint.
        layers: Its settings.
        callbacks: What writes ML-Agents' files.

    Raises:
        ConfigError: If it is to begin with weights that ML-Agents wrote, which settings do not name.
    """
    options = kept_options(folder / CONFIGURATION, {}, False)
    settings, named = options.checkpoint_settings, [one.init_path or "" for one in options.behaviors.values()]
    origin = None if settings.initialize_from is None else Path(settings.results_dir) / settings.initialize_from
    if any(path.endswith(".pt") for path in named) or (origin and not list_checkpoints(origin / FOLDER)):
        raise ConfigError(
            f"{folder}: holds no checkpoint yet and begins with weights of ML-Agents: continue with rookery mlagents "
            f"learn --resume --run-id {folder.name} --results-dir {folder.parent} --trust-pickle"
        )
    trainer = Trainer(config=list(layers), callbacks=callbacks)
    try:
        run_dir = trainer.run_dir = RunDir(folder)
        kept = own_files.remove(folder, keep=(*own_files.STAYING, DEMONSTRATIONS))
        run_dir.notes += own_files.kept_note(folder, kept)
        run_dir.begin(trainer.resolved, force=False)
    except BaseException:
        trainer.close()
        raise
    return trainer


RUN_FILES = Logger(None, callbacks_of_run, begin_anew)
