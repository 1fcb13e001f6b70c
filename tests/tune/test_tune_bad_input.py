"""Mistakes of users: each is refused with the thing, its value and the way out, before anything is written if it can be
known then; where one trial is wrong, the others continue."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from climbing import Careless, Climb, climb, history_of

from rookery import ConfigError, ModelConfig, PPOConfig, tune
from rookery.cli.main import main
from rookery.core.io.files import FileError
from rookery.core.settings.layers import Layer, yaml_layer
from rookery.tune.checks import check_columns
from rookery.tune.journal import FILE
from rookery.tune.scheduler import Scheduler, SchedulerConfig
from rookery.tune.settings import TuneConfig

SMALL = PPOConfig(model=ModelConfig(hidden=(8,)), fragment_length=16, epochs=1, minibatch_size=32)


def train(folder, algorithm=SMALL, env="CartPole-v1", **settings):
    given = {"num_envs": 2, "stop": {"iterations": 1}, "seed": 5, "place": "here", "console": "quiet"}
    return tune.run(env, algorithm, folder=folder, **(given | settings))


def statuses(folder):
    return [trial.status.value for trial in history_of(folder).trials.values()]


@pytest.fixture
def shell(tmp_path, monkeypatch, capsys):
    """Runs ``rookery tune`` in an empty folder; gives its exit code, and all it printed."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["rookery", "tune", *words])
        monkeypatch.setattr(sys, "path", list(sys.path))
        with pytest.raises(SystemExit) as left:
            main()
        return left.value.code, "".join(capsys.readouterr())

    return run


# --- refused before anything is written -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"env": "CartPol-v1"}, "'CartPol-v1' is not a Gymnasium id; did you mean 'CartPole-v1'"),
        ({"env": tune.grid_search(["CartPole-v1", "CartPol-v1"])}, "grid_search value 2 of env.name: .*CartPole-v1"),
        ({"env": 3}, "env is an instance of int"),
        ({"metric": "return_men"}, "tune.metric = return_men.*did you mean 'return_mean'"),
        ({"metric": ()}, r"tune: metric = \(\): must name a column"),
        ({"metric": ""}, "tune: metric = ''"),
        ({"metric": ("return_mean", "return_mean")}, "tune: metric = .* twice"),
        ({"stop": {"return_men": 3}}, "stop.return_men: .*did you mean 'return_mean'"),
        ({"stop": 5}, "stop = 5: must be criteria"),
        ({"scheduler": tune.ASHAConfig(max_time=9, time="env_step")}, "tune.scheduler.time = env_step.*'env_steps'"),
        ({"scheduler": 3}, "scheduler = 3: this is not a scheduler: give one of fifo"),
        ({"scheduler": tune.ASHAConfig}, r"scheduler = ASHAConfig: this is a class; write ASHAConfig\(...\)"),
        ({"search": "asha"}, "tune.search = asha: this is not a search; there are random, optuna"),
        ({"search": 3}, "search = 3: this is not a search"),
        ({"num_samples": tune.choice([1, 2])}, "tune.num_samples = .*settings of the experiment cannot be tuned"),
        ({"preset": 3}, "preset = 3: must be"),
        ({"folder": 3}, "folder = 3: must be a path"),
        ({"points": [{"algorithm.lrr": 1e-3}]}, r"points\[0\]: algorithm.lrr = 0.001: there is no such parameter"),
    ],
)
def test_mistakes_of_trainings_are_refused_and_nothing_is_written(tmp_path, settings, said):
    given = {"algorithm": SMALL.replace(lr=tune.uniform(1e-4, 1e-3)), "folder": tmp_path / "x"} | settings
    with pytest.raises(ConfigError, match=said):
        train(**given)
    assert not (tmp_path / "x").exists()


class StepTakesMore(Climb):
    def step(self, more):
        return {}


class SetupTakesNothing(Climb):
    def setup(self):
        pass


async def coroutine(config):
    return 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"trainable": StepTakesMore}, r"its step must be step\(self\)"),
        ({"trainable": SetupTakesNothing}, r"its setup must be setup\(self, config\)"),
        ({"trainable": coroutine}, "coroutine: the function is async"),
        (
            {"trainable": Careless, "scheduler": tune.PBTConfig(interval=2)},
            "Careless: this class cannot be saved.*PBT",
        ),
        ({"config": None}, "config = None: must be a mapping"),
        ({"config": "x"}, "config = 'x': must be a mapping"),
        ({"config": tune.uniform(0, 1)}, r"config = uniform\(0.0, 1.0\): must be a mapping"),
        ({"stop": [4]}, r"stop = \[4\]: must be criteria"),
        ({"stop": {"height": float("nan")}}, "stop.height = nan: must be a finite number"),
        ({"stop": {"iteration": tune.choice([1, 2])}}, "stop.iteration = choice.*must be a finite number"),
        ({"config": {"x": tune.uniform(0, 1), "s": 1}, "points": [{"s": 2}]}, r"points\[0\]: s = 2"),
    ],
)
def test_mistakes_of_trainables_are_refused_and_nothing_is_written(tmp_path, settings, said):
    with pytest.raises(ConfigError, match=said):
        climb(tmp_path / "x", **settings)
    assert not (tmp_path / "x").exists()


def test_a_file_that_names_a_trainable_is_told_how_to_begin_and_go_on(tmp_path):
    climb(tmp_path / "x", num_samples=1)
    with pytest.raises(ConfigError, match=r"experiment.yaml:2: trainable = .*tune.run\(trainable=...\)"):
        tune.run(config=str(tmp_path / "x" / "experiment.yaml"), folder=tmp_path / "y")


def test_a_section_tune_without_anything_in_it_is_as_good_as_none(tmp_path):
    (tmp_path / "spec.yaml").write_text("tune:\nstop: {iterations: 1}\n")
    train(tmp_path / "x", config=[yaml_layer(tmp_path / "spec.yaml")], stop=None)
    assert statuses(tmp_path / "x") == ["TERMINATED"]


def test_metrics_whose_names_depend_on_settings_are_left_to_the_trials(tmp_path):
    train(tmp_path / "x", metric="policies.main.kl", stop={"policies/main/kl": 9, "iterations": 1})
    assert history_of(tmp_path / "x").trials["00000"].row["policies.main.kl"] is not None


# --- folders ----------------------------------------------------------------------------------------------------------


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "x").write_text("dear all")
    with pytest.raises(ConfigError, match="is a file; choose another folder"):
        climb(tmp_path / "x")
    assert (tmp_path / "x").read_text() == "dear all"


def test_trials_may_change_the_working_directory(tmp_path, monkeypatch):
    def wanders(config):
        os.chdir("/")
        return {"height": config["x"]}

    monkeypatch.chdir(tmp_path)
    analysis = climb("x", wanders, stop=None)
    assert statuses(tmp_path / "x") == ["TERMINATED"] * 4
    assert len(analysis.trials) == 4


def test_an_experiment_that_was_killed_before_it_began_may_simply_be_started_again(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / FILE).touch()
    climb(tmp_path / "x")
    assert statuses(tmp_path / "x") == ["TERMINATED"] * 4


def test_parameters_may_have_any_names_and_values(tmp_path):
    odd = {
        "x": 0.5,
        "a/b\nc": tune.choice(["../" * 80]),
        "..": tune.choice([".."]),
        "ü.é": tune.grid_search(["ß", "☃"]),
    }
    climb(tmp_path / "x", config={"x": 0.5, **odd}, num_samples=1)
    assert statuses(tmp_path / "x") == ["TERMINATED"] * 2
    assert all(folder.parent == tmp_path / "x" / "trials" for folder in (tmp_path / "x").glob("trials/*"))


# --- journals and trials that were damaged ----------------------------------------------------------------------------


def damage(folder, number, *lines):
    """Puts other lines in the place of line `number` of a finished journal."""
    climb(folder, num_samples=2)
    kept = (folder / FILE).read_text().splitlines()
    kept[number - 1 : number] = lines
    (folder / FILE).write_text("".join(f"{line}\n" for line in kept))


@pytest.mark.parametrize(
    ("number", "lines", "said"),
    [
        (2, [], r"journal.jsonl:2: the record does not follow from the lines before"),
        (4, ['{"kind": "result"}'], r"journal.jsonl:4: the record does not follow"),
        (4, ["garbage"], r"journal.jsonl:4: the line is not a record"),
        (1, [], r"journal.jsonl:1: the first record is not an experiment"),
        (1, ['{"kind": "experiment", "version": 1}'], r"journal.jsonl:1: the record lacks job, seed, space"),
        (1, ['{"kind": "experiment", "version": 9}'], r"its format is 9, this Rookery reads 1"),
    ],
)
def test_a_damaged_journal_is_refused_with_the_line(tmp_path, number, lines, said):
    damage(tmp_path / "x", number, *lines)
    before = (tmp_path / "x" / FILE).read_bytes()
    with pytest.raises(FileError, match=said):
        climb(tmp_path / "x", num_samples=2, resume=True)
    assert (tmp_path / "x" / FILE).read_bytes() == before


def test_a_trial_whose_folder_was_deleted_begins_anew(tmp_path):
    climb(tmp_path / "x", num_samples=2)
    lines = (tmp_path / "x" / FILE).read_text().splitlines(keepends=True)
    (tmp_path / "x" / FILE).write_text("".join(lines[:5]))  # in the middle of the first trial
    (place,) = (tmp_path / "x").glob("trials/00000*")
    for file in place.rglob("*"):
        if file.is_file():
            file.unlink()
    climb(tmp_path / "x", num_samples=2, resume=True)
    assert statuses(tmp_path / "x") == ["TERMINATED"] * 2
    assert json.loads((place / "params.json").read_text())["trial"] == "00000"


# --- one trial is wrong, the others continue --------------------------------------------------------------------------


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class Own(BaseException):
    pass


@pytest.mark.parametrize("error", [SystemExit(3), Own("gone"), GeneratorExit(), Mute()])
def test_whatever_a_trial_raises_the_others_go_on(tmp_path, error):
    class Raises(Climb):
        def step(self):
            if self.x > 0.5:
                raise error
            return super().step()

    climb(tmp_path / "x", Raises, config={"x": tune.grid_search([0.1, 0.9, 0.2])}, num_samples=1)
    assert statuses(tmp_path / "x") == ["TERMINATED", "ERROR", "TERMINATED"]
    assert type(error).__name__ in history_of(tmp_path / "x").trials["00001"].reason


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ((1, 2, 3), r"yielded \(1, 2, 3\): yield a number, a row, or a row and the folder"),
        (({"height": 1}, "nowhere"), "checkpoint = 'nowhere' is not a folder"),
        ([1], "height is a list|score is a list"),
    ],
)
def test_what_a_generator_may_not_yield_is_told(tmp_path, item, said):
    def yields(config):
        yield item

    climb(tmp_path / "x", yields, num_samples=1)
    (trial,) = history_of(tmp_path / "x").trials.values()
    assert trial.status.value == "ERROR"
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(trial.reason)


def test_a_number_beyond_all_floats_is_none(tmp_path):
    climb(tmp_path / "x", lambda config: {"height": 10**400}, num_samples=1)
    (trial,) = history_of(tmp_path / "x").trials.values()
    assert (trial.status.value, trial.row["height"]) == ("TERMINATED", None)


def test_an_exploration_that_raises_is_named_with_what_it_was_given(tmp_path):
    pbt = tune.PBTConfig(interval=2, quantile=0.5, explore=lambda params: params["y"])
    with pytest.raises(ConfigError, match=r"scheduler.explore = .*raised KeyError: 'y'; its argument was \{'x'"):
        climb(tmp_path / "x", scheduler=pbt)


def test_a_function_without_checkpoints_in_a_population_is_told_what_is_missing(tmp_path):
    def forgetful(config):
        for height in range(8):
            yield {"height": height * config["x"]}

    with pytest.raises(FileError, match=r"no checkpoint.*tune.report\(..., checkpoint=folder\)"):
        climb(tmp_path / "x", forgetful, scheduler=tune.PBTConfig(interval=2, quantile=0.5))


class Strict(Scheduler):
    def on_result(self, trial, time, score):
        return {}


def test_an_own_scheduler_may_be_an_object(tmp_path):
    climb(tmp_path / "x", scheduler=Strict(SchedulerConfig(), {}, None), num_samples=1)
    assert statuses(tmp_path / "x") == ["TERMINATED"]


# --- at the shell -----------------------------------------------------------------------------------------------------

BREAKS = """
import gymnasium
class Breaks(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)
    def __init__(self, bad=True):
        if bad:
            raise OSError("no such robot")
"""


def test_an_experiment_of_which_all_trials_fail_ends_with_1(tmp_path, shell):
    (tmp_path / "mine.py").write_text(BREAKS)
    code, said = shell("mine:Breaks", "--stop", "iterations=1", "--place", "here", "--quiet")
    assert code == 1
    assert "1 of 1 trials failed; 00000 with: " in said
    assert "no such robot" in said
    assert "Traceback" not in said


def test_mistakes_at_the_shell_end_with_2_and_say_where(tmp_path, shell):
    (tmp_path / "spec.yaml").write_text("env: {name: CartPole-v1}\nalgorithm: {lr: {logunifrom: [1e-4, 1e-3]}}\n")
    code, said = shell("spec.yaml")
    assert (code, said) == (
        2,
        "error: spec.yaml:2: algorithm.lr = {'logunifrom': [0.0001, 0.001]}: there is no domain 'logunifrom'; did you "
        "mean 'loguniform'?\n",
    )
    assert [path.name for path in Path(tmp_path).iterdir()] == ["spec.yaml"]


def test_a_layer_without_a_file_says_its_source():
    with pytest.raises(ConfigError, match="command line: tune.mode = .*settings of the experiment cannot be tuned"):
        train(None, config=[Layer("command line", {"tune.mode": {"choice": ["max"]}})])


def test_columns_of_self_play_and_curricula_may_be_the_metric():
    columns = ["iteration", "return_mean"]
    for name in ("self_play/main/rating", "curriculum/wall/lesson", "policies/main/return_mean"):
        check_columns(TuneConfig(metric=name), columns)
    with pytest.raises(ConfigError, match=r"self_pla/main/rating: the trials report no such number.*self_play/"):
        check_columns(TuneConfig(metric="self_pla/main/rating"), columns)
