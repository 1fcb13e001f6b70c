"""Experiments of real trainings: params reach trainers, clones equal donors, what is wrong is refused first."""

from __future__ import annotations

import json
import signal

import gymnasium
import numpy as np
import pytest
import torch
from climbing import Climb, climb, history_of
from gymnasium import spaces

from rookery import Callback, ConfigError, ModelConfig, PPOConfig, Trainer, tune
from rookery.core.io.files import last_good
from rookery.core.process.interrupt import Interrupted
from rookery.core.settings.layers import yaml_layer
from rookery.tune.journal import read

SMALL = PPOConfig(model=ModelConfig(hidden=(16,)), fragment_length=16, epochs=1, minibatch_size=32)


def train(folder, algorithm=SMALL, env="CartPole-v1", **settings):
    """Trainings of three short iterations in this process, unless `settings` say otherwise."""
    given = {"num_envs": 2, "stop": {"iterations": 3}, "seed": 5, "place": "here", "console": "quiet"}
    return tune.run(env, algorithm, folder=folder, **(given | settings))


def flat(state, above=""):
    """All tensors, arrays and numbers of a state by path."""
    if isinstance(state, dict):
        return {path: leaf for key, part in state.items() for path, leaf in flat(part, f"{above}/{key}").items()}
    if isinstance(state, list | tuple):
        return {path: leaf for i, part in enumerate(state) for path, leaf in flat(part, f"{above}/{i}").items()}
    return {above: state}


def differing(one, other):
    """Paths at which two states differ."""
    one, other = flat(one), flat(other)
    assert one.keys() == other.keys()

    def same(a, b):
        if isinstance(a, torch.Tensor):
            return torch.equal(a, b)
        return np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b

    return [path for path in one if not same(one[path], other[path])]


# --- params and settings --------------------------------------------------------------------------------------------


def test_a_domain_may_stand_wherever_a_setting_does(tmp_path):
    algorithm = SMALL.replace(lr=tune.grid_search([1e-3, 1e-2]), model=ModelConfig(hidden=tune.choice([[8], [12]])))
    train(tmp_path / "x", algorithm, num_envs=tune.choice([2, 4]), config={"algorithm.gamma": tune.uniform(0.9, 0.99)})
    trials = list(history_of(tmp_path / "x").trials.values())
    assert [trial.params["algorithm.lr"] for trial in trials] == [1e-3, 1e-2]
    for trial in trials:
        config = yaml_layer(trial.folder / "config.yaml").values
        assert config["algorithm"]["lr"] == trial.params["algorithm.lr"]
        assert config["algorithm"]["gamma"] == trial.params["algorithm.gamma"]
        assert config["algorithm"]["model"]["hidden"] == list(trial.params["algorithm.model.hidden"])
        assert config["sampling"]["num_envs"] == trial.params["sampling.num_envs"]
        assert config["algorithm"]["epochs"] == 1
        history = json.loads((trial.folder / "provenance.json").read_text())
        assert history["algorithm.lr"][-1][0] == f"trial {trial.name}"


def test_a_trial_is_the_training_that_its_parameters_make(tmp_path):
    train(tmp_path / "x", SMALL.replace(lr=tune.grid_search([1e-2])))
    trial = history_of(tmp_path / "x").trials["00000"]
    with Trainer("CartPole-v1", SMALL.replace(lr=1e-2), num_envs=2, seed=5) as alone:
        alone.train({"iterations": 3})
        with Trainer.load(trial.folder) as trained:
            left = differing(alone.state_dict(), trained.state_dict())
    assert [path for path in left if "timers" not in path and "seconds" not in path] == []


def test_policies_have_domains_of_their_own(tmp_path):
    policies = {"pol1": SMALL.replace(lr=tune.grid_search([1e-3, 2e-3])), "pol2": SMALL.replace(lr=3e-3)}
    train(tmp_path / "x", None, "rookery.tasks.games.arena:MultiAgentArena", policies=policies,
          policy_mapping={"agent1": "pol1", "agent2": "pol2"}, stop={"iterations": 1})  # fmt: skip
    configs = [yaml_layer(t.folder / "config.yaml").values for t in history_of(tmp_path / "x").trials.values()]
    assert [config["policies"]["pol1"]["lr"] for config in configs] == [1e-3, 2e-3]
    assert [config["policies"]["pol2"]["lr"] for config in configs] == [3e-3, 3e-3]


# --- clones ---------------------------------------------------------------------------------------------------------


def test_a_clone_equals_its_donor_bit_for_bit_before_it_is_changed(tmp_path):
    """A population whose clones keep the donor's learning rate: from then on both are one and the same training."""
    pbt = tune.PBTConfig(interval=2, quantile=0.5, factors=(1.0,), resample=0.0)
    train(tmp_path / "x", SMALL.replace(lr=tune.uniform(1e-4, 1e-2)), scheduler=pbt, num_samples=2,
          stop={"iterations": 4}, metric="env_steps")  # fmt: skip
    donor, clone = history_of(tmp_path / "x").trials.values()
    if donor.parents:
        donor, clone = clone, donor
    assert clone.parents == [(2, donor.name)]
    assert clone.params == donor.params
    with Trainer.load(donor.folder) as one, Trainer.load(clone.folder) as other:
        left = differing(one.state_dict(), other.state_dict())
    assert [path for path in left if "timers" not in path and "seconds" not in path] == []
    assert donor.rows[2:] != donor.rows[:2]


def test_a_clone_that_is_changed_goes_its_own_way(tmp_path):
    pbt = tune.PBTConfig(interval=2, quantile=0.5, factors=(3.0,), resample=0.0)
    train(tmp_path / "x", SMALL.replace(lr=tune.uniform(1e-4, 1e-2)), scheduler=pbt, num_samples=2,
          stop={"iterations": 4}, metric="env_steps")  # fmt: skip
    donor, clone = sorted(history_of(tmp_path / "x").trials.values(), key=lambda trial: len(trial.parents))
    assert clone.params["algorithm.lr"] == pytest.approx(min(3 * donor.params["algorithm.lr"], 1e-2))
    with Trainer.load(donor.folder) as one, Trainer.load(clone.folder) as other:
        assert other.config.algorithm.lr == clone.params["algorithm.lr"]
        left = differing(one.learners["main"].state_dict(), other.learners["main"].state_dict())
    assert left


# --- code in the loop -----------------------------------------------------------------------------------------------


class Raises(Callback):
    """Raises in its second iteration."""

    def on_iteration(self, trainer, result):
        if result.iteration == 2 and trainer.config.algorithm.lr > 5e-3:
            raise RuntimeError("I do not like this learning rate")


def test_a_callback_that_raises_ends_its_trial_only(tmp_path):
    train(tmp_path / "x", SMALL.replace(lr=tune.grid_search([1e-3, 1e-2, 2e-3])), callbacks=[Raises()])
    trials = list(history_of(tmp_path / "x").trials.values())
    assert [trial.status.value for trial in trials] == ["TERMINATED", "ERROR", "TERMINATED"]
    assert "I do not like this learning rate" in (trials[1].folder / "error.txt").read_text()


class Fragile(gymnasium.Env):
    """Breaks after some steps, if configured."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, breaks=False):
        self.breaks, self.clock = breaks, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.clock += 1
        if self.breaks and self.clock > 20:
            raise ZeroDivisionError("the floor is gone")
        return np.zeros(2, np.float32), 1.0, False, self.clock % 10 == 0, {}


def test_an_environment_that_raises_ends_its_trial_only(tmp_path):
    train(tmp_path / "x", env=Fragile, env_config={"breaks": tune.grid_search([False, True])})
    fine, broken = history_of(tmp_path / "x").trials.values()
    assert fine.status.value == "TERMINATED"
    assert broken.status.value == "ERROR"
    assert "the floor is gone" in broken.reason
    assert "ZeroDivisionError: the floor is gone" in (broken.folder / "error.txt").read_text()


def test_a_function_of_a_result_ends_trials(tmp_path):
    train(tmp_path / "x", stop=lambda result: result.env_steps >= 64)
    trial = history_of(tmp_path / "x").trials["00000"]
    assert trial.row["env_steps"] == 64
    assert trial.reason == "the stop function said so"


def falling(config):
    """A loss that falls by one an iteration, from 6; its first row has none yet."""
    tune.report({"loss": None, "up": 0})
    for loss in range(6, 0, -1):
        tune.report({"loss": loss, "up": 10 - loss})


@pytest.mark.regression(
    "wrong result", "A criterion on a metric of which less is better is reached from above; all others from below"
)
@pytest.mark.parametrize(
    ("settings", "iteration", "reason"),
    [
        ({"metric": "loss", "mode": "min", "stop": {"loss": 4}}, 4, "loss 4 reached 4"),
        ({"metric": "loss", "mode": "min", "stop": {"up": 5, "loss": -1}}, 3, "up 5 reached 5"),
        ({"metric": "up", "mode": "max", "stop": {"up": 5}}, 3, "up 5 reached 5"),
        ({"metric": ("up", "loss"), "mode": ("max", "min"), "stop": {"loss": 3}}, 5, "loss 3 reached 3"),
        ({"metric": "loss", "mode": "min", "stop": {"iterations": 2}}, 2, "iterations 2 reached 2"),
        ({"metric": "iteration", "mode": "min", "stop": {"iteration": 3}}, 3, "iteration 3 reached 3"),
        ({"metric": "up", "mode": "min", "stop": {"up": 5}, "scheduler": {"name": "fifo", "time": "up"}}, 3,
         "up 5 reached 5"),
    ],
)  # fmt: skip
def test_a_criterion_on_what_is_to_be_little_is_reached_from_above(tmp_path, settings, iteration, reason):
    tune.run(trainable=falling, config={"x": tune.choice([1])}, folder=tmp_path / "x", place="here", console="quiet",
             **settings)  # fmt: skip
    trial = history_of(tmp_path / "x").trials["00000"]
    assert (trial.iteration, trial.reason) == (iteration, reason)


@pytest.mark.regression(
    "wrong result", "A criterion on a metric of which less is better is reached from above; all others from below"
)
def test_a_training_ends_where_little_of_its_metric_is_wanted_and_little_is_there(tmp_path):
    """Entropies begin at ln 2 = 0.69 and fall: that of 0.8 is reached at once, that of 0.1 never."""
    name, found = "policies.main.entropy", {}
    for threshold in (0.8, 0.1):
        stop = {name: threshold, "iterations": 3}
        train(tmp_path / str(threshold), metric=name, mode="min", stop=stop)
        found[threshold] = history_of(tmp_path / str(threshold)).trials["00000"]
    assert found[0.8].iteration == 1 and "entropy 0.69 reached 0.8" in found[0.8].reason
    assert (found[0.1].iteration, found[0.1].reason) == (3, "iterations 3 reached 3")


def test_a_scheduler_alone_may_end_trials(tmp_path):
    train(tmp_path / "x", stop=None, scheduler=tune.ASHAConfig(max_time=2), num_samples=1)
    assert [trial.iteration for trial in history_of(tmp_path / "x").trials.values()] == [2]


def test_mutations_may_be_domains(tmp_path):
    pbt = tune.PBTConfig(interval=1, quantile=0.5, resample=1.0, mutations={"algorithm.lr": tune.uniform(0.5, 0.6)})
    train(tmp_path / "x", SMALL.replace(lr=tune.uniform(1e-4, 1e-2)), scheduler=pbt, num_samples=2)
    trials = history_of(tmp_path / "x").trials.values()
    assert max(trial.params["algorithm.lr"] for trial in trials) > 0.5


def test_sigterm_in_the_middle_of_a_training_is_told_as_what_it_is(tmp_path):
    class Ends(Callback):
        def on_iteration(self, trainer, result):
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Interrupted, match="SIGTERM"):
        train(tmp_path / "x", callbacks=[Ends()])


def test_a_signal_just_before_a_trial_gives_its_place_away_is_not_lost(tmp_path):
    class Asks(Callback):
        def on_iteration(self, trainer, result):
            if result.iteration == 2:
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        train(tmp_path / "x", SMALL.replace(lr=tune.uniform(1e-4, 1e-2)), scheduler=tune.PBTConfig(interval=2),
              num_samples=2, callbacks=[Asks()])  # fmt: skip
    assert list(history_of(tmp_path / "x").trials) == ["00000"]


def test_after_an_error_signals_are_pythons_again(tmp_path):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(ConfigError, match="tune.scheduler.time = metrics/none"):  # while a training is under way
        train(tmp_path / "x", scheduler=tune.ASHAConfig(time="metrics/none", max_time=4))
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_seconds_are_a_metric_of_trainings_too(tmp_path, capsys):
    train(tmp_path / "x", metric="seconds", mode="min", console="plain")
    assert history_of(tmp_path / "x").trials["00000"].row["seconds"] > 0
    assert "no such number" not in capsys.readouterr().out


# --- what is wrong is said first ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"config": {"algorithm.gama": tune.uniform(0.9, 1)}}, "gama.*did you mean.*gamma"),
        ({"algorithm": SMALL.replace(epochs=tune.grid_search([1, "two"]))}, r"epochs = 'two'.*whole number"),
        ({"algorithm": SMALL.replace(gamma=tune.uniform(0.5, 1.5))}, r"gamma = 1.5.*from 0 to 1"),
        ({"num_sample": 3}, "num_sample.*did you mean"),
        ({"num_samples": 3}, "num_samples = 3: nothing is drawn at random.*repeats = 3"),
        ({"resources_per_trial": {"cpu": 1}}, "resources_per_trial.*here it is cpus, gpus"),
        ({"metric": "episode_reward_mean"}, "episode_reward_mean.*here it is return_mean"),
        ({"env": lambda config: 0.0}, r"this is not an environment.*trainable="),
        ({"config": {"tune": {"scheduler": "asha"}}}, r"tune.scheduler.max_time is missing"),
        ({"scheduler": "ashe"}, "no such name; there are random, optuna, fifo.*did you mean 'asha'"),
        ({"mode": "upwards"}, "mode.*'max' or 'min'"),
        ({"stop": {}}, "stop: nothing ends"),
        ({"metric": ("a", "b", "c"), "mode": ("max", "min")}, "one for each of the 3 metrics"),
        ({"metric": ()}, "tune: metric = .*must name a column"),
        ({"scheduler": tune.OptunaConfig()}, "tune: scheduler = OptunaConfig: this is not a scheduler"),
    ],
)
def test_what_is_wrong_is_refused_before_any_trial_starts(tmp_path, settings, said):
    with pytest.raises(ConfigError, match=said):
        train(tmp_path / "x", **settings)
    assert not (tmp_path / "x").exists()


def test_settings_of_trainings_are_not_for_trainables(tmp_path):
    with pytest.raises(ConfigError, match="num_envs = 4: is for trainings"):
        climb(tmp_path / "x", num_envs=4)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("scheduler", ["fifo", "median", "pbt"])
def test_a_class_that_nothing_ends_is_refused(tmp_path, scheduler):
    with pytest.raises(ConfigError, match="stop: nothing ends a trial of this class"):
        climb(tmp_path / "x", stop=None, scheduler=scheduler)
    assert not (tmp_path / "x").exists()
    climb(tmp_path / "x", stop=None, scheduler=tune.ASHAConfig(max_time=2))


def test_a_folder_with_other_things_is_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("dear all")
    with pytest.raises(ConfigError, match="holds other files"):
        climb(tmp_path)


# --- from its folder alone ------------------------------------------------------------------------------------------


def test_an_experiment_of_importable_things_goes_on_from_its_folder(tmp_path):
    train(tmp_path / "x", SMALL.replace(lr=tune.loguniform(1e-4, 1e-2), model=ModelConfig(hidden=(8,))), num_samples=2)
    tune.resume(tmp_path / "x", num_samples=3, console="quiet")
    trials = history_of(tmp_path / "x").trials
    assert len(trials) == 3
    train(tmp_path / "y", SMALL.replace(lr=tune.loguniform(1e-4, 1e-2), model=ModelConfig(hidden=(8,))), num_samples=3)
    again = history_of(tmp_path / "y").trials
    assert {n: t.params for n, t in trials.items()} == {n: t.params for n, t in again.items()}
    assert {n: t.row["return_mean"] for n, t in trials.items()} == {n: t.row["return_mean"] for n, t in again.items()}


def test_how_many_samples_were_wanted_last_is_remembered(tmp_path):
    train(tmp_path / "x", SMALL.replace(lr=tune.loguniform(1e-4, 1e-2)), stop={"iterations": 1})
    tune.resume(tmp_path / "x", num_samples=3, seconds=1e-9)  # too short for any of them
    assert len(history_of(tmp_path / "x").trials) == 1
    tune.resume(tmp_path / "x")
    assert len(history_of(tmp_path / "x").trials) == 3


def test_an_experiment_of_things_in_code_says_what_to_do(tmp_path):
    class Local(Climb):
        pass

    climb(tmp_path / "x", Local, num_samples=1)
    with pytest.raises(ConfigError, match=r"made in code, with trainable; run that code again.*resume=True"):
        tune.resume(tmp_path / "x")


def test_what_an_experiment_is_can_be_read_and_started_again(tmp_path):
    train(tmp_path / "x", SMALL.replace(lr=tune.loguniform(1e-4, 1e-2)), num_samples=2, seed=None)
    tune.run(config=str(tmp_path / "x" / "experiment.yaml"), folder=tmp_path / "y")
    one, other = (
        [
            (record["trial"], record["params"], record["seed"])
            for record in read(tmp_path / name)
            if record["kind"] == "trial"
        ]
        for name in "xy"
    )
    assert one == other


def test_no_experiment_is_said_to_be_none(tmp_path):
    with pytest.raises(ConfigError, match="is not the folder of an experiment"):
        tune.resume(tmp_path)


def test_the_last_checkpoint_of_each_trial_is_kept(tmp_path):
    train(tmp_path / "x", repeats=2)
    for trial in history_of(tmp_path / "x").trials.values():
        assert last_good(trial.folder / "checkpoints").name == "000003"
