"""Data sets of Minari, by their ids (``D4RL/pointmaze/umaze-v2``) or their folders."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.core.errors import ConfigError, SpaceError
from rookery.core.io.files import FileError
from rookery.core.packages import needed
from rookery.core.spaces.arrays import action_spec, nested, obs_spec
from rookery.replay.formats.columns import Wanted
from rookery.replay.formats.replay_format import ReplayFormat, of_recording
from rookery.replay.recording import RecordedEpisode, Recording
from rookery.replay.segments import Spaces


def minari() -> Any:
    """Returns the package.

    Raises:
        ConfigError: If it is not installed.
    """
    with needed("Minari's data sets need minari", "offline"):
        import minari as package
    return package


def read_minari(source: str, wanted: Wanted) -> dict[str, Recording]:
    """Reads a local data set (``minari download`` fetches others).

    Args:
        source: Its id, or its folder.
        wanted: Options of reading.

    Raises:
        ConfigError: If minari is not installed, or an episode cannot be used; names it.
        FileError: If the data set does not exist.
        SpaceError: If its spaces differ.
    """
    package = minari()
    try:
        data = package.MinariDataset(Path(source) / "data") if Path(source).is_dir() else package.load_dataset(source)
    except (OSError, ValueError, KeyError) as error:
        raise FileError(f"minari:{source}: cannot be read: {error}; minari download {source} fetches it") from None
    action = action_spec(data.action_space)
    made_of = Spaces(obs_spec(data.observation_space, action.space), action, 0)
    if wanted.spaces is not None and (wanted.spaces.obs != made_of.obs or wanted.spaces.action != action):
        raise SpaceError(f"minari:{source}: holds {made_of}, and {wanted.spaces} are wanted")
    episodes = tuple(_episode(source, one, made_of) for one in data.iterate_episodes())
    return {wanted.policy: Recording(made_of, tuple(one for one in episodes if len(one)))}


def _episode(source: str, data: Any, made_of: Spaces) -> RecordedEpisode:
    place, length = f"minari:{source}: episode {data.id}", len(data.rewards)
    try:
        tree, _ = made_of.obs.read(data.observations)
        action = made_of.action.from_env(_listed(made_of.action.space, data.actions, length))
    except SpaceError as error:
        raise ConfigError(f"{place}: {error}") from None
    if problem := made_of.obs.check(tree, slice(None)):
        raise ConfigError(f"{place}: {problem}")
    if not np.isfinite(data.rewards).all():
        raise ConfigError(f"{place}, row {int(np.argmin(np.isfinite(data.rewards))) + 1}: the reward is not a number")
    ends, cut = bool(data.terminations[-1:].any()), bool(data.truncations[-1:].any())
    last = {path: leaf[length : length + 1] for path, leaf in tree.items()}
    known = not ends and len(next(iter(last.values()))) > 0
    seen = {path: leaf[:length] for path, leaf in tree.items()}
    reward = np.asarray(data.rewards, np.float32)
    return RecordedEpisode(seen, action, reward, None, ends, cut and not ends, last if known else None)


def _listed(space: spaces.Space[Any], actions: Any, number: int) -> Any:
    """Returns a list of actions from a dict or tuple of arrays."""
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return np.asarray(actions)

    def columns(part: spaces.Space[Any], value: Any) -> Iterator[Any]:
        if isinstance(part, spaces.Dict | spaces.Tuple):
            for key, inner in part.spaces.items() if isinstance(part, spaces.Dict) else enumerate(part.spaces):
                yield from columns(inner, value[key])
        else:
            yield value

    found = list(columns(space, actions))
    return [nested(space, iter([column[row] for column in found])) for row in range(number)]


def write_minari(recording: Recording, name: str) -> None:
    """Creates a local data set; images are stored lossless.

    The final observation of a terminated episode is unknown: the previous one replaces it.

    Args:
        recording: The episodes.
        name: Id of the data set, as in ``mine/pole-v0``.

    Raises:
        ConfigError: If minari is not installed, or the id exists.
        SpaceError: If parts of observations are not stored.
    """
    package = minari()
    from minari.data_collector import EpisodeBuffer

    spec = recording.spaces
    if spec.obs.dropped or any(leaf.kind == "entities" for leaf in spec.obs.leaves):
        raise SpaceError(f"minari:{name}: not all of {spec.obs.space} is stored, so that it cannot be exported")
    if "reward" in recording.missing:
        raise ConfigError(f"minari:{name}: {recording.spaces} have no rewards, which such a data set must have")
    buffers = []
    for number, episode in enumerate(recording.episodes):
        last = episode.last_obs or {path: leaf[-1:] for path, leaf in episode.obs.items()}
        seen = {path: np.concatenate((leaf, last[path])) for path, leaf in episode.obs.items()}
        ends = np.zeros((2, len(episode)), bool)
        ends[:, -1] = episode.terminated, not episode.terminated
        buffers.append(
            EpisodeBuffer(
                id=number,
                observations=spec.obs.to_env(seen),
                actions=_stacked(spec.action.space, list(spec.action.to_env(episode.action))),
                rewards=[] if episode.reward is None else episode.reward.tolist(),
                terminations=ends[0].tolist(),
                truncations=ends[1].tolist(),
            )
        )
    made = package.create_dataset_from_buffers
    lossless = {"jpeg_encoding": False} if "jpeg_encoding" in inspect.signature(made).parameters else {}
    try:
        made(name, buffers, observation_space=spec.obs.space, action_space=spec.action.space, **lossless)
    except ValueError as error:
        raise ConfigError(f"minari:{name}: cannot be made: {error}") from None


def _stacked(space: spaces.Space[Any], actions: Sequence[Any]) -> Any:
    """Returns actions as a dict or tuple of arrays, if they have parts."""
    if isinstance(space, spaces.Dict):
        return {key: _stacked(part, [one[key] for one in actions]) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_stacked(part, [one[key] for one in actions]) for key, part in enumerate(space.spaces))
    return np.asarray(actions)


MINARI = ReplayFormat(read_minari, of_recording(write_minari), prefix="minari:")
