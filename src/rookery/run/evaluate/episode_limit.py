"""Episodes that may never end: played up to a limit where they are measured, told of where they are learned from."""

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
from rookery.rollout.hooks import EpisodeListener, EpisodeListeners, EpisodeResult
from rookery.rollout.mapping import EpisodeInfo, PolicyMapping
from rookery.rollout.remote.shares import LaneShare, ShareMapping, shares_of
from rookery.rollout.worker import RolloutWorker
from rookery.run.lessons.parameters import evaluation_plan

LOOK_EVERY = 1000
"""Vector steps after which a lane is looked for that waits for one whose episode does not end."""

TELL_AFTER = 5000
"""Steps of each copy in which no episode has ended, after which a user is told."""

UNKNOWN_LIMIT = 5000
"""Steps after which evaluations cut an episode while no episode of training has ended, unless a setting is given."""


@dataclass(frozen=True)
class PlayedEpisodes:
    """What came of episodes that were played to measure.

    Attributes:
        finished: Those that ended, lanes and numbers those of all lanes that they were dealt to.
        cut: How many of them were cut at the limit.
        episodes: How many were to be played.
        lanes: How many lanes they were dealt to.
        deterministic: Whether the most likely actions were played.
        limit: Environment steps after which they were cut.
    """

    finished: tuple[EpisodeResult, ...]
    cut: int
    episodes: int
    lanes: int
    deterministic: bool
    limit: int


class BoundedEpisodes:
    """Plays the episodes of the evaluation stream, dealt to the lanes in turn, each up to a limit.

    An environment cannot be told to give up one lane's episode. So a lane whose episode has reached the limit plays on
    for nothing until no other has anything left to do; then all lanes are reset, each to the next of its own episodes.

    Args:
        env: Copies to play in; they are reset.
        policies: Policies that play, by name.
        mapping: Which of them plays which agent.
        streams: The run's streams; only those of evaluation are used.
        deterministic: Whether the most likely actions are played.
        episodes: How many episodes to play: those numbered 0 to `episodes` - 1.
        limit: Environment steps after which an episode counts as truncated; at least 1.
        interrupt: Ends the playing when somebody asks to stop.
        listeners: Who is told of the episodes, those included that are played for nothing.
        draws: What is drawn for environment parameters.
        lessons: Lesson of each of them that has lessons, from 0.
        share: Which of all lanes that episodes are dealt to the copies are; None = all.
        lanes: How many lanes these are; None = as many as copies.

    Attributes:
        worker: Who plays; another one after every reset.
        finished: Episodes that count and are over, in the order they ended.
        cut: How many of them were cut at the limit.
        index: ``[lanes]`` number of the episode of its own that each lane is in, or will be in after the next reset.
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
        self.listeners = tuple(listeners)
        self.finished: list[EpisodeResult] = []
        self.cut = 0
        self.index = np.zeros(env.num_lanes, dtype=np.int64)
        self.draws, self.lessons = draws, dict(lessons or {})
        self._streams = Streams(streams.integer(Role.EVALUATION))
        self._rounds = 0
        self._begin()

    def _begin(self) -> None:
        """Starts a round: a worker that begins each lane with the episode `index` says."""
        first, share = self.index.copy(), self._share
        self._first = first
        streams, mapping = self._streams, self.mapping
        if self._rounds:  # actions are drawn from other numbers than in the round before

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
        """What has come of them so far."""
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
        """Resets all lanes, if all wait for that; `play` does so by itself before it goes on."""
        if self._idle.all() and not self.over:
            self._begin()

    def play(self, vector_steps: int | None = None) -> None:
        """Plays on until all episodes are over.

        Args:
            vector_steps: Stop after so many steps of all lanes in any case; None = no such limit.

        Raises:
            EnvError: If an agent has no policy here.
            Interrupted: If somebody asked to stop.
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
        """Plays at most so many steps, in which no episode gets longer than the limit, and notes which are over."""
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
        """Notes an episode of a lane, the number `index` of that lane, if it counts; says whether it does."""
        lane = int(self._number[result.lane])
        counts = not self._idle[result.lane] and index * self.lanes + lane < self.episodes
        if counts:
            self.finished.append(replace(result, lane=lane, index=index))
        return counts


class EndlessNote:
    """Tells once that no episode of a run has ended after many steps, as where an environment has no limit of time."""

    def __init__(self) -> None:
        self._told = False

    def line(self, result: IterationResult, limit: int) -> str:
        """Gives the line to tell after an iteration; empty if there is nothing to tell, or it has been told.

        Args:
            result: The iteration.
            limit: Steps after which an evaluation cuts an episode.
        """
        if self._told or result.episodes or result.running_length < TELL_AFTER:
            return ""
        self._told = True
        return (
            f"no episode has ended yet, after {result.running_length:,.0f} steps in each copy: an environment that "
            "never ends one needs a limit of its own (env.config.max_episode_steps=1000 for a Gymnasium id); "
            f"evaluations cut episodes at {limit:,} steps (evaluation.max_episode_steps)"
        )
