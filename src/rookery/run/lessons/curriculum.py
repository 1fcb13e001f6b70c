"""Curriculum: lessons of environment parameters, which follow each other as a run learns.

A course is the lessons of one parameter. After each iteration its measure is compared with the threshold of the lesson
(`Curriculum.update`); a new lesson is distributed together with weights, and applies from the next episode of a lane.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from rookery.core.errors import ConfigError, nearest
from rookery.core.settings.fields import Settings, show
from rookery.core.settings.reach import ARGUMENTS, CountFromZero, Few, Label
from rookery.core.state import Stateful
from rookery.report.results import WINDOW, IterationResult, LessonResult
from rookery.rollout.hooks import EpisodeResult

RETURN = "return"
"""Measure: mean return of episodes that began in the lesson."""

GROUP_RETURN = "group_return"
"""Measure: mean group return of the groups' episodes that began in the lesson."""

NO_GROUPS: Mapping[str, Sequence[str]] = MappingProxyType({})

PROGRESS = "progress"
"""Measure: the share of `stop.env_steps` that has been sampled."""

OLD_SHARE = 0.25
"""Weight of the previous value in a smoothed measure."""

LONG = 10
"""Multiple of `min_episodes` after which a note is shown if a lesson has not ended."""


@dataclass(frozen=True)
class WidenConfig(Settings):
    """Range that grows in stages, one lesson per stage."""

    start: tuple[float, float]
    """Lowest and highest value in the first lesson."""
    end: tuple[float, float]
    """Lowest and highest value in the last lesson."""
    stages: Few = 5
    """Number of lessons, including the first and the last."""

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            low, high = getattr(self, name)
            if low > high:
                raise ValueError(f"{name} = [{low:g}, {high:g}]: the first must not be above the second")
        if self.stages < 2:
            raise ValueError("stages = 1: a range widens in 2 stages or more")

    def values(self) -> list[Any]:
        """Returns the sampler of each lesson, as in a configuration."""
        found = []
        for stage in range(self.stages):
            part = stage / (self.stages - 1)
            low, high = (a + (b - a) * part for a, b in zip(self.start, self.end, strict=True))
            found.append({"sampler": "uniform", "low": low, "high": high})
        return found


@dataclass(frozen=True)
class LessonConfig(Settings):
    """One lesson; settings that are missing here are those of the course."""

    value: Annotated[Any, ARGUMENTS]
    """A value, or a sampler, ``{sampler: uniform, low: 0, high: 1}``."""
    measure: Label | None = None
    """The measure that ends the lesson."""
    of_policy: Label | None = None
    """Policy whose episodes count."""
    threshold: float | None = None
    """Value of the measure that ends the lesson."""
    back: float | None = None
    """Value of the measure that returns to the previous lesson."""
    min_episodes: CountFromZero | None = None
    """Episodes of the lesson that must have ended before it can end."""
    smoothing: bool | None = None
    """Whether the measure is smoothed."""
    require_reset: bool | None = None
    """Whether running episodes are abandoned when the lesson begins."""


@dataclass(frozen=True)
class CourseConfig(Settings):
    """The lessons of a parameter."""

    lessons: tuple[Annotated[Any, ARGUMENTS], ...] = ()
    """The lessons, each a mapping with ``value`` and any settings that differ from the course; or a value only."""
    widen: WidenConfig | None = None
    """A range that grows, instead of `lessons`."""
    measure: Label = RETURN
    """Measure that ends lessons: ``return`` (mean over the latest `min_episodes` episodes that began in the lesson),
    ``group_return`` (the same of the rewards of groups; with `of_policy`, of groups with an agent of that policy),
    ``progress`` (share of `stop.env_steps`), or any column of `metrics.jsonl`, such as ``evaluation/return_mean``.
    """
    of_policy: Label | None = None
    """Policy whose agents' episodes count, each by itself; none = whole episodes, with the sum over all agents."""
    threshold: float | None = None
    """Value of the measure at which a lesson ends."""
    back: float | None = None
    """Value of the measure at which the previous lesson returns; none = never."""
    better: Literal["above", "below"] = "above"
    """Side of the threshold that ends a lesson; `back` is on the other side."""
    min_episodes: CountFromZero = 100
    """Episodes of a lesson that must have ended before it can end."""
    smoothing: bool = True
    """Whether a measure is one quarter of its previous value and three quarters of the new one; not for progress."""
    require_reset: bool = False
    """Whether running episodes are abandoned when a lesson begins; else they end in their old lesson."""

    def __post_init__(self) -> None:
        if bool(self.lessons) == (self.widen is not None):
            raise ValueError("a course has either lessons or widen")
        plans = self.plans()
        for number, plan in enumerate(plans[:-1]):
            if plan.threshold is None:
                raise ValueError(f"lesson {number + 1} has no threshold, so it would never end")
            reach = 1.0 if plan.measure == PROGRESS else math.inf
            if plan.threshold > reach:
                raise ValueError(
                    f"lesson {number + 1} ends at {plan.measure} {plan.threshold:g}, which can never be reached: "
                    f"{plan.measure} goes from 0 to 1"
                )
        for number, plan in enumerate(plans):
            if plan.back is None:
                continue
            if plan.threshold is not None and (plan.back - plan.threshold) * self.sign >= 0:
                side = "lower" if self.sign > 0 else "higher"
                raise ValueError(
                    f"lesson {number + 1} goes back at {plan.back:g} and ends at {plan.threshold:g}: "
                    f"back must be {side}, or the lesson would end both ways at once"
                )

    @property
    def sign(self) -> int:
        """1 where larger measures are better, else -1."""
        return 1 if self.better == "above" else -1

    def plans(self) -> list[LessonConfig]:
        """Returns the lessons with all their settings.

        Raises:
            ValueError: If a lesson is not a value or a mapping of its settings.
        """
        entries = self.widen.values() if self.widen is not None else list(self.lessons)
        found = []
        for number, entry in enumerate(entries):
            lesson = entry
            if not isinstance(entry, LessonConfig):
                is_lesson = isinstance(entry, Mapping) and "sampler" not in entry
                try:
                    lesson = LessonConfig(**(entry if is_lesson else {"value": entry}))
                except ConfigError as error:
                    lines = (line.removeprefix("code: LessonConfig.") for line in error.problems)
                    raise ValueError(f"lesson {number + 1}: {'; '.join(lines)}") from None
            common = {name: getattr(self, name) for name in LessonConfig.__dataclass_fields__ if name != "value"}
            given = {name: value for name, value in vars(lesson).items() if name in common and value is not None}
            found.append(LessonConfig(value=lesson.value, **{**common, **given}))
        return found

    def values(self) -> list[Any]:
        """Returns the value or sampler of each lesson."""
        return [plan.value for plan in self.plans()]


class Course(Stateful):
    """Progress of a run in the lessons of one parameter.

    Args:
        name: The parameter's name.
        cfg: Its lessons.
    """

    saved = ("lesson", "episodes", "returns", "smoothed", "seen", "told")
    fixed = ("name", "cfg", "plans")

    def __init__(self, name: str, cfg: CourseConfig) -> None:
        self.name, self.cfg, self.plans = name, cfg, cfg.plans()
        self.lesson = 0
        """Index of the lesson, from 0."""
        self.told = False
        self._enter(0)

    def _enter(self, lesson: int) -> None:
        self.lesson = lesson
        self.episodes = 0
        """Episodes that began in the lesson and have ended."""
        self.returns: deque[float] = deque(maxlen=self.plan.min_episodes or WINDOW)
        self.smoothed: float | None = None
        self.seen: list[float] = []
        """Lowest and highest value of the measure in this lesson; empty before there is one."""
        self.told = False

    @property
    def plan(self) -> LessonConfig:
        """The current lesson."""
        return self.plans[self.lesson]

    @property
    def _min_episodes(self) -> int:
        return self.plan.min_episodes or 0

    def on_episodes(self, finished: Iterable[EpisodeResult], members: Mapping[str, Sequence[str]] = NO_GROUPS) -> None:
        """Counts finished episodes; those that began in another lesson do not count.

        Args:
            finished: The episodes.
            members: Agents of each group.
        """
        for episode in finished:
            if episode.lessons.get(self.name) != self.lesson:
                continue
            policy = self.plan.of_policy
            earned = [episode.total]
            if self.plan.measure == GROUP_RETURN:
                own = {agent for agent, by in episode.policies.items() if policy in (None, by)}
                earned = [value for group, value in episode.groups.items() if own.intersection(members.get(group, ()))]
            elif policy is not None:
                earned = [value for agent, value in episode.agents.items() if episode.policies[agent] == policy]
            self.episodes += len(earned)
            self.returns.extend(earned)

    def assess(self, row: Mapping[str, Any], horizon: float | None) -> int:
        """Compares the measure with the thresholds of the lesson; returns the change of its index.

        Args:
            row: Columns of the iteration.
            horizon: Env steps of the whole run; None if not known.

        Returns:
            1 for the next lesson, -1 for the previous one, else 0.

        Raises:
            ConfigError: If the run does not have the measure.
        """
        value = self._measured(row, horizon)
        if value is None or self.episodes < self._min_episodes:
            return 0
        if self.plan.smoothing and self.plan.measure != PROGRESS and self.smoothed is not None:
            value = OLD_SHARE * self.smoothed + (1.0 - OLD_SHARE) * value
        self.smoothed = value
        self.seen = [min([value, *self.seen]), max([value, *self.seen])]
        plan, sign = self.plan, self.cfg.sign
        if self.lesson + 1 < len(self.plans) and plan.threshold is not None and value * sign >= plan.threshold * sign:
            return 1
        if self.lesson and plan.back is not None and value * sign <= plan.back * sign:
            return -1
        return 0

    def _measured(self, row: Mapping[str, Any], horizon: float | None) -> float | None:
        """Returns the current measure, not smoothed; None if there is none yet."""
        measure = (self.plan.measure or "").replace(".", "/")
        if measure in (RETURN, GROUP_RETURN):
            return math.fsum(self.returns) / len(self.returns) if self.returns else None
        if measure == PROGRESS:
            if horizon is None:
                raise ConfigError(f"curriculum.{self.name}.measure = progress: this run has no end; set stop.env_steps")
            return float(row["env_steps"]) / horizon
        value = row.get(measure)
        if value is None or isinstance(value, bool):
            return None
        if not isinstance(value, int | float):
            raise ConfigError(f"curriculum.{self.name}.measure = {measure}: {show(value)} is not a number")
        return float(value)

    def move(self, by: int) -> str:
        """Moves to another lesson; returns a note."""
        value, old = self.smoothed, self.plan
        limit = old.threshold if by > 0 else old.back
        before, episodes = self.lesson + 1, self.episodes
        self._enter(self.lesson + by)
        why = "reached" if by > 0 else "fell to" if self.cfg.sign > 0 else "rose to"
        return (
            f"{self.name}: lesson {before} of {len(self.plans)} is over after {episodes} episodes, {old.measure} "
            f"{_short(value)} {why} {_short(limit)}; lesson {self.lesson + 1}: {show(self.plan.value)}"
        )

    def stuck(self) -> str:
        """Returns a note that the lesson has lasted for long, with the range of its measure; empty if it has not."""
        is_last = self.lesson + 1 == len(self.plans)
        if (self.plan.measure or "").rpartition("/")[2] in ("progress", "decisions"):  # which can only rise
            return ""
        if self.told or is_last or not self.seen or self.episodes < LONG * max(self._min_episodes, WINDOW // LONG):
            return ""
        self.told = True
        low, high = self.seen
        return (
            f"curriculum.{self.name}: lesson {self.lesson + 1} of {len(self.plans)} ends at {self.plan.measure} "
            f"{_short(self.plan.threshold)}, and so far, in {self.episodes:,} episodes, it was from {_short(low)} to "
            f"{_short(high)}: if it can never be reached, lower the threshold or make the lesson easier"
        )

    def standing(self, row: Mapping[str, Any], horizon: float | None) -> LessonResult:
        """Returns the progress of the course, for results."""
        value = self.smoothed if self.episodes >= self._min_episodes else None
        value = self._measured(row, horizon) if value is None else value
        is_last = self.lesson + 1 == len(self.plans)
        return LessonResult(
            lesson=self.lesson + 1,
            lessons=len(self.plans),
            measure=self.plan.measure or "",
            value=value,
            threshold=None if is_last else self.plan.threshold,
            episodes=self.episodes,
            min_episodes=self._min_episodes,
        )


class Curriculum(Stateful):
    """The courses of a run.

    Args:
        courses: Lessons of each parameter.
    """

    saved: ClassVar[tuple[str, ...]] = ("courses",)
    fixed: ClassVar[tuple[str, ...]] = ()

    def __init__(self, courses: Mapping[str, CourseConfig]) -> None:
        self.courses = {name: Course(name, cfg) for name, cfg in courses.items()}

    @property
    def lessons(self) -> dict[str, int]:
        """Index of the lesson of each parameter, from 0."""
        return {name: course.lesson for name, course in self.courses.items()}

    def on_episodes(self, finished: Iterable[EpisodeResult], members: Mapping[str, Sequence[str]] = NO_GROUPS) -> None:
        """Counts finished episodes; `members` are the agents of each group."""
        for course in self.courses.values():
            course.on_episodes(finished, members)

    def update(
        self,
        result: IterationResult,
        horizon: float | None,
        note: Callable[[str], None],
        distribute: Callable[[dict[str, int], bool], None],
    ) -> dict[str, LessonResult]:
        """Moves all courses after an iteration.

        Args:
            result: The iteration.
            horizon: Env steps of the whole run; None if not known.
            note: Called with notes for the user.
            distribute: Called with the lessons of all parameters if any has changed, and whether running episodes are
                abandoned.

        Returns:
            The progress of each course.

        Raises:
            ConfigError: If a measure is not a column of this run.
        """
        row = result.row() | {f"curriculum/{name}/lesson": course.lesson + 1 for name, course in self.courses.items()}
        self._check_measures(row)
        moved, restart = False, False
        standing = {}
        for name, course in self.courses.items():
            by = course.assess(row, horizon)
            if by:
                note(course.move(by))
                moved, restart = True, restart or bool(course.plan.require_reset)
            elif line := course.stuck():
                note(line)
            standing[name] = course.standing(row, horizon)
        if moved:
            distribute(self.lessons, restart)
        return standing

    def _check_measures(self, row: Mapping[str, Any]) -> None:
        """Refuses measures that are not columns; those of evaluations and callbacks may appear later."""
        for name, course in self.courses.items():
            for plan in course.plans[:-1]:
                measure = (plan.measure or "").replace(".", "/")
                later = measure.startswith(("evaluation/", "metrics/", "agents/", "policies/", "self_play/"))
                if measure not in (RETURN, GROUP_RETURN, PROGRESS) and measure not in row and not later:
                    known = [RETURN, GROUP_RETURN, PROGRESS, *row]
                    raise ConfigError(
                        f"curriculum.{name}.measure = {measure!r}: this run has no such column"
                        f"{nearest(measure, known)}; there are {', '.join(known)}"
                    )


def _short(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"
