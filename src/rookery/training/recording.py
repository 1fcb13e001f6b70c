"""Recording: policies play episodes in an environment that draws itself, and what is seen becomes a film."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from rookery.core.errors import EnvError
from rookery.core.seeding import Streams
from rookery.envs.make import make_env
from rookery.policies.policy import Policy
from rookery.report.films import Film, check_suffix
from rookery.report.results import EvaluationResult
from rookery.rollout.mapping import PolicyMapping
from rookery.rollout.worker import RolloutWorker
from rookery.training.evaluation import play, summarize
from rookery.training.settings import EnvConfig

MOST_LABELS = 6
"""Agents that are named under a picture."""


def record(
    path: Path,
    cfg: EnvConfig,
    policies: Mapping[str, Policy],
    mapping: PolicyMapping,
    streams: Streams,
    env_steps: int,
    note: Callable[[str], None],
    *,
    episodes: int,
    deterministic: bool,
    labels: bool,
    max_frames: int,
    frames_per_second: float,
) -> EvaluationResult:
    """Plays episodes in an environment of their own and writes them as a film; returns what they came to.

    Args:
        path: File to write: ``.webp`` (smallest), ``.gif``, ``.png`` or, with the package av, ``.mp4``.
        cfg: Settings of the environment.
        policies: Policies that play, by name.
        mapping: Mapping from agents to policies.
        streams: Random streams of the run; only those of evaluation are used.
        env_steps: Environment steps that the policies were trained for.
        note: Function that is given a line if the film leaves pictures out.
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
    env = make_env(
        cfg.name, cfg.config, cfg.wrappers, 1, cfg.implementation, render=True, max_entities=cfg.max_entities
    )
    recorder = Recorder(Film(episodes, max_frames), labels)
    try:
        results = play(
            env, policies, mapping, streams, episodes=episodes, deterministic=deterministic, after_step=recorder
        )
    finally:
        env.close()
    recorder.film.save(path, frames_per_second)
    if recorder.is_cut:
        note(f"{path} shows the first {max_frames:,} pictures only")
    return summarize(results, env_steps=env_steps, deterministic=deterministic)


class Recorder:
    """A callable that films lane 0 of a worker; it is called after the reset and after each vector step.

    Args:
        film: Film that the pictures go to.
        labels: Whether the agents, their policies and returns are written below the pictures.
    """

    def __init__(self, film: Film, labels: bool) -> None:
        self.film = film
        self.labels = labels
        self.is_cut = False
        """Whether there was more to see than the film has room for."""
        self._returns: list[float] = []

    def __call__(self, worker: RolloutWorker) -> None:
        """Adds the picture of lane 0; there is none of an episode's end, because the next one has begun by then."""
        episode = int(worker.env.episode[0])
        self._returns += [result.total for result in worker.finished[len(self._returns) :]]
        if episode >= self.film.episodes:
            return
        if self.film.is_full:
            self.is_cut = True
            return
        seen = worker.env.render(0)
        if seen is None:
            raise EnvError(f"{worker.env.name} draws no pictures: its render() gave None with render_mode='rgb_array'")
        captions = self._captions(worker, episode) if self.labels else ()
        self.film.add(seen, episode, captions, self._returns[-1] if self._returns else None)

    def _captions(self, worker: RolloutWorker, episode: int) -> list[str]:
        """Returns a line about the episode, then a line for each agent: its policy, and its return so far."""
        lines = [f"episode {episode + 1} of {self.film.episodes}, step {int(worker.lengths[0])}"]
        names = list(worker.seats)
        people = []
        for number, kind in enumerate(worker.env.kinds):
            desk = worker.desks[number] if number < len(worker.desks) else None
            for column, agent in enumerate(kind.agents):
                earned = 0.0 if desk is None else float(desk.returns[column])
                player = names[desk.seat_of[column]] if desk is not None and desk.seat_of[column] >= 0 else ""
                people.append(f"{agent}{f' ({player})' if player else ''} {earned:+.2f}")
        if len(people) > MOST_LABELS:
            people[MOST_LABELS - 1 :] = [f"and {len(people) - MOST_LABELS + 1} more"]
        return [*lines, *people]
