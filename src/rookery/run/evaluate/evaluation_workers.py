"""Remote workers that evaluate a run's policies during training, each on a share of the evaluation's lanes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import cloudpickle

from rookery.core.errors import WorkerLostError
from rookery.core.process.interrupt import Interrupt
from rookery.core.process.torch_modes import own_torch
from rookery.core.seeding import Streams
from rookery.envs.parameters import Draws
from rookery.envs.vector.closing import close_env
from rookery.envs.vector.specs import WithSpecs
from rookery.policies.policy import Policy
from rookery.rollout.mapping import PolicyMapping
from rookery.rollout.remote.shares import LaneShare, shares_of
from rookery.run.evaluate.episode_limit import BoundedEpisodes, PlayedEpisodes
from rookery.run.prepare import make_copies
from rookery.run.ranks.run_workers import MakesForShare, hosts_of
from rookery.run.settings import RunConfig

WAIT_SECONDS = 0.5
"""Seconds between two checks for a stop, while workers play."""


@dataclass(frozen=True)
class EvaluationTask:
    """Evaluation to be played by workers.

    Attributes:
        policies: The policies, by name.
        mapping: Policy of each agent.
        lessons: Lesson of each parameter that has lessons, from 0.
        episodes: Number of episodes of all workers.
        deterministic: Whether the most likely actions are played.
        limit: Environment steps after which an episode is cut.
    """

    policies: Mapping[str, Policy]
    mapping: PolicyMapping
    lessons: Mapping[str, int]
    episodes: int
    deterministic: bool
    limit: int


class EvaluationShare:
    """Plays the episodes of some lanes of an evaluation, in any process.

    Args:
        config: Settings of the run.
        streams: Its random streams.
        draws: Samplers of environment parameters.
        share: Its share of the lanes.
        lanes: Number of lanes of the evaluation.
    """

    def __init__(self, config: RunConfig, streams: Streams, draws: Draws, share: LaneShare, lanes: int) -> None:
        if isinstance(config.env.name, MakesForShare):
            config.env.name.make_for_share(share)
        self._env = make_copies(config, share.lanes)
        self._streams, self._draws, self._share, self._lanes = streams, draws, share, lanes

    def play(self, task: EvaluationTask) -> PlayedEpisodes:
        """Plays this share of an evaluation."""
        with own_torch(1):
            played = BoundedEpisodes(
                self._env,
                task.policies,
                task.mapping,
                self._streams,
                deterministic=task.deterministic,
                episodes=task.episodes,
                limit=task.limit,
                draws=self._draws,
                lessons=task.lessons,
                share=self._share,
                lanes=self._lanes,
            )
            played.play()
        return played.outcome

    def close(self) -> None:
        """Closes the environments."""
        close_env(self._env, self._env.name)


class EvaluationWorkers:
    """All evaluation workers of a run.

    Args:
        config: Settings of the run.
        streams: Its random streams.
        draws: Samplers of environment parameters.
        interrupt: Ends waiting if the run is to stop.
        note: Called with a line that a user should read once.

    Raises:
        ConfigError: If there is no cluster, or it has no room for the workers.
    """

    def __init__(
        self, config: RunConfig, streams: Streams, draws: Draws, interrupt: Interrupt, note: Callable[[str], None]
    ) -> None:
        settings = config.evaluation
        lanes = min(settings.episodes, settings.num_envs)
        self._interrupt, self._note = interrupt, note
        self._losses = config.sampling.max_restarts
        self._make = {
            share.number: WithSpecs(partial(EvaluationShare, config, streams, draws, share, lanes), config.env)
            for share in shares_of(lanes, min(settings.workers, lanes))
        }
        self._hosts = hosts_of(config, len(self._make), "evaluation.workers", note)
        for number, make in self._make.items():
            self._hosts.begin(number, cloudpickle.dumps(make))
        self._request: tuple[EvaluationTask, int] | None = None
        self._sent: Any = None
        self._tickets: dict[int, Any] = {}

    @property
    def under_way(self) -> bool:
        """Whether an evaluation was requested and its result not taken yet."""
        return self._request is not None

    def asks_for(self, episodes: int, deterministic: bool) -> bool:
        """Returns whether these episodes are the requested ones."""
        wanted = (episodes, deterministic)
        return self._request is not None and (self._request[0].episodes, self._request[0].deterministic) == wanted

    def standing(self) -> str:
        """Returns the evaluation under way as text; may be called from another thread."""
        episodes = self._request[0].episodes if self._request is not None else 0
        return f"evaluation: {len(self._tickets)} workers play {episodes} episodes"

    def ask(self, task: EvaluationTask, env_steps: int) -> None:
        """Requests an evaluation of all workers.

        Args:
            task: The evaluation; its policies may continue to learn meanwhile.
            env_steps: Environment steps from which the policies have learned.
        """
        task = replace(task, policies=deepcopy(dict(task.policies)))
        self._request, self._sent = (task, env_steps), self._hosts.publish(task)
        self._tickets = {number: self._hosts.call(number, "play", self._sent) for number in self._make}

    def answer(self) -> tuple[PlayedEpisodes, int]:
        """Waits for the result of the request; returns it, and the environment steps of the request.

        Raises:
            Interrupted: If the run is to stop; another call continues to wait.
            WorkerLostError: If too many workers were lost.
        """
        assert self._request is not None
        env_steps = self._request[1]
        parts = []
        for number in self._make:
            part = None
            while part is None:
                self._interrupt.check()
                part = self._part(number)
            parts.append(part)
        self._request, self._sent, self._tickets = None, None, {}
        finished = tuple(result for part in parts for result in part.finished)
        return replace(parts[0], finished=finished, cut=sum(part.cut for part in parts)), env_steps

    def _part(self, number: int) -> PlayedEpisodes | None:
        """Waits a little for the result of a share; a lost share is played again by a new worker."""
        ticket = self._tickets[number]
        if not self._hosts.ready([ticket], WAIT_SECONDS):
            return None
        try:
            played: PlayedEpisodes = self._hosts.result(ticket)
        except WorkerLostError as error:
            self._losses -= 1
            if self._losses < 0:
                raise WorkerLostError(f"evaluation: {error}; sampling.max_restarts is used up") from error
            self._note(f"evaluation: {error}; its episodes are played again")
            self._hosts.begin(number, cloudpickle.dumps(self._make[number]))
            self._tickets[number] = self._hosts.call(number, "play", self._sent)
            return None
        return played

    def close(self) -> None:
        """Closes all workers."""
        self._hosts.close(at_once=bool(self._interrupt.number) and self.under_way)
