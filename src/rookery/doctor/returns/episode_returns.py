"""`EpisodeReturns`: what the episodes of a behaviour earn, step by step, and how they end.

Returns are also discounted with the gamma of the run, and the last info may have a flag of success. Where there is one
agent, its observations are kept, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rookery.core.spaces.arrays import MASK, Tree
from rookery.report.statistics import mean_interval
from rookery.rollout.hooks import Episode, EpisodeListener, EpisodeResult
from rookery.run.findings.history import is_negligible

FEWEST = 8
"""Fewest episodes that are compared."""

FLAGS = ("is_success", "success")
"""Names of the flag of success in the last info of an episode."""

LARGEST, MOST_ROWS = 4_096, 20_000
"""Bytes of an observation, and number of observations, up to which these are kept."""

DISCOUNTED, SUCCESS, TERMINATED, REWARDS = "discounted", "success", "terminated", "rewards"
"""Metrics of an episode that is played here, and the list of its rewards."""

OWN = "doctor"
"""Place of the data that is collected during an episode."""


@dataclass(frozen=True)
class AgentPath:
    """An episode of the only agent of an environment.

    Attributes:
        obs: ``[T, elements]`` its observations, those of all leaves but masks in a row, one before each reward.
        rewards: ``[T]`` its rewards.
    """

    obs: np.ndarray
    rewards: np.ndarray


@dataclass(frozen=True)
class EpisodeReturns:
    """Returns of the episodes of a behaviour.

    Attributes:
        values: Return of each episode.
        discounted: Its discounted return; empty if gamma is unknown.
        successes: Whether each episode with a flag of success had it set at its end.
        lengths: Environment steps of each episode.
        rewards: Reward of each step of each episode, of all agents together; empty if unknown, as where agents have
            their own episodes.
        terminated: Whether each of these episodes was terminated, and not truncated.
        paths: Observations and rewards of episodes with one agent; empty for large observations.
    """

    values: tuple[float, ...]
    discounted: tuple[float, ...] = ()
    successes: tuple[bool, ...] = ()
    lengths: tuple[int, ...] = ()
    rewards: tuple[np.ndarray, ...] = field(default=(), compare=False)
    terminated: tuple[bool, ...] = ()
    paths: tuple[AgentPath, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, finished: Sequence[EpisodeResult], paths: Sequence[AgentPath] = ()) -> EpisodeReturns | None:
        """Returns those of finished episodes that an `EpisodeMeter` has listened to; None if there are none."""
        if not finished:
            return None
        discounted = tuple(one.metrics[DISCOUNTED] for one in finished if DISCOUNTED in one.metrics)
        followed = [one for one in finished if len(one.histograms.get(REWARDS, ())) == one.length]
        return cls(
            tuple(one.total for one in finished),
            discounted if len(discounted) == len(finished) else (),
            tuple(one.metrics[SUCCESS] > 0.0 for one in finished if SUCCESS in one.metrics),
            tuple(one.length for one in finished),
            tuple(np.array(one.histograms[REWARDS]) for one in followed),
            tuple(one.metrics[TERMINATED] > 0.0 for one in followed),
            tuple(paths),
        )

    @property
    def mean(self) -> float:
        """Mean return."""
        return math.fsum(self.values) / len(self.values)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the mean return."""
        return mean_interval(self.values)

    @property
    def width(self) -> float:
        """Range of the returns."""
        return max(self.values) - min(self.values)

    def is_no_better(self, other: EpisodeReturns) -> bool:
        """Returns whether these are no better than others: not for certain, or by a negligible amount.

        It is certain if their 95 % intervals are apart, or that of the differences between episodes with equal seeds is
        above 0.
        """
        pairs = [one - another for one, another in zip(self.values, other.values, strict=False)]
        certain = self.interval[0] > other.interval[1]
        certain = certain or (len(pairs) >= FEWEST and mean_interval(pairs)[0] > 0.0)
        return not certain or is_negligible(self.mean - other.mean, other.mean, other.width)

    def text(self) -> str:
        """Returns mean and interval in words."""
        low, high = self.interval
        return f"{self.mean:.4g} [{low:.4g}, {high:.4g}] in {len(self.values)} episodes"


class _Followed:
    """Data of a running episode."""

    def __init__(self) -> None:
        self.rewards: list[float] = []
        self.obs: list[np.ndarray] = []
        self.before: dict[str, Tree] = {}
        self.now: dict[str, Tree] = {}


class EpisodeMeter(EpisodeListener):
    """Measures rewards, discounted returns, ends and flags of success.

    Args:
        gamma: The discount; None = discounted returns are left out.

    Attributes:
        paths: Episodes of an environment's only agent, in the order of their ends.
    """

    def __init__(self, gamma: float | None) -> None:
        self._gamma = gamma
        self._rows = 0
        self.paths: list[AgentPath] = []

    def on_episode_start(self, episode: Episode) -> None:
        """Begins to follow an episode."""
        followed = episode.user_data[OWN] = _Followed()
        followed.now = dict(episode.obs)

    def on_episode_step(self, episode: Episode) -> None:
        """Adds the rewards of a step, and keeps the observation before it."""
        followed: _Followed = episode.user_data[OWN]
        reward = math.fsum(episode.reward.values())
        followed.rewards.append(reward)
        if self._gamma is not None:
            part = reward * self._gamma ** (episode.length - 1)
            episode.metrics[DISCOUNTED] = episode.metrics.get(DISCOUNTED, 0.0) + part
        followed.before, followed.now = followed.now, dict(episode.obs)
        if len(followed.before) == 1 and self._rows < MOST_ROWS:
            (tree,) = followed.before.values()
            if sum(leaf.nbytes for leaf in tree.values()) <= LARGEST:
                followed.obs.append(_flat(tree))
                self._rows += 1

    def on_episode_end(self, episode: Episode) -> None:
        """Keeps what was measured of an episode, and its flag of success if it has one."""
        followed: _Followed = episode.user_data[OWN]
        episode.histograms[REWARDS] = followed.rewards
        # at the end, only agents that were truncated have an observation after the last step
        truncated = any(tree is not followed.before.get(agent) for agent, tree in followed.now.items())
        episode.metrics[TERMINATED] = float(not truncated)
        if len(followed.obs) == len(followed.rewards) == episode.length:
            self.paths.append(AgentPath(np.array(followed.obs), np.array(followed.rewards)))
        if (success := _flag_in(episode.info)) is not None:
            episode.metrics[SUCCESS] = float(success)


def _flat(tree: Tree) -> np.ndarray:
    """Returns an observation of one agent as numbers in a row, without masks."""
    parts = [np.ravel(leaf).astype(np.float32) for path, leaf in tree.items() if path != MASK]
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)


def _flag_in(infos: Mapping[str, Any]) -> bool | None:
    """Returns the flag of success in the infos of agents, whether all that have one have it set; None without one."""
    each = [info for info in infos.values() if isinstance(info, Mapping)]
    found = [info[name] for info in each for name in FLAGS if isinstance(info.get(name), bool | int | float | np.bool_)]
    return all(map(bool, found)) if found else None
