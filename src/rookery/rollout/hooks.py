"""Episodes for callbacks: the result of a finished episode, and a running episode as user code sees it.

Listeners are called when episodes begin and end. A listener of beginnings and ends costs nothing while an episode
runs: its data is read from what the worker counts anyway. A listener that overrides `on_episode_step` pays per step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from rookery.core.errors import ConfigError
from rookery.core.io.encoding import EncodingError, encode
from rookery.core.packages import is_own
from rookery.core.process.torch_modes import users_modes
from rookery.core.settings.hints import ForeignNames
from rookery.core.spaces.arrays import ActionSpec, Tree
from rookery.core.state import Stateful
from rookery.envs.base import SeedPlan, Step, VectorEnv, has_own_episodes
from rookery.envs.parameters import parameters_of
from rookery.rollout.tables import RowTable


@dataclass(frozen=True)
class EpisodeResult:
    """A finished episode.

    Attributes:
        lane: Number of the environment among the vectorized environments.
        index: Number of the episode in that lane.
        length: Environment steps.
        total: Sum of rewards over all agents and groups.
        agents: Sum of rewards of each agent that took part, without group rewards.
        policies: Policy of each of these agents.
        metrics: Metrics set by callbacks.
        histograms: Numbers collected by callbacks.
        parameters: Environment parameters drawn for the episode.
        lessons: Lesson of each parameter with lessons when the episode began, from 0.
        groups: Sum of group rewards of each group, in addition to the rewards of its members.
        vector_step: Vector steps of the lane's worker when the episode ended.
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


class Episode(ForeignNames, Stateful):
    """A running episode of one lane, or one that has just ended.

    Where no listener overrides `on_episode_step`, an episode is not followed: at its end, `obs`, `action` and `reward`
    hold the agents that acted, were rewarded or were truncated in its last step.

    Where agents have their own episodes, in lanes that never end, this is at its end the episode of one agent, or of
    one group, with only their observations, actions, rewards and returns. Before that it covers all agents of the lane
    since an episode last ended there, and data that a listener has collected until then belongs to the episode that
    ends first.

    Attributes:
        lane: Number of the environment among the vectorized environments.
        index: Number of the episode in that lane, from 0.
        length: Environment steps so far.
        parameters: Environment parameters of the episode.
        obs: The latest observation of each agent that had to act, as a tree (`core/spaces/arrays.py`); when the episode
            has ended, the final one of those that were truncated.
        action: The latest action of each agent, as passed to the environment.
        reward: Reward of each agent in the latest step; agents that neither acted nor were rewarded are missing.
        returns: The sum of rewards of each agent so far.
        info: Infos of the latest step, by agent; empty before the first step, and for batched
            environments.
        policies: Policy of each agent; set when the episode has ended.
        groups: Group rewards of each group, in addition to the rewards of its members; set when the episode has ended.
        metrics: Yours: numbers that are averaged over episodes, for results, curves and the console.
        histograms: Yours: lists of numbers, shown as histograms.
        user_data: Yours: any data you need until the episode ends. Plain values and arrays survive a restart.
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
        """Adds the unknown sources of metrics to states of version 1."""
        return {**state, "sources": {}}

    def state_dict(self) -> dict[str, Any]:
        """Returns everything; user data only if all of it can be written without pickle."""
        kept = self.user_data
        try:
            encode(kept)
        except EncodingError:
            self.user_data = {}  # before it is copied: some objects cannot be copied either
        try:
            return super().state_dict()
        finally:
            self.user_data = kept

    def measured(self) -> tuple[dict[str, float], dict[str, list[float]]]:
        """Returns the metrics and the histograms as numbers.

        Raises:
            ConfigError: If one does not consist of finite numbers; names it.
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
    """Returns a value as a number; nan if it is not a number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


class EpisodeListener:
    """Receives the episodes of training; a subclass overrides the methods that it needs."""

    def on_episode_start(self, episode: Episode) -> None:
        """Called when an episode has begun; `episode.obs` holds the first observations."""

    def on_episode_step(self, episode: Episode) -> None:
        """Called after each environment step, the last one of an episode included."""

    def on_episode_end(self, episode: Episode) -> None:
        """Called when an episode has ended, to fill `episode.metrics` and `episode.histograms`."""


MOMENTS = ("on_episode_start", "on_episode_step", "on_episode_end")


def moments_of(listener: Any) -> set[str]:
    """Returns the episode methods that a listener overrides."""
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
    """Calls the listeners of the episodes of a worker.

    Args:
        env: The environments.
        listeners: The listeners in the order of calls; each has the methods of `EpisodeListener`.
        plan: Plan of the episodes; None if no environment parameters are drawn.
    """

    saved = ("episodes",)
    fixed = ("env", "plan", "every_step", "own_episodes", "_listening")

    def __init__(self, env: VectorEnv, listeners: Sequence[EpisodeListener], plan: SeedPlan | None = None) -> None:
        self.env, self.plan, self.own_episodes = env, plan, has_own_episodes(env)
        named = list(zip(names_of(listeners), listeners, strict=True))
        self._listening = {moment: [pair for pair in named if moment in moments_of(pair[1])] for moment in MOMENTS}
        self.every_step = bool(self._listening["on_episode_step"])
        """Whether episodes are followed step by step."""
        self.episodes: list[Episode | None] = [None] * env.num_lanes
        """The running episode of each lane; None if no listener has needed it yet."""
        env.keep_infos = "all" if self.every_step else "ended"

    def load_lanes(self, state: dict[str, Any], lanes: np.ndarray) -> None:
        """Restores the episodes of some lanes.

        Args:
            state: Result of `state_dict`.
            lanes: ``[lanes]`` bool, the lanes to restore.
        """
        for lane in np.flatnonzero(lanes).tolist():
            if (saved := state["episodes"][lane]) is not None:
                episode = self.episodes[lane] = Episode(lane, saved["index"])
                episode.load_state_dict(saved)

    def begin(self, lane: int, step: Step) -> None:
        """Starts the next episode of a lane, whose first observations are in `step`."""
        self.episodes[lane] = None
        if self.every_step or self._listening["on_episode_start"]:
            episode = self.episodes[lane] = Episode(lane, int(self.env.episode[lane]))
            episode.parameters = parameters_of(self.plan, lane, episode.index)
            self._observe(episode, step)
            self._notify("on_episode_start", episode)

    def stepped(self, step: Step, tables: Sequence[RowTable], lengths: np.ndarray) -> None:
        """Updates the episodes after a vector step. Called where episodes are followed, before `end`.

        Args:
            step: Result of the vector step.
            tables: Policies of its rows, one table per kind.
            lengths: ``[lanes]`` environment steps of each lane's episode.
        """
        assert None not in self.episodes
        lanes = range(len(self.episodes)) if step.stepped is None else np.flatnonzero(step.stepped).tolist()
        running = cast("list[Episode]", [self.episodes[lane] for lane in lanes])
        acted = [self._actions(kind.action, table) for kind, table in zip(self.env.kinds, tables, strict=True)]
        values = [(rows.reward.tolist(), table.returns.tolist(), table.joined.tolist())
                  for rows, table in zip(step.rows, tables, strict=True)]  # fmt: skip
        for episode in running:
            episode.length = int(lengths[episode.lane])
            episode.info, episode.reward = self.env.infos.get(episode.lane, {}), {}
            for kind, actions, (reward, returns, joined) in zip(self.env.kinds, acted, values, strict=True):
                for row, agent in enumerate(kind.agents, episode.lane * len(kind.agents)):
                    if row in actions:
                        episode.action[agent] = actions[row]
                    if row in actions or reward[row]:
                        episode.reward[agent] = reward[row]
                    if joined[row] or returns[row]:
                        episode.returns[agent] = returns[row]
            if step.ended[episode.lane]:
                self._keep_final(episode, step)
            else:
                self._observe(episode, step)
        with users_modes():  # once, because it costs more than a short callback
            for episode in running:
                self._call("on_episode_step", episode)

    def end(self, result: EpisodeResult, step: Step, tables: Sequence[RowTable]) -> EpisodeResult:
        """Ends an episode; returns its result with the metrics and histograms set by listeners.

        Args:
            result: Result from the worker.
            step: Step in which the episode ended.
            tables: Policies of its rows, one table per kind.
        """
        episode = self.episodes[result.lane] or Episode(result.lane, result.index)
        if not self.every_step or self.own_episodes:
            episode.length, episode.returns, episode.parameters = result.length, result.agents, result.parameters
        if not self.every_step:
            self._note(episode, step, tables)
        if self.own_episodes:
            for seen in (episode.obs, episode.action, episode.reward):
                for agent in seen.keys() - result.agents.keys():
                    del seen[agent]
        episode.policies, episode.groups = result.policies, result.groups
        self._notify("on_episode_end", episode)
        metrics, histograms = episode.measured()
        return replace(result, metrics=metrics, histograms=histograms, sources=episode.sources)

    def _notify(self, moment: str, episode: Episode) -> None:
        if self._listening[moment]:
            with users_modes():
                self._call(moment, episode)

    def _call(self, moment: str, episode: Episode) -> None:
        for name, listener in self._listening[moment]:
            known = len(episode.metrics)
            getattr(listener, moment)(episode)
            if len(episode.metrics) > known:
                episode.sources.update(dict.fromkeys(list(episode.metrics)[known:], name))

    @staticmethod
    def _actions(spec: ActionSpec, table: RowTable) -> dict[int, Any]:
        """Returns the actions of a kind's last step, as passed to the environment, by row."""
        actions: dict[int, Any] = {}
        for route in table.acted:
            rows, decided = route.rows, route.policy.decided
            assert decided is not None
            numbers = range(rows.start, rows.stop, rows.step) if isinstance(rows, slice) else rows.tolist()
            actions.update(zip(numbers, spec.to_env(decided.action.copy()), strict=True))
        return actions

    def _note(self, episode: Episode, step: Step, tables: Sequence[RowTable]) -> None:
        """Stores infos, actions, rewards and observations of a lane's last step in an episode that is not followed."""
        episode.info = self.env.infos.get(episode.lane, {})
        episode.reward = {}
        for kind, rows, table in zip(self.env.kinds, step.rows, tables, strict=True):
            first = episode.lane * len(kind.agents)
            last = first + len(kind.agents)
            for row, decided, position in table.decisions_of(first, last):
                agent = kind.agents[row - first]
                episode.action[agent] = kind.action.to_env(decided.action[position : position + 1].copy())[0]
                episode.reward[agent] = float(rows.reward[row])
                episode.obs[agent] = {path: array[position].copy() for path, array in decided.obs.items()}
            for column in np.flatnonzero(rows.reward[first:last]).tolist():
                episode.reward[kind.agents[column]] = float(rows.reward[first + column])
        self._keep_final(episode, step)

    def _keep_final(self, episode: Episode, step: Step) -> None:
        """Stores the final observations of a lane's agents that were truncated in a step."""
        for kind, rows in zip(self.env.kinds, step.rows, strict=True):
            first = episode.lane * len(kind.agents)
            low, high = np.searchsorted(rows.final_index, (first, first + len(kind.agents))).tolist()
            for position in range(low, high):
                agent = kind.agents[int(rows.final_index[position]) - first]
                episode.obs[agent] = {path: array[position].copy() for path, array in rows.final_obs.items()}

    def _observe(self, episode: Episode, step: Step) -> None:
        """Stores the observations of the agents that must act next."""
        for kind, rows in zip(self.env.kinds, step.rows, strict=True):
            first = episode.lane * len(kind.agents)
            for row, agent in enumerate(kind.agents, first):
                if rows.waiting[row]:
                    episode.obs[agent] = {path: array[row].copy() for path, array in rows.obs.items()}
