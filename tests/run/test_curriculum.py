"""Curriculum: when lessons change, notes about them, and the lesson of an episode."""

import io
import json

import numpy as np
import pytest
from lived_in import Windy
from lives import FAST, digest, make
from rich.console import Console

from rookery import ConfigError, Trainer
from rookery.report.console import summary
from rookery.report.panel import Panel
from rookery.report.results import LessonResult
from rookery.rollout.hooks import EpisodeResult
from rookery.run.lessons.curriculum import CourseConfig, Curriculum


class Row:
    """A result of which only the row counts."""

    def __init__(self, **columns):
        self.columns = {"env_steps": 0, "return_mean": None, **columns}

    def row(self):
        return dict(self.columns)


def episodes(*returns, **lessons):
    return [EpisodeResult(0, 0, 10, total, {}, {}, lessons=lessons) for total in returns]


class Taught:
    """A curriculum of one course with what it says."""

    def __init__(self, **course):
        self.all = Curriculum({"mass": CourseConfig(**course)})
        self.notes, self.handed = [], []

    def judge(self, horizon=None, **columns):
        hand_out = lambda lessons, restart: self.handed.append((lessons["mass"], restart))  # noqa: E731
        return self.all.update(Row(**columns), horizon, self.notes.append, hand_out)["mass"]

    def hear(self, *returns, lesson=None):
        now = self.all.lessons["mass"] if lesson is None else lesson
        self.all.on_episodes(episodes(*returns, mass=now))


def test_a_lesson_ends_at_its_threshold_after_enough_episodes_of_its_own():
    taught = Taught(lessons=[1, 2, 3], threshold=10.0, min_episodes=3, smoothing=False)
    taught.hear(20.0, 20.0)
    assert taught.judge().text() == "lesson 1 of 3: return 20.00 of 10.00, 2 of 3 episodes"
    taught.hear(9.0)
    assert taught.judge().text() == "lesson 2 of 3: 0 of 3 episodes"
    assert taught.notes == ["mass: lesson 1 of 3 is over after 3 episodes, return 16.33 reached 10; lesson 2: 2"]
    taught.hear(99.0, 99.0, 99.0, 99.0, lesson=0)  # they began before
    assert taught.judge().lesson == 2
    taught.hear(0.0, 12.0, 12.0)
    assert taught.judge().lesson == 2
    taught.hear(12.0)  # the mean is that of the latest three
    assert taught.judge().lesson == 3
    taught.hear(12.0, 12.0, 12.0)
    assert taught.judge().text() == "lesson 3 of 3: return 12.00, 3 episodes"
    assert taught.handed == [(1, False), (2, False)]


def test_a_lesson_may_go_by_the_episodes_of_the_agents_of_one_policy():
    taught = Taught(lessons=[1, 2], threshold=5.0, min_episodes=4, smoothing=False, of_policy="red")
    agents, policies = {"a": 6.0, "b": 4.0, "c": -99.0}, {"a": "red", "b": "red", "c": "blue"}
    taught.all.on_episodes([EpisodeResult(0, 0, 10, -89.0, agents, policies, lessons={"mass": 0})])
    assert taught.judge().text() == "lesson 1 of 2: return 5.00 of 5.00, 2 of 4 episodes"
    taught.all.on_episodes([EpisodeResult(0, 1, 10, -89.0, agents, policies, lessons={"mass": 0})])
    assert taught.judge().lesson == 2


def test_a_lesson_may_go_by_the_rewards_of_groups():
    taught = Taught(lessons=[1, 2], threshold=5.0, min_episodes=2, smoothing=False, of_policy="red",
                    measure="group_return")  # fmt: skip
    policies, members = {"a": "red", "b": "red", "c": "blue"}, {"reds": ["a", "b"], "blues": ["c"]}
    for value in (4.0, 6.0):
        ended = EpisodeResult(0, 0, 10, 0.0, dict.fromkeys(policies, 99.0), policies, lessons={"mass": 0},
                              groups={"reds": value, "blues": -99.0})  # fmt: skip
        assert taught.judge().lesson == 1
        taught.all.on_episodes([ended], members)
    assert taught.judge().lesson == 2


def test_a_measure_is_smoothed_by_a_quarter_of_what_it_was_and_begins_anew_with_a_lesson():
    taught = Taught(lessons=[1, 2, 3], threshold=0.8, measure="evaluation.return_mean", min_episodes=0)
    assert taught.judge(**{"evaluation/return_mean": 0.0}).value == 0.0
    assert taught.judge(**{"evaluation/return_mean": None}).lesson == 1
    assert taught.judge(**{"evaluation/return_mean": 1.0}).value == 0.75
    assert taught.judge(**{"evaluation/return_mean": 1.0}).lesson == 2  # 0.25 * 0.75 + 0.75 * 1
    assert taught.judge(**{"evaluation/return_mean": 0.4}).value == pytest.approx(0.4)


def test_progress_is_the_share_of_the_budget_and_any_column_counts():
    taught = Taught(
        lessons=[
            {"value": 1, "measure": "progress", "threshold": 0.5},
            {"value": 2, "measure": "length_mean", "threshold": 30},
            3,
        ],
        min_episodes=0,
    )
    assert taught.judge(horizon=1000, env_steps=400, length_mean=99).lesson == 1
    assert taught.judge(horizon=1000, env_steps=500, length_mean=99).lesson == 2
    assert taught.judge(horizon=1000, env_steps=600, length_mean=99).lesson == 3
    with pytest.raises(ConfigError, match=r"curriculum.mass.measure = progress: .* set stop.env_steps"):
        Taught(lessons=[1, 2], threshold=0.5, measure="progress", min_episodes=0).judge()


def test_a_lesson_goes_back_and_lower_measures_may_be_the_better_ones():
    taught = Taught(lessons=[1, 2], threshold=10.0, back=2.0, min_episodes=1, smoothing=False)
    taught.hear(1.0)
    assert taught.judge().lesson == 1, "there is none before the first"
    taught.hear(11.0)
    assert taught.judge().lesson == 2
    taught.hear(1.0)
    assert taught.judge().lesson == 1
    assert "return 1 fell to 2; lesson 1: 1" in taught.notes[-1]
    falls = Taught(lessons=[1, 2], threshold=-5.0, back=5, better="below", min_episodes=1, smoothing=False)
    falls.hear(0.0)
    assert falls.judge().lesson == 1
    falls.hear(-6.0)
    assert falls.judge().lesson == 2
    falls.hear(6.0)
    assert falls.judge().lesson == 1


def test_a_range_widens_with_success():
    cfg = CourseConfig(widen={"start": [1.0, 1.0], "end": [0.5, 2.0], "stages": 3}, threshold=1.0)
    assert cfg.values() == [
        {"sampler": "uniform", "low": 1.0, "high": 1.0},
        {"sampler": "uniform", "low": 0.75, "high": 1.5},
        {"sampler": "uniform", "low": 0.5, "high": 2.0},
    ]


def test_a_run_refuses_lessons_of_unknown_parameters_values_and_measures():
    def refused(**course):
        with pytest.raises(ConfigError) as error, make(Windy, config={f"curriculum.{name}": course}) as trainer:
            trainer.train_iteration()
        return str(error.value)

    name = "wnid"
    assert "code: curriculum.wnid: Windy has no such parameter; did you mean 'wind'?" in refused(
        lessons=[0, 1], threshold=1
    )
    name = "wind"
    assert "code: curriculum.wind, lesson 2: 9 is not from -2 to 2" in refused(lessons=[0, 9], threshold=1)
    assert "curriculum.wind, lesson 1: {'sampler': 'no'}: sampler 'no' is unknown" in refused(
        lessons=[{"sampler": "no"}, 1], threshold=1
    )
    assert "curriculum.wind.measure = 'retrun_mean': this run has no such column; did you mean 'return_mean'?" in (
        refused(lessons=[0, 1], threshold=1, measure="retrun_mean")
    )


def test_a_lesson_that_is_never_reached_is_told_of_once_with_the_range_of_its_measure():
    taught = Taught(lessons=[1, 2], threshold=10.0, min_episodes=10, smoothing=False)
    for number in range(30):
        taught.hear(*[float(number % 5)] * 10)
        taught.judge()
    assert taught.notes == [
        "curriculum.mass: lesson 1 of 2 ends at return 10, and so far, in 100 episodes, it was from 0 to 4: if it can "
        "never be reached, lower the threshold or make the lesson easier"
    ]


@pytest.mark.parametrize(("measure", "expected"), [("policies/a/decisions", 0), ("length_mean", 1)])
def test_a_measure_that_can_only_rise_is_not_warned_of(measure, expected):
    taught = Taught(lessons=[1, 2], measure=measure, threshold=1000.0, min_episodes=10, smoothing=False)
    for number in range(30):
        taught.hear(*[1.0] * 10)
        taught.judge(**{measure: number})
    assert len(taught.notes) == expected


def test_lanes_have_a_new_lesson_from_their_next_episode_on(tmp_path):
    seen = []
    config = {"curriculum.wind": {"lessons": [0, 1, 2], "threshold": -1e9, "min_episodes": 2, "smoothing": False}}
    with make(Windy, tmp_path, config=config) as trainer:
        worker, lessons = trainer._pool.worker, [0]
        for _ in range(8):
            before = {lane: int(episode) for lane, episode in enumerate(worker.env.episode)}
            result = trainer.train_iteration()
            winds = [lane.env.wind for lane in worker.env._lanes]
            for lane, wind in enumerate(winds):
                index = int(worker.env.episode[lane])
                assert wind == worker.seeds.parameters(lane, index)["wind"]
                if index > before[lane] and len(lessons) > 1:
                    assert wind in lessons[-2:]
            lessons.append(result.lessons["wind"].lesson - 1)
            seen += winds
    assert {0, 1, 2} <= set(seen)
    row = json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[-1])
    assert row["curriculum/wind/lesson"] == 3
    assert row["curriculum/wind/text"].startswith("lesson 3 of 3: return ")
    assert " | wind lesson 3 of 3: return " in summary(result, {})
    panel, console = Panel("a run", {}), Console(width=100, record=True, file=io.StringIO())
    panel.update(result)
    console.print(panel.draw(console, trainer.timers, None))
    assert "wind lesson 3 of 3: return " in console.export_text()


def test_a_lesson_with_reset_begins_at_once_and_loses_no_decision():
    config = {"curriculum.wind": {"lessons": [0, 1], "threshold": -1e9, "min_episodes": 6, "require_reset": True}}
    with make(Windy, config=config) as trainer:
        worker = trainer._pool.worker
        while not (result := trainer.train_iteration()).lessons["wind"].lesson == 2:
            episode = worker.env.episode.copy()
        assert [lane.env.wind for lane in worker.env._lanes] == [1, 1, 1]
        assert (worker.env.episode > episode).all()
        assert not worker.lengths.any()
        trainer.train_iteration()
        decisions = trainer._decisions["main"] + sum(policy.store.complete for policy in worker.policies.values())
        assert decisions in range(worker.env_steps - worker.env.num_lanes, worker.env_steps + 1)
        assert result.exact


def test_where_a_course_stands_is_part_of_a_checkpoint(tmp_path):
    config = {"curriculum.wind": {"lessons": [0, 1, 2], "threshold": -1e9, "min_episodes": 2}}
    with make(Windy, config=config) as trainer:
        while trainer.train_iteration().lessons["wind"].lesson < 2:
            pass
        saved = trainer.save(tmp_path / "saved")
        with Trainer.load(saved) as again:
            assert again._curriculum.lessons == trainer._curriculum.lessons
            assert digest(again) == digest(trainer)
            for one in (trainer, again):
                one.train_iteration()
            assert digest(again) == digest(trainer)


def test_evaluations_play_the_last_lesson_unless_the_current_one_is_asked_for():
    course = {"lessons": [0, 2], "threshold": 1e9}
    played = {}
    for lesson in ("last", "current"):
        config = {"curriculum.wind": course, "evaluation.lesson": lesson}
        with make(Windy, config=config) as trainer:
            trainer.evaluate(3)
            played[lesson] = {lane.env.wind for lane in trainer._measure._env._lanes}
    assert played == {"last": {2}, "current": {0}}


def test_lessons_may_follow_other_lessons_and_are_all_shown():
    config = {
        "curriculum.wind": {"lessons": [0, 1], "threshold": -1e9, "min_episodes": 1},
        "curriculum.place": {
            "lessons": [0, 5], "measure": "curriculum/wind/lesson", "threshold": 2, "min_episodes": 0,
            "smoothing": False,
        },
    }  # fmt: skip
    with make(Windy, config=config) as trainer:
        lessons = []
        for _ in range(6):
            result = trainer.train_iteration()
            lessons.append(tuple(lesson.lesson for lesson in result.lessons.values()))
    moved = lessons.index((2, 1))
    assert lessons[moved + 1] == (2, 2)


def test_a_result_says_how_far_a_lesson_is_from_its_end():
    lesson = LessonResult(2, 4, "return", 0.62, 0.8, 74, 100)
    assert lesson.text() == "lesson 2 of 4: return 0.62 of 0.80, 74 of 100 episodes"


def test_settings_and_schema_know_courses():
    with Trainer(Windy, FAST, curriculum={"wind": {"lessons": [0, 1], "threshold": 1}}, num_envs=1) as trainer:
        assert trainer.config.curriculum["wind"].threshold == 1.0
        assert "curriculum.wind.threshold" in trainer.resolved.history
    assert np.isfinite(CourseConfig(lessons=[0, 1], threshold=1).plans()[0].threshold)
