"""tune.run and what stands around it, with trainables that take microseconds."""

import inspect
import json
import os
import random
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest

from messages import check_error
from rookery.core.errors import ConfigError
from rookery.core.seeding import Streams
from rookery_rllib.base import machine, registrations
from rookery_rllib.trainer.trial import session
from rookery_rllib.trainer.trial.resources import PlacementGroupFactory, Resources, SyncConfig, cpus_and_gpus
from rookery_rllib.trainer.trial.trainable import Trainable
from rookery_rllib.trainer.trial.tune_errors import TuneError
from rookery_rllib.tune import experiment, schedulers, search, space, stopper, tuner
from rookery_rllib.tune import trainables as registry
from rookery_rllib.tune.analysis import Analysis, ExperimentAnalysis
from rookery_rllib.tune.callback import Callback, LoggerCallback
from rookery_rllib.tune.reporters import CLIReporter


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path / "results"))
    machine.use_machine(local_mode=True, num_cpus=None)
    yield tmp_path / "results"
    machine.use_machine(local_mode=False, num_cpus=None)


class Climb(Trainable):
    """Its score grows by ``lr`` an iteration."""

    def setup(self, config):
        self.height, self.lr = 0.0, config.get("lr", 1.0)

    def step(self):
        self.height += self.lr
        return {"score": self.height, "timesteps_this_iter": 10, "nested": {"twice": 2 * self.height}}

    def save_checkpoint(self, folder):
        path = os.path.join(folder, f"checkpoint-{self.iteration}")
        Path(path).write_text(str(self.height))
        return path

    def load_checkpoint(self, checkpoint):
        self.height = float(Path(checkpoint).read_text())


def run(trainable=Climb, **arguments):
    return experiment.run(trainable, **{"verbose": 0, "stop": {"training_iteration": 3}, **arguments})


def configs(analysis):
    return [trial.config for trial in analysis.trials]


# --- search spaces ----------------------------------------------------------------------------------------------------


def test_samples_times_grids_are_tried_in_the_order_of_tune():
    grids = {"lr": space.grid_search([0.1, 0.2]), "model": {"size": space.grid_search([2000, 3000])}}
    analysis = run(config={**grids, "seed": space.randint(0, 10**6)}, num_samples=2)
    tried = [(config["lr"], config["model"]["size"]) for config in configs(analysis)]
    assert tried == [(0.1, 2000), (0.2, 2000), (0.1, 3000), (0.2, 3000)] * 2
    assert len({config["seed"] for config in configs(analysis)}) == 8


def test_domains_stand_anywhere():
    config = {
        "uniform": space.uniform(1, 2), "quniform": space.quniform(1, 2, 0.5), "loguniform": space.loguniform(1, 100),
        "qloguniform": space.qloguniform(1, 100, 1), "randint": space.randint(0, 3),
        "qrandint": space.qrandint(0, 9, 3),
        "lograndint": space.lograndint(1, 100), "qlograndint": space.qlograndint(2, 100, 2), "randn": space.randn(0, 1),
        "qrandn": space.qrandn(0, 1, 0.25), "choice": space.choice(["a", [1, 2]]),
        "list": [1, {"inside": space.uniform(5, 6)}], "kept": (1, "x"), 7: {"number": space.choice([1])},
        "double": space.sample_from(lambda spec: spec.config.uniform * 2),
        "triple": space.sample_from(lambda spec: spec["config"]["list"][1]["inside"] * 3),
        "drawn": space.sample_from(lambda: random.choice([3, 4])),
    }  # fmt: skip
    (made,) = configs(run(config=config))
    assert 1 <= made["uniform"] <= 2 and made["quniform"] in (1, 1.5, 2) and 1 <= made["loguniform"] <= 100
    assert made["qloguniform"] == round(made["qloguniform"]) and made["randint"] in (0, 1, 2)
    assert made["qrandint"] % 3 == 0 and made["lograndint"] in range(1, 100) and made["qlograndint"] % 2 == 0
    assert made["qrandn"] % 0.25 == 0 and made["choice"] in ("a", [1, 2])
    assert 5 <= made["list"][1]["inside"] <= 6 and made["kept"] == (1, "x") and made[7]["number"] == 1
    assert made["double"] == 2 * made["uniform"] and made["triple"] == 3 * made["list"][1]["inside"]
    assert made["drawn"] in (3, 4)


def test_policies_and_spaces_stay_what_they_are():
    class PolicySpec(NamedTuple):
        policy_class: Any = None
        config: Any = None

    box = gymnasium.spaces.Dict({"a": gymnasium.spaces.Discrete(2)})
    given = {"multiagent": {"policies": {"p": PolicySpec(config={"lr": space.choice([3])}), "q": (None, box, {})}}}
    (made,) = configs(run(config=given))
    policies = made["multiagent"]["policies"]
    assert policies["p"] == PolicySpec(config={"lr": 3})
    assert policies["q"][1] is box


def test_a_script_that_seeds_numpy_repeats_its_search():
    def tried():
        np.random.seed(3)
        random.seed(3)
        return [config["lr"] for config in configs(run(config={"lr": space.uniform(0, 1)}, num_samples=3))]

    assert tried() == tried()


def test_domains_draw_by_themselves():
    assert space.choice([5]).sample() == 5
    assert len(space.randint(0, 4).sample(size=6)) == 6
    assert (space.randint(0, 4).upper, space.uniform(1, 2).lower, space.choice("ab").categories) == (4, 1, ["a", "b"])


# --- directories ------------------------------------------------------------------------------------------------------


def test_directories_are_those_of_tune(results):
    class Arena:
        pass

    analysis = run(config={"lr": space.grid_search([0.5]), "env": Arena}, checkpoint_at_end=True)
    (trial,) = analysis.trials
    folder = Path(trial.logdir)
    assert folder.parent == results / "Climb"
    assert str(trial) == f"Climb_Arena_{trial.trial_id}"
    assert folder.name.startswith(f"Climb_Arena_{trial.trial_id}_0_lr=0.5_20")
    assert json.loads((folder / "params.json").read_text())["lr"] == 0.5
    lines = [json.loads(line) for line in (folder / "result.json").read_text().splitlines()]
    assert [line["score"] for line in lines] == [0.5, 1.0, 1.5]
    assert [line["done"] for line in lines] == [False, False, True]
    assert lines[0]["trial_id"] == trial.trial_id and lines[0]["experiment_tag"] == "0_lr=0.5"
    assert "nested/twice" in (folder / "progress.csv").read_text().splitlines()[0]
    assert sorted(path.name for path in (folder / "checkpoint_000003").iterdir()) == [
        ".is_checkpoint", "checkpoint-3", "checkpoint-3.tune_metadata"
    ]  # fmt: skip
    assert len(list(folder.glob("events.out.tfevents.*"))) == 1
    assert len(list((results / "Climb").rglob("events.out.tfevents.*"))) == 1
    assert list((results / "Climb").glob("experiment_state-*.json"))


def test_names_and_places_may_be_others(tmp_path):
    (trial,) = run(
        name="mine", local_dir=str(tmp_path / "here"), trial_name_creator=lambda trial: f"t{trial.trial_id[-5:]}",
        trial_dirname_creator=lambda trial: f"dir_{trial}",
    ).trials  # fmt: skip
    assert str(trial) == "t00000"
    assert trial.logdir == str(tmp_path / "here" / "mine" / "dir_t00000")


def test_prints_go_to_files(results):
    def loud(config):
        print("hear me")
        yield {"score": 1}

    (trial,) = run(loud, log_to_file=True, stop=None).trials
    assert "hear me" in Path(trial.logdir, "stdout").read_text()


# --- stopping ---------------------------------------------------------------------------------------------------------


def last(analysis):
    return [trial.last_result["training_iteration"] for trial in analysis.trials]


def test_criteria_are_reached_from_below_whatever_the_mode_as_in_tune():
    assert last(run(stop={"score": 2}, metric="score", mode="min")) == [2]


def test_any_result_may_end_a_trial():
    assert last(run(stop={"nested/twice": 8, "training_iteration": 100})) == [4]
    assert last(run(stop={"timesteps_total": 50})) == [5]
    assert last(run(stop=lambda trial_id, result: result["score"] >= 6)) == [6]


def test_stoppers_end_trials_or_everything():
    assert last(run(stop=stopper.MaximumIterationStopper(2))) == [2]
    assert last(run(stop=stopper.TrialPlateauStopper("nested/twice", std=1e9))) == [4]
    flat = stopper.ExperimentPlateauStopper("lr0", top=3, mode="max", patience=1)

    def same(config):
        for _ in range(100):
            yield {"lr0": 1.0}

    analysis = run(same, stop=flat, num_samples=5, config={"x": space.uniform(0, 1)})
    assert last(analysis) == [3]

    class Two(stopper.Stopper):
        seen = 0

        def __call__(self, trial_id, result):
            Two.seen += 1
            return False

        def stop_all(self):
            return Two.seen >= 2

    assert last(run(stop=Two(), num_samples=3, config={"lr": space.uniform(0, 1)})) == [2]
    assert last(run(stop={"training_iteration": 10**9}, time_budget_s=0.01))[0] >= 1


def test_a_trainable_that_says_done_ends():
    class Three(Climb):
        def step(self):
            return {**super().step(), "done": self.height >= 3}

    assert last(run(Three, stop=None)) == [3]


# --- functions --------------------------------------------------------------------------------------------------------


def test_functions_are_trials_too():
    def objective(config):
        for i in range(4):
            session.report(score=config["x"] * i, mean_loss=i)

    analysis = run(objective, config={"x": space.grid_search([1, 2])}, stop=None, metric="score", mode="max")
    assert analysis.best_config == {"x": 2}
    assert analysis.best_result["score"] == 6
    assert last(analysis) == [4, 4]
    rows = Path(analysis.trials[0].logdir, "result.json").read_text().splitlines()
    assert len(rows) == 4
    assert Path(analysis.trials[0].logdir).parent.name.startswith("objective_20")


def test_a_function_goes_on_from_its_checkpoint_after_it_failed():
    def fails_once(config, checkpoint_dir=None):
        begin = int(Path(checkpoint_dir, "at").read_text()) if checkpoint_dir else 0
        for i in range(begin, 4):
            if i == 2 and not checkpoint_dir:
                raise RuntimeError("once")
            with session.checkpoint_dir(step=i) as folder:
                Path(folder, "at").write_text(str(i + 1))
            session.report(at=i)

    (trial,) = run(fails_once, stop=None, max_failures=1).trials
    assert trial.status == "TERMINATED" and trial.last_result["at"] == 3 and trial.num_failures == 1
    assert "once" in Path(trial.error_file).read_text()


# --- failures ---------------------------------------------------------------------------------------------------------


class Fails(Climb):
    def step(self):
        if self.lr == 2 and self.iteration == 1:
            raise ZeroDivisionError("mine")
        return super().step()


def test_failed_trials_are_an_error_at_the_end_or_not():
    config = {"lr": space.grid_search([1, 2, 3])}
    with pytest.raises(TuneError, match="mine") as caught:
        run(Fails, config=config)
    assert len(caught.value.trials) == 1
    analysis = run(Fails, config=config, raise_on_failed_trial=False)
    assert [trial.status for trial in analysis.trials] == ["TERMINATED", "ERROR", "TERMINATED"]
    with pytest.raises(TuneError) as caught:
        run(Fails, config=config, fail_fast=True)
    analysis = run(Fails, config=config, fail_fast=True, raise_on_failed_trial=False)
    assert [trial.status for trial in analysis.trials] == ["TERMINATED", "ERROR"]
    with pytest.raises(TuneError, match="mine"):
        run(Fails, config=config, fail_fast="raise", raise_on_failed_trial=False)


def test_a_trial_that_failed_goes_on_from_its_checkpoint():
    class Once(Climb):
        failed = False

        def step(self):
            if self.iteration == 3 and not Once.failed:
                Once.failed = True
                raise RuntimeError("once")
            return super().step()

    (trial,) = run(Once, stop={"training_iteration": 5}, max_failures=1, checkpoint_freq=2).trials
    rows = [json.loads(line)["score"] for line in Path(trial.logdir, "result.json").read_text().splitlines()]
    assert rows == [1, 2, 3, 4, 5]


# --- checkpoints ------------------------------------------------------------------------------------------------------


def checkpoints(trial):
    return sorted(path.name for path in Path(trial.logdir).glob("checkpoint_*"))


def test_checkpoints_come_when_they_are_due():
    (trial,) = run(checkpoint_freq=2, stop={"training_iteration": 5}).trials
    assert checkpoints(trial) == ["checkpoint_000002", "checkpoint_000004"]
    (trial,) = run(checkpoint_freq=2, checkpoint_at_end=True, stop={"training_iteration": 5}).trials
    assert checkpoints(trial)[-1] == "checkpoint_000005"
    (trial,) = run(checkpoint_freq=1, keep_checkpoints_num=2, stop={"training_iteration": 5}).trials
    assert checkpoints(trial) == ["checkpoint_000004", "checkpoint_000005"]
    (trial,) = run(
        checkpoint_freq=1, keep_checkpoints_num=1, checkpoint_score_attr="min-score", stop={"training_iteration": 5}
    ).trials  # fmt: skip
    assert checkpoints(trial) == ["checkpoint_000001", "checkpoint_000005"]  # the trial resumes from the newest


def test_trials_begin_with_a_checkpoint():
    first = run(checkpoint_at_end=True, metric="score", mode="max")
    path = first.best_checkpoint
    assert path.endswith("checkpoint_000003/checkpoint-3")
    (trial,) = run(restore=path, stop={"training_iteration": 5}).trials
    assert trial.last_result["score"] == 5
    assert trial.last_result["iterations_since_restore"] == 2
    assert first.get_last_checkpoint() == path
    assert first.get_trial_checkpoints_paths(first.trials[0], "score") == [(path, 3.0)]


def test_an_experiment_goes_on_where_it_was_stopped():
    class Stops(Climb):
        stops = True

        def step(self):
            if self.iteration == 3 and Stops.stops:
                Stops.stops = False
                raise KeyboardInterrupt
            return super().step()

    arguments = {"name": "again", "config": {"lr": space.grid_search([1, 2])}, "checkpoint_freq": 1}
    with pytest.raises(KeyboardInterrupt):
        run(Stops, stop={"training_iteration": 5}, **arguments)
    analysis = run(Stops, stop={"training_iteration": 5}, resume=True, **arguments)
    assert [trial.last_result["score"] for trial in analysis.trials] == [5, 10]
    assert len({trial.trial_id[:5] for trial in analysis.trials}) == 1
    with pytest.raises(ConfigError, match="has other search dimensions"):
        run(Stops, resume=True, name="again")
    with pytest.raises(ConfigError, match="has no experiment to resume"):
        run(resume=True, name="other")


class Counts(Callback):
    """Lists the completed trials, one per call."""

    def __init__(self):
        self.ended = []

    def on_trial_complete(self, iteration, trials, trial, **info):
        self.ended.append(trial.trial_id)


@pytest.mark.regression("data lost", "A resumed experiment of an RLlib script keeps its finished trials")
def test_trials_that_were_over_are_there_when_an_experiment_goes_on():
    class Stops(Climb):
        stops = True

        def step(self):
            if self.lr == 2 and self.iteration == 1 and Stops.stops:
                Stops.stops = False
                raise KeyboardInterrupt
            if self.lr == 4:
                raise ValueError("steep")
            return super().step()

    arguments = {"name": "whole", "config": {"lr": space.grid_search([1, 4, 2, 3])}, "metric": "score", "mode": "max",
                 "checkpoint_freq": 1, "raise_on_failed_trial": False}  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        run(Stops, **arguments)
    told = Counts()
    analysis = run(Stops, resume=True, callbacks=[told], **arguments)
    assert [trial.config["lr"] for trial in analysis.trials] == [1, 4, 2, 3]
    assert [trial.status for trial in analysis.trials] == ["TERMINATED", "ERROR", "TERMINATED", "TERMINATED"]
    assert [trial.last_result.get("score") for trial in analysis.trials] == [3, None, 6, 9]
    assert analysis.trials[1].error_msg.startswith("ValueError: steep") and analysis.trials[1].num_failures == 1
    assert told.ended == [trial.trial_id for trial in analysis.trials[2:]], "of the first it was told before"
    assert analysis.best_config["lr"] == 3 and len(analysis.dataframe()) == 3
    again = run(Stops, resume=True, **arguments)
    assert [trial.trial_id for trial in again.trials] == [trial.trial_id for trial in analysis.trials]
    assert again.trials[0].last_result["config"]["lr"] == 1
    assert again.trials[0].checkpoints()[-1].result["score"] == 3


# --- schedulers -------------------------------------------------------------------------------------------------------


def test_asha_stops_what_is_not_among_the_best():
    chosen = schedulers.ASHAScheduler(metric="score", mode="max", max_t=8, grace_period=2, reduction_factor=2)
    analysis = run(config={"lr": space.grid_search([4, 3, 2, 1])}, scheduler=chosen, stop=None)
    assert last(analysis) == [8, 2, 2, 2]
    assert analysis.get_best_config(metric="score", mode="max")["lr"] == 4
    assert analysis.trials[1].last_result["done"] is True


class Late(Climb):
    """The steepest has no score before its third iteration."""

    def step(self):
        result = super().step()
        return {**result, "score": float("nan")} if self.lr == 4 and self.iteration < 2 else result


@pytest.mark.regression(
    "wrong result", "In the RLlib face, a trial whose metric is not a number at first is not stopped"
)
@pytest.mark.parametrize(
    "chosen",
    [
        schedulers.ASHAScheduler(max_t=8, grace_period=1, reduction_factor=2),
        schedulers.MedianStoppingRule(time_attr="training_iteration", grace_period=1, min_samples_required=1),
    ],
)
def test_a_trial_whose_metric_is_no_number_at_first_is_not_stopped_for_it(chosen):
    arguments = {"config": {"lr": space.grid_search([1, 2, 4, 0.5])}, "metric": "score", "mode": "max"}
    analysis = run(Late, scheduler=chosen, stop={"training_iteration": 8}, **arguments)
    assert analysis.best_config["lr"] == 4 and last(analysis)[2] == 8
    assert last(analysis)[3] == 1, "the flattest is stopped at the first comparison"


@pytest.mark.regression("wrong result", "PB2 chooses fractions between whole bounds where trials begin with fractions")
@pytest.mark.parametrize(
    ("begin", "is_whole"),
    [
        (0.5, False),
        (space.grid_search([0.5, 0.1]), False),
        (space.uniform(0, 1), False),
        (space.choice([1, 2]), True),
        (1, True),
        (space.randint(0, 2), True),
    ],
)
def test_whole_bounds_of_pb2_hold_for_what_trials_begin_with(begin, is_whole):
    chosen = schedulers.PB2(time_attr="training_iteration", perturbation_interval=1, hyperparam_bounds={"lr": [0, 3]})
    known = space.space_of({"lr": begin}) | chosen.parameters({"lr": begin})
    (axis,) = chosen.make(known, Streams(0)).axes.values()
    assert isinstance(axis.quantile(0.4), int) == is_whole


def test_more_samples_may_be_wanted_of_an_experiment_that_goes_on():
    tried = {"lr": space.grid_search([1, 2]), "seed": space.randint(0, 10**6)}
    first = run(config=tried, name="more", num_samples=1)
    analysis = run(config=tried, name="more", num_samples=3, resume=True)
    assert [config["lr"] for config in configs(analysis)] == [1, 2] * 3
    assert configs(analysis)[:2] == configs(first) and last(analysis) == [3] * 6
    assert [trial.trial_id for trial in analysis.trials[:2]] == [trial.trial_id for trial in first.trials]


def test_hyperband_and_medians_stop_the_worst():
    band = schedulers.HyperBandScheduler(metric="score", mode="max", max_t=9)
    analysis = run(config={"lr": space.grid_search(list(range(1, 10)))}, scheduler=band, stop=None)
    assert analysis.get_best_config("score", "max")["lr"] == 9
    assert max(last(analysis)) == 9 and min(last(analysis)) < 9
    rule = schedulers.MedianStoppingRule(
        time_attr="training_iteration", metric="score", mode="max", grace_period=2, min_samples_required=2
    )
    analysis = run(config={"lr": space.grid_search([5, 4, 3, 1])}, scheduler=rule, stop={"training_iteration": 6})
    assert last(analysis) == [6, 6, 2, 2]


def test_a_population_copies_its_best_with_other_values(results):
    pbt = schedulers.PopulationBasedTraining(
        time_attr="training_iteration", metric="score", mode="max", perturbation_interval=2, quantile_fraction=0.5,
        hyperparam_mutations={"lr": [1, 10], "model": {"size": lambda: 7}, "new": space.uniform(2, 3)}, synch=True,
    )  # fmt: skip
    config = {"lr": space.grid_search([1, 10]), "model": {"size": 8}}
    analysis = run(config=config, scheduler=pbt, stop={"training_iteration": 7})
    scores = [trial.last_result["score"] for trial in analysis.trials]
    assert min(scores) > 7  # which the worse one alone would have come to
    assert "@perturbed[" in analysis.trials[0].experiment_tag
    assert analysis.trials[0].config["model"]["size"] in (7, 6, 9)
    assert "new" in analysis.trials[0].config
    (policy,) = results.rglob("pbt_policy_*.txt")
    rows = [json.loads(line) for line in policy.read_text().splitlines()]
    assert rows[0][1] == analysis.trials[1].trial_id
    replay = schedulers.PopulationBasedTrainingReplay(str(policy))
    (trial,) = run(config={"lr": 1, "model": {"size": 8}}, scheduler=replay, stop={"training_iteration": 7}).trials
    assert trial.config["lr"] == rows[-1][5]["lr"]
    assert trial.last_result["score"] == scores[0]


def test_a_population_asks_the_scripts_own_function():
    def explore(config):
        config["lr"] = min(config["lr"], 3)
        return config

    pbt = schedulers.PopulationBasedTraining(
        time_attr="training_iteration", metric="score", mode="max", perturbation_interval=1, quantile_fraction=0.5,
        hyperparam_mutations={"lr": space.uniform(5, 6)}, custom_explore_fn=explore, synch=True, log_config=False,
    )  # fmt: skip
    analysis = run(config={"lr": space.grid_search([1, 2])}, scheduler=pbt)
    assert analysis.trials[0].config["lr"] <= 3


def test_pb2_moves_within_its_bounds():
    pb2 = schedulers.PB2(
        time_attr="training_iteration", metric="score", mode="max", perturbation_interval=1, quantile_fraction=0.5,
        hyperparam_bounds={"lr": [0.5, 2.0]}, synch=True,
    )  # fmt: skip
    analysis = run(config={"lr": space.uniform(0.5, 2)}, scheduler=pb2, num_samples=2, stop={"training_iteration": 4})
    assert all(0.5 <= trial.config["lr"] <= 2 for trial in analysis.trials)
    assert any("@perturbed" in trial.experiment_tag for trial in analysis.trials)


@pytest.mark.parametrize(
    ("kind", "own"),
    [
        (schedulers.AsyncHyperBandScheduler, "max_t grace_period reduction_factor brackets"),
        (schedulers.HyperBandScheduler, "max_t reduction_factor stop_last_trials"),
        (schedulers.MedianStoppingRule, "grace_period min_samples_required min_time_slice hard_stop"),
        (schedulers.PopulationBasedTraining, "perturbation_interval burn_in_period hyperparam_mutations "
         "quantile_fraction resample_probability custom_explore_fn log_config require_attrs synch"),
        (schedulers.PB2, "perturbation_interval hyperparam_bounds quantile_fraction log_config require_attrs synch"),
    ],
)  # fmt: skip
def test_schedulers_take_the_arguments_of_tune_in_their_order(kind, own):
    assert [*inspect.signature(kind).parameters] == ["time_attr", "reward_attr", "metric", "mode", *own.split()]


def test_schedulers_by_short_names_and_what_is_refused():
    assert isinstance(schedulers.create_scheduler("asha", max_t=5, other=1), schedulers.ASHAScheduler)
    with pytest.raises(ConfigError, match="did you mean"):
        schedulers.create_scheduler("hyperbandd")
    with pytest.raises(ConfigError, match="BOHB"):
        schedulers.create_scheduler("hb_bohb")
    with pytest.raises(ConfigError, match="whole number"):
        schedulers.ASHAScheduler(reduction_factor=2.5)
    with pytest.raises(ConfigError, match="must be a list"):
        schedulers.PopulationBasedTraining(hyperparam_mutations={"lr": 3})
    with pytest.raises(ConfigError, match=r"rookery\.tune\.Scheduler"):
        type("Own", (schedulers.TrialScheduler,), {"__module__": "script"})
    with pytest.raises(ConfigError, match="has no save_checkpoint"):
        run(
            type("Bare", (Trainable,), {"step": lambda self: {"a": 1}}),
            scheduler=schedulers.PopulationBasedTraining(hyperparam_mutations={"lr": [1]}),
        )


# --- search -----------------------------------------------------------------------------------------------------------


def test_points_are_tried_first():
    generator = search.BasicVariantGenerator(points_to_evaluate=[{"lr": 0.5, "m": {"k": 2}}, {"lr": 0.25}])
    config = {"lr": space.uniform(0, 1), "m": {"k": space.randint(0, 5)}}
    tried = configs(run(config=config, search_alg=generator, num_samples=3))
    assert (tried[0]["lr"], tried[0]["m"]["k"], tried[1]["lr"]) == (0.5, 2, 0.25)
    assert len(tried) == 3


def test_optuna_suggests():
    pytest.importorskip("optuna")
    chosen = search.OptunaSearch(metric="score", mode="max", seed=1, points_to_evaluate=[{"lr": 0.5}])
    analysis = run(config={"lr": space.uniform(0, 1)}, search_alg=search.ConcurrencyLimiter(chosen, 1), num_samples=4)
    assert configs(analysis)[0]["lr"] == 0.5 and len(analysis.trials) == 4
    given = search.OptunaSearch({"lr": space.loguniform(1e-3, 1)}, metric="score", mode="max")
    assert all(1e-3 <= config["lr"] <= 1 for config in configs(run(search_alg=given, num_samples=2)))


def test_repeated_suggestions_and_own_searchers():
    tried = configs(run(config={"lr": space.uniform(0, 1)}, num_samples=4,
                        search_alg=search.Repeater(search.BasicVariantGenerator(), repeat=2)))  # fmt: skip
    assert [config["lr"] for config in tried][::2] == [config["lr"] for config in tried][1::2]

    class Own(search.Searcher):
        told = []

        def suggest(self, trial_id):
            return {"lr": 1.0 + len(self.told), "model": {"size": 3}}

        def on_trial_complete(self, trial_id, result=None, error=False):
            self.told.append((trial_id, result["score"], error))

    analysis = run(config={"model": {"kind": "x"}}, search_alg=Own(metric="score", mode="max"), num_samples=3)
    assert [config["lr"] for config in configs(analysis)] == [1, 2, 3]
    assert configs(analysis)[0]["model"] == {"kind": "x", "size": 3}
    assert [(score, error) for _, score, error in Own.told] == [(3, False), (6, False), (9, False)]
    assert Own.told[0][0] == analysis.trials[0].trial_id


# --- callbacks and progress -------------------------------------------------------------------------------------------


def test_callbacks_hear_of_everything():
    heard = []

    class Hears(Callback):
        def setup(self):
            heard.append("setup")

        def on_trial_start(self, iteration, trials, trial, **info):
            heard.append(f"start {len(trials)}")

        def on_trial_result(self, iteration, trials, trial, result, **info):
            heard.append(f"result {result['training_iteration']} {result['config']['lr']}")

        def on_checkpoint(self, iteration, trials, trial, checkpoint, **info):
            heard.append(f"checkpoint {Path(checkpoint.value).name}")

        def on_trial_complete(self, iteration, trials, trial, **info):
            heard.append(f"complete {trial.status}")

    run(config={"lr": 1}, callbacks=[Hears()], stop={"training_iteration": 2}, checkpoint_freq=2)
    assert heard == [
        "setup", "start 1", "result 1 1", "result 2 1", "checkpoint checkpoint-2", "complete TERMINATED"
    ]  # fmt: skip

    class Logs(LoggerCallback):
        def log_trial_end(self, trial, failed=False):
            heard.append(f"end {failed}")

    run(Fails, config={"lr": 2}, callbacks=[Logs()], raise_on_failed_trial=False)
    assert heard[-1] == "end True"
    with pytest.raises(ConfigError, match=r"config\['callbacks'\]"):
        run(callbacks=[Climb])


def test_the_table_shows_what_theirs_shows(capsys):
    reporter = CLIReporter(metric_columns={"score": "height", "training_iteration": "iter"})
    reporter.add_metric_column("nested/twice", "twice")
    run(config={"lr": space.grid_search([1, 2])}, verbose=1, progress_reporter=reporter, metric="score", mode="max")
    run(config={"lr": space.grid_search([1, 2])}, verbose=3)
    shown = capsys.readouterr().out
    assert "== Status ==" in shown and "Number of trials: 2/2 (2 TERMINATED)" in shown
    assert "Current best trial: " in shown and "with score=6.0 and parameters={'lr': 2}" in shown
    header = next(line for line in shown.splitlines() if line.startswith("| Trial name"))
    assert [part.strip() for part in header.strip("|").split("|")][3:6] == ["lr", "iter", "total time (s)"]
    assert "Result for Climb_" in shown and "  done: true" in shown
    assert shown.rstrip().splitlines()[-1].startswith("Total run time: ")


def test_nothing_is_printed_at_verbosity_0(capsys):
    run(verbose=0)
    assert capsys.readouterr().out == ""


# --- what came of it --------------------------------------------------------------------------------------------------


def test_the_analysis_knows_the_best():
    analysis = run(config={"lr": space.grid_search([1, 3, 2])}, metric="score", mode="min")
    assert analysis.best_config["lr"] == 1
    assert analysis.get_best_trial("score", "max").config["lr"] == 3
    assert analysis.get_best_trial("score", "min", scope="all").config["lr"] == 1
    assert analysis.get_best_trial("nested/twice", "max", scope="avg").config["lr"] == 3
    assert analysis.best_logdir == analysis.trials[0].logdir
    assert list(analysis.results.values())[0]["score"] == 3
    assert analysis.stats()["start_time"] > 0
    assert analysis.get_all_configs()[analysis.best_logdir]["lr"] == 1
    with pytest.raises(ConfigError, match="scope"):
        analysis.get_best_trial(scope="some")
    assert analysis.get_best_trial("nothing", "max") is None
    again = ExperimentAnalysis(str(Path(analysis.best_logdir).parent), default_metric="score", default_mode="max")
    assert again.best_config["lr"] == 3
    assert Analysis(str(Path(analysis.best_logdir).parent)).get_best_config("score", "max")["lr"] == 3


def test_the_analysis_gives_data_frames():
    pytest.importorskip("pandas")
    analysis = run(config={"lr": space.grid_search([1, 2])}, metric="score", mode="max")
    frame = analysis.dataframe()
    assert list(frame["config/lr"]) == [1, 2] and list(frame["score"]) == [3, 6]
    assert len(analysis.trial_dataframes[analysis.best_logdir]) == 3
    assert list(analysis.results_df["score"]) == [3, 6]
    assert analysis.best_result_df["score"].iloc[0] == 6
    assert len(analysis.best_dataframe) == 3


# --- registry, experiments, arguments ---------------------------------------------------------------------------------


def test_names_are_registered():
    registry.register_trainable("climb", Climb)
    (trial,) = run("climb").trials
    assert trial.trainable_name == "climb"
    registrations.register_env("mine", lambda config: config)
    assert registrations.registered_env("mine")(3) == 3
    with pytest.raises(ConfigError, match="climb"):
        registry.get_trainable_cls("climbb")
    with pytest.raises(ConfigError, match="must derive from"):
        run(dict)


def test_experiments_are_run_one_after_the_other(results):
    listed = [experiment.Experiment("first", Climb, stop={"training_iteration": 2}, config={"lr": 1})]
    assert len(experiment.run_experiments(listed, verbose=0)) == 1
    spec = {"second": {"run": Climb, "env": "E", "stop": {"training_iteration": 1}, "num_samples": 2,
                       "config": {"lr": space.uniform(0, 1)}}}  # fmt: skip
    trials = experiment.run_experiments(spec, verbose=0)
    assert len(trials) == 2 and trials[0].config["env"] == "E"
    assert Path(trials[0].logdir).parent == results / "second"
    with pytest.raises(ConfigError, match="for example run: PPO"):
        experiment.run_experiments({"third": {}})


class Bare(Trainable):
    """Cannot be saved."""

    def step(self):
        return {"score": 1}


def silent(config):
    """Reports nothing."""


def sampled(function):
    return space.sample_from(function)


REFUSED = [
    ({"sync_config": SyncConfig(upload_dir="s3://x")}, "ConfigError: cloud storage"),
    ({"trial_executor": object()}, "ConfigError: leave it out"),
    ({"resume": "PROMPT"}, "ConfigError: use resume=True"),
    ({"mode": "maximum"}, "ConfigError: must be min or max"),
    ({"num_samples": 0}, "ConfigError: num_samples"),
    ({"resources_per_trial": {"cpus": 1}}, "ConfigError: did you mean 'cpu'"),
    ({"typo": 1}, "ConfigError: no argument 'typo'"),
    ({"metric": "scor", "mode": "max"}, "ConfigError: scor: "),
    ({"search_alg": "hyperopt"}, "ConfigError: HyperOptSearch: is not supported; OptunaSearch"),
    ({"stop": {"episode_reward_meen": 1}}, "ConfigError: episode_reward_meen: trials report no such result ... score"),
    ({"stop": {"info": {"loss": 1}}}, "ConfigError: as one key"),
    ({"config": {"lr": {"eval": "1+1"}}}, "ConfigError: not run as code"),
    ({"config": {"lr": {"grid_search": 3}}}, "ConfigError: takes a list"),
    ({"config": {"a": sampled(lambda spec: spec.config.b), "b": sampled(len)}}, "ConfigError: not chosen yet"),
    ({"config": {"a": sampled(lambda spec: spec.config.typo)}}, "ConfigError: has no 'typo'"),
    ({"trainable": Bare, "checkpoint_freq": 1}, "ConfigError: checkpoint_freq: Bare has no save_checkpoint"),
    ({"trainable": lambda config: 1, "checkpoint_freq": 1}, "ConfigError: is a function"),
    ({"trainable": silent, "stop": None}, "TuneError: silent has ended without a report"),
]


@pytest.mark.parametrize(("arguments", "expected"), REFUSED)
def test_arguments_that_ask_for_what_is_not_here_are_refused(arguments, expected):
    check_error(expected, run, **arguments)


def test_resources_are_read():
    assert cpus_and_gpus({"cpu": 1, "extra_cpu": 2, "GPU": 1}) == (3, 1)
    assert cpus_and_gpus(PlacementGroupFactory([{"CPU": 1}, {"CPU": 2, "GPU": 0.5}])) == (3, 0.5)
    assert cpus_and_gpus(Resources(cpu=2, gpu=1)) == (2, 1)


@pytest.mark.slow
def test_trials_run_in_processes(results):
    machine.use_machine(local_mode=False, num_cpus=None)

    def whoami(config):
        print(f"I am {config['x']}")
        session.report(pid_there=os.getpid(), x=config["x"])

    analysis = run(whoami, config={"x": space.grid_search([1, 2])}, stop=None, resources_per_trial={"cpu": 0.5})
    assert [trial.last_result["x"] for trial in analysis.trials] == [1, 2]
    assert os.getpid() not in {trial.last_result["pid_there"] for trial in analysis.trials}


# --- the thin form of 2.x ---------------------------------------------------------------------------------------------


def test_a_tuner_of_today_runs_the_same(results):
    made = tuner.Tuner(
        Climb,
        param_space={"lr": space.grid_search([1, 2])},
        tune_config=tuner.TuneConfig(metric="score", mode="max"),
        run_config=tuner.RunConfig(
            name="mine", stop={"training_iteration": 2}, verbose=0,
            checkpoint_config=tuner.CheckpointConfig(checkpoint_frequency=1, num_to_keep=1),
        ),
    )  # fmt: skip
    grid = made.fit()
    assert len(grid) == 2 and grid.num_errors == 0
    best = grid.get_best_result()
    assert best.config["lr"] == 2 and best.metrics["score"] == 4
    assert best.checkpoint.value.endswith("checkpoint_000002/checkpoint-2")
    assert best.path.startswith(str(results / "mine"))
    failed = tuner.Tuner(Fails, param_space={"lr": 2}, run_config=tuner.RunConfig(verbose=0)).fit()
    assert failed.num_errors == 1 and "mine" in failed.errors[0]


def test_checkpoints_of_a_class_are_checked():
    assert registry.validate_save_restore(Climb, {"lr": 1})
    assert registry.validate_save_restore(Climb, {"lr": 1}, use_object_store=True)
