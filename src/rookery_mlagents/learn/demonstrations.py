"""`import_demonstrations`: converts files ``.demo`` of a configuration to replay directories for imitation."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from rookery.face import (
    ConfigError,
    RookeryError,
    SpaceError,
    Spaces,
    Wanted,
    last_change,
    obs_spec,
    read_recordings,
    write_recordings,
)
from rookery_mlagents.files.behaviors import BehaviorSpaces
from rookery_mlagents.files.reading_behaviors import demonstrations_of
from rookery_mlagents.files.run_files import folder_name
from rookery_mlagents.files.run_options import RunOptions, demo_place, demonstration_problem
from rookery_mlagents.files.sections import BehaviorOptions, GAILOptions


def import_demonstrations(
    options: RunOptions,
    behaviors: Mapping[str, BehaviorSpaces],
    folder: Path,
    beside: Path | None = None,
    to_come: Mapping[str, BehaviorSpaces] = MappingProxyType({}),
) -> dict[tuple[str, str], str]:
    """Reads all demonstrations (files or directories of files ``.demo``) of the behaviours of an environment.

    Args:
        options: Options of the run.
        behaviors: Spaces of the environment's behaviours, by name.
        folder: Where a directory of replay is written for each behaviour and demonstration; one that is there is
            used as it is, and its ``.demo`` is not looked for.
        beside: Directory from which a path may start too; None = that of the configuration file.
        to_come: Behaviours that may appear later, with spaces that are likely; those of a file that does not fit them
            are taken as they are.

    Returns:
        For each behaviour and ``demo_path`` of it, the replay to imitate; replays of ours stand for themselves.

    Raises:
        ConfigError: If a file does not fit the environment, or is not there; says where it was asked for.
    """
    options = replace(options, folder=beside or options.folder)
    found: dict[tuple[str, str], str] = {}
    for name, spaces in (*behaviors.items(), *to_come.items()):
        for key, demo in demonstrations_of(options.of(name)):
            place = demo_place(demo, options.folder)
            target = folder / replay_name(name, place or Path(demo))
            if target.is_dir():
                found[name, demo] = str(target)
                continue
            problem = demonstration_problem(options, name, key, demo)
            if problem is not None or place is None:
                raise ConfigError(problem or demo)
            if place.is_dir() and not any(place.glob("*.demo")):  # a replay of ours, of one policy or of several
                found[name, demo] = str(place) if str(place).endswith(demo) else f"{place}:{demo.rpartition(':')[2]}"
                continue
            wanted = Wanted(Spaces(spaces.obs.own, spaces.actions, 0), policy=name)
            source = options.place_of(name, key)
            try:
                wanted = _fitting(place, wanted) if name in to_come else wanted
                recordings = read_recordings([place], wanted, "unity")
            except RookeryError as error:
                raise ConfigError(f"{source}: {name}: {key} = {demo!r}: {error}") from None
            if len(recordings) > 1 and name not in recordings:
                there = ", ".join(recordings)
                raise ConfigError(
                    f"{source}: {name}: {key} = {demo!r}: it has demonstrations of {there}, and none of {name}"
                )
            one = recordings.get(name) or next(iter(recordings.values()))
            write_recordings(target, {name: one}, written=last_change([place]))
            found[name, demo] = str(target)
    return found


def _fitting(place: Path, wanted: Wanted) -> Wanted:
    """Returns how demonstrations are read that may have other spaces than are wanted: with their own then, and the mask
    that players have for discrete actions.
    """
    try:
        read_recordings([place], wanted, "unity")
    except SpaceError:
        own = next(iter(read_recordings([place], replace(wanted, spaces=None), "unity").values())).spaces
        obs = obs_spec(own.obs.space, own.action.space, info_mask=bool(own.action.sizes))
        return replace(wanted, spaces=Spaces(obs, own.action, 0))
    return wanted


def replay_name(behavior: str, place: Path) -> str:
    """Returns the name of the replay directory for demonstrations of a behaviour; files of the same name in different
    directories get different names.
    """
    digest = hashlib.sha256(f"{behavior}\0{place.absolute()}".encode()).hexdigest()[:8]
    return f"{folder_name(behavior)}-{place.stem}-{digest}"


def with_absolute_paths(options: RunOptions) -> RunOptions:
    """Returns options with absolute paths of demonstrations, so that they are valid in any working directory; paths
    that do not exist are unchanged.
    """

    def absolute(demo: str) -> str:
        starts = (Path(), options.folder or Path())
        whole = next((start / demo for start in starts if (start / demo).exists()), None)
        if whole is not None:
            return str(whole.absolute())
        place = demo_place(demo, options.folder)
        return demo if place is None else f"{place.absolute()}:{demo.rpartition(':')[2]}"

    def of(one: BehaviorOptions) -> BehaviorOptions:
        cloning, gail = one.behavioral_cloning, one.reward_signals.get("gail")
        if cloning is not None:
            one = replace(one, behavioral_cloning=replace(cloning, demo_path=absolute(cloning.demo_path)))
        if isinstance(gail, GAILOptions):
            signal = replace(gail, demo_path=absolute(gail.demo_path))
            one = replace(one, reward_signals={**one.reward_signals, "gail": signal})
        return one

    common = None if options.default_settings is None else of(options.default_settings)
    return replace(
        options, behaviors={name: of(one) for name, one in options.behaviors.items()}, default_settings=common
    )
