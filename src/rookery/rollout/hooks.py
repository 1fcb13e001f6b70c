"""Episodes as others see them: what is noted of a finished one, and a running one as a user's code sees it.

Nothing here runs while playing unless somebody asks for it, but for the note of a finished episode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from rookery.core.encoding import EncodingError, encode
from rookery.core.errors import ConfigError
from rookery.core.spaces import Tree
from rookery.core.state import Stateful
from rookery.envs.base import Step, VectorEnv


@dataclass(frozen=True)
class EpisodeResult:
    """A finished episode.

    Attributes:
        lane: Which copy of the environment.
        index: Number of the episode in that lane.
        length: Environment steps.
        total: Sum of rewards over all agents.
        agents: Sum of rewards of each agent that took part.
        policies: The policy each of them was played by.
        metrics: What callbacks measured.
        histograms: Numbers that callbacks collected.
    """

    lane: int
    index: int
    length: int
    total: float
    agents: dict[str, float]
    policies: dict[str, str]
    metrics: dict[str, float] = field(default_factory=dict)
    histograms: dict[str, list[float]] = field(default_factory=dict)


class Episode(Stateful):
    """A running episode of one lane.

    Attributes:
        lane: Which copy of the environment.
        index: Number of the episode in that lane, from 0.
        length: Environment steps so far.
        obs: The latest observation of each agent that had to act, as a tree (`core/spaces.py`); when the episode has
            ended, the final one of those that were truncated.
        action: The latest action of each agent, as the environment got it.
        reward: What each agent got in the latest step; agents that neither acted nor were paid are missing.
        returns: The sum of rewards of each agent so far.
        info: What the environment said beside its latest step, by agent; empty before the first one, and for batched
            environments.
        metrics: Yours: numbers that are averaged over episodes, into results, curves and the console.
        histograms: Yours: lists of numbers, shown as histograms.
        user_data: Yours: whatever you need until the episode ends. Plain values and arrays survive a restart.
    """

    saved = ("index", "length", "obs", "action", "reward", "returns", "metrics", "histograms", "user_data")
    fixed = ("lane", "info")

    def __init__(self, lane: int, index: int) -> None:
        self.lane = lane
        self.index = index
        self.length = 0
        self.obs: dict[str, Tree] = {}
        self.action: dict[str, Any] = {}
        self.reward: dict[str, float] = {}
        self.returns: dict[str, float] = {}
        self.info: Mapping[str, Any] = {}
        self.metrics: dict[str, float] = {}
        self.histograms: dict[str, list[float]] = {}
        self.user_data: dict[str, Any] = {}

    def state_dict(self) -> dict[str, Any]:
        """Everything, but user data only if all of it can be written without pickle."""
        kept = self.user_data
        try:
            encode(kept)
        except EncodingError:
            self.user_data = {}  # before anything copies it: some things cannot be copied either
        try:
            return super().state_dict()
        finally:
            self.user_data = kept

    def measured(self) -> tuple[dict[str, float], dict[str, list[float]]]:
        """The metrics and the histograms, as numbers.

        Raises:
            ConfigError: If one is not made of numbers; names it.
        """
        metrics, histograms = {}, {}
        for name, value in self.metrics.items():
            try:
                metrics[name] = float(value)
            except (TypeError, ValueError):
                raise ConfigError(f"callback: episode.metrics[{name!r}] = {value!r}: must be a number") from None
        for name, values in self.histograms.items():
            try:
                histograms[name] = [float(value) for value in values]
            except (TypeError, ValueError):
                raise ConfigError(f"callback: episode.histograms[{name!r}]: must be a list of numbers") from None
        return metrics, histograms


class EpisodeHooks(Protocol):
    """What is called while episodes are played."""

    def on_episode_start(self, episode: Episode) -> None:
        """An episode has begun; `episode.obs` holds what the first agents see."""
        ...

    def on_episode_step(self, episode: Episode) -> None:
        """The environment was stepped; also called for the last step."""
        ...

    def on_episode_end(self, episode: Episode) -> None:
        """The episode is over: the moment to fill `episode.metrics`."""
        ...


class EpisodeWatch(Stateful):
    """Keeps an `Episode` for each lane and calls the hooks.

    Args:
        env: What is played.
        hooks: Whom to call, in order.
    """

    saved = ("episodes",)
    fixed = ("env", "hooks", "acting")

    def __init__(self, env: VectorEnv, hooks: Sequence[EpisodeHooks]) -> None:
        self.env = env
        self.hooks = hooks
        self.episodes = [Episode(lane, 0) for lane in range(env.num_lanes)]
        self.acting: list[tuple[int, str, Any]] = []  # lane, agent and action; rows may move while the env steps
        env.want_infos = True

    def load(self, state: dict[str, Any], lanes: np.ndarray) -> None:
        """Takes over the episodes of the lanes marked in `lanes` ``[lanes]`` from what `state_dict` gave."""
        for lane in np.flatnonzero(lanes).tolist():
            self.episodes[lane].load_state_dict(state["episodes"][lane])

    def begin(self, lane: int, step: Step) -> None:
        """A lane starts its next episode, and shows its beginning."""
        episode = self.episodes[lane] = Episode(lane, int(self.env.episode[lane]))
        self._see(episode, step)
        for hook in self.hooks:
            hook.on_episode_start(episode)

    def act(self, step: Step, actions: list[np.ndarray]) -> None:
        """Notes the actions about to be played, for the rows that wait."""
        self.acting = [
            (row // len(kind.agents), kind.agents[row % len(kind.agents)], action)
            for kind, rows, chosen in zip(self.env.kinds, step.rows, actions, strict=True)
            for row, action in zip(np.flatnonzero(rows.waiting).tolist(), deepcopy(chosen), strict=True)
        ]

    def after(self, step: Step) -> None:
        """A vector step was played; episodes that ended in it end here."""
        for episode in self.episodes:
            episode.length += 1
            episode.reward = {}
            episode.info = self._infos(episode.lane)
        for lane, agent, action in self.acting:
            episode = self.episodes[lane]
            episode.action[agent] = action
            episode.reward[agent] = 0.0
            episode.returns.setdefault(agent, 0.0)
        for kind, rows in zip(self.env.kinds, step.rows, strict=True):
            width = len(kind.agents)
            for row in np.flatnonzero(rows.reward).tolist():
                episode, agent = self.episodes[row // width], kind.agents[row % width]
                reward = float(rows.reward[row])
                episode.reward[agent] = reward
                episode.returns[agent] = episode.returns.get(agent, 0.0) + reward
            for position, row in enumerate(rows.final_index.tolist()):
                final = {path: array[position].copy() for path, array in rows.final_obs.items()}
                self.episodes[row // width].obs[kind.agents[row % width]] = final
        for episode in self.episodes:
            if not step.ended[episode.lane]:
                self._see(episode, step)
            for hook in self.hooks:
                hook.on_episode_step(episode)
            if step.ended[episode.lane]:
                for hook in self.hooks:
                    hook.on_episode_end(episode)

    def _see(self, episode: Episode, step: Step) -> None:
        for kind, rows in zip(self.env.kinds, step.rows, strict=True):
            width = len(kind.agents)
            first = episode.lane * width
            for row in np.flatnonzero(rows.waiting[first : first + width]).tolist():
                seen = {path: array[first + row].copy() for path, array in rows.obs.items()}
                episode.obs[kind.agents[row]] = seen

    def _infos(self, lane: int) -> Mapping[str, Any]:
        return self.env.infos[lane] if self.env.infos else {}
