"""Critics: targets and losses against hand computation, options, whose weights get gradients."""

import itertools

import numpy as np
import pytest
import torch
from gymnasium import spaces
from reaching import experience
from torch.nn import functional

from rookery import ModelConfig, TD3Config
from rookery.algorithms.off_policy.critics import (
    BatchRenorm,
    CriticBatch,
    CriticConfig,
    CriticLearner,
    Critics,
    JointBatch,
    SeededDropout,
    StateAction,
    backup,
    critic_gradient,
    critic_loss,
    detached_view,
    joint_critic_loss,
    target_copy,
)
from rookery.algorithms.off_policy.sac import SACConfig
from rookery.core.flat import flatten
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.models.squashed import Squashed
from rookery.policies.policy import Policy
from selection import slow_repeats

SEEN, MOVES = spaces.Box(-5, 5, (3,), np.float32), spaces.Box(-1, 1, (2,), np.float32)
SMALL = ModelConfig(hidden=(16, 16), activation="relu")


def policy_for(obs=SEEN, action=MOVES, model=SMALL):
    generator = torch.Generator().manual_seed(0)
    return Policy(obs_spec(obs, action), action_spec(action), model, generator=generator, head=Squashed())


def learner(cfg, model=SMALL, **spaces_):
    return CriticLearner(
        policy_for(model=model, **spaces_), cfg, model, adam_eps=1e-8, generator=torch.Generator().manual_seed(1)
    )


# --- targets and losses ----------------------------------------------------------------------------------------------


def test_a_target_is_the_reward_and_the_discounted_lowest_value_less_the_bonus():
    q = torch.tensor([[1.0, 5.0, 2.0], [3.0, 4.0, 7.0]])
    reward, discount = torch.tensor([1.0, -0.5, 2.0]), torch.tensor([0.9, 0.81, 0.0])
    bonus = torch.tensor([0.5, -1.0, 9.0])
    target = backup(q, reward, discount, bonus, CriticConfig())
    assert target.tolist() == pytest.approx([1 + 0.9 * 0.5, -0.5 + 0.81 * 5, 2.0])
    assert backup(q, reward, discount, None, CriticConfig()).tolist() == pytest.approx([1.9, -0.5 + 0.81 * 4, 2.0])


def test_quantile_targets_drop_the_highest_of_all_networks_together():
    # 2 networks of 3 quantiles, 1 dropped for each: the 4 lowest of 6 stay, whichever network they are of
    q = torch.tensor([[[9.0, 1.0, 8.0]], [[2.0, 0.0, 3.0]]])
    cfg = CriticConfig(quantiles=3, drop=1)
    target = backup(q, torch.tensor([1.0]), torch.tensor([0.5]), torch.tensor([2.0]), cfg)
    assert target.tolist() == [pytest.approx([1 + 0.5 * (z - 2) for z in (0.0, 1.0, 2.0, 3.0)])]
    whole = backup(q, torch.tensor([0.0]), torch.tensor([1.0]), None, CriticConfig(quantiles=3, drop=0))
    assert whole.tolist() == [[0.0, 1.0, 2.0, 3.0, 8.0, 9.0]]


def test_the_loss_of_means_is_half_the_squared_error_summed_over_networks():
    q, target = torch.randn(3, 5), torch.randn(5)
    loss, metrics = critic_loss(q, CriticBatch({}, torch.zeros(5, 2), target, None), TD3Config())
    assert float(loss) == pytest.approx(sum(0.5 * float(functional.mse_loss(one, target)) for one in q), rel=1e-6)
    assert metrics["priority"].equal((q - target).abs())
    weight = torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0])
    alone, _ = critic_loss(q, CriticBatch({}, torch.zeros(5, 2), target, weight), TD3Config())
    assert float(alone) == pytest.approx(0.5 * float((q[:, 2] - target[2]).square().sum()) / 5, rel=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("huber", [None, 0.5])
def test_the_gradient_of_huber_and_of_squares_is_that_of_the_loss(huber, weighted):
    q, target, weight = torch.randn(2, 9, dtype=torch.float64), torch.randn(9), torch.rand(9) if weighted else None
    batch, cfg = CriticBatch({}, torch.zeros(9, 2), target, weight), TD3Config(critic=CriticConfig(huber=huber))
    leaf = q.clone().requires_grad_()
    loss, metrics = critic_loss(leaf, batch, cfg)
    each = functional.huber_loss(q, target.expand(2, -1).double(), reduction="none", delta=huber or 1e9)
    by = torch.ones(9) if weight is None else weight
    assert loss.item() == pytest.approx((each * by).mean(1).sum().item())
    (gradient,), closed = critic_gradient(q.clone(), batch, cfg)
    assert torch.allclose(gradient, torch.autograd.grad(loss, leaf)[0])
    assert float(closed["critic_loss"]) == pytest.approx(float(metrics["critic_loss"]))
    assert torch.equal(closed["priority"], metrics["priority"])


@pytest.mark.parametrize("weighted", [False, True])
def test_the_gradient_of_quantiles_is_that_of_the_loss(weighted):
    q, target = torch.randn(2, 9, 5, dtype=torch.float64) * 2, torch.randn(9, 7, dtype=torch.float64)
    batch = CriticBatch({}, torch.zeros(9, 2), target, torch.rand(9) if weighted else None)
    leaf = q.clone().requires_grad_()
    loss, metrics = critic_loss(leaf, batch, TD3Config())
    (gradient,), closed = critic_gradient(q.clone(), batch, TD3Config())
    assert torch.allclose(gradient, torch.autograd.grad(loss, leaf)[0], rtol=1e-6)
    assert set(closed) == set(metrics)
    for name in ("critic_loss", "critic_loss_1", "critic_loss_2"):
        assert float(closed[name]) == pytest.approx(float(metrics[name]))
    assert torch.equal(closed["priority"], metrics["priority"])


def test_each_of_two_networks_reports_its_loss():
    q, target, weight = torch.randn(2, 5), torch.randn(5), torch.rand(5)
    for weights in (None, weight):
        _, metrics = critic_loss(q, CriticBatch({}, torch.zeros(5, 2), target, weights), TD3Config())
        by = torch.ones(5) if weights is None else weights
        own = [float((0.5 * (one - target).square() * by).mean()) for one in q]
        assert [float(metrics[f"critic_loss_{number}"]) for number in (1, 2)] == pytest.approx(own)
        assert float(metrics["critic_loss"]) == pytest.approx(sum(own))
    _, metrics = critic_loss(
        torch.randn(2, 5, 3), CriticBatch({}, torch.zeros(5, 2), torch.randn(5, 4), None), TD3Config()
    )
    assert float(metrics["critic_loss"]) == pytest.approx(
        float(metrics["critic_loss_1"] + metrics["critic_loss_2"]), rel=1e-5
    )
    _, metrics = critic_loss(torch.randn(3, 5), CriticBatch({}, torch.zeros(5, 2), target, None), TD3Config())
    assert "critic_loss_1" not in metrics


def test_the_loss_of_quantiles_has_the_golden_value():
    theta, target = torch.tensor([[[0.1, 0.5, 1.0]]]), torch.tensor([[0.0, 2.0, 0.3]])
    loss, _ = critic_loss(theta, CriticBatch({}, torch.zeros(1, 2), target, None), TD3Config())
    assert float(loss) == pytest.approx(0.451389, abs=1e-6)
    twice, _ = critic_loss(theta.expand(2, 1, 3), CriticBatch({}, torch.zeros(1, 2), target, None), TD3Config())
    assert float(twice) == pytest.approx(2 * 0.451389, abs=1e-6)


# --- networks --------------------------------------------------------------------------------------------------------


def test_plain_critics_are_chains_of_linear_layers_on_observation_and_action():
    critics = learner(CriticConfig(number=3)).net
    data = experience(8)
    q = critics(StateAction(data.obs, data.action))
    assert q.shape == (3, 8)
    for network, values in zip(critics.networks, q, strict=True):
        x = torch.cat((data.obs["obs"], data.action), 1)
        first, (second,) = network.trunk.first, network.trunk.layers
        x = functional.relu(functional.linear(x, first.weight, first.bias))
        x = functional.linear(functional.relu(second(x)), network.linear.weight, network.linear.bias)
        assert torch.allclose(values, x.squeeze(1), atol=1e-6)
    assert not torch.equal(q[0], q[1])


def test_first_values_of_equal_seeds_are_equal():
    data = experience(8)
    one, other = (learner(CriticConfig()).net(StateAction(data.obs, data.action)) for _ in range(2))
    assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("quantiles", "norm"), slow_repeats(of=itertools.product([None, 5], ["none", "layer", "batch"]))
)
def test_every_kind_learns_a_function_of_observation_and_action(norm, quantiles):
    critics = learner(CriticConfig(norm=norm, quantiles=quantiles))
    data = experience(64)
    data = experience(64, reward=data.obs["obs"][:, 0] * data.action[:, 1], discount=torch.zeros(64))
    cfg = SACConfig(lr=5e-3, critic=critics.cfg, model=SMALL)
    for _ in range(250):
        metrics = critics.learn(data, data.action, None, cfg)
    assert float(metrics["td_error"].mean()) < 0.1
    judged = critics.detached(StateAction(data.obs, data.action))
    q = judged.mean(0) if quantiles is None else judged.mean((0, 2))
    # running statistics are those of these rows and of what came after them: near, not equal
    assert float((q - data.reward).abs().mean()) < (0.5 if norm == "batch" else 0.1)


@pytest.mark.parametrize(
    "obs",
    [
        spaces.Box(0, 255, (36, 36, 3), np.uint8),
        spaces.Dict({"near": SEEN, "kind": spaces.Discrete(4), "action": spaces.Box(-1, 1, (2, 2))}),
    ],
    ids=["picture", "dict"],
)
def test_critics_see_any_observation(obs):
    policy = policy_for(obs)
    critics = Critics(policy, CriticConfig(norm="batch"), SMALL, torch.Generator().manual_seed(0))
    seen = {path: torch.from_numpy(leaf) for path, leaf in policy.obs_spec.allocate(4).items()}
    assert critics(StateAction(seen, torch.zeros(4, 2))).shape == (2, 4)


def test_a_custom_model_is_a_critic_with_layers_for_the_action():
    class Mine(torch.nn.Module):
        num_features = 7

        def __init__(self, obs_space):
            super().__init__()
            self.linear = torch.nn.Linear(3, 7)

        def forward(self, obs):
            return torch.tanh(self.linear(obs))

    model = SMALL.replace(module=Mine)
    net = learner(CriticConfig(), model=model).net
    data = experience(8)
    with torch.no_grad():
        changed = net(StateAction(data.obs, -data.action)) - net(StateAction(data.obs, data.action))
    assert float(changed.abs().min()) > 0


# --- targets, judges, gradients --------------------------------------------------------------------------------------


def test_targets_follow_by_tau_and_learn_nothing_else():
    critics = learner(CriticConfig())
    data, cfg = experience(8), SACConfig(model=SMALL)
    before = [weight.clone() for weight in critics.target.parameters()]
    critics.learn(data, data.action, None, cfg)
    assert all(torch.equal(a, b) for a, b in zip(before, critics.target.parameters(), strict=True))
    critics.track(0.25)
    for old, new, source in zip(before, critics.target.parameters(), critics.net.parameters(), strict=True):
        assert torch.allclose(new, 0.75 * old + 0.25 * source, atol=1e-7)


def test_a_judge_is_the_same_network_and_takes_no_gradients():
    critics = learner(CriticConfig())
    data, cfg = experience(8), SACConfig(model=SMALL)
    critics.learn(data, data.action, None, cfg)
    pair = StateAction(data.obs, data.action.clone().requires_grad_())
    assert torch.allclose(critics.detached(pair), critics.net(pair), atol=1e-6)
    gradients = critics.optimizer.flat.grad.clone()
    critics.detached(pair).sum().backward()
    assert pair.action.grad.abs().min() > 0
    assert torch.equal(critics.optimizer.flat.grad, gradients)
    assert not any(weight.requires_grad or weight.grad is not None for weight in critics.detached.parameters())


def test_a_judge_stays_the_same_network_after_a_state_is_loaded():
    one, other = learner(CriticConfig(norm="batch")), learner(CriticConfig(norm="batch"))
    data, cfg = experience(8), SACConfig(model=SMALL, critic=CriticConfig(norm="batch"))
    for _ in range(3):
        one.learn(data, data.action, None, cfg)
    other.load_state_dict(one.state_dict())
    pair = StateAction(data.obs, data.action)
    assert torch.equal(other.detached(pair), one.detached(pair))
    assert (
        one.learn(data, data.action, None, cfg)["critic_loss"]
        == other.learn(data, data.action, None, cfg)["critic_loss"]
    )
    assert torch.equal(other.detached(pair), one.detached(pair))


def test_the_flat_vector_of_a_target_has_the_order_of_the_learner():
    net = learner(CriticConfig()).net
    source = flatten([net])
    target, data = target_copy(net)
    assert torch.equal(data, source.data)
    data.zero_()
    assert all(float(weight.abs().max()) == 0 for weight in target.parameters())
    assert float(source.data.abs().max()) > 0


# --- CrossQ ----------------------------------------------------------------------------------------------------------


def test_batch_renormalization_is_batch_normalization_while_it_warms_up():
    ours, torchs = BatchRenorm(4), torch.nn.BatchNorm1d(4, eps=BatchRenorm.EPS, momentum=BatchRenorm.MOMENTUM)
    x = torch.randn(32, 4) * 3 + 1
    assert torch.allclose(ours(x), torchs(x), atol=1e-5)
    assert torch.allclose(ours.mean, torchs.running_mean, atol=1e-6)
    assert torch.allclose(ours.var, 0.99 + 0.01 * x.var(0, correction=0), atol=1e-5)
    ours.eval()
    assert torch.allclose(ours(x), (x - ours.mean) / (ours.var + BatchRenorm.EPS).sqrt(), atol=1e-5)
    assert float(ours.passes) == 1


def test_batch_renormalization_puts_rows_where_running_statistics_would_within_limits():
    layer = BatchRenorm(1)
    layer.passes.fill_(BatchRenorm.WARM_UP)
    layer.mean.fill_(1.0)
    layer.var.fill_(4.0 - BatchRenorm.EPS)
    near = torch.randn(64, 1) * 2 + 1.5
    assert torch.allclose(layer(near), (near - 1.0) / 2.0, atol=1e-4)
    layer.mean.fill_(1.0)
    layer.var.fill_(4.0 - BatchRenorm.EPS)
    far = torch.randn(64, 1) * 2 + 101.0  # 50 standard deviations away: moved by 5 only
    assert float(layer(far).mean()) == pytest.approx(5.0, abs=1e-4)


def test_without_targets_values_of_now_and_after_come_from_one_pass():
    cfg = SACConfig(critic=CriticConfig(norm="batch"), model=SMALL)
    critics = learner(cfg.critic)
    assert critics.target is None
    passes = []
    critics.net.register_forward_hook(lambda module, inputs, q: passes.append((inputs[0], q.detach())))
    data = experience(16)
    next_action, bonus = torch.zeros(16, 2), torch.ones(16)
    metrics = critics.learn(data, next_action, bonus, cfg)
    ((pair, q),) = passes
    assert torch.equal(pair.obs["obs"], torch.cat((data.obs["obs"], data.next_obs["obs"])))
    assert torch.equal(pair.action, torch.cat((data.action, next_action)))
    target = data.reward + 0.9 * (q[:, 16:].amin(0) - 1)
    assert float(metrics["critic_loss"]) == pytest.approx(
        float(0.5 * (q[:, :16] - target).square().mean(1).sum()), rel=1e-5
    )


def test_the_target_of_a_joint_pass_lets_no_gradient_through():
    q = torch.randn(2, 8, requires_grad=True)
    batch = JointBatch({}, torch.zeros(8, 2), torch.randn(4), torch.full((4,), 0.9), None, None)
    loss, _ = joint_critic_loss(q, batch, SACConfig())
    loss.backward()
    assert float(q.grad[:, :4].abs().min()) > 0
    assert float(q.grad[:, 4:].abs().max()) == 0


def test_an_optimizer_of_critics_reaches_every_weight_of_theirs_and_nothing_else():
    for norm in ("none", "layer", "batch"):
        critics = learner(CriticConfig(norm=norm))
        assert critics.optimizer.flat.data.numel() == sum(weight.numel() for weight in critics.net.parameters())
        assert detached_view(critics.net) is not critics.net


# --- dropout ----------------------------------------------------------------------------------------------------------


def test_dropout_is_a_function_of_the_number_of_passes():
    drop, again, x = SeededDropout(0.25, 7), SeededDropout(0.25, 7), torch.ones(400, 50)
    first, second = drop(x), drop(x)
    assert first.unique().tolist() == pytest.approx([0.0, 1 / 0.75])
    assert (first == 0).float().mean().item() == pytest.approx(0.25, abs=0.01)
    assert not torch.equal(first, second)
    again.load_state_dict(drop.state_dict())
    assert torch.equal(again(x), drop(x)) and torch.equal(drop.eval()(x), x)


def test_critics_drop_units_in_learning_and_targets_but_not_for_the_actor():
    mine = learner(CriticConfig(dropout=0.5, norm="layer"))
    pair = StateAction({"obs": torch.ones(4, 3)}, torch.zeros(4, 2))
    assert not torch.equal(mine.net(pair), mine.net(pair)) and not torch.equal(mine.target(pair), mine.target(pair))
    assert torch.equal(mine.detached(pair), mine.detached(pair))
    seeds = [module.seed for module in mine.net.modules() if isinstance(module, SeededDropout)]
    assert len(seeds) == len(set(seeds)) == 4


def test_targets_of_chosen_critics_are_the_lowest_of_these():
    mine, rows = learner(CriticConfig(number=5)), experience()
    after = torch.zeros(len(rows), 2)
    seen = {}
    mine.improve = lambda loss, batch, cfg: seen.update(target=batch.target)
    mine.learn(rows, after, None, SACConfig(), [3, 1])
    with torch.no_grad():
        q = mine.target(StateAction(rows.next_obs, after))[[3, 1]].amin(0)
    torch.testing.assert_close(seen["target"], rows.reward + rows.discount * q, rtol=1e-5, atol=1e-5)
