"""Episodes as others see them: what is noted of a finished one, and a running one as a user's code sees it.

Listeners are told of episodes. Who only wants to know that an episode began or ended costs nothing while it runs: what
happened is read from what the worker counts anyway. Who overrides `on_episode_step` pays for each step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rookery.core.errors import ConfigError
from rookery.core.io.encoding import EncodingError, encode
from rookery.core.packages import is_own
from rookery.core.process.torch_modes import users_modes
from rookery.core.spaces.arrays import Tree
from rookery.core.state import Stateful
from rookery.envs.base import SeedPlan, Step, VectorEnv, has_own_episodes
from rookery.envs.parameters import parameters_of
from rookery.rollout.tables import RowTable


@dataclass(frozen=True)
class EpisodeResult:
    """A finished episode.

    Attributes:
        lane: Which copy of the environment.
        index: Number of the episode in that lane.
        length: Environment steps.
        total: Sum of rewards over all agents, and over all groups.
        agents: Sum of rewards of each agent that took part, without those of its group.
        policies: The policy each of them was played by.
        metrics: What callbacks measured.
        histograms: Numbers that callbacks collected.
        parameters: Parameters that were drawn for the episode.
        lessons: Lesson that each parameter with lessons was in when the episode began, from 0.
        groups: Sum of rewards of each group that the environment names, beside what its members got by themselves.
        vector_step: How many vector steps its lane's worker had made when it ended.
        sources: Name of the callback that measured each metric (`names_of`); None if none measured anything.
    """

    lane: int
    index: int
    length: int
    total: float
    agents: dict[str, float]
    policies: dict[str, str]
    metrics: dict[str, float] = field(default_factory=dict)
    histograms: dict[str, list[float]] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    lessons: dict[str, int] = field(default_factory=dict)
    groups: dict[str, float] = field(default_factory=dict)
    vector_step: int = 0
    sources: dict[str, str] | None = None


class Episode(Stateful):
    """A running episode of one lane, or one that has just ended.

    Where no listener overrides `on_episode_step`, an episode is not followed: `obs`, `action` and `reward` then hold,
    at its end, the agents that acted in its last step, were paid or were truncated in it.

    Where episodes are those of agents, in lanes that never end, this is at its end the episode of an agent, or of a
    group, with their observations, actions, rewards and returns alone. What is told before is what happened to all
    agents of the lane since an episode last ended in it, and what a listener has collected until then goes with the
    episode that ends first.

    Attributes:
        lane: Which copy of the environment.
        index: Number of the episode in that lane, from 0.
        length: Environment steps so far.
        parameters: Environment parameters of the episode.
        obs: The latest observation of each agent that had to act, as a tree (`core/spaces/arrays.py`); when the episode
            has ended, the final one of those that were truncated.
        action: The latest action of each agent, as the environment got it.
        reward: What each agent got in the latest step; agents that neither acted nor were paid are missing.
        returns: The sum of rewards of each agent so far.
        info: What the environment said beside its latest step, by agent; empty before the first one, and for batched
            environments.
        policies: Which policy played each agent; known when the episode has ended.
        groups: What each group of the environment has earned, beside what its members got by themselves; likewise.
        metrics: Yours: numbers that are averaged over episodes, into results, curves and the console.
        histograms: Yours: lists of numbers, shown as histograms.
        user_data: Yours: whatever you need until the episode ends. Plain values and arrays survive a restart.
        sources: Name of the callback that measured each metric (`names_of`).
    """

    saved = ("index", "length", "parameters", "obs", "action", "reward", "returns", "metrics", "histograms",
             "user_data", "sources")  # fmt: skip
    fixed = ("lane", "info", "policies", "groups")
    state_version = 2

    def __init__(self, lane: int, index: int) -> None:
        self.lane = lane
        self.index = index
        self.length = 0
        self.parameters: Mapping[str, Any] = {}
        self.obs: dict[str, Tree] = {}
        self.action: dict[str, Any] = {}
        self.reward: dict[str, float] = {}
        self.returns: dict[str, float] = {}
        self.info: Mapping[str, Any] = {}
        self.policies: Mapping[str, str] = {}
        self.groups: Mapping[str, float] = {}
        self.metrics: dict[str, float] = {}
        self.histograms: dict[str, list[float]] = {}
        self.user_data: dict[str, Any] = {}
        self.sources: dict[str, str] = {}

    def upgrade(self, state: dict[str, Any], version: int) -> dict[str, Any]:
        """Adds to states of version 1 who measured each metric, which is not known."""
        return {**state, "sources": {}}

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
            ConfigError: If one is not made of finite numbers; names it.
        """
        metrics, histograms = {}, {}
        for name, value in self.metrics.items():
            metrics[name] = _number(value)
            if not math.isfinite(metrics[name]):
                raise ConfigError(f"callback: episode.metrics[{name!r}] = {value!r}: must be {FINITE}")
        for name, values in self.histograms.items():
            histograms[name] = [_number(value) for value in values] if np.iterable(values) else [math.nan]
            if not all(map(math.isfinite, histograms[name])):
                raise ConfigError(f"callback: episode.histograms[{name!r}]: must be a list, each {FINITE}")
        return metrics, histograms


FINITE = "a finite number; leave it out of episodes in which there is none"


def _number(value: Any) -> float:
    """Gives a value as a number; nan for what is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


class EpisodeListener:
    """Hears of the episodes that are played for training; a subclass overrides the methods that it needs."""

    def on_episode_start(self, episode: Episode) -> None:
        """An episode has begun; `episode.obs` holds what the first agents see."""

    def on_episode_step(self, episode: Episode) -> None:
        """The environment was stepped; also called for the last step of an episode."""

    def on_episode_end(self, episode: Episode) -> None:
        """An episode is over: the moment to fill `episode.metrics` and `episode.histograms`."""


MOMENTS = ("on_episode_start", "on_episode_step", "on_episode_end")


def moments_of(listener: Any) -> set[str]:
    """The methods about episodes that a listener has of its own."""
    return {
        name for name in MOMENTS if getattr(type(listener), name, None) not in (None, getattr(EpisodeListener, name))
    }


UNNAMED = ""
"""Name of callbacks with an unknown name, from states of older versions."""


def names_of(listeners: Sequence[EpisodeListener]) -> list[str]:
    """Returns the name of each listener in checkpoints: ``module:Class``, and a number from the second of a class on.

    The module is left out for classes of a script or notebook, whose file may have another name next time, and for
    those of Rookery, whose class names are unique and whose modules may change.
    """
    names: list[str] = []
    for listener in listeners:
        module, name = type(listener).__module__, type(listener).__qualname__
        if module != "__main__":
            name = f"{'rookery' if is_own(module) else module}:{name}"
        number = sum(known.partition(" ")[0] == name for known in names) + 1
        names.append(name if number == 1 else f"{name} {number}")
    return names


class EpisodeListeners(Stateful):
    """Tells listeners of the episodes of a worker.

    Args:
        env: The copies that are played.
        listeners: Whom to tell, in order; each has the methods of `EpisodeListener`.
        plan: Plan of the episodes; None where it is of no interest, because nobody draws parameters.
    """

    saved = ("episodes",)
    fixed = ("env", "plan", "every_step", "own_episodes", "_told")

    def __init__(self, env: VectorEnv, listeners: Sequence[EpisodeListener], plan: SeedPlan | None = None) -> None:
        self.env, self.plan, self.own_episodes = env, plan, has_own_episodes(env)
        named = list(zip(names_of(listeners), listeners, strict=True))
        self._told = {moment: [pair for pair in named if moment in moments_of(pair[1])] for moment in MOMENTS}
        self.every_step = bool(self._told["on_episode_step"])
        """Whether episodes are followed step by step."""
        self.episodes: list[Episode | None] = [None] * env.num_lanes
        """The running episode of each lane; None where nobody has asked for it yet."""
        env.keep_infos = "all" if self.every_step else "ended"

    def load_lanes(self, state: dict[str, Any], lanes: np.ndarray) -> None:
        """Takes over the episodes of some lanes.

        Args:
            state: What `state_dict` gave.
            lanes: ``[lanes]`` bool, of which.
        """
        for lane in np.flatnonzero(lanes).tolist():
            if (saved := state["episodes"][lane]) is not None:
                episode = self.episodes[lane] = Episode(lane, saved["index"])
                episode.load_state_dict(saved)

    def begin(self, lane: int, step: Step) -> None:
        """A lane starts its next episode, of which `step` shows the beginning."""
        self.episodes[lane] = None
        if self.every_step or self._told["on_episode_start"]:
            episode = self.episodes[lane] = Episode(lane, int(self.env.episode[lane]))
            episode.parameters = parameters_of(self.plan, lane, episode.index)
            self._see(episode, step)
            self._tell("on_episode_start", episode)

    def stepped(self, step: Step, tables: Sequence[RowTable], lengths: np.ndarray) -> None:
        """Every lane was stepped. Called where episodes are followed, before `end`.

        Args:
            step: What the environment showed.
            tables: Who played its rows, one for each kind.
            lengths: ``[lanes]`` environment steps of each lane's episode.
        """
        for lane, episode in enumerate(self.episodes):
            assert episode is not None
            if step.stepped is not None and not step.stepped[lane]:
                continue
            episode.length = int(lengths[lane])
            self._note(episode, step, tables)
            if not step.ended[lane]:
                self._see(episode, step)
            self._tell("on_episode_step", episode)

    def end(self, result: EpisodeResult, step: Step, tables: Sequence[RowTable]) -> EpisodeResult:
        """An episode has ended; returns its result with the metrics and histograms that listeners gave it.

        Args:
            result: What the worker noted of it.
            step: The step that it ended in.
            tables: Who played its rows, one for each kind.
        """
        episode = self.episodes[result.lane] or Episode(result.lane, result.index)
        if not self.every_step or self.own_episodes:
            episode.length, episode.returns, episode.parameters = result.length, result.agents, result.parameters
        if not self.every_step:
            self._note(episode, step, tables)
        if self.own_episodes:
            for told in (episode.obs, episode.action, episode.reward):
                for agent in told.keys() - result.agents.keys():
                    del told[agent]
        episode.policies, episode.groups = result.policies, result.groups
        self._tell("on_episode_end", episode)
        metrics, histograms = episode.measured()
        return replace(result, metrics=metrics, histograms=histograms, sources=episode.sources)

    def _tell(self, moment: str, episode: Episode) -> None:
        for name, listener in self._told[moment]:
            known = len(episode.metrics)
            with users_modes():
                getattr(listener, moment)(episode)
            if len(episode.metrics) > known:
                episode.sources.update(dict.fromkeys(list(episode.metrics)[known:], name))

    def _note(self, episode: Episode, step: Step, tables: Sequence[RowTable]) -> None:
        """What happened to a lane in a step."""
        episode.info = self.env.infos.get(episode.lane, {})
        episode.reward = {}
        for kind, rows, table in zip(self.env.kinds, step.rows, tables, strict=True):
            first = episode.lane * len(kind.agents)
            last = first + len(kind.agents)
            for row, decided, position in table.decisions_of(first, last):
                agent = kind.agents[row - first]
                episode.action[agent] = kind.action.to_env(decided.action[position : position + 1].copy())[0]
                episode.reward[agent] = float(rows.reward[row])
                if not self.every_step:
                    episode.obs[agent] = {path: array[position].copy() for path, array in decided.obs.items()}
            for column in np.flatnonzero(rows.reward[first:last]).tolist():
                episode.reward[kind.agents[column]] = float(rows.reward[first + column])
            if self.every_step:
                for row, agent in enumerate(kind.agents, first):
                    if table.joined[row] or table.returns[row]:
                        episode.returns[agent] = float(table.returns[row])
            low, high = np.searchsorted(rows.final_index, (first, last)).tolist() if len(rows.final_index) else (0, 0)
            for position in range(low, high):
                agent = kind.agents[int(rows.final_index[position]) - first]
                episode.obs[agent] = {path: array[position].copy() for path, array in rows.final_obs.items()}

    def _see(self, episode: Episode, step: Step) -> None:
        """What those who must act next observe."""
        for kind, rows in zip(self.env.kinds, step.rows, strict=True):
            first = episode.lane * len(kind.agents)
            for column in np.flatnonzero(rows.waiting[first : first + len(kind.agents)]).tolist():
                seen = {path: array[first + column].copy() for path, array in rows.obs.items()}
                episode.obs[kind.agents[column]] = seen
