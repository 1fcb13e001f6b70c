"""Combined sources of episodes: concatenated, and filtered with relabelled rewards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from rookery.core.errors import ConfigError
from rookery.core.spaces.arrays import Tree
from rookery.replay.episode_filter import SelectionConfig, filter_episodes
from rookery.replay.recording import EpisodeSource, RecordedEpisode, Recording
from rookery.replay.relabel import Relabel, RelabelConfig
from rookery.replay.segments import Spaces


class JoinedEpisodes:
    """Concatenation of several sources with the same spaces."""

    def __init__(self, parts: Sequence[EpisodeSource]) -> None:
        self.parts = tuple(parts)
        self._starts = np.cumsum([0, *(len(part.lengths) for part in parts)])

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @property
    def spaces(self) -> Spaces:
        """Observation and action spaces."""
        return self.parts[0].spaces

    @property
    def missing(self) -> tuple[str, ...]:
        """Columns that are unknown in at least one part."""
        return _united(part.missing for part in self.parts)

    @property
    def taken(self) -> tuple[str, ...]:
        """Roles of the columns of the files."""
        return _united(part.taken for part in self.parts)

    @property
    def dropped(self) -> tuple[str, ...]:
        """Unused columns."""
        return _united(part.dropped for part in self.parts)

    @property
    def notes(self) -> tuple[str, ...]:
        """Further notes."""
        return _united(part.notes for part in self.parts)

    @property
    def lengths(self) -> np.ndarray:
        """Number of decisions of each episode."""
        return np.concatenate([part.lengths for part in self.parts])

    @property
    def episodes(self) -> Sequence[RecordedEpisode]:
        """All episodes in memory."""
        return tuple(self.read(np.arange(int(self._starts[-1]))))

    def returns(self) -> np.ndarray:
        """Returns the return of each episode, NaN where unknown."""
        return np.concatenate([part.returns() for part in self.parts])

    def read(self, which: np.ndarray) -> Iterator[RecordedEpisode]:
        """Yields some episodes, by their ascending indices."""
        for part, start, end in zip(self.parts, self._starts[:-1], self._starts[1:], strict=True):
            yield from part.read(which[(which >= start) & (which < end)] - start)


class FilteredEpisodes:
    """Selected episodes of a source, with relabelled rewards.

    Args:
        source: The episodes.
        select: The selection.
        relabel: Changes of their rewards.
        name: Source of the episodes, for messages.

    Raises:
        ConfigError: If none is selected, or the selection needs returns that are unknown.
    """

    def __init__(self, source: EpisodeSource, select: SelectionConfig, relabel: RelabelConfig, name: str) -> None:
        self._source = source
        self._relabel = Relabel(relabel, source.spaces.obs, source.spaces.action, name)
        if select.by_return and "reward" in source.missing:
            raise ConfigError(f"{name}: has no rewards, so that no episode can be selected by return")
        if "reward" in source.missing and not relabel.is_nothing and relabel.function is None:
            raise ConfigError(f"{name}: has no rewards to scale, shift or clip; name a function of rewards")
        every = source.lengths
        returns = source.returns() if select.by_return else np.full(len(every), np.nan)
        self._which = filter_episodes(every, returns, select, name)
        self._first = np.cumsum([0, *every])
        notes = []
        if select.describe():
            notes.append(f"{len(self._which):,} of {len(every):,} episodes were selected: {select.describe()}")
        if relabel.describe():
            notes.append(f"rewards were relabelled: {relabel.describe()}")
        self.notes = (*source.notes, *notes)
        lacks = source.missing
        self.missing = lacks if relabel.function is None else tuple(one for one in lacks if one != "reward")

    def __len__(self) -> int:
        return int(self.lengths.sum())

    @property
    def spaces(self) -> Spaces:
        """Observation and action spaces."""
        return self._source.spaces

    @property
    def taken(self) -> tuple[str, ...]:
        """Roles of the columns of the files."""
        return self._source.taken

    @property
    def dropped(self) -> tuple[str, ...]:
        """Unused columns."""
        return self._source.dropped

    @property
    def lengths(self) -> np.ndarray:
        """Number of decisions of each episode."""
        return self._source.lengths.take(self._which)

    @property
    def episodes(self) -> Sequence[RecordedEpisode]:
        """All episodes in memory."""
        return tuple(self.read(np.arange(len(self._which))))

    def returns(self) -> np.ndarray:
        """Returns the return of each episode by the new rewards."""
        rewards = (one.reward for one in self.read(np.arange(len(self._which))))
        return np.array([np.nan if one is None else float(one.sum(dtype=np.float64)) for one in rewards])

    def read(self, which: np.ndarray) -> Iterator[RecordedEpisode]:
        """Yields some episodes, by their ascending indices."""
        numbers = self._which[which]
        for number, one in zip(numbers.tolist(), self._source.read(numbers), strict=True):
            yield one if self._relabel.cfg.is_nothing else self._relabelled(one, int(self._first[number]))

    def _relabelled(self, one: RecordedEpisode, first: int) -> RecordedEpisode:
        reward = np.zeros(len(one), np.float32) if one.reward is None else one.reward
        if not self._relabel.needs_observations:
            return replace(one, reward=self._relabel.plain(reward))
        following: Tree = {}
        for path, seen in one.obs.items():
            last = np.zeros_like(seen[:1]) if one.last_obs is None else one.last_obs[path]
            following[path] = np.concatenate((seen[1:], last))
        terminated = np.zeros(len(one), bool)
        terminated[-1] = one.terminated
        return replace(one, reward=self._relabel.rewards(one.obs, one.action, reward, following, terminated, first))


def joined(had: EpisodeSource, more: EpisodeSource) -> EpisodeSource:
    """Returns the episodes of two sources with the same spaces; recordings in memory stay recordings."""
    if isinstance(had, Recording) and isinstance(more, Recording):
        texts = {name: _united((getattr(had, name), getattr(more, name))) for name in ("taken", "dropped", "notes")}
        return Recording(had.spaces, had.episodes + more.episodes, **texts)
    return JoinedEpisodes([*(had.parts if isinstance(had, JoinedEpisodes) else (had,)), more])


def with_time_limit(source: EpisodeSource, limit: int) -> EpisodeSource:
    """Returns a source whose terminated episodes of length `limit` count as truncated, for recordings in memory."""
    if not isinstance(source, Recording):
        return source  # sources that read rows have applied the limit
    cut = tuple(
        replace(one, terminated=False, truncated=True) if one.terminated and len(one) == limit else one
        for one in source.episodes
    )
    return replace(source, episodes=cut)


def _united(texts: Iterator[tuple[str, ...]] | Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for part in texts for text in part))
