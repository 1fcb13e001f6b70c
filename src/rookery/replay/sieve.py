"""Chosen episodes of a stored replay buffer, with rewards made anew, as a run begins with them or draws from them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from rookery.core.errors import ConfigError
from rookery.replay.buffer import ReplayBuffer
from rookery.replay.frames import observations_at
from rookery.replay.pieces import Piece, kept_rows, rows_in
from rookery.replay.relabel import Relabel
from rookery.replay.segments import StoredReplay, copy_rows
from rookery.replay.selecting import SelectionConfig, chosen_episodes
from rookery.replay.summary import stretches_in
from rookery.replay.transfer import following_rows

PART = 8192
"""Rows whose rewards are made anew together."""


class EpisodeRows:
    """Finds which rows of a stored replay buffer are an episode.

    Attributes:
        episode: ``[rows]`` number of each row's episode, counted by their first rows.
        lengths: ``[E]``.
        returns: ``[E]`` NaN where the first decision or the end is not there.
    """

    def __init__(self, stored: StoredReplay) -> None:
        self.episode = np.zeros(len(stored), np.int64)
        self._sums: list[float] = []
        self._open: dict[int, int] = {}  # the episode under way, by slot
        self._starts: list[int] = []
        self._whole: list[bool] = []
        self._over: list[bool] = []
        first = 0
        for piece in stored.pieces():
            if not piece.continues:
                self._open.clear()
            self._add(piece.rows, first)
            first += rows_in(piece.rows)
        order = np.argsort(self._starts)  # pieces are read slot by slot
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        self.episode = rank[self.episode]
        self.lengths = np.bincount(self.episode, minlength=len(order))
        self.returns = np.where(np.array(self._whole) & np.array(self._over), self._sums, np.nan)[order]

    def _add(self, piece: Piece, first: int) -> None:
        for stretch in stretches_in(piece):
            had = self._open.pop(stretch.slot, None)
            if had is not None and stretch.begins:  # it was broken off, which is an end
                self._over[had] = True
            if had is None or stretch.begins or stretch.alone:
                had = len(self._sums)
                self._sums.append(0.0)
                self._starts.append(first + int(stretch.rows[0]))
                self._whole.append(stretch.begins)
                self._over.append(False)
            self._sums[had] += stretch.reward
            self.episode[first + stretch.rows] = had
            if stretch.terminated or stretch.truncated:
                self._over[had] = True
            else:
                self._open[stretch.slot] = had


@lru_cache(maxsize=2)
def chosen_rows(stored: StoredReplay, cfg: SelectionConfig) -> np.ndarray:
    """Finds the rows ``[rows]`` bool of the episodes that are taken.

    Raises:
        ConfigError: If there are none, or returns decide and rewards are not known.
        FileError: If a segment is missing, broken or foreign; names it.
    """
    if cfg.by_return and "reward" in stored.missing:
        raise ConfigError(f"{stored}: has no rewards, so that no episode can be chosen by what it returned")
    found = EpisodeRows(stored)
    taken = np.zeros(len(found.lengths), bool)
    taken[chosen_episodes(found.lengths, found.returns, cfg, str(stored))] = True
    return np.asarray(taken[found.episode])


def count_chosen(stored: StoredReplay, cfg: SelectionConfig) -> int:
    """Counts the decisions that are taken; raises as `chosen_rows` does."""
    return len(stored) if cfg.is_everything else int(np.count_nonzero(chosen_rows(stored, cfg)))


def copy_chosen(stored: StoredReplay, memory: ReplayBuffer) -> int:
    """Adds the episodes that a buffer's settings choose of a stored one, with the rewards that they say; of more than
    fit the newest. Gives their number.

    Raises:
        ConfigError: If there are none, or their rewards cannot be made anew.
        FileError: If a segment is missing, broken or foreign; names it.
        RookeryError: If they do not fit to the memory's policy.
    """
    cfg = memory.cfg
    if cfg.select.is_everything and cfg.relabel.is_nothing:
        return copy_rows(stored, memory)
    relabel = Relabel(cfg.relabel, stored.spaces.obs, stored.spaces.action, str(stored))
    kept = None if cfg.select.is_everything else chosen_rows(stored, cfg.select)
    place = None if kept is None else kept.cumsum() - 1  # of each row among those that are kept
    first = floor = 0
    started = False
    for piece in stored.pieces():
        floor = floor if piece.continues else first
        rows = piece.rows if cfg.relabel.is_nothing else relabelled(piece.rows, relabel, first)
        if kept is not None and place is not None:
            rows = kept_rows(rows, kept, place, first, floor)
        first += rows_in(piece.rows)
        if rows_in(rows):
            with memory.shelf.reading(piece.mapped):
                memory.append(rows, continues=started and (piece.continues or kept is not None))
            started = True
    return min(first if kept is None else int(np.count_nonzero(kept)), memory.capacity)


def relabelled(piece: Piece, relabel: Relabel, first: int) -> Piece:
    """A piece with rewards made anew.

    Args:
        piece: Complete in itself.
        relabel: How.
        first: Number of its first row, for messages.
    """
    if not relabel.needs_observations:
        return piece | {"reward": relabel.plain(piece["reward"])}
    return piece | {"reward": np.concatenate([*_asked(piece, relabel, first)])}


def _asked(piece: Piece, relabel: Relabel, first: int) -> Iterator[np.ndarray]:
    following, aside = following_rows(piece)
    paths = [name.partition("/")[2] for name in piece if name.startswith(("obs/", "stack/"))]
    for start in range(0, rows_in(piece), PART):
        rows = np.arange(start, min(start + PART, rows_in(piece)))
        seen, then = {}, {}
        for path in paths:
            seen[path] = observations_at(piece, path, rows)
            then[path] = np.zeros_like(seen[path])
            inside, beyond = following[rows] >= 0, aside[rows] >= 0
            then[path][inside] = observations_at(piece, path, following[rows][inside])
            then[path][beyond] = observations_at(piece, path, aside[rows][beyond], "next_")
        plain = piece["action"][rows], piece["reward"][rows]
        yield relabel.rewards(seen, *plain, then, np.array(piece["terminated"][rows]), first + start)
