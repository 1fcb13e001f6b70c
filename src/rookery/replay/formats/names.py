"""Import and export of replay in formats of other programs, chosen by name or suffix."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gymnasium import spaces

from rookery.core.errors import ConfigError, SpaceError, nearest
from rookery.core.io.files import FileError, beside, make_folder
from rookery.core.plugins import REPLAY_FORMATS
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.replay.episode_filter import SelectionConfig
from rookery.replay.episodes import FilteredEpisodes, joined, with_time_limit
from rookery.replay.formats.columns import Wanted
from rookery.replay.formats.growth import allowed_bytes
from rookery.replay.formats.replay_format import ReplayFormat
from rookery.replay.recording import EpisodeSource, last_change, write_recordings
from rookery.replay.relabel import RelabelConfig
from rookery.replay.segments import Spaces, StoredReplay, find_replay

SUFFIXES = {".demo": "unity", ".npz": "npz", ".csv": "csv", ".parquet": "parquet", ".json": "rllib",
            ".hdf5": "hdf5", ".h5": "hdf5"}  # fmt: skip
"""Built-in formats by suffix."""

MINARI = "minari:"
"""Prefix of the id of a Minari data set."""


def format_by_suffix(suffix: str) -> str | None:
    """Returns the name of the format of files with a suffix; None if there is none. Imports plug-ins."""
    if not suffix or suffix in SUFFIXES:
        return SUFFIXES.get(suffix)
    added = REPLAY_FORMATS.load_added()
    return next((name for name, found in added.items() if suffix in found.suffixes), None)


def format_of(name: str, given: str | None) -> str:
    """Returns the format of a file, a directory of files or a data set.

    Args:
        name: A path, or ``minari:ID``.
        given: The format, if given by the user.

    Raises:
        ConfigError: If the format is unknown, or the name does not determine it.
    """
    if given is not None:
        if given not in REPLAY_FORMATS:
            known = list(REPLAY_FORMATS)
            raise ConfigError(f"--format {given}: use one of {', '.join(known)}{nearest(given, known)}")
        return given
    if name.startswith(MINARI):
        return "minari"
    path = Path(name)
    suffixes = {one.suffix for one in path.iterdir()} if path.is_dir() else set()
    inside = {SUFFIXES[suffix] for suffix in suffixes & SUFFIXES.keys()} or {*map(format_by_suffix, suffixes)} - {None}
    found = inside.pop() if len(inside) == 1 else format_by_suffix(path.suffix)
    if found is None:
        endings = ", ".join((*SUFFIXES, f"{MINARI}ID"))
        formats = ", ".join(REPLAY_FORMATS)
        raise ConfigError(f"{name}: unknown format; known are {endings}; or give --format, one of {formats}")
    return found


def read_recordings(
    sources: Sequence[str | Path],
    wanted: Wanted,
    given: str | None = None,
    *,
    select: SelectionConfig | None = None,
    relabel: RelabelConfig | None = None,
) -> dict[str, EpisodeSource]:
    """Reads files of other programs; files of one policy are concatenated.

    Args:
        sources: Files, directories of files, or ``minari:ID``.
        wanted: Options of reading.
        given: Their format; None = by their names.
        select: Selection of episodes; None = all.
        relabel: Relabelling of rewards; None = unchanged.

    Raises:
        FileError: If one does not exist, or is broken.
        ConfigError: If one cannot be read; names the row.
        SpaceError: If their spaces differ from each other or from the wanted ones; names both.
    """
    found: dict[str, EpisodeSource] = {}
    for source in map(str, sources):
        kind: ReplayFormat = REPLAY_FORMATS.load(format_of(source, given))
        if not kind.prefix and not Path(source).exists():
            raise FileError(f"{source}: there is no such file{beside(Path(source))}")
        place = source.removeprefix(kind.prefix) if kind.prefix else Path(source)
        for policy, one in kind.read(place, wanted).items():
            space, between = one.spaces.action.space, wanted.action_bounds
            if between and not (
                isinstance(space, spaces.Box) and space == spaces.Box(*between, space.shape, space.dtype)
            ):
                raise ConfigError(
                    f"--action-bounds: the actions of {policy} are {space} according to {source}: leave it out"
                )
            if wanted.time_limit is not None:
                one = with_time_limit(one, wanted.time_limit)
            had = found.get(policy)
            if had is not None and (had.spaces.obs != one.spaces.obs or had.spaces.action != one.spaces.action):
                raise SpaceError(f"{source}: holds {one.spaces}, and what was read before it {had.spaces}")
            found[policy] = one if had is None else joined(had, one)
    select, relabel = select or SelectionConfig(), relabel or RelabelConfig()
    if select.is_everything and relabel.is_nothing:
        return found
    name = ", ".join(map(str, sources))
    return {policy: FilteredEpisodes(one, select, relabel, name) for policy, one in found.items()}


def export_stored(
    stored: StoredReplay, target: str, kind: str, *, name: str | None = None, advance: Callable[[int], object]
) -> None:
    """Exports a stored replay buffer; an existing file is replaced.

    Args:
        stored: The replay buffer.
        target: A file, or ``minari:ID``.
        kind: The format.
        name: Name of the behaviour in Unity's files; None = the policy's name.
        advance: Called with the number of newly written values.

    Raises:
        FileError: If it is broken, or the file cannot be written.
        ConfigError: If a package is not installed, or required columns are unknown.
        SpaceError: If the format does not support these spaces; names formats that do.
    """
    found: ReplayFormat = REPLAY_FORMATS.load(kind)
    if found.write is None:
        raise ConfigError(f"{target}: {found.read_only}")
    if not found.prefix:
        make_folder(Path(target).parent)
    place = target.removeprefix(found.prefix) if found.prefix else Path(target)
    found.write(stored, place, name or stored.policy, advance)


def import_replay(
    sources: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    observation_space: spaces.Space[Any] | None = None,
    action_space: spaces.Space[Any] | None = None,
    columns: Mapping[str, Sequence[str]] | None = None,
    format: str | None = None,
    policy: str = "main",
    trust_pickle: bool = False,
    time_limit: int | None = None,
    cut_at_jumps: bool = False,
    clip_actions: bool = False,
    max_unpacked_gb: float | None = None,
    select: SelectionConfig | Mapping[str, Any] | None = None,
    relabel: RelabelConfig | Mapping[str, Any] | None = None,
    force: bool = False,
) -> dict[str, EpisodeSource]:
    """Makes a replay directory of files that others have recorded.

    Args:
        sources: Files, directories of files of one sort, or ``minari:ID``; one, or several of the same spaces.
        out: The directory.
        observation_space: Space of the observations; None = as the files say, or as their numbers look.
        action_space: Space of the actions, likewise; both are given, or none.
        columns: Names or patterns of the columns of a table, by role (``obs``, ``action``, ``reward`` and so on).
        format: Name of the format, if the file names do not determine it.
        policy: Name of the policy, if files do not contain it.
        trust_pickle: Whether columns that are pickles, which can run any code, may be read.
        time_limit: Episodes of this length count as truncated, whatever their flags.
        cut_at_jumps: Whether episodes are truncated where time jumps; else jumps are refused.
        clip_actions: Whether actions outside the bounds are clipped; else they are refused.
        max_unpacked_gb: Gigabytes that the compressed parts of a file may grow to; None = 1,000 times its size, at
            least 0.27.
        select: Selection of episodes, as ``{"best": 0.1}``: a `SelectionConfig`, or its settings; None = all.
        relabel: Relabelling of rewards, as ``{"scale": 0.1}``: a `RelabelConfig`, or its settings; None = unchanged.
        force: Whether to replace an existing directory.

    Returns:
        The imported episodes by policy; they are read from the files again on access.

    Raises:
        ConfigError: If `out` exists, or a file cannot be read; names the row.
        FileError: If a file does not exist or is broken, or the directory cannot be written.
        SpaceError: If the files' spaces differ from each other or from the wanted ones; names both.
    """
    place = Path(out)
    if place.exists() and not force:
        raise ConfigError(f"{place}: exists; give force=True to replace it, or another name")
    made_of = None
    if observation_space is not None and action_space is not None:
        made_of = Spaces(obs_spec(observation_space, action_space), action_spec(action_space), 0)
    elif observation_space is not None or action_space is not None:
        raise ConfigError("import_replay: observation_space and action_space are given together, or none of them")
    files = [sources] if isinstance(sources, str | Path) else sources
    allowed = allowed_bytes("max_unpacked_gb", max_unpacked_gb)
    wanted = Wanted(
        made_of, columns or {}, trust_pickle, policy, time_limit, None, cut_at_jumps, clip_actions, None, allowed
    )
    chosen = SelectionConfig(**select) if isinstance(select, Mapping) else select
    anew = RelabelConfig(**relabel) if isinstance(relabel, Mapping) else relabel
    found = read_recordings(files, wanted, format, select=chosen, relabel=anew)
    names = [str(file) for file in files]
    write_recordings(place, found, replace=force, written=last_change(map(Path, files)), imported=names)
    return found


def export_replay(
    source: str | Path, target: str | Path, *, format: str | None = None, name: str | None = None, force: bool = False
) -> int:
    """Exports a replay buffer to a format of other programs.

    Args:
        source: A run, a checkpoint or a replay directory, with ``:policy`` appended if there are several.
        target: A file ``.npz``, ``.csv``, ``.parquet``, ``.json`` (RLlib) or ``.demo`` (Unity), or ``minari:ID``.
        format: Name of the format, if the file name does not determine it.
        name: Name of the behaviour in a file for Unity; None = the policy's name.
        force: Whether to replace an existing file.

    Returns:
        The number of decisions.

    Raises:
        ConfigError: If the file exists, or a package is not installed.
        FileError: If the replay buffer does not exist or is broken, or the file cannot be written.
        SpaceError: If the format has no room for its spaces; names what has.
    """
    stored = find_replay(source)
    kind = format_of(str(target), format)
    if kind != "minari" and Path(target).exists() and not force:
        raise ConfigError(f"{target}: exists; give force=True to replace it, or another name")
    export_stored(stored, str(target), kind, name=name, advance=lambda count: None)
    return len(stored)
