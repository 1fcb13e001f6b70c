"""Evaluation and videos: episodes without learning, in separate environments and with separate random streams."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rookery.core.config import DEFAULT
from rookery.core.errors import EnvError
from rookery.core.process.interrupt import Interrupt, Interrupted
from rookery.core.process.torch_modes import call_in_user_modes
from rookery.core.settings.starting_folder import shown, started_in
from rookery.envs.base import VectorBase, VectorEnv, is_only_one
from rookery.envs.vector.closing import close_env
from rookery.envs.vector.rendering import drawn
from rookery.report.results import EvaluationResult, IterationResult, PolicyReturn
from rookery.report.statistics import mean_interval
from rookery.report.videos import Video, VideoProgress, check_suffix
from rookery.rollout.goal_success import SUCCESS
from rookery.rollout.hooks import EpisodeListener
from rookery.rollout.worker import RolloutWorker
from rookery.run.checkpoint.path_folders import as_typed
from rookery.run.evaluate.episode_limit import UNKNOWN_LIMIT, BoundedEpisodes, PlayedEpisodes
from rookery.run.evaluate.evaluation_workers import EvaluationTask, EvaluationWorkers
from rookery.run.parts import RunPart
from rookery.run.run import Measured, Run

MOST_LABELS = 6
"""Maximum number of agents that are named below an image."""

USUAL_FPS = 12.0
"""Frame rate of a video if neither the user nor the environment sets one."""

MOST_FPS = 50.0
"""Highest frame rate that every viewer of animations supports; many show shorter frames much too long."""


class Measure(RunPart):
    """Evaluates a run's policies in environments that are made when first needed, and then kept.

    Where only one process can have the environments, those of the run are used, and its running episodes are abandoned.
    Remote workers (`evaluation.workers`) evaluate during training: the weights at the start of an iteration, while the
    iteration runs.

    Where `evaluation.every` is set, it is a part of the run, and evaluates at the end of iterations.

    Args:
        run: The run.
        evaluate: Evaluates as set in `evaluation`, and calls callbacks.
    """

    def __init__(self, run: Run, evaluate: Callable[[], EvaluationResult]) -> None:
        self._run, self._evaluate = run, evaluate
        self._latest: EvaluationResult | None = None
        """The evaluation at the end of the last iteration."""
        self._env: VectorEnv | None = None
        self._workers: EvaluationWorkers | None = None

    @property
    def is_due(self) -> bool:
        """Whether this rank evaluates at the end of the current iteration."""
        return not self._run._ranks.rank and self._ends_with_measure

    def after_call(self, call: str) -> None:
        """Evaluates at the end of a training iteration, at rank 0, if one is scheduled; the other ranks wait.

        Raises:
            Interrupted: If the run is to stop, on all ranks; a resumed run evaluates again.
        """
        if call != "train_iteration":
            return
        run, evaluation = self._run, None
        if self.is_due:
            try:
                evaluation = self._evaluate()
            except Interrupted:
                if run._ranks.size == 1:
                    raise
        if run._ranks.size > 1 and self._ends_with_measure:
            run._ranks.check(run._interrupt)
        self._latest = evaluation

    def after_iteration(self, result: IterationResult) -> IterationResult:
        """Returns the result of an iteration with its evaluation."""
        evaluation, self._latest = self._latest, None
        return replace(result, evaluation=evaluation)

    @property
    def _ends_with_measure(self) -> bool:
        """Whether rank 0 evaluates at the end of the current iteration."""
        run, every = self._run, self._run.config.evaluation.every
        return bool(every) and not run._paused and (run.iteration + 1) % every == 0

    def before_call(self, call: str, task: Any) -> Any:
        """Makes remote workers, if there are any, play the evaluation that this iteration is to report."""
        run, settings = self._run, self._run.config.evaluation
        if call != "train_iteration" or not settings.workers or run._ranks.rank:
            return task
        if self._workers is None:
            with started_in(run._folder):
                self._workers = EvaluationWorkers(
                    as_typed(run.resolved), run._streams, run._draws, run._interrupt, run._note
                )
        if self.is_due and not self._workers.under_way:
            policies, mapping = run._self_play.to_measure(run.policies)
            wanted = EvaluationTask(
                policies, mapping, lessons_of(run), settings.episodes, settings.deterministic, limit_of(run)
            )
            self._workers.ask(wanted, run.env_steps)
        return task

    def __call__(self, episodes: int, deterministic: bool) -> EvaluationResult:
        """Plays episodes, or waits for those of remote workers; the result does not depend on earlier evaluations."""
        run, workers = self._run, self._workers
        if workers is not None and workers.asks_for(episodes, deterministic):
            with measuring(run, workers):
                return summarize(run, *workers.answer())
        if is_only_one(run.env):
            with run._copies(run.env.num_lanes) as env:
                played = bounded(run, env, episodes, deterministic, run._interrupt)
                with measuring(run, played):
                    played.play()
            return summarize(run, played.outcome, run.env_steps)
        lanes = min(episodes, run.config.evaluation.num_envs)
        if self._env is None or self._env.num_lanes != lanes:
            if self._env is not None:
                close_env(self._env, self._env.name)
            self._env = run._make_copies(lanes)
        played = bounded(run, self._env, episodes, deterministic, run._interrupt)
        with measuring(run, played):
            played.play()
        return summarize(run, played.outcome, run.env_steps)

    def close(self) -> None:
        """Closes the environments and the workers."""
        if self._env is not None:
            close_env(self._env, self._env.name)
        if self._workers is not None:
            self._workers.close()
        self._env = self._workers = None


@contextmanager
def measuring(run: Run, played: Measured) -> Iterator[None]:
    """Context in which a run reports the progress of an evaluation."""
    run._measured = played
    try:
        yield
    finally:
        run._measured = None


def limit_of(run: Run) -> int:
    """Returns the environment steps after which an evaluation cuts an episode: `evaluation.max_episode_steps`, and
    `UNKNOWN_LIMIT` at most if that is not set and the run has sampled without the end of an episode.
    """
    limit, history = run.config.evaluation.max_episode_steps, run.resolved.history["evaluation.max_episode_steps"]
    ended = run._windows.episodes or run._finished or not run.env_steps
    return limit if ended or history[-1][0] != DEFAULT else min(limit, UNKNOWN_LIMIT)


def bounded(
    run: Run,
    env: VectorEnv,
    episodes: int,
    deterministic: bool,
    interrupt: Interrupt | None = None,
    listeners: Sequence[EpisodeListener] = (),
) -> BoundedEpisodes:
    """Returns episodes of a run's policies in its environment, each of `limit_of` steps at most."""
    policies, mapping = run._self_play.to_measure(run.policies)
    return BoundedEpisodes(
        env,
        policies,
        mapping,
        run._streams,
        deterministic=deterministic,
        episodes=episodes,
        limit=limit_of(run),
        interrupt=interrupt,
        listeners=listeners,
        draws=run._draws,
        lessons=lessons_of(run),
    )


def lessons_of(run: Run) -> Mapping[str, int]:
    """Returns the lesson of each parameter that has lessons, from 0, in which policies are evaluated."""
    return run._draws.last() if run.config.evaluation.lesson == "last" else run._curriculum.lessons


def summarize(run: Run, played: PlayedEpisodes, env_steps: int) -> EvaluationResult:
    """Returns means over the episodes of an evaluation and their interval; shows a note if episodes were cut.

    Args:
        run: The run of the policies.
        played: The episodes.
        env_steps: Environment steps from which the policies had learned.

    Raises:
        EnvError: If the environment raised in all of them.
    """
    results = sorted(played.finished, key=lambda result: result.index * played.lanes + result.lane)
    if not results:
        raise EnvError(f"{run.env.name}: raised in every one of {played.episodes} episodes of the evaluation")
    if played.cut:
        why = "evaluation.max_episode_steps"
        if played.limit < run.config.evaluation.max_episode_steps:
            why = f"no episode of training has ended so far; {why}=N sets another limit"
        run._note(
            f"evaluation: {played.cut} of {len(results)} episodes had not ended after {played.limit:,} steps ({why}) "
            "and count as truncated there"
        )
    returns = tuple(result.total for result in results)
    successes = [result.metrics[SUCCESS] for result in results if SUCCESS in result.metrics]
    by_agent: dict[str, list[float]] = {}
    by_policy: dict[str, list[float]] = {}
    by_group = {group: [result.groups[group] for result in results] for group in results[0].groups}
    for result in results:
        for agent, value in result.agents.items():
            by_agent.setdefault(agent, []).append(value)
            by_policy.setdefault(result.policies[agent], []).append(value)
    return EvaluationResult(
        return_mean=math.fsum(returns) / len(returns),
        return_interval=mean_interval(returns),
        return_min=min(returns),
        return_max=max(returns),
        length_mean=math.fsum(result.length for result in results) / len(results),
        episodes=len(results),
        agents={agent: math.fsum(values) / len(values) for agent, values in by_agent.items()},
        policies={
            policy: PolicyReturn(math.fsum(values) / len(values), len(values)) for policy, values in by_policy.items()
        },
        env_steps=env_steps,
        deterministic=played.deterministic,
        returns=returns,
        episodes_cut=played.cut,
        groups={group: math.fsum(values) / len(values) for group, values in by_group.items()},
        success_rate=math.fsum(successes) / len(successes) if successes else None,
    )


def record(
    run: Run,
    path: Path,
    *,
    episodes: int,
    deterministic: bool,
    labels: bool,
    max_frames: int,
    frames_per_second: float | None,
    seconds: float | None = None,
    progress: VideoProgress | None = None,
) -> EvaluationResult:
    """Plays episodes in a separate environment and writes them as a video; returns their results.

    Args:
        run: The run of the policies.
        path: File to write: ``.webp`` (smallest), ``.gif``, ``.png`` or, with the package av, ``.mp4``.
        episodes: Number of episodes; each of several has a title.
        deterministic: Whether the most likely actions are played.
        labels: Whether the agents, their policies and returns are written below the images.
        max_frames: Most frames; later steps are played, and left out of the video.
        frames_per_second: Frame rate of the video; None = that of the environment (`video_speed`).
        seconds: Longest duration of the video; None = no limit but `max_frames`.
        progress: Called after each encoded frame with the number of encoded frames and of all frames.

    Raises:
        ConfigError: If such a file cannot be made.
        EnvError: If the environment renders no images.
        FileError: If the file cannot be written.
    """
    check_suffix(path)
    with run._copies(1, render=True) as env:
        speed = video_speed(env) if frames_per_second is None else frames_per_second
        video = Video(episodes, max_frames, speed, math.inf if seconds is None else seconds)
        if isinstance(env, VectorBase):
            env.keep_last_pictures = True
        played = bounded(run, env, episodes, deterministic)
        with measuring(run, played):
            while not played.over:
                played.begin_round()
                show(played, video, labels)
                before = len(played.finished)
                played.play(vector_steps=1)
                if len(played.finished) > before:
                    show_end(played, video, labels)
    video.save(path, progress)
    if left := video.left_out:
        first = f", from episode {left[0] + 1} of {episodes} on," if episodes > 1 else ""
        run._note(
            f"{shown(path)} shows the first {video.seconds:.1f} s; {len(left):,} later frames{first} are left out: "
            "--seconds and --max-frames (in code seconds, max_frames) change that"
        )
    return summarize(run, played.outcome, run.env_steps)


def video_speed(env: VectorEnv) -> float:
    """Returns the frame rate of an environment, its `render_fps`: at most `MOST_FPS`, and `USUAL_FPS` where it has
    none.
    """
    fps = env.render_fps if isinstance(env, VectorBase) else None
    return USUAL_FPS if fps is None else min(fps, MOST_FPS)


def show(played: BoundedEpisodes, video: Video, labels: bool) -> None:
    """Adds an image of lane 0 before its next step to a video.

    Raises:
        EnvError: If the environment renders no images.
    """
    worker, episode = played.worker, int(played.index[0])
    assert worker.now is not None
    if episode and not worker.lengths[0] and not any(rows.waiting.any() for rows in worker.now.rows):
        return  # an environment that starts its next episode one step later still renders the end of the last one
    if not video.takes_next(episode):
        return
    seen = call_in_user_modes(drawn, worker.env, 0)
    if seen is None:
        raise EnvError(
            f"{worker.env.name} renders no images: it has no render(), or render() with render_mode='rgb_array' "
            "returns None or is not implemented"
        )
    lines = captions(episode, video.episodes, int(worker.lengths[0]), players_of(worker)) if labels else ()
    video.add(seen, episode, lines, played.finished[-1].total if played.finished else None)


def show_end(played: BoundedEpisodes, video: Video, labels: bool) -> None:
    """Adds an image of the last state of an episode of lane 0 to a video.

    There is no image if the next episode has begun and the environment keeps no last images, as a third-party vector
    environment that resets in the same step.
    """
    result, env = played.finished[-1], played.worker.env
    if played.worker.lengths[0]:  # the episode was cut, so nothing has begun
        seen = call_in_user_modes(drawn, env, 0)
    else:
        seen = env.last_pictures.pop(0, None) if isinstance(env, VectorBase) else None
    if seen is None:
        return
    if not video.takes_next(result.index):
        return
    everyone = [agent for kind in env.kinds for agent in kind.agents]
    earned = [(agent, result.policies.get(agent, ""), result.agents.get(agent, 0.0)) for agent in everyone]
    lines = captions(result.index, video.episodes, result.length, earned) if labels else ()
    video.add(seen, result.index, lines, None)


def players_of(worker: RolloutWorker) -> list[tuple[str, str, float]]:
    """Returns for each agent of lane 0 its name, its policy and its return so far."""
    names, found = list(worker.policies), []
    for number, kind in enumerate(worker.env.kinds):
        table = worker.tables[number] if number < len(worker.tables) else None
        for column, agent in enumerate(kind.agents):
            earned = 0.0 if table is None else float(table.returns[column])
            player = names[table.policy_of[column]] if table is not None and table.policy_of[column] >= 0 else ""
            found.append((agent, player, earned))
    return found


def captions(episode: int, episodes: int, step: int, agents: Sequence[tuple[str, str, float]]) -> list[str]:
    """Returns a line about an episode, then a line for each agent: its policy, and its return so far."""
    lines = [f"{agent}{f' ({player})' if player else ''} {earned:+.2f}" for agent, player, earned in agents]
    if len(lines) > MOST_LABELS:
        lines[MOST_LABELS - 1 :] = [f"and {len(lines) - MOST_LABELS + 1} more"]
    return [f"episode {episode + 1} of {episodes}, step {step}", *lines]
