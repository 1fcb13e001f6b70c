"""The examples with a loss and with a second value of one's own stay on kernels and are resumed exactly."""

import json
import sys

import pytest
import torch
from pages import ROOT

from rookery import Trainer
from rookery.core.native import best_build
from rookery.native.forward import NetworkKernels
from rookery.native.ppo import PPOCall

sys.path.append(str(ROOT / "examples"))

from own_loss import SPOConfig
from two_values import CuriousConfig

from selection import slow_except

SMALL = {"fragment_length": 32, "epochs": 2, "minibatch_size": 64}
KINDS = {"own loss": SPOConfig(**SMALL), "two values": CuriousConfig(**SMALL)}


def calls_of(monkeypatch, kind, name):
    calls, real = [], getattr(kind, name)
    monkeypatch.setattr(kind, name, lambda *parts, **options: calls.append(1) or real(*parts, **options))
    return calls


@pytest.mark.skipif(best_build() is None, reason="no kernels here")
def test_the_networks_of_a_loss_of_ones_own_run_on_kernels(monkeypatch):
    forward, whole = calls_of(monkeypatch, NetworkKernels, "forward"), calls_of(monkeypatch, PPOCall, "steps")
    with Trainer("CartPole-v1", KINDS["own loss"], num_envs=4, seed=0) as trainer:
        trainer.train_iteration()
    assert len(forward) == 4  # minibatches
    assert not whole  # of PPO's own loss


@pytest.mark.skipif(best_build() is None, reason="no kernels here")
def test_two_values_are_learned_in_the_one_call_of_ppo(monkeypatch):
    forward, whole = calls_of(monkeypatch, NetworkKernels, "forward"), calls_of(monkeypatch, PPOCall, "steps")
    with Trainer("CartPole-v1", KINDS["two values"], num_envs=4, seed=0) as trainer:
        trainer.train_iteration()
    assert len(whole) == 2  # epochs
    assert not forward


@pytest.mark.parametrize("shared", [True, False])
def test_two_values_learn_on_kernels_what_they_learn_in_torch(shared):
    weights = []
    for native in (True, False):
        model = {"native": native, "shared_trunk": shared}
        with Trainer("CartPole-v1", KINDS["two values"].replace(model=model), num_envs=4, seed=0) as trainer:
            start = trainer.learners["main"].optimizer.flat.data.clone()
            trainer.train_iteration()
            weights.append(trainer.learners["main"].optimizer.flat.data)
    assert (weights[0] - weights[1]).norm() < 1e-3 * (weights[1] - start).norm()


def test_each_value_has_its_discount_and_counts_by_its_strength():
    def targets(**settings):
        cfg = KINDS["two values"].replace(**settings)
        with Trainer("CartPole-v1", cfg, num_envs=4, seed=0) as trainer:
            learner = trainer.learners["main"]
            return learner.targets(trainer._pool.sample(10_000).rollouts["main"])

    both, none, short = targets(), targets(novelty_strength=0.0), targets(novelty_gamma=0.0)
    assert both.value.shape == both.value_target.shape == (128, 2)
    assert torch.allclose(both.value_target, none.value_target)
    assert not torch.allclose(both.advantage, none.advantage)
    assert torch.allclose(both.value_target[:, 0], short.value_target[:, 0])
    assert not torch.allclose(both.value_target[:, 1], short.value_target[:, 1])
    assert (short.value_target[:, 1] <= 1).all()  # without a future the reward itself, one at most


@pytest.mark.parametrize("kind", slow_except(*list(KINDS)[:1], of=KINDS))
def test_stopped_and_resumed_they_equal_a_run_that_was_not(kind, tmp_path):
    def train(run, *until):
        with Trainer("CartPole-v1", KINDS[kind], num_envs=4, seed=5, run_dir=tmp_path / run) as trainer:
            trainer.train(stop={"iterations": until[0]})
        for iterations in until[1:]:
            with Trainer.load(tmp_path / run, resume=True) as trainer:
                trainer.train(stop={"iterations": iterations})
        lines = (tmp_path / run / "metrics.jsonl").read_text().splitlines()
        rows = [{k: v for k, v in json.loads(line).items() if not k.startswith("time/")} for line in lines]
        return trainer.learners["main"].optimizer.flat.data, rows

    weights, rows = train("whole", 4)
    other_weights, other_rows = train("halved", 2, 4)
    assert torch.equal(weights, other_weights)
    assert rows == other_rows
