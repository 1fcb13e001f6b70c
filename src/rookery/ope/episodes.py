"""Whole episodes of stored replay: from their first decision to termination or truncation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from rookery.core.batch import TensorTree
from rookery.core.errors import ConfigError
from rookery.models.squashed import INSIDE
from rookery.replay.buffer import ReplayBuffer, ReplayConfig, tensors
from rookery.replay.demonstrations import check_finite
from rookery.replay.recording import LIKELIEST, RecordedEpisode
from rookery.replay.segments import Spaces, StoredReplay, copy_rows, raw_actions

PART = 4096
"""Number of decisions in a chunk."""


class WholeEpisodes:
    """Whole episodes of a stored replay; decisions are numbered from 0, episode after episode, in the order of time.

    Args:
        stored: The replay.

    Attributes:
        spaces: Observation and action spaces.
        length: ``[E]`` number of decisions of each episode.
        first: ``[E]`` index of the first decision of each.
        episode: ``[N]`` episode of each decision.
        is_last: ``[N]`` whether each decision is the last of its episode.
        time: ``[N]`` number of earlier decisions in the episode.
        reward: ``[N]`` float64.
        logp: ``[N]`` float64, the recorded log-probability; None if not recorded.
        raw: ``[N, k]`` squashed actions before tanh, NaN where unknown; None if all are.
        terminated: ``[E]`` whether each terminated; the others were truncated.
        likeliest: Whether a note states that the most likely actions of a squashed policy were recorded.
        left_out: Number of episodes that the replay holds only in part.

    Raises:
        ConfigError: If there are no rewards, a value is not finite, or there are fewer than two whole episodes.
    """

    def __init__(self, stored: StoredReplay) -> None:
        if "reward" in stored.missing:
            raise ConfigError(
                f"{stored}: has no rewards, so that the return of a policy cannot be estimated; import the data again "
                "with their rewards, or with a function that computes them (--reward-function)"
            )
        self.spaces = Spaces(stored.spaces.obs, stored.spaces.action, 0)
        obs, action, number = self.spaces.obs, self.spaces.action, len(stored)
        rng = np.random.default_rng(0)  # never drawn from
        self.buffer = ReplayBuffer(obs, action, ReplayConfig(capacity=number), rng, memory_size=0, memory_every=1)
        copy_rows(stored, self.buffer)
        check_finite(self.buffer)
        self._sort(str(stored))
        logp = self.buffer.logp[self._rows].astype(np.float64)
        self.reward = self.buffer.reward[self._rows].astype(np.float64)
        self.likeliest = LIKELIEST in stored.notes
        raw = raw_actions(stored)
        self.raw = None if raw is None else raw[self._rows]
        self.logp = None if "logp" in stored.missing or np.isnan(logp).any() else logp

    def _sort(self, whose: str) -> None:
        """Finds the whole episodes and orders their decisions."""
        buffer, number = self.buffer, len(self.buffer)
        after, every = buffer.after[:number], np.arange(number)
        continues = (after < number) & (after != every)
        begins = np.ones(number, bool)
        begins[after[continues]] = False
        current = np.flatnonzero(begins)
        current = current[buffer.serial_of(current).argsort()]
        starts, which = current, np.arange(len(current))
        rows, owners = [], []
        last = current.copy()
        while len(current):
            rows.append(current)
            owners.append(which)
            last[which] = current
            on = continues[current]
            current, which = after[current[on]], which[on]
        time = np.concatenate([np.full(len(part), step) for step, part in enumerate(rows)])
        found, owner = np.concatenate(rows), np.concatenate(owners)
        whole = buffer.begins[starts] & (buffer.terminated[last] | buffer.truncated[last])
        self.left_out = int((~whole).sum())
        if whole.sum() < 2:
            raise ConfigError(
                f"{whose}: holds {int(whole.sum())} whole {'episode' if whole.sum() == 1 else 'episodes'} of "
                f"{len(starts)}, and some are held out while others are learned from: at least 2 are needed, each "
                "from its first decision to its end; record more (rookery replay record), or import again with the "
                "episode ends (--time-limit N, --column terminated=NAME)"
            )
        kept = whole[owner]
        found, owner, time = found[kept], owner[kept], time[kept]
        order = np.lexsort((time, owner))
        self._rows, self.time = found[order], time[order]
        self.episode = (np.cumsum(whole) - 1)[owner[order]]
        self.length = np.bincount(self.episode)
        self.first = np.concatenate(([0], np.cumsum(self.length)[:-1]))
        self.is_last = np.zeros(len(order), bool)
        self.is_last[self.first + self.length - 1] = True
        self.terminated = buffer.terminated[last[whole]]

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def number(self) -> int:
        """Number of whole episodes."""
        return len(self.length)

    def returns_to_go(self, gamma: float) -> np.ndarray:
        """Returns the discounted return from each decision to the end of its episode, ``[N]``."""
        found: np.ndarray = self.reward.copy()
        last = self.first + self.length - 1
        for step in range(1, int(self.length.max())):
            rows = last[self.length > step] - step
            found[rows] += gamma * found[rows + 1]
        return found

    def obs(self, rows: np.ndarray) -> TensorTree:
        """Returns the raw observations of some decisions, ``[n, ...]``."""
        return tensors(self.buffer.observations.gather_rows(self._rows[rows]))

    def next_obs(self, rows: np.ndarray) -> TensorTree:
        """Returns the raw next observations, ``[n, ...]``; without meaning where an episode terminated."""
        return tensors(self.buffer.observations.gather(self.buffer.after[self._rows[rows]]))

    def actions(self, rows: np.ndarray) -> Tensor:
        """Returns the actions as stored, ``[n, ...]``."""
        return torch.from_numpy(self.buffer.action.take(self._rows[rows], axis=0))

    def raw_actions(self, rows: np.ndarray) -> Tensor | None:
        """Returns the actions before tanh, ``[n, k]``; see `raw`."""
        return None if self.raw is None else torch.from_numpy(self.raw[rows])

    def at_bounds(self, beyond: bool, known: bool) -> float:
        """Returns the share of continuous action values that lie at a bound, where tanh cannot be inverted in float32;
        0 for actions without bounds.

        Args:
            beyond: Whether values outside the bounds count too.
            known: Whether values whose input of tanh was recorded count too.
        """
        action = self.spaces.action
        if not action.num_numbers or (action.kind == "box" and not action.is_bounded):
            return 0.0
        size = np.abs(self.buffer.action[self._rows].reshape(len(self), -1)[:, -action.num_numbers :])
        found = (size >= np.float32(INSIDE)) & (beyond | (size <= 1.0))
        if self.raw is not None and not known:
            found &= ~np.isfinite(self.raw)
        return float(found.mean())

    def rows_of(self, episodes: np.ndarray) -> np.ndarray:
        """Returns the decisions of some episodes, given as ``[E]`` bool."""
        return np.flatnonzero(episodes[self.episode])

    def chunks(self) -> Iterator[np.ndarray]:
        """Yields the indices of all decisions in chunks of `PART`."""
        return (np.arange(start, min(start + PART, len(self))) for start in range(0, len(self), PART))

    def recorded(self, episodes: np.ndarray) -> list[RecordedEpisode]:
        """Returns some episodes, ``[E]`` bool, as recorded episodes that another buffer can take."""
        found = []
        for number in np.flatnonzero(episodes):
            rows = np.arange(self.first[number], self.first[number] + self.length[number])
            seen = self.buffer.observations
            ended, last = bool(self.terminated[number]), self._rows[rows[-1:]]
            found.append(
                RecordedEpisode(
                    seen.gather_rows(self._rows[rows]),
                    self.buffer.action[self._rows[rows]],
                    self.reward[rows].astype(np.float32),
                    None,
                    ended,
                    not ended,
                    None if ended else seen.gather(self.buffer.after[last]),
                )
            )
        return found

    def table(self, values: np.ndarray) -> np.ndarray:
        """Returns a value of each decision, ``[N]``, as ``[E, T]``, with zeros after the end of an episode."""
        found = np.zeros((self.number, int(self.length.max())))
        found[self.episode, self.time] = values
        return found
