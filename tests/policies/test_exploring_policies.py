"""Policies that end in values, squashed Gaussians or single actions: acting, files, and what exploration carries."""

import json

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery.core.errors import ConfigError, RookeryError, SpaceError
from rookery.core.io.encoding import decode
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.models.build import ModelConfig
from rookery.models.q_head import QValues
from rookery.models.squashed import Deterministic, Squashed
from rookery.policies.export import _build, policy_files, start_from
from rookery.policies.policy import Policy

BOX = spaces.Box(-np.inf, np.inf, (4,), np.float32)
ASYMMETRIC = spaces.Box(np.array([-1, 0, -3], np.float32), np.array([3, 1, -2], np.float32))
WHOLE = spaces.Box(np.array([0, -7]), np.array([255, 1]), dtype=np.int16)
SPECS = [
    (QValues(), spaces.Discrete(3, start=-1)),
    (QValues(values="categorical", atoms=5, low=-1, high=1, dueling=True), spaces.Discrete(3, start=-1)),
    (QValues(values="quantile", atoms=4, noisy=True), spaces.Discrete(3, start=-1)),
    (QValues(explore="boltzmann"), spaces.Discrete(3, start=-1)),
    (Squashed(), ASYMMETRIC),
    (Squashed(noise="ou"), WHOLE),
    (Squashed(noise="gsde", every=4), ASYMMETRIC),
    (Deterministic(), ASYMMETRIC),
    (Deterministic(noise="ou"), WHOLE),
    (Deterministic(noise="gsde"), ASYMMETRIC),
]


def policy(head, action, space=BOX, seed=0, info_mask=False, memory=None, **settings):
    generator = torch.Generator().manual_seed(seed)
    spec = obs_spec(space, action, info_mask=info_mask)
    model = ModelConfig(**settings, **({} if memory is None else {"memory": memory}))
    return Policy(spec, action_spec(action), model, generator=generator, head=head)


def kept(subject, rows):
    size = subject.memory_size + subject.exploration_size
    return torch.zeros(rows, size) if size else None


def noise_for(subject, rows):
    return torch.cat((torch.rand(rows, subject.noise.uniform), torch.randn(rows, subject.noise.normal)), 1)


@pytest.mark.parametrize(("head", "action"), SPECS)
def test_predictions_are_actions_of_the_environments_own_space(head, action):
    subject = policy(head, action)
    for buffer in ("std", "random"):
        if hasattr(subject.head, buffer):
            getattr(subject.head, buffer).fill_(1.0)
    obs = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    best = subject.predict(obs)
    assert np.array_equal(best, subject.predict(obs))
    assert np.array_equal(best[3], subject.predict(obs[3]))
    drawn = subject.predict(obs, deterministic=False, rng=np.random.default_rng(1))
    assert np.array_equal(drawn, subject.predict(obs, deterministic=False, rng=np.random.default_rng(1)))
    for one in (*best, *drawn):
        assert action.contains(one), one
    assert len(np.unique(drawn, axis=0)) > 1


@pytest.mark.parametrize(("head", "action"), SPECS)
def test_a_row_acts_by_its_own_noise_and_what_it_carries_whoever_else_is_in_the_batch(head, action):
    subject, obs = policy(head, action), torch.randn(6, 4)
    noise, carried = noise_for(subject, 6), kept(subject, 6)
    if carried is not None:
        carried.normal_().abs_()
    alone_carried = None if carried is None else carried.clone()
    with torch.no_grad():
        together, logp = subject.act({"obs": obs}, noise, memory=carried)
        for i in range(6):
            mine = None if alone_carried is None else alone_carried[i : i + 1]
            action_alone, logp_alone = subject.act({"obs": obs[i : i + 1]}, noise[i : i + 1], memory=mine)
            torch.testing.assert_close(action_alone[0], together[i])
            torch.testing.assert_close(logp_alone[0], logp[i])
    if carried is not None:
        torch.testing.assert_close(alone_carried, carried)


@pytest.mark.parametrize(("head", "action"), SPECS)
def test_evaluation_neither_needs_nor_changes_what_exploration_carries(head, action):
    subject, tree = policy(head, action), {"obs": torch.randn(6, 4)}
    carried = kept(subject, 6)
    best, logp = subject.act(tree, None, deterministic=True, memory=carried)
    assert carried is None or not carried.any()
    again, _ = subject.act(tree, None, deterministic=True)
    assert torch.equal(best, again)
    assert torch.equal(best, subject(tree).mode())
    assert torch.isfinite(logp).all()


def test_exploration_makes_a_policy_no_bit_more_forgetful_or_remembering():
    for head, action in SPECS:
        assert policy(head, action).memory_size == 0
    assert policy(Squashed(noise="ou"), ASYMMETRIC).exploration_size == 3
    assert policy(Squashed(noise="gsde"), ASYMMETRIC, hidden=(8,)).exploration_size == 1 + 3 * 8
    with pytest.raises(RookeryError, match="has no memory"):
        policy(Squashed(noise="ou"), ASYMMETRIC).predict(np.zeros(4, np.float32), memory=torch.zeros(1, 3))


def test_what_is_remembered_lies_before_what_exploration_carries():
    subject = policy(Squashed(noise="ou"), ASYMMETRIC, memory={"kind": "gru", "size": 5})
    plain = policy(Squashed(), ASYMMETRIC, memory={"kind": "gru", "size": 5})
    tree, noise = {"obs": torch.randn(6, 4)}, torch.randn(6, 3)
    whole, alone = kept(subject, 6), kept(plain, 6)
    with torch.no_grad():
        subject.act(tree, noise, memory=whole)
        plain.act(tree, noise, memory=alone)
    assert torch.equal(whole[:, :5], alone)
    assert alone.abs().sum() > 0
    torch.testing.assert_close(whole[:, 5:], noise * (1 - 0.85**2) ** 0.5)
    _, remembered = subject.predict(np.zeros((6, 4), np.float32), deterministic=False)
    assert remembered.shape == (6, 5)


@pytest.mark.parametrize("explore", ["epsilon", "boltzmann"])
def test_masks_bind_the_greedy_and_the_random_action(explore):
    subject = policy(QValues(explore=explore), spaces.Discrete(4, start=2), info_mask=True)
    obs, mask = np.zeros((200, 4), np.float32), np.array([[False, True, False, True]] * 200)
    drawn = subject.predict(obs, deterministic=False, action_mask=mask, rng=np.random.default_rng(0))
    assert set(drawn.tolist()) == {3, 5}
    subject.head.linear.bias.data[0] = 100.0  # the best there is, and not allowed
    assert set(subject.predict(obs, action_mask=mask).tolist()) <= {3, 5}
    with pytest.raises(SpaceError, match="no action is allowed"):
        subject.predict(obs[0], action_mask=np.zeros(4, bool))


@pytest.mark.parametrize(("head", "action"), SPECS)
def test_a_policy_comes_back_from_a_file_with_its_head(head, action):
    subject = policy(head, action, seed=3)
    files = policy_files({"main": subject}, {"main": subject.model})
    described = decode(json.loads(files["policies.json"]), files["policies.safetensors"])
    back = _build("main", described["main"])
    assert back.head_spec == head
    obs = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    assert np.array_equal(back.predict(obs), subject.predict(obs))
    assert np.array_equal(
        *(one.predict(obs, deterministic=False, rng=np.random.default_rng(0)) for one in (back, subject))
    )


@pytest.mark.parametrize(
    ("mine", "other", "action"),
    [
        (Squashed(), Squashed(log_std="tanh"), ASYMMETRIC),
        (Squashed(), Squashed(noise="gsde"), ASYMMETRIC),
        (Squashed(), Deterministic(), ASYMMETRIC),
        (Squashed(), None, ASYMMETRIC),
        (QValues(), None, spaces.Discrete(3)),
        (QValues("categorical", 3, -1, 1), QValues("categorical", 3, -2, 2), spaces.Discrete(3)),
        (QValues("categorical", 3), QValues("quantile", 3), spaces.Discrete(3)),
    ],
)
def test_first_weights_of_a_head_that_means_something_else_by_them_are_refused(mine, other, action):
    with pytest.raises(ConfigError, match="that policy ends in"):
        start_from(policy(mine, action), policy(other, action), "runs/x")


@pytest.mark.parametrize(
    ("mine", "other", "action"),
    [
        (Squashed(), Squashed(noise="ou"), ASYMMETRIC),
        (Squashed(noise="gsde"), Squashed(noise="gsde", every=3), ASYMMETRIC),
        (Deterministic(noise="gsde"), Deterministic(), ASYMMETRIC),
        (QValues(), QValues(explore="boltzmann"), spaces.Discrete(3)),
    ],
)
def test_a_policy_may_go_on_from_anothers_weights_and_explore_otherwise(mine, other, action):
    mine, other = policy(mine, action), policy(other, action, seed=5)
    start_from(mine, other, "runs/x")
    obs = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    np.testing.assert_allclose(mine.predict(obs), other.predict(obs), atol=1e-5)  # one may run on kernels


def test_a_refusal_names_the_policy():
    with pytest.raises(SpaceError, match="policy 'main'.*DQN"):
        policy(QValues(), ASYMMETRIC)


def test_a_file_that_names_something_else_as_a_head_is_refused():
    subject = policy(QValues(), spaces.Discrete(2))
    files = policy_files({"main": subject}, {"main": subject.model})
    described = decode(json.loads(files["policies.json"]), files["policies.safetensors"])["main"]
    with pytest.raises(ConfigError, match="HeadSpec"):
        _build("main", {**described, "head": {"kind": "collections:OrderedDict"}})
