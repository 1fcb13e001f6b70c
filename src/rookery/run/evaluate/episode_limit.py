"""Limits for episodes that may never end: evaluations cut them, and training shows a note."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rookery.core.errors import EnvError
from rookery.core.process.interrupt import Interrupt
from rookery.core.seeding import Role, Streams
from rookery.core.timers import Timers
from rookery.envs.base import VectorEnv
from rookery.envs.parameters import Draws
from rookery.policies.policy import Policy
from rookery.report.results import IterationResult
from rookery.rollout.goal_success import success_listeners
from rookery.rollout.hooks import EpisodeListener, EpisodeListeners, EpisodeResult
from rookery.rollout.mapping import EpisodeInfo, PolicyMapping
from rookery.rollout.remote.shares import LaneShare, ShareMapping, shares_of
from rookery.rollout.worker import RolloutWorker
from rookery.run.lessons.parameters import evaluation_plan

LOOK_EVERY = 1000
"""Vector steps between checks for lanes that wait for another lane's episode to end."""

NOTE_AFTER = 5000
"""Steps of each environment without the end of an episode, after which a note is shown."""

UNKNOWN_LIMIT = 5000
"""Steps after which evaluations cut an episode while no training episode has ended, unless a setting is given."""


@dataclass(frozen=True)
class PlayedEpisodes:
    """Result of the episodes of an evaluation.

    Attributes:
        finished: Episodes that ended, with their lane and number among all lanes of the evaluation.
        cut: Number of episodes that were cut at the limit.
        episodes: Number of requested episodes.
        lanes: Number of lanes of the evaluation.
        deterministic: Whether the most likely actions were played.
        limit: Environment steps after which episodes were cut.
    """

    finished: tuple[EpisodeResult, ...]
    cut: int
    episodes: int
    lanes: int
    deterministic: bool
    limit: int


class BoundedEpisodes:
    """Plays the episodes of the evaluation stream, assigned to the lanes in turn, each up to a limit.

    Environments cannot abandon the episode of one lane. So a lane whose episode has reached the limit continues without
    being counted until all other lanes are finished; then all lanes are reset, each to the next of its own episodes.

    Args:
        env: Vectorized environments; they are reset.
        policies: Policies that act, by name.
        mapping: Policy of each agent.
        streams: The run's streams; only those of evaluation are used.
        deterministic: Whether the most likely actions are played.
        episodes: Number of episodes to play: those numbered 0 to `episodes` - 1.
        limit: Environment steps after which an episode counts as truncated; at least 1.
        interrupt: Ends the evaluation if the run is to stop.
        listeners: Listeners of the episodes, including those that are not counted.
        draws: Samplers of environment parameters.
        lessons: Lesson of each parameter that has lessons, from 0.
        share: The share of the evaluation's lanes that `env` has; None = all.
        lanes: Number of lanes of the evaluation; None = those of `env`.

    Attributes:
        worker: The rollout worker; a new one after every reset.
        finished: Counted episodes that are over, in the order of their ends.
        cut: Number of them that were cut at the limit.
        index: ``[lanes]`` number of the lane's own episode, the current one or the one after the next reset.
    """

    def __init__(
        self,
        env: VectorEnv,
        policies: Mapping[str, Policy],
        mapping: PolicyMapping,
        streams: Streams,
        *,
        deterministic: bool,
        episodes: int,
        limit: int,
        interrupt: Interrupt | None = None,
        listeners: Sequence[EpisodeListener] = (),
        draws: Draws | None = None,
        lessons: Mapping[str, int] | None = None,
        share: LaneShare | None = None,
        lanes: int | None = None,
    ) -> None:
        self.env, self.policies, self.mapping = env, policies, mapping
        self.lanes = lanes or env.num_lanes
        self._share = share or shares_of(env.num_lanes, 1)[0]
        self._number = self._share.first + np.arange(env.num_lanes)
        self.deterministic, self.episodes, self.limit, self.interrupt = deterministic, episodes, limit, interrupt
        self.listeners = (*listeners, *success_listeners(env))
        self.finished: list[EpisodeResult] = []
        self.cut = 0
        self.index = np.zeros(env.num_lanes, dtype=np.int64)
        self.draws, self.lessons = draws, dict(lessons or {})
        self._streams = Streams(streams.integer(Role.EVALUATION))
        self._rounds = 0
        self._begin()

    def _begin(self) -> None:
        """Starts a round: makes a worker that starts each lane with episode `index`."""
        first, share = self.index.copy(), self._share
        self._first = first
        streams, mapping = self._streams, self.mapping
        if self._rounds:  # actions use another random stream than in the previous round

            def moved(agent: str, episode: EpisodeInfo) -> str:
                begun = int(first[episode.lane - share.first])
                return self.mapping(agent, replace(episode, index=begun + episode.index))

            streams = Streams(streams.integer(Role.EVALUATION, self._rounds))
            mapping = self.mapping if self.mapping.is_static else PolicyMapping(moved, self.mapping.policies)
        if self.lanes != self.env.num_lanes:
            mapping = ShareMapping(mapping, share)
        self._rounds += 1
        self._idle = self.index * self.lanes + self._number >= self.episodes
        plan = evaluation_plan(
            self.draws,
            self._streams,
            lambda lane, episode: (share.first + lane, int(first[lane]) + episode),
            self.lanes,
            self.lessons,
        )
        self.worker = RolloutWorker(
            self.env,
            mapping,
            streams,
            plan,
            Timers(),
            self.deterministic,
            self.interrupt,
        )
        if self.listeners:
            self.worker.listeners = EpisodeListeners(self.env, self.listeners, plan)
        for name, policy in self.policies.items():
            self.worker.add_policy(name, policy, None, share.first and share.first * self.worker.agents_of(name))
        self.worker.reset()

    @property
    def over(self) -> bool:
        """Whether all episodes have been played."""
        return bool((self.index * self.lanes + self._number >= self.episodes).all())

    @property
    def outcome(self) -> PlayedEpisodes:
        """The result so far."""
        return PlayedEpisodes(tuple(self.finished), self.cut, self.episodes, self.lanes, self.deterministic, self.limit)

    def standing(self) -> str:
        """Returns the progress of the episodes as text; may be called from another thread."""
        lengths = self.worker.lengths[~self._idle]
        longest = int(lengths.max()) if len(lengths) else 0
        return (
            f"evaluation: {len(self.finished)} of {self.episodes} episodes have ended | the longest under way has "
            f"{longest:,} steps, and is cut at {self.limit:,} (evaluation.max_episode_steps)"
        )

    def begin_round(self) -> None:
        """Resets all lanes if all wait for it; `play` does so by itself."""
        if self._idle.all() and not self.over:
            self._begin()

    def play(self, vector_steps: int | None = None) -> None:
        """Plays until all episodes are over.

        Args:
            vector_steps: Most steps of all lanes; None = no limit.

        Raises:
            EnvError: If an agent has no policy here.
            Interrupted: If the run is to stop.
        """
        played = 0
        while not self.over and (vector_steps is None or played < vector_steps):
            self.begin_round()
            steps = min(LOOK_EVERY, self.limit - int(self.worker.lengths[~self._idle].max()))
            if vector_steps is not None:
                steps = min(steps, vector_steps - played)
            self._play_some(steps)
            played += steps

    def _play_some(self, vector_steps: int) -> None:
        """Plays up to a number of steps, in which no episode exceeds the limit, and records finished episodes."""
        worker, copies = self.worker, self.env.num_lanes
        dealt = int((-(-(self.episodes - self._number) // self.lanes)).clip(0).sum())
        sample = worker.sample(vector_steps * copies, dealt - copies * int(self._first.min()))
        for name, kind in sample.newcomers.items():
            agents = ", ".join(kind.agents)
            raise EnvError(f"no policy {name!r} for agents {agents}; train first, or map them to another")
        if self.interrupt is not None:
            self.interrupt.check()
        for result in sample.finished:
            self._finish(result, int(self._first[result.lane]) + result.index)
        busy = np.flatnonzero(~self._idle)
        self.index[busy] = self._first[busy] + self.env.episode[busy]
        for lane in busy[worker.lengths[busy] >= self.limit].tolist():
            if self._finish(worker.standing(lane, int(self.index[lane])), int(self.index[lane])):
                self.cut += 1
                self.index[lane] += 1
                self._idle[lane] = True
        self._idle |= self.index * self.lanes + self._number >= self.episodes

    def _finish(self, result: EpisodeResult, index: int) -> bool:
        """Records the episode number `index` of a lane if it counts; returns whether it does."""
        lane = int(self._number[result.lane])
        counts = not self._idle[result.lane] and index * self.lanes + lane < self.episodes
        if counts:
            self.finished.append(replace(result, lane=lane, index=index))
        return counts


class EndlessNote:
    """Note, shown once, that no episode of a run has ended after many steps, as in environments without time limit."""

    def __init__(self) -> None:
        self._shown = False

    def line(self, result: IterationResult, limit: int) -> str:
        """Returns the note after an iteration; empty if it does not apply, or was returned before.

        Args:
            result: The iteration.
            limit: Steps after which an evaluation cuts an episode.
        """
        if self._shown or result.episodes or result.running_length < NOTE_AFTER:
            return ""
        self._shown = True
        return (
            f"no episode has ended yet, after {result.running_length:,.0f} steps of each environment: an environment "
            "that never ends one needs a time limit (env.config.max_episode_steps=1000 for a Gymnasium id); "
            f"evaluations cut episodes at {limit:,} steps (evaluation.max_episode_steps)"
        )
