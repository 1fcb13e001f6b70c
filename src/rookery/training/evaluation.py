"""Measuring policies: episodes on environments and random streams of their own, from which nothing is learned."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rookery.core.errors import EnvError
from rookery.core.interrupt import Interrupt
from rookery.core.seeding import Role, Streams
from rookery.core.timers import Timers
from rookery.envs.base import VectorEnv
from rookery.policies.policy import Policy
from rookery.report.results import EvaluationResult, interval
from rookery.rollout.hooks import EpisodeResult
from rookery.rollout.mapping import PolicyMapping
from rookery.rollout.worker import RolloutWorker
from rookery.training.prepare import more_copies
from rookery.training.run import Run


class Measure:
    """Measures a run's policies in copies of the environment that are made when first needed, and then kept.

    Args:
        run: The run.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._env: VectorEnv | None = None

    def __call__(self, episodes: int, deterministic: bool) -> EvaluationResult:
        """Plays so many episodes; what was played before changes nothing."""
        run = self._run
        lanes = min(episodes, run.config.evaluation.num_envs)
        if self._env is None or self._env.num_lanes != lanes:
            self.close()
            self._env = more_copies(run.config, lanes)
        worker = player(self._env, run.policies, run.mapping, run.streams, deterministic, run.interrupt)
        finished = play(worker, episodes)
        return summarize(finished, self._env, episodes, env_steps=run.env_steps, deterministic=deterministic)

    def close(self) -> None:
        """Frees the copies."""
        if self._env is not None:
            self._env.close()
            self._env = None


def player(
    env: VectorEnv,
    policies: Mapping[str, Policy],
    mapping: PolicyMapping,
    streams: Streams,
    deterministic: bool,
    interrupt: Interrupt | None = None,
) -> RolloutWorker:
    """A worker that plays the episodes of the evaluation stream, dealt to the lanes in turn.

    Args:
        env: Copies to play in; they are reset.
        policies: Policies that play, by name.
        mapping: Which of them plays which agent.
        streams: The run's streams; only those of evaluation are used.
        deterministic: Play the most likely actions.
        interrupt: Ends the playing when somebody asks to stop.
    """
    own = Streams(streams.integer(Role.EVALUATION))
    seeds = own.episodes(Role.ENV, stride=env.num_lanes)
    worker = RolloutWorker(env, mapping, own, seeds, Timers(), deterministic, interrupt)
    for name, policy in policies.items():
        worker.add_policy(name, policy, demand=None)
    return worker


def play(worker: RolloutWorker, episodes: int, max_env_steps: int | None = None) -> list[EpisodeResult]:
    """Plays until episodes 0 to `episodes` - 1 have ended.

    Args:
        worker: Who plays.
        episodes: How many episodes.
        max_env_steps: Stop after so many environment steps in any case.

    Returns:
        The episodes that have ended, in the order they ended; others than those that were asked for among them.

    Raises:
        EnvError: If an agent has no policy here.
        Interrupted: If somebody asked to stop.
    """
    sample = worker.sample(max_env_steps, episodes)
    for name, kind in sample.newcomers.items():
        raise EnvError(f"no policy {name!r} for agents {', '.join(kind.agents)}; train first, or map them to another")
    if worker.interrupt is not None:
        worker.interrupt.check()
    return sample.finished


def summarize(
    finished: list[EpisodeResult], env: VectorEnv, episodes: int, *, env_steps: int, deterministic: bool
) -> EvaluationResult:
    """Means over episodes 0 to `episodes` - 1, and their interval.

    Args:
        finished: What was played.
        env: Where.
        episodes: How many episodes count, dealt to the lanes in turn.
        env_steps: Environment steps of training behind the policies.
        deterministic: Whether the most likely actions were played.

    Raises:
        EnvError: If the environment raised in every one of them.
    """
    numbered = {result.index * env.num_lanes + result.lane: result for result in finished}
    results = [numbered[number] for number in sorted(numbered) if number < episodes]
    if not results:
        raise EnvError(f"{env.name}: raised in every one of {episodes} episodes of the evaluation")
    returns = tuple(result.total for result in results)
    by_agent: dict[str, list[float]] = {}
    by_policy: dict[str, list[float]] = {}
    for result in results:
        for agent, value in result.agents.items():
            by_agent.setdefault(agent, []).append(value)
            by_policy.setdefault(result.policies[agent], []).append(value)
    return EvaluationResult(
        return_mean=math.fsum(returns) / len(returns),
        return_interval=interval(returns),
        return_min=min(returns),
        return_max=max(returns),
        length_mean=math.fsum(result.length for result in results) / len(results),
        episodes=len(results),
        agents={agent: math.fsum(values) / len(values) for agent, values in by_agent.items()},
        policies={policy: math.fsum(values) / len(values) for policy, values in by_policy.items()},
        env_steps=env_steps,
        deterministic=deterministic,
        returns=returns,
    )
