"""Goal conditioning: layers whose weights come from the goal."""

import pytest
import torch
from gymnasium import spaces
from torch.nn import functional

from rookery.core.errors import ConfigError
from rookery.core.native import why_none
from rookery.core.spaces.arrays import obs_spec
from rookery.models.build import Encoder, GoalTrunk, ModelConfig, build_trunk
from rookery.models.hyper import HyperLinear
from rookery.models.layers import linear
from rookery.native.qualify import obstacle

SPACE = spaces.Dict(own=spaces.Box(-1, 1, (6,)), target=spaces.Box(-1, 1, (2,)), goal=spaces.Discrete(5))


def trunk(seed=0, space=SPACE, **settings):
    settings = {"goals": ("goal",), "hidden": (32, 16), **settings}
    spec = obs_spec(space, spaces.Discrete(2))
    return build_trunk(spec, ModelConfig(**settings), generator=torch.Generator().manual_seed(seed))


def rows(num=64):
    generator = torch.Generator().manual_seed(1)
    return {
        "own": torch.randn(num, 6, generator=generator),
        "target": torch.randn(num, 2, generator=generator),
        "goal": torch.randint(0, 5, (num,), generator=generator),
    }


def test_the_layer_is_a_plain_one_with_weights_for_each_row():
    layer = HyperLinear(3, 4, 5, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        layer.bias.normal_()
        layer.mixed_bias.normal_()
    x, goal = torch.randn(7, 3), torch.randn(7, 5)
    for row in range(7):
        e = goal[row] / goal[row].square().mean().sqrt()
        weight = (layer.shared.flatten() + layer.mixed @ e).view(3, 4).T
        bias = layer.bias + layer.mixed_bias @ e
        torch.testing.assert_close(layer(x, goal)[row], functional.linear(x[row], weight, bias), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
@pytest.mark.parametrize(("num_inputs", "num_outputs", "goal_size"), [(64, 64, 64), (32, 128, 8), (128, 32, 100)])
def test_the_generated_layer_starts_with_the_variance_of_a_plain_one_whatever_the_goal(
    num_inputs, num_outputs, goal_size, scale
):
    generator = torch.Generator().manual_seed(0)
    plain = linear(num_inputs, num_outputs, gain=2**0.5, generator=generator)
    for _ in range(3):
        layer = HyperLinear(num_inputs, num_outputs, goal_size, generator=generator)
        x = torch.randn(512, num_inputs, generator=generator)
        goal = scale * torch.randn(1, goal_size, generator=generator).expand(512, -1)
        assert layer(x, goal).var().item() == pytest.approx(plain(x).var().item(), rel=0.2)


def test_a_goal_of_zeros_leaves_a_layer_that_works():
    layer = HyperLinear(32, 32, 8, generator=torch.Generator().manual_seed(0))
    out = layer(torch.randn(64, 32), torch.zeros(64, 8))
    assert out.var().item() == pytest.approx(1.0, rel=0.2)  # the shared half


def test_the_last_hidden_layer_alone_comes_from_the_goal():
    net = trunk(hidden=(32, 24, 16))
    assert isinstance(net, GoalTrunk)
    assert [net.trunk.num_features, net.num_features] == [24, 16]
    assert [tuple(layer.weight.shape) for layer in net.trunk.layers] == [(24, 32)]
    assert net.layer.shape == (24, 16)


def test_the_goal_decides_the_features():
    net, tree = trunk(), rows()
    other = {**tree, "goal": (tree["goal"] + 1) % 5}
    assert (net(tree) - net(other)).abs().amax(1).gt(1e-2).all()
    assert net(tree).shape == (64, 16)


def test_goals_may_be_several_of_any_kind_and_one_hidden_layer_is_enough():
    net = trunk(goals=("goal", "target"), hidden=(16,))
    assert net.goal.num_features == 16
    assert net.layer.shape == (6 + 2 + 5, 16)  # the inputs themselves, categories as one-hots
    net(rows()).sum().backward()
    assert all(torch.isfinite(weight.grad).all() for weight in net.parameters())


def test_without_conditioning_the_goal_is_an_input_like_any_other():
    plain = trunk(goals=())
    assert isinstance(plain, Encoder)
    assert torch.equal(trunk(goal_conditioning="none")(rows()), plain(rows()))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"goals": ("gaol",)},
            "model.goals: the observation has no part 'gaol'; did you mean 'goal'.; it has own, target, goal",
        ),
        ({"hidden": ()}, "model.goal_conditioning=hyper .* model.hidden is empty: give it a layer"),
    ],
)
def test_settings_that_do_not_fit_are_refused_with_the_remedy(settings, problem):
    with pytest.raises(ConfigError, match=problem):
        trunk(**settings)


def test_what_one_goal_wants_can_be_the_contrary_of_what_another_wants():
    net, tree = trunk(goals=("goal",), hidden=(16, 1)), rows(256)
    sign = torch.where(tree["goal"] % 2 == 0, 1.0, -1.0)
    wanted = torch.tanh(tree["own"][:, :1] * sign.unsqueeze(1))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(200):
        loss = (net(tree) - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.02  # 0.4 for a net without the goal


def test_networks_with_goals_run_in_torch():
    assert obstacle(ModelConfig(), [trunk()], []) == "goal conditioning"
    assert obstacle(ModelConfig(), [trunk(goal_conditioning="none")], []) in ("", why_none())


def test_equal_generators_give_equal_nets():
    assert torch.equal(trunk(seed=3)(rows()), trunk(seed=3)(rows()))
    assert not torch.equal(trunk(seed=3)(rows()), trunk(seed=4)(rows()))


def test_rows_with_the_same_goal_share_its_weights_and_give_the_same(monkeypatch):
    net, tree = trunk(), rows()
    assert net._few_goals(tree) is not None
    shared = net(tree)
    grads = torch.autograd.grad(shared.square().sum(), list(net.parameters()), allow_unused=True)
    monkeypatch.setattr(net, "_choices", ())
    alone = net(tree)
    torch.testing.assert_close(shared, alone, rtol=1e-5, atol=1e-6)
    others = torch.autograd.grad(alone.square().sum(), list(net.parameters()), allow_unused=True)
    for mine, theirs in zip(grads, others, strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None:
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


def test_many_different_goals_have_weights_row_by_row():
    goals = {"goal": torch.arange(64)}
    obs = spaces.Dict({"own": spaces.Box(-1, 1, (6,)), "goal": spaces.Discrete(64)})
    cfg = ModelConfig(hidden=(8,), goals=("goal",))
    net = build_trunk(obs_spec(obs, spaces.Discrete(2)), cfg, generator=torch.Generator().manual_seed(0))
    tree = {"own": torch.randn(64, 6), **goals}
    assert net._few_goals(tree) is None
    assert net(tree).shape == (64, 8)
