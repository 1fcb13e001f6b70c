"""Recordings: episodes of one policy as plain arrays, the intermediate form of imports and exports.

Files of other programs are read as a `Recording`, which is written as a replay directory for learners. Unknown columns
of a recording (such as rewards) are noted in the directory, so that nothing is learned from placeholder values.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from rookery.core.errors import ConfigError
from rookery.core.io.files import Content, FileError, Stream, make_folder, write_directory
from rookery.core.spaces.arrays import Tree
from rookery.replay import segments
from rookery.replay.buffer import ReplayBuffer, ReplayConfig
from rookery.replay.segment_arrays import SegmentArrays, rows_in
from rookery.replay.segments import (
    FACTS,
    RAW,
    Spaces,
    StoredReplay,
    copy_rows,
    raw_actions,
    segment_name,
    segment_stream,
    unknown_raw,
)

MISSING = {
    "reward": "rewards are unknown and stored as 0: for imitation only",
    "logp": "log-probabilities are unknown and stored as 0",
    "last_obs": "the final observations of truncated episodes are unknown: the previous ones replace them",
}
"""Columns that a recording may lack, and the consequence."""


LIKELIEST = "the likeliest actions of a squashed policy were recorded, not drawn ones: they have no density"
"""Note on a recording whose log-probabilities look like those of sampled actions but are not. Stored in manifests."""


@dataclass(frozen=True)
class RecordedEpisode:
    """One agent's episode of n decisions.

    Attributes:
        obs: Stored observations, ``[n, ...]`` by leaf path.
        action: Stored actions ``[n, ...]``.
        reward: ``[n]`` float32; None if unknown.
        logp: ``[n]`` float32 log-probabilities; None if unknown.
        terminated: Whether it terminated.
        truncated: Whether it was truncated; if neither, the recording ends within it.
        last_obs: Observation after the last decision, ``[1, ...]`` by leaf path; None if it terminated, or if unknown.
        action_raw: ``[n, k]`` float32, the k inputs of tanh of squashed actions, NaN where unknown; None if all are.
    """

    obs: Tree
    action: np.ndarray
    reward: np.ndarray | None
    logp: np.ndarray | None
    terminated: bool
    truncated: bool
    last_obs: Tree | None
    action_raw: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.action)


class EpisodeSource(Protocol):
    """Episodes of one policy, in memory or read on demand, in the order of their starts."""

    @property
    def spaces(self) -> Spaces:
        """Observation and action spaces."""
        ...

    @property
    def missing(self) -> tuple[str, ...]:
        """Unknown columns, names of `MISSING`."""
        ...

    @property
    def lengths(self) -> np.ndarray:
        """Number of decisions of each, ``[E]``, at least 1."""
        ...

    @property
    def taken(self) -> tuple[str, ...]:
        """Roles of the columns of the files, as text: ``observation: x, v``."""
        ...

    @property
    def dropped(self) -> tuple[str, ...]:
        """Unused columns of the files."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Further notes."""
        ...

    @property
    def episodes(self) -> Sequence[RecordedEpisode]:
        """All episodes in memory."""
        ...

    def __len__(self) -> int:
        """Returns the number of decisions."""
        ...

    def returns(self) -> np.ndarray:
        """Returns the return of each ``[E]``, float64; NaN where unknown."""
        ...

    def read(self, which: np.ndarray) -> Iterator[RecordedEpisode]:
        """Yields some episodes, by their ascending indices."""
        ...


@dataclass(frozen=True)
class Recording:
    """Episodes of one policy, in memory.

    Attributes:
        spaces: Their spaces.
        episodes: In the order of their starts, none of them empty.
        taken: Roles of the columns of the files, as text.
        dropped: Unused columns of the files.
        notes: Notes on the recordings of each policy, for the user.
    """

    spaces: Spaces
    episodes: tuple[RecordedEpisode, ...]
    taken: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return sum(map(len, self.episodes))

    @property
    def lengths(self) -> np.ndarray:
        """Number of decisions of each episode, ``[E]``."""
        return np.array([len(one) for one in self.episodes], np.int64)

    def returns(self) -> np.ndarray:
        """Returns the return of each episode ``[E]``; NaN where it is unknown, as for an unfinished one."""
        sums = [np.nan if one.reward is None else float(one.reward.sum(dtype=np.float64)) for one in self.episodes]
        return without_running(np.array(sums), [one.terminated or one.truncated for one in self.episodes[-1:]])

    def read(self, which: np.ndarray) -> Iterator[RecordedEpisode]:
        """Yields some episodes, by their indices."""
        return (self.episodes[number] for number in which.tolist())

    @property
    def missing(self) -> tuple[str, ...]:
        """Unknown columns, names of `MISSING`."""
        lacks = {
            "reward": any(one.reward is None for one in self.episodes),
            "logp": any(one.logp is None for one in self.episodes),
            "last_obs": any(one.last_obs is None and not one.terminated for one in self.episodes),
        }
        return tuple(name for name, is_missing in lacks.items() if is_missing)


def without_running(returns: np.ndarray, has_ended: Sequence[bool]) -> np.ndarray:
    """Returns the returns of episodes ``[E]``, with NaN for an unfinished last one."""
    if len(returns) and not has_ended[-1]:
        returns[-1] = np.nan
    return returns


def segment_streams(source: EpisodeSource, policy: str, written: float) -> dict[str, Content]:
    """Returns the segments of a replay directory with these episodes, of whole episodes each; they are read when
    written.

    Args:
        source: The episodes.
        policy: Name of the policy.
        written: Time when they were first written, in seconds since 1970.
    """
    spaces, lengths = source.spaces, source.lengths
    row = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in spaces.obs.leaves)
    row += math.prod(spaces.action.shape) * spaces.action.dtype.itemsize + 64
    found: dict[str, Content] = {}

    def stream(first: int, last: int, serial: int, size: int) -> Stream:
        def chunks() -> Iterator[bytes | memoryview]:
            segment = segment_of_episodes(list(source.read(np.arange(first, last))), serial)
            yield from segment_stream(segment, spaces, first=serial, continues=serial > 0, written=written).chunks()

        return Stream(size, chunks)

    first = serial = size = rows = 0
    for number, length in enumerate(lengths.tolist()):
        size, rows = size + row * length, rows + length
        if size >= segments.SEGMENT_BYTES or number == len(lengths) - 1:
            found[segment_name(policy, serial)] = stream(first, number + 1, serial, size)
            first, serial, size, rows = number + 1, serial + rows, 0, 0
    return found


def segment_of_episodes(episodes: Sequence[RecordedEpisode], serial: int) -> SegmentArrays:
    """Returns episodes one after the other, as rows of one slot; unknown values are 0.

    Args:
        episodes: The episodes.
        serial: Serial number of the first row.
    """
    lengths = np.array([len(one) for one in episodes])
    number, last = int(lengths.sum()), lengths.cumsum() - 1

    def joined(name: str) -> np.ndarray:
        known = [getattr(one, name) for one in episodes]
        return np.concatenate(
            [np.zeros(len(one), np.float32) if array is None else array.astype(np.float32)
             for one, array in zip(episodes, known, strict=True)]
        )  # fmt: skip

    flags = {name: np.zeros(number, bool) for name in ("terminated", "truncated", "begins")}
    flags["terminated"][last] = [one.terminated for one in episodes]
    flags["truncated"][last] = [one.truncated for one in episodes]
    flags["begins"][last - lengths + 1] = True
    before = np.ones(number, np.int64)
    before[0] = serial > 0
    going_on = [one for one in episodes if not one.terminated]
    segment = {
        "serial": np.array([serial]),
        "action": np.concatenate([one.action for one in episodes]),
        "logp": joined("logp"),
        "reward": joined("reward"),
        **flags,
        "slot": np.zeros(number, np.int64),
        "clock": serial + np.arange(number),
        "before": before,
        "next_row": last[[not one.terminated for one in episodes]],
    }
    if (raw := raw_of_episodes(episodes)) is not None:
        segment[RAW] = raw
    for path, array in episodes[0].obs.items():
        segment[f"obs/{path}"] = np.concatenate([one.obs[path] for one in episodes])
        seen = [one.obs[path][-1:] if one.last_obs is None else one.last_obs[path] for one in going_on]
        segment[f"next_obs/{path}"] = np.concatenate([array[:0], *seen])
    return segment


def known_raw(raw: np.ndarray) -> np.ndarray | None:
    """Returns the inputs of tanh ``[n, k]``; None if all are unknown."""
    return None if np.isnan(raw).all() else raw


def raw_of_episodes(episodes: Sequence[RecordedEpisode]) -> np.ndarray | None:
    """Returns `RecordedEpisode.action_raw` of episodes, one after the other; None if none of them has it."""
    width = next((one.action_raw.shape[1] for one in episodes if one.action_raw is not None), None)
    if width is None:
        return None
    parts = [unknown_raw(len(one), width) if one.action_raw is None else one.action_raw for one in episodes]
    return np.concatenate(parts)


def joined_segments(arrays: Sequence[SegmentArrays], serial: int) -> SegmentArrays:
    """Returns several segments with whole observations and separate episodes as one segment."""
    sizes = np.cumsum([0, *map(rows_in, arrays)])
    found: SegmentArrays = {}
    for name in arrays[0]:
        parts = [one[name] for one in arrays]
        if name in ("next_row", "memory_row"):
            parts = [part + start for part, start in zip(parts, sizes, strict=False)]
        found[name] = np.array([serial]) if name == "serial" else np.concatenate(parts)
    return found


def last_change(files: Iterable[Path]) -> float | None:
    """Returns the time of the last change of files, or of files in directories, in seconds since 1970; None without
    files.
    """
    found = [one for path in files for one in (path.rglob("*") if path.is_dir() else (path,)) if one.is_file()]
    return max((one.stat().st_mtime for one in found), default=None)


def files_of(
    arrays: Mapping[str, Iterable[SegmentArrays]],
    spaces: Mapping[str, Spaces],
    missing: Mapping[str, Sequence[str]],
    written: float | None = None,
    notes: Mapping[str, Sequence[str]] | None = None,
) -> tuple[dict[str, Content], dict[str, Any]]:
    """Returns a replay directory with these rows: its files by name, and the entries of its manifest.

    Args:
        arrays: Rows of each policy, one entry per segment, each beginning at the end of the previous one.
        spaces: Spaces of each policy's rows.
        missing: Unknown columns.
        written: Time when they were first written, in seconds since 1970; None = now.
        notes: Notes on the recordings of each policy, for the user.
    """
    files: dict[str, Content] = {}
    facts: dict[str, Any] = {}
    written = time.time() if written is None else written
    for policy, parts in arrays.items():
        total = 0
        for segment in parts:
            files[segment_name(policy, total)] = segment_stream(
                segment, spaces[policy], first=total, continues=total > 0, written=written
            )
            total += rows_in(segment)
        facts[policy] = {"first": 0, "last": total, "capacity": None}
        if missing.get(policy):
            facts[policy]["missing"] = list(missing[policy])
        if notes and notes.get(policy):
            facts[policy]["notes"] = list(notes[policy])
    return files, {FACTS: facts}


def write_recordings(
    path: Path,
    recordings: Mapping[str, EpisodeSource],
    *,
    replace: bool = False,
    written: float | None = None,
    imported: Sequence[str] = (),
) -> None:
    """Writes recordings as a replay directory, one segment at a time.

    Args:
        path: The directory.
        recordings: Recordings by policy.
        replace: Whether to replace an existing directory once the new one is complete.
        written: Time when they were first written, in seconds since 1970; None = now. Equal recordings with equal times
            give equal files.
        imported: The imported files.

    Raises:
        ConfigError: If they are empty.
        FileError: If the directory cannot be written.
    """
    kept = {policy: one for policy, one in recordings.items() if len(one)}
    if not kept:
        raise ConfigError(f"{path}: there are no decisions to write")
    make_folder(path.parent)
    files: dict[str, Content] = {}
    facts: dict[str, Any] = {}
    written = time.time() if written is None else written
    for policy, one in kept.items():
        files |= segment_streams(one, policy, written)
        origin = {name: getattr(one, name) for name in ("missing", "taken", "dropped", "notes")}
        origin["imported"] = tuple(imported)
        facts[policy] = {"first": 0, "last": len(one), "capacity": None}
        facts[policy] |= {name: list(texts) for name, texts in origin.items() if texts}
    write_directory(path, files, {FACTS: facts}, replace=replace)


def recording_of(stored: StoredReplay) -> Recording:
    """Returns the episodes of a stored replay buffer, including partial ones; without the policy's memory.

    Raises:
        FileError: If a segment is missing, broken or foreign; names it.
    """
    spaces = Spaces(stored.spaces.obs, stored.spaces.action, 0)
    number = len(stored)
    rng = np.random.default_rng(0)  # never drawn from
    cfg = ReplayConfig(capacity=number)
    try:
        buffer = ReplayBuffer(spaces.obs, spaces.action, cfg, rng, memory_size=0, memory_every=1)
        copy_rows(stored, buffer)
    except (ConfigError, MemoryError):
        raise FileError(
            f"{stored}: its {number:,} decisions are read at once for this format and do not fit into the free memory; "
            "export to .npz, which is written in parts, or import fewer episodes (--last-decisions N)"
        ) from None
    rows = buffer.serial_of(np.arange(number)).argsort()  # oldest first
    after, missing, raw = buffer.after, set(stored.missing), raw_actions(stored)
    continues = (after < number) & (after != np.arange(number))
    is_start = np.ones(number, bool)
    is_start[after[continues]] = False
    episodes = []
    for row in rows[is_start[rows]].tolist():
        chain = [row]
        while continues[chain[-1]]:
            chain.append(int(after[chain[-1]]))
        at, last = np.array(chain), chain[-1]
        obs = buffer.observations.gather_rows(at)
        terminated = bool(buffer.terminated[last])
        last_obs = None if terminated else buffer.observations.gather(after[last : last + 1])
        if last_obs is not None and "last_obs" in missing:
            known = any((last_obs[path][0] != array[-1]).any() for path, array in obs.items())
            last_obs = last_obs if known else None
        episodes.append(
            RecordedEpisode(
                obs,
                buffer.action[at],
                None if "reward" in missing else buffer.reward[at],
                None if "logp" in missing else buffer.logp[at],
                terminated,
                bool(buffer.truncated[last]) and not terminated,
                last_obs,
                None if raw is None else known_raw(raw[at]),
            )
        )
    return Recording(spaces, tuple(episodes))
