"""Recording: policies play episodes in an environment that draws itself, and what is seen becomes a film."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rookery.core.errors import EnvError
from rookery.envs.make import make_env
from rookery.report.films import Film, check_suffix
from rookery.report.results import EvaluationResult
from rookery.rollout.hooks import EpisodeResult
from rookery.rollout.worker import RolloutWorker
from rookery.training.evaluation import play, player, summarize
from rookery.training.run import Run

MOST_LABELS = 6
"""Agents that are named under a picture."""


def record(
    run: Run,
    path: Path,
    *,
    episodes: int,
    deterministic: bool,
    labels: bool,
    max_frames: int,
    frames_per_second: float,
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
    cfg = run.config.env
    env = make_env(
        cfg.name, cfg.config, cfg.wrappers, 1, cfg.implementation, render=True, max_entities=cfg.max_entities
    )
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

    Args:
        worker: Who plays.
        film: The film.
        labels: Whether the agents, their policies and returns are written below the picture.
        finished: The episodes that have ended.

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
    lines = [f"episode {episode + 1} of {episodes}, step {int(worker.lengths[0])}"]
    names = list(worker.policies)
    people = []
    for number, kind in enumerate(worker.env.kinds):
        table = worker.tables[number] if number < len(worker.tables) else None
        for column, agent in enumerate(kind.agents):
            earned = 0.0 if table is None else float(table.returns[column])
            player = names[table.policy_of[column]] if table is not None and table.policy_of[column] >= 0 else ""
            people.append(f"{agent}{f' ({player})' if player else ''} {earned:+.2f}")
    if len(people) > MOST_LABELS:
        people[MOST_LABELS - 1 :] = [f"and {len(people) - MOST_LABELS + 1} more"]
    return [*lines, *people]
