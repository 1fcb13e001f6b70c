"""Measuring policies: episodes on environments and random streams of their own, from which nothing is learned."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from rookery.core.errors import EnvError
from rookery.core.interrupt import Interrupt
from rookery.core.seeding import Role, Streams
from rookery.core.timers import Timers
from rookery.envs.base import Kind, VectorEnv
from rookery.policies.policy import Policy
from rookery.report.results import EvaluationResult, interval
from rookery.rollout.hooks import EpisodeResult
from rookery.rollout.mapping import PolicyMapping
from rookery.rollout.worker import RolloutWorker
from rookery.training.prepare import more_copies

if TYPE_CHECKING:
    from rookery.training.trainer import Trainer


class Measure:
    """Measures a trainer's policies in copies of the environment that are made when first needed, and then kept.

    Args:
        trainer: Whose.
    """

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._env: VectorEnv | None = None

    def __call__(self, episodes: int, deterministic: bool) -> EvaluationResult:
        """Plays so many episodes; what it played before changes nothing."""
        trainer = self._trainer
        lanes = min(episodes, trainer.config.evaluation.num_envs)
        if self._env is None or self._env.num_lanes != lanes:
            self.close()
            self._env = more_copies(trainer.config, lanes)
        results = play(
            self._env,
            trainer.policies,
            trainer.mapping,
            trainer.streams,
            episodes=episodes,
            deterministic=deterministic,
            interrupt=trainer.interrupt,
        )
        return summarize(results, env_steps=trainer.env_steps, deterministic=deterministic)

    def close(self) -> None:
        """Frees the copies."""
        if self._env is not None:
            self._env.close()
            self._env = None


def play(
    env: VectorEnv,
    policies: Mapping[str, Policy],
    mapping: PolicyMapping,
    streams: Streams,
    *,
    episodes: int,
    deterministic: bool,
    after_step: Callable[[RolloutWorker], None] | None = None,
    interrupt: Interrupt | None = None,
) -> list[EpisodeResult]:
    """Plays episodes 0 to `episodes` - 1 of the evaluation stream, dealt to the lanes in turn; each is played to its
    end.

    Args:
        env: Copies to play in; they are reset.
        policies: Who plays.
        mapping: Which of them plays which agent.
        streams: The run's streams; only those of evaluation are used.
        episodes: How many episodes.
        deterministic: Play the most likely actions.
        after_step: Called after the reset and after each vector step.
        interrupt: Ends the measuring when somebody asks to stop.

    Raises:
        Interrupted: If somebody asked to stop.
    """
    own = Streams(streams.integer(Role.EVALUATION))
    seeds = own.episodes(Role.ENV, stride=env.num_lanes)

    def introduce(name: str, kind: Kind) -> None:
        raise EnvError(f"no policy {name!r} for agents {', '.join(kind.agents)}; train first, or map them to another")

    worker = RolloutWorker(env, mapping, own, seeds, introduce, Timers(), deterministic, interrupt)
    worker.after_step = after_step
    for name, policy in policies.items():
        worker.add_policy(name, policy, demand=None)
    worker.sample(episodes=episodes)
    if interrupt is not None:
        interrupt.check()
    played = sorted(
        (result for result in worker.drain_finished() if _number(result, env) < episodes),
        key=lambda result: _number(result, env),
    )
    if not played:
        raise EnvError(f"{env.name}: raised in every one of {episodes} episodes of the evaluation")
    return played


def _number(result: EpisodeResult, env: VectorEnv) -> int:
    return result.index * env.num_lanes + result.lane


def summarize(results: list[EpisodeResult], *, env_steps: int, deterministic: bool) -> EvaluationResult:
    """Means and their interval."""
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
