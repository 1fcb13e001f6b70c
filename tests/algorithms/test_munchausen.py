"""Munchausen targets and implicit quantiles: by hand, and as learned."""

import math

import pytest
import torch
from q_learners import learner

from rookery.algorithms.off_policy.munchausen import MunchausenConfig, bonus, scaled_log_policy, soft_value
from rookery.core.batch import Transitions
from rookery.core.errors import ConfigError


def rows(number=3):
    generator = torch.Generator().manual_seed(1)
    obs, after = (torch.randn(number, 2, generator=generator) for _ in range(2))
    discount = torch.tensor([0.9, 0.9, 0.0])
    action = torch.tensor([0, 2, 1])
    return Transitions({"obs": obs}, action, torch.arange(3.0), {"obs": after}, discount, None, torch.arange(number))


def test_the_log_policy_is_that_of_the_softmax_and_does_not_overflow():
    q, allowed = torch.tensor([[1.0, 2.0, 900.0]]), torch.tensor([[True, True, False]])
    found = scaled_log_policy(q, 0.5, allowed)
    whole = math.exp(1 / 0.5) + math.exp(2 / 0.5)
    assert found[0, :2].tolist() == pytest.approx([1 - 0.5 * math.log(whole), 2 - 0.5 * math.log(whole)], abs=1e-5)
    assert found[0, 2] == -math.inf
    assert scaled_log_policy(q, 0.03).isfinite().all()
    # the soft value is temperature times the logarithm of the sum (eq. 1 of the paper, in its other form)
    assert soft_value(q[:, :2], found[:, :2], 0.5).item() == pytest.approx(0.5 * math.log(whole), abs=1e-5)
    masked = soft_value(torch.tensor([[1.0, 2.0, 7.0]]), found, 0.5)
    assert masked.item() == pytest.approx(0.5 * math.log(whole), abs=1e-5)


def test_what_is_added_to_rewards_is_clipped_and_weighted():
    log_policy = torch.tensor([[-0.2, -5.0]])
    cfg = MunchausenConfig(weight=0.9)
    assert bonus(log_policy, torch.tensor([0]), cfg).item() == pytest.approx(-0.18)
    assert bonus(log_policy, torch.tensor([1]), cfg).item() == pytest.approx(-0.9)


@pytest.mark.parametrize("kind", ["mean", "quantile", "implicit"])
def test_targets_are_those_of_the_paper(kind):
    values = {"kind": kind, "quantiles": 5} if kind != "mean" else {}
    dqn = learner(n_step=1, values=values, munchausen={"weight": 0.9})
    drawn, cfg = rows(), dqn.now()
    dqn.noise = lambda rows=1: None  # midpoints, so that passes can be repeated
    target = dqn.targets(drawn, cfg).target
    value = dqn.target_net.value
    before, after = value(drawn.obs), value(drawn.next_obs)
    q_before, q_after = dqn.net.head.q_from(before), dqn.net.head.q_from(after)
    log_policy = torch.log_softmax(q_before / 0.03, 1)[torch.arange(3), drawn.action]
    reward = drawn.reward + 0.9 * (0.03 * log_policy).clamp(-1, 0)
    policy = torch.softmax(q_after / 0.03, 1)
    entropy = -(policy * 0.03 * torch.log_softmax(q_after / 0.03, 1)).sum(1)
    if kind == "mean":
        expected = reward + drawn.discount * ((policy * q_after).sum(1) + entropy)
    else:
        soft = (policy.unsqueeze(2) * after).sum(1) + entropy.unsqueeze(1)
        expected = reward.unsqueeze(1) + drawn.discount.unsqueeze(1) * soft
    torch.testing.assert_close(target, expected, rtol=1e-5, atol=1e-6)


def test_without_weight_targets_are_those_of_dqn_and_run_on_the_kernel():
    plain, other = learner(n_step=1), learner(n_step=1, munchausen={"temperature": 5.0})
    assert torch.equal(plain.targets(rows(), plain.now()).target, other.targets(rows(), other.now()).target)


def test_each_row_of_implicit_quantiles_has_fractions_of_its_own():
    dqn = learner(values={"kind": "implicit", "quantiles": 8})
    batch = dqn.targets(rows(), dqn.now())
    assert batch.noise.shape == batch.target.shape == (3, 8)
    before = dqn.net.head.embedding.weight.clone()
    dqn.learn_rows(rows(), dqn.now())
    assert not torch.equal(before, dqn.net.head.embedding.weight)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"munchausen": {"weight": 0.9}}, r"munchausen.weight = 0.9 .*set n_step = 1 \(now 3\)"),
        ({"munchausen": {"weight": 0.9}, "n_step": 1, "values": {"kind": "categorical"}}, "values.kind = mean"),
        ({"values": {"kind": "implicit"}, "dueling": True}, "implicit has a head of its own: leave out dueling"),
    ],
)
def test_settings_that_exclude_each_other_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        learner(**settings)
