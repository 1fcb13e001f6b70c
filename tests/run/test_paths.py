"""Compute path of a policy: chosen by rule, reported, stored, and without influence on exact results."""

import copy
import json

import pytest
import torch

from rookery import A2CConfig, ModelConfig, MultiAgentArena, PPOConfig, Trainer
from rookery.algorithms.algorithm import Algorithm
from rookery.algorithms.on_policy.actor_critic import ActorCritic
from rookery.core.batch import Demand
from rookery.core.errors import ConfigError
from rookery.core.flat import flatten
from rookery.core.native import FOLDER, SWITCH, best_build, candidates, kernel_threads, path_name
from rookery.core.process.runtime import KERNELS_WORTH_THREADS
from rookery.core.seeding import Streams
from rookery.native.forward import attach
from rookery.run.compute import learning_threads

FAST = PPOConfig(fragment_length=16, minibatch_size=16, epochs=2)
TWO = {"agent1": "a", "agent2": "b"}
BUILD = best_build()
needs_kernels = pytest.mark.skipif(BUILD is None, reason="no kernels here")


@pytest.fixture(autouse=True)
def afresh():
    """The choice is made once a process; here it is made anew for each test."""
    yield
    best_build.cache_clear()


def switched(monkeypatch, value):
    monkeypatch.setenv(SWITCH, value)
    best_build.cache_clear()


def cart_pole(cfg=FAST, **arguments):
    return Trainer("CartPole-v1", cfg, num_envs=4, seed=3, **arguments)


def weights(trainer):
    return torch.cat([weight.flatten() for weight in trainer.policies["main"].parameters()])


@needs_kernels
def test_the_first_lines_of_a_run_say_what_computes_each_policy(capsys):
    policies = {"a": FAST, "b": FAST.replace(model={"native": False})}
    plain = {"logging.console": "plain"}
    with Trainer(MultiAgentArena, policies=policies, policy_mapping=TWO, num_envs=2, seed=0, config=plain) as trainer:
        trainer.train(stop={"iterations": 1})
        assert trainer.paths == {"a": path_name(True), "b": "torch"}
    said = capsys.readouterr().out
    assert f"policy a: PPO ({path_name(True)})," in said
    assert "policy b: PPO (torch: model.native=false)," in said


def test_without_kernels_everything_runs_in_torch(monkeypatch):
    switched(monkeypatch, "0")
    with cart_pole() as trainer:
        trainer.train_iteration()
        assert trainer.paths == {"main": "torch"}
        assert trainer._pool.worker.policies["main"].actor is None


@needs_kernels
def test_a_build_that_is_asked_for_runs(monkeypatch):
    switched(monkeypatch, "x86-64" if BUILD.name.startswith("x86") else BUILD.name)
    with cart_pole() as trainer:
        assert trainer.paths["main"] == path_name(True)
        assert trainer.paths["main"].removesuffix("+amx") == f"kernels {best_build().name}"
        assert best_build().name in ("x86-64", BUILD.name)


@pytest.mark.parametrize("value", ["true", "avx2", "X86-64"])
def test_a_switch_that_says_nothing_known_is_refused(value, monkeypatch):
    switched(monkeypatch, value)
    with pytest.raises(ConfigError, match=f"{SWITCH} = '{value}': must be 0, 1 or an existing build"):
        best_build()


@needs_kernels
def test_a_damaged_build_is_passed_over_with_a_word(monkeypatch, tmp_path):
    for name in candidates():
        if (FOLDER / f"{name}.so").exists():
            (tmp_path / f"{name}.so").write_bytes((FOLDER / f"{name}.so").read_bytes()[:20_000])
    monkeypatch.setattr("rookery.core.native.FOLDER", tmp_path)
    best_build.cache_clear()
    with pytest.warns(RuntimeWarning, match="is damaged, and is not used; rebuild"):
        assert best_build() is None


@needs_kernels
@pytest.mark.parametrize("before", ["1", "0"])
def test_a_run_that_goes_on_by_another_path_says_so_and_learns(before, monkeypatch, tmp_path, capsys):
    switched(monkeypatch, before)
    with cart_pole(run_dir=tmp_path / "run") as trainer:
        trainer.train(stop={"iterations": 1})
        path = trainer.save()
        then = trainer.paths["main"]
    facts = json.loads((path / "manifest.json").read_text())
    assert then in json.dumps(facts)
    switched(monkeypatch, "0" if before == "1" else "1")
    capsys.readouterr()
    with Trainer.load(path) as looked_at:  # not resumed
        assert "until here" not in "".join(capsys.readouterr())
        assert looked_at.paths["main"] != then
    with Trainer.load(path, resume=True) as other:
        said = "".join(capsys.readouterr())
        assert f"policy main: {then} until here, {other.paths['main']} from here on" in said
        start = weights(other).clone()
        other.train_iteration()
        assert not torch.equal(weights(other), start)


@needs_kernels
def test_a_run_that_goes_on_by_the_same_path_says_nothing_and_is_exact(tmp_path, capsys):
    with cart_pole() as whole, cart_pole() as halves:
        for _ in range(4):
            whole.train_iteration()
        for _ in range(2):
            halves.train_iteration()
        path = halves.save(tmp_path / "saved")
        capsys.readouterr()
        with Trainer.load(path) as other:
            assert "until here" not in "".join(capsys.readouterr())
            for _ in range(2):
                other.train_iteration()
            assert torch.equal(weights(other), weights(whole))


@needs_kernels
@pytest.mark.parametrize("cfg", [FAST, A2CConfig()])
def test_both_paths_learn_the_same_for_the_first_updates(cfg, monkeypatch):
    found = []
    for value in ("1", "0"):
        switched(monkeypatch, value)
        with cart_pole(cfg) as trainer:
            start = weights(trainer).clone()
            for _ in range(3):
                trainer.train_iteration()
            found.append(weights(trainer).clone())
    assert (found[0] - found[1]).norm() < 1e-4 * (found[1] - start).norm()


@needs_kernels
def test_a_second_thread_changes_no_bit():
    found = []
    for threads in (1, 2):
        with cart_pole() as trainer, kernel_threads(threads):
            trainer._threads = {"main": threads}
            for _ in range(3):
                trainer.train_iteration()
            found.append(weights(trainer).clone())
    assert torch.equal(*found)


@pytest.mark.parametrize(("cores", "threads"), [(1, 1), (2, 1), (3, 1), (4, 2), (16, 8)])
def test_learning_on_pictures_leaves_half_of_the_cores_to_others(cores, threads, monkeypatch):
    monkeypatch.setattr("rookery.core.process.runtime.usable_cores", lambda: cores)
    monkeypatch.setattr("rookery.run.compute.sees_images", lambda policy: True)
    with cart_pole() as trainer:
        assert learning_threads(trainer.learners["main"], 4) == threads


SIZES = [((64, 64), False, 1), ((256, 256), False, 2), ((256, 256), True, 2)]


@needs_kernels
@pytest.mark.parametrize(("hidden", "shared", "threads"), SIZES)
def test_kernels_have_as_many_threads_as_a_step_is_worth(hidden, shared, threads, monkeypatch):
    monkeypatch.setattr("rookery.core.process.runtime.usable_cores", lambda: 2)
    model = ModelConfig(hidden=hidden, shared_trunk=shared)
    with cart_pole(FAST.replace(model=model, minibatch_size=128)) as trainer:
        learner = trainer.learners["main"]
        assert learning_threads(learner, 4) == threads
        count = sum(weight.numel() for weight in learner.policy.parameters())
        flops = 6.0 * 128 * count * (1 if shared else 2)
        assert (flops >= KERNELS_WORTH_THREADS) == (hidden == (256, 256))
        monkeypatch.setattr("rookery.core.process.runtime.usable_cores", lambda: 100)
        assert learning_threads(learner, 4) == max(1, int(2 * flops / KERNELS_WORTH_THREADS))


class Elsewhere(Algorithm):
    """An algorithm outside the package, on the networks of the package."""

    saved = ("critic",)

    def __init__(self, policy, cfg, streams, name):
        super().__init__(policy, cfg, streams, name)
        self.critic = ActorCritic(policy, cfg.model, torch.Generator())
        flatten(self.critic.parts)
        self.forward = attach(self.critic)

    demand = Demand(16)

    def training_step(self, rollout):
        return {}


@needs_kernels
def test_an_algorithm_from_outside_is_said_to_run_where_its_networks_do():
    for native in (True, False):
        with Trainer(MultiAgentArena, FAST.replace(model={"native": native}), num_envs=1, seed=0) as trainer:
            policy = copy.deepcopy(trainer.policies["main"])
            learner = Elsewhere(policy, trainer.learners["main"].cfg, Streams(0), "main")
            assert learner.on_kernels == native
