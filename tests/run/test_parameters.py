"""Environment parameters of a run: settings, refusals, drawn values, and where they are reported."""

import json

import pytest
from lived_in import Walk, Windy
from lives import FAST, digest, make, weights

from messages import check_error
from rookery import Callback, ConfigError, Trainer
from rookery.run.lessons.parameters import sampler_of
from selection import slow

MASS = {"sampler": "uniform", "low": 0.5, "high": 2.0}


def drawn(rng, most=1.0):
    """A sampler of one's own."""
    return float(rng.uniform(0, most))


WIND, MASS_OF = "env.parameters.wind", "env.parameters.mass"
REFUSED = [
    ("Pendulum-v1", {"env.parameters.mas": 2.0}, "env.parameters.mas: ... 'mass'?; it has gravity, mass, length"),
    ("Pendulum-v1", {MASS_OF: {"sampler": "unifrom"}}, "sampler 'unifrom' is unknown; did you mean 'uniform'?"),
    ("Pendulum-v1", {MASS_OF: {**MASS, "low": 3.0}}, "low 3 is above high 2"),
    ("Pendulum-v1", {MASS_OF: {"sampler": "uniform", "low": 1, "hgih": 2}}, "hgih = 2: ... did you mean 'high'?"),
    ("Pendulum-v1", {MASS_OF: {"uniform": [1, 2]}}, "search spaces of tune belong to a setting"),
    (Windy, {WIND: 3.0}, "code: env.parameters.wind: 3 is not from -2 to 2"),
    (
        Windy,
        {WIND: {"sampler": "intervals", "intervals": [[0, 1], [1, 5]]}},
        "env.parameters.wind: 5 is not from -2 to 2",
    ),
    (Windy, {WIND: 1.0, "curriculum.wind": {"lessons": [0, 1], "threshold": 1}}, "has lessons for it: leave one out"),
    (Walk, {WIND: 1.0}, "Walk has no parameters"),
]


@pytest.mark.parametrize(("env", "values", "expected"), REFUSED)
def test_what_cannot_be_drawn_is_refused_with_its_path_and_a_way_out(env, values, expected):
    check_error(f"ConfigError: {expected}", Trainer, env, FAST, config=values, num_envs=1)


def test_layers_reach_inside_of_a_sampler_and_a_plain_value_takes_its_place():
    first = {"env.parameters.mass": MASS}
    with Trainer("Pendulum-v1", FAST, config=[first, {"env.parameters.mass.low": 1.5}], num_envs=1) as trainer:
        assert trainer._draws.samplers["mass"].low == 1.5
        assert trainer.resolved.explain("env.parameters.mass.low").startswith("env.parameters.mass.low = 1.5")
    with Trainer("Pendulum-v1", FAST, config=first, parameters={"mass": 3.0}, num_envs=1) as trainer:
        assert trainer._draws.samplers["mass"].value == 3.0


def test_a_sampler_with_a_seed_draws_the_same_in_runs_of_any_seed():
    def drawn_by(run, **sampler):
        config = {"env.parameters.mass": {**MASS, **sampler}}
        with Trainer("Pendulum-v1", FAST, config=config, num_envs=1, seed=run) as trainer:
            return [trainer._pool.worker.seeds.parameters(0, episode)["mass"] for episode in range(3)]

    assert drawn_by(1, seed=7) == drawn_by(2, seed=7) != drawn_by(1, seed=8)
    assert drawn_by(1) != drawn_by(2)
    assert len(set(drawn_by(1, seed=7))) == 3


def test_a_function_of_ones_own_draws_with_its_arguments(tmp_path):
    name = f"{__name__}:drawn"
    assert sampler_of({"sampler": name, "most": 3.0}).arguments == {"most": 3.0}
    with make("Pendulum-v1", config={"env.parameters.mass": {"sampler": drawn, "most": 3.0}}) as trainer:
        trainer.train_iteration()
        saved = trainer.save(tmp_path / "saved")
        with Trainer.load(saved) as again:
            assert digest(again) == digest(trainer)
    with pytest.raises(ConfigError, match="there is no module"):
        sampler_of({"sampler": "no.such.module:drawn"})


class Diary(Callback):
    """Notes what episodes have."""

    def __init__(self):
        self.began, self.ended = [], []

    def on_episode_start(self, episode):
        self.began.append((episode.lane, episode.index, dict(episode.parameters)))

    def on_episode_end(self, episode):
        self.ended.append((episode.lane, episode.index, dict(episode.parameters)))


def test_what_was_drawn_is_told_to_callbacks_mappings_results_and_logs(tmp_path):
    asked, diary = [], Diary()

    def mapping(agent, episode):
        asked.append((episode.lane, episode.index, dict(episode.parameters)))
        return "main"

    config = {"env.parameters": {"wind": {"sampler": "uniform", "low": -1, "high": 1}, "place": 2}}
    with make(Windy, tmp_path, config=config, callbacks=[diary], policy_mapping=mapping) as trainer:
        for _ in range(4):
            result = trainer.train_iteration()
        plan = trainer._pool.worker.seeds
    for lane, index, parameters in (*asked, *diary.began, *diary.ended):
        assert parameters == plan.parameters(lane, index)
    assert diary.ended
    low, mean, high = result.parameters["wind"]
    winds = [parameters["wind"] for _, _, parameters in diary.ended]
    assert (low, high) == (min(winds), max(winds))
    assert mean == pytest.approx(sum(winds) / len(winds))
    row = json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[-1])
    assert row["parameters/wind/mean"] == mean
    assert row["parameters/place/max"] == 2.0


@pytest.mark.parametrize(
    ("env", "helpers"), [slow(Windy, 1), (Windy, 2), slow("Pendulum-v1", 1), slow("Pendulum-v1", 2)]
)
def test_any_number_of_helpers_gives_the_same_run(env, helpers):
    name = "wind" if env is Windy else "mass"
    lessons = {"lessons": [1.0, {"sampler": "uniform", "low": 0.6, "high": 1.9}, 0.7], "threshold": -1e9,
               "min_episodes": 1}  # fmt: skip
    digests = set()
    for helpers in (0, helpers):
        config = {
            f"curriculum.{name}": lessons,
            "sampling.iteration_steps": 700 if env == "Pendulum-v1" else 60,
            "env.implementation": "processes" if helpers else "serial",
        }
        if helpers:
            config["sampling.env_processes"] = helpers
        with make(env, config=config) as trainer:
            for _ in range(5):
                result = trainer.train_iteration()
            assert result.lessons[name].lesson == 3
            digests.add(digest(trainer))
    assert len(digests) == 1


def test_evaluations_draw_by_themselves_and_change_nothing():
    config = {"env.parameters.wind": {"sampler": "uniform", "low": -2, "high": 2}}
    learned, returns = set(), set()
    for every in (0, 1):
        with make(Windy, config=config, evaluation_every=every, evaluation_episodes=3) as trainer:
            for _ in range(3):
                trainer.train_iteration()
            returns |= {trainer.evaluate(5).returns, trainer.evaluate(5).returns}
            learned.add(weights(trainer))
    assert len(learned) == 1
    assert len(returns) == 1


def test_a_trained_policy_is_measured_at_values_of_ones_own(tmp_path):
    with make("Pendulum-v1", config={"env.parameters.mass": MASS}) as trainer:
        trainer.train_iteration()
        saved = trainer.save(tmp_path / "saved")
    found = []
    for mass in (0.2, 3.0):
        with Trainer.load(saved, config={"env.parameters": {"mass": mass}}) as trainer:
            found.append(trainer.evaluate(3).return_mean)
    assert found[0] != found[1]
