"""Recordings: episodes of one policy as plain arrays, between the files of others and replay directories.

Whatever was recorded elsewhere becomes a `Recording` first, and that a replay directory, which is all that learners
know. What a recording does not say (rewards, say) is noted in the directory, so that nothing is learned from made-up
numbers.
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
from rookery.replay.pieces import Piece, rows_in
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
    "reward": "rewards are not known and stand as 0: for imitation alone",
    "logp": "log-probabilities are not known and stand as 0",
    "last_obs": "the last observations of cut-off episodes are not known: those before them stand for them",
}
"""What a recording may lack, and what that means."""


LIKELIEST = "the likeliest actions of a squashed policy were recorded, not drawn ones: they have no density"
"""Note on a recording whose log-probabilities look like those of drawn actions and are not."""


@dataclass(frozen=True)
class RecordedEpisode:
    """One agent's episode of n decisions.

    Attributes:
        obs: What was seen, ``[n, ...]`` by leaf path, as it is stored.
        action: What was decided ``[n, ...]``, as it is stored.
        reward: ``[n]`` float32; None if nobody knows.
        logp: ``[n]`` float32 log-probabilities; None if nobody knows.
        terminated: Whether it ended and has no future.
        truncated: Whether it was cut off; where neither is true, the record of it ends.
        last_obs: What was seen after the last decision, ``[1, ...]`` by leaf path; None if it terminated, or nobody
            knows.
        action_raw: ``[n, k]`` float32, of squashed actions the k numbers that tanh was taken of, NaN where one is not
            known; None if none is.
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
    """Episodes of one policy, in memory or read when they are wanted, in the order in which they began."""

    @property
    def spaces(self) -> Spaces:
        """What they are made of."""
        ...

    @property
    def missing(self) -> tuple[str, ...]:
        """What is not known of them, names of `MISSING`."""
        ...

    @property
    def lengths(self) -> np.ndarray:
        """Decisions of each, ``[E]``, none of them 0."""
        ...

    @property
    def taken(self) -> tuple[str, ...]:
        """What became of the columns of the files, in words: ``observation: x, v``."""
        ...

    @property
    def dropped(self) -> tuple[str, ...]:
        """Columns of the files that nothing was made of."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What else is to be known of them, for people."""
        ...

    @property
    def episodes(self) -> Sequence[RecordedEpisode]:
        """All of them at once."""
        ...

    def __len__(self) -> int:
        """Counts the decisions."""
        ...

    def returns(self) -> np.ndarray:
        """Returns the sum of the rewards of each ``[E]``, float64; NaN where it is not known."""
        ...

    def read(self, which: np.ndarray) -> Iterator[RecordedEpisode]:
        """Returns some of them, by their numbers, which ascend."""
        ...


@dataclass(frozen=True)
class Recording:
    """Episodes of one policy, in memory.

    Attributes:
        spaces: What they are made of.
        episodes: In the order in which they began, none of them empty.
        taken: What became of the columns of the files, in words.
        dropped: Columns of the files that nothing was made of.
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
        """Decisions of each episode, ``[E]``."""
        return np.array([len(one) for one in self.episodes], np.int64)

    def returns(self) -> np.ndarray:
        """Returns the return of each episode ``[E]``; NaN where it is unknown, as for an unfinished one."""
        sums = [np.nan if one.reward is None else float(one.reward.sum(dtype=np.float64)) for one in self.episodes]
        return without_running(np.array(sums), [one.terminated or one.truncated for one in self.episodes[-1:]])

    def read(self, which: np.ndarray) -> Iterator[RecordedEpisode]:
        """Returns some episodes, by their numbers."""
        return (self.episodes[number] for number in which.tolist())

    @property
    def missing(self) -> tuple[str, ...]:
        """What is not known of it, names of `MISSING`."""
        lacks = {
            "reward": any(one.reward is None for one in self.episodes),
            "logp": any(one.logp is None for one in self.episodes),
            "last_obs": any(one.last_obs is None and not one.terminated for one in self.episodes),
        }
        return tuple(name for name, is_missing in lacks.items() if is_missing)


def without_running(returns: np.ndarray, has_ended: Sequence[bool]) -> np.ndarray:
    """Returns of episodes ``[E]``, of which nobody knows that of the last one where nothing has ended it."""
    if len(returns) and not has_ended[-1]:
        returns[-1] = np.nan
    return returns


def segment_streams(source: EpisodeSource, policy: str, written: float) -> dict[str, Content]:
    """The segments of a replay directory with these episodes, whole ones each, which are read when they are written.

    Args:
        source: The episodes.
        policy: Whose they are.
        written: When they were first written, in seconds since 1970.
    """
    spaces, lengths = source.spaces, source.lengths
    row = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in spaces.obs.leaves)
    row += math.prod(spaces.action.shape) * spaces.action.dtype.itemsize + 64
    found: dict[str, Content] = {}

    def stream(first: int, last: int, serial: int, size: int) -> Stream:
        def pieces() -> Iterator[bytes | memoryview]:
            piece = piece_of_episodes(list(source.read(np.arange(first, last))), serial)
            yield from segment_stream(piece, spaces, first=serial, continues=serial > 0, written=written).pieces()

        return Stream(size, pieces)

    first = serial = size = rows = 0
    for number, length in enumerate(lengths.tolist()):
        size, rows = size + row * length, rows + length
        if size >= segments.SEGMENT_BYTES or number == len(lengths) - 1:
            found[segment_name(policy, serial)] = stream(first, number + 1, serial, size)
            first, serial, size, rows = number + 1, serial + rows, 0, 0
    return found


def piece_of_episodes(episodes: Sequence[RecordedEpisode], serial: int) -> Piece:
    """Episodes one after the other, as rows of one slot; what is not known is 0.

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
    piece = {
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
        piece[RAW] = raw
    for path, array in episodes[0].obs.items():
        piece[f"obs/{path}"] = np.concatenate([one.obs[path] for one in episodes])
        seen = [one.obs[path][-1:] if one.last_obs is None else one.last_obs[path] for one in going_on]
        piece[f"next_obs/{path}"] = np.concatenate([array[:0], *seen])
    return piece


def known_raw(raw: np.ndarray) -> np.ndarray | None:
    """Returns the numbers ``[n, k]`` that tanh was taken of; None where not one of them is known."""
    return None if np.isnan(raw).all() else raw


def raw_of_episodes(episodes: Sequence[RecordedEpisode]) -> np.ndarray | None:
    """Returns `RecordedEpisode.action_raw` of episodes, one after the other; None where none of them has it."""
    width = next((one.action_raw.shape[1] for one in episodes if one.action_raw is not None), None)
    if width is None:
        return None
    parts = [unknown_raw(len(one), width) if one.action_raw is None else one.action_raw for one in episodes]
    return np.concatenate(parts)


def joined_pieces(pieces: Sequence[Piece], serial: int) -> Piece:
    """Pieces with whole observations, of episodes of their own each, one after the other as one piece."""
    sizes = np.cumsum([0, *map(rows_in, pieces)])
    found: Piece = {}
    for name in pieces[0]:
        parts = [one[name] for one in pieces]
        if name in ("next_row", "memory_row"):
            parts = [part + start for part, start in zip(parts, sizes, strict=False)]
        found[name] = np.array([serial]) if name == "serial" else np.concatenate(parts)
    return found


def last_change(files: Iterable[Path]) -> float | None:
    """When files, or files in directories, were last changed, in seconds since 1970; None where there are none."""
    found = [one for path in files for one in (path.rglob("*") if path.is_dir() else (path,)) if one.is_file()]
    return max((one.stat().st_mtime for one in found), default=None)


def files_of(
    pieces: Mapping[str, Iterable[Piece]],
    spaces: Mapping[str, Spaces],
    missing: Mapping[str, Sequence[str]],
    written: float | None = None,
    notes: Mapping[str, Sequence[str]] | None = None,
) -> tuple[dict[str, Content], dict[str, Any]]:
    """A replay directory with these rows: its files by name, and what its manifest says of them.

    Args:
        pieces: Of each policy, a segment each, beginning where the one before it ends.
        spaces: What the rows of each policy are made of.
        missing: What is not known of them.
        written: When they were first written, in seconds since 1970; None = now.
        notes: Notes on the recordings of each policy, for the user.
    """
    files: dict[str, Content] = {}
    facts: dict[str, Any] = {}
    written = time.time() if written is None else written
    for policy, parts in pieces.items():
        total = 0
        for piece in parts:
            files[segment_name(policy, total)] = segment_stream(
                piece, spaces[policy], first=total, continues=total > 0, written=written
            )
            total += rows_in(piece)
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
    """Writes recordings as a replay directory, a segment at a time.

    Args:
        path: The directory.
        recordings: By the name of the policy.
        replace: Whether a directory that is there goes as soon as the new one is whole.
        written: When they were first written, in seconds since 1970; None = now. Equal recordings of equal times become
            equal files.
        imported: The files that they come from.

    Raises:
        ConfigError: If there is nothing in them.
        FileError: If the directory cannot be written.
    """
    kept = {policy: one for policy, one in recordings.items() if len(one)}
    if not kept:
        raise ConfigError(f"{path}: not one decision is there to be written")
    make_folder(path.parent)
    files: dict[str, Content] = {}
    facts: dict[str, Any] = {}
    written = time.time() if written is None else written
    for policy, one in kept.items():
        files |= segment_streams(one, policy, written)
        said = {name: getattr(one, name) for name in ("missing", "taken", "dropped", "notes")}
        said["imported"] = tuple(imported)
        facts[policy] = {"first": 0, "last": len(one), "capacity": None}
        facts[policy] |= {name: list(texts) for name, texts in said.items() if texts}
    write_directory(path, files, {FACTS: facts}, replace=replace)


def recording_of(stored: StoredReplay) -> Recording:
    """The episodes of a stored replay buffer, those it holds in part included; what a policy remembered is left out.

    Raises:
        FileError: If a segment is missing, broken or foreign; names it.
    """
    spaces = Spaces(stored.spaces.obs, stored.spaces.action, 0)
    number = len(stored)
    rng = np.random.default_rng(0)  # of which nothing is drawn
    cfg = ReplayConfig(capacity=number)
    try:
        buffer = ReplayBuffer(spaces.obs, spaces.action, cfg, rng, memory_size=0, memory_every=1)
        copy_rows(stored, buffer)
    except (ConfigError, MemoryError):
        raise FileError(
            f"{stored}: its {number:,} decisions are read at once here and are too many for the memory that is left; "
            "export to .npz, which needs none of them at once, or import fewer episodes (--last-decisions N)"
        ) from None
    rows = buffer.serial_of(np.arange(number)).argsort()  # oldest first
    after, missing, raw = buffer.after, set(stored.missing), raw_actions(stored)
    goes_on = (after < number) & (after != np.arange(number))
    is_start = np.ones(number, bool)
    is_start[after[goes_on]] = False
    episodes = []
    for row in rows[is_start[rows]].tolist():
        chain = [row]
        while goes_on[chain[-1]]:
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
