"""Where a run stands after an iteration: what the iteration brought, and the windows that its means are taken over."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rookery.core.batch import Rollout
from rookery.core.state import Stateful
from rookery.report.results import WINDOW, EvaluationResult, IterationResult, Number, PolicyResult
from rookery.rollout.hooks import EpisodeResult

if TYPE_CHECKING:
    from rookery.training.trainer import Trainer


class Progress(Stateful):
    """An iteration under way.

    Args:
        env_steps: Environment steps of the run when it began.
        lane_steps: These and those in which copies rested.
        seconds: Seconds of training when it began.
        gradient_steps: Those of each policy with a replay memory when it began.
    """

    saved = ("env_steps", "lane_steps", "seconds", "gradient_steps", "unplayed", "learned", "sizes")

    def __init__(self, env_steps: int, lane_steps: int, seconds: float, gradient_steps: Mapping[str, int]) -> None:
        self.env_steps = env_steps
        self.lane_steps = lane_steps
        self.seconds = seconds
        self.gradient_steps = dict(gradient_steps)
        self.unplayed = 0
        """Env steps that were learned for and not played, because sampling is paused."""
        self.learned: dict[str, list[dict[str, Any]]] = {}
        """What each policy's updates reported."""
        self.sizes: dict[str, tuple[int, int]] = {}
        """Decisions and cut fragments of each policy's last rollout."""

    def note(self, name: str, row: dict[str, Any], rollout: Rollout) -> None:
        """Takes down an update of a policy."""
        self.learned.setdefault(name, []).append(row)
        self.sizes[name] = (rollout.num_decisions, rollout.num_cut)

    def pass_over(self, env_steps: int, lane_steps: int) -> None:
        """What was played meanwhile belongs to another iteration."""
        self.env_steps += env_steps
        self.lane_steps += lane_steps


class Windows(Stateful):
    """The last finished episodes, for the running means."""

    saved = ("episodes", "agent_episodes", "totals", "lengths", "agents", "policies", "metrics", "histograms")

    def __init__(self) -> None:
        self.episodes = 0
        self.agent_episodes: dict[str, int] = {}
        self.totals: deque[float] = deque(maxlen=WINDOW)
        self.lengths: deque[int] = deque(maxlen=WINDOW)
        self.agents: dict[str, deque[float]] = {}
        self.policies: dict[str, deque[float]] = {}
        self.metrics: dict[str, deque[float]] = {}
        self.histograms: dict[str, list[float]] = {}
        """Of the episodes that ended in the latest iteration."""

    def add(self, finished: Iterable[EpisodeResult]) -> None:
        """Takes the finished episodes of an iteration in the order they ended."""
        self.histograms = {}
        for episode in finished:
            self.episodes += 1
            self.totals.append(episode.total)
            self.lengths.append(episode.length)
            for name, number in episode.metrics.items():
                self.metrics.setdefault(name, deque(maxlen=WINDOW)).append(float(number))
            for name, numbers in episode.histograms.items():
                self.histograms.setdefault(name, []).extend(float(number) for number in numbers)
            for agent, value in episode.agents.items():
                policy = episode.policies[agent]
                self.agents.setdefault(agent, deque(maxlen=WINDOW)).append(value)
                self.policies.setdefault(policy, deque(maxlen=WINDOW)).append(value)
                self.agent_episodes[policy] = self.agent_episodes.get(policy, 0) + 1


def result_of(trainer: Trainer, progress: Progress, evaluation: EvaluationResult | None = None) -> IterationResult:
    """Where a run stands after an iteration, or without one of its own.

    Args:
        trainer: Whose run.
        progress: The iteration; one that begins now stands for none.
        evaluation: What was measured in it.
    """
    windows = trainer.windows
    policies = {}
    for name in trainer.policies:
        valid, cut = progress.sizes.get(name, (0, 0))
        policies[name] = PolicyResult(
            return_mean=mean(windows.policies.get(name, ())),
            episodes=windows.agent_episodes.get(name, 0),
            decisions=trainer.decisions.get(name, 0),
            valid_rows=valid,
            cut_fragments=cut,
            learning=trainer.last_learning.get(name, {}),
        )
    played, seconds = trainer.env_steps - progress.env_steps, trainer.seconds - progress.seconds
    return IterationResult(
        iteration=trainer.iteration,
        env_steps=trainer.env_steps,
        episodes=windows.episodes,
        return_mean=mean(windows.totals),
        return_min=min(windows.totals, default=None),
        return_max=max(windows.totals, default=None),
        length_mean=mean(windows.lengths),
        running_length=trainer.pool.running_length,
        agents={agent: value for agent, values in windows.agents.items() if (value := mean(values)) is not None},
        policies=policies,
        evaluation=evaluation,
        seconds=trainer.seconds,
        steps_per_second=played / max(seconds, 1e-9),
        exact=trainer.env.exact,
        counters=trainer.pool.counters(),
        metrics={name: (min(v), math.fsum(v) / len(v), max(v)) for name, v in windows.metrics.items()},
        histograms=dict(windows.histograms),
        sampling=trainer.pool.lane_steps > progress.lane_steps,
    )


def mean(values: Iterable[float]) -> float | None:
    """The mean, or None of nothing."""
    known = list(values)
    return math.fsum(known) / len(known) if known else None


def mean_rows(rows: list[dict[str, Any]]) -> dict[str, Number]:
    """Key by key, the mean of the rows that have a number there; counts such as `updates` keep the last."""
    merged: dict[str, Number] = {}
    for key in rows[-1] if rows else ():
        values = [row[key] for row in rows if row.get(key) is not None]
        if not values:
            merged[key] = None
        elif isinstance(values[-1], int):
            merged[key] = values[-1]
        else:
            merged[key] = math.fsum(values) / len(values)
    return merged
