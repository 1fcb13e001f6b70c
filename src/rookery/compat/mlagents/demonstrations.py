"""Files ``.demo`` of a configuration as replay directories, which imitation reads: `import_demonstrations`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from rookery.compat.mlagents.behaviors import BehaviorSpaces
from rookery.compat.mlagents.options import RunOptions, demo_place, demonstration_problem
from rookery.compat.mlagents.reading_behaviors import demonstrations_of
from rookery.core.errors import ConfigError, RookeryError
from rookery.replay.formats.columns import Wanted
from rookery.replay.formats.names import read_recordings
from rookery.replay.recording import write_recordings
from rookery.replay.segments import Spaces


def import_demonstrations(
    options: RunOptions, behaviors: Mapping[str, BehaviorSpaces], folder: Path, beside: Path | None = None
) -> dict[str, str]:
    """Reads every file or directory of files ``.demo`` that behaviours of an environment imitate.

    Args:
        options: Options of the run.
        behaviors: What the environment has, by the names of behaviours.
        folder: Where a directory of replay is written for each behaviour and demonstration, over what is there.
        beside: Directory from which a path may start too; None = that of the configuration file.

    Returns:
        For each ``demo_path``, the replay to imitate; replays of ours stand for themselves.

    Raises:
        ConfigError: If a file does not fit the environment, or is not there; says where it was asked for.
    """
    options = replace(options, folder=beside or options.folder)
    found: dict[str, str] = {}
    for name, spaces in behaviors.items():
        for key, demo in demonstrations_of(options.of(name)):
            problem, place = demonstration_problem(options, name, key, demo), demo_place(demo, options.folder)
            if problem is not None or place is None:
                raise ConfigError(problem or demo)
            if place.is_dir() and not any(place.glob("*.demo")):  # a replay of ours, of one policy or of several
                found[demo] = str(place) if str(place).endswith(demo) else f"{place}:{demo.rpartition(':')[2]}"
                continue
            wanted = Wanted(Spaces(spaces.obs.own, spaces.actions, 0), policy=name)
            source = options.place_of(name, key)
            try:
                recordings = read_recordings([place], wanted, "unity")
            except RookeryError as error:
                raise ConfigError(f"{source}: {name}: {key} = {demo!r}: {error}") from None
            if len(recordings) > 1 and name not in recordings:
                there = ", ".join(recordings)
                raise ConfigError(
                    f"{source}: {name}: {key} = {demo!r}: it has demonstrations of {there}, and none of {name}"
                )
            one = recordings.get(name) or next(iter(recordings.values()))
            target = folder / f"{name}-{place.stem}"
            write_recordings(target, {name: one}, replace=True)
            found[demo] = str(target)
    return found
