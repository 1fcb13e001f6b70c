"""Kernels are chosen by what networks declare: a subclass that changes nothing stays on them, and one that overrides a
method without declaring anew runs by its own modules, which is said once.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium import spaces
from test_native_learning import learner, rollout, weights

from rookery import PPO, ModelConfig, PPOConfig, Trainer
from rookery.algorithms.on_policy.actor_critic import ActorCritic
from rookery.core.native import best_build
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.models.build import Encoder
from rookery.models.heads import ActionHead
from rookery.models.structure import Structure
from rookery.native import ppo as ppo_module
from rookery.native.actor import NativeActor, attach_actor, native_actor
from rookery.native.forward import NetworkKernels, attach
from rookery.native.networks import NativeTrunk
from rookery.policies.policy import Policy

pytestmark = pytest.mark.skipif(best_build() is None, reason="no kernels here")


class PlainNet(ActorCritic):
    """Nothing else."""


class NamedNet(ActorCritic):
    """Something of its own that changes no output."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.title = "mine"

    def describe(self):
        return self.title


class HalvedNet(ActorCritic):
    """Values that are halved, of which kernels know nothing."""

    def forward(self, batch):
        outputs = super().forward(batch)
        return replace(outputs, value=outputs.value / 2)


class ShiftedNet(ActorCritic):
    """Values that are shifted, where they are asked for alone."""

    def value(self, obs):
        return super().value(obs) + 1


class DeclaredNet(ActorCritic):
    """Values that are doubled, in a way that it declares."""

    def forward(self, batch):
        outputs = super().forward(batch)
        return replace(outputs, value=outputs.value * 2)

    def structure(self) -> Structure:
        declared = super().structure()

        def outputs(parts, batch):
            made = declared.outputs(parts, batch)
            return replace(made, value=made.value * 2)

        return replace(declared, outputs=outputs)


class PlainEncoder(Encoder):
    """Nothing else."""


class DoubledEncoder(Encoder):
    """Features that are doubled."""

    def forward(self, obs):
        return 2.0 * super().forward(obs)


class PlainHead(ActionHead):
    """Nothing else."""


class PlainPolicy(Policy):
    """Nothing else."""


class StubbornPolicy(Policy):
    """A policy that always does the same."""

    def act(self, obs, noise, deterministic=False, memory=None):
        action, logp = super().act(obs, noise, deterministic, memory)
        return torch.ones_like(action), logp


def with_net(kind, **settings):
    """A PPO on networks of a kind."""

    class Own(PPO):
        def make_net(self):
            net = super().make_net()
            net.__class__ = kind
            return net

    return learner("ppo", kind=Own, settings=settings)


def count(monkeypatch, owner, name):
    """Counts the calls of a method of a class, or of a function of a module, from now on."""
    calls, real = [], getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *parts, **options: calls.append(1) or real(*parts, **options))
    return calls


@pytest.mark.parametrize("kind", [PlainNet, NamedNet])
def test_a_subclass_that_changes_nothing_learns_on_kernels_bit_for_bit(kind, monkeypatch):
    plain, mine = learner("ppo"), with_net(kind)
    calls, passes = count(monkeypatch, ppo_module.PPOCall, "steps"), count(monkeypatch, NativeTrunk, "forward")
    found, data = [], rollout(plain, 0)
    for algo in (plain, mine):
        algo.training_step(data)
        found.append((len(calls), len(passes)))
        calls.clear()
        passes.clear()
    assert found[0] == found[1]
    assert min(found[0]) > 0
    assert mine.on_kernels
    assert mine.obstacle == ""
    assert torch.equal(weights(plain), weights(mine))


@pytest.mark.parametrize(("part", "kind"), [("trunk", PlainEncoder), ("head", PlainHead)])
def test_parts_of_a_class_that_changes_nothing_stay_on_kernels(part, kind):
    plain, mine = learner("ppo"), learner("ppo")
    getattr(mine.policy, part).__class__ = kind
    data = rollout(plain, 0)
    for algo in (plain, mine):
        algo.training_step(data)
    assert mine.on_kernels
    assert torch.equal(weights(plain), weights(mine))


@pytest.mark.parametrize(("kind", "method"), [(HalvedNet, "HalvedNet.forward"), (ShiftedNet, "ShiftedNet.value")])
def test_a_net_that_overrides_what_kernels_pass_over_runs_by_its_modules(kind, method, monkeypatch):
    calls = count(monkeypatch, NetworkKernels, "run")
    algo = with_net(kind)
    algo.training_step(rollout(algo, 0))
    assert not calls
    assert not algo.on_kernels
    assert algo.obstacle == f"{method} declares no structure"


def test_a_trunk_that_overrides_what_kernels_pass_over_runs_by_its_modules():
    algo = learner("ppo")
    algo.policy.trunk.__class__ = DoubledEncoder
    assert algo.forward.kernels is None
    assert algo.obstacle == "DoubledEncoder.forward declares no structure"


def test_a_net_that_declares_what_it_overrides_runs_on_kernels():
    on_kernels, by_torch = with_net(DeclaredNet), with_net(DeclaredNet)
    by_torch.net.model = by_torch.net.model.replace(native=False)
    start = weights(on_kernels)
    data = rollout(by_torch, 0)
    for algo in (on_kernels, by_torch):
        algo.closed_form = None  # whose gradients are those of values that are not doubled
        algo.training_step(data)
    assert on_kernels.on_kernels
    assert not by_torch.on_kernels
    distance = (weights(on_kernels) - weights(by_torch)).norm()
    assert distance < 1e-4 * (weights(by_torch) - start).norm()


def test_a_net_without_a_structure_runs_by_its_modules():
    net = attach(torch.nn.Linear(3, 2))
    assert net.kernels is None
    assert net.obstacle
    assert net(torch.zeros(4, 3)).shape == (4, 2)


# --- acting -----------------------------------------------------------------------------------------------------------


def acting(kind):
    obs, action = spaces.Box(-1.0, 1.0, (5,), np.float32), spaces.Discrete(3)
    generator = torch.Generator().manual_seed(0)
    policy = kind(obs_spec(obs, action), action_spec(action), ModelConfig(), generator=generator)
    return attach_actor(policy.requires_grad_(False))


def test_a_policy_of_a_class_that_changes_nothing_acts_on_kernels(monkeypatch):
    calls, obs = count(monkeypatch, NativeActor, "act"), np.zeros((4, 5), np.float32)
    assert np.array_equal(acting(PlainPolicy).predict(obs), acting(Policy).predict(obs))
    assert len(calls) == 2


def test_a_policy_that_overrides_act_acts_by_that():
    policy = acting(StubbornPolicy)
    assert native_actor(policy) is None
    assert policy.predict(np.zeros((4, 5), np.float32)).tolist() == [1, 1, 1, 1]


def test_a_policy_to_which_nothing_is_attached_acts_by_its_modules(monkeypatch):
    calls, policy = count(monkeypatch, NativeActor, "act"), acting(Policy)
    expected = policy.predict(np.zeros((4, 5), np.float32))
    policy.make_actor, policy._actor = None, None
    assert np.array_equal(policy.predict(np.zeros((4, 5), np.float32)), expected)
    assert len(calls) == 1


# --- what a run says --------------------------------------------------------------------------------------------------


class Halved(PPO):
    def make_net(self):
        net = super().make_net()
        net.__class__ = HalvedNet
        return net


class HalvedConfig(PPOConfig):
    algorithm = f"{__name__}:Halved"


def test_a_run_says_once_which_override_keeps_it_in_torch(capsys):
    plain = {"logging.console": "plain"}
    with Trainer("CartPole-v1", HalvedConfig(fragment_length=16), num_envs=2, seed=0, config=plain) as trainer:
        trainer.train(stop={"iterations": 2})
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("HalvedNet.forward declares no structure") == 1
