"""What a run reports: the result of an iteration, the windows its means are taken over, and its row in
`metrics.jsonl`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rookery.core.batch import Rollout
from rookery.core.errors import nearest
from rookery.core.state import Stateful
from rookery.rollout.hooks import EpisodeResult

if TYPE_CHECKING:
    from rookery.training.trainer import Trainer

WINDOW = 100
"""Training means are over this many finished episodes."""

Number = float | int | None


@dataclass(frozen=True)
class PolicyResult:
    """One policy in an iteration. What its algorithm reported is an attribute too: ``result.policies["main"].kl``.

    Attributes:
        return_mean: Mean over the last 100 episodes of its agents, each agent by itself; None before the first ends.
        episodes: Episodes of its agents finished so far.
        decisions: Decisions learned from so far.
        valid_rows: Decisions of the last update.
        cut_fragments: Fragments of the last update that were cut short of full length.
        learning: What its algorithm reported, the mean over the updates of the iteration; empty for a frozen policy.
    """

    return_mean: float | None
    episodes: int
    decisions: int
    valid_rows: int
    cut_fragments: int
    learning: Mapping[str, Number] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Number:
        learning = self.__dict__.get("learning", {})
        if name in learning:
            value: Number = learning[name]
            return value
        raise AttributeError(f"no metric {name!r}; there are {', '.join(learning)}{nearest(name, list(learning))}")


@dataclass(frozen=True)
class EvaluationResult:
    """Episodes played to measure, with nothing learned from them.

    Attributes:
        return_mean: Mean over the episodes of the sum over agents.
        return_interval: 95 % confidence interval of that mean (Student's t).
        return_min: Worst episode.
        return_max: Best episode.
        length_mean: Environment steps an episode.
        episodes: How many.
        agents: Mean return of each agent.
        policies: Mean return of the agents of each policy.
        env_steps: Environment steps of training behind the policies measured.
        deterministic: Whether the most likely actions were played.
        returns: Each episode's return, in order.
    """

    return_mean: float
    return_interval: tuple[float, float]
    return_min: float
    return_max: float
    length_mean: float
    episodes: int
    agents: Mapping[str, float]
    policies: Mapping[str, float]
    env_steps: int
    deterministic: bool
    returns: tuple[float, ...] = ()


@dataclass(frozen=True)
class IterationResult:
    """One iteration, and where the run stands after it.

    Attributes:
        iteration: Its number, from 1.
        env_steps: Environment steps of the run so far.
        episodes: Episodes finished so far.
        return_mean: Mean over the last 100 finished training episodes of the sum over agents; None before the first.
        return_min: Worst of them.
        return_max: Best of them.
        length_mean: Their mean length in environment steps.
        running_length: Mean length so far of the episodes still running.
        agents: Mean return of each agent over the same window.
        policies: Each policy's part.
        evaluation: The evaluation made in this iteration, or None.
        seconds: Seconds of training so far.
        steps_per_second: Environment steps a second in this iteration.
        exact: Whether the run would repeat bit for bit.
        counters: What could not be learned from as it should, in the whole run: ``finals_stale`` (truncated agents
            whose final observation is an older one, because they were not on turn), ``rewards_without_decision``
            (rewards before an agent's first decision).
        metrics: Minimum, mean and maximum of what callbacks measured, over the same window.
        histograms: What callbacks collected in the episodes that ended in this iteration.
        sampling: Whether the environment was stepped in this iteration.
        stop_reason: Why training ended here; empty if it goes on.
    """

    iteration: int
    env_steps: int
    episodes: int
    return_mean: float | None
    return_min: float | None
    return_max: float | None
    length_mean: float | None
    running_length: float
    agents: Mapping[str, float]
    policies: Mapping[str, PolicyResult]
    evaluation: EvaluationResult | None
    seconds: float
    steps_per_second: float
    exact: bool
    counters: Mapping[str, int] = field(default_factory=dict)
    metrics: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    histograms: Mapping[str, Sequence[float]] = field(default_factory=dict)
    sampling: bool = True
    stop_reason: str = ""

    @property
    def gradient_steps(self) -> int:
        """The most that any policy has made on its replay memory so far; 0 if none has one."""
        return max((int(one.learning.get("gradient_steps") or 0) for one in self.policies.values()), default=0)

    def row(self) -> dict[str, Any]:
        """Flat, JSON-ready: ``policies/main/kl``; what depends on the clock stands under ``time/``."""
        row: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("iteration", "env_steps", "episodes", "return_mean", "return_min", "return_max", "length_mean",
                         "running_length", "sampling", "exact")
        }  # fmt: skip
        row |= {f"agents/{name}/return_mean": value for name, value in self.agents.items()}
        for name, policy in self.policies.items():
            own = {
                key: getattr(policy, key)
                for key in ("return_mean", "episodes", "decisions", "valid_rows", "cut_fragments")
            }
            row |= {f"policies/{name}/{key}": value for key, value in {**own, **policy.learning}.items()}
        row |= {f"counters/{name}": count for name, count in self.counters.items()}
        for name, values in self.metrics.items():
            row |= {f"metrics/{name}/{what}": value for what, value in zip(("min", "mean", "max"), values, strict=True)}
        if self.evaluation is not None:
            seen = self.evaluation
            row |= {
                "evaluation/return_mean": seen.return_mean,
                "evaluation/return_low": seen.return_interval[0],
                "evaluation/return_high": seen.return_interval[1],
                "evaluation/episodes": seen.episodes,
                "evaluation/length_mean": seen.length_mean,
            }
        row["time/seconds"] = round(self.seconds, 3)
        row["time/steps_per_second"] = round(self.steps_per_second, 1)
        return {name: _finite(value) for name, value in row.items()}


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


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


def interval(values: tuple[float, ...]) -> tuple[float, float]:
    """95 % confidence interval of the mean by Student's t; the mean itself twice for fewer than two values."""
    count = len(values)
    center = math.fsum(values) / count
    if count < 2:
        return center, center
    deviation = math.sqrt(math.fsum((value - center) ** 2 for value in values) / (count - 1))
    half = student_t(count - 1) * deviation / math.sqrt(count)
    return center - half, center + half


def student_t(freedom: int) -> float:
    """The 97.5 % point of Student's t, by Hill's expansion of the normal one; exact for 1 and 2 degrees of freedom."""
    if freedom == 1:
        return 12.706204736
    if freedom == 2:
        return 4.302652730
    z, n = 1.959963985, float(freedom)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / n ** (power + 1) for power, term in enumerate(terms))
