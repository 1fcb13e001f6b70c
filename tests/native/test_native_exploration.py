"""Heads of off-policy learners on kernels: they act as their modules do, on every build that this processor can run."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium import spaces
from test_native_actor import noise_for

from rookery.core.spaces.arrays import MASK, action_spec, obs_spec
from rookery.models.build import ModelConfig
from rookery.models.memory import MemoryConfig
from rookery.models.q_head import QValues
from rookery.models.squashed import Deterministic, Squashed
from rookery.native.actor import native_actor
from rookery.policies.policy import Policy

VECTOR = spaces.Box(-5.0, 5.0, (4,), np.float32)
FIVE, NUMBERS = spaces.Discrete(5, start=2), spaces.Box(-2.0, 2.0, (3,), np.float32)
VALUES = {
    "values": QValues(),
    "dueling": QValues(dueling=True),
    "softmax": QValues(explore="boltzmann"),
    "dueling softmax": QValues(dueling=True, explore="boltzmann"),
}
SPREADS = {"clamp": Squashed(), "tanh": Squashed(log_std="tanh"), "deterministic": Deterministic()}

pytestmark = pytest.mark.usefixtures("kernels")


def acting(action, head, *, masked=False, steer=None, **model):
    """A policy as a worker has it: weights far from their start, exploration as a learner would set it."""
    obs = spaces.Dict({"obs": VECTOR, MASK: spaces.MultiBinary(5)}) if masked else VECTOR
    generator = torch.Generator().manual_seed(0)
    spec = obs_spec(obs, action), action_spec(action), ModelConfig(**model)
    policy = Policy(*spec, generator=generator, head=head)
    policy.requires_grad_(False)
    for weight in policy.parameters():
        weight.add_(torch.randn(weight.shape, generator=generator), alpha=0.3)
    for name, value in (steer or {}).items():
        getattr(policy.head, name).fill_(value)
    return policy


def seen(rows, masked=False):
    rng = np.random.default_rng(rows)
    tree = {"obs": rng.standard_normal((rows, 4), dtype=np.float32)}
    if masked:
        tree[MASK] = rng.random((rows, 5)) < 0.4
        tree[MASK][:, 3] = True
    return tree


def same(policy, masked=False):
    """Asserts that an actor does as the modules do, drawing and not, for any number of rows."""
    actor = native_actor(policy)
    for rows in (1, 3, 15, 16, 17, 130):
        tree = seen(rows, masked)
        tensors = {path: torch.from_numpy(array) for path, array in tree.items()}
        for noise in (noise_for(policy, rows), None):
            memory = policy.initial_memory(rows) if policy.memory_size else None
            mine = None if memory is None else memory.clone()
            action, logp = actor.act(tree, noise, None if mine is None else mine.numpy())
            expected, likelihood = policy.act(tensors, noise, noise is None, memory)
            assert action.dtype == expected.numpy().dtype
            if action.dtype == np.int64:
                assert np.array_equal(action, expected)
            else:
                assert action == pytest.approx(expected.numpy(), abs=1e-5)
            rough = noise is None and action.dtype != np.int64  # modules find back through tanh what was squashed
            assert logp == pytest.approx(likelihood.numpy(), rel=1e-3 if rough else 1e-5, abs=1e-2 if rough else 1e-4)
            if masked:
                assert tree[MASK][np.arange(rows), action].all()


@pytest.mark.parametrize("masked", [False, True], ids=["all allowed", "some allowed"])
@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("name", VALUES)
def test_options_are_chosen_by_values_as_the_modules_choose(name, rate, masked):
    steer = {"temperature": 0.7 + rate} if "softmax" in name else {"epsilon": rate}
    same(acting(FIVE, VALUES[name], masked=masked, steer=steer), masked)


def test_an_infinite_temperature_makes_options_alike():
    policy = acting(FIVE, VALUES["softmax"], steer={"temperature": torch.inf})
    same(policy)
    _, logp = native_actor(policy).act(seen(40), noise_for(policy, 40))
    assert logp == pytest.approx(-np.log(5), abs=1e-6)


@pytest.mark.parametrize("random", [0.0, 1.0], ids=["drawn", "even"])
@pytest.mark.parametrize("name", SPREADS)
def test_bounded_numbers_are_drawn_as_the_modules_draw(name, random):
    steer = {"random": random, **({"std": 0.4} if name == "deterministic" else {})}
    same(acting(NUMBERS, SPREADS[name], steer=steer, hidden=(32,), activation="relu"))


def test_a_changed_rate_is_heeded_by_an_actor_that_is_there():
    policy = acting(FIVE, QValues(), steer={"epsilon": 0.0})
    actor, tree, noise = native_actor(policy), seen(200), noise_for(acting(FIVE, QValues()), 200)
    greedy, _ = actor.act(tree, None)
    assert np.array_equal(actor.act(tree, noise)[0], greedy)
    policy.head.epsilon.fill_(1.0)
    drawn, logp = actor.act(tree, noise)
    assert np.mean(drawn == greedy) < 0.5
    assert logp == pytest.approx(-np.log(5), abs=1e-6)
    assert np.array_equal(actor.act(tree, None)[0], greedy)  # the best action does not depend on the rate


@pytest.mark.parametrize("head", [QValues(dueling=True), QValues(explore="boltzmann")])
def test_what_remembers_acts_by_values_as_the_modules_do(head):
    memory = MemoryConfig(kind="gru", size=16)
    same(acting(FIVE, head, steer={"epsilon": 0.2, "temperature": 0.5}, memory=memory))


@pytest.mark.parametrize(
    ("action", "head"),
    [
        (FIVE, QValues(noisy=True)),
        (FIVE, QValues("quantile", atoms=3)),
        (FIVE, QValues(dueling=True, dueling_hidden=(8,))),
        (NUMBERS, replace(SPREADS["clamp"], noise="gsde")),
        (NUMBERS, replace(SPREADS["deterministic"], noise="ou")),
    ],
)
def test_other_heads_act_by_their_modules(action, head):
    assert native_actor(acting(action, head)) is None
