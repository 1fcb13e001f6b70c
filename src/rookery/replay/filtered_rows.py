"""Selected episodes of a stored replay buffer, with relabelled rewards, for the buffer of a run."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from rookery.core.errors import ConfigError
from rookery.replay.buffer import ReplayBuffer
from rookery.replay.episode_filter import SelectionConfig, filter_episodes
from rookery.replay.frames import observations_at
from rookery.replay.relabel import Relabel
from rookery.replay.segment_arrays import SegmentArrays, kept_rows, rows_in
from rookery.replay.segments import StoredReplay, copy_rows
from rookery.replay.summary import episode_parts
from rookery.replay.transfer import following_rows

PART = 8192
"""Number of rows that are relabelled at once."""


class EpisodeRows:
    """Episode of each row of a stored replay buffer.

    Attributes:
        episode: ``[rows]`` index of each row's episode, in the order of first rows.
        lengths: ``[E]`` number of decisions.
        returns: ``[E]`` NaN if the first decision or the end is missing.
    """

    def __init__(self, stored: StoredReplay) -> None:
        self.episode = np.zeros(len(stored), np.int64)
        self._sums: list[float] = []
        self._open: dict[int, int] = {}  # running episode by slot
        self._starts: list[int] = []
        self._whole: list[bool] = []
        self._over: list[bool] = []
        first = 0
        for segment in stored.open_segments():
            if not segment.continues:
                self._open.clear()
            self._add(segment.rows, first)
            first += rows_in(segment.rows)
        order = np.argsort(self._starts)  # segments are read by slot
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        self.episode = rank[self.episode]
        self.lengths = np.bincount(self.episode, minlength=len(order))
        self.returns = np.where(np.array(self._whole) & np.array(self._over), self._sums, np.nan)[order]

    def _add(self, segment: SegmentArrays, first: int) -> None:
        for part in episode_parts(segment):
            had = self._open.pop(part.slot, None)
            if had is not None and part.begins:  # it was interrupted, which counts as an end
                self._over[had] = True
            if had is None or part.begins or part.alone:
                had = len(self._sums)
                self._sums.append(0.0)
                self._starts.append(first + int(part.rows[0]))
                self._whole.append(part.begins)
                self._over.append(False)
            self._sums[had] += part.reward
            self.episode[first + part.rows] = had
            if part.terminated or part.truncated:
                self._over[had] = True
            else:
                self._open[part.slot] = had


@lru_cache(maxsize=2)
def filtered_rows(stored: StoredReplay, cfg: SelectionConfig) -> np.ndarray:
    """Returns a mask ``[rows]`` of the rows of selected episodes.

    Raises:
        ConfigError: If there are none, or the selection needs rewards that are unknown.
        FileError: If a segment is missing, broken or foreign; names it.
    """
    if cfg.by_return and "reward" in stored.missing:
        raise ConfigError(f"{stored}: has no rewards, so that no episode can be selected by return")
    found = EpisodeRows(stored)
    taken = np.zeros(len(found.lengths), bool)
    taken[filter_episodes(found.lengths, found.returns, cfg, str(stored))] = True
    return np.asarray(taken[found.episode])


def count_filtered(stored: StoredReplay, cfg: SelectionConfig) -> int:
    """Returns the number of selected decisions; raises as `filtered_rows`."""
    return len(stored) if cfg.is_everything else int(np.count_nonzero(filtered_rows(stored, cfg)))


def copy_filtered(stored: StoredReplay, memory: ReplayBuffer) -> int:
    """Adds the episodes of a stored buffer that a buffer's settings select, relabelled; if they do not fit, the newest.
    Returns the number of decisions.

    Raises:
        ConfigError: If there are none, or their rewards cannot be relabelled.
        FileError: If a segment is missing, broken or foreign; names it.
        RookeryError: If they do not fit the buffer's policy.
    """
    cfg = memory.cfg
    if cfg.select.is_everything and cfg.relabel.is_nothing:
        return copy_rows(stored, memory)
    relabel = Relabel(cfg.relabel, stored.spaces.obs, stored.spaces.action, str(stored))
    kept = None if cfg.select.is_everything else filtered_rows(stored, cfg.select)
    place = None if kept is None else kept.cumsum() - 1  # index of each row among the kept ones
    first = floor = 0
    started = False
    for segment in stored.open_segments():
        floor = floor if segment.continues else first
        rows = segment.rows if cfg.relabel.is_nothing else relabelled(segment.rows, relabel, first)
        if kept is not None and place is not None:
            rows = kept_rows(rows, kept, place, first, floor)
        first += rows_in(segment.rows)
        if rows_in(rows):
            with memory.memmaps.reading(segment.mapped):
                memory.append(rows, continues=started and (segment.continues or kept is not None))
            started = True
    return min(first if kept is None else int(np.count_nonzero(kept)), memory.capacity)


def relabelled(segment: SegmentArrays, relabel: Relabel, first: int) -> SegmentArrays:
    """Returns a segment with relabelled rewards.

    Args:
        segment: A complete segment.
        relabel: The new rewards.
        first: Index of its first row, for messages.
    """
    if not relabel.needs_observations:
        return segment | {"reward": relabel.plain(segment["reward"])}
    return segment | {"reward": np.concatenate([*_function_rewards(segment, relabel, first)])}


def _function_rewards(segment: SegmentArrays, relabel: Relabel, first: int) -> Iterator[np.ndarray]:
    following, aside = following_rows(segment)
    paths = [name.partition("/")[2] for name in segment if name.startswith(("obs/", "stack/"))]
    for start in range(0, rows_in(segment), PART):
        rows = np.arange(start, min(start + PART, rows_in(segment)))
        seen, then = {}, {}
        for path in paths:
            seen[path] = observations_at(segment, path, rows)
            then[path] = np.zeros_like(seen[path])
            inside, beyond = following[rows] >= 0, aside[rows] >= 0
            then[path][inside] = observations_at(segment, path, following[rows][inside])
            then[path][beyond] = observations_at(segment, path, aside[rows][beyond], "next_")
        plain = segment["action"][rows], segment["reward"][rows]
        yield relabel.rewards(seen, *plain, then, np.array(segment["terminated"][rows]), first + start)
