"""DQN: its losses and their gradients, its targets, its target network, its schedule of random actions."""

import copy
from types import SimpleNamespace

import pytest
import torch
from q_learners import MASKED, fragments, learner

from rookery.algorithms.off_policy.q_values import (
    CategoricalValue,
    MeanValue,
    QBatch,
    QuantileValue,
    RescaledValue,
    categorical_loss,
    mean_loss,
    quantile_loss,
)
from rookery.core.batch import Transitions
from rookery.core.ops import rescale
from rookery.core.schedules import Linear
from rookery.core.spaces.arrays import MASK

CFG = SimpleNamespace(values=SimpleNamespace(low=-2.0, high=2.0))


def batch(target, action=(0, 2), weight=None):
    weight = None if weight is None else torch.tensor(weight)
    return QBatch({}, torch.tensor(action), torch.tensor(target), weight)


# --- losses -----------------------------------------------------------------------------------------------------------


def test_the_huber_loss_of_the_action_that_was_played():
    values = torch.tensor([[1.0, 9, 9], [9, 9, 5]])
    loss, metrics = mean_loss(values, batch([1.5, 2.0]), CFG)
    assert loss.item() == pytest.approx((0.5 * 0.25 + (3 - 0.5)) / 2)
    assert metrics["priority"].tolist() == [0.5, 3.0]
    assert metrics["q_mean"] == 3.0
    assert metrics["td_error"] == 1.75


def test_importance_weights_multiply_a_loss_and_not_an_error():
    values = torch.tensor([[1.0, 9, 9], [9, 9, 5]])
    loss, metrics = mean_loss(values, batch([1.5, 2.0], weight=[1.0, 0.5]), CFG)
    assert loss.item() == pytest.approx((0.5 * 0.25 + 0.5 * (3 - 0.5)) / 2)  # a weighted error would give 1.0, not 1.25
    assert metrics["priority"].tolist() == [0.5, 3.0]


def test_the_categorical_loss_is_the_cross_entropy_and_that_is_the_priority():
    logits = torch.zeros(2, 3, 5)
    logits[1, 2] = torch.tensor([1.0, 0, -1, 0, 2])
    target = [[0.2] * 5, [0.0, 0, 0.5, 0.5, 0]]
    loss, metrics = categorical_loss(logits, batch(target), CFG)
    log_probs = torch.log_softmax(logits[1, 2], 0)
    expected = [torch.log(torch.tensor(5.0)).item(), -(0.5 * log_probs[2] + 0.5 * log_probs[3]).item()]
    assert metrics["priority"].tolist() == pytest.approx(expected)
    assert loss.item() == pytest.approx(sum(expected) / 2)
    assert metrics["q_mean"].item() == pytest.approx((log_probs.exp() @ torch.linspace(-2, 2, 5)).item() / 2)


def test_the_quantile_loss_sums_over_predictions_and_averages_over_targets():
    quantiles = torch.full((1, 3, 3), 9.0)
    quantiles[0, 1] = torch.tensor([0.1, 0.5, 1])
    loss, _ = quantile_loss(quantiles, batch([[0.0, 2, 0.3]], action=[1]), CFG)
    assert loss.item() == pytest.approx(0.451389, abs=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("estimate", [MeanValue, CategoricalValue, QuantileValue])
def test_closed_forms_are_the_gradients_of_the_losses_and_give_the_same_metrics(estimate, weighted):
    loss, closed_form = estimate.loss, estimate.closed_form
    assert closed_form.loss is loss
    generator = torch.Generator().manual_seed(3)
    shape = (7, 3) if loss is mean_loss else (7, 3, 5)
    values = (2 * torch.randn(shape, generator=generator)).requires_grad_()
    target = 2 * torch.randn(7, *shape[2:], generator=generator)
    target = torch.softmax(target, 1) if loss is categorical_loss else target
    rows = QBatch({}, torch.randint(3, (7,), generator=generator), target, torch.rand(7) if weighted else None)
    value, metrics = loss(values, rows, CFG)
    (expected,) = torch.autograd.grad(value, values)
    (found,), closed = closed_form.gradient(values.detach(), rows, CFG)
    assert torch.allclose(found, expected, atol=1e-6)
    assert metrics.keys() == closed.keys()
    assert all(torch.allclose(metrics[name], closed[name], atol=1e-6) for name in metrics)


# --- targets ----------------------------------------------------------------------------------------------------------


def test_targets_of_each_sort():
    reward, discount, after = torch.tensor([1.0, 2.0]), torch.tensor([0.9, 0.0]), torch.tensor([10.0, 7.0])
    assert MeanValue().target(reward, discount, after).tolist() == [10.0, 2.0]
    rescaled = RescaledValue().target(reward, discount, rescale(after, eps=1e-3))
    assert torch.allclose(rescaled, rescale(torch.tensor([10.0, 2.0]), eps=1e-3), atol=1e-5)
    samples = torch.tensor([[0.0, 10.0], [1.0, 1.0]])
    assert QuantileValue().target(reward, discount, samples).tolist() == [[1.0, 10.0], [2.0, 2.0]]
    atoms = torch.tensor([0.0, 5.0, 10.0])
    found = CategoricalValue(atoms).target(
        reward, discount, torch.log(torch.tensor([[0.5, 0.5, 1e-9], [1e-9, 1, 1e-9]]))
    )
    assert torch.allclose(
        found, torch.tensor([[0.5 * 0.8, 0.5 * 0.2 + 0.5 * 0.9, 0.5 * 0.1], [0.6, 0.4, 0.0]]), atol=1e-5
    )


BEYOND = pytest.mark.regression("wrong result", "Returns beyond C51's atoms are noted, with the settings to change")


@BEYOND
@pytest.mark.parametrize(("low", "high", "reward", "discount", "told"), [
    (0.0, 1.0, 1.0, 0.9, "from 10 to 10"),
    (-10.0, 10.0, -20.0, 0.0, "from -20 to -20"),
    (-10.0, 10.0, 10.0, 0.0, ""),  # the outermost atom itself
    (-10.0, 10.0, 0.0, 0.99, ""),
    (-10.0, 10.0, 5.0, 0.99, ""),  # of values not learned yet, of which only some would be beyond
])  # fmt: skip
def test_returns_beyond_the_atoms_are_told(low, high, reward, discount, told):
    alone = learner(values={"kind": "categorical", "low": low, "high": high})
    rows = torch.full((128,), reward), torch.full((128,), discount), torch.zeros(128, 51)
    for _ in range(8 * 15 + 1):
        assert alone.advice() == ""  # until enough were looked at
        alone.estimate.target(*rows)
    line = alone.advice()
    assert bool(line) == bool(told)
    if told:
        assert line.startswith(
            f"policies.hero.values: 100% of the targets of late lie beyond the atoms, from low = {low:g}"
        )
        assert told in line and "policies.hero.values.high" in line and "policies.hero.values.kind = quantile" in line


@BEYOND
def test_few_returns_beyond_the_atoms_are_no_reason_and_means_have_no_bounds():
    alone = learner(values={"kind": "categorical"})
    reward = torch.zeros(128)
    reward[0] = 99.0
    for _ in range(8 * 16):
        alone.estimate.target(reward, torch.zeros(128), torch.zeros(128, 51))
    assert alone.advice() == ""
    assert learner().advice() == "" and learner(values={"kind": "quantile"}).advice() == ""


def rows(mask=None):
    next_obs = {"obs": torch.zeros(2, 2)} if mask is None else {"number": torch.zeros(2, 2), MASK: torch.tensor(mask)}
    zeros, ones = torch.zeros(2), torch.ones(2)
    return Transitions(next_obs, torch.zeros(2, dtype=torch.int64), zeros, next_obs, ones, None, torch.arange(2))


def saying(net, *values):
    """Makes a network return the same values for every observation."""
    with torch.no_grad():
        net.head.linear.weight.zero_()
        net.head.linear.bias.copy_(torch.tensor(values))


def test_double_chooses_by_the_network_that_learns_and_values_by_the_target():
    found = {}
    for double in (True, False):
        dqn = learner(double=double)
        saying(dqn.net, 3.0, 1.0, 2.0)
        saying(dqn.target_net, 10.0, 30.0, 20.0)
        found[double] = dqn.targets(rows(), dqn.cfg).target.tolist()
    assert found == {True: [10.0, 10.0], False: [30.0, 30.0]}


@pytest.mark.parametrize("double", [True, False])
def test_what_is_not_allowed_afterwards_has_no_part_in_a_target(double):
    dqn = learner(MASKED, double=double)
    for net in (dqn.net, dqn.target_net):
        saying(net, 10.0, 30.0, 20.0)
    mask = [[True, False, True], [True, False, False]]
    assert dqn.targets(rows(mask), dqn.cfg).target.tolist() == [20.0, 10.0]


def test_what_is_not_allowed_is_not_played():
    dqn = learner(MASKED)
    saying(dqn.net, 10.0, 30.0, 20.0)
    obs = {"number": torch.zeros(1000, 2), MASK: torch.tensor([[True, False, True]]).expand(1000, 3)}
    noise = torch.rand(1000, 2, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        for epsilon, shares in ((1.0, (0.5, 0.0, 0.5)), (0.0, (0.0, 0.0, 1.0))):
            dqn.policy.head.epsilon.fill_(epsilon)
            counts = torch.bincount(dqn.policy.act(obs, noise)[0], minlength=3) / 1000
            assert torch.allclose(counts, torch.tensor(shares), atol=0.05)
            assert torch.bincount(dqn.policy.act(obs, None, True)[0], minlength=3).tolist() == [0, 0, 1000]


def test_a_terminated_row_of_which_nothing_follows_gives_a_finite_target_whatever_stands_there():
    dqn = learner(MASKED)
    drawn = rows([[False] * 3] * 2)
    ended = Transitions(**{**vars(drawn), "reward": torch.tensor([1.0, 2.0]), "discount": torch.zeros(2)})
    assert dqn.targets(ended, dqn.cfg).target.tolist() == [1.0, 2.0]


def test_targets_use_the_discount_of_the_steps_that_a_window_has():
    dqn = learner(n_step=3, gamma=0.9, learning_starts=0, batch_size=256, double=False)
    saying(dqn.target_net, 1.0, 1.0, 1.0)
    dqn.replay.store(fragments(20, 2))
    drawn = dqn.replay.sample(256, n_step=3, gamma=0.9, beta=1.0)
    target = dqn.targets(drawn, dqn.cfg).target
    assert torch.allclose(target, drawn.reward + drawn.discount)
    assert {round(float(value), 4) for value in drawn.discount} == {0.0, 0.9, 0.81, 0.729}


# --- the target network -----------------------------------------------------------------------------------------------


def prepared(**settings):
    dqn = learner(learning_starts=0, lr=0.1, batch_size=16, **settings)
    dqn.replay.store(fragments(30, 2))
    return dqn


def test_a_hard_target_is_copied_after_every_so_many_gradient_steps():
    dqn = prepared(target={"every": 3})
    start = dqn.target_data.clone()
    assert torch.equal(start, dqn.optimizer.flat.data)
    equal = []
    for _ in range(7):
        dqn.learn(1)
        equal.append(torch.equal(dqn.target_data, dqn.optimizer.flat.data))
        if len(equal) < 3:
            assert torch.equal(dqn.target_data, start)
    assert equal == [False, False, True, False, False, True, False]


def test_a_soft_target_goes_a_share_of_the_way_in_each_gradient_step():
    dqn = prepared(target={"kind": "soft", "tau": 0.25})
    for _ in range(3):
        before = dqn.target_data.clone()
        dqn.learn(1)
        expected = before + 0.25 * (dqn.optimizer.flat.data - before)
        assert torch.allclose(dqn.target_data, expected, atol=1e-6)


def test_the_target_is_a_network_of_its_own_and_learns_nothing():
    dqn = prepared(target={"every": 1000})
    before = copy.deepcopy(dqn.target_net.state_dict())
    dqn.learn(5)
    assert all(torch.equal(value, before[name]) for name, value in dqn.target_net.state_dict().items())
    assert not any(weight.requires_grad or weight.grad.any() for weight in dqn.target_net.parameters())
    mine = {parameter.data_ptr() for parameter in dqn.net.parameters()}
    assert not mine & {parameter.data_ptr() for parameter in dqn.target_net.parameters()}
    assert mine == {parameter.data_ptr() for parameter in dqn.policy.parameters()}


# --- rounds -----------------------------------------------------------------------------------------------------------


def test_random_actions_follow_the_schedule_by_environment_steps():
    dqn = learner(learning_starts=20, exploration={"epsilon": Linear(1.0, 0.1, 1000)}, updates_per_step=0.0)
    found = []
    for steps in (0, 500, 500, 1000, 9000):
        dqn.env_steps = steps
        dqn.training_step(fragments(5, 2))
        found.append(float(dqn.policy.head.epsilon))
    assert found == pytest.approx([1.0, 0.55, 0.55, 0.1, 0.1])  # after 20 decisions it is no more all random
    assert dqn.summary()["epsilon"] == pytest.approx(0.1)


def test_until_there_is_enough_actions_are_random_and_nothing_is_learned():
    dqn = learner(learning_starts=30, exploration={"epsilon": 0.0}, updates_per_step=1.0, batch_size=8)
    weights = dqn.optimizer.flat.data.clone()
    dqn.training_step(fragments(5, 4))
    assert dqn.policy.head.epsilon == 1
    assert dqn.replay.gradient_steps == 0
    assert torch.equal(dqn.optimizer.flat.data, weights)
    dqn.training_step(fragments(5, 4))
    assert dqn.policy.head.epsilon == 0
    assert dqn.replay.gradient_steps == 20
    assert not torch.equal(dqn.optimizer.flat.data, weights)


@pytest.mark.parametrize("double", [True, False])
def test_it_learns_what_a_table_would(double):
    # two states: the first leads to the second (reward 0), that ends with a reward of the action's number
    settings = {"gamma": 0.5, "lr": 0.01, "n_step": 1, "batch_size": 32, "target": {"every": 20}}
    dqn = learner(double=double, learning_starts=0, **settings)
    rollout = fragments(40, 2, ends=0, cuts=0)
    number = torch.arange(40).unsqueeze(1).expand(40, 2) % 2
    obs = torch.stack((1.0 - number, 1.0 * number), -1).float()
    reward = torch.where(number == 1, rollout.action.float(), 0.0)
    parts = {"obs": {"obs": obs}, "reward": reward, "terminated": number == 1, "last_obs": {"obs": obs[0]}}
    dqn.replay.store(type(rollout)(**{**vars(rollout), **parts}))
    dqn.learn(600)
    with torch.no_grad():
        values = dqn.net.value({"obs": torch.eye(2)})
    assert torch.allclose(values[1], torch.tensor([0.0, 1.0, 2.0]), atol=0.1)
    assert torch.allclose(values[0], torch.full((3,), 1.0), atol=0.1)  # 0.5 * 2
