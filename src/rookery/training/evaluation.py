"""Episodes from which nothing is learned, on environments and random streams of their own: measured, or filmed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from rookery.core.errors import EnvError
from rookery.core.interrupt import Interrupt
from rookery.core.seeding import Role, Streams
from rookery.core.timers import Timers
from rookery.envs.base import VectorEnv
from rookery.policies.policy import Policy
from rookery.report.films import Film, check_suffix
from rookery.report.results import EvaluationResult, interval
from rookery.rollout.hooks import EpisodeResult
from rookery.rollout.mapping import PolicyMapping
from rookery.rollout.worker import RolloutWorker
from rookery.training.prepare import make_copies
from rookery.training.run import Run

MOST_LABELS = 6
"""Agents that are named under a picture."""


class Measure:
    """Measures a run's policies in copies of the environment that are made when first needed, and then kept."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._env: VectorEnv | None = None

    def __call__(self, episodes: int, deterministic: bool) -> EvaluationResult:
        """Plays so many episodes; what was played before changes nothing."""
        run = self._run
        lanes = min(episodes, run.config.evaluation.num_envs)
        if self._env is None or self._env.num_lanes != lanes:
            self.close()
            self._env = make_copies(run.config, lanes)
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

    It stops after `max_env_steps` environment steps in any case.

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


def record(
    run: Run, path: Path, *, episodes: int, deterministic: bool, labels: bool, max_frames: int, frames_per_second: float
) -> EvaluationResult:
    """Plays episodes in an environment of their own and writes them as a film; returns what they came to.

    Args:
        run: The run whose policies play.
        path: File to write: ``.webp`` (smallest), ``.gif``, ``.png`` or, with the package av, ``.mp4``.
        episodes: Number of episodes; a title stands before each of several.
        deterministic: Whether the most likely actions are played.
        labels: Whether the agents, their policies and returns are written below the pictures.
        max_frames: Largest number of pictures; what comes after them is played, and left out of the film.
        frames_per_second: Speed of the film.

    Raises:
        ConfigError: If such a file cannot be made.
        EnvError: If the environment draws no pictures.
        FileError: If the file cannot be written.
    """
    check_suffix(path)
    env = make_copies(run.config, 1, render=True)
    film = Film(episodes, max_frames)
    finished: list[EpisodeResult] = []
    try:
        worker = player(env, run.policies, run.mapping, run.streams, deterministic)
        worker.reset()
        show(worker, film, labels, finished)
        while env.episode[0] < episodes:
            finished += play(worker, episodes, max_env_steps=1)
            show(worker, film, labels, finished)
    finally:
        env.close()
    film.save(path, frames_per_second)
    if film.is_cut:
        run.note(f"{path} shows the first {max_frames:,} pictures only")
    return summarize(finished, env, episodes, env_steps=run.env_steps, deterministic=deterministic)


def show(worker: RolloutWorker, film: Film, labels: bool, finished: Sequence[EpisodeResult]) -> None:
    """Adds the picture of lane 0 to a film; there is none of an episode's end, because the next one has begun by then.

    Raises:
        EnvError: If the environment draws no pictures.
    """
    episode = int(worker.env.episode[0])
    if episode >= film.episodes:
        return
    if film.is_full:
        film.is_cut = True
        return
    seen = worker.env.render(0)
    if seen is None:
        raise EnvError(f"{worker.env.name} draws no pictures: its render() gave None with render_mode='rgb_array'")
    lines = captions(worker, episode, film.episodes) if labels else ()
    film.add(seen, episode, lines, finished[-1].total if finished else None)


def captions(worker: RolloutWorker, episode: int, episodes: int) -> list[str]:
    """A line about the episode of lane 0, then a line for each agent: its policy, and its return so far."""
    names, people = list(worker.policies), []
    for number, kind in enumerate(worker.env.kinds):
        table = worker.tables[number] if number < len(worker.tables) else None
        for column, agent in enumerate(kind.agents):
            earned = 0.0 if table is None else float(table.returns[column])
            player = names[table.policy_of[column]] if table is not None and table.policy_of[column] >= 0 else ""
            people.append(f"{agent}{f' ({player})' if player else ''} {earned:+.2f}")
    if len(people) > MOST_LABELS:
        people[MOST_LABELS - 1 :] = [f"and {len(people) - MOST_LABELS + 1} more"]
    return [f"episode {episode + 1} of {episodes}, step {int(worker.lengths[0])}", *people]
