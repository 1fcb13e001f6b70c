"""Settings that are fixed during a run: which they are, including those of third-party algorithms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

from rookery import ConfigError, PPOConfig, Trainer, tune
from rookery.algorithms.names import ALGORITHMS
from rookery.algorithms.on_policy.ppo import PPO
from rookery.core.config import resolve
from rookery.core.settings.fields import AtStart, Fixed, PositiveFloat, PositiveInt, Structural
from rookery.core.settings.layers import Layer
from rookery.run.settings import RunConfig
from rookery.tune.jobs.training_job import TrainingJob
from rookery.tune.spec import domains_in, split_layers

OF_A_RUN = {
    "env", "sampling.num_envs", "sampling.workers", "sampling.inference_batch_envs", "sampling.warmup_steps",
    "cluster.learners", "policy_mapping", "curriculum", "self_play", "teams", "seed", "device",
}  # fmt: skip

OF_A_POLICY = {"frozen", "init_from"}

CHOICE = {f"select.{name}" for name in ("best", "min_return", "last_episodes", "last_decisions")}
REWARDS = {f"relabel.{name}" for name in ("function", "scale", "shift", "bounds")}
REPLAY = {
    f"replay.{name}"
    for name in ("kind", "capacity", "frame_stacks", "burn_in", "save", "start_from", "memory_mb", "hindsight.strategy",
                 *CHOICE, *REWARDS)
}  # fmt: skip
IMITATION = "imitation.pretrain_steps"
SIGNALS = {f"signals.{name}" for name in ("rnd", "curiosity", "count", "gail", "own")}
OFF_POLICY = {"train_every", "exploration.kind", *REPLAY}
LADDER = "exploration.per_env_epsilon"

OF_AN_ALGORITHM = {
    "ppo": {"fragment_length", "scale_rewards", "normalize_values", IMITATION},
    "mappo": {"fragment_length", "scale_rewards", "normalize_values", "critic_sees", "member_id", IMITATION},
    "poca": {"fragment_length", "scale_rewards", "normalize_values", "attention_size", "attention_heads", IMITATION},
    "ppo_lagrangian": {"fragment_length", "scale_rewards", "normalize_values", IMITATION},
    "trpo": {"fragment_length", "scale_rewards", "normalize_values"},
    "a2c": {"fragment_length", "scale_rewards", "normalize_values", "optimizer"},
    "impala": {"fragment_length", "scale_rewards", "normalize_values", "optimizer"},
    "appo": {"fragment_length", "scale_rewards", "normalize_values", IMITATION},
    "reinforce": set(),
    "es": {"num_directions", "episodes_per_candidate", "optimizer"},
    "ars": {"num_directions", "episodes_per_candidate"},
    "alphazero": {"fragment_length"},
    "linucb": {"prior_precision", "intercept", "arm_features", "fragment_length"},
    "lints": {"prior_precision", "intercept", "arm_features", "fragment_length"},
    "neural_linear": {"prior_precision", "intercept", "arm_features", "fragment_length", "history_size"},
    "dqn": {"dueling", "dueling_hidden", "values", LADDER, *OFF_POLICY},
    "pqn": {"fragment_length"},
    "vdn": {"dueling", "dueling_hidden", "values", "share", LADDER, *OFF_POLICY},
    "qmix": {"dueling", "dueling_hidden", "values", "share", "mixing_size", "mixing_hidden", LADDER, *OFF_POLICY},
    "maddpg": {"critic", "share", *OFF_POLICY - {"exploration.kind"}},
    "sac": {"critic", "discrete", IMITATION, *OFF_POLICY},
    "td3": {"critic", "shared_encoder", LADDER, *OFF_POLICY},
    "ddpg": {"critic", "shared_encoder", LADDER, *OFF_POLICY},
    "bc": {"distribution", *REPLAY},
    "marwil": {"distribution", *REPLAY},
    "iql": {"critic", "distribution", "train_every", *REPLAY},
    "cql": {"critic", "discrete", IMITATION, *OFF_POLICY},
    "discrete_cql": {"dueling", "dueling_hidden", "values", LADDER, *OFF_POLICY},
    "td3bc": {"critic", "shared_encoder", LADDER, *OFF_POLICY},
    "awac": {"critic", "distribution", "train_every", *REPLAY},
    "dt": {"return_scale", "return_input", "context", "layers", "heads", "width", "timesteps", *REPLAY},
}


@dataclass(frozen=True)
class MineConfig(PPOConfig):
    """Settings of an algorithm outside the package."""

    algorithm: ClassVar[str] = f"{__name__}:Mine"
    atoms: Structural[PositiveInt] = 8
    demonstrations: AtStart[str | None] = None
    temperature: PositiveFloat = 1.0


class Mine(PPO):
    """Learns as PPO does."""


def settled(**values):
    return resolve(RunConfig, [Layer("code", values)], ALGORITHMS)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_settings_that_decide_shapes_and_what_is_trained_on_keep_their_value(name):
    found = settled(**{"algorithm.name": name, "policies.red": {}}).fixed
    without = ("bc", "marwil", "dt", "es", "ars", "alphazero", "linucb", "lints", "neural_linear")
    own = {"name", "model"} | OF_AN_ALGORITHM[name] | (set() if name in without else SIGNALS)
    assert found.keys() == (
        OF_A_RUN | {f"algorithm.{path}" for path in own} | {f"policies.red.{path}" for path in own | OF_A_POLICY}
    )
    once = {path for path, kind in found.items() if kind is Fixed.AT_START}
    read = own & {"replay.start_from", IMITATION}
    starts = {f"{at}.{path}" for at in ("algorithm", "policies.red") for path in read}
    assert once == {"policies.red.init_from"} | starts


def test_a_setting_in_a_fixed_section_or_list_is_fixed():
    resolved = settled(**{"env.config": {"size": 3}, "algorithm.name": "dqn", "policies.red.name": "ppo"})
    for path in ("env.config.size", "algorithm.model.memory.size", "algorithm.dueling_hidden.0",
                 "policies.red.model.hidden.0"):  # fmt: skip
        assert resolved.why_fixed(path) is Fixed.STRUCTURAL, path
    for path in ("algorithm.lr", "algorithm.replay", "algorithm.replay.alpha", "policies.red", "sampling", "stop.a"):
        assert resolved.why_fixed(path) is None, path


def fixed_in(space, **values):
    layers = [Layer("code", {"env.name": "CartPole-v1", **values}), Layer("space", space)]
    known, undecided = split_layers(layers)
    return TrainingJob(known, undecided, "none").fixed(domains_in(undecided))


def test_a_structural_setting_of_an_outside_algorithm_stays_in_its_trials():
    space = {
        "algorithm.atoms": tune.choice([8, 16]),
        "algorithm.temperature": tune.uniform(0.5, 2.0),
        "algorithm.model.hidden": [tune.choice([8, 16])],
    }
    expected = {"algorithm.atoms", "algorithm.model.hidden.0"}
    assert fixed_in(space, **{"algorithm.name": f"{__name__}:MineConfig"}) == expected
    assert fixed_in(space, algorithm=MineConfig()) == expected


def test_a_setting_that_is_structural_in_one_of_the_algorithms_that_are_tried_stays():
    space = {"algorithm.name": tune.choice(["reinforce", f"{__name__}:MineConfig"]), "algorithm.lr": tune.choice([1.0])}
    assert fixed_in(space) == {"algorithm.name"}
    space = {"algorithm.name": tune.choice(["reinforce", "ppo"]), "algorithm.rollout_size": tune.choice([1, 2])}
    assert fixed_in({**space, "policies.red.name": tune.choice(["ppo"])}) == {"algorithm.name", "policies.red.name"}


def test_a_population_refuses_to_change_a_structural_setting_of_an_outside_algorithm(tmp_path):
    with pytest.raises(ConfigError, match=r"algorithm\.atoms cannot change .* these can change: algorithm\.temp"):
        tune.run(
            "CartPole-v1",
            MineConfig(atoms=tune.choice([8, 16]), temperature=tune.uniform(0.5, 2.0)),
            stop={"iterations": 2},
            scheduler=tune.PBTConfig(mutations=["algorithm.atoms"]),
            folder=tmp_path / "experiment",
        )


def test_what_is_read_at_the_start_is_dropped_when_a_run_goes_on(tmp_path):
    cfg = MineConfig(demonstrations="gone.npz", temperature=0.5, fragment_length=8, minibatch_size=16, epochs=1)
    with Trainer("CartPole-v1", cfg, num_envs=2, seed=1, run_dir=tmp_path / "run") as trainer:
        trainer.train({"iterations": 1})
    with Trainer.load(tmp_path / "run") as again:
        learned = again.config.policies["main"].algorithm
        assert learned.demonstrations is None and learned.temperature == 0.5
        assert "gone.npz" in again.resolved.explain("algorithm.demonstrations")
        assert "gone.npz" in again.resolved.explain("policies.main.demonstrations")


def test_a_policy_follows_the_common_section_in_what_it_has_from_there(tmp_path):
    cfg = PPOConfig(lr=1e-3, gamma=0.9, fragment_length=8, minibatch_size=16, epochs=1)
    policies = {"main": {"gamma": 0.8}}
    with Trainer("CartPole-v1", cfg, policies=policies, num_envs=2, seed=1, run_dir=tmp_path / "run") as trainer:
        assert "policies.main.lr" in trainer.resolved.inherited
        assert not {"policies.main.gamma", "policies.main.name", "algorithm.lr"} & trainer.resolved.inherited
        trainer.train({"iterations": 1})
    changes = {"algorithm.lr": 2e-3, "algorithm.gamma": 0.7}
    with Trainer.load(tmp_path / "run", config=changes) as again:
        assert again.config.policies["main"].algorithm.lr == 2e-3
        assert again.config.policies["main"].algorithm.gamma == 0.8


def test_a_loaded_run_refuses_what_keeps_its_value_by_name(tmp_path):
    cfg = PPOConfig(fragment_length=8, minibatch_size=16, epochs=1)
    with Trainer("CartPole-v1", cfg, num_envs=2, seed=1) as trainer:
        trainer.train({"iterations": 1})
        place = trainer.save(tmp_path / "place")
    with pytest.raises(ConfigError) as caught:
        Trainer.load(place, num_envs=4)
    assert str(caught.value) == (
        "code: sampling.num_envs = 4: keeps its value in the middle of a run (2); leave it out, or train a new "
        "run with it"
    )
    with pytest.raises(ConfigError, match=r"code: algorithm\.model\.hidden = \[8\]: keeps its value .* \(\[64, 64\]\)"):
        Trainer.load(place, config={"algorithm.model.hidden": [8]})
