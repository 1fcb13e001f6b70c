"""Results of iterations and evaluations as plain data, and their statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rookery.core.errors import nearest
from rookery.core.settings.hints import ForeignNames
from rookery.report.finding import Finding
from rookery.report.shown import ShownAsFacts

WINDOW = 100
"""Number of latest finished episodes in a training mean."""

Number = float | int | None


@dataclass(frozen=True)
class PolicyResult:
    """Result of one policy in an iteration. Metrics of its algorithm are attributes too:
    ``result.policies["main"].kl``.

    Attributes:
        return_mean: Mean return of the policy's last 100 agent episodes, each agent counted separately; None before the
            first one ends.
        episodes: Agent episodes of the policy that are finished so far.
        decisions: Number of decisions that the policy has learned from so far.
        valid_rows: Number of decisions in the last update.
        cut_fragments: Number of fragments in the last update below full length.
        learning: Metrics of the algorithm, means over the updates of the iteration; empty for a frozen policy.
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


class PolicyReturn(float):
    """Mean return of a policy's agents in an evaluation: a float with the attributes of a result.

    Attributes:
        return_mean: The value itself.
        episodes: Number of agent episodes in the mean.
    """

    def __new__(cls, return_mean: float, episodes: int) -> PolicyReturn:
        """Returns a new value."""
        return super().__new__(cls, return_mean)

    def __init__(self, return_mean: float, episodes: int) -> None:
        self.return_mean, self.episodes = return_mean, episodes

    def __reduce__(self) -> tuple[type[PolicyReturn], tuple[float, int]]:
        """Returns the constructor and arguments for pickle."""
        return PolicyReturn, (self.return_mean, self.episodes)


@dataclass(frozen=True, repr=False)
class EvaluationResult(ShownAsFacts):
    """Result of an evaluation: episodes that measure policies and are not learned from.

    The return of an episode is the sum over its agents, and over its groups once each.

    Attributes:
        return_mean: Mean return of the episodes.
        return_interval: 95 % interval of `return_mean`, by `statistics.mean_interval`.
        return_min: Return of the worst episode.
        return_max: Return of the best episode.
        length_mean: Mean length of the episodes in environment steps.
        episodes: Number of episodes played.
        agents: Mean return of each agent, without group rewards.
        policies: Mean return of the agents of each policy, likewise; ``policies["main"].return_mean`` is the same.
        env_steps: Environment steps of training of the measured policies.
        deterministic: Whether the most likely actions were taken.
        returns: Return of each episode, in the order of their numbers.
        episodes_cut: Number of episodes that had not ended after `evaluation.max_episode_steps` and count as truncated
            there, with their return so far.
        groups: Mean group return of each group, if the environment names groups.
        success_rate: Share of episodes that ended at their goal (``info["is_success"]``); None without goals.
    """

    return_mean: float
    return_interval: tuple[float, float]
    return_min: float
    return_max: float
    length_mean: float
    episodes: int
    agents: Mapping[str, float]
    policies: Mapping[str, PolicyReturn]
    env_steps: int
    deterministic: bool
    returns: tuple[float, ...] = ()
    episodes_cut: int = 0
    groups: Mapping[str, float] = field(default_factory=dict)
    success_rate: float | None = None

    def _facts(self) -> dict[str, object]:
        low, high = self.return_interval
        means = {f"return of {name}": float(mean) for name, mean in self.policies.items() if len(self.policies) > 1}
        success = {} if self.success_rate is None else {"success rate": self.success_rate}
        return {"return": self.return_mean, "95 % interval": f"{low:.2f} to {high:.2f}", **means, **success,
                "episodes": self.episodes, "length": self.length_mean, "env steps": self.env_steps}  # fmt: skip


@dataclass(frozen=True)
class LessonResult:
    """Progress of a run in the lessons of an environment parameter.

    Attributes:
        lesson: Number of the current lesson, from 1.
        lessons: Number of lessons.
        measure: Name of the measure that ends the lesson.
        value: Value of the measure; None if there is none yet.
        threshold: Value that ends the lesson; None in the last lesson.
        episodes: Episodes that began in the lesson and have ended.
        min_episodes: Episodes that must have ended before the lesson can end.
    """

    lesson: int
    lessons: int
    measure: str
    value: float | None
    threshold: float | None
    episodes: int
    min_episodes: int

    def text(self) -> str:
        """Returns a line such as ``lesson 2 of 4: return 0.62 of 0.80, 74 of 100 episodes``."""
        parts = []
        if self.value is not None:
            goal = "" if self.threshold is None else f" of {self.threshold:.2f}"
            parts.append(f"{self.measure} {self.value:.2f}{goal}")
        if self.episodes < self.min_episodes and self.threshold is not None:
            parts.append(f"{self.episodes} of {self.min_episodes} episodes")
        else:
            parts.append(f"{self.episodes:,} episodes")
        return f"lesson {self.lesson} of {self.lessons}: {', '.join(parts)}"


@dataclass(frozen=True)
class SelfPlayResult:
    """Rating and scores of a policy in self-play.

    Attributes:
        rating: Elo rating.
        games: Games that it learned from, except those against itself.
        win_rate: Mean score in the latest 100 of them, a draw counting half; None before the first one.
        win_rate_latest: Mean score against the latest snapshot of its opponent, weighted towards late games; None
            before the first one.
        snapshots: Number of snapshots so far.
        learns: Whether it learns now.
        anchors: Mean score in the latest rating games against each anchor; None before the first ones.
    """

    rating: float
    games: int
    win_rate: float | None
    win_rate_latest: float | None
    snapshots: int
    learns: bool
    anchors: Mapping[str, float | None] = field(default_factory=dict)

    def row(self) -> dict[str, Any]:
        """Returns its columns without the policy's name."""
        own = {name: value for name, value in vars(self).items() if name != "anchors"}
        return own | {f"anchors/{name}": value for name, value in self.anchors.items()}

    def text(self) -> str:
        """Returns a line such as ``rating 1234, score 62 %, 3 snapshots``."""
        parts = [f"rating {self.rating:.0f}"]
        if self.win_rate is not None:
            parts.append(f"score {100 * self.win_rate:.0f} %")
        parts += [f"{100 * rate:.0f} % against {name}" for name, rate in self.anchors.items() if rate is not None]
        parts.append(f"{self.snapshots} snapshot{'' if self.snapshots == 1 else 's'}")
        return ", ".join(parts) + ("" if self.learns else ", waits")


@dataclass(frozen=True, repr=False)
class IterationResult(ShownAsFacts, ForeignNames):
    """Result of an iteration, and the state of the run after it.

    The window of the run is its last 100 finished training episodes; the return of an episode is the sum over its
    agents, and over its groups once each.

    Attributes:
        iteration: Number of the iteration, from 1.
        env_steps: Environment steps of the run so far.
        episodes: Episodes finished so far.
        return_mean: Mean return in the window; None before the first episode ends.
        return_min: Return of the worst episode in the window, or None.
        return_max: Return of the best episode in the window, or None.
        length_mean: Mean episode length in the window, in environment steps, or None.
        running_length: Mean length so far of the episodes that are still running, in environment steps.
        agents: Mean return of each agent in the window, without group rewards.
        policies: Result of each policy.
        evaluation: Result of the evaluation made in this iteration, or None.
        seconds: Seconds of training so far.
        steps_per_second: Environment steps a second in this iteration.
        exact: Whether the run would repeat bit for bit.
        counters: Events of the whole run that limit learning: ``finals_stale`` (truncated agents whose final
            observation is an older one, because it was not their turn), ``rewards_without_decision`` (rewards before an
            agent's first decision); of Unity players, how many exited, closed the connection or hung, and were
            replaced: ``players_exited``, ``players_closed``, ``players_hung``.
        metrics: Minimum, mean and maximum of each number that callbacks measured in the window.
        histograms: Values that callbacks collected in episodes that ended in this iteration.
        sampling: Whether the environment was stepped in this iteration.
        parameters: Minimum, mean and maximum of the sampled values of each environment parameter in the window.
        lessons: Progress in the lessons of each environment parameter that has lessons.
        groups: Mean group return of each group in the window, if the environment names groups.
        self_play: Rating and scores of each policy in self-play.
        reported: Statistics that the environment reported in this iteration: by name, their aggregation (``average``,
            ``most_recent``, ``sum``, ``histogram``) and the values.
        finished_policies: Number of policies that have learned from their full budget of decisions.
        finished_share: Their share of the learning policies that have agents.
        waits: Times of remote workers since this process began: seconds ``workers/wait``, ``workers/fetch`` and
            ``workers/join``, received ``workers/bytes``, and ``workers/idle/N``, the recent share of time in which
            worker N was idle.
        stop_reason: Reason why training ended here; empty if it continues.
        findings: Likely reasons why the training does not learn, the worst first.
        whole: Whether the iteration is complete; else training stopped during it, and it has no row.
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
    parameters: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    lessons: Mapping[str, LessonResult] = field(default_factory=dict)
    groups: Mapping[str, float] = field(default_factory=dict)
    self_play: Mapping[str, SelfPlayResult] = field(default_factory=dict)
    finished_policies: int = 0
    finished_share: float = 0.0
    reported: Mapping[str, tuple[str, Sequence[float]]] = field(default_factory=dict)
    waits: Mapping[str, float] = field(default_factory=dict)
    findings: Sequence[Finding] = ()
    whole: bool = True

    @property
    def score(self) -> float | None:
        """Score that selects the best checkpoint: the mean rating in self-play, else the evaluation, else training."""
        if self.self_play:
            return math.fsum(one.rating for one in self.self_play.values()) / len(self.self_play)
        return self.return_mean if self.evaluation is None else self.evaluation.return_mean

    @property
    def gradient_steps(self) -> int:
        """Largest number of gradient steps of any policy on its replay so far; 0 if no policy has a replay."""
        return max((int(policy.learning.get("gradient_steps") or 0) for policy in self.policies.values()), default=0)

    def _facts(self) -> dict[str, object]:
        measured = None if self.evaluation is None else self.evaluation.return_mean
        return {"iteration": self.iteration, "env steps": self.env_steps, "episodes": self.episodes,
                "return": self.return_mean, "evaluation": measured, "seconds": self.seconds,
                "stopped": self.stop_reason or None}  # fmt: skip

    def _details(self) -> dict[str, object]:
        several = len(self.policies) > 1
        means: dict[str, object] = {f"{name} return": one.return_mean for name, one in self.policies.items() if several}
        learned = [(name, key, value) for name, one in self.policies.items() for key, value in one.learning.items()]
        return means | {f"{name} {key}" if several else key: value for name, key, value in learned}

    def row(self) -> dict[str, Any]:
        """Returns the result as a flat, JSON-ready dict with keys such as ``policies/main/kl``.

        Values that depend on the clock are under ``time/``.
        """
        row: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("iteration", "env_steps", "episodes", "return_mean", "return_min", "return_max", "length_mean",
                         "running_length", "sampling", "exact")
        }  # fmt: skip
        row |= {f"agents/{name}/return_mean": value for name, value in self.agents.items()}
        row |= {f"groups/{name}/return_mean": value for name, value in self.groups.items()}
        for name, policy in self.policies.items():
            own = {key: value for key, value in vars(policy).items() if key != "learning"} | dict(policy.learning)
            row |= {f"policies/{name}/{key}": value for key, value in own.items()}
        row |= {f"counters/{name}": count for name, count in self.counters.items()}
        for name, values in self.metrics.items():
            row |= {f"metrics/{name}/{what}": value for what, value in zip(("min", "mean", "max"), values, strict=True)}
        row |= {f"metrics/{name}": together(how, numbers) for name, (how, numbers) in self.reported.items()}
        for name, values in self.parameters.items():
            what = zip(("min", "mean", "max"), values, strict=True)
            row |= {f"parameters/{name}/{statistic}": value for statistic, value in what}
        for name, lesson in self.lessons.items():
            row |= {
                f"curriculum/{name}/lesson": lesson.lesson,
                f"curriculum/{name}/value": lesson.value,
                f"curriculum/{name}/threshold": lesson.threshold,
                f"curriculum/{name}/episodes": lesson.episodes,
                f"curriculum/{name}/text": lesson.text(),
            }
        for name, standing in self.self_play.items():
            row |= {f"self_play/{name}/{key}": value for key, value in standing.row().items()}
        if self.evaluation is not None:
            row |= {
                "evaluation/return_mean": self.evaluation.return_mean,
                "evaluation/return_low": self.evaluation.return_interval[0],
                "evaluation/return_high": self.evaluation.return_interval[1],
                "evaluation/episodes": self.evaluation.episodes,
                "evaluation/episodes_cut": self.evaluation.episodes_cut,
                "evaluation/length_mean": self.evaluation.length_mean,
            }
            if self.evaluation.success_rate is not None:
                row["evaluation/success_rate"] = self.evaluation.success_rate
            means = self.evaluation.groups.items()
            row |= {f"evaluation/groups/{name}/return_mean": value for name, value in means}
        row["time/seconds"] = round(self.seconds, 3)
        row["time/steps_per_second"] = round(self.steps_per_second, 1)
        row |= {f"time/{name}": value for name, value in self.waits.items()}
        if self.findings:
            row["findings"] = [one.row() for one in self.findings]
        broken = {name for name, value in row.items() if isinstance(value, float) and not math.isfinite(value)}
        return row | dict.fromkeys(broken)


def together(how: str, numbers: Sequence[float]) -> float:
    """Returns the sum or mean of the values that an environment reported under a name."""
    total = math.fsum(numbers)
    return total if how == "sum" else total / len(numbers)
